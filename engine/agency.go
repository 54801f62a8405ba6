package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/loom-run/loom/core/board"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/machine/agency"
)

// Errors of this file that are for models are [*agency.Refusal]; others are
// failures of the session.

// Spawn starts a child of the strand that calls. A call that is made again after a
// crash finds the child of the first time. It returns once the child and its brief
// are durable.
func (e *Engine) Spawn(c agency.Caller, callID string, q agency.SpawnRequest) (agency.Handle, error) {
	child := agency.ChildName(c, q.Purpose)
	e.spawning.Lock() // the census holds until the child is there
	defer e.spawning.Unlock()
	if h, ok, err := e.spawned(c, child); ok || err != nil {
		return h, err
	}
	plan, err := e.spawn(c, callID, child, q)
	if err != nil {
		return agency.Handle{}, err
	}
	op, t, err := plan.Plan()
	if err != nil {
		return agency.Handle{}, err
	}
	if _, err := e.writer.commit(t, started(op, false), nil); err != nil {
		return agency.Handle{}, err
	}
	return agency.Handle{Strand: child, Op: op.ID}, e.drive(child)
}

// spawned finds the child that an earlier making of the same call left. Its name
// has the words of the call in it, which a repeated call repeats.
func (e *Engine) spawned(c agency.Caller, child string) (agency.Handle, bool, error) {
	if _, ok, err := e.lineage(child); !ok || err != nil {
		return agency.Handle{}, false, err
	}
	runs, err := e.runs(child)
	if err != nil {
		return agency.Handle{}, false, err
	}
	for _, r := range runs {
		if r.run.Parent == c.Strand && r.run.ParentOp == c.Op {
			return agency.Handle{Strand: child, Op: r.op}, true, nil // the oldest is the brief's
		}
	}
	return agency.Handle{}, false, fmt.Errorf("the agent %q has no run that its parent asked for", child)
}

func (e *Engine) spawn(c agency.Caller, callID, child string, q agency.SpawnRequest) (agency.Spawn, error) {
	s := e.cfg.Session
	limits := e.cfg.Agency
	config, ok, err := s.StrandConfig(c.Strand)
	if err != nil {
		return agency.Spawn{}, err
	}
	if !ok {
		return agency.Spawn{}, noStrand(c.Strand)
	}
	census, err := e.census(c.Strand)
	if err != nil {
		return agency.Spawn{}, err
	}
	if err := limits.Admit(census); err != nil {
		return agency.Spawn{}, err
	}
	next := config.Value
	if e.cfg.Subagent != nil {
		next.Model, next.ThinkingLevel = e.cfg.Subagent(next.Model, next.ThinkingLevel)
	}
	if next.ActiveToolNames, err = limits.Tools(next.ActiveToolNames, q.Tools, census.Depth+1); err != nil {
		return agency.Spawn{}, err
	}
	var at id.EntryID
	if q.Conversation {
		if at, err = e.before(c); err != nil {
			return agency.Spawn{}, err
		}
	}
	return agency.Spawn{
		Caller: c, CallID: callID, Child: child, Purpose: q.Purpose, Brief: q.Brief, At: at, Configuration: next,
		Depth: census.Depth + 1, Detached: q.Detached, BudgetMs: limits.Budget(q.BudgetMs), Contract: q.Contract,
		Now: e.cfg.Clock(), IDs: e.generator(), Settings: e.cfg.Settings,
	}, nil
}

// before is the entry before the response that a call belongs to: the newest at
// which the conversation of the caller is whole.
func (e *Engine) before(c agency.Caller) (id.EntryID, error) {
	_, st, ok, err := e.operation(c.Op)
	if err != nil || !ok {
		return id.EntryID{}, err
	}
	run, _ := st.Value.Work.(*machine.Run)
	if run == nil {
		return id.EntryID{}, nil
	}
	tools, ok := run.Phase.(machine.RunningTools)
	if !ok {
		return id.EntryID{}, nil
	}
	rows, err := e.cfg.Session.Rows().Entries(tools.Batch.AssistantID)
	return rows[tools.Batch.AssistantID].Parent, err
}

// family reads all lineages.
func (e *Engine) family() (agency.Family, error) {
	cells, err := e.cfg.Session.Rows().Registers(register.FactCustom, agency.LineagePrefix)
	if err != nil {
		return nil, err
	}
	f := make(agency.Family, len(cells))
	for _, c := range cells {
		l, err := agency.DecodeLineage(c.Value)
		if err != nil {
			return nil, fmt.Errorf("the lineage of an agent cannot be read: %w", err)
		}
		f[agency.StrandOfLineage(c.Key)] = l
	}
	return f, nil
}

