package automation

import (
	"errors"
	"fmt"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"

	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/machine/agency"
)

// Bounds of schedules.
const (
	MaxSchedules = 16 // of the person, and as many of models in a session
	MaxFires     = 1000
	MaxLifeMs    = 604_800_000
)

// Schedule tells a strand a text at times (fact.custom schedule/{name}, and
// schedule/{name}/{owner} of one that a model made).
type Schedule struct {
	Name      string
	Owner     string // the strand that made it; empty for the person
	Target    string // the strand that is told
	When      Timing
	Body      string
	Wake      bool  // whether a strand that rests starts to work for it
	MaxFires  int64 // 1 to [MaxFires]
	LifeMs    int64 // 1 to [MaxLifeMs]
	CreatedAt int64 // Unix ms

	Fired int64      // how often it told
	Last  int64      // the occurrence it told of last, Unix ms; 0: of none
	Entry id.EntryID // what it told last
}

// Check says in half a sentence what is wrong with a schedule; nil: nothing.
func (s Schedule) Check() error {
	switch e, isEvery := s.When.(Every); {
	case s.When == nil:
		return errors.New("it does not say when")
	case isEvery && (e.Seconds < MinEvery || e.Seconds > MaxEvery):
		return fmt.Errorf("it is due every %d seconds; that is %d to %d", e.Seconds, MinEvery, MaxEvery)
	case s.MaxFires < 1 || s.MaxFires > MaxFires:
		return fmt.Errorf("it tells %d times at most; that is 1 to %d", s.MaxFires, MaxFires)
	case s.LifeMs < 1 || s.LifeMs > MaxLifeMs:
		return fmt.Errorf("it expires after %d ms; that is within %d", s.LifeMs, MaxLifeMs)
	}
	if _, err := message.Strand(s.Target); err != nil {
		return fmt.Errorf("%.40q cannot be the name of a strand", s.Target)
	}
	if err := checkName(s.Name); err != nil {
		return err
	}
	return checkBody(s.Body)
}

// Key is the cell of a schedule.
func (s Schedule) Key() string {
	if s.Owner == "" {
		return SchedulePrefix + s.Name
	}
	return SchedulePrefix + s.Name + "/" + s.Owner
}

// SchedulePrefix lists all schedules.
const SchedulePrefix = "schedule/"

// until is the last moment at which it may tell anything.
func (s Schedule) until() int64 { return s.CreatedAt + s.LifeMs }

// since is what an occurrence has to be after.
func (s Schedule) since() int64 { return max(s.CreatedAt, s.Last) }

// Due is the occurrence to tell of now: the latest that was not told of. A clock that
// went back makes nothing due again.
func (s Schedule) Due(now int64) (occurrence int64, ok bool) {
	if s.Fired >= s.MaxFires || now > s.until() {
		return 0, false
	}
	return s.When.latest(s.since(), now)
}

// Next is when the schedule will be due, given that it is not due now.
func (s Schedule) Next(now int64) (at int64, ok bool) {
	if s.Fired >= s.MaxFires {
		return 0, false
	}
	return s.When.next(max(s.since(), now), s.until())
}

// Over reports whether it will never tell anything more.
func (s Schedule) Over(now int64) bool {
	_, due := s.Due(now)
	_, coming := s.Next(now)
	return !due && !coming
}

// Policy says what schedules of models may do.
type Policy uint8

// The policies.
const (
	Off   Policy = iota // models make none, and what they made before is still
	Steer               // they reach strands that work
	Wake                // they also start strands that rest
)

// Settings is what a session has of rules and schedules. The zero Settings have none.
type Settings struct {
	Rules     []Rule
	Schedules []Schedule // of the person; what they told is in the session
	Models    Policy
}

// wakes decides whether a schedule may start a strand that rests. One that another
// strand started works for that one alone.
func (s Settings) wakes(of Schedule) bool {
	return of.Wake && !agency.Spawned(of.Target) && (of.Owner == "" || s.Models == Wake)
}

// Allows decides whether a schedule may tell anything here.
func (s Settings) Allows(of Schedule) bool { return of.Owner == "" || s.Models != Off }

// definition is what a schedule was made with.
func (s Schedule) definition() jsonv.Value {
	s.CreatedAt, s.Fired, s.Last, s.Entry = 0, 0, 0, id.EntryID{}
	return s.Value()
}

// Value returns the register payload.
func (s Schedule) Value() jsonv.Value {
	var w jsonv.Writer
	w.Begin()
	w.Str("name", s.Name)
	if s.Owner != "" {
		w.Str("owner", s.Owner)
	}
	w.Str("target", s.Target)
	w.Name("when")
	writeTiming(&w, s.When)
	w.Str("body", s.Body)
	w.Flag("wake", s.Wake)
	w.Num("maxFires", s.MaxFires)
	w.Num("lifeMs", s.LifeMs)
	w.Num("createdAt", s.CreatedAt)
	w.Num("fired", s.Fired)
	if s.Fired > 0 {
		w.Num("last", s.Last)
		w.Str("entry", s.Entry.String())
	}
	w.End()
	return w.Tree()
}

// Decode reads a schedule.
func Decode(v jsonv.Value) (Schedule, error) {
	r := jsonv.Read(v, "automation.Decode")
	s := Schedule{Name: r.Str("name")}
	if owner := r.OptStr("owner"); owner != nil {
		s.Owner = *owner
	}
	s.Target, s.When, s.Body, s.Wake = r.Str("target"), jsonv.One(r, "when", decodeTiming), r.Str("body"), r.Flag("wake")
	s.MaxFires, s.LifeMs, s.CreatedAt, s.Fired = r.Num("maxFires"), r.Num("lifeMs"), r.Num("createdAt"), r.Num("fired")
	if s.Fired != 0 {
		s.Last, s.Entry = r.Num("last"), jsonv.One(r, "entry", entryID)
	}
	if r.Err() == nil && (s.Fired < 0 || s.Fired > s.MaxFires) {
		r.Fail("fired", "as often as it may at most", jsonv.Num(s.Fired))
	}
	if r.Err() == nil {
		r.Adopt("value", s.Check())
	}
	return s, r.Err()
}

// Judge decodes one of this package's cells; known is false for a key that is none.
func Judge(key string, v jsonv.Value) (known bool, err error) {
	has := func(p string) bool { return len(key) > len(p) && key[:len(p)] == p }
	switch {
	case has(firedPrefix):
		return true, decodeFired(v)
	case has(SchedulePrefix):
		s, err := Decode(v)
		if err == nil && s.Key() != key {
			err = fmt.Errorf("the cell holds the schedule of %q", s.Key())
		}
		return true, err
	}
	return false, nil
}

// Recorded is a schedule as it was read.
type Recorded struct {
	Schedule
	Seq int64
}

// Standing is where the target of a schedule stands.
type Standing struct {
	machine.Standing
	Unread bool // whether what the schedule told last still waits to be read
}

// words are what the target is told of an occurrence.
func (s Schedule) words(occurrence, now int64) string {
	whose := "of the person that you work for"
	if s.Owner != "" {
		whose = "of the agent " + s.Owner
	}
	if s.Owner == s.Target {
		whose = "of your own"
	}
	late := ""
	if now-occurrence >= 2*minuteMs {
		late = ", told late at " + moment(now)
	}
	return fmt.Sprintf("[The schedule %s, %s, due at %s%s:]\n%s", s.Name, whose, moment(occurrence), late, s.Body)
}
