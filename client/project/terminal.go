package project

import (
	"github.com/loom-run/loom/client/say"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/sdkmsg"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/shape"
)

// Terminal is an ending in the words of a transcript's result.
type Terminal struct {
	Subtype string
	IsError bool
	Reason  string   // a word of terminal_reason; empty where none fits
	Errors  []string // what went wrong, a sentence each
}

// TerminalOf reads a cause. Only a completion is a success: a word that this build
// does not know is an error that carries the word.
func TerminalOf(c wire.Cause) Terminal {
	t := Terminal{Subtype: sdkmsg.ErrorExecution, IsError: true}
	if sentence := say.Ending(c); sentence != "" {
		t.Errors = []string{sentence}
	}
	switch c := c.(type) {
	case wire.Completed:
		return Terminal{Subtype: sdkmsg.Success, Reason: "completed"}
	case wire.Failed:
		t.Subtype, t.Reason = failedAs(c.Code)
	case wire.Aborted:
		t.Reason = "aborted_streaming"
	case wire.Blocked:
		t.Subtype, t.Reason = blockedAs(c.Detail)
	case wire.Paused, wire.UnknownCause:
	}
	return t
}

// failedAs maps the engine's codes of failures. A code that is not here is an
// execution error with no reason of its own.
func failedAs(code string) (subtype, reason string) {
	switch code {
	case "max_turns":
		return sdkmsg.ErrorMaxTurns, "max_turns"
	case "context_overflow":
		return sdkmsg.ErrorExecution, "prompt_too_long"
	case "provider_error":
		return sdkmsg.ErrorExecution, "api_error"
	case "model_unavailable":
		return sdkmsg.ErrorExecution, "turn_setup_failed"
	}
	return sdkmsg.ErrorExecution, ""
}

func blockedAs(d *wire.BlockedDetail) (subtype, reason string) {
	switch BlockOf(d) {
	case BlockHook:
		return sdkmsg.ErrorExecution, "stop_hook_prevented"
	case BlockLimit:
		switch words.LimitBlock(d.Cause) {
		case words.LimitTurns:
			return sdkmsg.ErrorMaxTurns, "max_turns"
		case words.LimitBudget:
			return sdkmsg.ErrorMaxBudget, "budget_exhausted"
		case words.LimitOutputRetries:
			return sdkmsg.ErrorMaxRetries, "structured_output_retry_exhausted"
		case words.LimitDenials:
			return sdkmsg.ErrorExecution, "blocking_limit"
		}
	case BlockUnstated, BlockExpiry, BlockNewCause, BlockNewKind:
	}
	return sdkmsg.ErrorExecution, ""
}

// Block is how much of a blocked ending's detail is known.
type Block uint8

// The readings. A word outside the tables is never folded into one inside.
const (
	BlockUnstated Block = iota // no detail, or one that cannot be read
	BlockHook                  // a known hook's cause
	BlockLimit                 // a known limit
	BlockExpiry                // a known window
	BlockNewCause              // a known kind with a cause of a newer build
	BlockNewKind               // a kind of a newer build
)

// BlockOf reads the detail of a blocked ending.
func BlockOf(d *wire.BlockedDetail) Block {
	if d == nil {
		return BlockUnstated
	}
	known := false
	var as Block
	switch d.Kind {
	case words.BlockedByHook:
		as, known = BlockHook, words.HookBlocks.Has(words.HookBlock(d.Cause))
	case words.BlockedByLimit:
		as, known = BlockLimit, words.LimitBlocks.Has(words.LimitBlock(d.Cause))
	case words.BlockedByExpiry:
		as, known = BlockExpiry, words.Expiries.Has(words.Expiry(d.Cause))
	default:
		return BlockNewKind
	}
	if !known {
		return BlockNewCause
	}
	return as
}

// ApprovalExpired reports whether nobody answered a question about a call in time.
func ApprovalExpired(c wire.Cause) bool { return expired(c, words.ExpiredApproval) }

// DenialWindowExpired reports whether nobody said in time to go on after too many
// denials.
func DenialWindowExpired(c wire.Cause) bool { return expired(c, words.ExpiredDenialLimit) }

// ParkExpired reports whether a run was parked for too long.
func ParkExpired(c wire.Cause) bool { return expired(c, words.ExpiredPark) }

// expired compares with one word: what a person does next differs for each. The
// engine tells a window either as what blocked the run or as the code of its failure.
func expired(c wire.Cause, w words.Expiry) bool {
	switch c := c.(type) {
	case wire.Blocked:
		return c.Detail != nil && c.Detail.Kind == words.BlockedByExpiry && words.Expiry(c.Detail.Cause) == w
	case wire.Failed:
		return words.Expiry(c.Code) == w
	default:
		return false
	}
}

// Parked reports whether a run waits for a person and can go on: it is looked at
// before anything else about an ending, so that what is parked is never taken for
// finished.
func Parked(c wire.Cause) bool {
	_, paused := c.(wire.Paused)
	return paused
}

// EndingOf reads the cause that a result of a transcript has. ok is false when the
// line says none: it is somebody else's, and its subtype is all there is.
func EndingOf(r sdkmsg.Result) (c wire.Cause, ok bool) {
	if r.Loom == nil {
		return nil, false
	}
	c, err := shape.Decode[wire.Cause](r.Loom.Terminal, "project.EndingOf")
	return c, err == nil
}

// terminalValue is a cause in the form of the wire.
func terminalValue(c wire.Cause) jsonv.Value {
	type holder struct {
		Cause wire.Cause `wire:"cause"`
	}
	var w jsonv.Writer
	shape.Append(&w, holder{c})
	v, _ := w.Tree().Get("cause")
	return v
}

// StopReason is the engine's stop word in the transcript's vocabulary. A word that
// has no counterpart stays itself.
func StopReason(word string) string {
	switch word {
	case "stop":
		return "end_turn"
	case "toolUse":
		return "tool_use"
	case "length":
		return "max_tokens"
	}
	return word
}