func (e *Engine) lineage(strand string) (l agency.Lineage, ok bool, err error) {
	c, ok, err := e.cfg.Session.Rows().Register(register.FactCustom, agency.LineageKey(strand))
	if ok && err == nil {
		l, err = agency.DecodeLineage(c.Value)
	}
	return l, ok, err
}

// census counts who works.
func (e *Engine) census(strand string) (c agency.Census, err error) {
	f, err := e.family()
	if err != nil {
		return c, err
	}
	c.Depth = f[strand].Depth
	for name, l := range f {
		_, open, err := e.Current(name)
		if err != nil {
			return c, err
		}
		if open {
			c.Live++
			if l.Parent == strand {
				c.Children++
			}
		}
	}
	return c, nil
}

// childRun is a run that was asked for by a strand.
type childRun struct {
	op  id.OpID
	run agency.Run
}

// runs lists those of a strand, the oldest first.
func (e *Engine) runs(strand string) (out []childRun, err error) {
	cells, err := e.cfg.Session.Rows().Registers(register.FactCustom, agency.RunPrefix)
	if err != nil {
		return nil, err
	}
	for _, c := range cells {
		r, err := agency.DecodeRun(c.Value)
		if err != nil {
			return nil, err
		}
		op, err := agency.OpOfRun(c.Key)
		if err != nil {
			return nil, err
		}
		if r.Strand == strand {
			out = append(out, childRun{op, r})
		}
	}
	slices.SortFunc(out, func(a, b childRun) int { return cmp.Compare(a.op.String(), b.op.String()) })
	return out, nil
}

// sendTries bounds the race between a delivery and the end of the run it is for.
const sendTries = 4

// Send delivers a message to the agent that started the caller, or to one that it
// started: before the next request of its open run, or to a child that rests as a
// new run. A call that is made again delivers nothing again.
func (e *Engine) Send(c agency.Caller, to, text string) (agency.Sent, error) {
	if s, ok, err := e.sent(c); ok || err != nil {
		return s, err
	}
	f, err := e.family()
	if err != nil {
		return agency.Sent{}, err
	}
	up, err := f.MaySend(c.Strand, to)
	if err != nil {
		return agency.Sent{}, err
	}
	if err := e.usable(to); err != nil {
		return agency.Sent{}, &agency.Refusal{Sentence: fmt.Sprintf("%s cannot work any more; nothing was sent", to)}
	}
	m, err := agency.Framed(c.Strand, text, e.cfg.Clock())
	if err != nil {
		return agency.Sent{}, err
	}
	for range sendTries {
		s, err := e.deliver(c, to, m, up, f[to].Detached)
		if _, stale := errors.AsType[*tx.StaleExpectation](err); stale || errors.Is(err, machine.ErrNoActiveRun) {
			if s, ok, err := e.sent(c); ok || err != nil {
				return s, err
			}
			continue
		}
		if err == nil {
			e.Driver(to).Ring()
		}
		return s, err
	}
	return agency.Sent{}, &agency.Refusal{Sentence: fmt.Sprintf("%s is busy with something that takes no messages; nothing was sent, try again later", to)}
}

func (e *Engine) sent(c agency.Caller) (s agency.Sent, ok bool, err error) {
	cell, ok, err := e.cfg.Session.Rows().Register(register.FactCustom, agency.SentKey(c))
	if ok && err == nil {
		s, err = agency.DecodeSent(cell.Value)
	}
	return s, ok, err
}

// deliver commits a message and its mark in one transaction.
func (e *Engine) deliver(c agency.Caller, to string, m *message.User, up, detached bool) (agency.Sent, error) {
	now, err := e.standing(to)
	if err != nil {
		return agency.Sent{}, err
	}
	if now.st != nil {
		s, t, err := agency.Steer(c, now.op, now.st.Value, now.st.Seq, m, e.generator())
		if err != nil {
			return agency.Sent{}, err
		}
		_, err = e.writer.commit(t, nil, nil)
		return s, err
	}
	if up {
		return agency.Sent{}, &agency.Refusal{Sentence: fmt.Sprintf("%s is done and nobody is there to hear it; nothing was sent", to)}
	}
	in, err := e.acceptance(to, now.state)
	if err != nil {
		return agency.Sent{}, err
	}
	in.Prompts, in.Settings = []message.Message{m}, e.cfg.Settings
	if in.Pending, err = e.cfg.Session.PendingEntries(now.state.Value.PendingNextRun...); err != nil {
		return agency.Sent{}, err
	}
	op, s, t, err := agency.Wake(c, in, e.cfg.Agency.BudgetMs, detached)
	if err != nil {
		return agency.Sent{}, err
	}
	_, err = e.writer.commit(t, started(op, false), nil)
	return s, err
}

