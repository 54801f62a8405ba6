package say

import (
	"strconv"

	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/wire"
)

// Bounds of what is quoted inside a sentence, in bytes.
const (
	maxQuoted = 100
	maxProse  = 2000
)

// quoted is a word of somebody else inside a sentence of ours.
func quoted(word string) string { return strconv.Quote(Line(word, maxQuoted)) }

// Ending says how a run ended, in one clause without a full stop; empty for one that
// completed. A word that this build does not know is told as it is and never as a
// completion.
func Ending(c wire.Cause) string {
	switch c := c.(type) {
	case wire.Completed:
		return ""
	case wire.Failed:
		return "the run failed: " + Line(c.Message, maxProse) + " (" + Line(c.Code, maxQuoted) + ")"
	case wire.Aborted:
		if c.By == nil {
			return "the run was stopped"
		}
		return "the run was stopped: " + Cancelled(*c.By)
	case wire.Blocked:
		if c.Detail == nil {
			return "the run was stopped by a rule"
		}
		return blocked(*c.Detail)
	case wire.Paused:
		if c.Reason == nil {
			return "the run waits for a decision"
		}
		return paused(*c.Reason)
	default:
		return "the run ended as " + quoted(c.Word()) + ", a word that this build does not know"
	}
}

func paused(r words.PauseReason) string {
	switch r {
	case words.PausedOnApproval:
		return "the run waits for somebody to allow or refuse a call"
	case words.PausedOnQuestion:
		return "the run waits for an answer to its question"
	case words.PausedOnPlan:
		return "the run waits for its plan to be reviewed"
	}
	return "the run waits for " + quoted(string(r)) + ", which this build does not know"
}

// Cancelled says why something was cancelled.
func Cancelled(c words.CancelCause) string {
	switch c {
	case words.CancelledByPerson:
		return "a person stopped it"
	case words.CancelledByParent:
		return "the run that started it is over"
	case words.CancelledByBudget:
		return "the time it was given is used up"
	case words.CancelledByNewer:
		return "a newer request took its place"
	case words.CancelledByShutdown:
		return "the process that ran it ends"
	case words.CancelledByLease:
		return "another process runs the session now"
	case words.CancelledByErasure:
		return "the session was erased"
	}
	return "for the reason " + quoted(string(c)) + ", which this build does not know"
}

func blocked(d wire.BlockedDetail) string {
	unknown := " stopped the run for the reason " + quoted(d.Cause) + ", which this build does not know"
	switch d.Kind {
	case words.BlockedByHook:
		switch words.HookBlock(d.Cause) {
		case words.HookDenied:
			return "a hook did not let the prompt through"
		case words.HookFailed:
			return "a hook that has to pass failed, so the prompt was not submitted"
		case words.HookTimedOut:
			return "a hook that has to pass gave no answer in its time, so the prompt was not submitted"
		case words.HookUnreadable:
			return "the answer of a hook that has to pass could not be read, so the prompt was not submitted"
		}
		return "a hook" + unknown
	case words.BlockedByLimit:
		switch words.LimitBlock(d.Cause) {
		case words.LimitTurns:
			return "the run used up its turns"
		case words.LimitBudget:
			return "the run used up its budget"
		case words.LimitDenials:
			return "the run was denied too often in a row"
		case words.LimitOutputRetries:
			return "the answer did not fit its schema too often"
		}
		return "a limit" + unknown
	case words.BlockedByExpiry:
		switch words.Expiry(d.Cause) {
		case words.ExpiredApproval:
			return "nobody answered the question about a call in its time"
		case words.ExpiredDenialLimit:
			return "after too many denials nobody said in time to go on"
		case words.ExpiredPark:
			return "the run was parked for longer than it may be"
		}
		return "a window that closed" + unknown
	}
	return quoted(string(d.Kind)) + ", which this build does not know, stopped the run: " + quoted(d.Cause)
}
