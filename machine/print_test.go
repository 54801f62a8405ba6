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

// text is what has a name.
func (n *names) text(name string) string {
	for text, known := range n.known {
		if known == name {
			return text
		}
	}
	panic("nothing is called " + name)
}

// entry is the entry with a name.
func (n *names) entry(name string) id.EntryID { return must(id.ParseEntryID(n.text(name))) }

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
		case a.NS == register.OpPreparation && n == 1:
			parts[n] = p.names.of("t", part)
		case a.NS == register.FactLabel:
			parts[n] = p.names.of("e", part)
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
			p.printf("  usage  %s for %s: %s", p.names.of("u", w.Row.ID.String()), p.paidFor(w.Row), tokens(w.Row.Usage))
		case tx.SetRegister:
			p.printf("  set    %s: %s", p.key(w.Address), p.payload(w.Address.NS, w.Value))
		case tx.DeleteRegister:
			p.printf("  delete %s", p.key(w.Address))
		}
	}
}

func (p *player) paidFor(row entry.UsageRow) string {
	if row.EntryID.IsZero() {
		return "a summary"
	}
	return p.e(row.EntryID)
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
	case entry.Compaction:
		return fmt.Sprintf("compaction %q, keeps %d of %d tokens%s", b.Summary, len(b.RetainedTail), b.TokensBefore, supplied(b.FromHook))
	case entry.BranchSummary:
		return fmt.Sprintf("branch summary %q%s", b.Summary, supplied(b.FromHook))
	}
	return string(b.Kind())
}

func supplied(yes bool) string {
	if yes {
		return ", supplied"
	}
	return ""
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
		return p.intent(op.Intent) + " from " + p.e(op.SourceLeaf)
	case register.OpPreparation:
		prep, err := machine.DecodePreparation(v)
		p.must(err)
		if c, ok := prep.(*machine.CompactionPreparation); ok {
			return fmt.Sprintf("%d messages to summarise, %d to keep", len(c.MessagesToSummarize), len(c.RetainedTail))
		}
		return fmt.Sprintf("%d messages that are left", len(prep.(*machine.BranchPreparation).Messages))
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
		if st.Start != nil {
			s += " at once"
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
	case register.StrandConfig, register.OpToolArgs, register.FactName, register.FactLabel:
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
	switch s += " at " + p.e(r.LeafID); r.Kind {
	case "run":
		s += ", final " + p.e(r.FinalAssistant)
	case "navigation":
		s += ", from " + p.e(r.OldLeafID) + ", summary " + p.e(r.SummaryEntryID)
	}
	return s
}

func (p *player) intent(in machine.Intent) string {
	switch in := in.(type) {
	case machine.RunIntent:
		return "run of " + p.es(in.PromptEntryIDs)
	case machine.NavigationIntent:
		return "navigation to " + p.e(in.TargetID)
	case machine.CompactionIntent:
	}
	return "compaction"
}

func (p *player) state(st machine.State) string {
	run := &machine.Run{}
	s := ""
	switch work := st.Work.(type) {
	case *machine.Run:
		run, s = work, p.phase(work.Phase)
	case *machine.Compaction:
		s = "compacting, " + p.summary(work.Structural)
	case *machine.Navigation:
		s = "moving to " + p.e(work.TargetID)
		if work.Structural != nil {
			s += ", " + p.summary(*work.Structural)
		}
	}
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
	if run.Compactions > 0 {
		s += fmt.Sprintf("; %d compactions in a row", run.Compactions)
	}
	if c := run.Settings.Compaction; c.ReserveTokens > 0 && !c.Enabled {
		s += "; not compacting any more"
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
			s += fmt.Sprintf(" %d→%s %s", c.SourceIndex, p.e(c.ResultID), p.status(c.Status))
		}
		if f.Batch.Ends != nil {
			s += ", then " + f.Batch.Ends.Code
		}
		return s
	case machine.FailureDrain:
		return "failure drain, " + f.Error.Code + " of " + p.provenance(f.Provenance)
	case machine.Starting:
		return "starting"
	case machine.Compacting:
		return "compacting for the " + string(f.Reason) + ", " + p.summary(f.Structural)
	case machine.AwaitingDeferred:
		d := f.Deferred
		if d.ResponseID.IsZero() {
			return fmt.Sprintf("deferred as of %s, polled %d times, again at +%d", p.e(d.SourceEntryID), d.Poll, d.NotBefore-epoch)
		}
		return fmt.Sprintf("deferred as of %s, poll %d in flight as %s billed as %s", p.e(d.SourceEntryID), d.Poll, p.e(d.ResponseID), p.names.of("u", d.UsageID.String()))
	}
	return fmt.Sprintf("%T", phase)
}

