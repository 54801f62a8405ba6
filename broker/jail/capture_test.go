package jail

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// writes is a stream cut into arbitrary pieces.
func writes(t *rapid.T) [][]byte {
	piece := rapid.Custom(func(t *rapid.T) []byte {
		if rapid.Bool().Draw(t, "text") {
			return []byte(rapid.StringN(0, 40, 200).Draw(t, "runes"))
		}
		return rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "bytes")
	})
	return rapid.SliceOfN(piece, 0, 40).Draw(t, "pieces")
}

func TestACaptureKeepsBothEndsAndCountsTheRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRecorder()
		r.headLimit = rapid.IntRange(1, 100).Draw(t, "head")
		r.tailLimit = rapid.IntRange(1, 100).Draw(t, "tail")
		var all []byte
		for _, p := range writes(t) {
			r.write(p)
			all = append(all, p...)
		}
		c := r.finish()
		if c.Total() != int64(len(all)) {
			t.Fatalf("total %d, wrote %d", c.Total(), len(all))
		}
		if want := max(0, len(all)-r.headLimit-r.tailLimit); c.Omitted() != int64(want) {
			t.Fatalf("omitted %d, want %d", c.Omitted(), want)
		}
		if !bytes.HasPrefix(all, c.Head()) || !bytes.HasSuffix(all, c.Tail()) {
			t.Fatalf("head %q and tail %q are not the ends of %q", c.Head(), c.Tail(), all)
		}
		if len(c.Head()) > r.headLimit || len(c.Tail()) > r.tailLimit {
			t.Fatal("kept more than the limits")
		}
	})
}

func TestAWindowIsValidTextFromTheEndOfTheStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRecorder()
		r.headLimit = rapid.IntRange(1, 3*WindowLimit).Draw(t, "head")
		r.tailLimit = rapid.IntRange(WindowLimit, 2*WindowLimit).Draw(t, "tail")
		filler := rapid.IntRange(0, 4*WindowLimit).Draw(t, "filler")
		all := []byte(strings.Repeat("é", filler/2))
		r.write(all)
		for _, p := range writes(t) {
			r.write(p)
			all = append(all, p...)
		}
		w := r.window()
		if w.Total != int64(len(all)) {
			t.Fatalf("total %d, wrote %d", w.Total, len(all))
		}
		if !utf8.ValidString(w.Text) || len(w.Text) > WindowLimit {
			t.Fatalf("window of %d bytes, valid %v", len(w.Text), utf8.ValidString(w.Text))
		}
		if !utf8.Valid(all) {
			return
		}
		if !strings.HasSuffix(string(all), w.Text) {
			t.Fatalf("window %q is not the end of the stream", w.Text)
		}
		if len(w.Text) < min(len(all), WindowLimit-utf8.UTFMax+1) {
			t.Fatalf("window of %d bytes for a stream of %d", len(w.Text), len(all))
		}
	})
}

func TestAWindowHoldsBackAnIncompleteCharacter(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"two of three bytes", "a\xe2\x82", "a"},
		{"all three", "a\xe2\x82\xac", "a€"},
		{"one of four", "a\xf0", "a"},
		{"a lone continuation", "a\x80", "a\uFFFD"},
		{"never valid", "a\xff", "a\uFFFD"},
		{"nothing", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRecorder()
			r.write([]byte(c.in))
			if got := r.window().Text; got != c.want {
				t.Errorf("window of %q is %q, want %q", c.in, got, c.want)
			}
		})
	}
}
