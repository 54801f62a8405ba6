package machine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/words"
)

// Rejections of an answer. Nothing was written.
var (
	ErrNoSuchGate  = errors.New("there is no such open question: it was answered, it expired, or its run has ended")
	ErrWrongAnswer = errors.New("a question is replied to or refused; an approval and a plan are approved or refused")
)

// Pause is what a run waits for a person to decide. It is durable: a process that
// ends while a run is paused changes nothing.
type Pause struct {
	Gate      string // names this asking and no other; an answer echoes it
	Reason    words.PauseReason
	Subject   jsonv.Value  // what is decided, for those who show it; opaque here
	AskedAt   int64        // Unix ms
	Window    words.Expiry // which window AnswerBy closes: that of the approval or that of the denial limit
	AnswerBy  int64        // Unix ms; 0: it may be answered at any time
	ParkUntil int64        // Unix ms: how long the run may be parked; 0: for ever
}

// Decision is a person's answer: Approve, Deny or Reply.
type Decision interface{ decision() string }

// Approve lets the call run, with other arguments if there are any: an edited
// plan, a corrected command. Lifetime is for how long it holds; empty is this call.
type Approve struct {
	Arguments *jsonv.Value
	Lifetime  words.GrantLifetime
}

// Deny refuses; Note, if any, is for the model. With Stop the run is aborted as well,
// by the same commit.
type Deny struct {
	Note *string
	Stop bool
}

// Reply answers a question; it is the result of the call.
type Reply struct{ Content []message.UserBlock }

func (Approve) decision() string { return "approve" }
func (Deny) decision() string    { return "deny" }
func (Reply) decision() string   { return "reply" }

// fits reports whether a question of that reason may be answered so.
func fits(r words.PauseReason, d Decision) bool {
	switch d := d.(type) {
	case Deny:
		return true
	case Approve:
		return r != words.PausedOnQuestion && (d.Arguments == nil || d.Arguments.Kind() == jsonv.Object && d.Arguments.Depth() <= message.MaxArgumentsDepth)
	case Reply:
		return r == words.PausedOnQuestion
	}
	return false
}

// Pauses lists what a run waits for, in the order of its calls.
func Pauses(st State) []Pause {
	var list []Pause
	if b, ok := openBatch(st); ok {
		for _, c := range b.Calls {
			if held, ok := c.Status.(Held); ok {
				list = append(list, held.Pause)
			}
		}
	}
	return list
}

// openBatch is the batch of a run that was not aborted.
func openBatch(st State) (Batch, bool) {
	run, isRun := st.Work.(*Run)
	_, running := st.Control.(Running)
	if !isRun || !running {
		return Batch{}, false
	}
	tools, ok := run.Phase.(RunningTools)
	return tools.Batch, ok
}

// Answer plans the recording of a decision. The first one wins; one that comes
// after the expiry, or after the run was aborted, is refused.
func Answer(op Operation, st State, stateSeq, now int64, gate string, d Decision, by *message.Origin) (tx.Tx, error) {
	b, ok := openBatch(st)
	n := slices.IndexFunc(b.Calls, func(c Call) bool {
		held, isHeld := c.Status.(Held)
		return isHeld && held.Pause.Gate == gate
	})
	if !ok || n < 0 {
		return tx.Tx{}, ErrNoSuchGate
	}
	held, _ := b.Calls[n].Status.(Held)
	if _, gone := held.Pause.expired(now); gone || b.Ends != nil {
		return tx.Tx{}, ErrNoSuchGate
	}
	if !fits(held.Pause.Reason, d) {
		return tx.Tx{}, ErrWrongAnswer
	}
	decided := Decided{held.Pause, d, now, by}
	kept, err := decided.grant()
	if err != nil {
		return tx.Tx{}, err
	}
	b.Calls = slices.Clone(b.Calls)
	b.Calls[n].Status = decided
	work, _ := st.Work.(*Run)
	run := *work
	run.Phase = RunningTools{b}
	next := State{Control: st.Control, Work: &run}
	if refusal, ok := d.(Deny); ok && refusal.Stop {
		next = next.cancelled(now)
	}
	return tx.Tx{
		Writes:   append(kept, tx.Set(register.OpState, op.ID.String(), next.Value())),
		Expected: []tx.Expectation{tx.Expect(register.OpState, op.ID.String(), stateSeq)},
	}, nil
}

