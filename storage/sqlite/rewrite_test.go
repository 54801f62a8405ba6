package sqlite

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

const secret = "sk-secret-0123456789"

// gone takes the secret out of whatever is a text.
func gone(text string) string { return strings.ReplaceAll(text, secret, "[gone]") }

func eraseEntry(e entry.Entry) (entry.Entry, bool, error) {
	before := string(entry.Encode(e))
	after := gone(before)
	if after == before {
		return e, false, nil
	}
	out, err := entry.Parse([]byte(after))
	return out, true, err
}

func eraseValue(_ register.Address, v jsonv.Value) (jsonv.Value, bool, error) {
	before := v.String()
	after := gone(before)
	out, err := jsonv.ParseString(after)
	return out, after != before, err
}

func erase(cfg Config) Rewrite {
	return Rewrite{Path: cfg.Path, Clock: cfg.Clock, Entry: eraseEntry, Value: eraseValue}
}

// secretive commits a session that has the secret in every kind of row: two branches, a compaction and a preparation that share the bytes of messages,
// a ledger, cells that were replaced and deleted, gaps in the seqs.
func secretive(t testing.TB, s *Store, m *minter) {
	t.Helper()
	commit := func(writes ...tx.Write) {
		t.Helper()
		if _, err := s.Commit(tx.Tx{Writes: writes}); err != nil {
			t.Fatal(err)
		}
	}
	long := func(k int) *message.User {
		return &message.User{Content: []message.UserBlock{message.Text{Text: fmt.Sprint(k, " ", strings.Repeat("words ", 200), secret)}}}
	}
	var parent, fork id.EntryID
	var tail []message.Message
	for k := range 12 {
		i := m.entry()
		u, _ := id.ParseUsageID(m.entry().String())
		commit(
			tx.InsertEntry{Entry: entry.Entry{ID: i, Parent: parent, Body: entry.Message{Message: long(k)}}},
			tx.InsertUsage{Row: entry.UsageRow{ID: u, EntryID: i, Usage: usage.Zero(), Details: new(jsonv.Str(secret))}},
			tx.Set(register.StrandLeaf, "main", register.Leaf(i)),
			tx.Set(register.FactCustom, "deleted", jsonv.Str(strings.Repeat(secret, 100))),
		)
		if parent = i; k == 5 {
			fork = i
		}
		if k > 6 {
			tail = append(tail, long(k))
		}
	}
	compaction := m.entry()
	commit(
		tx.InsertEntry{Entry: entry.Entry{ID: compaction, Parent: parent, Body: entry.Compaction{Summary: secret, RetainedTail: tail}}},
		tx.Set(register.OpPreparation, "op:task", jsonv.Obj(jsonv.F("messages", jsonv.Arr(messageValue(long(3)), messageValue(long(4)), messageValue(long(5)))))),
		tx.InsertEntry{Entry: entry.Entry{ID: m.entry(), Parent: fork, Body: entry.Custom{Type: "note", Data: new(jsonv.Str(secret))}}},
		tx.InsertEntry{Entry: entry.Entry{ID: m.entry(), Parent: fork, Body: entry.BranchSummary{Summary: "clean"}}},
		tx.Delete(register.FactCustom, "deleted"),
		tx.Set(register.FactLabel, secret, jsonv.Str("the key is left alone")),
	)
	if err := s.RecordIdentity(mustSession(t, m), id.SessionID{}); err != nil {
		t.Fatal(err)
	}
}

func messageValue(m message.Message) jsonv.Value {
	var w jsonv.Writer
	message.Append(&w, m)
	return w.Tree()
}

