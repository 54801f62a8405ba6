package admin_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loom-run/loom/admin"
	"github.com/loom-run/loom/blob"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/internal/cases"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/session/check"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlite"
)

// replay turns a session that another agent recorded into rows: what it knows of a line becomes a message, every other line a custom entry.
type replay struct {
	w      *world
	plant  func(place, text string) string
	parent id.EntryID
	writes []tx.Write
	blobs  *blob.Store
}

func (r *replay) add(b entry.Body) {
	i := r.w.entry()
	r.writes = append(r.writes, tx.InsertEntry{Entry: entry.Entry{ID: i, Parent: r.parent, Body: b}})
	if m, ok := b.(entry.Message); ok {
		if _, ok := m.Message.(*message.Assistant); ok {
			u, ids := r.w.ids.Usage()
			r.w.ids = ids
			r.writes = append(r.writes, tx.InsertUsage{Row: entry.UsageRow{ID: u, EntryID: i, Usage: usage.Zero(), Details: new(jsonv.Obj(jsonv.F("note", jsonv.Str(r.plant("ledger", "")))))}})
		}
	}
	r.parent = i
}

func (r *replay) line(text []byte) {
	v, err := jsonv.Parse(text)
	if err != nil {
		r.add(entry.Custom{Type: "unread", Data: new(jsonv.Str(r.plant("custom", strings.ToValidUTF8(string(text), "?"))))})
		return
	}
	m := v
	for _, name := range []string{"message", "payload"} {
		if inner, ok := v.Get(name); ok && inner.Kind() == jsonv.Object {
			m = inner
		}
	}
	role, _ := m.Get("role")
	word, _ := role.Text()
	content, _ := m.Get("content")
	kind, _ := m.Get("type")
	switch tag, _ := kind.Text(); {
	case tag == "function_call":
		r.add(entry.Message{Message: r.response([]message.AssistantBlock{r.call(m)})})
	case tag == "function_call_output", word == "toolResult":
		r.result(m)
	case word == "assistant":
		var blocks []message.AssistantBlock
		for _, b := range content.Elems() {
			blocks = append(blocks, r.block(b))
		}
		r.add(entry.Message{Message: r.response(blocks)})
	case word == "user":
		r.user(content)
	default:
		r.add(entry.Custom{Type: "line", Data: new(jsonv.Obj(jsonv.F("line", v), jsonv.F("note", jsonv.Str(r.plant("custom", "")))))})
	}
}

func (r *replay) response(blocks []message.AssistantBlock) *message.Assistant {
	return &message.Assistant{Content: blocks, API: "recorded", StopReason: message.Stop, ErrorMessage: new(r.plant("error", "")), Diagnostics: new(jsonv.Obj(jsonv.F("d", jsonv.Str(r.plant("diagnostics", "")))))}
}

func str(v jsonv.Value, names ...string) string {
	for _, n := range names {
		if f, ok := v.Get(n); ok {
			if s, ok := f.Text(); ok {
				return s
			}
			return f.String()
		}
	}
	return ""
}

func (r *replay) block(b jsonv.Value) message.AssistantBlock {
	switch kind := str(b, "type"); kind {
	case "thinking", "reasoning":
		t := message.Thinking{Thinking: r.plant("reasoning", str(b, "thinking", "text"))}
		if s := str(b, "signature", "thinkingSignature"); s != "" {
			t.Signature = &s
		}
		return t
	case "toolCall", "tool_use":
		return r.call(b)
	}
	return message.Text{Text: r.plant("answer", str(b, "text"))}
}

func (r *replay) call(b jsonv.Value) message.ToolCall {
	args, _ := b.Get("arguments")
	if input, ok := b.Get("input"); ok {
		args = input
	}
	return message.ToolCall{ID: str(b, "id", "call_id"), Name: str(b, "name"),
		Arguments: jsonv.Obj(jsonv.F("recorded", args), jsonv.F("nested", jsonv.Str(r.plant("arguments", args.String()))))}
}

// result keeps the text as an output, too, if it is long.
func (r *replay) result(m jsonv.Value) {
	text := r.plant("result", str(m, "output", "content"))
	details := []jsonv.Member{jsonv.F("note", jsonv.Str(r.plant("details", "")))}
	if len(text) > 2000 {
		ref, err := r.blobs.PutBytes([]byte(text))
		if err != nil {
			r.w.t.Fatal(err)
		}
		details = append(details, jsonv.F(blob.DetailsKey, jsonv.Arr(ref.Value())))
		text = text[:500] + " … the rest is kept as " + ref.SHA256
	}
	r.add(entry.Message{Message: &message.ToolResult{ToolCallID: str(m, "toolCallId", "call_id", "tool_use_id"), ToolName: "recorded",
		Content: []message.ResultBlock{message.Text{Text: strings.ToValidUTF8(text, "?")}, message.Image{Data: in64("png" + r.plant("image", "")), MimeType: "image/png"}},
		Details: new(jsonv.Obj(details...))}})
}

// user is a prompt, or results in the guise of one.
func (r *replay) user(content jsonv.Value) {
	if s, ok := content.Text(); ok {
		r.add(entry.Message{Message: &message.User{Content: []message.UserBlock{message.Text{Text: r.plant("prompt", s)}}}})
		return
	}
	for _, b := range content.Elems() {
		if str(b, "type") == "tool_result" {
			r.result(b)
			continue
		}
		r.add(entry.Message{Message: &message.User{Content: []message.UserBlock{message.Text{Text: r.plant("prompt", str(b, "text"))}}}})
	}
}

