package jsonv_test

import (
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
	"pgregory.net/rapid"
)

func TestParseIsTheInverseOfAppend(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := coretest.Value().Draw(t, "value")
		text := want.Append(nil)
		if !jsontext.Value(text).IsValid() {
			t.Fatalf("%s is not JSON", text)
		}
		got, err := jsonv.Parse(text)
		if err != nil || !got.Equal(want) || string(got.Append(nil)) != string(text) {
			t.Fatalf("%s reads as %s, %v", text, got, err)
		}
	})
}

func nested(open, inner, closing string, n int) string {
	return strings.Repeat(open, n) + inner + strings.Repeat(closing, n)
}

func TestContainersNestTo256(t *testing.T) {
	for _, c := range []struct {
		open, inner, closing string
		fits                 int
	}{
		{"[", "", "]", 256}, {"[", "1", "]", 256}, {`{"a":`, "{}", "}", 255}, {`[{"a":`, "1", "}]", 128}, {"[[],", "2", "]", 255},
	} {
		fits := c.fits
		v, err := jsonv.ParseString(nested(c.open, c.inner, c.closing, fits))
		if err != nil {
			t.Errorf("%s %d times: %v", c.open, fits, err)
		} else if d := v.Depth(); d != jsonv.MaxDepth {
			t.Errorf("%s %d times: depth %d", c.open, fits, d)
		}
		_, err = jsonv.ParseString(nested(c.open, c.inner, c.closing, fits+1))
		if r, ok := corrupt.As(err); !ok || !strings.Contains(r.Expected, "256") {
			t.Errorf("%s %d times: %v", c.open, fits+1, err)
		}
	}
	// Siblings are not depth, and what is never closed is not followed.
	if _, err := jsonv.ParseString("[" + strings.Repeat("[],", 5000) + "[]]"); err != nil {
		t.Error(err)
	}
	if _, err := jsonv.ParseString(strings.Repeat("[", 10_000_000)); err == nil {
		t.Error("ten million open arrays were accepted")
	}
}

// escaped is the oracle's spelling of one rune.
func escaped(dst []byte, r rune, upper bool) []byte {
	form := `\u%04x`
	if upper {
		form = `\u%04X`
	}
	if r1, r2 := utf16.EncodeRune(r); r1 != utf8.RuneError {
		return fmt.Appendf(fmt.Appendf(dst, form, r1), form, r2)
	}
	return fmt.Appendf(dst, form, r)
}

// written is the oracle of the writer, one code point at a time.
func written(s string) string {
	short := map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}
	out := `"`
	for _, r := range s {
		switch form, ok := short[r]; {
		case ok:
			out += form
		case r < ' ':
			out += string(escaped(nil, r, false))
		default:
			out += string(r)
		}
	}
	return out + `"`
}

// Every code point that is special somewhere, at each offset of the eight bytes that are looked at together, behind text of one to four bytes a
// character and before text of any length.
func TestStringsAgainstACodePointOracle(t *testing.T) {
	var points []rune
	for r := rune(0); r < 0x300; r++ {
		points = append(points, r)
	}
	points = append(points, 0x7ff, 0x800, 0x2028, 0x2029, 0xd7ff, 0xe000, 0xfeff, 0xfffd, 0xffff, 0x10000, 0x1d11e, 0x10ffff)
	for _, fill := range []string{"x", "é", "世", "😀"} {
		for before := range 17 {
			for after := range []int{0, 1, 9} {
				for _, r := range points {
					want := strings.Repeat(fill, before) + string(r) + strings.Repeat(fill, after)
					head, tail := `"`+strings.Repeat(fill, before), strings.Repeat(fill, after)+`"`
					spellings := []string{written(want), head + string(escaped(nil, r, false)) + tail, head + string(escaped(nil, r, true)) + tail}
					if r == '/' {
						spellings = append(spellings, head+`\/`+tail)
					}
					for _, text := range spellings {
						v, err := jsonv.ParseString(text)
						if got, _ := v.Text(); err != nil || got != want {
							t.Fatalf("%s reads as %q, %v; want %q", text, got, err, want)
						}
					}
					if got := string(jsonv.AppendString(nil, want)); got != spellings[0] {
						t.Fatalf("%q is written as %s, want %s", want, got, spellings[0])
					}
				}
			}
		}
	}
}

func TestStringsOfAnyContent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := coretest.Text().Draw(t, "text")
		if got := string(jsonv.AppendString([]byte("before"), want)); got != "before"+written(want) {
			t.Fatalf("%q is written as %s", want, got)
		}
		v, err := jsonv.ParseString(string(spell(t, nil, want)))
		if got, _ := v.Text(); err != nil || got != want {
			t.Fatalf("%q reads as %q, %v", want, got, err)
		}
	})
}

