package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/storage"
	lib "modernc.org/sqlite/lib"
)

// ioFault is one way in which a call fails.
type ioFault struct {
	name  string
	kinds []ioKind
	code  int32
	half  bool   // half of a write is done
	stays bool   // all that come after fail as well, until the fault is lifted
	says  string // a part of the sentence of each refusal
}

var ioFaults = []ioFault{
	{name: "a full disk", kinds: []ioKind{ioWrite}, code: lib.SQLITE_FULL, half: true, says: "the disk is full"},
	{name: "a disk that stays full", kinds: []ioKind{ioWrite}, code: lib.SQLITE_FULL, stays: true, says: "the disk is full"},
	{name: "no room for the index", kinds: []ioKind{ioIndex}, code: lib.SQLITE_IOERR_SHMSIZE, stays: true, says: "the disk is full"},
	{name: "a failed write", kinds: []ioKind{ioWrite}, code: lib.SQLITE_IOERR_WRITE, half: true, says: "the disk reported an error"},
	{name: "a failed read", kinds: []ioKind{ioRead}, code: lib.SQLITE_IOERR_READ, says: "the disk reported an error"},
	{name: "a failed flush", kinds: []ioKind{ioSync}, code: lib.SQLITE_IOERR_FSYNC, says: "the disk reported an error"},
	{name: "flushes that stay failed", kinds: []ioKind{ioSync}, code: lib.SQLITE_IOERR_FSYNC, stays: true, says: "the disk reported an error"},
	{name: "a failed end of a file", kinds: []ioKind{ioTruncate}, code: lib.SQLITE_IOERR_TRUNCATE, says: "the disk reported an error"},
	{name: "a failed deletion", kinds: []ioKind{ioDelete}, code: lib.SQLITE_IOERR_DELETE, says: "the disk reported an error"},
	{name: "a file that cannot be opened", kinds: []ioKind{ioOpen, ioCreate}, code: lib.SQLITE_CANTOPEN, says: "cannot be opened"},
}

// every is 1, but more for faults that are much like the first, unless LOOM_TORTURE asks
// for a long run.
func (f ioFault) every(t testing.TB) int {
	much := f.stays || f.code == lib.SQLITE_IOERR_WRITE || f.code == lib.SQLITE_IOERR_READ
	if much && rounds(t) == 1 {
		return 4
	}
	return 1
}

// trouble makes the nth call of a fault fail.
type trouble struct {
	ioFault
	nth    int
	seen   int
	hit    bool
	lifted bool
	what   ioCall
}

func (f *trouble) see(c ioCall) answer {
	if f.lifted || !slices.Contains(f.kinds, c.kind) {
		return answer{instead: c.kind == ioSync} // flushing costs time and shows nothing here
	}
	if f.seen++; f.seen < f.nth || f.seen > f.nth && !f.stays {
		return answer{instead: c.kind == ioSync}
	}
	if !f.hit {
		f.what, f.hit = c, true
	}
	a := answer{instead: true, code: f.code}
	if f.half {
		a.part = len(c.data) / 2
	}
	return a
}

// TestARefusedCallOfTheSystemKeepsWhatWasAcknowledged fails every call that the short
// life of a session makes, one after the other, in each way. What was acknowledged is
// there at the end, what was refused is not, and each refusal says what happened.
func TestARefusedCallOfTheSystemKeepsWhatWasAcknowledged(t *testing.T) {
	for _, fault := range ioFaults {
		t.Run(fault.name, func(t *testing.T) {
			nth, calls := 1, 0
			for ; ; nth += fault.every(t) {
				f := &trouble{ioFault: fault, nth: nth}
				v := newTroubled(t, f)
				v.live()
				if !f.hit {
					break
				}
				if calls++; t.Failed() {
					t.Fatalf("call %d, %v", nth, f.what)
				}
			}
			if calls == 0 {
				t.Error("no call of that kind was made: this shows nothing")
			}
			t.Logf("%d calls were refused", calls)
		})
	}
}

// troubled is the life of a session under a fault.
type troubled struct {
	*testing.T
	f    *trouble
	cfg  Config
	m    *minter
	s    *Store
	leaf id.EntryID

	kept, refused, unknown [][]id.EntryID // what each transaction placed
	told                   bool           // that a flush failed
}

func newTroubled(t *testing.T, f *trouble) *troubled {
	cfg, _ := newConfig(t)
	cfg.Synchronous, cfg.Take = Full, true
	watch(t, filepath.Dir(cfg.Path), f.see)
	return &troubled{T: t, f: f, cfg: cfg, m: newMinter(1)}
}

func (l *troubled) live() {
	l.open()
	l.commit(l.message(100))
	l.commit(l.message(9000))
	l.commit(l.message(50), l.message(5000), l.message(60))
	l.release()
	l.commit(l.message(70))
	l.close()
	l.open()
	l.commit(l.message(80))
	l.lift()
	l.commit(l.message(90))
	l.close()
	l.judge()
}

// failed checks the sentence of a refusal, which is about the fault or what came of it.
func (l *troubled) failed(what string, err error, says ...string) {
	l.Helper()
	if !l.f.hit || l.f.lifted {
		l.Errorf("%s, without a fault: %v", what, err)
	}
	for _, part := range append(says, l.f.says) {
		if !strings.Contains(err.Error(), part) {
			l.Errorf("%s: %q is not in %q", what, part, err)
		}
	}
}