// end adds what no other agent records: a compaction over it, a label, queues.
func (r *replay) end() {
	tail := []message.Message{}
	for _, w := range r.writes[max(0, len(r.writes)-40):] {
		if i, ok := w.(tx.InsertEntry); ok {
			if m, ok := i.Entry.Body.(entry.Message); ok {
				tail = append(tail, m.Message)
			}
		}
	}
	first := r.parent
	r.add(entry.Compaction{Summary: r.plant("compaction", ""), RetainedTail: tail})
	r.add(entry.BranchSummary{FromID: first, Summary: r.plant("branch summary", "")})
	r.writes = append(r.writes,
		tx.Set(register.FactLabel, first.String(), jsonv.Str(r.plant("label", ""))),
		tx.Set(register.FactName, "name", jsonv.Str(r.plant("name", ""))),
		tx.Set(register.FactCustom, "agent/main/todo", jsonv.Str(r.plant("fact", ""))),
		tx.Set(register.StrandLeaf, "main", register.Leaf(r.parent)),
		tx.Set(register.StrandConfig, "main", machine.Configuration{ThinkingLevel: machine.ThinkingOff}.Value()),
		tx.Set(register.StrandState, "main", machine.StrandState{}.Value()),
	)
}

// spelt are the ways a text is planted in turn.
var spelt = []func(string) string{
	func(s string) string { return s },
	func(s string) string { return strings.Trim(jsonv.Str(s).String(), `"`) },
	func(s string) string { return strings.Trim(jsonv.Str(jsonv.Str(s).String()).String(), `"`) },
	url.QueryEscape,
	func(s string) string { return in64("" + s) }, func(s string) string { return in64("x" + s) }, func(s string) string { return in64("xx" + s) },
}

// recordedSessions are several that people ran with several agents.
var recordedSessions = []string{
	"pi/PI02.jsonl", "pi/PI03.jsonl", "claude/CC09.jsonl", "claude/CC13.jsonl", "codex/CX02.jsonl", "codex/CX04/codex.jsonl", "gemini/GM04/jsonl_v040.jsonl", "other-agents/OT03.jsonl",
}

func TestATextGoesFromRecordedSessions(t *testing.T) {
	dir := cases.Dir(t)
	const text = `sk-"live"/0123 🔑`
	n := needleOf(t, text)
	for _, name := range recordedSessions {
		t.Run(name, func(t *testing.T) {
			f, err := os.Open(filepath.Join(dir, "sessions", filepath.FromSlash(name)))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			w := newWorld(t)
			var s id.SessionID
			s, w.ids = w.ids.Session()
			places, turn := map[string]int{}, 0
			r := &replay{w: w, blobs: blob.Open(w.place(s).Outputs), plant: func(place, text2 string) string {
				places[place]++
				turn++
				if places[place]%3 == 2 { // some stay as they were
					return text2
				}
				at := len(text2) / 2
				for at > 0 && text2[at]&0xc0 == 0x80 {
					at--
				}
				return text2[:at] + " " + spelt[turn%len(spelt)](text) + " " + text2[at:]
			}}
			lines := bufio.NewScanner(f)
			lines.Buffer(nil, 64<<20)
			for lines.Scan() {
				if len(bytes.TrimSpace(lines.Bytes())) > 0 {
					r.line(lines.Bytes())
				}
			}
			if err := lines.Err(); err != nil {
				t.Fatal(err)
			}
			r.end()
			store := w.open(s)
			w.commit(store, append([]tx.Write{tx.Set(register.FactCustom, session.IDKey, jsonv.Str(s.String()))}, r.writes...)...)
			w.close(store)
			fork := w.fork(s)
			before, entries := broken(t, w, s), w.count(s)

			receipt := w.erase(admin.Erasure{Needle: n, Session: s})
			for _, x := range []id.SessionID{s, fork} {
				if a := w.wants(receipt, x, admin.Clean); a.Erased == 0 || a.Erased != a.Found.Texts {
					t.Errorf("%+v", a)
				}
			}
			if left := w.raw(n); left != nil || receipt.Worst() != admin.Clean {
				t.Errorf("left in %v: %s", left, receipt.Append(nil))
			}
			if after := broken(t, w, s); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("a check found %v and now %v", before, after)
			}
			if now := w.count(s); now != entries {
				t.Errorf("%d entries became %d", entries, now)
			}
			if len(places) < 6 {
				t.Errorf("it was planted in %v", places)
			}
		})
	}
}

func (w *world) count(s id.SessionID) int {
	r := must(sqlite.OpenReader(w.place(s).File))
	defer r.Close()
	return len(must(r.ScanEntryHeads(storage.EntryQuery{})))
}

// broken counts what a check finds, by invariant: recorded sessions have calls without results.
func broken(t *testing.T, w *world, s id.SessionID) map[storage.Invariant]int {
	t.Helper()
	r := must(sqlite.OpenReader(w.place(s).File))
	defer r.Close()
	out := map[storage.Invariant]int{}
	for _, f := range append(must(check.Session(r)), must(check.Blobs(r, blob.Open(w.place(s).Outputs), false))...) {
		out[f.Invariant]++
	}
	return out
}