func TestBytesThatAreNotUTF8AreWrittenAsReplacements(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := coretest.Bytes().Draw(t, "bytes")
		v, err := jsonv.Parse(jsonv.AppendString(nil, s))
		if got, _ := v.Text(); err != nil || got != string([]rune(s)) {
			t.Fatalf("%q reads back as %q, %v", s, got, err)
		}
	})
}

func TestRawControlsAreRefusedWhereTheyStand(t *testing.T) {
	for c := range byte(' ') {
		for offset := range 20 {
			for _, fill := range []string{"x", "é"} {
				text := `"` + strings.Repeat(fill, offset) + string(rune(c)) + `more"`
				_, err := jsonv.ParseString(text)
				r, ok := corrupt.As(err)
				if want := fmt.Sprintf("offset %d", offset+1); !ok || r.Subject != want {
					t.Fatalf("%q: %v, want one at %s", text, err, want)
				}
			}
		}
	}
}

func TestTextsThatAreRefused(t *testing.T) {
	for _, c := range []struct{ text, subject, expected, context string }{
		{``, "offset 0", "a value", "the end of input"},
		{" \n", "offset 2", "a value", "the end of input"},
		{`"é" x`, "offset 4", "the end of the document", "x"},
		{`null null`, "offset 5", "the end of the document", "null"},
		{`[1,]`, "offset 3", "a value", "]"},
		{`[1 2]`, "offset 3", "a comma or ]", "2]"},
		{`{"a":1,}`, "offset 7", "a field name", "}"},
		{`{"a" 1}`, "offset 5", "a colon", "1}"},
		{`{a:1}`, "offset 1", "a field name", "a:1}"},
		{`{"a":1,"b":2,"a":3}`, "offset 13", "each field name once", `"a":3}`},
		{`{"a":1,"\u0061":3}`, "offset 7", "each field name once", `"\u0061":3}`},
		{`"abc`, "offset 4", "a closing quote", "the end of input"},
		{`"a\`, "offset 2", "an escape", `\`},
		{`"\x"`, "offset 1", "one of the escapes of JSON", `\x"`},
		{`"\u12g4"`, "offset 1", "four hexadecimal digits", `\u12g4"`},
		{`"\ud800"`, "offset 1", "no lone surrogate", `\ud800"`},
		{`"\udc00"`, "offset 1", "no lone surrogate", `\udc00"`},
		{`"\ud800\u0041"`, "offset 1", "a low surrogate", `\ud800\u0041"`},
		{`"\ud800\ud800"`, "offset 1", "a low surrogate", `\ud800\ud800"`},
		{"\"\xff\"", "offset 1", "valid UTF-8", "\ufffd\""},
		{"\"é\xed\xa0\x80\"", "offset 2", "valid UTF-8", "\ufffd\""},
		{`01`, "offset 1", "the end of the document", "1"},
		{`-`, "offset 1", "a digit", "the end of input"},
		{`1.`, "offset 2", "a digit after the point", "the end of input"},
		{`1.e3`, "offset 2", "a digit after the point", "e3"},
		{`1e+`, "offset 3", "a digit in the exponent", "the end of input"},
		{`[1e309]`, "offset 1", "a number that a double can hold", "1e309]"},
		{`-1e309`, "offset 0", "a number that a double can hold", "-1e309"},
		{`tru`, "offset 0", "true", "tru"},
		{`nul`, "offset 0", "null", "nul"},
		{`fals`, "offset 0", "false", "fals"},
		{"\ufeff1", "offset 0", "a value", "\ufeff1"},
		{`[` + strings.Repeat("x", 1000), "offset 1", "a value", strings.Repeat("x", 24)},
		{`[` + strings.Repeat("世", 1000), "offset 1", "a value", strings.Repeat("世", 24)},
	} {
		_, err := jsonv.ParseString(c.text)
		got, ok := corrupt.As(err)
		if !ok {
			t.Errorf("%.40q: no report: %v", c.text, err)
			continue
		}
		want := &corrupt.Report{Boundary: "jsonv.Parse", Subject: c.subject, Expected: c.expected, Context: c.context}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%.40q: %s", c.text, d)
		}
	}
}

func TestEveryPrefixOfADocumentIsRefused(t *testing.T) {
	const text = `{"a\n":[1,-2.5e+3,"\ud834\udd1eé",{"b":null,"c":[true,false]},[],{}],"d":""}`
	if _, err := jsonv.ParseString(text); err != nil {
		t.Fatal(err)
	}
	for n := range len(text) {
		if v, err := jsonv.ParseString(text[:n]); err == nil {
			t.Errorf("%q reads as %s", text[:n], v)
		}
	}
}