// Wait waits until every run that is named has ended or waits for a person, for as
// long as the limits allow and within at most, and tells how each of them stands.
func (e *Engine) Wait(ctx context.Context, c agency.Caller, handles []agency.Handle, within time.Duration) ([]agency.Report, error) {
	f, err := e.family()
	if err != nil {
		return nil, err
	}
	for _, h := range handles {
		if err := f.MayWait(c.Strand, h.Strand); err != nil {
			return nil, err
		}
	}
	limit := time.Duration(e.cfg.Agency.WaitMs) * time.Millisecond
	over := e.cfg.After(min(max(within, 0), limit))
	for {
		e.mu.Lock()
		changed := e.changed
		e.mu.Unlock()
		reports, open := make([]agency.Report, len(handles)), 0
		for i, h := range handles {
			if reports[i], err = e.reportOf(h); err != nil {
				return nil, err
			}
			if reports[i].Status == agency.Working {
				open++
			}
		}
		if open == 0 || within <= 0 {
			return reports, nil
		}
		select {
		case <-changed:
		case <-over:
			within = 0 // one last look
		case <-ctx.Done():
			return reports, nil
		case <-e.ctx.Done():
			return nil, ErrClosed
		}
	}
}

// reportOf tells how a run of an agent stands.
func (e *Engine) reportOf(h agency.Handle) (agency.Report, error) {
	s := e.cfg.Session
	r := agency.Report{Handle: h, Status: agency.Working}
	cell, ok, err := s.Rows().Register(register.FactCustom, agency.RunKey(h.Op))
	if err != nil {
		return r, err
	}
	if ok {
		run, err := agency.DecodeRun(cell.Value)
		if err != nil {
			return r, err
		}
		if run.Strand != h.Strand {
			return r, &agency.Refusal{Sentence: fmt.Sprintf("%q names no run of %s", h, h.Strand)}
		}
		r.Ended = run.Ended
	}
	result, over, err := s.OperationResult(h.Op)
	if err != nil {
		return r, err
	}
	if !over {
		return e.unfinished(r)
	}
	r.Status, r.Outcome = agency.Over, result.Value.Outcome
	if result.Value.Error != nil {
		r.Failure = result.Value.Error.Message
	}
	if last := result.Value.FinalAssistant; !last.IsZero() {
		rows, err := s.Rows().Entries(last)
		if err != nil {
			return r, err
		}
		if body, ok := rows[last].Body.(entry.Message); ok {
			if a, ok := body.Message.(*message.Assistant); ok {
				r.Text = agency.TextOf(a)
			}
		}
	}
	if r.Notes, err = e.notesOf(h.Strand); err != nil {
		return r, err
	}
	contract, ok, err := e.contract(h.Strand)
	if err != nil || !ok {
		return r, err
	}
	value, given := agency.Named(r.Notes, agency.ResultNote)
	r.Result = &value
	r.Standing, r.Why = contract.Stand(value, given)
	if r.Standing != agency.Given {
		r.Result = nil
	}
	return r, nil
}

// unfinished tells apart who works, who waits for a person, and who cannot go on.
func (e *Engine) unfinished(r agency.Report) (agency.Report, error) {
	_, open, err := e.cfg.Session.OpMeta(r.Handle.Op)
	if err != nil {
		return r, err
	}
	if !open {
		if _, over, err := e.cfg.Session.OperationResult(r.Handle.Op); err != nil || over {
			return r, err // it ended since, and is looked at again
		}
		return r, &agency.Refusal{Sentence: fmt.Sprintf("%q names no run of this session", r.Handle)}
	}
	if err := e.usable(r.Handle.Strand); err != nil {
		r.Status, r.Failure = agency.Stopped, err.Error()
	} else if p := e.paused(r.Handle.Strand, r.Handle.Op); p != nil {
		r.Status = agency.Paused
	}
	return r, nil
}

