package repo_test

import (
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/session/check"
	"github.com/loom-run/loom/session/repo"
	"github.com/loom-run/loom/session/sessiontest"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlite"
)

// file is a closed session file that holds a story.
func file(t testing.TB, say func(string) string) (string, *sessiontest.Story) {
	t.Helper()
	_, story, _ := told(t, say)
	path := filepath.Join(t.TempDir(), story.Self.String()+".db")
	s, err := sqlite.Open(sqlite.Config{Path: path, Owner: "test", Clock: at(epoch), Create: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range story.Txs {
		if _, err := s.Commit(x); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path, story
}

func read(t testing.TB, path string) (all rows, generation int64) {
	t.Helper()
	r, err := sqlite.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	generation, err = r.Generation()
	if err != nil {
		t.Fatal(err)
	}
	return dump(t, r), generation
}

// The same transforms do the same to both backends.
func TestAFileIsRewrittenAsAMemoryIs(t *testing.T) {
	const secret = `sk-"secret"-0123`
	say := func(place string) string { return place + " <" + secret + ">" }
	src, _, _ := told(t, say)
	e := eraser(t, secret)
	want, err := repo.RewriteMemory(src, at(later), repo.EraseText(e), repo.EraseValue(e))
	if err != nil {
		t.Fatal(err)
	}
	path, _ := file(t, say)
	done, err := repo.RewriteSQLite(sqlite.Rewrite{
		Path: path, Clock: at(later),
		Verify: func(r *sqlite.Reader) error { sound(t, r); return nil },
		Bytes: func(r io.Reader) error {
			found, err := e.Needle().InBytes(r)
			if found {
				t.Error("it is in the bytes of the new file")
			}
			return err
		},
	}, repo.EraseText(e), repo.EraseValue(e))
	if err != nil {
		t.Fatal(err)
	}
	got, generation := read(t, path)
	if d := cmp.Diff(dump(t, want), got); d != "" || generation != 1 || done.Generation != 1 || done.Entries == 0 || done.Values == 0 {
		t.Errorf("%+v, generation %d: %s", done, generation, d)
	}
}

func TestAFileWhoseRowIsRefusedStays(t *testing.T) {
	path, story := file(t, plain)
	before, _ := read(t, path)
	for name, c := range map[string]struct {
		entries repo.EntryRewrite
		values  repo.ValueRewrite
		want    func(error) bool
	}{
		"another parent":       {func(e entry.Entry) (entry.Entry, bool, error) { e.Parent = story.Leaf; return e, true, nil }, keepValue, is[*repo.EntryFailed]},
		"a refusal":            {keepEntry, func(a register.Address, v jsonv.Value) (jsonv.Value, bool, error) { return v, false, errors.New("no") }, is[*repo.ValueFailed]},
		"a word of the format": {repo.EraseText(eraser(t, "message")), keepValue, is[*repo.EntryFailed]},
	} {
		_, err := repo.RewriteSQLite(sqlite.Rewrite{Path: path, Clock: at(later)}, c.entries, c.values)
		if !c.want(err) {
			t.Errorf("%s: %T %v", name, err, err)
		}
		after, generation := read(t, path)
		if d := cmp.Diff(before, after); d != "" || generation != 0 {
			t.Errorf("%s: generation %d: %s", name, generation, d)
		}
	}
}

// A fork that read a file while it was erased is not kept: what was erased would live on in it.
func TestAFileThatIsErasedMeanwhileIsNotForked(t *testing.T) {
	const secret = "sk-secret-0123"
	path, _ := file(t, func(place string) string { return place + secret })
	e := eraser(t, secret)
	r, err := sqlite.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	lazy := &lazily{Reader: r, path: path}
	dest := filepath.Join(t.TempDir(), "fork.db")
	_, _, _, err = repo.Fork(repo.Plan{
		Source: session.NewView(lazy), Scope: repo.Tree{},
		To: repo.IntoSQLite(func(id.SessionID) sqlite.Config {
			return sqlite.Config{Path: dest, Owner: "fork", Clock: at(later), Create: true}
		}),
		Carry: func(id.SessionID, []entry.Entry) error {
			if err := r.Close(); err != nil { // or the file is open, and not rewritten
				return err
			}
			_, err := repo.RewriteSQLite(sqlite.Rewrite{Path: path, Clock: at(later)}, repo.EraseText(e), repo.EraseValue(e))
			return err
		},
	}, idsOf(t))
	if !is[*repo.SourceRead](err) {
		t.Errorf("%T %v", err, err)
	}
	fresh, err := sqlite.OpenReader(dest)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = fresh.Close() }()
	if d := cmp.Diff(rows{}, dump(t, fresh)); d != "" {
		t.Errorf("the fork has %s", d)
	}
}

func idsOf(t testing.TB) id.Generator {
	_, _, ids := told(t, plain)
	return ids
}

// lazily tells the generation of the file as it is then.
type lazily struct {
	*sqlite.Reader
	path string
}

func (l *lazily) Snapshot(...storage.CellRange) (storage.Snapshot, error) {
	s, err := sqlite.Peek(l.path)
	return storage.Snapshot{Generation: s.Generation}, err
}

var _ check.Store = (*sqlite.Reader)(nil)
