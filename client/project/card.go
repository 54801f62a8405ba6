package project

import (
	"strings"

	"github.com/loom-run/loom/core/board"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/sdkmsg"
)

// Card is what a person sees of a call and its result. It is made from the transcript,
// so a restart makes the same one; the block that goes back to a model is not touched.
type Card struct {
	CallID, Tool string
	Target       string    // the path or command it worked on; empty when not known
	Outcome      Outcome   // how it went
	Denial       string    // why it did not run, of a denied one
	Facts        CardFacts // what the tool says to programs, for the tools that are known
	Hunks        []Hunk    // what changed, for the tools that change a text
	Note         string    // why a status that looks like a failure is none
	Text         string    // what the model was given
	Images       int64
}

// Outcome is how a call went.
type Outcome uint8

// The outcomes. Pending is a call without a result.
const (
	Pending Outcome = iota
	Succeeded
	Failed
	DeniedCall
	CancelledCall
)

// CardFacts is what a known tool says to programs: [Command], [FileRead],
// [FileWritten], [FileEdited], [Listing], [Matches], [Job], [Agent], [Todo], or nil.
type CardFacts interface{ cardFacts() }

// Command is how a command ended.
type Command struct {
	ExitCode                       *int64
	Signal                         string
	TimedOut, Cancelled, Truncated bool
	StdoutBytes, StderrBytes       *int64
	Lost                           bool // its process ended without telling how it went
}

// FileRead is the part of a file that was read.
type FileRead struct {
	Path              string
	First, Last, Rows *int64
}

// FileWritten is a file that was written.
type FileWritten struct {
	Path    string
	Bytes   *int64
	Created bool
}

// FileEdited is a file that was edited.
type FileEdited struct {
	Path            string
	Replaced, Bytes *int64
}

// Listing is what a directory holds.
type Listing struct {
	Path    string
	Entries *int64
}

// Matches is what a search found.
type Matches struct {
	Count, Files *int64
	More         bool
}

// Job is a command in the background, as it was when the tool was asked. Its status is
// the engine's word.
type Job struct{ ID, Command, Status string }

// Agent is an agent that was started, or that a message was sent to.
type Agent struct{ Handle string }

// Todo is the plan of a strand, as it was then.
type Todo struct{ Board board.Board }

func (Command) cardFacts()     {}
func (FileRead) cardFacts()    {}
func (FileWritten) cardFacts() {}
func (FileEdited) cardFacts()  {}
func (Listing) cardFacts()     {}
func (Matches) cardFacts()     {}
func (Job) cardFacts()         {}
func (Agent) cardFacts()       {}
func (Todo) cardFacts()        {}

// jobStart is the tool whose result says that a command goes on in the background.
const jobStart = "job_start"

// decoders are the tools whose structure is read. Of any other the text is all there
// is, and no fact is taken out of it.
var decoders = map[string]func(jsonv.Value) CardFacts{
	"bash": func(v jsonv.Value) CardFacts {
		signal, _ := textOf(v, "signal")
		return Command{
			ExitCode: number(v, "exit_code"), Signal: signal, TimedOut: flag(v, "timed_out"), Cancelled: flag(v, "cancelled"),
			Truncated: flag(v, "truncated"), StdoutBytes: number(v, "stdout_bytes"), StderrBytes: number(v, "stderr_bytes"), Lost: flag(v, "lost"),
		}
	},
	"read": func(v jsonv.Value) CardFacts {
		return FileRead{Path: path(v), First: number(v, "first_line"), Last: number(v, "last_line"), Rows: number(v, "total_lines")}
	},
	"write": func(v jsonv.Value) CardFacts {
		return FileWritten{Path: path(v), Bytes: number(v, "bytes"), Created: flag(v, "created")}
	},
	"edit": func(v jsonv.Value) CardFacts {
		return FileEdited{Path: path(v), Replaced: number(v, "replaced"), Bytes: number(v, "bytes")}
	},
	"ls": func(v jsonv.Value) CardFacts { return Listing{Path: path(v), Entries: number(v, "entries")} },
	"grep": func(v jsonv.Value) CardFacts {
		return Matches{Count: number(v, "matches"), Files: number(v, "files"), More: flag(v, "more")}
	},
	jobStart: jobOf, "job_poll": jobOf, "job_send": jobOf, "job_kill": jobOf,
	"agent_spawn": agentOf, "agent_send": agentOf,
	"todo": func(v jsonv.Value) CardFacts {
		f, _ := v.Get("board")
		b, err := board.Decode(f)
		if err != nil {
			return nil
		}
		return Todo{Board: b}
	},
}

