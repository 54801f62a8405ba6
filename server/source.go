package server

import (
	"cmp"
	"slices"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/machine/agency"
	"github.com/loom-run/loom/machine/job"
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
	// Children returns the strands that others started, the oldest first.
	Children() ([]Child, error)
	// Path returns rows from one up to and including another above it, the newest
	// first, or up to the first that is known.
	Path(from, to id.EntryID, known func(id.EntryID) bool) ([]id.EntryID, error)
	// Jobs returns the jobs, by ascending seq of their last change.
	Jobs() ([]JobRow, error)
	// Queued returns the input that waits for the strands, in the order in which each
	// queue is taken.
	Queued() ([]QueuedRow, error)
	// Has reports whether a row is there.
	Has(id.EntryID) (bool, error)
	// Waiting returns the calls that wait for a person, the oldest question first.
	Waiting() ([]Waiting, error)
	// Settled returns the record of a question that is over, and the seq it stands at; ok
	// is false where there is none, or the question is open.
	Settled(gate string) (record jsonv.Value, seq int64, ok bool, err error)
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

	// Of the run of a strand that another one started.
	EndedBy *words.CancelCause // why the host ended it; nil when it did not
	Text    *string            // of the response that ended it; nil when there is none
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
	if err != nil {
		return 0, err
	}
	if len(newest) > 0 {
		head = max(head, newest[0].Seq)
	}
	jobs, err := s.Jobs()
	for _, j := range jobs {
		if j.Job.Status.Ended() {
			head = max(head, j.Seq)
		}
	}
	return head, err
}

// newestResult is the seq of the newest result of any strand, 0 when there is none.
// A strand's own cell tells which one that is; both are written by one transaction.
func (s sessionSource) newestResult() (int64, error) {
	cells, err := s.session.Rows().Registers(register.StrandLastResult, "")
	if err != nil || len(cells) == 0 {
		return 0, err
	}
	newest := slices.MaxFunc(cells, func(a, b storage.KeyedCell) int { return cmp.Compare(a.Seq, b.Seq) })
	last, err := machine.DecodeLastResult(newest.Value)
	if err != nil {
		return 0, err
	}
	cell, _, err := s.session.OperationResult(last.OperationID)
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
	var whose owners
	if err := whose.refresh(s); err != nil {
		return nil, err
	}
	var out []Result
	before := map[string]int64{} // the result before, of each strand
	for _, c := range cells {
		last, err := machine.DecodeLastResult(c.Value)
		if err != nil {
			return nil, err
		}
		run, err := s.askedRun(last.OperationID)
		if err != nil {
			return nil, err
		}
		strand := session.MainStrand
		if run != nil {
			strand = run.Strand
		}
		if c.Seq >= from && c.Seq <= to && last.Kind == "run" {
			r, err := s.result(c.Seq, last, before[strand], strand, whose.of)
			if err != nil {
				return nil, err
			}
			if run != nil {
				if err := s.asked(&r, *run); err != nil {
					return nil, err
				}
			}
			out = append(out, r)
		}
		before[strand] = c.Seq
	}
	return out, nil
}

// askedRun is what is known of a run that another strand asked for; nil for others.
func (s sessionSource) askedRun(op id.OpID) (*agency.Run, error) {
	c, ok, err := s.session.Rows().Register(register.FactCustom, agency.RunKey(op))
	if err != nil || !ok {
		return nil, err
	}
	run, err := agency.DecodeRun(c.Value)
	return &run, err
}

// asked completes the result of such a run.
func (s sessionSource) asked(r *Result, run agency.Run) error {
	if run.Ended != "" {
		r.EndedBy = &run.Ended
	}
	if r.Final.IsZero() {
		return nil
	}
	rows, err := s.session.Rows().Entries(r.Final)
	if body, ok := rows[r.Final].Body.(entry.Message); ok {
		if a, ok := body.Message.(*message.Assistant); ok {
			r.Text = new(shown(agency.TextOf(a)))
		}
	}
	return err
}

// result reads the result of a run. What a run consumed is the ledger between the
// result of its strand before it and its own: all of it for the main strand, whose
// run answers for the agents that worked for it, and its own rows for a child.
func (s sessionSource) result(seq int64, last machine.LastResult, before int64, strand string, whose map[id.EntryID]string) (Result, error) {
	rows, err := s.session.Rows().ScanUsage(storage.UsageQuery{FromSeq: new(before + 1), ToSeq: &seq})
	if err != nil {
		return Result{}, err
	}
	r := Result{
		Seq: seq, Strand: strand, Op: last.OperationID, Outcome: Outcome{Word: string(last.Outcome)},
		Usage: usage.Zero(), Final: last.FinalAssistant,
	}
	for _, row := range rows {
		if strand == session.MainStrand || whose[row.EntryID] == strand {
			r.Usage = r.Usage.Add(row.Usage)
		}
	}
	if last.Error != nil {
		r.Outcome.Code, r.Outcome.Message = last.Error.Code, last.Error.Message
	}
	r.Gates, err = s.gates(before+1, seq, func(e id.EntryID) bool {
		owner, child := whose[e]
		return owner == strand || !child && strand == session.MainStrand
	})
	return r, err
}