func (e *Engine) contract(strand string) (agency.Contract, bool, error) {
	cell, ok, err := e.cfg.Session.Rows().Register(register.FactCustom, agency.ContractKey(strand))
	if err != nil || !ok {
		return agency.Contract{}, false, err
	}
	c, err := agency.ParseContract(cell.Value)
	return c, err == nil, err
}

// Roster lists whom a strand can reach: who started it, itself, and all that
// descend from it.
func (e *Engine) Roster(strand string) ([]agency.Member, error) {
	f, err := e.family()
	if err != nil {
		return nil, err
	}
	members := f.Around(strand)
	for i := range members {
		if members[i].Op, members[i].Working, err = e.Current(members[i].Strand); err != nil {
			return nil, err
		}
	}
	return members, nil
}

// PutNote writes a note of the strand that calls. With seen it is written only if
// the note is as it was at that seq, 0 for one that is not there. The note that
// answers a contract has to fit it. It returns the seq of the note.
func (e *Engine) PutNote(strand, name string, v jsonv.Value, seen *int64) (int64, error) {
	if err := agency.NoteName(name); err != nil {
		return 0, err
	}
	if n := len(v.Append(nil)); n > agency.MaxNote || v.Depth() > maxDepth {
		return 0, &agency.Refusal{Sentence: fmt.Sprintf("the note has %d bytes; at most %d, not deeper than %d, can be kept; nothing was written", n, agency.MaxNote, maxDepth)}
	}
	if name == agency.ResultNote {
		c, ok, err := e.contract(strand)
		if err != nil {
			return 0, err
		}
		if ok {
			if err := c.Check(v); err != nil {
				return 0, &agency.Refusal{Sentence: err.Error() + "; nothing was written"}
			}
		}
	}
	notes, err := e.notesOf(strand)
	if err != nil {
		return 0, err
	}
	if _, there := agency.Named(notes, name); !there && len(notes) >= agency.MaxNotes {
		return 0, &agency.Refusal{Sentence: fmt.Sprintf("there are %d notes, which is the limit; nothing was written, write over one of them", len(notes))}
	}
	return e.setFact(NotesPrefix(strand)+name, v, seen)
}

// setFact sets a cell of fact.custom.
func (e *Engine) setFact(key string, v jsonv.Value, seen *int64) (int64, error) {
	t := tx.Tx{Writes: []tx.Write{tx.Set(register.FactCustom, key, v)}}
	if seen != nil {
		t.Expected = []tx.Expectation{tx.Expect(register.FactCustom, key, *seen)}
	}
	r, err := e.writer.commit(t, nil, nil)
	if _, stale := errors.AsType[*tx.StaleExpectation](err); stale {
		return 0, &agency.Refusal{Sentence: "the note changed since you read it; nothing was written, read it again"}
	}
	if err != nil {
		return 0, err
	}
	return r.Seqs[0], nil
}

// Notes lists the notes of a strand that reader may read.
func (e *Engine) Notes(reader, of string) ([]agency.Note, error) {
	f, err := e.family()
	if err != nil {
		return nil, err
	}
	if err := f.MayRead(reader, of); err != nil {
		return nil, err
	}
	return e.notesOf(of)
}

func (e *Engine) notesOf(strand string) ([]agency.Note, error) {
	prefix := NotesPrefix(strand)
	cells, err := e.cfg.Session.Rows().Registers(register.FactCustom, prefix)
	if err != nil {
		return nil, err
	}
	var out []agency.Note
	for _, c := range cells {
		if name := c.Key[len(prefix):]; agency.NoteName(name) == nil { // not the board, and nobody else's
			out = append(out, agency.Note{Name: name, Value: c.Value, Seq: c.Seq})
		}
	}
	return out, nil
}

// Board is the plan that a strand keeps; an empty one where it keeps none.
func (e *Engine) Board(strand string) (board.Board, error) {
	cell, ok, err := e.cfg.Session.Rows().Register(register.FactCustom, board.TodoKey(strand))
	if err != nil || !ok {
		return board.Board{}, err
	}
	return board.Decode(cell.Value)
}

// SetBoard replaces it. The caller validated it.
func (e *Engine) SetBoard(strand string, b board.Board) error {
	_, err := e.setFact(board.TodoKey(strand), b.Value(), nil)
	return err
}
