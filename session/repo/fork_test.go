package repo_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/session/check"
	"github.com/loom-run/loom/session/projection"
	"github.com/loom-run/loom/session/repo"
	"github.com/loom-run/loom/session/sessiontest"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/memory"
	"github.com/loom-run/loom/storage/sqlite"
)

const (
	epoch = 1_767_225_600_000
	later = epoch + 5_000
)

func at(ms int64) func() int64 { return func() int64 { return ms } }

func plain(place string) string { return "text of " + place }

// told is a store in memory that holds a story.
func told(t testing.TB, say func(string) string) (*memory.Store, *sessiontest.Story, id.Generator) {
	t.Helper()
	story, ids := sessiontest.Tell(id.NewGenerator(clock.Fixed(epoch), 1), say)
	store := memory.New(at(epoch))
	for _, x := range story.Txs {
		if _, err := store.Commit(x); err != nil {
			t.Fatal(err)
		}
	}
	return store, story, ids
}

// rows is everything that a store holds, without what storage stamps.
type rows struct {
	Entries, Cells, Ledger []string
}

func (r *rows) Session(storage.Stats, int64) {}
func (r *rows) Entry(e entry.Entry) {
	e.Seq, e.Timestamp = 0, 0
	r.Entries = append(r.Entries, string(entry.Encode(e)))
}
func (r *rows) Usage(row entry.UsageRow) {
	row.Seq = 0
	var w jsonv.Writer
	entry.AppendUsageRow(&w, row)
	r.Ledger = append(r.Ledger, string(w.Bytes()))
}
func (r *rows) Register(ns, key string, c register.Cell) {
	r.Cells = append(r.Cells, ns+"/"+key+" "+c.Value.String())
}
func (r *rows) Damage(d storage.Damage) { panic(d.String()) }

func dump(t testing.TB, w any) rows {
	t.Helper()
	walker, ok := w.(storage.Walker)
	if !ok {
		t.Fatalf("a %T does not walk", w)
	}
	var r rows
	if err := walker.Walk(&r); err != nil {
		t.Fatal(err)
	}
	slices.Sort(r.Cells)
	return r
}

func (r rows) cell(address string) string {
	for _, c := range r.Cells {
		if v, ok := strings.CutPrefix(c, address+" "); ok {
			return v
		}
	}
	return ""
}

func (r rows) in(namespaces ...string) (found []string) {
	for _, c := range r.Cells {
		if slices.ContainsFunc(namespaces, func(ns string) bool { return strings.HasPrefix(c, ns+"/") }) {
			found = append(found, c)
		}
	}
	return found
}

func sound(t testing.TB, s check.Store) {
	t.Helper()
	findings, err := check.Session(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		t.Errorf("check: %s", f)
	}
}

// destinations are both kinds, each fresh.
func destinations(t testing.TB) map[string]repo.ForkDestination {
	dir := t.TempDir()
	return map[string]repo.ForkDestination{
		"memory": repo.IntoMemory(at(later)),
		"SQLite": repo.IntoSQLite(func(self id.SessionID) sqlite.Config {
			return sqlite.Config{Path: filepath.Join(dir, self.String()+".db"), Owner: "fork", Clock: at(later), Create: true}
		}),
	}
}

func fork(t testing.TB, p repo.Plan, ids id.Generator) (*session.Session, id.SessionID) {
	t.Helper()
	forked, self, _, err := repo.Fork(p, ids)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = forked.Close() })
	return forked, self
}

func TestTheStoryIsSound(t *testing.T) {
	store, _, _ := told(t, plain)
	sound(t, store)
}

