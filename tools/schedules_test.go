package tools

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/loom-run/loom/machine/agency"
	"github.com/loom-run/loom/machine/automation"
)

// diary keeps what it is given.
type diary struct {
	made []automation.Schedule
	err  error
}

func (d *diary) CreateSchedule(s automation.Schedule) error {
	if d.err != nil {
		return d.err
	}
	s.CreatedAt = d.Now()
	d.made = append(d.made, s)
	return s.Check()
}

func (d *diary) Schedules(owner string) ([]automation.Schedule, error) {
	return slices.DeleteFunc(slices.Clone(d.made), func(s automation.Schedule) bool { return s.Owner != owner }), d.err
}

func (d *diary) CancelSchedule(owner, name string) error {
	n := len(d.made)
	d.made = slices.DeleteFunc(d.made, func(s automation.Schedule) bool { return s.Owner == owner && s.Name == name })
	if len(d.made) == n {
		return &agency.Refusal{Sentence: "you have no such schedule"}
	}
	return d.err
}

func (d *diary) Now() int64 { return 1_767_225_600_000 }

func TestSchedulesAreMadeListedAndCancelledByTheirOwner(t *testing.T) {
	d := &diary{}
	r := newRig(t, schedulers{func() Schedules { return d }}.all()...)
	if got := r.ok(t, "schedule_list"); got != "you have no schedules" {
		t.Errorf("the list is %q", got)
	}
	for _, c := range []struct {
		name, key, value string
		number           int64
		want             string
	}{
		{"a", "every_seconds", "", 90, "every 90 seconds"},
		{"b", "in_seconds", "", 90, "at 2026-01-01T00:01:30Z"},
		{"c", "at", "2026-01-02T10:00:00+02:00", 0, "at 2026-01-02T08:00:00Z"},
		{"d", "cron", "0 9 * * 1-5", 0, `at cron "0 9 * * 1-5", UTC+00:00`},
	} {
		when := num(c.key, c.number)
		if c.value != "" {
			when = str(c.key, c.value)
		}
		if got := r.ok(t, "schedule_create", str("name", c.name), str("body", "look"), when); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", c.name, got)
		}
	}
	if s := d.made[0]; s.Owner != "main" || s.Target != "main" || s.Wake || s.MaxFires != automation.MaxFires || s.LifeMs != automation.MaxLifeMs {
		t.Errorf("it was made as %+v", s)
	}
	if got := r.ok(t, "schedule_list"); strings.Count(got, "\n") != 4 {
		t.Errorf("the list is %q", got)
	}
	r.ok(t, "schedule_cancel", str("name", "a"))
	if got := r.refused(t, "schedule_cancel", str("name", "a")); got != "you have no such schedule" {
		t.Errorf("it is refused with %q", got)
	}
	for _, c := range [][2]string{{"cron", "@daily"}, {"at", "tomorrow"}, {"utc_offset", "+01:00"}} {
		r.refused(t, "schedule_create", str("name", "e"), str("body", "look"), str(c[0], c[1]))
	}
	r.refused(t, "schedule_create", str("name", "e"), str("body", "look"))
	r.refused(t, "schedule_create", str("name", "e"), str("body", "look"), num("every_seconds", 60), num("in_seconds", 60))
	r.refused(t, "schedule_create", str("name", "e"), str("body", "look"), num("every_seconds", 59))
	if len(d.made) != 3 {
		t.Errorf("refused ones were made: %+v", d.made)
	}
	d.err = errors.New("no store")
	if got := r.refused(t, "schedule_list"); !strings.Contains(got, "no store") {
		t.Errorf("it is refused with %q", got)
	}
}