// summary renders how far one has come.
func (p *player) summary(s machine.Structural) string {
	out := "summary " + p.names.of("t", s.TaskID)
	progress := func(c machine.SummaryContext) string {
		if c.Progress == (machine.SummaryProgress{}) {
			return ""
		}
		return fmt.Sprintf(", %d messages as %q, shrunk %d times", c.Progress.Messages, c.Progress.Summary, c.Progress.Shrunk)
	}
	switch g := s.Generation.(type) {
	case nil:
		return out + " not decided"
	case machine.SummaryReady:
		return fmt.Sprintf("%s attempt %d ready%s", out, g.NextAttempt, progress(g.Context))
	case machine.SummaryPending:
		if g.Request == nil {
			return fmt.Sprintf("%s attempt %d, %d requests made%s", out, g.Attempt, len(g.UsageIDs), progress(g.Context))
		}
		return fmt.Sprintf("%s attempt %d, request %d in flight billed as %s%s", out, g.Attempt, g.Request.Index, p.names.of("u", g.Request.UsageID.String()), progress(g.Context))
	case machine.SummaryRetryWait:
		return fmt.Sprintf("%s attempt %d at +%d after: %s", out, g.NextAttempt, g.NotBefore-epoch, g.ErrorMessage)
	}
	return out
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

func (p *player) status(c machine.CallStatus) string {
	switch s := c.(type) {
	case machine.Planned:
		return "planned"
	case machine.Held:
		return "held " + p.pause(s.Pause)
	case machine.Decided:
		out := fmt.Sprintf("decided (%s %T", p.names.of("g", s.Pause.Gate), s.Decision)
		if s.By != nil {
			out += " by " + s.By.Label()
		}
		return strings.Replace(out, "machine.", "", 1) + ")"
	case machine.InFlight:
		return "in flight (" + string(s.Replay) + ")"
	case machine.OutcomeReady:
		return "staged" + endsRun(s.Terminate)
	case machine.Completed:
		return "done" + endsRun(s.Terminate)
	}
	return "?"
}

func (p *player) pause(g machine.Pause) string {
	s := "(" + p.names.of("g", g.Gate) + " " + string(g.Reason)
	if g.AnswerBy != 0 {
		s += fmt.Sprintf(", until +%d", g.AnswerBy-epoch)
	}
	if g.ParkUntil != 0 {
		s += fmt.Sprintf(", parked until +%d", g.ParkUntil-epoch)
	}
	return s + ")"
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
			p.printf("asks for clearance of call %d, %s%s", k.SourceIndex, k.Call.Name, map[bool]string{true: ", which a person approved"}[k.Consent != nil])
		case machine.PollAdmissionKey:
			p.printf("asks whether it can be polled")
		case machine.MeasureKey:
			p.printf("asks for the size at %s", p.e(k.Leaf))
		case machine.VerdictKey:
			p.printf("asks how %s comes about, for the reason %s%s", p.names.of("t", k.TaskID), k.Reason, told(k.Instructions))
		case machine.SummaryAdmissionKey:
			p.printf("asks for admission of a summary")
		case machine.SummaryKey:
			p.printf("awaits request %d of %s", k.Index, p.names.of("t", k.TaskID))
		case machine.RunStartKey:
			p.printf("asks what comes first")
		case machine.RunEndKey:
			p.printf("asks whether it goes on")
		case machine.ResponseKey:
			p.printf("awaits %s", p.e(k.ResponseID))
		case machine.CallsKey:
			p.printf("awaits calls %v", k.SourceIndexes)
		}
	case machine.Park:
		s := "paused on"
		for _, g := range a.Pauses {
			s += " " + p.pause(g)
		}
		if a.Until > 0 {
			s += fmt.Sprintf(", until +%d", a.Until-epoch)
		}
		p.printf("%s", s)
	case machine.Wait:
		p.printf("waits until +%d", a.Until-epoch)
	case machine.Fault:
		p.printf("fault: %v", a.Report)
	case machine.Dispatch:
		switch f := a.Effect.(type) {
		case machine.Generate:
			p.printf("starts the request for %s", p.e(f.ResponseID))
		case machine.Poll:
			p.printf("polls for %s", p.e(f.ResponseID))
		case machine.Summarize:
			p.printf("starts request %d of %s%s", f.Index, p.names.of("t", f.Context.TaskID), told(f.Instructions))
		case machine.RunTool:
			p.printf("starts %s for %s with %s%s", f.Call.Name, p.e(f.ResultID), f.Arguments, map[bool]string{true: ", again"}[f.Replayed])
		}
	case machine.Transition, machine.Finish:
	}
}

func told(instructions *string) string {
	if instructions == nil {
		return ""
	}
	return fmt.Sprintf(", told %q", *instructions)
}

// show writes down the branch, the ledger and every cell but the configuration.
func (p *player) show() {
	leaf, _ := p.leaf()
	for _, e := range p.branch(leaf) {
		p.printf("%s", p.row(e))
	}
	for _, row := range p.ledger {
		p.printf("%s for %s: %s", p.names.of("u", row.ID.String()), p.paidFor(row), tokens(row.Usage))
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
