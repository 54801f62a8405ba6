package client

import (
	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/client/project"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/sdkmsg"
	"github.com/loom-run/loom/wire"
)

// State is what the runtime knows of one watched lane. It is not safe for
// concurrent use.
type State struct {
	watch   plane.Watch
	surface project.Surface

	position wire.Position // behind the newest replay frame seen
	drops    Drops
	last     []Drop // of the current step

	live     liveText
	withheld project.Ledger
	tools    project.Tools
	book     book

	operation id.OpID // of the run that is on, when a frame told it
	over      id.OpID // the newest that ended
	level     string  // the run start as it was stated last
	turns     int
	tally     plane.Tally // of the turns seen
	lacking   bool        // an accounting frame was unreadable: totals are lower bounds
	ending    plane.Ending

	waits  []wire.Pending // for a person, as it was stated last
	parked bool           // nothing goes on before somebody decides
	parks  int            // how often that was said
}

// New starts with nothing seen.
func New(w plane.Watch, s project.Surface) *State {
	return &State{watch: w, surface: s, operation: w.Operation, tally: plane.NoTally()}
}

// Ending returns how the newest run ended; nil while none has.
func (s *State) Ending() plane.Ending { return s.ending }

// Cursor returns the position of the newest replay frame.
func (s *State) Cursor() wire.Cursor { return s.position.Cursor() }

// Drops returns how many frames gave no output.
func (s *State) Drops() Drops { return s.drops }

// LastDrops returns the frames that the latest Step dropped: none or one.
func (s *State) LastDrops() []Drop { return s.last }

// Tools returns the tools of the run that is on.
func (s *State) Tools() project.Tools { return s.tools }

// Withheld reports whether that text is one that a surface that appends could not
// show.
func (s *State) Withheld(text string) bool { return s.withheld.Holds(text) }

// Stopped is why a run cannot go on where it is held.
type Stopped struct {
	Code    wire.Code
	Message string // one sentence for a person, not yet escaped
}

func (e *Stopped) Error() string { return e.Message }

// step collects the outputs of one frame.
type step struct {
	*State
	proof plane.Proof
	frame wire.Frame
	out   []plane.Output
	kept  int
}

// show puts out an event.
func (st *step) show(e plane.Event) { st.out = append(st.out, plane.Show(st.proof, e)) }

// keep puts out a message.
func (st *step) keep(m sdkmsg.Message) {
	st.out = append(st.out, plane.Keep(st.proof, st.frame, st.kept, m))
	st.kept++
}

func (st *step) drop(w DropWord, detail string) {
	st.drops.count(w)
	st.last = append(st.last, Drop{Why: w, Kind: st.frame.Kind(), FrameID: st.frame.ID, Detail: detail})
}

// Step takes one frame and returns what it means, in order. The outputs are the
// caller's.
func (s *State) Step(f wire.Frame) []plane.Output {
	s.last = s.last[:0]
	st := step{State: s, frame: f}
	var ours bool
	if st.proof, ours = s.watch.Prove(f); !ours {
		st.drop(ForeignLane, "")
		return nil
	}
	switch s.position.Take(f) {
	case wire.Seen:
		st.drop(Repeated, "")
		return nil
	case wire.Elsewhere:
		st.drop(ContractViolation, "it is of another generation than the frames before it")
		return nil
	case wire.Next:
		if s.book.has(plane.IDOf, f) {
			st.drop(Repeated, "")
			return nil
		}
	case wire.Passing:
	}
	switch b := f.Body.(type) {
	case wire.Unknown:
		st.drop(NoArm, "")
	case wire.Broken:
		st.drop(ContractViolation, b.Report.Error())
		st.broken(b)
	default:
		arm, ok := arms[f.Kind()]
		if !ok {
			st.drop(NoArm, unarmed[f.Kind()])
			break
		}
		arm(&st)
	}
	return st.out
}

// broken is what a dropped frame leaves behind: a turn that cannot be counted
// makes the totals lower bounds, and an end that cannot be read is an end.
func (st *step) broken(b wire.Broken) {
	if b.Of == wire.KindTurnEnd {
		st.lacking = true
		st.turns++
	}
	if b.Of == wire.KindRunEnd {
		st.lacking = true
		st.close(plane.Lost{Why: plane.ContractBroke, Err: b.Report})
	}
}

// Parked reports whether nothing goes on before a person decides, as far as was said;
// times is how often it was said.
func (s *State) Parked() (parked bool, times int) { return s.parked && s.ending == nil, s.parks }

// Leave ends the watch of a run that waits for a person. The run goes on once somebody
// decided. It gives no output when the run has ended.
func (s *State) Leave() []plane.Output {
	if s.ending != nil {
		return nil
	}
	var why wire.Paused
	if len(s.waits) > 0 {
		switch s.waits[0].(type) {
		case wire.ApprovalRequest:
			why.Reason = new(words.PausedOnApproval)
		case wire.QuestionRequest:
			why.Reason = new(words.PausedOnQuestion)
		case wire.PlanRequest:
			why.Reason = new(words.PausedOnPlan)
		case wire.UnknownPending: // its word is not known either
		}
	}
	st := step{State: s}
	var ok bool
	if st.proof, ok = s.watch.Self(); !ok {
		s.ending = plane.Seen{Cause: why}
		return nil
	}
	st.close(plane.Seen{Cause: why})
	return st.out
}

// Lose ends a run whose end will not be seen. It gives no output when the run
// has ended.
func (s *State) Lose(why plane.LostWord, err error) []plane.Output {
	if s.ending != nil {
		return nil
	}
	st := step{State: s}
	var ok bool
	if st.proof, ok = s.watch.Self(); !ok {
		s.ending = plane.Lost{Why: why, Err: err}
		return nil
	}
	s.lacking = true
	st.close(plane.Lost{Why: why, Err: err})
	return st.out
}

// close puts out the end of a run.
func (st *step) close(e plane.Ending) {
	st.abandon()
	st.ending = e
	st.show(plane.RunClosed{Ending: e, Turns: st.turns, Total: st.total(st.tally)})
}

// total makes a tally honest about what could not be read.
func (s *State) total(t plane.Tally) plane.Tally {
	if s.lacking {
		return t.Floor()
	}
	return t
}

// open starts the accounting of a run, once.
func (s *State) open(op id.OpID) {
	s.operation = op
	s.level = ""
	s.turns, s.tally, s.lacking, s.ending = 0, plane.NoTally(), false, nil
	s.book.open()
}
