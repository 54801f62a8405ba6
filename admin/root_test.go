package admin_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loom-run/loom/admin"
	"github.com/loom-run/loom/blob"
	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/needle"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/session/check"
	"github.com/loom-run/loom/session/repo"
	"github.com/loom-run/loom/session/sessiontest"
	"github.com/loom-run/loom/storage/sqlite"
)

const (
	epoch  = 1_767_225_600_000
	secret = "sk-secret-0123456789"
)

func now() int64 { return epoch }

// world is a root on disk.
type world struct {
	t    testing.TB
	dir  string
	ids  id.Generator
	root admin.Root

	listed func(n int) // before the n-th listing of sessions
	lists  int
	borrow func(id.SessionID) error
	owners int
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), ids: id.NewGenerator(clock.Fixed(epoch), 11)}
	if err := os.MkdirAll(filepath.Join(w.dir, "sessions"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.root = admin.Root{
		Dir: w.dir, Clock: now, Sessions: w.sessions,
		Owner: func() string { w.owners++; return fmt.Sprint("owner ", w.owners) },
		Borrow: func(s id.SessionID) (func(), error) {
			if w.borrow != nil {
				if err := w.borrow(s); err != nil {
					return nil, err
				}
			}
			return func() {}, nil
		},
	}
	return w
}

func (w *world) sessions() (places []admin.Place, err error) {
	w.lists++
	if w.listed != nil {
		w.listed(w.lists)
	}
	files, err := filepath.Glob(filepath.Join(w.dir, "sessions", "*.db"))
	for _, f := range files {
		s, err := id.ParseSessionID(strings.TrimSuffix(filepath.Base(f), ".db"))
		if err == nil {
			places = append(places, w.place(s))
		}
	}
	return places, err
}

func (w *world) place(s id.SessionID) admin.Place {
	at := filepath.Join(w.dir, "sessions", s.String())
	return admin.Place{Session: s, File: at + ".db", Outputs: at + ".blobs"}
}

func (w *world) open(s id.SessionID) *sqlite.Store {
	w.t.Helper()
	store, err := sqlite.Open(w.config(s))
	if err != nil {
		w.t.Fatal(err)
	}
	return store
}

func (w *world) config(s id.SessionID) sqlite.Config {
	return sqlite.Config{Path: w.place(s).File, Owner: w.root.Owner(), Clock: now, Create: true}
}

func (w *world) commit(store *sqlite.Store, writes ...tx.Write) {
	w.t.Helper()
	if _, err := store.Commit(tx.Tx{Writes: writes}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) close(store *sqlite.Store) {
	w.t.Helper()
	if err := store.Close(); err != nil {
		w.t.Fatal(err)
	}
}

// story is a closed session that has everything, each text around what say gives.
func (w *world) story(say func(place string) string) *sessiontest.Story {
	w.t.Helper()
	var s *sessiontest.Story
	s, w.ids = sessiontest.Tell(w.ids, say)
	store := w.open(s.Self)
	for _, x := range s.Txs {
		if _, err := store.Commit(x); err != nil {
			w.t.Fatal(err)
		}
	}
	w.commit(store, tx.Delete(register.FactCustom, session.ParentKey))
	w.close(store)
	return s
}

func (w *world) entry() (i id.EntryID) {
	i, w.ids = w.ids.Entry()
	return i
}

// plain is a closed session with these messages, and its id.
func (w *world) plain(texts ...string) id.SessionID {
	w.t.Helper()
	var s id.SessionID
	s, w.ids = w.ids.Session()
	store := w.open(s)
	w.commit(store, tx.Set(register.FactCustom, session.IDKey, jsonv.Str(s.String())))
	var parent id.EntryID
	for _, text := range texts {
		i := w.entry()
		w.commit(store, tx.InsertEntry{Entry: entry.Entry{ID: i, Parent: parent, Body: entry.Message{Message: &message.User{Content: []message.UserBlock{message.Text{Text: text}}}}}})
		parent = i
	}
	w.close(store)
	return s
}

// fork is a closed fork of a session.
func (w *world) fork(of id.SessionID) id.SessionID {
	w.t.Helper()
	r, err := sqlite.OpenReader(w.place(of).File)
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Close()
	forked, self, ids, err := repo.Fork(repo.Plan{Source: session.NewView(r), Scope: repo.Tree{}, To: repo.IntoSQLite(w.config)}, w.ids)
	if err != nil {
		w.t.Fatal(err)
	}
	w.ids = ids
	if err := forked.Close(); err != nil {
		w.t.Fatal(err)
	}
	return self
}

func needleOf(t testing.TB, text string) needle.Needle {
	t.Helper()
	n, err := needle.New(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (w *world) erase(e admin.Erasure) admin.Receipt {
	w.t.Helper()
	r, err := admin.Erase(w.root, e)
	if err != nil {
		w.t.Fatal(err)
	}
	if text := string(r.Append(nil)); e.Needle.In(text) && e.Needle.Coded() {
		w.t.Errorf("the receipt holds the text: %s", text)
	}
	return r
}

// account is the one account of a subject.
func account(t testing.TB, r admin.Receipt, store string, subject fmt.Stringer) admin.Account {
	t.Helper()
	var found []admin.Account
	for _, a := range r.Accounts {
		if a.Store == store && a.Subject == subject.String() {
			found = append(found, a)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d accounts of %s %s: %s", len(found), store, subject, r.Append(nil))
	}
	return found[0]
}

func (w *world) wants(r admin.Receipt, s id.SessionID, want admin.Outcome) admin.Account {
	w.t.Helper()
	a := account(w.t, r, admin.SessionStore, s)
	if a.Outcome != want || (a.Reason == "") != (want == admin.Clean || want == admin.Present) {
		w.t.Errorf("the session %s is %q because of %q, want %q", s, a.Outcome, a.Reason, want)
	}
	return a
}

// raw reports which files of the root hold the text in any spelling.
func (w *world) raw(n needle.Needle) (holding []string) {
	w.t.Helper()
	err := filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if found, _ := n.InBytes(bytes.NewReader(b)); found {
			holding = append(holding, filepath.Base(path))
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return holding
}

// digest is every file of the root, but for the index of a log, which readers may rebuild.
func (w *world) digest() string {
	w.t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, "-shm") {
			return err
		}
		content, err := os.ReadFile(path)
		fmt.Fprintf(&b, "%s %x\n", path, sha256.Sum256(content))
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return b.String()
}

// sound fails the test unless every session is sound, its outputs included.
func (w *world) sound() {
	w.t.Helper()
	w.lists = -1000
	places, err := w.sessions()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range places {
		r, err := sqlite.OpenReader(p.File)
		if err != nil {
			w.t.Fatal(err)
		}
		found, err := check.Session(r)
		if err != nil {
			w.t.Fatal(err)
		}
		outputs, err := check.Blobs(r, blob.Open(p.Outputs), false)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, f := range append(found, outputs...) {
			w.t.Errorf("check of %s: %s", p.Session, f)
		}
		r.Close()
	}
}

// kept puts an output into the folder of a session and a result that refers to it.
func (w *world) kept(s id.SessionID, content string) blob.Ref {
	w.t.Helper()
	ref, err := blob.Open(w.place(s).Outputs).PutBytes([]byte(content))
	if err != nil {
		w.t.Fatal(err)
	}
	call := fmt.Sprint("call ", ref.SHA256[:8])
	asked, answered := w.entry(), w.entry()
	u, ids := w.ids.Usage()
	w.ids = ids
	store := w.open(s)
	w.commit(store,
		tx.InsertEntry{Entry: entry.Entry{ID: asked, Body: entry.Message{Message: &message.Assistant{
			Content: []message.AssistantBlock{message.ToolCall{ID: call, Name: "bash", Arguments: jsonv.Obj()}}, StopReason: message.ToolUse}}}},
		tx.InsertUsage{Row: entry.UsageRow{ID: u, EntryID: asked}},
		tx.InsertEntry{Entry: entry.Entry{ID: answered, Parent: asked, Body: entry.Message{Message: &message.ToolResult{
			ToolCallID: call, ToolName: "bash", Content: []message.ResultBlock{message.Text{Text: "the rest is kept as " + ref.SHA256}},
			Details: new(jsonv.Obj(jsonv.F("exit", jsonv.Num(0)), jsonv.F(blob.DetailsKey, jsonv.Arr(ref.Value().With("stream", jsonv.Str("stdout")))))),
		}}}},
	)
	w.close(store)
	return ref
}

func in64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

var errRunning = errors.New("it is running")

func sha(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }
