package blob_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/loom-run/loom/blob"
)

func put(t *testing.T, s *blob.Store, text string) blob.Ref {
	t.Helper()
	ref, err := s.PutBytes([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func TestWhatElseLiesInTheFolderIsNamed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blobs")
	s := blob.Open(dir)
	if others, err := s.Others(); others != nil || err != nil {
		t.Errorf("a store that was never used has %v, %v", others, err)
	}
	put(t, s, "one")
	if err := os.WriteFile(filepath.Join(dir, "put-1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if others, err := s.Others(); err != nil || !slices.Equal(others, []string{"put-1"}) {
		t.Errorf("it has %v, %v", others, err)
	}
}

func TestABlobIsSharedAndEachStoreLetsItGoByItself(t *testing.T) {
	dir := t.TempDir()
	from, to := blob.Open(filepath.Join(dir, "a")), blob.Open(filepath.Join(dir, "b"))
	ref := put(t, from, "output")
	for range 2 { // adopting again changes nothing
		if err := to.Adopt(ref, from); err != nil {
			t.Fatal(err)
		}
	}
	if err := from.Remove(ref, ref); err != nil {
		t.Fatal(err)
	}
	if _, err := from.Open(ref); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("a removed blob opens with %v", err)
	}
	r, err := to.Open(ref)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || string(got) != "output" {
		t.Errorf("the other store has %q, %v", got, err)
	}
	if err := to.Adopt(put(t, from, "gone"), blob.Open(filepath.Join(dir, "nowhere"))); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("a blob that is not there is adopted with %v", err)
	}
	if err := blob.Open(filepath.Join(dir, "nowhere")).Remove(ref); err != nil {
		t.Errorf("removing from nowhere: %v", err)
	}
}

func TestANameThatIsNoDigestReachesNothing(t *testing.T) {
	dir := t.TempDir()
	s := blob.Open(filepath.Join(dir, "blobs"))
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := blob.Ref{SHA256: "../victim", Size: 1}
	if s.Remove(bad) == nil || s.Adopt(bad, s) == nil {
		t.Error("a path is taken for a name")
	}
	if _, err := s.Raw(bad); err == nil {
		t.Error("a path is opened")
	}
	if _, err := os.Stat(victim); err != nil {
		t.Error(err)
	}
}

func TestADamagedBlobIsReadRawAsItIs(t *testing.T) {
	dir := t.TempDir()
	s := blob.Open(dir)
	ref := put(t, s, "sound")
	if err := os.WriteFile(filepath.Join(dir, ref.SHA256), []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := s.Raw(ref)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, []byte("other")) {
		t.Errorf("it reads %q, %v", got, err)
	}
}
