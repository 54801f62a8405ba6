package needle_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/needle"
)

func must(t testing.TB, text string) needle.Needle {
	t.Helper()
	n, err := needle.New(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// inJSON writes a text as it stands inside a string of JSON.
func inJSON(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(b.String()), `"`), `"`)
}

// inASCII is inJSON by a writer that escapes all it can.
func inASCII(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r > 0xffff {
			hi, lo := 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff
			fmt.Fprintf(&b, `\u%04X\u%04x`, hi, lo)
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.String()
}

func inPercent(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, "%%%02X", s[i])
	}
	return b.String()
}

// codings are base64 of a text behind 0, 1 and 2 other bytes, as people meet it.
func codings(s string) map[string]string {
	out := map[string]string{}
	for before := range 3 {
		text := []byte(strings.Repeat("x", before+21) + s + "and more, and more again")
		out[fmt.Sprint("standard ", before)] = base64.StdEncoding.EncodeToString(text)
		out[fmt.Sprint("URL ", before)] = base64.RawURLEncoding.EncodeToString(text)
		var lines strings.Builder
		for all := base64.StdEncoding.EncodeToString(text); all != ""; {
			n := min(len(all), needle.ShortestLine+1)
			lines.WriteString(all[:n] + "\r\n")
			all = all[n:]
		}
		out[fmt.Sprint("lines ", before)] = lines.String()
	}
	return out
}

// spellings are all that the package promises to find.
func spellings(s string) map[string]string {
	out := map[string]string{
		"plain": s, "form": strings.ReplaceAll(s, " ", "+"), "query": url.QueryEscape(s), "path": url.PathEscape(s), "percent": inPercent(s),
		"json": inJSON(s), "ascii": inASCII(s), "slashes": strings.ReplaceAll(inJSON(s), "/", `\/`),
		"json twice": inJSON(inJSON(s)), "ascii twice": inJSON(inASCII(s)), "percent twice": url.QueryEscape(inPercent(s)),
		"json in a URL": url.QueryEscape(inJSON(s)), "ascii in a URL": inPercent(inASCII(s)),
		"half of it": inASCII(halves(s)[0]) + inJSON(halves(s)[1]),
	}
	if len(s) >= needle.ShortestCoded {
		for name, text := range codings(s) {
			out["base64 "+name] = text
			out["base64 in json "+name] = inJSON(text)
			out["base64 in a URL "+name] = url.QueryEscape(text)
		}
	}
	return out
}

// halves cuts a text between two characters.
func halves(s string) [2]string {
	runes := []rune(s)
	return [2]string{string(runes[:len(runes)/2]), string(runes[len(runes)/2:])}
}

var samples = []string{
	"sk-proj-AbCd0123456789", `pass"word\n`, "C:\\Users\\né\\key", "two words here", "a/b+c=d&e%20f", "line one\nline two\ttab", "ключ-密钥-🔑", "100%41", "\x00\x00\x00\x00\x00\x00\x00",
}

func TestEverySpellingIsFoundAndGoes(t *testing.T) {
	for _, s := range samples {
		n := must(t, s)
		for name, spelt := range spellings(s) {
			text := "before " + spelt + " after"
			if !n.In(text) {
				t.Errorf("%q: %s is not found in %q", s, name, text)
				continue
			}
			if n.Count(text) < 1 {
				t.Errorf("%q: %s is found and not counted", s, name)
			}
			erased, times := n.Marked().Erase(text)
			if times < 1 || n.In(erased) {
				t.Errorf("%q: %s leaves %q, %d times", s, name, erased, times)
			}
			if !strings.HasPrefix(erased, "before ") || !strings.HasSuffix(erased, " after") {
				t.Errorf("%q: %s took along what stood beside it: %q", s, name, erased)
			}
		}
	}
}

