package tools

import (
	"context"
	_ "embed"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/loom-run/loom/broker"
	"github.com/loom-run/loom/broker/jail"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/machine/agency"
	"github.com/loom-run/loom/machine/job"
	"github.com/loom-run/loom/policy"
)

//go:embed job_start.md
var jobStartDescription string

//go:embed job_poll.md
var jobPollDescription string

//go:embed job_send.md
var jobSendDescription string

//go:embed job_kill.md
var jobKillDescription string

// Jobs is what the tools of background jobs stand on. Errors for models are
// [*agency.Refusal].
type Jobs interface {
	// StartJob uses work only for a job that it starts; its Deadline is relative.
	StartJob(c agency.Caller, r job.Record, work func(ctx context.Context, input io.Reader, observe func(job.Tails)) (job.Exit, error)) (_ job.Record, started bool, err error)
	Jobs(strand string) ([]job.Record, error)
	PollJob(ctx context.Context, strand, id string, within time.Duration) (job.Record, job.Tails, error)
	SendJob(strand, id, text string, end bool) error
	KillJob(ctx context.Context, strand, id string, by job.Cause) (job.Record, error)
}

// background are the tools over jobs.
type background struct {
	toolkit
	jobs func() Jobs
}

func (k background) all() []Tool {
	return []Tool{
		{ // a call that is made again finds the job that it started
			Name: "job_start", Description: jobStartDescription, Class: policy.Exec, Replay: Safe, Scheduling: Concurrent,
			Schema: schema(`{"type":"object","properties":{
				"command":{"type":"string","description":"The command line."},
				"description":{"type":"string","description":"What it is for, in a few words."},
				"wall_ms":{"type":"integer","minimum":1,"maximum":3600000,"description":"Time limit in milliseconds. Default 3600000."}},
				"required":["command"],"additionalProperties":false}`),
			Run: k.start,
		},
		{
			Name: "job_poll", Description: jobPollDescription, Class: policy.Read, Replay: Safe, Scheduling: Concurrent,
			Schema: schema(`{"type":"object","properties":{
				"job":{"type":"string","description":"The name of the job."},
				"wait_ms":{"type":"integer","minimum":0,"maximum":30000,"description":"How long to wait for its end. Default 0."}},
				"additionalProperties":false}`),
			Run: k.poll,
		},
		{ // what was written cannot be taken back, and whether it was is not known after a crash
			Name: "job_send", Description: jobSendDescription, Class: policy.Exec, Replay: Never, Scheduling: Exclusive,
			Schema: schema(`{"type":"object","properties":{
				"job":{"type":"string","description":"The name of the job."},
				"input":{"type":"string","description":"What it reads."},
				"end":{"type":"boolean","description":"Whether nothing follows. Default false."}},
				"required":["job","input"],"additionalProperties":false}`),
			Run: k.send,
		},
		{
			Name: "job_kill", Description: jobKillDescription, Class: policy.Read, Replay: Safe, Scheduling: Concurrent,
			Schema: schema(`{"type":"object","properties":{"job":{"type":"string","description":"The name of the job."}},"required":["job"],"additionalProperties":false}`),
			Run:    k.kill,
		},
	}
}

func (k background) start(_ context.Context, in Invocation) Outcome {
	a := argumentsOf(in.Arguments, "command", "description", "wall_ms")
	r := job.Record{
		Command: a.str("command"), Description: clip(strings.Join(strings.Fields(a.optStr("description", "")), " "), 160),
		Deadline: a.optInt("wall_ms", job.MaxWallMs, 1, job.MaxWallMs), Call: in.permit.Coordinates().CallID,
	}
	switch {
	case strings.TrimSpace(r.Command) == "" || len(r.Command) > job.MaxCommand:
		a.fail("\"command\" has %d bytes; it has 1 to %d", len(r.Command), job.MaxCommand)
	case strings.ContainsRune(r.Command, 0):
		a.fail("\"command\" holds a NUL byte, which no command line can carry")
	}
	if out, bad := a.err(); bad {
		return out
	}
	c, ok := k.shell(r.Command)
	if !ok {
		return failed("neither bash nor sh is in the PATH; nothing was run")
	}
	c.Timeout = time.Duration(r.Deadline) * time.Millisecond
	lease, err := k.broker.Detach(in.permit, job.IDOf(in.caller()))
	if err != nil {
		return failed("the job was not started: " + err.Error())
	}
	got, started, err := k.jobs().StartJob(in.caller(), r, func(ctx context.Context, input io.Reader, observe func(job.Tails)) (job.Exit, error) {
		defer func() { _ = k.broker.Settle(lease) }() // its command is over
		c.Input = input
		return k.work(ctx, lease, c, observe)
	})
	if !started {
		_ = k.broker.Settle(lease) // nobody ran anything with it
	}
	if err != nil {
		return declined(err)
	}
	return shownJob(got, job.Tails{})
}

