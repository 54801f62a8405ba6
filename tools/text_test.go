package tools

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/loom-run/loom/blob"
	"github.com/loom-run/loom/broker/jail"
	"github.com/loom-run/loom/core/jsonv"
	"pgregory.net/rapid"
)

// someBytes are text, broken text and NULs in every mixture.
func someBytes() *rapid.Generator[[]byte] {
	return rapid.SliceOfN(rapid.SampledFrom([]byte{'a', '\n', 0, 0x80, 0xc3, 0xa9, 0xe2, 0x82, 0xac, 0xf0, 0x9f, 0x98, 0x80, 0xff}), 0, 40)
}

func TestPrintableReplacesByteByByteAndCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := someBytes().Draw(t, "in")
		text, replaced := Printable(in)
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			t.Fatalf("%q", text)
		}
		if got := strings.Count(text, "\uFFFD"); got != replaced {
			t.Fatalf("%d replacements, said %d", got, replaced)
		}
		if len(text) != len(in)+2*replaced {
			t.Fatalf("%d bytes became %d with %d replaced", len(in), len(text), replaced)
		}
		if size, n := measure(in); size != len(text) || n != replaced {
			t.Fatalf("measured %d, %d; is %d, %d", size, n, len(text), replaced)
		}
		if again, n := Printable([]byte(text)); again != text || n != 0 {
			t.Fatalf("not a fixed point: %q", again)
		}
	})
}

func TestWhatStaysFitsAndTheLongestGoFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(0, 100), 0, 5).Draw(t, "sizes")
		limit := rapid.IntRange(0, 200).Draw(t, "limit")
		spill := fitting(sizes, limit)
		stays, total := 0, 0
		for i, n := range sizes {
			total += n
			if !spill[i] {
				stays += n
			}
			for j, m := range sizes {
				if spill[j] && !spill[i] && n > m {
					t.Fatalf("%v, %d: spilled %d rather than %d", sizes, limit, m, n)
				}
			}
		}
		if stays > limit {
			t.Fatalf("%v: %d stay, limit %d", sizes, stays, limit)
		}
		if total <= limit && stays != total {
			t.Fatalf("%v fit in %d, but something was spilled", sizes, limit)
		}
	})
}

func TestRenderKeepsWhatItDoesNotShow(t *testing.T) {
	dir := t.TempDir()
	k := toolkit{blobs: blob.Open(dir)}
	gapNote := regexp.MustCompile(`\n\[\.\.\. \d+ bytes? not kept \.\.\.\]\n`)
	rapid.Check(t, func(t *rapid.T) {
		in := bytes.Repeat(someBytes().Draw(t, "in"), rapid.SampledFrom([]int{1, 100, 10_000}).Draw(t, "times"))
		o := newOutput("stdout", jail.NewCapture(bytes.Clone(in)))
		text, refs := k.render(o)
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) || len(text) > TextLimit+1<<10 {
			t.Fatalf("%d bytes of text", len(text))
		}
		whole, replaced := Printable(in)
		needsBlob := replaced > 0 || len(whole) > TextLimit
		if needsBlob != (len(refs) == 1) {
			t.Fatalf("%d bytes, %d replaced: %d blobs", len(whole), replaced, len(refs))
		}
		if !needsBlob {
			if want := "stdout:\n" + strings.TrimSuffix(whole, "\n"); len(in) > 0 && text != want {
				t.Fatalf("got %q, want %q", text, want)
			}
			return
		}
		details := jsonv.Obj(blobDetails(refs)...)
		found, err := blob.InDetails(&details)
		if err != nil || len(found) != 1 {
			t.Fatalf("%v, %v", found, err)
		}
		if !strings.Contains(text, found[0].SHA256) {
			t.Fatal("the text does not name the blob")
		}
		r, err := k.blobs.Open(found[0])
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Close() }()
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, in) {
			t.Fatalf("the blob has %d bytes of %d, %v", len(got), len(in), err)
		}
		if gapNote.MatchString(text) {
			t.Fatal("a gap is told where none is")
		}
	})
}

func TestWithoutAStoreTheTextSaysSo(t *testing.T) {
	text, refs := toolkit{}.render(newOutput("stdout", jail.NewCapture([]byte("a\x00"))))
	if want := "stdout: [1 byte replaced by U+FFFD: NUL or not UTF-8] [2 bytes in all, not kept: this session keeps no blobs]\na\uFFFD"; text != want || refs != nil {
		t.Errorf("got %q, %v", text, refs)
	}
	broken := toolkit{blobs: blob.Open("/dev/null/blobs")}
	if text, refs := broken.render(newOutput("stdout", jail.NewCapture([]byte("a\x00")))); !strings.Contains(text, "not kept: blob: make the folder") || refs != nil {
		t.Errorf("got %q, %v", text, refs)
	}
}

func TestClipCutsAtCharacters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, n := rapid.String().Draw(t, "s"), rapid.IntRange(0, 20).Draw(t, "n")
		got := clip(s, n)
		if !utf8.ValidString(got) || len(s) <= n && got != s || len(s) > n && (len(got) > n+len("…") || !strings.HasPrefix(s, strings.TrimSuffix(got, "…"))) {
			t.Fatalf("clip(%q, %d) = %q", s, n, got)
		}
	})
}

func FuzzPrintable(f *testing.F) {
	f.Add([]byte("ok\x00\xff\xe2\x80\xa8"))
	f.Fuzz(func(t *testing.T, in []byte) {
		text, replaced := Printable(in)
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) || len(text) != len(in)+2*replaced {
			t.Errorf("%q becomes %q, %d replaced", in, text, replaced)
		}
	})
}
