package sqlite

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlitedb"
)

// history is which states a session had, in order. The first is the one it began with.
type history []moment

// moment is one state and when, counted in calls to the file system, it came to be.
type moment struct {
	what   string
	begun  int
	acked  int
	digest string
}

// nothing is the state of a session that is not there.
const nothing = "none"

// judge says what is wrong with finding a state after the first cut calls. An
// acknowledged state may be lost only where commits need not last.
func (h history) judge(cut int, found string, lasting bool) error {
	low, high := 0, 0
	for i, m := range h {
		if m.acked <= cut && lasting {
			low = i
		}
		if m.begun < cut || m.acked <= cut {
			high = i
		}
	}
	for _, m := range h[low : high+1] {
		if m.digest == found {
			return nil
		}
	}
	for i, m := range h[:low] {
		if m.digest == found {
			return fmt.Errorf("lost: %q was acknowledged, and what is there ends with %q (%d of %d)", h[low].what, m.what, i, low)
		}
	}
	return fmt.Errorf("a state that the session never had, while it was between %q and %q", h[low].what, h[high].what)
}

// watchedSession is a session that is written while every call is recorded.
type watchedSession struct {
	testing.TB
	cfg   Config
	clock *fakeClock
	m     *minter
	rec   *recording
	s     *Store
	leaf  id.EntryID
	h     history
	small int64 // checkpoints after that many pages
}

// newWatched records a session in the folder of cfg, which found is the state of.
func newWatched(t testing.TB, cfg Config, clock *fakeClock, seed uint64, found string) *watchedSession {
	t.Helper()
	l := &watchedSession{TB: t, cfg: cfg, clock: clock, m: newMinter(seed), rec: record(t, filepath.Dir(cfg.Path)), small: 12}
	l.h = history{{"the beginning", 0, 0, found}}
	return l
}

// step lets something happen and notes what the session then is.
func (l *watchedSession) step(what string, f func()) {
	l.Helper()
	begun := l.rec.now()
	f()
	l.rec.swept()
	acked := l.rec.now()
	state := l.h[len(l.h)-1].digest
	if l.s != nil {
		var err error
		if state, err = checked(&l.s.reads, 0); err != nil {
			l.Fatalf("%s: %v", what, err)
		}
	}
	l.h = append(l.h, moment{what, begun, acked, state})
}

func (l *watchedSession) open(what string) {
	l.Helper()
	l.step(what, func() {
		s, err := Open(l.cfg)
		if err != nil {
			l.Fatalf("%s: %v", what, err)
		}
		l.s = s
		if err := s.w.Once(fmt.Sprintf("PRAGMA wal_autocheckpoint=%d", l.small), nil); err != nil {
			l.Fatal(err)
		}
	})
}

func (l *watchedSession) close() {
	l.Helper()
	l.step("closing", func() { mustClose(l, l.s); l.s = nil })
}

func (l *watchedSession) commit(what string, writes ...tx.Write) {
	l.Helper()
	l.step(what, func() { mustCommit(l, l.s, writes...) })
}

// message is a transaction's worth of writes: an entry of that many bytes and the
// leaf that moves to it.
func (l *watchedSession) message(size int) []tx.Write {
	e := said(l.m.entry(), l.leaf, strings.Repeat("word ", size/5)+fmt.Sprint(size))
	l.leaf = e.ID
	return []tx.Write{tx.InsertEntry{Entry: e}, tx.Set(register.StrandLeaf, "main", register.Leaf(e.ID))}
}

func (l *watchedSession) spent() tx.Write {
	var u id.UsageID
	u, l.m.ids = l.m.ids.Usage()
	return tx.InsertUsage{Row: entry.UsageRow{ID: u, EntryID: l.leaf, Usage: usage.Usage{Input: 5, Output: 2, TotalTokens: 7, Evidence: usage.Reported(usage.API, usage.Complete)}}}
}