// work runs the command of a job.
func (k background) work(ctx context.Context, lease *broker.Permit, c jail.Command, observe func(job.Tails)) (job.Exit, error) {
	exit, err := k.broker.Exec(ctx, lease, c, func(p jail.Progress) {
		out, errs := k.secrets.Window(p.Stdout), k.secrets.Window(p.Stderr)
		observe(job.Tails{Stdout: job.Tail{Text: out.Text, Total: out.Total}, Stderr: job.Tail{Text: errs.Text, Total: errs.Total}})
	})
	if lost, ok := errors.AsType[*jail.LostError](err); ok {
		return job.Exit{}, &job.LostError{Why: lost.Why}
	}
	if err != nil {
		return job.Exit{}, err
	}
	return job.Exit{
		Code: int64(exit.Code), Signal: exit.Signal, Interrupted: exit.Cancelled || exit.TimedOut,
		Stdout: k.tail(exit.Stdout), Stderr: k.tail(exit.Stderr),
	}, nil
}

// tail is the end of a stream, without secrets and as text.
func (k background) tail(c jail.Capture) job.Tail {
	c, _ = k.secrets.Capture(c)
	end := c.Tail()
	if len(end) < job.MaxTail && c.Omitted() == 0 { // nothing is missing between the two parts
		end = append(append([]byte{}, c.Head()...), end...)
	}
	if over := len(end) - job.MaxTail; over > 0 {
		end = end[over:]
		end = end[whereWhole(end):]
	}
	text, _ := Printable(end)
	if over := len(text) - job.MaxTail; over > 0 { // replacements are longer than what they replace
		text = strings.ToValidUTF8(text[over:], "")
	}
	return job.Tail{Text: text, Total: c.Total()}
}

func shownJob(r job.Record, live job.Tails) Outcome {
	out := said(r.Shown(live)).with(
		jsonv.F("job", jsonv.Str(r.ID)), jsonv.F("status", jsonv.Str(string(r.Status))), jsonv.F("command", jsonv.Str(r.Command)))
	out.IsError = r.Status == job.Lost || r.Exit != nil && r.Exit.Failure != ""
	return out
}

func (k background) poll(ctx context.Context, in Invocation) Outcome {
	a := argumentsOf(in.Arguments, "job", "wait_ms")
	id, within := a.optStr("job", ""), a.optInt("wait_ms", 0, 0, job.MaxWaitMs)
	if out, bad := a.err(); bad {
		return out
	}
	if id == "" {
		return k.list(in.caller().Strand)
	}
	r, live, err := k.jobs().PollJob(ctx, in.caller().Strand, id, time.Duration(within)*time.Millisecond)
	if err != nil {
		return declined(err)
	}
	return shownJob(r, live)
}

// listed is how many jobs a list shows, the newest ones.
const listed = 32

func (k background) list(strand string) Outcome {
	all, err := k.jobs().Jobs(strand)
	if err != nil {
		return declined(err)
	}
	if len(all) == 0 {
		return said("you have no background jobs")
	}
	var b strings.Builder
	for _, r := range all[max(0, len(all)-listed):] {
		b.WriteString(r.Sentence() + "\n")
	}
	return said(b.String())
}

func (k background) send(_ context.Context, in Invocation) Outcome {
	a := argumentsOf(in.Arguments, "job", "input", "end")
	id, input, end := a.str("job"), a.str("input"), a.optBool("end", false)
	if len(input) > job.MaxInput {
		a.fail("\"input\" has %d bytes; it has at most %d", len(input), job.MaxInput)
	}
	if out, bad := a.err(); bad {
		return out
	}
	if err := k.jobs().SendJob(in.caller().Strand, id, input, end); err != nil {
		return declined(err)
	}
	return said("sent " + count(len(input), "byte"))
}

func (k background) kill(ctx context.Context, in Invocation) Outcome {
	a := argumentsOf(in.Arguments, "job")
	id := a.str("job")
	if out, bad := a.err(); bad {
		return out
	}
	r, err := k.jobs().KillJob(ctx, in.caller().Strand, id, job.ByOwner)
	if err != nil {
		return declined(err)
	}
	return shownJob(r, job.Tails{})
}
