package config

import (
	"time"

	"github.com/loom-run/loom/machine/automation"
)

// list is the tables of an array of tables.
func (t *table) list(key string, most int) (out []*table) {
	v, ok := t.take(key)
	if !ok {
		return nil
	}
	all, isList := v.([]any)
	if !isList {
		t.fail("%s must be a list of tables, [[%s]]", key, key)
		return nil
	}
	if len(all) > most {
		t.fail("there are %d tables [[%s]]; at most %d can be", len(all), key, most)
		return nil
	}
	for _, e := range all {
		if inner, ok := t.inner(key, e); ok {
			out = append(out, inner)
		}
	}
	return out
}

// readAutomation reads [[rule]], [[schedule]] and [schedules].
func readAutomation(root *table) automation.Settings {
	s := automation.Settings{Models: automation.Steer}
	names := map[string]bool{}
	for _, t := range root.list("rule", automation.MaxRules) {
		r := automation.Rule{Name: t.required("name", "what the rule is called"), Triggers: t.texts("triggers"), Body: t.required("body", "what is told")}
		t.named(r.Name, r.Check, names)
		s.Rules = append(s.Rules, r)
	}
	names = map[string]bool{}
	for _, t := range root.list("schedule", automation.MaxSchedules) {
		one := readSchedule(t)
		t.named(one.Name, one.Check, names)
		s.Schedules = append(s.Schedules, one)
	}
	if t, ok := root.sub("schedules"); ok {
		switch word, _ := word(t, "model_created", []string{"off", "steer", "wake"}); word {
		case "off":
			s.Models = automation.Off
		case "wake":
			s.Models = automation.Wake
		}
		t.done()
	}
	return s
}

// named ends the reading of one table of a list, whose name no other of it has.
func (t *table) named(name string, check func() error, taken map[string]bool) {
	t.done()
	if t.failed() {
		return
	}
	if err := check(); err != nil {
		t.fail("the one that is called %s cannot be taken: %v", quote(name), err)
	}
	if taken[name] {
		t.fail("two are called %s", quote(name))
	}
	taken[name] = true
}

func readSchedule(t *table) automation.Schedule {
	s := automation.Schedule{
		Name: t.required("name", "what the schedule is called"), Target: "main", Body: t.required("body", "what is told"),
		MaxFires: automation.MaxFires, LifeMs: automation.MaxLifeMs,
	}
	if target, ok := t.text("target"); ok {
		s.Target = target
	}
	if wake := t.flag("wake"); wake != nil {
		s.Wake = *wake
	}
	if n := t.number("max_fires", "times", automation.MaxFires); n != nil {
		s.MaxFires = *n
	}
	if n := t.number("expires_after_s", "seconds", automation.MaxLifeMs/1000); n != nil {
		s.LifeMs = *n * 1000
	}
	said := 0
	say := func(when automation.Timing) { s.When, said = when, said+1 }
	if n := t.number("every_s", "seconds", automation.MaxEvery); n != nil {
		say(automation.Every{Seconds: *n})
	}
	if at, ok := t.moment("at"); ok {
		say(automation.At{Ms: at})
	}
	offset, zoned := t.text("utc_offset")
	if text, ok := t.text("cron"); ok {
		minutes := int64(0)
		if zoned {
			n, err := automation.ParseOffset(offset)
			if err != nil {
				t.fail("utc_offset: %v", err)
			}
			minutes = n
		}
		c, err := automation.ParseCron(text, minutes)
		if err != nil {
			t.fail("cron: %v", err)
		}
		say(c)
	} else if zoned {
		t.fail("utc_offset goes with cron alone")
	}
	if said != 1 {
		t.fail("one of every_s, cron and at says when; %d of them are here", said)
	}
	return s
}

// moment is a time, as TOML has it or as a text of RFC 3339, with its distance from
// UTC.
func (t *table) moment(key string) (ms int64, ok bool) {
	v, ok := t.take(key)
	if !ok {
		return 0, false
	}
	at, isTime := v.(time.Time)
	if text, isText := v.(string); isText {
		parsed, err := time.Parse(time.RFC3339, text)
		at, isTime = parsed, err == nil
	}
	if !isTime {
		t.fail("%s must be a time with its distance from UTC, such as 2027-01-31T09:00:00+01:00", key)
		return 0, false
	}
	return at.UnixMilli(), true
}
