package automation

import (
	"fmt"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/machine/agency"
)

// cell is where schedules are.
const cell = register.FactCustom

// Fire plans that a schedule tells its target what is due: before the next request of
// an open run, or in a run that it starts where it may. ok is false where nothing is
// told now: nothing is due, what it told last was not read, or the target rests and is
// not to be started; then the latest occurrence is told when that has changed.
func (s Settings) Fire(r Recorded, to Standing, now int64, ids id.Generator) (t tx.Tx, next Schedule, ok bool) {
	occurrence, due := r.Due(now)
	if !due || to.Unread || !s.Allows(r.Schedule) {
		return tx.Tx{}, Schedule{}, false
	}
	entry := told(r.words(occurrence, now), now)
	i, t, err := to.Steer(entry, ids)
	if err != nil {
		if to.Op != nil || !s.wakes(r.Schedule) {
			return tx.Tx{}, Schedule{}, false
		}
		i, t = machine.AdmitNextRun(to.Strand, to.State, to.StateSeq, entry, &machine.Start{}, ids)
	}
	next = r.Schedule
	next.Fired, next.Last, next.Entry = r.Fired+1, occurrence, i
	t.Expected = append(t.Expected, tx.Expect(cell, r.Key(), r.Seq))
	if r.Owner != "" && next.Over(now) {
		t.Writes = append(t.Writes, tx.Delete(cell, r.Key()))
	} else {
		t.Writes = append(t.Writes, tx.Set(cell, r.Key(), next.Value()))
	}
	return t, next, true
}

// Arm plans that a session has exactly those schedules of the person that the settings
// have. One that changed begins anew; one that did not goes on, also one that is over.
// ok is false where nothing is to be done.
func (s Settings) Arm(have []Recorded, now int64) (t tx.Tx, ok bool) {
	wanted := make(map[string]Schedule, len(s.Schedules))
	for _, w := range s.Schedules {
		w.Owner, w.CreatedAt = "", now
		wanted[w.Key()] = w
	}
	for _, h := range have {
		if h.Owner != "" {
			continue
		}
		w, still := wanted[h.Key()]
		if still && w.definition().Equal(h.definition()) {
			delete(wanted, h.Key())
			continue
		}
		t.Expected = append(t.Expected, tx.Expect(cell, h.Key(), h.Seq))
		if still {
			t.Writes = append(t.Writes, tx.Set(cell, h.Key(), w.Value()))
			delete(wanted, h.Key())
		} else {
			t.Writes = append(t.Writes, tx.Delete(cell, h.Key()))
		}
	}
	for _, w := range s.Schedules { // in their order
		w.Owner, w.CreatedAt = "", now
		if _, fresh := wanted[w.Key()]; fresh {
			t.Expected = append(t.Expected, tx.ExpectAbsent(cell, w.Key()))
			t.Writes = append(t.Writes, tx.Set(cell, w.Key(), w.Value()))
		}
	}
	return t, len(t.Writes) > 0
}

// Create plans a schedule of a model. What models made before and what is over goes
// with it. The same one made again is none: planned is false, and it is there.
func (s Settings) Create(of Schedule, have []Recorded, f agency.Family, now int64) (t tx.Tx, planned bool, err error) {
	refuse := func(format string, args ...any) (tx.Tx, bool, error) {
		return tx.Tx{}, false, &agency.Refusal{Sentence: fmt.Sprintf(format, args...) + "; nothing was scheduled"}
	}
	of.CreatedAt = now
	if s.Models == Off {
		return refuse("the person that you work for allows agents no schedules")
	}
	if err := of.Check(); err != nil {
		return refuse("%v", err)
	}
	if of.Target != of.Owner && !f.Descends(of.Target, of.Owner) {
		return refuse("%.200q is no agent of yours; you can schedule for yourself and for those that you started", of.Target)
	}
	if of.Wake && !s.wakes(of) {
		return refuse("a schedule cannot start %s when it rests; leave wake out, and it is told when it works", of.Target)
	}
	if _, coming := of.Next(now); !coming {
		return refuse("%s never comes before the schedule expires", of.When)
	}
	live := 0
	for _, h := range have {
		switch {
		case h.Owner == "":
		case h.Over(now):
			t.Expected = append(t.Expected, tx.Expect(cell, h.Key(), h.Seq))
			if h.Key() != of.Key() {
				t.Writes = append(t.Writes, tx.Delete(cell, h.Key()))
			}
		case h.Key() == of.Key():
			if h.definition().Equal(of.definition()) {
				return tx.Tx{}, false, nil
			}
			return refuse("you have another schedule %s; cancel it first", of.Name)
		default:
			live++
		}
	}
	if live >= MaxSchedules {
		return refuse("agents have %d schedules in this session, which is the limit; cancel one of yours first", live)
	}
	t.Writes = append(t.Writes, tx.Set(cell, of.Key(), of.Value()))
	for _, h := range have {
		if h.Key() == of.Key() {
			return t, true, nil // one that is over gives way, as it was read
		}
	}
	t.Expected = append(t.Expected, tx.ExpectAbsent(cell, of.Key()))
	return t, true, nil
}

// Cancel plans the end of a schedule that a strand made.
func Cancel(owner, name string, have []Recorded, now int64) (tx.Tx, error) {
	key := Schedule{Name: name, Owner: owner}.Key()
	for _, h := range have {
		if h.Owner == owner && h.Key() == key && !h.Over(now) {
			return tx.Tx{Writes: []tx.Write{tx.Delete(cell, key)}, Expected: []tx.Expectation{tx.Expect(cell, key, h.Seq)}}, nil
		}
	}
	return tx.Tx{}, &agency.Refusal{Sentence: fmt.Sprintf("you have no schedule %.80q; nothing was cancelled, schedule_list names those there are", name)}
}

// Shown is a schedule as its owner sees it.
func (s Schedule) Shown(now int64) string {
	text := fmt.Sprintf("%s for %s, %s; told %d of %d times", s.Name, s.Target, s.When, s.Fired, s.MaxFires)
	if s.Wake {
		text += ", starts it when it rests"
	}
	if _, due := s.Due(now); due {
		return text + "; due now"
	}
	if at, ok := s.Next(now); ok {
		return text + "; next at " + moment(at)
	}
	return text + "; over"
}