// gates collects the records of a strand's calls between two rows.
func (s sessionSource) gates(from, to int64, mine func(id.EntryID) bool) ([]wire.GateRecord, error) {
	found := []wire.GateRecord{}
	for {
		rows, err := s.Entries(from, to, pageRows)
		if err != nil {
			return nil, err
		}
		for _, e := range rows {
			from = e.Seq + 1
			msg, ok := e.Body.(entry.Message)
			if !ok || !mine(e.ID) {
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

// Children reads the lineages, and what each child works on.
func (s sessionSource) Children() ([]Child, error) {
	cells, err := s.session.Rows().Registers(register.FactCustom, agency.LineagePrefix)
	if err != nil {
		return nil, err
	}
	out := make([]Child, 0, len(cells))
	for _, cell := range cells {
		c := Child{Strand: agency.StrandOfLineage(cell.Key)}
		if c.Lineage, err = agency.DecodeLineage(cell.Value); err != nil {
			return nil, err
		}
		leaf, _, err := s.session.StrandLeaf(c.Strand)
		if err != nil {
			return nil, err
		}
		state, _, err := s.session.StrandState(c.Strand)
		if err != nil {
			return nil, err
		}
		c.Leaf, c.Op = leaf.Value, state.Value.CurrentOperation
		if !c.Op.IsZero() {
			c.Began = c.Op.Time()
			if c.Run, err = s.askedRun(c.Op); err != nil {
				return nil, err
			}
		}
		if last, ok, err := s.session.Rows().Register(register.StrandLastResult, c.Strand); err != nil {
			return nil, err
		} else if ok {
			r, err := machine.DecodeLastResult(last.Value)
			if err != nil {
				return nil, err
			}
			c.Last = r.Outcome
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Child) int {
		return cmp.Or(cmp.Compare(a.Lineage.SpawnedAt, b.Lineage.SpawnedAt), cmp.Compare(a.Strand, b.Strand))
	})
	return out, nil
}

// pathRows is how many rows of a branch are read at a time.
const pathRows = 32

// Path reads a branch in pages, since most often only its end is new.
func (s sessionSource) Path(from, to id.EntryID, known func(id.EntryID) bool) (out []id.EntryID, err error) {
	var before *int64
	for !from.IsZero() {
		rows, err := s.session.Rows().ScanBranch(storage.BranchQuery{Start: from, StopAtID: to, Cursor: before, Limit: new(pathRows)})
		if err != nil {
			return nil, err
		}
		for _, e := range rows {
			if known(e.ID) {
				return out, nil
			}
			out = append(out, e.ID)
			before = new(e.Seq)
			if e.ID == to {
				return out, nil
			}
		}
		if len(rows) == 0 {
			break
		}
	}
	return out, nil
}

// Queued reads the queues of every strand, and of what it works on, from one state.
func (s sessionSource) Queued() (out []QueuedRow, err error) {
	err = s.session.Within(func(v *session.View) error {
		strands, err := v.Strands()
		for _, strand := range strands {
			if err != nil {
				return err
			}
			var rows []QueuedRow
			rows, err = queuedOf(v, strand)
			out = append(out, rows...)
		}
		return err
	})
	return out, err
}

func queuedOf(v *session.View, strand string) (out []QueuedRow, err error) {
	state, _, err := v.StrandState(strand)
	if err != nil {
		return nil, err
	}
	var open *machine.State
	if op := state.Value.CurrentOperation; !op.IsZero() {
		st, ok, err := v.OpState(op)
		if err != nil {
			return nil, err
		}
		if ok {
			open = &st.Value
		}
	}
	for _, q := range machine.List(state.Value, open) {
		c, ok, err := v.PendingEntry(q.ID)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, QueuedRow{Strand: strand, Seq: c.Seq, Queue: q.Queue, ID: q.ID, Body: c.Value})
		}
	}
	return out, nil
}

// Has implements Source.
func (s sessionSource) Has(i id.EntryID) (bool, error) {
	rows, err := s.session.Rows().Entries(i)
	_, ok := rows[i]
	return ok, err
}

// Jobs reads the records of jobs.
func (s sessionSource) Jobs() ([]JobRow, error) {
	cells, err := s.session.Rows().Registers(register.FactCustom, job.Prefix)
	if err != nil {
		return nil, err
	}
	out := make([]JobRow, len(cells))
	for i, c := range cells {
		out[i].Seq = c.Seq
		if out[i].Job, err = job.Decode(c.Value); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b JobRow) int { return cmp.Compare(a.Seq, b.Seq) })
	return out, nil
}