// compaction keeps n messages that the session has already.
func (l *watchedSession) compaction(n int) []tx.Write {
	l.Helper()
	var tail []message.Message
	path, err := l.s.ScanBranch(storage.BranchQuery{Start: l.leaf, Kind: entry.KindMessage, Limit: &n})
	if err != nil {
		l.Fatal(err)
	}
	for _, e := range path {
		if m, ok := e.Body.(entry.Message); ok {
			tail = append(tail, m.Message)
		}
	}
	e := entry.Entry{ID: l.m.entry(), Parent: l.leaf, Body: entry.Compaction{Summary: "so far", RetainedTail: tail}}
	l.leaf = e.ID
	return []tx.Write{tx.InsertEntry{Entry: e}, tx.Set(register.StrandLeaf, "main", register.Leaf(e.ID)), l.spent()}
}

// refused is a commit that must not change anything.
func (l *watchedSession) refused(what string, t tx.Tx) {
	l.Helper()
	l.step(what, func() {
		if _, err := l.s.Commit(t); err == nil {
			l.Fatalf("%s was applied", what)
		}
	})
}

// batch commits several with one flush; commitAll may stand for something else.
func (l *watchedSession) batch(what string, commitAll func(...tx.Tx) []storage.Outcome) {
	l.Helper()
	orphan := said(l.m.entry(), l.m.entry(), "child of nobody")
	txs := []tx.Tx{
		{Writes: l.message(100)},
		{Writes: l.message(9000)},
		{Writes: []tx.Write{tx.InsertEntry{Entry: orphan}}},
		{Writes: append(l.message(300), l.spent())},
		{Expected: []tx.Expectation{tx.Expect(register.FactName, "never set", 3)}},
		{Writes: []tx.Write{tx.Set(register.FactCustom, "batch", jsonv.Str(what)), l.spent()}},
	}
	l.step(what, func() {
		for i, o := range commitAll(txs...) {
			if refused := i == 2 || i == 4; (o.Err != nil) != refused {
				l.Fatalf("%s: transaction %d: %v", what, i, o.Err)
			}
		}
	})
}

// whole is everything that happens in the life of a session.
func (l *watchedSession) whole() {
	l.Helper()
	l.open("the founding")
	l.step("the identity", func() {
		own, ids := l.m.ids.Session()
		parent, ids := ids.Session()
		l.m.ids = ids
		if err := l.s.RecordIdentity(own, parent); err != nil {
			l.Fatal(err)
		}
	})
	l.commit("the first message", l.message(40)...)
	l.commit("a cell", tx.Set(register.FactName, "", jsonv.Str("a name")), l.spent())
	l.commit("the cell again", tx.Set(register.FactName, "", jsonv.Str(strings.Repeat("a longer name ", 300))))
	l.commit("the cell's end", tx.Delete(register.FactName, ""))
	l.commit("nothing")
	l.refused("a stale change", tx.Tx{Writes: []tx.Write{l.spent()}, Expected: []tx.Expectation{tx.Expect(register.FactName, "", 1)}})
	l.commit("a long message", l.message(40_000)...)
	for k := range 6 {
		l.commit(fmt.Sprint("message ", k, " of a tail"), l.message(1500)...)
	}
	l.commit("a compaction", l.compaction(5)...)
	l.batch("a batch", l.s.CommitAll)
	l.idle()
	l.besideAReader()
	l.taken()
	l.batch("a batch before the end", l.s.CommitAll)
	l.close()
	l.cfg.Owner = "again"
	l.open("the next opening")
	l.commit("a message after the opening", l.message(200)...)
	l.commit("a second compaction", l.compaction(4)...)
	l.batch("a last batch", l.s.CommitAll)
	l.close()
	l.rewrite()
	l.cfg.Owner = "after the rewrite"
	l.open("the opening after the rewrite")
	l.commit("a message after the rewrite", l.message(200)...)
	l.close()
}