func TestABranchForkIsThePathAndNothingThatRuns(t *testing.T) {
	for name, to := range destinations(t) {
		t.Run(name, func(t *testing.T) {
			store, story, ids := told(t, plain)
			source := dump(t, store)
			forked, self := fork(t, repo.Plan{Source: session.NewView(store), Scope: repo.Branch{Strand: "side", At: story.Side}, To: to}, ids)
			got := dump(t, forked.Store())

			path, err := store.ScanBranch(storage.BranchQuery{Start: story.Side, Order: storage.OldestFirst})
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, e := range path {
				e.Seq, e.Timestamp = 0, 0
				want = append(want, string(entry.Encode(e)))
			}
			if d := cmp.Diff(want, got.Entries); d != "" {
				t.Errorf("entries: %s", d)
			}
			wantCells := []string{
				"fact.custom/session/id " + quoted(self), "fact.custom/session/parent " + quoted(story.Self), `fact.custom/session/workspace "/somewhere"`,
				"fact.label/" + story.Root.String() + ` "text of label of the root"`,
				"fact.label/" + path[len(path)-2].ID.String() + ` "text of label of the side"`,
				`fact.name/subject "text of name"`,
				"strand.config/main " + source.cell("strand.config/side"),
				"strand.leaf/main " + quoted(story.Side),
				`strand.state/main {"currentOperationId":null,"pendingNextRun":[]}`,
			}
			slices.Sort(wantCells)
			if d := cmp.Diff(wantCells, got.Cells); d != "" {
				t.Errorf("cells: %s", d)
			}
			if len(got.Ledger) != 0 {
				t.Errorf("the ledger starts with %v", got.Ledger)
			}
			stamped, err := forked.Store().Entries(story.Root)
			if err != nil || stamped[story.Root].Timestamp != later {
				t.Errorf("the root is stamped %d, %v", stamped[story.Root].Timestamp, err)
			}
			if d := cmp.Diff(source, dump(t, store)); d != "" {
				t.Errorf("the source changed: %s", d)
			}
			sound(t, walkable(t, forked))
		})
	}
}

func quoted(i fmt.Stringer) string { return `"` + i.String() + `"` }

func walkable(t testing.TB, s *session.Session) check.Store {
	t.Helper()
	store, ok := s.Store().(check.Store)
	if !ok {
		t.Fatalf("a %T does not walk", s.Store())
	}
	return store
}

func TestALabelOfAnEntryThatIsNotCopiedStaysBehind(t *testing.T) {
	store, story, ids := told(t, plain)
	forked, _ := fork(t, repo.Plan{Source: session.NewView(store), Scope: repo.Branch{Strand: "main", At: story.Root}, To: repo.IntoMemory(at(later))}, ids)
	got := dump(t, forked.Store())
	if want := []string{"fact.label/" + story.Root.String() + ` "text of label of the root"`}; !slices.Equal(got.in("fact.label"), want) {
		t.Errorf("labels are %v", got.in("fact.label"))
	}
	if len(got.Entries) != 1 {
		t.Errorf("%d entries", len(got.Entries))
	}
}

func TestAStrandWithoutConfigurationForksUnconfigured(t *testing.T) {
	store, story, ids := told(t, plain)
	forked, _ := fork(t, repo.Plan{Source: session.NewView(store), Scope: repo.Branch{Strand: "nobody", At: story.First}, To: repo.IntoMemory(at(later))}, ids)
	if got := dump(t, forked.Store()).in("strand.config"); got != nil {
		t.Errorf("it has %v", got)
	}
	if leaf, ok, err := forked.StrandLeaf("main"); err != nil || !ok || leaf.Value != story.First {
		t.Errorf("the leaf is %v, %v, %v", leaf.Value, ok, err)
	}
}