// jobOf reads a job. One without a name is none.
func jobOf(v jsonv.Value) CardFacts {
	name, ok := textOf(v, "job")
	if !ok || name == "" {
		return nil
	}
	command, _ := textOf(v, "command")
	status, _ := textOf(v, "status")
	return Job{ID: name, Command: command, Status: status}
}

func agentOf(v jsonv.Value) CardFacts {
	handle, ok := textOf(v, "handle")
	if !ok || handle == "" {
		return nil
	}
	return Agent{Handle: handle}
}

func path(v jsonv.Value) string { s, _ := textOf(v, "path"); return s }

func number(v jsonv.Value, name string) *int64 {
	f, _ := v.Get(name)
	n, ok := f.Int64()
	if !ok {
		return nil
	}
	return &n
}

// flag is true only for the literal true.
func flag(v jsonv.Value, name string) bool {
	f, _ := v.Get(name)
	b, ok := f.Bool()
	return ok && b
}

// interruption is what a cancelled call is answered with in transcripts of others.
const interruption = "[Request interrupted by user"

// CardOf makes the card of a call. With no result it is pending.
func CardOf(use sdkmsg.ToolUse, carrier *sdkmsg.User) Card {
	c := Card{CallID: use.ID, Tool: use.Name, Target: target(use)}
	if carrier == nil {
		return c
	}
	result, ok := resultOf(carrier, use.ID)
	if !ok {
		return c
	}
	c.Text, c.Images = result.Content.Texts(), imagesOf(carrier, result)
	if d := decoders[use.Name]; d != nil && carrier.ToolUseResult != nil && carrier.ToolUseResult.Kind() == jsonv.Object {
		c.Facts = d(*carrier.ToolUseResult)
	}
	c.Outcome, c.Note = outcomeOf(carrier, result, c.Facts)
	if c.Outcome == DeniedCall {
		c.Denial = denialOf(*carrier.Loom.Gate)
	}
	if c.Outcome == Succeeded {
		c.Hunks = changeOf(use)
	}
	return c
}

// imagesOf is what is said to have come; in a transcript of others, what has a place.
func imagesOf(u *sdkmsg.User, r sdkmsg.ToolResult) (n int64) {
	if u.Loom != nil {
		return u.Loom.Images
	}
	for _, b := range r.Content {
		if _, image := b.(sdkmsg.Image); image {
			n++
		}
	}
	return n
}

func resultOf(u *sdkmsg.User, callID string) (sdkmsg.ToolResult, bool) {
	for _, b := range u.Message.Content {
		if r, ok := b.(sdkmsg.ToolResult); ok && r.ToolUseID == callID {
			return r, true
		}
	}
	return sdkmsg.ToolResult{}, false
}

// outcomeOf reads how a call went: the gate first, then what the tool says to
// programs, and the flag of the result last. An exit status that the tool itself
// calls harmless is no failure, and the note says why.
func outcomeOf(u *sdkmsg.User, r sdkmsg.ToolResult, facts CardFacts) (o Outcome, note string) {
	if DeniedLine(*u) {
		return DeniedCall, ""
	}
	if u.ToolUseResult != nil {
		if n, ok := textOf(*u.ToolUseResult, "returnCodeInterpretation"); ok && n != "" {
			return Succeeded, n
		}
	}
	if c, ok := facts.(Command); ok {
		switch {
		case c.Cancelled:
			return CancelledCall, ""
		case c.TimedOut, c.Lost, c.Signal != "", c.ExitCode != nil && *c.ExitCode != 0:
			return Failed, ""
		case c.ExitCode != nil:
			return Succeeded, ""
		}
	}
	switch {
	case r.IsError && strings.HasPrefix(r.Content.Texts(), interruption):
		return CancelledCall, ""
	case r.IsError:
		return Failed, ""
	}
	return Succeeded, ""
}

func denialOf(g sdkmsg.Gate) string { return DenialSentence(gateFrom(g)) }

// target is what a call works on, from its own arguments.
func target(use sdkmsg.ToolUse) string {
	for _, name := range [...]string{"path", "file_path", "command", "pattern"} {
		if s, ok := textOf(use.Input, name); ok {
			return s
		}
	}
	return ""
}

// changeOf is what a call changed in a text, as far as its arguments tell.
func changeOf(use sdkmsg.ToolUse) []Hunk {
	before, ok1 := textOf(use.Input, "old_text")
	after, ok2 := textOf(use.Input, "new_text")
	if !ok1 && !ok2 {
		before, ok1 = textOf(use.Input, "old_string")
		after, ok2 = textOf(use.Input, "new_string")
	}
	if !ok1 || !ok2 {
		return nil
	}
	return Hunks(before, after)
}
