package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/machine/summary"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/storage"

	"github.com/loom-run/loom/core/entry"
)

// measure takes the size of the context at a leaf, for the pass that follows.
func (d *Driver) measure(l loaded, k machine.MeasureKey) (Pass, error) {
	m, _, err := d.resolve(l.in.Configuration.Model)
	if err != nil {
		m = provider.Model{} // the request says what is wrong with it; a window that is unknown limits nothing
	}
	branch, err := d.cache.at(d.e.cfg.Session, k.Leaf)
	if err != nil {
		return Pass{}, err
	}
	c := summary.Of(branch, d.e.cfg.Policy)
	c.Fixed = d.fixed(l.in.Configuration.ActiveToolNames)
	d.measured = &machine.Measure{Leaf: k.Leaf, Tokens: c.Tokens(), Window: m.ContextWindow}
	if limit := k.Settings.Limit(m.ContextWindow); limit == 0 || d.measured.Tokens > limit { // else nobody will ask for it
		d.measured.Preparation = c.Prepare(m.ContextWindow, k.Settings)
	}
	return Pass{Progress: Moved}, nil
}

// fixed estimates what is sent beside messages.
func (d *Driver) fixed(tools []string) int64 {
	n := summary.EstimateText(d.e.cfg.System)
	if d.e.cfg.Tools != nil {
		for _, t := range d.e.cfg.Tools.Offer(tools) {
			n += summary.EstimateText(t.Name + t.Description + t.Schema.String())
		}
	}
	return n
}

// verdict says how a summary comes about: a model writes it, unless the session is
// to be compacted by the notes of its agent.
func (d *Driver) verdict(l loaded, k machine.VerdictKey) machine.Verdict {
	v := machine.Verdict{TaskID: k.TaskID, Choice: machine.WriteSummary{}}
	prep, isCompaction := k.Preparation.(*machine.CompactionPreparation)
	if !isCompaction || d.e.cfg.Summaries != ByNotes {
		return v
	}
	text, err := d.notes(l, prep, k.Instructions)
	if err != nil { // nothing is cut for notes that cannot be read
		v.Choice = machine.DeclineSummary{}
		return v
	}
	v.Choice = machine.SupplySummary{Summary: text}
	return v
}

// NotesPrefix begins the keys of fact.custom under which an agent keeps notes for
// itself; the strand and the name of the note follow.
func NotesPrefix(strand string) string { return "agent/" + strand + "/" }

func (d *Driver) notes(l loaded, prep *machine.CompactionPreparation, instructions *string) (string, error) {
	rows := d.e.cfg.Session.Rows()
	prefix := NotesPrefix(d.strand)
	cells, err := rows.Registers(register.FactCustom, prefix)
	if err != nil {
		return "", err
	}
	c := summary.Checkpoint{Ordinal: 1, Instructions: instructions}
	for _, cell := range cells {
		text, isText := cell.Value.Text()
		if !isText {
			text = cell.Value.String()
		}
		c.Notes = append(c.Notes, summary.Note{Name: strings.TrimPrefix(cell.Key, prefix), Text: text, Seq: cell.Seq})
	}
	earlier, err := rows.ScanBranch(storage.BranchQuery{Start: l.in.Leaf, Kind: entry.KindCompaction})
	if err != nil {
		return "", err
	}
	if len(earlier) > 0 {
		c.Ordinal, c.Previous = len(earlier)+1, earlier[0].ID
	}
	return summary.Notes(prep, c), nil
}

// summarizer is the model that writes summaries for a strand.
func (d *Driver) summarizer(c machine.SummaryContext) (m provider.Model, p provider.Provider, err error) {
	ref := c.Configuration.Model
	if d.e.cfg.Summarizer != nil {
		ref = d.e.cfg.Summarizer(ref)
	}
	return d.resolve(ref)
}

func (d *Driver) admitSummary(c machine.SummaryContext) machine.Observation {
	m, _, err := d.summarizer(c)
	if err != nil {
		return machine.AdmissionRefused{Error: machine.OperationError{Code: machine.CodeModelUnavailable, Message: err.Error()}}
	}
	return machine.Admitted{OutputLimit: m.MaxOutput, ContextWindow: m.ContextWindow, RequestAPI: m.API}
}