func TestATreeForkIsEveryEntryWithEveryStrandIdle(t *testing.T) {
	for name, to := range destinations(t) {
		t.Run(name, func(t *testing.T) {
			store, story, ids := told(t, plain)
			source := dump(t, store)
			forked, self := fork(t, repo.Plan{Source: session.NewView(store), Scope: repo.Tree{}, To: to}, ids)
			got := dump(t, forked.Store())
			if d := cmp.Diff(source.Entries, got.Entries); d != "" {
				t.Errorf("entries: %s", d)
			}
			for _, ns := range []string{"strand.config", "strand.leaf", "fact.name", "fact.label"} {
				if d := cmp.Diff(source.in(ns), got.in(ns)); d != "" {
					t.Errorf("%s: %s", ns, d)
				}
			}
			if none := got.in("op.meta", "op.state", "op.tool_args", "op.preparation", "pending.entry", "strand.last_result"); none != nil || got.Ledger != nil {
				t.Errorf("it has %v and %v", none, got.Ledger)
			}
			idle := `{"currentOperationId":null,"pendingNextRun":[]}`
			if want := []string{"strand.state/main " + idle, "strand.state/side " + idle}; !slices.Equal(got.in("strand.state"), want) {
				t.Errorf("the strands are %v", got.in("strand.state"))
			}
			if custom := got.in("fact.custom"); len(custom) != 3 || got.cell("fact.custom/session/id") != quoted(self) ||
				got.cell("fact.custom/session/parent") != quoted(story.Self) {
				t.Errorf("its own facts are %v", custom)
			}
			if d := cmp.Diff(source, dump(t, store)); d != "" {
				t.Errorf("the source changed: %s", d)
			}
			sound(t, walkable(t, forked))
		})
	}
}