// open opens the session, a second time if the first is refused and the fault is over.
func (l *troubled) open() {
	l.Helper()
	if l.s != nil {
		return
	}
	for range 2 {
		l.cfg.Owner = fmt.Sprint("opening ", l.m.entry())
		s, err := Open(l.cfg)
		if err == nil {
			l.s = s
			l.leaf = l.leafNow()
			if err := s.w.Once("PRAGMA wal_autocheckpoint=4", nil); err != nil {
				l.Fatal(err)
			}
			return
		}
		asType[*storage.OpenFailed](l, err)
		l.failed("opening", err, "nothing was changed")
	}
}

// leafNow is where the session ends, whatever became of the last commit.
func (l *troubled) leafNow() (leaf id.EntryID) {
	l.Helper()
	for range 2 {
		var err error
		if leaf, err = leafOf(l.s); err == nil {
			return leaf
		}
		asType[*storage.BackendFault](l, err)
		l.failed("reading", err)
	}
	return l.leaf
}

// message places two entries of that size.
func (l *troubled) message(size int) func() (tx.Tx, []id.EntryID) {
	return func() (tx.Tx, []id.EntryID) {
		a := said(l.m.entry(), l.leaf, strings.Repeat("word ", size/5))
		b := said(l.m.entry(), a.ID, strings.Repeat("term ", size/5))
		return tx.Tx{Writes: []tx.Write{
			tx.InsertEntry{Entry: a}, tx.InsertEntry{Entry: b}, tx.Set(register.StrandLeaf, "main", register.Leaf(b.ID)),
		}}, []id.EntryID{a.ID, b.ID}
	}
}

// commit commits transactions that all stand on the same leaf.
func (l *troubled) commit(makes ...func() (tx.Tx, []id.EntryID)) {
	l.Helper()
	if l.s == nil {
		return
	}
	var txs []tx.Tx
	var placed [][]id.EntryID
	for _, make := range makes {
		t, ids := make()
		txs, placed = append(txs, t), append(placed, ids)
	}
	for i, o := range l.s.CommitAll(txs...) {
		switch {
		case o.Err == nil:
			l.kept = append(l.kept, placed[i])
			l.leaf = placed[i][1]
			continue
		case strings.Contains(o.Err.Error(), "whether it was kept is known when the session is opened again"):
			l.unknown, l.told = append(l.unknown, placed[i]), true
			l.failed("a commit", o.Err)
		case strings.Contains(o.Err.Error(), "an earlier change could not be flushed"):
			l.refused = append(l.refused, placed[i])
			if !l.told {
				l.Errorf("a flush has failed, and nobody was told: %v", o.Err)
			}
		default:
			l.refused = append(l.refused, placed[i])
			l.failed("a commit", o.Err, "nothing of this change was kept, everything before it is safe")
		}
		asType[*tx.Faulted](l, o.Err)
	}
	l.there("beside the writer", &l.s.reads)
}

func (l *troubled) release() {
	if l.s == nil {
		return
	}
	if err := l.s.Release(); err != nil {
		asType[*tx.Faulted](l, err)
		if l.told {
			return
		}
		l.failed("a release", err)
		l.told = l.s.broken != nil
	}
}

func (l *troubled) close() {
	l.Helper()
	if l.s == nil {
		return
	}
	if err := l.s.Close(); err != nil {
		asType[*storage.BackendFault](l, err)
		l.failed("closing", err, "all changes were kept")
	}
	l.s = nil
}

// lift ends the fault. A handle that did not lose a flush goes on.
func (l *troubled) lift() {
	l.f.lifted = true
	if l.s != nil && l.s.broken != nil {
		l.close()
	}
	l.open()
	if l.s == nil {
		l.Fatal("it cannot be opened when the fault is over")
	}
	l.leaf = l.leafNow()
}

// judge reads the session of the end.
func (l *troubled) judge() {
	l.Helper()
	sound(l, l.cfg.Path)
	r, err := OpenReader(l.cfg.Path)
	if err != nil {
		l.Fatal(err)
	}
	defer r.Close()
	l.there("at the end", &r.reads)
	if len(l.kept) == 0 {
		l.Error("nothing could be committed, even without a fault")
	}
}

// there compares what is stored with what was said. A reader may itself be refused.
func (l *troubled) there(when string, r *reads) {
	l.Helper()
	rows, err := r.ScanEntries(storage.EntryQuery{})
	if err != nil {
		if errors.Is(err, storage.ErrClosed) {
			l.Fatal(err)
		}
		asType[*storage.BackendFault](l, err)
		l.failed("reading", err, "nothing could be read")
		return
	}
	stored := map[id.EntryID]bool{}
	for _, e := range rows {
		stored[e.ID] = true
	}
	for _, ids := range l.kept {
		if !stored[ids[0]] || !stored[ids[1]] {
			l.Errorf("%s an acknowledged commit is missing", when)
		}
	}
	for _, ids := range l.refused {
		if stored[ids[0]] || stored[ids[1]] {
			l.Errorf("%s there is what was refused", when)
		}
	}
	for _, ids := range l.unknown {
		if stored[ids[0]] != stored[ids[1]] {
			l.Errorf("%s there is a part of a commit", when)
		}
	}
}
