package print

import (
	"context"
	"errors"

	"github.com/loom-run/loom/client"
	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/wireclient"
)

// Exit is the status that a process ends with. The command line and its
// documentation take it from [Exits].
type Exit int

// The exit statuses.
const (
	Done        Exit = 0
	RunFailed   Exit = 1
	BadUsage    Exit = 2
	Held        Exit = 3
	Unreadable  Exit = 4
	NoModel     Exit = 5
	Stopped     Exit = 6
	NotFound    Exit = 7
	Remains     Exit = 8
	Unsearched  Exit = 9
	LeftAlone   Exit = 10
	OutputLost  Exit = 74
	Interrupted Exit = 130
)

// ExitRow is one row of the table of exit statuses.
type ExitRow struct {
	Exit Exit
	When string
}

// Exits is the table, in ascending order.
func Exits() []ExitRow {
	return []ExitRow{
		{Done, "completed"},
		{RunFailed, "the run failed, or its end was not seen"},
		{BadUsage, "the command, an option or a value is wrong; nothing was started"},
		{Held, "another process holds the session"},
		{Unreadable, "the session, or the place for sessions, cannot be read, or a newer build wrote it; what was there is kept"},
		{NoModel, "the model is unknown, has no key, or cannot be used"},
		{Stopped, "a rule, a limit of turns or an open decision stopped the run; it can be resumed or prompted again"},
		{NotFound, "no such session"},
		{Remains, "loom erase: the text is left somewhere, and the answer says where and why"},
		{Unsearched, "loom erase: some place was not searched, and the answer says which and why; where it was searched the text is gone"},
		{LeftAlone, "loom rewind: some file was left as it is, and the answer says which and why"},
		{OutputLost, "standard output was closed or could not be written, or the disk is full; the session has what was committed"},
		{Interrupted, "interrupted"},
	}
}

// failures are the codes of a failed run that have a status of their own.
var failures = map[string]Exit{
	"max_turns":         Stopped,
	"model_unavailable": NoModel,
}

// ofEnding is the status of an ending.
func ofEnding(e plane.Ending) Exit {
	switch e := e.(type) {
	case plane.Seen:
		return ofCause(e.Cause)
	case plane.Lost:
		if stop, ok := errors.AsType[*client.Stopped](e.Err); ok {
			return ofCode(stop.Code)
		}
		if e.Why == plane.Interrupted {
			return Interrupted
		}
		return ofError(e.Err)
	default:
		return RunFailed
	}
}

func ofCause(c wire.Cause) Exit {
	switch c := c.(type) {
	case wire.Completed:
		return Done
	case wire.Aborted:
		return Interrupted
	case wire.Blocked, wire.Paused:
		return Stopped
	case wire.Failed:
		if x, ok := failures[c.Code]; ok {
			return x
		}
		return RunFailed
	default: // a word of a newer engine is never read as success
		return RunFailed
	}
}

// ofCode is the status of a refusal.
func ofCode(c wire.Code) Exit {
	switch c {
	case wire.BadRequest, wire.TooLarge, wire.BadCwd, wire.UnknownStrand, wire.UnknownRow, wire.Unsupported, wire.RuleRefused:
		return BadUsage
	case wire.SessionHeld:
		return Held
	case wire.StoreUnreadable, wire.NewerFormat:
		return Unreadable
	case wire.UnknownModel, wire.MissingKey:
		return NoModel
	case wire.UnknownSession:
		return NotFound
	case wire.StoreFull:
		return OutputLost
	case wire.NoRoute, wire.Conflict, wire.StaleCursor, wire.Unavailable, wire.Internal, wire.Unauthorized, wire.Forbidden,
		wire.BindingMismatch, wire.AlreadySettled, wire.RevisionChanged, wire.KeyReused, wire.AttributionTaken:
		return RunFailed
	default: // a word of a newer server
		return RunFailed
	}
}

// ofError is the status of an error that came in place of a run's end.
func ofError(err error) Exit {
	if refused, ok := errors.AsType[*wireclient.Refused](err); ok {
		return ofCode(refused.Code)
	}
	if errors.Is(err, context.Canceled) {
		return Interrupted
	}
	return RunFailed
}