// rewrite rewrites the closed session.
func (l *watchedSession) rewrite() {
	l.Helper()
	state := func(fences int64) string {
		r, err := OpenReader(l.cfg.Path)
		if err != nil {
			l.Fatal(err)
		}
		defer r.Close()
		state, err := checked(&r.reads, fences)
		if err != nil {
			l.Fatal(err)
		}
		return state
	}
	claimed := state(-1) // the rewrite takes the lease
	temp, name := filepath.Base(l.cfg.Path)+rewriteSuffix, filepath.Base(l.cfg.Path)
	begun := l.rec.now()
	r := erase(l.cfg)
	r.Entry = func(e entry.Entry) (entry.Entry, bool, error) {
		m, ok := e.Body.(entry.Message)
		if ok {
			m.Message = kept("it was something else")
			e.Body = m
		}
		return e, ok, nil
	}
	r.At = func(s Step) {
		switch s {
		case StepClaimed:
			l.h = append(l.h, moment{"the claim of a rewrite", begun, l.rec.now(), claimed})
			begun = l.rec.now()
		case StepVerified:
			l.rec.did(ioCall{kind: ioSync, name: temp})
		case StepRenamed:
			l.rec.did(ioCall{kind: ioRename, name: temp, to: name})
		case StepDone:
			l.rec.did(ioCall{kind: ioSync, folder: true})
		case StepAlone, StepBegun, StepCopied, StepWritten:
		}
	}
	if _, err := RewriteInto(r); err != nil {
		l.Fatal(err)
	}
	l.h = append(l.h, moment{"a rewrite", begun, l.rec.now(), state(0)})
}

// short is a life with commits, a batch and a checkpoint in it.
func (l *watchedSession) short() {
	l.Helper()
	l.open("the founding")
	for k := range 5 {
		l.commit(fmt.Sprint("message ", k), l.message(2000)...)
	}
	l.batch("a batch", l.s.CommitAll)
	for k := range 5 {
		l.commit(fmt.Sprint("message ", k, " after the batch"), l.message(2000)...)
	}
	l.close()
}

func (l *watchedSession) idle() {
	l.Helper()
	l.clock.ms += 20_000
	l.step("a renewal", func() {
		if err := l.s.RenewLease(); err != nil {
			l.Fatal(err)
		}
	})
	l.step("a release", func() {
		if err := l.s.Release(); err != nil {
			l.Fatal(err)
		}
	})
	l.commit("a message that takes the lease again", l.message(100)...)
}

// besideAReader writes so much while a reader looks at an old state that a checkpoint
// is due and cannot end, and again when it can.
func (l *watchedSession) besideAReader() {
	l.Helper()
	r, err := dialReader(l.cfg.Path, sqlitedb.ReadTidy, time.Second)
	if err == nil {
		_, err = r.Exec("BEGIN")
	}
	if err == nil {
		_, _, err = r.One("SELECT count(*) FROM entries")
	}
	if err != nil {
		l.Fatal(err)
	}
	for k := range 4 {
		l.commit(fmt.Sprint("message ", k, " beside a reader"), l.message(9_000)...)
	}
	r.Rollback()
	mustCloseConn(l, r)
	for k := range 8 {
		l.commit(fmt.Sprint("message ", k, " of another round of the log"), l.message(6_000)...)
	}
}

// taken lets another window take the session.
func (l *watchedSession) taken() {
	l.Helper()
	first := l.s
	l.cfg.Owner, l.cfg.Take = "taker", true
	l.open("a takeover")
	l.commit("a message of the taker", l.message(100)...)
	l.step("a message of who lost it", func() {
		if _, err := first.Commit(tx.Tx{Writes: []tx.Write{l.spent()}}); err == nil {
			l.Fatal("it landed")
		}
		mustClose(l, first)
	})
}

// checked names everything that a session holds but its lease, as it was so many
// fences ago, and says what a check finds.
func checked(r *reads, fences int64) (state string, err error) {
	v := surveyor{rows: new(bytes.Buffer)}
	findings := storage.Check(survey{r, v})
	row, err := r.session()
	if err == nil && len(findings) > 0 {
		err = fmt.Errorf("check: %v", findings)
	}
	row.fence -= fences
	fmt.Fprintf(v.rows, "%+v", row)
	sum := sha256.Sum256(v.rows.Bytes())
	return hex.EncodeToString(sum[:12]), err
}

// survey is a walk that v sees as well.
type survey struct {
	storage.Walker
	v surveyor
}