func TestNumbersKeepTheirLiteral(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lit := coretest.Number().Draw(t, "literal")
		v, err := jsonv.ParseString(lit)
		if err != nil {
			t.Fatal(err)
		}
		kind := jsonv.Int
		if strings.ContainsAny(lit, ".eE") {
			kind = jsonv.Float
		}
		if got, ok := v.Literal(); !ok || got != lit || v.Kind() != kind || v.String() != lit {
			t.Fatalf("%s reads as %v %s", lit, v.Kind(), v)
		}
		n, isInt := v.BigInt()
		if isInt != (kind == jsonv.Int) {
			t.Fatalf("%s: an integer: %v", lit, isInt)
		}
		if isInt && n.Sign() != 0 && n.String() != lit {
			t.Fatalf("%s became %s", lit, n)
		}
		if small, ok := v.Int64(); ok != (isInt && n.IsInt64()) || ok && small != n.Int64() {
			t.Fatalf("%s: Int64 is %d, %v", lit, small, ok)
		}
	})
}

func TestIntegersOfAnySizeSurvive(t *testing.T) {
	for _, digits := range []int{18, 19, 20, 100, 400, 100_000} {
		for _, sign := range []string{"", "-"} {
			lit := sign + "9" + strings.Repeat("01234567890", digits)[:digits-1]
			v, err := jsonv.ParseString("[" + lit + "]")
			if err != nil || v.String() != "["+lit+"]" || v.At(0).Kind() != jsonv.Int {
				t.Errorf("%d digits: %v %.60s", digits, err, v)
			}
			if digits > 100 {
				continue
			}
			n, _ := new(big.Int).SetString(lit, 10)
			if !jsonv.BigNum(n).Equal(v.At(0)) {
				t.Errorf("BigNum(%s) is another value", lit)
			}
		}
	}
}

func TestNamesAreComparedOnceEach(t *testing.T) {
	// The same object with 300,000 fields, whose last repeats a name or does not. A comparison with every earlier name would take minutes.
	var b strings.Builder
	for i := range 300_000 {
		fmt.Fprintf(&b, `"field %d":%d,`, i, i)
	}
	if v, err := jsonv.ParseString("{" + b.String() + `"last":0}`); err != nil || v.Len() != 300_001 {
		t.Error(v.Len(), err)
	}
	_, err := jsonv.ParseString("{" + b.String() + `"f\u0069eld 7":0}`)
	if r, ok := corrupt.As(err); !ok || r.Expected != "each field name once" {
		t.Errorf("%v", err)
	}
}

func TestARepeatedNameIsFoundInObjectsOfAnySize(t *testing.T) {
	for size := 1; size < 60; size++ {
		for repeated := range size {
			var b strings.Builder
			for i := range size {
				fmt.Fprintf(&b, `"n\u006f%d":{"no%d":[]},`, i, repeated) // the same name inside is another object's
			}
			if _, err := jsonv.ParseString("{" + strings.TrimSuffix(b.String(), ",") + "}"); err != nil {
				t.Fatalf("%d distinct names: %v", size, err)
			}
			if _, err := jsonv.ParseString(fmt.Sprintf(`{%s"no%d":1}`, b.String(), repeated)); err == nil {
				t.Fatalf("name %d of %d was accepted twice", repeated, size)
			}
		}
	}
}

// Parsers share scratch memory; values must not.
func TestAValueStaysWhatItWasWhenOthersAreParsed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := make([][]byte, 6)
		values := make([]jsonv.Value, len(texts))
		for i := range texts {
			texts[i] = jsonv.Arr(coretest.Object().Draw(t, "object"), coretest.Value().Draw(t, "value")).Append(nil)
			v, err := jsonv.Parse(texts[i])
			if err != nil {
				t.Fatal(err)
			}
			values[i] = v
			if _, err := jsonv.Parse(texts[i][:len(texts[i])-1]); err == nil {
				t.Fatal("half a text was accepted")
			}
		}
		for i, v := range values {
			if got := v.Append(nil); string(got) != string(texts[i]) {
				t.Fatalf("%s has become %s", texts[i], got)
			}
		}
	})
}

func TestTextsAreParsedAtTheSameTime(t *testing.T) {
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := range 200 {
				want := fmt.Sprintf(`{"n\n":[%d,"%s\t",{"a":{"b":[%d]}}]}`, n, strings.Repeat("x", i), i)
				v, err := jsonv.ParseString(want)
				if err != nil || v.String() != want {
					t.Errorf("%s reads as %s, %v", want, v, err)
				}
			}
		})
	}
	wg.Wait()
}
