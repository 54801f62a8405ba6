package say_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/client/say"
)

// hostile is any bytes, with a liking for what terminals obey.
func hostile() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.String(),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		rapid.Map(rapid.SliceOf(rapid.SampledFrom([]string{
			"\x1b[31m", "\x1b]0;title\x07", "\x9b", "\u009b", "\u202e", "\u2066", "\u200d", "\r", "\n", "\t", "\x00", "\x7f", "é", "漢", "😀", "\xc3", "\xf0\x9f", "a", " ", `\`, "\U000e0041",
		})), func(parts []string) string { return strings.Join(parts, "") }),
	)
}

// fit fails unless every character may reach a screen.
func fit(t interface{ Fatalf(string, ...any) }, s string) {
	if !utf8.ValidString(s) {
		t.Fatalf("%q is not UTF-8", s)
	}
	for _, r := range s {
		if r != '\n' && r != '\t' && (r < 0x20 || r == 0x7f || (r >= 0x80 && r < 0xa0)) {
			t.Fatalf("%q lets the control %U through", s, r)
		}
		if strings.ContainsRune("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029", r) {
			t.Fatalf("%q lets %U through", s, r)
		}
	}
}

func TestNothingHiddenReachesAScreen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, limit := hostile().Draw(t, "in"), rapid.IntRange(-1, 40).Draw(t, "limit")
		fit(t, say.All(in))
		fit(t, say.Clean(in, limit))
		line := say.Line(in, limit)
		fit(t, line)
		if strings.ContainsAny(line, "\n\t") || strings.TrimSpace(line) != line && !strings.HasSuffix(line, say.Ellipsis) {
			t.Fatalf("%q is not one trimmed line", line)
		}
	})
}

func TestCleanTextStaysAsItIs(t *testing.T) {
	for _, s := range []string{"", "plain\n\tindented", "né 漢字 😀", "👩\u200d💻", `C:\new\table`, "<a&b>"} {
		if got := say.All(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		once := say.All(hostile().Draw(t, "in"))
		if twice := say.All(once); twice != once {
			t.Fatalf("%q became %q the second time", once, twice)
		}
	})
}

func TestTheEscapedWholeIsTheEscapedParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.Map(hostile(), func(s string) string { return strings.ToValidUTF8(s, "?") })).Draw(t, "parts")
		var b strings.Builder
		for _, p := range parts {
			b.WriteString(say.All(p))
		}
		if whole := say.All(strings.Join(parts, "")); whole != b.String() {
			t.Fatalf("whole %q, parts %q", whole, b.String())
		}
	})
}

func TestTheBoundComesFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, limit := hostile().Draw(t, "in"), rapid.IntRange(0, 40).Draw(t, "limit")
		got := say.Clean(in, limit)
		kept, cut := strings.CutSuffix(got, say.Ellipsis)
		switch {
		case len(in) <= limit:
			if got != say.All(in) {
				t.Fatalf("a text within the bound became %q", got)
			}
		case !cut:
			t.Fatalf("%q does not tell that it was cut", got)
		default:
			// What is kept is the escape of a prefix of at most limit bytes: no escape was cut.
			for n := max(0, limit-3); n <= limit; n++ {
				if say.All(in[:n]) == kept {
					return
				}
			}
			t.Fatalf("%q is not an escaped prefix of %q", kept, in)
		}
	})
	if got := say.Clean("漢字", 4); got != "漢…" {
		t.Errorf("cut inside a character: %q", got)
	}
	if got := say.Clean("a\x1b[31m", 2); got != `a\e…` {
		t.Errorf("cut after a control: %q", got)
	}
}

func TestEscapesSayWhatWasThere(t *testing.T) {
	for in, want := range map[string]string{
		"\x1b[2J":          `\e[2J`,
		"a\rb":             `a\rb`,
		"\x07\x00\x7f":     `\x07\x00\x7f`,
		"\u009b31m":        `\u009b31m`,
		"\x9b31m":          `\x9b31m`,
		"rm \u202etxt.exe": `rm \u202etxt.exe`,
		"\U000e0041":       `\U000e0041`,
		"\u2028":           `\u2028`,
	} {
		if got := say.All(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	if got := say.Line("  a\n\n b\tc \x1b ", 100); got != `a b c \e` {
		t.Errorf("line: %q", got)
	}
}

func FuzzAll(f *testing.F) {
	f.Add("\x1b]52;c;aGk=\x07", 3)
	f.Fuzz(func(t *testing.T, in string, limit int) {
		fit(t, say.All(in))
		fit(t, say.Clean(in, limit%100))
		fit(t, say.Line(in, limit%100))
	})
}

func BenchmarkAllPlain(b *testing.B) {
	text := strings.Repeat("a line of ordinary text, sixty bytes or so, with a newline\n", 100)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		say.All(text)
	}
}

func TestJSONSaysTheSameAndHidesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := strings.ToValidUTF8(hostile().Draw(t, "in"), "?")
		var document bytes.Buffer
		e := json.NewEncoder(&document)
		e.SetEscapeHTML(false)
		if err := e.Encode(map[string]string{in: in}); err != nil {
			t.Fatal(err)
		}
		got := say.JSON(document.Bytes())
		fit(t, string(got))
		var back map[string]string
		if err := json.Unmarshal(got, &back); err != nil || back[in] != in || len(back) != 1 {
			t.Fatalf("%q became %q: %v", document.Bytes(), got, err)
		}
	})
}
