package tools

import (
	"context"
	_ "embed"
	"strings"
	"time"

	"github.com/loom-run/loom/machine/automation"
	"github.com/loom-run/loom/policy"
)

//go:embed schedule_create.md
var scheduleCreateDescription string

//go:embed schedule_list.md
var scheduleListDescription string

//go:embed schedule_cancel.md
var scheduleCancelDescription string

// Schedules is what the tools of schedules stand on. Errors for models are
// [*agency.Refusal].
type Schedules interface {
	// CreateSchedule makes a schedule of its owner.
	CreateSchedule(automation.Schedule) error
	// Schedules lists those that a strand made and that are not over.
	Schedules(owner string) ([]automation.Schedule, error)
	CancelSchedule(owner, name string) error
	Now() int64 // Unix ms, the time that schedules go by
}

// schedulers are the tools over schedules.
type schedulers struct {
	schedules func() Schedules
}

func (k schedulers) all() []Tool {
	return []Tool{
		{ // one that is over is gone, so that a repeated call might make it again
			Name: "schedule_create", Description: scheduleCreateDescription, Class: policy.Read, Replay: Never, Scheduling: Exclusive,
			Schema: schema(`{"type":"object","properties":{
				"name":{"type":"string","description":"1 to 64 of a-z, A-Z, 0-9, '-', '_' and '.'."},
				"body":{"type":"string","description":"What is told."},
				"every_seconds":{"type":"integer","minimum":60,"maximum":604800,"description":"Each time that Unix time is a multiple of this."},
				"cron":{"type":"string","description":"Five fields of numbers: minute hour day month weekday."},
				"utc_offset":{"type":"string","description":"Of cron: +HH:MM or -HH:MM. Default +00:00."},
				"at":{"type":"string","description":"Once, at a time of RFC 3339."},
				"in_seconds":{"type":"integer","minimum":1,"maximum":604800,"description":"Once, so many seconds from now."},
				"max_fires":{"type":"integer","minimum":1,"maximum":1000,"description":"How often it tells. Default 1000."},
				"expires_after_s":{"type":"integer","minimum":1,"maximum":604800,"description":"Default 604800, a week."},
				"wake":{"type":"boolean","description":"Whether you start to work for it when you rest. Default false."},
				"target":{"type":"string","description":"The strand of an agent that you started. Default: you."}},
				"required":["name","body"],"additionalProperties":false}`),
			Run: k.create,
		},
		{
			Name: "schedule_list", Description: scheduleListDescription, Class: policy.Read, Replay: Safe, Scheduling: Concurrent,
			Schema: schema(`{"type":"object","properties":{},"additionalProperties":false}`), Run: k.list,
		},
		{
			Name: "schedule_cancel", Description: scheduleCancelDescription, Class: policy.Read, Replay: Never, Scheduling: Exclusive,
			Schema: schema(`{"type":"object","properties":{"name":{"type":"string","description":"The name of the schedule."}},"required":["name"],"additionalProperties":false}`),
			Run:    k.cancel,
		},
	}
}

func (k schedulers) create(_ context.Context, in Invocation) Outcome {
	a := argumentsOf(in.Arguments, "name", "body", "every_seconds", "cron", "utc_offset", "at", "in_seconds", "max_fires", "expires_after_s", "wake", "target")
	own := in.caller().Strand
	s := automation.Schedule{
		Name: a.str("name"), Owner: own, Target: a.optStr("target", own), Body: a.str("body"), Wake: a.optBool("wake", false),
		MaxFires: a.optInt("max_fires", automation.MaxFires, 1, automation.MaxFires),
		LifeMs:   1000 * a.optInt("expires_after_s", automation.MaxLifeMs/1000, 1, automation.MaxLifeMs/1000),
		When:     k.when(a),
	}
	if out, bad := a.err(); bad {
		return out
	}
	if err := k.schedules().CreateSchedule(s); err != nil {
		return declined(err)
	}
	s.CreatedAt = k.schedules().Now()
	return said("scheduled: " + s.Shown(s.CreatedAt))
}

// when reads the one of four arguments that says it.
func (k schedulers) when(a *arguments) (when automation.Timing) {
	said := 0
	say := func(t automation.Timing) { when, said = t, said+1 }
	if n := a.optInt("every_seconds", 0, automation.MinEvery, automation.MaxEvery); n > 0 {
		say(automation.Every{Seconds: n})
	}
	if n := a.optInt("in_seconds", 0, 1, automation.MaxLifeMs/1000); n > 0 {
		say(automation.At{Ms: k.schedules().Now() + 1000*n})
	}
	if text := a.optStr("at", ""); text != "" {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			a.fail("\"at\" is %q, which is no time of RFC 3339", clip(text, 40))
		}
		say(automation.At{Ms: at.UnixMilli()})
	}
	offset := a.optStr("utc_offset", "")
	if text := a.optStr("cron", ""); text != "" {
		minutes := int64(0)
		if offset != "" {
			n, err := automation.ParseOffset(offset)
			if err != nil {
				a.fail("\"utc_offset\": %v", err)
			}
			minutes = n
		}
		c, err := automation.ParseCron(text, minutes)
		if err != nil {
			a.fail("\"cron\": %v", err)
		}
		say(c)
	} else if offset != "" {
		a.fail("\"utc_offset\" goes with cron alone")
	}
	if said != 1 {
		a.fail("one of every_seconds, cron, at and in_seconds says when; %d of them are here", said)
	}
	return when
}

func (k schedulers) list(_ context.Context, in Invocation) Outcome {
	all, err := k.schedules().Schedules(in.caller().Strand)
	if err != nil {
		return declined(err)
	}
	if len(all) == 0 {
		return said("you have no schedules")
	}
	var b strings.Builder
	for _, s := range all {
		b.WriteString(s.Shown(k.schedules().Now()) + "\n")
	}
	return said(b.String())
}

func (k schedulers) cancel(_ context.Context, in Invocation) Outcome {
	a := argumentsOf(in.Arguments, "name")
	name := a.str("name")
	if out, bad := a.err(); bad {
		return out
	}
	if err := k.schedules().CancelSchedule(in.caller().Strand, name); err != nil {
		return declined(err)
	}
	return said("cancelled " + clip(name, automation.MaxName))
}