// A fork at any entry shows a model what the source shows it there.
func TestAForkProjectsLikeItsSource(t *testing.T) {
	store, _, ids := told(t, plain)
	all, err := store.ScanEntries(storage.EntryQuery{})
	if err != nil {
		t.Fatal(err)
	}
	view := session.NewView(store)
	for _, e := range all {
		want, err := view.Project(e.ID, projection.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		forked, _ := fork(t, repo.Plan{Source: view, Scope: repo.Branch{Strand: "main", At: e.ID}, To: repo.IntoMemory(at(epoch))}, ids)
		got, err := forked.Project(e.ID, projection.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		if d := coretest.Diff(want, got); d != "" {
			t.Errorf("at %s: %s", e.ID, d)
		}
		sound(t, walkable(t, forked))
	}
}

func TestASourceWithoutAnIdHasNoParentToTell(t *testing.T) {
	store := memory.New(at(epoch))
	root, ids := id.NewGenerator(clock.Fixed(epoch), 9).Entry()
	commit(t, store, tx.InsertEntry{Entry: entry.Entry{ID: root, Body: entry.Custom{Type: "x"}}})
	forked, _ := fork(t, repo.Plan{Source: session.NewView(store), Scope: repo.Branch{Strand: "main", At: root}, To: repo.IntoMemory(at(epoch))}, ids)
	if _, ok, err := forked.ParentID(); ok || err != nil {
		t.Errorf("it has a parent: %v, %v", ok, err)
	}
	if _, ok, _ := session.NewView(store).ID(); ok {
		t.Error("the source was given an id")
	}
	if _, ok, err := forked.ID(); !ok || err != nil {
		t.Errorf("it has no id: %v", err)
	}
}

func commit(t testing.TB, s storage.Store, writes ...tx.Write) {
	t.Helper()
	if _, err := s.Commit(tx.Tx{Writes: writes}); err != nil {
		t.Fatal(err)
	}
}

func TestForksOfAForkNameTheirOwnParent(t *testing.T) {
	store, story, ids := told(t, plain)
	first, self, ids, err := repo.Fork(repo.Plan{Source: session.NewView(store), Scope: repo.Tree{}, To: repo.IntoMemory(at(epoch))}, ids)
	if err != nil {
		t.Fatal(err)
	}
	second, other, _, err := repo.Fork(repo.Plan{Source: &first.View, Scope: repo.Branch{Strand: "main", At: story.Leaf}, To: repo.IntoMemory(at(epoch))}, ids)
	if err != nil {
		t.Fatal(err)
	}
	parent, _, err := second.ParentID()
	if err != nil || parent != self || other == self || self == story.Self {
		t.Errorf("the parent of %s is %s, %v; want %s", other, parent, err, self)
	}
}

// store is a destination that a test holds in its hands.
type store struct {
	storage.Store
	scan, commit error
	closed       bool
}

func (s *store) ScanEntries(q storage.EntryQuery) ([]entry.Entry, error) {
	if s.scan != nil {
		return nil, s.scan
	}
	return s.Store.ScanEntries(q)
}

func (s *store) Commit(t tx.Tx) (tx.Result, error) {
	if s.commit != nil {
		return tx.Result{}, s.commit
	}
	return s.Store.Commit(t)
}

func (s *store) Close() error {
	s.closed = true
	return s.Store.Close()
}

func TestEachRefusalHasItsTypeAndClosesTheDestination(t *testing.T) {
	broken := errors.New("broken")
	var dest *store
	for name, c := range map[string]struct {
		plan func(p *repo.Plan, story *sessiontest.Story)
		dest func(t *testing.T, s *store)
		want func(err error) bool
		open bool // the destination is opened
	}{
		"an unknown point": {
			plan: func(p *repo.Plan, s *sessiontest.Story) {
				p.Scope = repo.Branch{Strand: "main", At: mustEntryID("019b76da-a800-7cc1-beeb-8da1658eec67")}
			},
			want: is[*repo.PointUnknown],
		},
		"a destination that does not open": {
			plan: func(p *repo.Plan, s *sessiontest.Story) {
				p.To = repo.IntoSQLite(func(id.SessionID) sqlite.Config { return sqlite.Config{} })
			},
			want: is[*repo.DestinationOpen],
		},
		"a destination that cannot be read":  {dest: func(t *testing.T, s *store) { s.scan = broken }, want: is[*repo.DestinationRead], open: true},
		"a destination that does not commit": {dest: func(t *testing.T, s *store) { s.commit = &tx.Faulted{Reason: "x", Err: broken} }, want: is[*repo.CopyFailed], open: true},
		"a destination that holds entries": {
			dest: func(t *testing.T, s *store) {
				commit(t, s.Store, tx.InsertEntry{Entry: entry.Entry{ID: mustEntryID("019b76da-a800-7cc1-beeb-8da1658eec67"), Body: entry.Custom{Type: "x"}}})
			},
			want: is[*repo.DestinationNotEmpty], open: true,
		},
		"a destination that is a session": {
			dest: func(t *testing.T, s *store) {
				commit(t, s.Store, tx.Set(register.FactCustom, session.IDKey, jsonv.Str("x")))
			},
			want: func(err error) bool { return is[*repo.CopyFailed](err) && is[*tx.StaleExpectation](err) }, open: true,
		},
		"a carrier that fails": {
			plan: func(p *repo.Plan, s *sessiontest.Story) {
				p.Carry = func(id.SessionID, []entry.Entry) error { return broken }
			},
			want: func(err error) bool { return is[*repo.CopyFailed](err) && errors.Is(err, broken) }, open: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dest = &store{Store: memory.New(at(epoch))}
			if c.dest != nil {
				c.dest(t, dest)
			}
			source, story, ids := told(t, plain)
			p := repo.Plan{Source: session.NewView(source), Scope: repo.Tree{}, To: repo.Into(func(id.SessionID) (storage.Store, error) { return dest, nil })}
			if c.plan != nil {
				c.plan(&p, story)
			}
			before, kept := dump(t, dest.Store), dump(t, source)
			_, _, _, err := repo.Fork(p, ids)
			if !c.want(err) {
				t.Errorf("got %T %v", err, err)
			}
			if dest.closed != c.open {
				t.Errorf("closed: %v", dest.closed)
			}
			if d := cmp.Diff(before, dump(t, reopened(dest))); d != "" {
				t.Errorf("the destination changed: %s", d)
			}
			if d := cmp.Diff(kept, dump(t, source)); d != "" {
				t.Errorf("the source changed: %s", d)
			}
		})
	}
}

func reopened(s *store) any {
	m, ok := s.Store.(*memory.Store)
	if !ok {
		return s.Store
	}
	return m.Reopen()
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func mustEntryID(s string) id.EntryID {
	i, err := id.ParseEntryID(s)
	if err != nil {
		panic(err)
	}
	return i
}

// source is a session whose reads a test lets fail, and which a test rewrites.
type source struct {
	storage.Reader
	left       int // reads that succeed
	broken     error
	generation int64
}

func (s *source) read() error {
	if s.left--; s.left < 0 {
		return s.broken
	}
	return nil
}

func (s *source) Register(ns register.Namespace, key string) (register.Cell, bool, error) {
	if err := s.read(); err != nil {
		return register.Cell{}, false, err
	}
	return s.Reader.Register(ns, key)
}

func (s *source) Registers(ns register.Namespace, prefix string) ([]storage.KeyedCell, error) {
	if err := s.read(); err != nil {
		return nil, err
	}
	return s.Reader.Registers(ns, prefix)
}

func (s *source) ScanEntries(q storage.EntryQuery) ([]entry.Entry, error) {
	if err := s.read(); err != nil {
		return nil, err
	}
	return s.Reader.ScanEntries(q)
}

func (s *source) ScanBranch(q storage.BranchQuery) ([]entry.Entry, error) {
	if err := s.read(); err != nil {
		return nil, err
	}
	return s.Reader.ScanBranch(q)
}

func (s *source) ScanUsage(q storage.UsageQuery) ([]entry.UsageRow, error) {
	if err := s.read(); err != nil {
		return nil, err
	}
	return s.Reader.ScanUsage(q)
}

func (s *source) Snapshot(of ...storage.CellRange) (storage.Snapshot, error) {
	if err := s.read(); err != nil {
		return storage.Snapshot{}, err
	}
	snap, err := s.Reader.Snapshot(of...)
	snap.Generation = s.generation
	return snap, err
}

func TestASourceThatFailsAtAnyReadIsNotForked(t *testing.T) {
	broken := errors.New("broken")
	store, story, ids := told(t, plain)
	for _, scope := range []repo.ForkScope{repo.Tree{}, repo.Branch{Strand: "main", At: story.Leaf}} {
		n := 0
		for ; ; n++ {
			s := &source{Reader: store, left: n, broken: broken}
			_, _, _, err := repo.Fork(repo.Plan{Source: session.NewView(s), Scope: scope, To: repo.IntoMemory(at(epoch))}, ids)
			if err == nil {
				break
			}
			if !is[*repo.SourceRead](err) || !errors.Is(err, broken) {
				t.Errorf("%T, read %d: %T %v", scope, n, err, err)
			}
		}
		if n < 6 {
			t.Errorf("%T: only %d reads", scope, n)
		}
	}
}

// What an erasure took out of the source while it was read must not live on in the copy.
func TestASourceThatIsRewrittenMeanwhileIsNotForked(t *testing.T) {
	inMemory, _, ids := told(t, plain)
	s := &source{Reader: inMemory, left: 1000}
	dest := &store{Store: memory.New(at(epoch))}
	_, _, _, err := repo.Fork(repo.Plan{
		Source: session.NewView(s), Scope: repo.Tree{}, To: repo.Into(func(id.SessionID) (storage.Store, error) { return dest, nil }),
		Carry: func(id.SessionID, []entry.Entry) error { s.generation++; return nil },
	}, ids)
	if !is[*repo.SourceRead](err) || !dest.closed {
		t.Errorf("got %T %v, closed %v", err, err, dest.closed)
	}
	if d := cmp.Diff(rows{}, dump(t, reopened(dest))); d != "" {
		t.Errorf("the destination has %s", d)
	}
}

func TestTheCarrierSeesWhatIsCopiedBeforeItIsThere(t *testing.T) {
	inMemory, story, ids := told(t, plain)
	dest := &store{Store: memory.New(at(epoch))}
	var told []entry.Entry
	var name id.SessionID
	_, self, _, err := repo.Fork(repo.Plan{
		Source: session.NewView(inMemory), Scope: repo.Branch{Strand: "main", At: story.First}, To: repo.Into(func(id.SessionID) (storage.Store, error) { return dest, nil }),
		Carry: func(self id.SessionID, copied []entry.Entry) error {
			name, told = self, copied
			there, err := dest.ScanEntries(storage.EntryQuery{})
			if len(there) != 0 {
				t.Error("the entries are committed already")
			}
			return err
		},
	}, ids)
	if err != nil || name != self || len(told) != 4 {
		t.Errorf("%v; it was told %d entries of %s", err, len(told), name)
	}
}
