package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/loom-run/loom/blob"
	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/server"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/session/repo"
	"github.com/loom-run/loom/storage/sqlite"
)

// kept is a closed session of a node with three calls and their results in a row, each with an output, of which the third is lost.
type kept struct {
	node    *Node
	session id.SessionID
	results [3]id.EntryID
	outputs [3]blob.Ref
}

func newKept(t *testing.T) *kept {
	t.Helper()
	home := Home{t.TempDir()}
	k := &kept{node: New(Config{Home: home, Now: now})}
	if err := home.create(); err != nil {
		t.Fatal(err)
	}
	ids := id.NewGenerator(clock.Fixed(epoch), 7)
	k.session, ids = ids.Session()
	store, err := sqlite.Open(sqlite.Config{Path: home.file(k.session), Owner: "test", Clock: k.node.cfg.Now, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := session.New(store).Found(k.session, "/somewhere", machine.Configuration{ThinkingLevel: machine.ThinkingOff}); err != nil {
		t.Fatal(err)
	}
	outputs := blob.Open(home.blobs(k.session))
	var parent id.EntryID
	for n := range k.results {
		var asked id.EntryID
		var u id.UsageID
		asked, ids = ids.Entry()
		u, ids = ids.Usage()
		k.results[n], ids = ids.Entry()
		if k.outputs[n], err = outputs.PutBytes([]byte{byte(n)}); err != nil {
			t.Fatal(err)
		}
		call := fmt.Sprint("call ", n)
		request := &message.Assistant{Content: []message.AssistantBlock{message.ToolCall{ID: call, Name: "bash", Arguments: jsonv.Obj()}}, StopReason: message.ToolUse}
		result := &message.ToolResult{ToolCallID: call, ToolName: "bash", Content: []message.ResultBlock{message.Text{Text: "see the output"}},
			Details: new(jsonv.Obj(jsonv.F(blob.DetailsKey, jsonv.Arr(k.outputs[n].Value()))))}
		if _, err := store.Commit(tx.Tx{Writes: []tx.Write{
			tx.InsertEntry{Entry: entry.Entry{ID: asked, Parent: parent, Body: entry.Message{Message: request}}},
			tx.InsertUsage{Row: entry.UsageRow{ID: u, EntryID: asked}},
			tx.InsertEntry{Entry: entry.Entry{ID: k.results[n], Parent: asked, Body: entry.Message{Message: result}}},
			tx.Set(register.StrandLeaf, session.MainStrand, register.Leaf(k.results[n])),
		}}); err != nil {
			t.Fatal(err)
		}
		parent = k.results[n]
	}
	if err := errors.Join(store.Close(), outputs.Remove(k.outputs[2])); err != nil {
		t.Fatal(err)
	}
	return k
}

func (k *kept) has(t *testing.T, s id.SessionID) (have [3]bool) {
	t.Helper()
	for n, ref := range k.outputs {
		r, err := blob.Open(k.node.home.blobs(s)).Open(ref)
		if have[n] = err == nil; have[n] {
			r.Close()
		}
	}
	return have
}

func TestAForkHasTheOutputsThatItRefersTo(t *testing.T) {
	k := newKept(t)
	for name, c := range map[string]struct {
		forking Forking
		entries int
		missing int
		has     [3]bool
	}{
		"to its end":    {Forking{}, 6, 1, [3]bool{true, true, false}},
		"to an entry":   {Forking{At: k.results[0]}, 2, 0, [3]bool{true, false, false}},
		"a whole tree":  {Forking{Tree: true}, 6, 1, [3]bool{true, true, false}},
		"to the second": {Forking{At: k.results[1]}, 4, 0, [3]bool{true, true, false}},
	} {
		made, err := k.node.Fork(k.session, c.forking)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if made.Entries != c.entries || made.Missing != c.missing || k.has(t, made.Session) != c.has {
			t.Errorf("%s: %+v, outputs %v", name, made, k.has(t, made.Session))
		}
		slot, err := k.node.Slot(made.Session)
		if err != nil {
			t.Fatal(err)
		}
		err = slot.Read(func(v *session.View) error {
			if cwd, _, err := v.Workspace(); cwd != "/somewhere" || err != nil {
				t.Errorf("%s: it works in %q, %v", name, cwd, err)
			}
			if parent, _, err := v.ParentID(); parent != k.session || err != nil {
				t.Errorf("%s: it comes from %s, %v", name, parent, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if s, err := sqlite.Peek(k.node.home.file(made.Session)); err != nil || s.ID != made.Session || s.Parent != k.session {
			t.Errorf("%s: the catalogue says %s of %s, %v", name, s.ID, s.Parent, err)
		}
	}
}

func TestAForkThatFailsLeavesNothing(t *testing.T) {
	k := newKept(t)
	before, err := os.ReadDir(k.node.home.sessions())
	if err != nil {
		t.Fatal(err)
	}
	other, _ := id.NewGenerator(clock.Fixed(epoch), 99).Entry()
	_, err = k.node.Fork(k.session, Forking{At: other})
	if r, ok := errors.AsType[*server.Refusal](err); !ok || r.Code != server.BadRequest {
		t.Errorf("an unknown entry: %v", err)
	}
	// A folder in the place of the outputs that are to be linked.
	if err := os.Remove(filepath.Join(k.node.home.blobs(k.session), k.outputs[1].SHA256)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(k.node.home.blobs(k.session), k.outputs[1].SHA256), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := k.node.Fork(k.session, Forking{}); err == nil {
		t.Error("an output that cannot be copied was left out in silence")
	} else if _, ok := errors.AsType[*repo.CopyFailed](err); !ok {
		t.Errorf("%T %v", err, err)
	}
	after, err := os.ReadDir(k.node.home.sessions())
	if err != nil || len(after) != len(before) {
		t.Errorf("%d files became %d, %v", len(before), len(after), err)
	}
}

func TestASessionWithoutAMessageIsNotForked(t *testing.T) {
	k := newKept(t)
	store, err := sqlite.Open(sqlite.Config{Path: k.node.home.file(k.session), Owner: "test", Clock: k.node.cfg.Now})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Commit(tx.Tx{Writes: []tx.Write{tx.Set(register.StrandLeaf, session.MainStrand, register.Leaf(id.EntryID{}))}}); err != nil {
		t.Fatal(err)
	}
	store.Close()
	_, err = k.node.Fork(k.session, Forking{})
	if r, ok := errors.AsType[*server.Refusal](err); !ok || r.Code != server.BadRequest {
		t.Errorf("%v", err)
	}
}
