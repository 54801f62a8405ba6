package engine_test

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/session/projection"
	"github.com/loom-run/loom/storage"
)

// record is what has become durable, as somebody sees it who sees every commit. Clients, models and tools of a script go by it, so that they do the same
// however often the process dies.
type record struct {
	view    *session.View
	texts   map[string]id.EntryID // of people: queued or placed
	strands map[string]*strandRecord
	ends    map[string]int // how often an operation ended
}

// strandRecord is that of a strand.
type strandRecord struct {
	answered   int  // responses that are kept
	compacted  bool // since the last of them
	failed     bool // a run, since the last of them
	structural int  // compactions and navigations that were accepted
	runs       int  // that were accepted
	state      machine.StrandState
	op         machine.Operation
	work       machine.State // of the open operation
	outcomes   []string
}

func newRecord(view *session.View) *record {
	return &record{view: view, texts: map[string]id.EntryID{}, strands: map[string]*strandRecord{}, ends: map[string]int{}}
}

func (r *record) strand(name string) *strandRecord {
	if r.strands[name] == nil {
		r.strands[name] = &strandRecord{}
	}
	return r.strands[name]
}

// observe sees a commit that was applied.
func (r *record) observe(t tx.Tx) error {
	where := "" // whose leaf moved
	for _, w := range t.Writes {
		if set, ok := w.(tx.SetRegister); ok && set.NS == register.StrandLeaf {
			where = set.Key
		}
	}
	for _, w := range t.Writes {
		switch w := w.(type) {
		case tx.InsertEntry:
			r.placed(where, w.Entry)
		case tx.SetRegister:
			if err := r.set(w); err != nil {
				return err
			}
		case tx.InsertUsage, tx.DeleteRegister:
		}
	}
	return nil
}

func (r *record) placed(strand string, e entry.Entry) {
	switch body := e.Body.(type) {
	case entry.Compaction:
		r.strand(strand).compacted = true
	case entry.Message:
		switch m := body.Message.(type) {
		case *message.User:
			r.texts[message.TextOf(m.Content)] = e.ID
		case *message.Assistant:
			if m.StopReason != message.Error && m.StopReason != message.Aborted && m.StopReason != message.Deferred {
				s := r.strand(m.Model)
				s.answered++
				s.compacted, s.failed = false, false
			}
		}
	}
}

func (r *record) set(w tx.SetRegister) error {
	switch w.NS {
	case register.PendingEntry:
		p, err := machine.DecodePendingEntry(w.Value)
		if err != nil {
			return err
		}
		if b, ok := p.Body.(entry.Message); ok {
			if u, ok := b.Message.(*message.User); ok {
				r.texts[message.TextOf(u.Content)] = id.EntryID{}
			}
		}
	case register.OpMeta:
		op, err := machine.DecodeOperation(w.Value)
		if err != nil {
			return err
		}
		s := r.strand(op.Strand)
		s.op = op
		if _, run := op.Intent.(machine.RunIntent); run {
			s.runs++
		} else {
			s.structural++
		}
	case register.OpState:
		op, err := id.ParseOpID(w.Key)
		if err != nil {
			return err
		}
		for _, s := range r.strands {
			if s.op.ID == op {
				st, _, err := r.view.OpState(op)
				if err != nil {
					return err
				}
				s.work = st.Value
			}
		}
	case register.StrandState:
		st, _, err := r.view.StrandState(w.Key)
		if err != nil {
			return err
		}
		r.strand(w.Key).state = st.Value
	case register.StrandLastResult:
		result, err := machine.DecodeLastResult(w.Value)
		if err != nil {
			return err
		}
		s := r.strand(w.Key)
		s.outcomes = append(s.outcomes, string(result.Outcome))
		s.failed = s.failed || result.Outcome == machine.OutcomeFailed
		s.work, s.op = machine.State{}, machine.Operation{}
		r.ends[result.OperationID.String()]++
	case register.StrandLeaf, register.StrandConfig, register.OpToolArgs, register.OpPreparation, register.FactName, register.FactLabel, register.FactCustom:
	}
	return nil
}