func (s survey) Walk(v storage.Visitor) error {
	s.v.Visitor = v
	return s.Walker.Walk(s.v)
}

// surveyor writes down each row that it passes on.
type surveyor struct {
	storage.Visitor
	rows *bytes.Buffer
}

func (v surveyor) Entry(e entry.Entry) {
	fmt.Fprintf(v.rows, "entry %s\n", entry.Encode(e))
	v.Visitor.Entry(e)
}

func (v surveyor) Usage(u entry.UsageRow) {
	var w jsonv.Writer
	entry.AppendUsageRow(&w, u)
	fmt.Fprintf(v.rows, "usage %s\n", w.Bytes())
	v.Visitor.Usage(u)
}

func (v surveyor) Register(ns, key string, c register.Cell) {
	fmt.Fprintf(v.rows, "cell %q %q %d %s\n", ns, key, c.Seq, c.Value)
	v.Visitor.Register(ns, key, c)
}

// place is a folder in which images of sessions are opened, one after the other.
type place struct {
	cfg   Config
	clock *fakeClock
	m     *minter
	opens int
	lays  int
}

func newPlace(t testing.TB, seed uint64) *place {
	cfg, clock := newConfig(t)
	cfg.Create, cfg.Take = false, true
	return &place{cfg: cfg, clock: clock, m: newMinter(seed)}
}

// lay puts an image there, and nothing else but what may be left of the index of a
// log: mapped memory that nobody flushes.
func (p *place) lay(image map[string][]byte) error {
	folder := filepath.Dir(p.cfg.Path)
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	p.lays++
	image = maps.Clone(image)
	switch p.lays % 3 {
	case 1:
		image["session.db-shm"] = make([]byte, 32<<10)
	case 2:
		image["session.db-shm"] = bytes.Repeat([]byte{0xa5, 0, 0, 0x5a}, 8<<10)
	}
	for name, content := range image {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// reopen opens what is there, checks it, commits once more and closes it. It returns
// the state that was found.
func (p *place) reopen() (found string, err error) {
	p.opens++
	p.cfg.Owner = fmt.Sprint("opening ", p.opens)
	if p.opens%8 == 0 {
		if err := p.look(); err != nil {
			return "", fmt.Errorf("before it is opened: %w", err)
		}
	}
	s, err := Open(p.cfg)
	if errors.Is(err, fs.ErrNotExist) {
		found = nothing
		cfg := p.cfg
		cfg.Create = true
		s, err = Open(cfg)
	}
	if err != nil {
		return "", fmt.Errorf("open: %w", err)
	}
	defer func() {
		err = errors.Join(err, s.Close())
		if err == nil && p.opens%8 == 1 {
			err = p.look()
		}
	}()
	state, err := checked(&s.reads, 1)
	if err != nil {
		return "", err
	}
	if err := p.migrated(s); err != nil {
		return "", err
	}
	if left, _ := filepath.Glob(p.cfg.Path + rewriteSuffix + "*"); len(left) > 0 {
		return "", fmt.Errorf("an interrupted rewrite left %q", left)
	}
	if found == "" {
		found = state
	}
	leaf, err := leafOf(s)
	if err != nil {
		return "", err
	}
	e := said(p.m.entry(), leaf, "once more")
	_, err = s.Commit(tx.Tx{Writes: []tx.Write{tx.InsertEntry{Entry: e}, tx.Set(register.StrandLeaf, "main", register.Leaf(e.ID))}})
	return found, err
}

// migrated checks that a session has the format of the build that opened it.
func (p *place) migrated(s *Store) error {
	if p.cfg.format == nil {
		return nil
	}
	var version int64
	err := s.w.Once("PRAGMA user_version", func(r row) { version, _ = r[0].(int64) })
	if err == nil && version != p.cfg.format.version {
		err = fmt.Errorf("it is opened in format %d", version)
	}
	return err
}

// look checks the file as somebody does who has not opened it.
func (p *place) look() error {
	if p.cfg.format != nil {
		return nil // readers know one format
	}
	findings, err := Check(p.cfg.Path)
	if err == nil && len(findings) > 0 {
		err = fmt.Errorf("check: %v", findings)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return err
}