func mustSession(t testing.TB, m *minter) id.SessionID {
	t.Helper()
	i, err := id.ParseSessionID(m.entry().String())
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// closedSession is a session file that nobody has open.
func closedSession(t testing.TB) Config {
	t.Helper()
	cfg, _ := newConfig(t)
	s := mustOpen(t, cfg)
	secretive(t, s, newMinter(1))
	mustClose(t, s)
	cfg.Create = false
	return cfg
}

// listing is every row of a session with its stamps.
type listing struct{ rows []string }

func (l *listing) add(format string, args ...any) {
	l.rows = append(l.rows, fmt.Sprintf(format, args...))
}

func (l *listing) Session(s storage.Stats, next int64) {
	l.add("session %d %v next %d", s.Messages, s.Usage, next)
}
func (l *listing) Entry(e entry.Entry) { l.add("entry %s", entry.Encode(e)) }
func (l *listing) Usage(u entry.UsageRow) {
	var w jsonv.Writer
	entry.AppendUsageRow(&w, u)
	l.add("usage %s", w.Bytes())
}
func (l *listing) Register(ns, key string, c register.Cell) {
	l.add("register %s/%s %d %s", ns, key, c.Seq, c.Value)
}
func (l *listing) Damage(d storage.Damage) { l.add("damage %s", d) }

func list(t testing.TB, path string) []string {
	t.Helper()
	r, err := OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, r)
	var l listing
	if err := r.Walk(&l); err != nil {
		t.Fatal(err)
	}
	return l.rows
}