// Text is what sessions hold: mostly ordinary, with some of what makes trouble.
func text() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
			"a", "b", "ab", "A", " ", "+", "%", "%4", "%61", "%5C", `\`, `\\`, `\"`, `\u0061`, `\u00`, "\n", "\r\n", `"`, "YWFi", "é", "🔑", `\ud83d\udd11`, "[erased]", "***", "=", "/",
		}), 0, 24).Draw(t, "parts"), "")
	})
}

func TestWhatIsErasedHoldsNoSpelling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := text().Filter(func(s string) bool { return s != "" }).Draw(t, "needle")
		hay := text().Draw(t, "text")
		n, err := needle.New(s)
		if err != nil {
			t.Fatal(err)
		}
		erased, times := n.Marked().Erase(hay)
		if n.In(erased) {
			t.Fatalf("%q without %q is %q", hay, s, erased)
		}
		if (times == 0) != (erased == hay) && n.In(hay) {
			t.Fatalf("%d times, %q is %q", times, hay, erased)
		}
		if (times > 0) != n.In(hay) {
			t.Fatalf("found is %v, replaced %d times", n.In(hay), times)
		}
		if strings.Contains(hay, s) && !n.In(hay) {
			t.Fatalf("%q is not found in %q", s, hay)
		}
		if again, more := n.Marked().Erase(erased); more != 0 || again != erased {
			t.Fatalf("%q is erased again to %q", erased, again)
		}
	})
}

func TestATextWithoutTheNeedleStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hay := text().Draw(t, "text")
		n, err := needle.New("not among the parts")
		if err != nil {
			t.Fatal(err)
		}
		if got, times := n.Marked().Erase(hay); got != hay || times != 0 {
			t.Fatalf("%q became %q", hay, got)
		}
	})
}

// What stood beside the needle in base64 is still there, and the length too.
func TestOnlyTheNeedleGoesFromBase64(t *testing.T) {
	const s = "sk-secret"
	n := must(t, s)
	rapid.Check(t, func(t *rapid.T) {
		before, after := rapid.SliceOf(rapid.Byte()).Draw(t, "before"), rapid.SliceOf(rapid.Byte()).Draw(t, "after")
		encoded := base64.StdEncoding.EncodeToString(slices.Concat(before, []byte(s), after))
		if n.In(string(before) + string(after)) {
			t.Skip("they hold it too")
		}
		erased, _ := n.Marked().Erase(encoded)
		got, err := base64.StdEncoding.DecodeString(erased)
		want := slices.Concat(before, make([]byte, len(s)), after)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%q decodes to %q, %v; want %q", erased, got, err, want)
		}
	})
}

func TestJSONStaysJSON(t *testing.T) {
	const s = `q"uo\te` + "\nend"
	n := must(t, s)
	document := `{"a":"` + inJSON("x "+s+" y") + `","b":["` + inASCII(s) + `"],"c":"` + inJSON(`{"d":"`+inJSON(s)+`"}`) + `"}`
	for _, e := range []needle.Eraser{n.Marked(), mustWith(t, n, `say "gone"\`)} {
		erased, times := e.Erase(document)
		var v map[string]any
		if err := json.Unmarshal([]byte(erased), &v); err != nil || times != 3 {
			t.Fatalf("%d times: %s: %v", times, erased, err)
		}
		if got := v["a"]; got != "x "+e.Replacement()+" y" {
			t.Errorf("a is %q", got)
		}
		inner, _ := v["c"].(string)
		var w map[string]any
		if err := json.Unmarshal([]byte(inner), &w); err != nil || w["d"] != e.Replacement() {
			t.Errorf("the document inside is %s, %v", inner, err)
		}
	}
}

func mustWith(t testing.TB, n needle.Needle, with string) needle.Eraser {
	t.Helper()
	e, err := n.With(with)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestRefusals(t *testing.T) {
	for text, want := range map[string]error{
		"": needle.ErrEmpty, "\xff": needle.ErrNotText, strings.Repeat("x", needle.MaxSize+1): needle.ErrTooLong,
	} {
		if _, err := needle.New(text); !errors.Is(err, want) {
			t.Errorf("%.10q: %v, want %v", text, err, want)
		}
	}
	n := must(t, `a"b c`)
	for _, with := range []string{`a"b c`, `xa"b cx`, `a\"b c`, "a%22b+c"} {
		if _, err := n.With(with); !errors.Is(err, needle.ErrReplacement) {
			t.Errorf("%q replaces the needle: %v", with, err)
		}
	}
	if _, err := n.With(""); err != nil {
		t.Errorf("nothing cannot replace it: %v", err)
	}
}

// A mark that touches the needle could make it again with what stands beside it.
func TestAMarkIsToldFromTheNeedle(t *testing.T) {
	for s, want := range map[string]string{"secret": "[erased]", "e": "***", "*": "[erased]", "d]": "***", "[": "***", "erased": "***", "]***___": ""} {
		if got := must(t, s).Marked().Replacement(); got != want {
			t.Errorf("%q is marked by %q, want %q", s, got, want)
		}
	}
	n := must(t, "][")
	if got, _ := mustWith(t, n, "[x]").Erase("][]["); n.In(got) {
		t.Errorf("left is %q", got)
	}
}

func TestANeedleIsNeverPrinted(t *testing.T) {
	const s = "sk-secret-0123"
	n := must(t, s)
	type around struct {
		inside needle.Needle
		eraser needle.Eraser
	}
	for _, v := range []any{n, &n, n.Marked(), around{n, n.Marked()}, &around{n, n.Marked()}, []needle.Needle{n}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			if got := fmt.Sprintf(verb, v); n.In(got) || strings.Contains(got, fmt.Sprintf("%x", s)) {
				t.Errorf("%s of %T is %s", verb, v, got)
			}
		}
	}
	if _, err := n.With(s); strings.Contains(err.Error(), s) {
		t.Error(err)
	}
	if b, _ := json.Marshal([]any{n, n.Marked()}); n.In(string(b)) {
		t.Errorf("as JSON it is %s", b)
	}
}

