package blob_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/loom-run/loom/blob"
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
	"pgregory.net/rapid"
)

func read(t interface{ Fatal(...any) }, s *blob.Store, ref blob.Ref) []byte {
	r, err := s.Open(ref)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestWhatWasPutIsReadBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s.blobs")
	s := blob.Open(dir)
	distinct := map[string]blob.Ref{}
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
		ref, err := s.PutBytes(p)
		if err != nil {
			t.Fatal(err)
		}
		if ref.Size != int64(len(p)) || !bytes.Equal(read(t, s, ref), p) {
			t.Fatalf("put %d bytes, got %+v", len(p), ref)
		}
		if earlier, ok := distinct[string(p)]; ok && earlier != ref {
			t.Fatalf("equal bytes have the names %+v and %+v", earlier, ref)
		}
		distinct[string(p)] = ref
	})
	if got := len(names(t, dir)); got != len(distinct) {
		t.Errorf("%d files for %d distinct blobs", got, len(distinct))
	}
}

func TestTheFolderIsCreatedByTheFirstPutForTheOwnerAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s.blobs")
	s := blob.Open(dir)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("opening a store made its folder: %v", err)
	}
	ref, err := s.PutBytes([]byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, ref.SHA256): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", path, info.Mode().Perm(), err, want)
		}
	}
}

func TestDamageIsReportedInPlaceOfTheEnd(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"a flipped bit": func(p []byte) []byte { p[1] ^= 4; return p },
		"cut":           func(p []byte) []byte { return p[:2] },
		"longer":        func(p []byte) []byte { return append(p, 'x') },
		"empty":         func(p []byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := blob.Open(dir)
			content := []byte("content")
			ref, err := s.PutBytes(content)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, ref.SHA256), damage(bytes.Clone(content)), 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := s.Open(ref)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if _, err := io.ReadAll(r); err == nil {
				t.Fatal("damage was read as content")
			} else if _, ok := corrupt.As(err); !ok {
				t.Errorf("damage is %v", err)
			}
			// The next Put of the same content heals it.
			if again, err := s.PutBytes(content); err != nil || again != ref {
				t.Fatalf("%+v, %v", again, err)
			}
			if !bytes.Equal(read(t, s, ref), content) {
				t.Error("still damaged")
			}
		})
	}
}

func TestASizeThatIsNotTheContentsIsDamage(t *testing.T) {
	s := blob.Open(t.TempDir())
	ref, err := s.PutBytes([]byte("content"))
	if err != nil {
		t.Fatal(err)
	}
	ref.Size++
	r, err := s.Open(ref)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.ReadAll(r); err == nil {
		t.Error("a wrong size was accepted")
	}
}

func TestNoNameLeadsOutOfTheStore(t *testing.T) {
	parent := t.TempDir()
	s := blob.Open(filepath.Join(parent, "s.blobs"))
	good, err := s.PutBytes([]byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(parent, "secret"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", ".", "..", "../secret", "/etc/passwd", strings.ToUpper(good.SHA256), good.SHA256[:63], good.SHA256 + "0",
		"../" + good.SHA256[3:], strings.Repeat("g", 64), strings.Repeat("\x00", 64)} {
		if r, err := s.Open(blob.Ref{SHA256: name, Size: 1}); err == nil {
			r.Close()
			t.Errorf("%q opens", name)
		}
	}
	if _, err := s.Open(blob.Ref{SHA256: good.SHA256, Size: -1}); err == nil {
		t.Error("a negative size opens")
	}
	if _, err := s.Open(blob.Ref{SHA256: strings.Repeat("0", 64)}); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("a blob that is not there: %v", err)
	}
}

func TestAPutThatFailsLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	s := blob.Open(dir)
	broken := errors.New("the source broke")
	if _, err := s.Put(io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if left := names(t, dir); len(left) != 0 {
		t.Errorf("left %q", left)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := blob.Open(filepath.Join(file, "s.blobs")).PutBytes(nil); err == nil {
		t.Error("a folder that cannot be made is no error")
	}
}

func TestSweepRemovesWhatAKilledWriterLeftAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	s := blob.Open(dir)
	if n, err := blob.Open(filepath.Join(dir, "none")).Sweep(); n != 0 || err != nil {
		t.Errorf("no folder: %d, %v", n, err)
	}
	ref, err := s.PutBytes([]byte("kept"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "put-1234"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Sweep(); n != 1 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	if got := names(t, dir); len(got) != 1 || got[0] != ref.SHA256 {
		t.Errorf("left %q", got)
	}
}

func TestPutsAtTheSameTimeDoNotDisturbEachOther(t *testing.T) {
	dir := t.TempDir()
	s := blob.Open(dir)
	content := bytes.Repeat([]byte("content"), 10_000)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			ref, err := s.PutBytes(content[i%2:])
			if err != nil {
				t.Error(err)
				return
			}
			r, err := s.Open(ref)
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Close()
			if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, content[i%2:]) {
				t.Errorf("read %d bytes, %v", len(got), err)
			}
		})
	}
	wg.Wait()
	if got := names(t, dir); len(got) != 2 {
		t.Errorf("files %q", got)
	}
}

func TestReferencesAreFoundInDetails(t *testing.T) {
	a := blob.Ref{SHA256: strings.Repeat("a", 64), Size: 3}
	b := blob.Ref{SHA256: strings.Repeat("b", 64), Size: 0}
	details := jsonv.Obj(jsonv.F("exit_code", jsonv.Num(0)), jsonv.F(blob.DetailsKey, jsonv.Arr(a.Value().With("stream", jsonv.Str("stdout")), b.Value())))
	if got, err := blob.InDetails(&details); err != nil || len(got) != 2 || got[0] != a || got[1] != b {
		t.Errorf("%+v, %v", got, err)
	}
	for _, none := range []string{`null`, `{}`, `[1]`, `"x"`, `{"blobs":[1]}`} {
		v, err := jsonv.Parse([]byte(none))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := blob.InDetails(&v); len(got) != 0 || err != nil {
			t.Errorf("%s: %+v, %v", none, got, err)
		}
	}
	if got, err := blob.InDetails(nil); len(got) != 0 || err != nil {
		t.Errorf("no details: %+v, %v", got, err)
	}
}

func FuzzInDetails(f *testing.F) {
	f.Add([]byte(`{"$loom/blobs":[{"sha256":"` + strings.Repeat("a", 64) + `","size":3}]}`))
	f.Add([]byte(`{"$loom/blobs":[{"sha256":"../x","size":3}]}`))
	f.Add([]byte(`{"$loom/blobs":{}}`))
	f.Add([]byte(`{"$loom/blobs":[null]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := jsonv.Parse(text)
		if err != nil {
			return
		}
		refs, err := blob.InDetails(&v)
		if err != nil {
			if _, ok := corrupt.As(err); !ok {
				t.Errorf("%s: %v is no report", text, err)
			}
			return
		}
		for _, ref := range refs {
			if again, err := blob.ParseRef(ref.Value()); err != nil || again != ref {
				t.Errorf("%+v reads back as %+v, %v", ref, again, err)
			}
		}
	})
}
