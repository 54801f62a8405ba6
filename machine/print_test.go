package machine_test

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/machine"
)

// names gives ids short names in the order in which a script meets them: e1 an entry, u1 a row of the ledger, op1 an operation, s1 a step.
type names struct {
	known map[string]string
	count [256]int
}

func (n *names) of(prefix, text string) string {
	if n.known[text] == "" {
		n.count[prefix[0]]++
		n.known[text] = prefix + strconv.Itoa(n.count[prefix[0]])
	}
	return n.known[text]
}

// entry is the entry with a name.
func (n *names) entry(name string) id.EntryID {
	for text, known := range n.known {
		if known == name {
			i, err := id.ParseEntryID(text)
			if err != nil {
				panic(err)
			}
			return i
		}
	}
	panic("nothing is called " + name)
}

func (p *player) e(i id.EntryID) string {
	if i.IsZero() {
		return "-"
	}
	return p.names.of("e", i.String())
}

func (p *player) es(list []id.EntryID) string {
	var all []string
	for _, i := range list {
		all = append(all, p.e(i))
	}
	return "[" + strings.Join(all, " ") + "]"
}

// key replaces the ids in the key of a cell.
func (p *player) key(a register.Address) string {
	parts := strings.Split(a.Key, ":")
	for n, part := range parts {
		switch {
		case part == strand:
			return string(a.NS)
		case a.NS == register.PendingEntry:
			parts[n] = p.names.of("e", part)
		case a.NS == register.OpToolArgs && n == 1:
			parts[n] = p.names.of("s", part)
		case n == 0 && a.NS != register.FactCustom:
			parts[n] = p.names.of("op", part)
		case n == 0:
			kind, op, _ := strings.Cut(part, "/")
			parts[n] = kind + "/" + p.names.of("op", op)
		}
	}
	return string(a.NS) + " " + strings.Join(parts, ":")
}

// committed writes a transaction down.
func (p *player) committed(what string, t tx.Tx) {
	var expect []string
	for _, e := range t.Expected {
		name := p.key(e.Address)
		if e.Seq == 0 {
			name = "no " + name
		}
		expect = append(expect, name)
	}
	p.printf("%s, expecting %s", what, strings.Join(expect, ", "))
	for _, w := range t.Writes {
		switch w := w.(type) {
		case tx.InsertEntry:
			p.printf("  entry  %s", p.row(w.Entry))
		case tx.InsertUsage:
			p.printf("  usage  %s for %s: %s", p.names.of("u", w.Row.ID.String()), p.e(w.Row.EntryID), tokens(w.Row.Usage))
		case tx.SetRegister:
			p.printf("  set    %s: %s", p.key(w.Address), p.payload(w.Address.NS, w.Value))
		case tx.DeleteRegister:
			p.printf("  delete %s", p.key(w.Address))
		}
	}
}

func tokens(u usage.Usage) string {
	if _, remote := u.Evidence.Billing(); !remote {
		return "nobody was paid"
	}
	if _, reported := u.Evidence.Tokens(); !reported {
		return "unknown"
	}
	return fmt.Sprintf("%d/%d", u.Input, u.Output)
}

func (p *player) row(e entry.Entry) string {
	return p.e(e.ID) + " < " + p.e(e.Parent) + " " + body(e.Body)
}

func body(b entry.Body) string {
	switch b := b.(type) {
	case entry.Custom:
		return "note " + b.Type
	case entry.Message:
		s := said(b.Message)
		if b.Terminate {
			s += " terminate"
		}
		return s
	case entry.Compaction, entry.BranchSummary:
	}
	return string(b.Kind())
}

