package corrupt_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
	"github.com/google/go-cmp/cmp"
	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/corrupt"
	"pgregory.net/rapid"
)

const family = "👨‍👩‍👧‍👦" // one grapheme of 25 bytes

func count(s string) (n int) {
	for g := graphemes.FromString(s); g.Next(); n++ {
	}
	return n
}

func TestClipIsAPrefixThatLosesNoPartOfAGrapheme(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(coretest.Text(), coretest.Bytes(), rapid.SampledFrom([]string{strings.Repeat(family, 9), "e\u0301e\u0301e\u0301e\u0301", "\r\n\r\n\r\n\r\n"})).Draw(t, "text")
		limit := rapid.IntRange(-1, 40).Draw(t, "limit")
		got := corrupt.Clip(text, limit)
		if !strings.HasPrefix(text, got) {
			t.Fatalf("Clip(%q, %d) = %q, not its start", text, limit, got)
		}
		want := min(max(limit, 0), count(text))
		if len(text) <= 32*limit && count(got) != want {
			t.Fatalf("Clip(%q, %d) = %q: %d graphemes, want %d", text, limit, got, count(got), want)
		}
		if count(got) > want {
			t.Fatalf("Clip(%q, %d) = %q: %d graphemes", text, limit, got, count(got))
		}
	})
}

func TestClipBounds(t *testing.T) {
	for _, c := range []struct {
		name, text  string
		limit, want int // want is the length in bytes
	}{
		{"nothing is allowed", "abc", 0, 0},
		{"less than nothing is allowed", "abc", -3, 0},
		{"short text is kept", "abc", 3, 3},
		{"ASCII", strings.Repeat("x", 300), 256, 256},
		{"three bytes each", strings.Repeat("世", 300), 256, 768},
		{"families", strings.Repeat(family, 1100), 1024, 1024 * 25},
		{"one letter with a million marks", coretest.Zalgo(1_000_000), 256, 256*32 - 1}, // 1 + 2n is odd: no half code point
		{"marks after text", "ab" + coretest.Zalgo(1_000_000), 256, 2},
		{"invalid bytes", strings.Repeat("\xff", 300), 256, 256},
		{"a broken code point at the bound", strings.Repeat("\xf0\x9f", 16*10) + "\xf0", 10, 20},
		{"only continuation bytes", strings.Repeat("\x80", 1000), 2, 2},
		{"line ends", strings.Repeat("\r\n", 10), 4, 8},
	} {
		if got := corrupt.Clip(c.text, c.limit); len(got) != c.want {
			t.Errorf("%s: %d bytes (%.40q), want %d", c.name, len(got), got, c.want)
		}
	}
}

func TestAContextHas256GraphemesAtTheMost(t *testing.T) {
	for _, n := range []int{255, 256, 257, 10_000} {
		text := strings.Repeat("👩‍👩‍👧", n)
		if got, want := count(corrupt.New("a.b", "x", "c", text).Context), min(n, 256); got != want {
			t.Errorf("of %d graphemes %d are kept, want %d", n, got, want)
		}
	}
}

func TestReportsAreBoundedValidAndPrintable(t *testing.T) {
	long := strings.Repeat("界", 5000)
	for _, hostile := range []string{
		long, coretest.Zalgo(100_000), strings.Repeat("\xff\x80", 5000), "\x1b]0;title\a\r\nnext\u2028\u2029\u202ereversed\u2066\x00\x9b",
	} {
		for _, r := range []*corrupt.Report{corrupt.New("a.b", hostile, "c", hostile), corrupt.New("a.b", "x", "c", hostile).In(hostile).In("outer")} {
			if n := count(r.Subject); n > corrupt.MaxSubject {
				t.Errorf("subject has %d graphemes", n)
			}
			if n := count(r.Context); n > corrupt.MaxContext {
				t.Errorf("context has %d graphemes", n)
			}
			line := r.Error()
			if len(line) > 32*(corrupt.MaxSubject+corrupt.MaxContext)*2 || !utf8.ValidString(line) || !utf8.ValidString(r.Subject+r.Context) {
				t.Errorf("%d bytes, valid %v: %.80q", len(line), utf8.ValidString(line), line)
			}
			if i := strings.IndexFunc(line, func(c rune) bool { return unicode.IsControl(c) || strings.ContainsRune("\u2028\u2029\u202e\u2066", c) }); i >= 0 {
				t.Errorf("control at %d: %.80q", i, line)
			}
		}
	}
}

func TestAReportNamesThePathAndSurvivesWrapping(t *testing.T) {
	inner := corrupt.New("usage.Decode", "input", "an integer", "\"many\"")
	err := fmt.Errorf("read row 7: %w", inner.In("usage").In("message"))
	r, ok := corrupt.As(err)
	if !ok {
		t.Fatal("no report inside", err)
	}
	want := &corrupt.Report{Boundary: "usage.Decode", Subject: "message.usage.input", Expected: "an integer", Context: `"many"`}
	if d := cmp.Diff(want, r); d != "" {
		t.Error(d)
	}
	if inner.Subject != "input" {
		t.Errorf("In changed the report it was called on: %q", inner.Subject)
	}
	if got, want := r.Error(), `corrupt: usage.Decode: message.usage.input: expected an integer, saw "many"`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := corrupt.New("a.b", "c", "d", "").Error(); got != "corrupt: a.b: c: expected d, saw nothing" {
		t.Errorf("empty context: %q", got)
	}
	if _, ok := corrupt.As(errors.New("other")); ok {
		t.Error("a report inside another error")
	}
}