// At each place in a stream, the edges of windows included.
func TestAStreamIsSearchedAcrossItsWindows(t *testing.T) {
	const s = "a \"secret\" and\nmore"
	n := must(t, s)
	for name, spelt := range spellings(s) {
		for _, at := range []int{0, 262144 - len(spelt) - 400, 262144 - len(spelt)/2, 262144 - 1, 262144 + 200} {
			hay := strings.Repeat(".", at) + spelt + strings.Repeat(".", 1000)
			found, err := n.InBytes(iotest.HalfReader(strings.NewReader(hay)))
			if err != nil || !found {
				t.Errorf("%s at %d: %v, %v", name, at, found, err)
			}
			var out bytes.Buffer
			times, err := n.Marked().Copy(&out, iotest.HalfReader(strings.NewReader(hay)))
			if want, wantTimes := n.Marked().Erase(hay); err != nil || out.String() != want || times != wantTimes {
				t.Errorf("%s at %d: copied %d bytes, %d times, %v; want %d, %d times", name, at, out.Len(), times, err, len(want), wantTimes)
			}
		}
	}
}

func TestAFileOfOursIsOneLayerMore(t *testing.T) {
	n := must(t, `a"b\c`)
	row := inJSON(inJSON(inJSON(`a"b\c`)))
	if found, err := n.InBytes(strings.NewReader(row)); err != nil || !found {
		t.Errorf("%q: %v, %v", row, found, err)
	}
}

func TestAStreamThatFailsIsAnError(t *testing.T) {
	n, broken := must(t, "x"), errors.New("broken")
	for _, r := range []io.Reader{iotest.ErrReader(broken), io.MultiReader(strings.NewReader("yyy"), iotest.ErrReader(broken))} {
		if _, err := n.InBytes(r); !errors.Is(err, broken) {
			t.Errorf("a search ends with %v", err)
		}
	}
	if _, err := n.Marked().Copy(io.Discard, iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("a copy ends with %v", err)
	}
	closed, w := io.Pipe()
	closed.Close()
	if _, err := n.Marked().Copy(w, strings.NewReader("xyz")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a copy to nowhere ends with %v", err)
	}
}

// A large needle must not make the search slow: a minute would show here.
func TestALargeNeedleInALargeText(t *testing.T) {
	s := strings.Repeat("ab", 1<<19)
	n := must(t, s)
	hay := strings.Repeat("a", 1<<21) + inASCII(s[:1000]) + s[1000:] + strings.Repeat("ab", 1<<18)
	erased, times := n.Marked().Erase(hay)
	if times != 1 || n.In(erased) {
		t.Errorf("%d times, %d bytes are left", times, len(erased))
	}
	if found, err := n.InBytes(strings.NewReader(hay)); err != nil || !found {
		t.Errorf("in a stream: %v, %v", found, err)
	}
}

func TestTheZeroNeedleIsNowhere(t *testing.T) {
	var n needle.Needle
	if found, err := n.InBytes(strings.NewReader("x")); n.In("x") || n.Count("") != 0 || n.Coded() || found || err != nil {
		t.Error("it was found")
	}
	if got, times := n.Marked().Erase("x"); got != "x" || times != 0 {
		t.Errorf("it was erased: %q", got)
	}
}

func FuzzErase(f *testing.F) {
	for _, s := range samples {
		for _, spelt := range spellings(s) {
			f.Add(s, spelt+spelt)
		}
	}
	f.Fuzz(func(t *testing.T, s, hay string) {
		n, err := needle.New(s)
		if err != nil {
			return
		}
		if erased, _ := n.Marked().Erase(hay); n.In(erased) {
			t.Errorf("%q without %q is %q", hay, s, erased)
		}
		found, err := n.InBytes(strings.NewReader(hay))
		if err != nil || n.In(hay) && !found {
			t.Errorf("%q is in the text %q and not in its bytes: %v", s, hay, err)
		}
	})
}

func BenchmarkInBytes(b *testing.B) {
	n := must(b, "sk-proj-AbCd0123456789")
	row := `{"content":[{"text":"` + strings.Repeat(`func main() {\n\tfmt.Println(\"hello %d\")\n}\n`, 40) + `"}]}`
	hay := strings.Repeat(row, 1000)
	b.SetBytes(int64(len(hay)))
	for b.Loop() {
		if found, err := n.InBytes(strings.NewReader(hay)); found || err != nil {
			b.Fatal(found, err)
		}
	}
}