func said(m message.Message) string {
	switch m := m.(type) {
	case *message.User:
		return "user " + strconv.Quote(message.TextOf(m.Content))
	case *message.Assistant:
		s := "assistant " + string(m.StopReason)
		for _, b := range m.Content {
			switch b := b.(type) {
			case message.Text:
				s += " " + strconv.Quote(b.Text)
			case message.ToolCall:
				s += " " + b.Name + "#" + b.ID
			case message.Thinking:
			}
		}
		if m.ErrorMessage != nil {
			s += ": " + *m.ErrorMessage
		}
		return s
	case *message.ToolResult:
		s := "result of " + m.ToolName + "#" + m.ToolCallID + " " + strconv.Quote(message.TextOf(m.Content))
		if m.IsError {
			s += " error"
		}
		return s
	case *message.Custom:
	}
	return fmt.Sprintf("%T", m)
}

// payload renders a cell for people; what is not of interest to a script is its text.
func (p *player) payload(ns register.Namespace, v jsonv.Value) string {
	switch ns {
	case register.StrandLeaf:
		i, err := register.DecodeLeaf(v)
		p.must(err)
		return p.e(i)
	case register.OpMeta:
		op, err := machine.DecodeOperation(v)
		p.must(err)
		return "run of " + p.es(op.Intent.(machine.RunIntent).PromptEntryIDs) + " from " + p.e(op.SourceLeaf)
	case register.OpState:
		st, err := machine.DecodeState(v)
		p.must(err)
		return p.state(st)
	case register.StrandState:
		st, err := machine.DecodeStrandState(v)
		p.must(err)
		s := "idle"
		if !st.CurrentOperation.IsZero() {
			s = p.names.of("op", st.CurrentOperation.String())
		}
		if len(st.PendingNextRun) > 0 {
			s += ", next run " + p.es(st.PendingNextRun)
		}
		return s
	case register.StrandLastResult, register.FactCustom:
		r, err := machine.DecodeLastResult(v)
		p.must(err)
		return p.result(r)
	case register.PendingEntry:
		e, err := machine.DecodePendingEntry(v)
		p.must(err)
		return body(e.Body)
	case register.StrandConfig, register.OpToolArgs, register.OpPreparation, register.FactName, register.FactLabel:
	}
	return v.String()
}

func (p *player) result(r machine.LastResult) string {
	s := string(r.Outcome)
	if r.Completion != "" {
		s += " by " + string(r.Completion)
	}
	if r.Error != nil {
		s += " " + r.Error.Code + ": " + r.Error.Message
	}
	return s + " at " + p.e(r.LeafID) + ", final " + p.e(r.FinalAssistant)
}

func (p *player) state(st machine.State) string {
	run := st.Work.(*machine.Run)
	s := p.phase(run.Phase)
	if c, ok := st.Control.(machine.CancelRequested); ok {
		s = fmt.Sprintf("cancelled at +%d, drained %s %s; %s", c.RequestedAt-epoch, p.es(c.DrainedSteer), p.es(c.DrainedFollows), s)
	}
	for _, q := range []struct {
		name string
		ids  []id.EntryID
	}{{"steer", run.Inbox.Steer}, {"follow-up", run.Inbox.FollowUp}, {"writes", run.Inbox.Writes}} {
		if len(q.ids) > 0 {
			s += "; " + q.name + " " + p.es(q.ids)
		}
	}
	if run.Turns > 0 {
		s += fmt.Sprintf("; turn %d", run.Turns)
	}
	return s
}

func (p *player) phase(phase machine.Phase) string {
	switch f := phase.(type) {
	case machine.AtCheckpoint:
		s := "checkpoint, may finish"
		switch k := f.Checkpoint.Continuation.(type) {
		case machine.NeedAssistant:
			s = "checkpoint, needs an answer to " + p.e(f.Checkpoint.Trigger)
		case machine.MayFinish:
			if k.IncludeFinalAssistant {
				s += " with its last answer"
			}
		}
		if f.Checkpoint.SkipInboxOnce {
			s += ", inbox skipped once"
		}
		return s
	case machine.Generating:
		return "generating, " + p.generation(f.Generation)
	case machine.RunningTools:
		s := "tools of " + p.e(f.Batch.AssistantID) + ":"
		for _, c := range f.Batch.Calls {
			s += fmt.Sprintf(" %d→%s %s", c.SourceIndex, p.e(c.ResultID), status(c.Status))
		}
		return s
	case machine.FailureDrain:
		return "failure drain, " + f.Error.Code + " of " + p.provenance(f.Provenance)
	case machine.Starting:
		return "starting"
	case machine.Compacting, machine.AwaitingDeferred:
	}
	return fmt.Sprintf("%T", phase)
}