func peek(t testing.TB, path string) Summary {
	t.Helper()
	s, err := Peek(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// rawFiles is every byte beside and in a session.
func rawFiles(t testing.TB, path string) (names []string, content []byte) {
	t.Helper()
	files, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		names, content = append(names, filepath.Base(f)), append(content, b...)
	}
	return names, content
}

// erased is what a listing of a secretive session is to be: without the secret, but for the key that holds it.
func erased(rows []string) []string {
	out := slices.Clone(rows)
	for i, row := range rows {
		if !strings.HasPrefix(row, "register fact.label") {
			out[i] = gone(row)
		}
	}
	return out
}

func TestARewriteChangesWhatIsAskedAndNothingElse(t *testing.T) {
	cfg := closedSession(t)
	before, was := list(t, cfg.Path), peek(t, cfg.Path)
	r := erase(cfg)
	verified, scanned := 0, 0
	r.Verify = func(r *Reader) error { verified++; _, err := r.Stats(); return err }
	r.Bytes = func(c io.Reader) error {
		scanned++
		b, err := io.ReadAll(c)
		if bytes.Contains(bytes.ReplaceAll(b, []byte("fact.label"+secret), nil), []byte(secret)) {
			t.Error("the secret is in the bytes of the new file")
		}
		return err
	}
	done, err := RewriteInto(r)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(erased(before), list(t, cfg.Path)); d != "" {
		t.Error(d)
	}
	if done.Generation != 1 || done.Entries != 14 || done.Values != 13 || verified != 1 || scanned != 1 {
		t.Errorf("it did %+v, verified %d times, scanned %d times", done, verified, scanned)
	}
	is := peek(t, cfg.Path)
	if was.Generation++; is != was {
		t.Errorf("the session row is %+v, want %+v", is, was)
	}
	sound(t, cfg.Path)
	names, raw := rawFiles(t, cfg.Path)
	if len(names) != 1 || bytes.Count(raw, []byte(secret)) != bytes.Count(raw, []byte("fact.label"+secret)) {
		t.Errorf("in %v the secret is %d times", names, bytes.Count(raw, []byte(secret)))
	}
	if raw[18] != 2 || raw[19] != 2 {
		t.Error("the new file has no write-ahead log")
	}
	if st, err := os.Stat(cfg.Path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v, %v", st.Mode(), err)
	}
}

// The messages that a compaction keeps are stored once before and after.
func TestARewriteSharesBytesAgain(t *testing.T) {
	cfg := closedSession(t)
	count := func() (n int64) {
		c, err := dialQuiet(cfg.Path, DefaultBusyTimeout)
		if err != nil {
			t.Fatal(err)
		}
		defer mustCloseConn(t, c)
		for _, table := range []string{"entries", "registers"} {
			if err := c.Once("SELECT count(shares) FROM "+table, func(r row) { n += read(r, "count").num() }); err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	before := count()
	if _, err := RewriteInto(erase(cfg)); err != nil {
		t.Fatal(err)
	}
	if after := count(); before != 2 || after != before {
		t.Errorf("%d rows share before, %d after", before, after)
	}
}

func TestARewrittenSessionGoesOn(t *testing.T) {
	cfg := closedSession(t)
	next := func() int64 {
		s := mustOpen(t, cfg)
		leaf, err := leafOf(s)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Commit(tx.Tx{Writes: []tx.Write{tx.InsertEntry{Entry: said(newMinter(uint64(s.lease.fence)).entry(), leaf, "on")}}})
		if err != nil {
			t.Fatal(err)
		}
		mustClose(t, s)
		return r.FirstSeq
	}
	first := next()
	for k := range 3 {
		done, err := RewriteInto(erase(cfg))
		if err != nil || done.Generation != int64(k+1) {
			t.Fatalf("%+v, %v", done, err)
		}
		if got := next(); got != first+1 {
			t.Errorf("the next seq is %d after %d", got, first)
		}
		first++
		sound(t, cfg.Path)
	}
}

// Fences only grow, over a rewrite too: a writer of before is none after.
func TestARewriteIsAHolderLikeAnother(t *testing.T) {
	cfg := closedSession(t)
	s := mustOpen(t, cfg)
	fence := s.lease.fence
	files := folder(t, cfg.Path)
	held := asType[*storage.LeaseHeld](t, second(RewriteInto(erase(cfg))))
	if held.Holder.Owner != cfg.Owner {
		t.Errorf("held by %q", held.Holder.Owner)
	}
	if d := cmp.Diff(files, folder(t, cfg.Path)); d != "" {
		t.Errorf("a refused rewrite changed %s", d)
	}
	mustClose(t, s)

	r := erase(cfg)
	r.Verify = func(*Reader) error { // in the middle of it
		held := asType[*storage.LeaseHeld](t, second(Open(cfg)))
		if held.Holder.Owner != "rewrite" {
			t.Errorf("held by %q", held.Holder.Owner)
		}
		asType[*storage.LeaseHeld](t, second(RewriteInto(erase(cfg))))
		if got := len(list(t, cfg.Path)); got == 0 {
			t.Error("the old session cannot be read meanwhile")
		}
		return nil
	}
	if _, err := RewriteInto(r); err != nil {
		t.Fatal(err)
	}
	if s = mustOpen(t, cfg); s.lease.fence <= fence+1 {
		t.Errorf("the fence is %d after %d", s.lease.fence, fence)
	}
}

func second[T any](_ T, err error) error { return err }

func TestAFailureBeforeTheEndLeavesTheSessionAndNothingBeside(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		spoil func(r *Rewrite, cfg Config)
		want  func(error) bool
	}{
		"an entry that is refused": {func(r *Rewrite, _ Config) {
			r.Entry = func(e entry.Entry) (entry.Entry, bool, error) { return e, false, broken }
		}, func(err error) bool { return errors.Is(err, broken) }},
		"a value that is refused": {func(r *Rewrite, _ Config) {
			r.Value = func(a register.Address, v jsonv.Value) (jsonv.Value, bool, error) { return v, false, broken }
		}, func(err error) bool { return errors.Is(err, broken) }},
		"an entry that moved": {func(r *Rewrite, _ Config) {
			r.Entry = func(e entry.Entry) (entry.Entry, bool, error) { e.Parent = e.ID; return e, true, nil }
		}, isA[*storage.CorruptRow]},
		"an entry of another kind": {func(r *Rewrite, _ Config) {
			r.Entry = func(e entry.Entry) (entry.Entry, bool, error) { e.Body = entry.Custom{Type: "x"}; return e, true, nil }
		}, isA[*storage.CorruptRow]},
		"an entry that does not read back": {func(r *Rewrite, _ Config) {
			r.Entry = func(e entry.Entry) (entry.Entry, bool, error) {
				if _, ok := e.Body.(entry.Message); ok {
					e.Body = entry.Message{Message: &message.Assistant{StopReason: message.Pending}}
				}
				return e, true, nil
			}
		}, isA[*storage.CorruptRow]},
		"a look that is not content": {func(r *Rewrite, _ Config) { r.Verify = func(*Reader) error { return broken } },
			func(err error) bool { return errors.Is(err, broken) }},
		"bytes that are not": {func(r *Rewrite, _ Config) { r.Bytes = func(io.Reader) error { return broken } },
			func(err error) bool { return errors.Is(err, broken) }},
		"a lease that somebody took": {func(r *Rewrite, cfg Config) {
			r.Verify = func(*Reader) error { _, err := Take(takeable(cfg)); return err }
		}, isA[*storage.BackendFault]},
		"a lease that is gone": {func(r *Rewrite, cfg Config) {
			r.Verify = func(*Reader) error { edit(t, cfg.Path, "DELETE FROM writer_lease"); return nil }
		}, isA[*storage.BackendFault]},
		"a row that is damaged": {func(r *Rewrite, cfg Config) {
			edit(t, cfg.Path, "UPDATE entries SET payload = x'7b7d' WHERE seq = 1")
		}, isA[*storage.CorruptRow]},
		"a place that holds a folder": {func(r *Rewrite, cfg Config) {
			if err := os.MkdirAll(filepath.Join(cfg.Path+rewriteSuffix, "x"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, isA[*storage.OpenFailed]},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := closedSession(t)
			r := erase(cfg)
			r.At = func(s Step) {
				if s == StepRenamed {
					t.Error("it was renamed")
				}
			}
			c.spoil(&r, cfg)
			before := list(t, cfg.Path)
			_, err := RewriteInto(r)
			if !c.want(err) {
				t.Errorf("got %T %v", err, err)
			}
			if d := cmp.Diff(before, list(t, cfg.Path)); d != "" {
				t.Errorf("the session changed: %s", d)
			}
			if g := peek(t, cfg.Path).Generation; g != 0 {
				t.Errorf("the generation is %d", g)
			}
			if name == "a place that holds a folder" {
				return
			}
			if names, _ := rawFiles(t, cfg.Path); len(names) != 1 {
				t.Errorf("left are %v", names)
			}
			cfg.Take = true // of whoever a case gave the lease to
			mustClose(t, mustOpen(t, cfg))
		})
	}
}

func takeable(cfg Config) Config {
	cfg.Owner, cfg.Synchronous = "taker", Full
	return cfg
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// Another connection may have an old log in use: then a new file must not get its name.
func TestASessionThatIsOpenElsewhereIsNotReplaced(t *testing.T) {
	cfg := closedSession(t)
	s := mustOpen(t, cfg)
	if err := s.Release(); err != nil { // idle, without a lease, and open all the same
		t.Fatal(err)
	}
	r := erase(cfg)
	r.BusyTimeout = 20 * 1000 * 1000
	fault := asType[*storage.BackendFault](t, second(RewriteInto(r)))
	if !strings.Contains(fault.Error(), "open") {
		t.Error(fault)
	}
	if _, err := s.Commit(tx.Tx{Writes: []tx.Write{tx.Set(register.FactName, "a", jsonv.Num(1))}}); err == nil {
		t.Error("the idle handle took its lease again, as if nobody had had it")
	}
	mustClose(t, s)
	if _, err := RewriteInto(r); err != nil {
		t.Fatal(err)
	}
}

// Whoever had opened the old file and waited for it may neither become its writer nor write: the file has no name any more.
func TestWhoWaitedForTheOldFileDoesNotWriteIt(t *testing.T) {
	cfg := closedSession(t)
	r := erase(cfg)
	var late *conn
	r.At = func(s Step) {
		if s == StepVerified {
			var err error
			if late, err = dial(cfg.Path, sqlitedb.ReadWrite); err != nil {
				t.Fatal(err)
			}
			if err := late.Tune(DefaultBusyTimeout, Full, writerCache); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := RewriteInto(r); err != nil {
		t.Fatal(err)
	}
	err := late.Within("BEGIN IMMEDIATE", func() error {
		_, err := late.Exec("UPDATE writer_lease SET owner = 'late', fence = fence + 1")
		return err
	})
	if err == nil {
		t.Error("the file without a name was written")
	}
	mustCloseConn(t, late)
	if names, _ := rawFiles(t, cfg.Path); len(names) != 1 {
		t.Errorf("it left %v", names)
	}
	sound(t, cfg.Path)
}

func TestAMissingSessionIsNotRewritten(t *testing.T) {
	cfg, _ := newConfig(t)
	failed := asType[*storage.OpenFailed](t, second(RewriteInto(erase(cfg))))
	if !errors.Is(failed, os.ErrNotExist) {
		t.Error(failed)
	}
	if names, _ := rawFiles(t, cfg.Path); len(names) != 0 {
		t.Errorf("it made %v", names)
	}
}

func TestTheReservedNamesAreRefusedToOthers(t *testing.T) {
	cfg := closedSession(t)
	for _, owner := range []string{"rewrite", "move:", "move:x"} {
		cfg.Owner = owner
		asType[*storage.OpenFailed](t, second(Open(cfg)))
	}
}

// Kills: a child rewrites and dies at one of the steps.

const stepEnv = "LOOM_TEST_STEP"

// dieRewriting rewrites the session and stops for ever at the step that it was told, having said so.
func dieRewriting(path string) error {
	r := erase(Config{Path: path, Clock: wallClock})
	r.Verify = func(r *Reader) error { _, err := r.Stats(); return err }
	r.At = func(s Step) {
		if string(s) == os.Getenv(stepEnv) {
			fmt.Println(s)
			told(bufio.NewReader(os.Stdin))
		}
	}
	_, err := RewriteInto(r)
	fmt.Println("done")
	return err
}

// TestTortureKilledRewrite kills a process at each step of a rewrite: what is left is the old session or the new one, whole, and the next opening leaves
// nothing of the other.
func TestTortureKilledRewrite(t *testing.T) {
	for n, step := range Steps {
		t.Run(string(step), func(t *testing.T) {
			cfg := closedSession(t)
			cfg.Clock = wallClock
			old := list(t, cfg.Path)
			c := start(t, "rewrite", cfg.Path, stepEnv+"="+string(step))
			if got := c.line(); got != string(step) {
				t.Fatalf("it said %q", got)
			}
			c.kill()
			renamed := n >= slices.Index(Steps[:], StepRenamed)

			got, generation := list(t, cfg.Path), peek(t, cfg.Path).Generation
			if renamed {
				if d := cmp.Diff(erased(old), got); d != "" || generation != 1 {
					t.Errorf("not the new session, generation %d: %s", generation, d)
				}
			} else if d := cmp.Diff(old, got); d != "" || generation != 0 {
				t.Errorf("not the old session, generation %d: %s", generation, d)
			}
			sound(t, cfg.Path)

			// The holder is provably dead, so the next writer comes in at once.
			mustClose(t, mustOpen(t, cfg))
			if names, _ := rawFiles(t, cfg.Path); len(names) != 1 {
				t.Errorf("left are %v", names)
			}
			r := erase(cfg)
			if _, err := RewriteInto(r); err != nil {
				t.Fatal(err)
			}
			if _, raw := rawFiles(t, cfg.Path); bytes.Count(raw, []byte(secret)) != bytes.Count(raw, []byte("fact.label"+secret)) {
				t.Error("the secret is left")
			}
			sound(t, cfg.Path)
		})
	}
}

func TestTheBytesOfASessionAreSeenWithoutALease(t *testing.T) {
	cfg, _ := newConfig(t)
	s := mustOpen(t, cfg)
	secretive(t, s, newMinter(1))
	before := folder(t, cfg.Path)
	seen := func() map[string][]byte {
		t.Helper()
		r, err := OpenReader(cfg.Path)
		if err != nil {
			t.Fatal(err)
		}
		defer mustClose(t, r)
		parts := map[string][]byte{}
		if err := r.Bytes(func(part string, content io.Reader) error {
			b, err := io.ReadAll(content)
			parts[part] = b
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return parts
	}
	parts := seen()
	// The register that was deleted is in no row, and its text is in free pages or in the log.
	deleted := []byte(strings.Repeat(secret, 20))
	if !bytes.Contains(parts["database"], deleted) && !bytes.Contains(parts["wal"], deleted) || len(parts["wal"]) == 0 {
		t.Errorf("the parts are of %d and %d bytes", len(parts["database"]), len(parts["wal"]))
	}
	if d := cmp.Diff(before, folder(t, cfg.Path)); d != "" {
		t.Errorf("a look changed %s", d)
	}
	mustClose(t, s)
	raw, err := os.ReadFile(cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	parts = seen()
	if !bytes.Equal(parts["database"], raw) {
		t.Errorf("of a closed session %d bytes are seen, the file has %d", len(parts["database"]), len(raw))
	}
	if _, ok := parts["wal"]; ok && len(parts["wal"]) > 0 {
		t.Error("there is no log any more")
	}
	broken := errors.New("broken")
	r, err := OpenReader(cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, r)
	if err := r.Bytes(func(string, io.Reader) error { return broken }); err != broken {
		t.Errorf("got %v", err)
	}
}
