package sqlite

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/storage"
)

func kept(text string) message.Message {
	return &message.User{Content: []message.UserBlock{message.Text{Text: text}}}
}

// shared opens a session with n long messages, a preparation and a compaction that
// keep the last of them.
func shared(t testing.TB, cfg Config, m *minter, n, keep int) (s *Store, ids []id.EntryID) {
	t.Helper()
	s = mustOpen(t, cfg)
	var parent id.EntryID
	var said []message.Message
	for k := range n {
		text := fmt.Sprintf("message %d %s", k, strings.Repeat("word ", 200))
		e := entry.Entry{ID: m.entry(), Parent: parent, Body: entry.Message{Message: kept(text)}}
		mustCommit(t, s, tx.InsertEntry{Entry: e})
		parent, ids, said = e.ID, append(ids, e.ID), append(said, kept(text))
	}
	tail := said[n-keep:]
	var w jsonv.Writer
	w.Begin()
	w.Name("retainedTail")
	w.BeginArray()
	for _, one := range tail {
		message.Append(&w, one)
	}
	w.EndArray()
	w.End()
	v, err := jsonv.Parse(w.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	c := entry.Entry{ID: m.entry(), Parent: parent, Body: entry.Compaction{Summary: "so far", RetainedTail: tail}}
	mustCommit(t, s, tx.Set(register.OpPreparation, "task", v))
	mustCommit(t, s, tx.InsertEntry{Entry: c})
	return s, append(ids, c.ID)
}

func mustCommit(t testing.TB, s *Store, writes ...tx.Write) {
	t.Helper()
	if _, err := s.Commit(tx.Tx{Writes: writes}); err != nil {
		t.Fatal(err)
	}
}

func TestBytesOfATailAreStoredOnce(t *testing.T) {
	cfg, _ := newConfig(t)
	s, ids := shared(t, cfg, newMinter(1), 20, 10)
	rows, err := s.Entries(ids[20])
	if err != nil || len(rows[ids[20]].Body.(entry.Compaction).RetainedTail) != 10 {
		t.Fatal(rows, err)
	}
	for k := range 20 {
		said := fmt.Appendf(nil, "message %d word", k)
		r, _, err := s.w.One("SELECT (SELECT count(*) FROM entries WHERE instr(payload, ?) > 0), (SELECT count(*) FROM registers WHERE instr(value, ?) > 0)", said, said)
		if err != nil || r[0] != int64(1) || r[1] != int64(0) {
			t.Errorf("message %d is in %v entries and %v cells, %v", k, r[0], r[1], err)
		}
	}
	mustClose(t, s)
	sound(t, cfg.Path)
}

// TestATailOfATailLeadsToTheEntry compacts again and again with the same tail, of
// which one message never was an entry.
func TestATailOfATailLeadsToTheEntry(t *testing.T) {
	cfg, _ := newConfig(t)
	m := newMinter(1)
	s, ids := shared(t, cfg, m, 6, 3)
	rows, err := s.Entries(ids[6])
	if err != nil {
		t.Fatal(err)
	}
	tail := append(rows[ids[6]].Body.(entry.Compaction).RetainedTail, kept("a stranger "+strings.Repeat("word ", 200)))
	parent := ids[6]
	for range 50 {
		e := entry.Entry{ID: m.entry(), Parent: parent, Body: entry.Compaction{Summary: "again", RetainedTail: tail}}
		mustCommit(t, s, tx.InsertEntry{Entry: e})
		parent = e.ID
	}
	list, err := s.ScanBranch(storage.BranchQuery{Start: parent, Kind: entry.KindCompaction})
	if err != nil || len(list) != 51 {
		t.Fatal(len(list), err)
	}
	for _, e := range list[:50] {
		if got := e.Body.(entry.Compaction).RetainedTail; len(got) != len(tail) {
			t.Fatalf("a tail of %d", len(got))
		}
	}
	mustClose(t, s)
	sound(t, cfg.Path)
	content, err := os.ReadFile(cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(content, []byte("a stranger word")); n != 1 {
		t.Errorf("the message that only tails have is in the file %d times", n)
	}
}

func TestAWrongShareIsDamage(t *testing.T) {
	for name, c := range map[string]struct {
		shares []byte
		whose  string
	}{
		"half a share":     {[]byte{1}, "records of 32 bytes"},
		"beyond the text":  {shareBytes(1<<40, 1, 0, 1), "a gap of the text"},
		"before the text":  {shareBytes(-1, 1, 0, 1), "a gap of the text"},
		"itself":           {shareBytes(0, 7, 0, 1), "an earlier entry"},
		"no entry":         {shareBytes(0, -3, 0, 1), "an entry at seq -3"},
		"beyond the other": {shareBytes(0, 1, 5, 1<<40), "a part of the"},
		"negative":         {shareBytes(0, 1, -5, 3), "a part of the"},
		"overflowing":      {shareBytes(0, 1, 1<<62, 1<<62), "a part of the"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, _ := newConfig(t)
			s, _ := shared(t, cfg, newMinter(1), 3, 1)
			_, err := stored{text: []byte("{}"), shares: c.shares}.whole(s.w, 7)
			r, ok := corrupt.As(err)
			if !ok || !strings.Contains(r.Expected, c.whose) {
				t.Errorf("%v", err)
			}
		})
	}
}

func shareBytes(nums ...int64) (b []byte) {
	for _, n := range nums {
		b = append(b, u64(n)...)
	}
	return b
}

func u64(n int64) []byte {
	b := make([]byte, 8)
	for i := range b {
		b[i] = byte(uint64(n) >> (56 - 8*i))
	}
	return b
}

// FuzzSharing looks for messages in any bytes: whatever is found, the payload reads
// back as it was.
func FuzzSharing(f *testing.F) {
	long := strings.Repeat("word ", 60)
	source := `{"id":"x","type":"message","message":{"role":"user","content":"` + long + `"}}`
	f.Add([]byte(source), []byte(`{"retainedTail":[{"role":"user","content":"`+long+`"},{"role":"user","content":"`+long+`"}],"n":1}`))
	f.Add([]byte(`{"message":"\`), []byte(`{"a":[{"b":"`+long))
	f.Add([]byte(`{"message"`), []byte(`{"a":[},{`+long))
	f.Fuzz(func(t *testing.T, source, payload []byte) {
		s := &sharing{text: payload, wanted: map[string][]int64{}, found: map[int64]share{}}
		for _, v := range members(payload) {
			for at, object := range elements(payload, v) {
				if !bytes.Equal(payload[at:at+int64(len(object))], object) {
					t.Fatalf("an element is not where it is said to be: %d", at)
				}
				s.wanted[view(object)] = append(s.wanted[view(object)], at)
			}
		}
		s.left = len(s.wanted)
		if _, err := s.offer(nil, &head{seq: 1, kind: entry.KindMessage}, stored{text: source}); err != nil {
			t.Fatal(err)
		}
		out := s.stored()
		gaps, err := out.gaps()
		if err != nil {
			t.Fatal(err)
		}
		var whole []byte
		done := int64(0)
		for _, g := range gaps {
			whole = append(whole, out.text[done:g.at]...)
			part, ok := cutOut(source, g)
			if !ok {
				t.Fatalf("%+v leads beyond %d bytes", g, len(source))
			}
			whole, done = append(whole, part...), g.at
		}
		if whole = append(whole, out.text[done:]...); !bytes.Equal(whole, payload) {
			t.Fatalf("%q became %q", payload, whole)
		}
	})
}