func (p *player) provenance(from machine.Provenance) string {
	switch from := from.(type) {
	case machine.FromResponse:
		return p.e(from.EntryID)
	case machine.FromStructural:
		return "a summary"
	case machine.FromConfiguration:
	}
	return "the configuration"
}

func status(c machine.CallStatus) string {
	switch s := c.(type) {
	case machine.Planned:
		return "planned"
	case machine.InFlight:
		return "in flight (" + string(s.Replay) + ")"
	case machine.OutcomeReady:
		return "staged" + endsRun(s.Terminate)
	case machine.Completed:
		return "done" + endsRun(s.Terminate)
	}
	return "?"
}

func endsRun(yes bool) string {
	if yes {
		return " (terminate)"
	}
	return ""
}

func (p *player) generation(g machine.Generation) string {
	switch g := g.(type) {
	case machine.GenReady:
		return fmt.Sprintf("step %s attempt %d ready", p.names.of("s", g.Context.StepID), g.NextAttempt)
	case machine.GenPending:
		return fmt.Sprintf("step %s attempt %d in flight as %s billed as %s", p.names.of("s", g.Context.StepID), g.Attempt, p.e(g.ResponseID),
			p.names.of("u", g.UsageID.String()))
	case machine.GenRetryWait:
		return fmt.Sprintf("step %s attempt %d at +%d after: %s", p.names.of("s", g.Context.StepID), g.NextAttempt, g.NotBefore-epoch, g.ErrorMessage)
	}
	return "?"
}

// tell writes down an action that committed nothing.
func (p *player) tell(a machine.Action) {
	switch a := a.(type) {
	case nil:
		p.printf("idle")
	case machine.AwaitEffect:
		switch k := a.Key.(type) {
		case machine.AdmissionKey:
			p.printf("asks for admission")
		case machine.ClearanceKey:
			p.printf("asks for clearance of call %d, %s", k.SourceIndex, k.Call.Name)
		case machine.ResponseKey:
			p.printf("awaits %s", p.e(k.ResponseID))
		case machine.CallsKey:
			p.printf("awaits calls %v", k.SourceIndexes)
		}
	case machine.Wait:
		p.printf("waits until +%d", a.Until-epoch)
	case machine.Fault:
		p.printf("fault: %v", a.Report)
	case machine.Dispatch:
		switch f := a.Effect.(type) {
		case machine.Generate:
			p.printf("starts the request for %s", p.e(f.ResponseID))
		case machine.RunTool:
			p.printf("starts %s for %s with %s%s", f.Call.Name, p.e(f.ResultID), f.Arguments, map[bool]string{true: ", again"}[f.Replayed])
		}
	case machine.Transition, machine.Finish:
	}
}

// show writes down the branch, the ledger and every cell but the configuration.
func (p *player) show() {
	leaf, _ := p.leaf()
	for _, e := range p.branch(leaf) {
		p.printf("%s", p.row(e))
	}
	for _, row := range p.ledger {
		p.printf("%s for %s: %s", p.names.of("u", row.ID.String()), p.e(row.EntryID), tokens(row.Usage))
	}
	for _, ns := range register.Namespaces {
		for _, key := range p.keys(ns) {
			if c, _ := p.cell(ns, key); ns != register.StrandConfig {
				a := register.Address{NS: ns, Key: key}
				p.printf("%s: %s", p.key(a), p.payload(ns, c.Value))
			}
		}
	}
}
