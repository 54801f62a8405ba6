package engine

import (
	"errors"
	"fmt"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/machine/agency"
	"github.com/loom-run/loom/machine/automation"
	"github.com/loom-run/loom/session"
)

// calendar is the schedules of the session, as they are in the store. They are kept
// until this process changes one; a change of another process is a lost lease.
func (e *Engine) calendar() ([]automation.Recorded, error) {
	e.mu.Lock()
	known, list, era := e.dated, e.schedules, e.era
	e.mu.Unlock()
	if known {
		return list, nil
	}
	list, err := SchedulesOf(&e.cfg.Session.View)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	if e.era == era { // nobody changed one while they were read
		e.dated, e.schedules = true, list
	}
	e.mu.Unlock()
	return list, nil
}

// redate forgets what the calendar was.
func (e *Engine) redate() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dated, e.schedules = false, nil
	e.era++
}

// SchedulesOf lists the schedules of a session, also those that are over.
func SchedulesOf(v *session.View) (out []automation.Recorded, err error) {
	cells, err := v.Rows().Registers(register.FactCustom, automation.SchedulePrefix)
	if err != nil {
		return nil, err
	}
	for _, c := range cells {
		s, err := automation.Decode(c.Value)
		if err != nil {
			return nil, fmt.Errorf("the record %s cannot be read: %w", c.Key, err)
		}
		out = append(out, automation.Recorded{Schedule: s, Seq: c.Seq})
	}
	return out, nil
}

// changeSchedules commits what plan makes of the schedules. ok is false where that is
// nothing.
func (e *Engine) changeSchedules(plan func([]automation.Recorded) (tx.Tx, bool, error)) error {
	for range admissionTries {
		have, err := e.calendar()
		if err != nil {
			return err
		}
		t, ok, err := plan(have)
		if err != nil || !ok {
			return err
		}
		_, err = e.writer.commit(t, nil, nil)
		e.redate()
		if _, stale := errors.AsType[*tx.StaleExpectation](err); !stale {
			return err
		}
	}
	return errors.New("the schedules changed faster than they could be read; nothing was changed, try again")
}

// armSchedules makes the schedules of the person those of the session.
func (e *Engine) armSchedules() error {
	return e.changeSchedules(func(have []automation.Recorded) (tx.Tx, bool, error) {
		t, ok := e.cfg.Automation.Arm(have, e.cfg.Clock())
		return t, ok, nil
	})
}

// CreateSchedule makes a schedule for the strand that owns it. The same one made again
// is there once. Errors for models are [*agency.Refusal].
func (e *Engine) CreateSchedule(s automation.Schedule) error {
	f, err := e.family()
	if err != nil {
		return err
	}
	if _, ok, err := e.cfg.Session.StrandState(s.Target); err != nil || !ok {
		return errors.Join(err, &agency.Refusal{Sentence: fmt.Sprintf("there is no strand %.200q in this session; nothing was scheduled", s.Target)})
	}
	err = e.changeSchedules(func(have []automation.Recorded) (tx.Tx, bool, error) {
		return e.cfg.Automation.Create(s, have, f, e.cfg.Clock())
	})
	if err == nil {
		e.Driver(s.Target).Ring() // it has something new to wait for
	}
	return err
}

// Schedules lists the schedules that a strand made and that are not over.
func (e *Engine) Schedules(owner string) (out []automation.Schedule, err error) {
	have, err := e.calendar()
	if err != nil {
		return nil, err
	}
	now := e.cfg.Clock()
	for _, h := range have {
		if h.Owner == owner && !h.Over(now) {
			out = append(out, h.Schedule)
		}
	}
	return out, nil
}

// CancelSchedule ends a schedule that a strand made. It tells nothing from then on.
func (e *Engine) CancelSchedule(owner, name string) error {
	return e.changeSchedules(func(have []automation.Recorded) (tx.Tx, bool, error) {
		t, err := automation.Cancel(owner, name, have, e.cfg.Clock())
		return t, true, err
	})
}

// Now is the time that schedules go by.
func (e *Engine) Now() int64 { return e.cfg.Clock() }

// cue tells the strand what a rule or a schedule has for it, one thing in a pass. It
// comes before the decision of the pass, so that a run which would end goes on for it.
// response is the newest of the open run. told reports that this pass did.
func (d *Driver) cue(to machine.Standing, response id.EntryID) (told bool, err error) {
	t, ok, err := d.heed(to, response)
	if err == nil && !ok {
		t, ok, err = d.date(to)
	}
	if err != nil || !ok {
		return false, err
	}
	_, err = d.e.writer.commit(t, nil, nil)
	d.e.redate()
	if _, stale := errors.AsType[*tx.StaleExpectation](err); stale {
		err = nil // looked at again
	}
	return true, err
}

// heed finds a rule that the newest response calls for and that the strand was not
// told. What was looked at is remembered by this process alone: after a crash it is
// looked at again, and the mark of a rule says whether it was told.
func (d *Driver) heed(to machine.Standing, response id.EntryID) (tx.Tx, bool, error) {
	rules := d.e.cfg.Automation.Rules
	if len(rules) == 0 || response.IsZero() || d.heeded == response {
		return tx.Tx{}, false, nil
	}
	found, err := d.e.cfg.Session.Rows().Entries(response)
	if err != nil {
		return tx.Tx{}, false, err
	}
	body, _ := found[response].Body.(entry.Message)
	said, _ := body.Message.(*message.Assistant)
	if said == nil {
		return tx.Tx{}, false, nil // the machine says what is wrong with that
	}
	text := agency.TextOf(said)
	for _, r := range rules {
		if !r.Hears(text) {
			continue
		}
		_, before, err := d.e.cfg.Session.Rows().Register(register.FactCustom, automation.FiredKey(r.Name, d.strand))
		if err != nil {
			return tx.Tx{}, false, err
		}
		if !before {
			return r.Fire(to, response, d.e.cfg.Clock(), d.e.generator()), true, nil
		}
	}
	d.heeded = response
	return tx.Tx{}, false, nil
}

// date finds a schedule that is due, and when the next one will be.
func (d *Driver) date(to machine.Standing) (tx.Tx, bool, error) {
	d.dueAt = 0
	settings := d.e.cfg.Automation
	if len(settings.Schedules) == 0 && settings.Models == automation.Off {
		return tx.Tx{}, false, nil
	}
	all, err := d.e.calendar()
	if err != nil {
		return tx.Tx{}, false, err
	}
	now := d.e.cfg.Clock()
	for _, s := range all {
		if s.Target != d.strand || !settings.Allows(s.Schedule) {
			continue
		}
		if _, due := s.Due(now); !due {
			if at, ok := s.Next(now); ok && (d.dueAt == 0 || at < d.dueAt) {
				d.dueAt = at
			}
			continue
		}
		unread := false
		if !s.Entry.IsZero() {
			if _, unread, err = d.e.cfg.Session.PendingEntry(s.Entry); err != nil {
				return tx.Tx{}, false, err
			}
		}
		if t, _, ok := settings.Fire(s, automation.Standing{Standing: to, Unread: unread}, now, d.e.generator()); ok {
			return t, true, nil
		}
	}
	return tx.Tx{}, false, nil
}