// Deadline is when a pause expires by itself; 0: never.
func (p Pause) Deadline() int64 {
	switch {
	case p.AnswerBy == 0:
		return p.ParkUntil
	case p.ParkUntil == 0:
		return p.AnswerBy
	}
	return min(p.AnswerBy, p.ParkUntil)
}

// expired says which window closed first, if one did.
func (p Pause) expired(now int64) (words.Expiry, bool) {
	at := p.Deadline()
	switch {
	case at == 0 || now < at:
		return "", false
	case at == p.AnswerBy:
		return p.Window, true
	}
	return words.ExpiredPark, true
}

// expiries says in a sentence, for people and the model, which window closed.
var expiries = map[words.Expiry]string{
	words.ExpiredApproval:    "nobody answered in the time that was given",
	words.ExpiredDenialLimit: "after too many refusals nobody said in time whether to go on",
	words.ExpiredPark:        "the run was paused for longer than it may be",
}

// hold makes the question about a call durable.
func (p *plan) hold(b Batch, n int, o Asked) Action {
	if _, ok := p.source(b.Calls[n]); !ok {
		return p.noSuchCall(b, n)
	}
	if p.cancelled() || b.Ends != nil {
		return p.begin(b, n)
	}
	pause := Pause{
		Gate: p.mintEntry().String(), Reason: o.Reason, Subject: o.Subject, AskedAt: p.in.Now,
		AnswerBy: p.later(o.AnswerWithin), ParkUntil: p.later(o.ParkFor),
	}
	if pause.AnswerBy != 0 { // also before 1970: a clock may be wrong
		pause.Window = o.Window
	}
	if !o.Valid() {
		return fault("observation", "a question that can be asked", fmt.Sprintf("one about %q with the window %q", o.Reason, o.Window))
	}
	b.Calls[n].Status = Held{pause}
	return p.to(StepHold, RunningTools{b})
}

// later is a time some ms from now; 0 for none.
func (p *plan) later(ms int64) int64 {
	if ms <= 0 {
		return 0
	}
	return p.in.Now + min(ms, longestWait)
}

// decided follows a decision: an approved call asks for its clearance again, with
// the consent; the others have their result.
func (p *plan) decided(b Batch, n int, d Decided) Action {
	call, ok := p.source(b.Calls[n])
	if !ok {
		return p.noSuchCall(b, n)
	}
	switch x := d.Decision.(type) {
	case Approve:
		if x.Arguments != nil {
			call.Arguments = *x.Arguments
		}
		return AwaitEffect{Key: ClearanceKey{b.TurnID, b.Calls[n].SourceIndex, call, &d}}
	case Deny:
		text := "a person refused this call; it was not executed"
		if x.Note != nil && *x.Note != "" {
			text += ". They said: " + *x.Note
		}
		return p.stage(StepCallDenied, b, n, notRun(call, text), false)
	case Reply:
		r := &message.ToolResult{}
		for _, block := range x.Content {
			if said, ok := block.(message.ResultBlock); ok {
				r.Content = append(r.Content, said)
			}
		}
		return p.stage(StepCallReplied, b, n, r, false)
	}
	return fault("call", "a known decision", fmt.Sprintf("%T", d.Decision))
}

// expire ends the wait for a person: the call has its result, and the run ends
// when all have.
func (p *plan) expire(b Batch, n int, window words.Expiry) Action {
	call, ok := p.source(b.Calls[n])
	if !ok {
		return p.noSuchCall(b, n)
	}
	why := expiries[window]
	b.Ends = &OperationError{Code: string(window), Message: why + "; everything up to here is kept, and a new prompt goes on from it"}
	return p.stage(StepCallExpired, b, n, notRun(call, why+"; this call was not executed"), false)
}
