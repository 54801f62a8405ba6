package server

import (
	"cmp"
	"slices"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/wire"
)

// Source is the replayable part of one session. Its rows never change and their
// seqs only grow; a row up to a seq that was seen committed is there.
type Source interface {
	// Generation is raised by a rewrite of the session.
	Generation() (int64, error)
	// Head is the seq of the newest row, 0 when there is none.
	Head() (int64, error)
	// Entries returns at most limit rows with from ≤ seq ≤ to, by ascending seq. It
	// may end early, with at least one row, when they are large.
	Entries(from, to int64, limit int) ([]entry.Entry, error)
	// Results returns the results of runs with from ≤ seq ≤ to, by ascending seq.
	Results(from, to int64) ([]Result, error)
	// Newest returns the newest rows, the newest first: at most limit, and fewer, with
	// at least one, when they are large.
	Newest(limit int) ([]entry.Entry, error)
}

// Result is the committed end of a run.
type Result struct {
	Seq     int64
	Strand  string
	Op      id.OpID
	Outcome Outcome
	Usage   usage.Usage       // of all requests of the run
	Gates   []wire.GateRecord // the records of its calls, in order; never nil
	Final   id.EntryID        // the response that ended it; may be absent
}

// Outcome is how a run ended: completed, failed or aborted.
type Outcome struct {
	Word    string
	Code    string // of a failure
	Message string // of a failure
}

// resultPrefix starts the keys of operation results.
var resultPrefix = machine.ResultKey(id.OpID{})

// firstGeneration is the generation of a session that was never rewritten.
const firstGeneration = 1

// newestBytes bounds the newest rows that are read for a glance.
const newestBytes = 1 << 20

// readBytes bounds the rows that are read at once.
const readBytes = 8 << 20

// FromSession reads a session. It keeps nothing between calls.
func FromSession(s *session.View) Source { return sessionSource{s} }

type sessionSource struct{ session *session.View }

// Generation counts from one where the store counts the rewrites from zero.
func (s sessionSource) Generation() (int64, error) {
	snap, err := s.session.Rows().Snapshot()
	return firstGeneration + snap.Generation, err
}

func (s sessionSource) Head() (int64, error) {
	newest, err := s.Newest(1)
	if err != nil {
		return 0, err
	}
	head, err := s.newestResult()
	if err == nil && len(newest) > 0 {
		head = max(head, newest[0].Seq)
	}
	return head, err
}

// newestResult is the seq of the newest result, 0 when there is none. The strand's
// own cell tells which one that is; both are written by one transaction.
func (s sessionSource) newestResult() (int64, error) {
	last, ok, err := s.session.LastResult(session.MainStrand)
	if err != nil || !ok {
		return 0, err
	}
	cell, _, err := s.session.OperationResult(last.Value.OperationID)
	return cell.Seq, err
}

func (s sessionSource) Entries(from, to int64, limit int) ([]entry.Entry, error) {
	return s.session.Rows().ScanEntries(storage.EntryQuery{FromSeq: &from, ToSeq: &to, Order: storage.OldestFirst, Limit: &limit, Bytes: readBytes})
}

func (s sessionSource) Newest(limit int) ([]entry.Entry, error) {
	return s.session.Rows().ScanEntries(storage.EntryQuery{Order: storage.NewestFirst, Limit: &limit, Bytes: newestBytes})
}

// Results lists all results, but only when there is one that is new enough: that
// is once for each run's end and each new reader.
func (s sessionSource) Results(from, to int64) ([]Result, error) {
	newest, err := s.newestResult()
	if err != nil || newest < from {
		return nil, err
	}
	cells, err := s.session.Rows().Registers(register.FactCustom, resultPrefix)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(cells, func(a, b storage.KeyedCell) int { return cmp.Compare(a.Seq, b.Seq) })
	var out []Result
	var before int64
	for _, c := range cells {
		if c.Seq >= from && c.Seq <= to {
			r, ok, err := s.result(c, before)
			if err != nil {
				return nil, err
			}
			if ok {
				out = append(out, r)
			}
		}
		before = c.Seq
	}
	return out, nil
}

// result reads one result; ok is false when it is not of a run. What a run
// consumed is the ledger between the result before it and its own.
func (s sessionSource) result(c storage.KeyedCell, before int64) (r Result, ok bool, err error) {
	last, err := machine.DecodeLastResult(c.Value)
	if err != nil || last.Kind != "run" {
		return Result{}, false, err
	}
	rows, err := s.session.Rows().ScanUsage(storage.UsageQuery{FromSeq: new(before + 1), ToSeq: new(c.Seq)})
	if err != nil {
		return Result{}, false, err
	}
	r = Result{
		Seq: c.Seq, Strand: session.MainStrand, Op: last.OperationID, Outcome: Outcome{Word: string(last.Outcome)},
		Usage: usage.Zero(), Final: last.FinalAssistant,
	}
	for _, row := range rows {
		r.Usage = r.Usage.Add(row.Usage)
	}
	if last.Error != nil {
		r.Outcome.Code, r.Outcome.Message = last.Error.Code, last.Error.Message
	}
	r.Gates, err = s.gates(before+1, c.Seq)
	return r, err == nil, err
}

// gates collects the records of the calls between two rows.
func (s sessionSource) gates(from, to int64) ([]wire.GateRecord, error) {
	found := []wire.GateRecord{}
	for {
		rows, err := s.Entries(from, to, pageRows)
		if err != nil {
			return nil, err
		}
		for _, e := range rows {
			from = e.Seq + 1
			msg, ok := e.Body.(entry.Message)
			if !ok {
				continue
			}
			if r, ok := msg.Message.(*message.ToolResult); ok {
				if g := gateOf(r.Details); g != nil {
					found = append(found, wire.GateRecord{CallID: r.ToolCallID, Gate: *g})
				}
			}
		}
		if len(rows) == 0 || from > to {
			return found, nil
		}
	}
}