// summarize makes one request of a summary. Whatever goes wrong with it is a
// result that says so.
func (d *Driver) summarize(ctx context.Context, op id.OpID, f machine.Summarize) machine.Summarized {
	out := machine.Summarized{TaskID: f.Context.TaskID, Attempt: f.Attempt, Index: f.Index, Usage: usage.Zero()}
	fail := func(code string, err error, retryable bool) machine.Summarized {
		failed := machine.SummaryFailed{Error: machine.OperationError{Code: code, Message: strings.ToValidUTF8(err.Error(), "\uFFFD")}, Retryable: retryable}
		if p, ok := errors.AsType[*provider.Error](err); ok {
			failed.Retryable = p.Retryable()
			if p.Class == provider.Overflow {
				failed.Error.Code = machine.CodeContextOverflow
			}
			if p.RetryAfterMs != nil {
				failed.Error.Details = new(jsonv.Obj(jsonv.F("retry_after_ms", jsonv.Num(*p.RetryAfterMs))))
			}
		}
		out.Result = failed
		return out
	}
	m, p, err := d.summarizer(f.Context)
	if err != nil {
		return fail(machine.CodeModelUnavailable, err, false)
	}
	r := summary.Next(f.Preparation, f.Context.Progress, f.Instructions, m.ContextWindow, m.MaxOutput)
	var fallen ledger
	measured := d.e.cfg.Meter.Request(op, m.Provider, m.ModelID)
	got, err := stream(ctx, p, provider.Request{Model: m, MaxOutput: r.MaxOutput, Fell: fallen.add, Messages: []message.Message{
		&message.User{Content: []message.UserBlock{message.Text{Text: r.Text}}, Timestamp: d.e.cfg.Clock()},
	}}, func(provider.Delta) {}) // nobody watches a summary being written
	if err != nil {
		lost := d.failed(machine.ModelRef(m.Identity), m.API, usage.Unknown(usage.Other), err)
		measured.End(lost, fallen.fallen)
		out.Usage = billed(lost)
		out.Bill = fallen.itemised(lost.Provider, lost.Model, out.Usage)
		return fail(machine.CodeProviderError, err, false)
	}
	measured.End(got, fallen.fallen)
	out.Usage = billed(got)
	out.Bill = fallen.itemised(got.Provider, got.Model, out.Usage)
	if got.StopReason == message.Error || got.StopReason == message.Deferred || got.StopReason == message.Aborted {
		return fail(machine.CodeProviderError, fmt.Errorf("the model that was to write a summary ended with %s: %s", got.StopReason, errorOf(got)), got.RawStopReason != nil && *got.RawStopReason == machine.RetryableStop)
	}
	text, err := summary.Read(got)
	if err != nil {
		return fail(machine.CodeProviderError, err, true)
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	if r.Last {
		out.Result = machine.SummaryProduced{Summary: summary.Published(f.Preparation, text)}
	} else {
		out.Result = machine.SummaryContinues{Summary: text, Messages: r.Messages}
	}
	return out
}

func errorOf(m *message.Assistant) string {
	if m.ErrorMessage == nil {
		return "it gave no reason"
	}
	return *m.ErrorMessage
}

// left is the branch between a leaf and where it meets the path to target, as
// messages. It reaches back to the newest compaction at most.
func (e *Engine) left(leaf, target id.EntryID) (*machine.BranchPreparation, error) {
	rows := e.cfg.Session.Rows()
	branch, err := rows.ScanBranch(storage.BranchQuery{Start: leaf, StopAtKind: entry.KindCompaction, StopAtID: target})
	if err != nil {
		return nil, err
	}
	there := map[id.EntryID]bool{target: true}
	if n := len(branch); n == 0 || branch[n-1].ID != target {
		path, err := rows.ScanBranch(storage.BranchQuery{Start: target, StopAtKind: entry.KindCompaction})
		if err != nil {
			return nil, err
		}
		for _, r := range path {
			there[r.ID] = true
		}
	}
	for n, r := range branch {
		if there[r.ID] {
			branch = branch[:n]
			break
		}
	}
	c := summary.Of(branch, e.cfg.Policy)
	prep := &machine.BranchPreparation{Messages: append(append([]message.Message(nil), c.Carried...), c.Since...)}
	if c.Previous != nil {
		prep.Messages = append([]message.Message{&message.User{Content: []message.UserBlock{message.Text{Text: *c.Previous}}}}, prep.Messages...)
	}
	if len(prep.Messages) == 0 {
		return nil, nil
	}
	for _, m := range prep.Messages {
		prep.TotalTokens += summary.Estimate(m)
	}
	return prep, nil
}