func (r *record) knows(text string) bool { _, ok := r.texts[text]; return ok }

func (s *strandRecord) idle() bool { return s.state.CurrentOperation.IsZero() && s.state.Start == nil }

func (s *strandRecord) aborted() bool {
	_, cancelled := s.work.Control.(machine.CancelRequested)
	return cancelled
}

// ending reports that a run ends with the next pass unless something comes in between.
func (s *strandRecord) ending() bool {
	run, ok := s.work.Work.(*machine.Run)
	if !ok || s.aborted() || len(run.Inbox.Steer)+len(run.Inbox.FollowUp)+len(run.Inbox.Writes) > 0 {
		return false
	}
	at, ok := run.Phase.(machine.AtCheckpoint)
	if !ok {
		return false
	}
	_, may := at.Checkpoint.Continuation.(machine.MayFinish)
	return may
}

// simEnding is what a script came to.
type simEnding struct {
	outcomes, contexts string // of each strand
	reported           int    // attempts whose usage is known
}

// end is read when every strand is idle.
func (r *record) end(names []string) (end simEnding, err error) {
	for _, name := range names {
		s := r.strand(name)
		end.outcomes += fmt.Sprintln(name, s.outcomes)
		leaf, _, err := r.view.StrandLeaf(name)
		if err != nil {
			return end, err
		}
		list, err := r.view.Project(leaf.Value, projection.Policy{})
		if err != nil {
			return end, err
		}
		end.contexts += name + "\n" + rendered(list)
	}
	rows, err := r.view.Rows().ScanUsage(storage.UsageQuery{})
	for _, row := range rows {
		if _, known := row.Usage.Evidence.Tokens(); known {
			end.reported++
		}
	}
	return end, err
}

// rendered leaves out ids and times. A call that a crash interrupted and that must not be repeated may say so instead of its result; then the size of what was cut,
// of which a summary speaks, is another.
func rendered(list []message.Message) string {
	var b strings.Builder
	for _, m := range list {
		if r, ok := m.(*message.ToolResult); ok && strings.HasPrefix(message.TextOf(r.Content), interrupted) && !repeatable(r.ToolName) {
			m = result(message.ToolCall{ID: r.ToolCallID, Name: r.ToolName}, "did "+r.ToolCallID, false)
		}
		b.WriteString(line(m) + "\n")
	}
	return cutSize.ReplaceAllString(identity.ReplaceAllString(b.String(), "an entry"), "about some tokens")
}

var cutSize = regexp.MustCompile(`about [0-9]+ tokens`)

var identity = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// owed is what may be left in the registers of operations.
func (r *record) owed(names []string) map[register.Namespace]int {
	waiting := 0
	for _, name := range names {
		waiting += len(r.strand(name).state.PendingNextRun)
	}
	return map[register.Namespace]int{
		register.OpMeta: 0, register.OpState: 0, register.OpToolArgs: 0, register.OpPreparation: 0, register.PendingEntry: waiting,
	}
}

// dump is every row and every register of a store, as bytes.
func dump(rows storage.Reader) (string, error) {
	var w jsonv.Writer
	entries, err := rows.ScanEntries(storage.EntryQuery{})
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		entry.Append(&w, e)
	}
	ledger, err := rows.ScanUsage(storage.UsageQuery{})
	if err != nil {
		return "", err
	}
	for _, u := range ledger {
		entry.AppendUsageRow(&w, u)
	}
	text := string(w.Bytes())
	for _, ns := range register.Namespaces {
		cells, err := rows.Registers(ns, "")
		if err != nil {
			return "", err
		}
		for _, c := range cells {
			text += fmt.Sprintln(ns, c.Key, c.Seq, c.Value)
		}
	}
	return text, nil
}
