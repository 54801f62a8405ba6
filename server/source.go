package server

import (
	"cmp"
	"slices"
	"sync"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
)

// Source is the replayable part of one session. Its rows never change and their
// seqs only grow; a row up to a seq that was seen committed is there.
type Source interface {
	// Generation is raised by a rewrite of the session.
	Generation() (int64, error)
	// Head is the seq of the newest row, 0 when there is none.
	Head() (int64, error)
	// Entries returns at most limit rows with from ≤ seq ≤ to, by ascending seq.
	Entries(from, to int64, limit int) ([]entry.Entry, error)
	// Results returns the results of runs with from ≤ seq ≤ to, by ascending seq.
	Results(from, to int64) ([]Result, error)
}

// Result is the committed end of a run.
type Result struct {
	Seq     int64
	Strand  string
	Op      id.OpID
	Outcome Outcome
	Usage   usage.Usage // of all requests of the run
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

// FromSession reads an open session. It is safe for concurrent use.
func FromSession(s *session.Session) Source { return &sessionSource{session: s} }

type sessionSource struct {
	session *session.Session

	mu      sync.Mutex // guards what follows
	last    int64      // the seq of strand.last_result that results goes up to
	results []Result   // ascending
}

func (s *sessionSource) Generation() (int64, error) { return firstGeneration, nil }

func (s *sessionSource) Head() (int64, error) {
	newest, err := s.session.Store().ScanEntries(storage.EntryQuery{Order: storage.NewestFirst, Limit: new(1)})
	if err != nil {
		return 0, err
	}
	results, err := s.refresh()
	if err != nil {
		return 0, err
	}
	var head int64
	if len(newest) > 0 {
		head = newest[0].Seq
	}
	if len(results) > 0 {
		head = max(head, results[len(results)-1].Seq)
	}
	return head, nil
}

func (s *sessionSource) Entries(from, to int64, limit int) ([]entry.Entry, error) {
	return s.session.Store().ScanEntries(storage.EntryQuery{FromSeq: &from, ToSeq: &to, Order: storage.OldestFirst, Limit: &limit})
}

func (s *sessionSource) Results(from, to int64) ([]Result, error) {
	all, err := s.refresh()
	if err != nil {
		return nil, err
	}
	var out []Result
	for _, r := range all {
		if r.Seq >= from && r.Seq <= to {
			out = append(out, r)
		}
	}
	return out, nil
}

// refresh reads the results again when a strand has a newer one. The strand's own
// cell tells that cheaply; both are written by one transaction.
func (s *sessionSource) refresh() ([]Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, ok, err := s.session.LastResult(session.MainStrand)
	if err != nil || !ok || last.Seq == s.last {
		return s.results, err
	}
	cells, err := s.session.Store().Registers(register.FactCustom, resultPrefix)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(cells, func(a, b storage.KeyedCell) int { return cmp.Compare(a.Seq, b.Seq) })
	known := map[int64]bool{}
	for _, r := range s.results {
		known[r.Seq] = true
	}
	var before int64
	for _, c := range cells {
		if !known[c.Seq] {
			r, ok, err := s.decode(c, before)
			if err != nil {
				return nil, err
			}
			if ok {
				s.results = append(s.results, r)
			}
		}
		before = c.Seq
	}
	s.last = last.Seq
	return s.results, nil
}

// decode reads one result. What a run consumed is the ledger between the result
// before it and its own.
func (s *sessionSource) decode(c storage.KeyedCell, before int64) (Result, bool, error) {
	last, err := machine.DecodeLastResult(c.Value)
	if err != nil {
		return Result{}, false, err
	}
	if last.Kind != "run" {
		return Result{}, false, nil
	}
	rows, err := s.session.Store().ScanUsage(storage.UsageQuery{FromSeq: new(before + 1), ToSeq: new(c.Seq)})
	if err != nil {
		return Result{}, false, err
	}
	r := Result{Seq: c.Seq, Strand: session.MainStrand, Op: last.OperationID, Outcome: Outcome{Word: string(last.Outcome)}, Usage: usage.Zero()}
	for _, row := range rows {
		r.Usage = r.Usage.Add(row.Usage)
	}
	if last.Error != nil {
		r.Outcome.Code, r.Outcome.Message = last.Error.Code, last.Error.Message
	}
	return r, true, nil
}
