package project

import (
	"maps"
	"slices"
	"strings"

	"github.com/loom-run/loom/client/say"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/sdkmsg"
	"github.com/loom-run/loom/wire"
)

// mismatches are the codes and the words of providers for a history whose calls and
// results do not pair. They are compared in [Mismatched] and nowhere else.
var mismatches = [...]string{"tool_use", "tool_result", "tool_call_id", "tool_calls", "function call output"}

// Mismatched reports whether a failure is that of a history whose calls and results do
// not pair. Sending the last prompt again, edited or not, cannot mend that.
func Mismatched(c wire.Cause) bool {
	f, ok := c.(wire.Failed)
	if !ok || f.Code != "provider_error" {
		return false
	}
	text := strings.ToLower(f.Message)
	unpaired := strings.Contains(text, "without") || strings.Contains(text, "must be followed") || strings.Contains(text, "unexpected") ||
		strings.Contains(text, "no tool") || strings.Contains(text, "did not have response")
	return unpaired && slices.ContainsFunc(mismatches[:], func(w string) bool { return strings.Contains(text, w) })
}

// NextStep is what a person can do about an ending.
type NextStep uint8

// The steps.
const (
	NothingToDo    NextStep = iota
	GoOn                    // prompt or resume
	EditAndResend           // the prompt was not taken as it is
	RecoverHistory          // go back to before the calls that do not pair
	DecideFirst             // something waits for a person
)

// NextStepOf reads an ending. A history that does not pair wins over the advice to
// edit and send again, which would fail in the same way.
func NextStepOf(c wire.Cause) NextStep {
	switch b := c.(type) {
	case wire.Completed:
		return NothingToDo
	case wire.Paused:
		return DecideFirst
	case wire.Blocked:
		if BlockOf(b.Detail) == BlockHook && words.HookBlock(b.Detail.Cause) == words.HookDenied {
			return EditAndResend
		}
	case wire.Failed:
		if Mismatched(c) {
			return RecoverHistory
		}
		if b.Code == "context_overflow" {
			return EditAndResend
		}
	default:
	}
	return GoOn
}

// ReadRoots are the directories that may be read, as far as it was told. An offer
// grants nothing, and neither does a rejection: only a notice that says so does.
type ReadRoots struct{ spellings map[string]bool }

// Apply takes a notice. It reports whether a directory was added.
func (r *ReadRoots) Apply(code words.NoticeCode, facts wire.Facts) bool {
	n, _, ok := say.ReadNotice(code, facts)
	granted, is := n.(say.ReadRootGranted)
	if !ok || !is {
		return false
	}
	if r.spellings == nil {
		r.spellings = map[string]bool{}
	}
	r.spellings[granted.Spelling] = true
	return true
}

// Has reports whether that very directory was added.
func (r *ReadRoots) Has(dir string) bool { return r.spellings[dir] }

// All lists the directories, sorted.
func (r *ReadRoots) All() []string { return slices.Sorted(maps.Keys(r.spellings)) }

// gateFrom reads the record of a gate in a transcript.
func gateFrom(g sdkmsg.Gate) wire.Gate {
	return wire.Gate{Disposition: g.Disposition, Settlement: g.Settlement, DeniedBy: g.DeniedBy, Origin: g.Origin}
}
