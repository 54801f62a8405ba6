// Package policy decides whether a tool call may run.
//
// # Purpose
//
// A person gives a session a permission mode and rules; a tool has a class, which
// says what it can do at worst. The answer to a call follows from these alone, and
// in the mode auto from the verdict of a classifier, so it can be explained in one
// sentence and tested.
//
// # Key types
//
// [Mode] is the person's choice, [Class] the tool's nature, [Decision] the
// answer of [Decide]; [Verdict] is what a classifier said, and [Classified] the
// answer that follows from it. [Rule] is a rule that [Compile] took, [Issue] why it
// took none, and [Judge] the answer to an [Action] by rules and mode. [Bounds] are what
// a command is confined to, [Needs] what it asks for, and [Grant] widens them.
//
// # Relationships
//
// Imports core/words, and the parser of mvdan.cc/sh for command lines. The broker
// asks it.
//
// # Traffic
//
// None.
//
// # Invariants
//
// A rule never allows what another refuses, whatever their order, and allows a
// command line only if it covers each command in it. What cannot be known before it
// runs is covered by no pattern, and leads to a question where a deny rule may mean
// it.
// What [Bounds.Compose] gives is within the bounds, as widened by grants, and within what
// was asked for; nothing lifts a protection, and a narrowing names exactly what is missing.
// Decide is total and fails closed: a mode or class that is not of the closed
// sets allows nothing. A mode that allows a class allows every weaker one.
// Nothing but an explicit word of a classifier lets a call run in the mode auto: one
// that is not routed, failed or answered in other words leads to a question, with
// the cause. A refusal and a question nobody is there for say in one sentence what
// was refused and which flag allows it.
package policy

import (
	"strconv"
	"strings"

	"github.com/loom-run/loom/core/words"
)

// Mode is how much a session may do without asking. The zero Mode is none: it
// allows nothing.
type Mode uint8

// The modes. The first three allow each more than the one before; the others allow
// what Default allows, and differ in what becomes of the rest.
const (
	Default           Mode = iota + 1 // read; asks for the rest
	AcceptEdits                       // read, and write files in the workspace; asks for the rest
	BypassPermissions                 // everything
	Plan                              // read; refuses the rest until the plan is accepted
	DontAsk                           // read; refuses the rest instead of asking
	Auto                              // read; a classifier decides about the rest
)

// Flag is the flag that chooses the mode.
const Flag = "--permission-mode"

var modeWords = [...]words.PermissionMode{
	Default: words.ModeDefault, AcceptEdits: words.ModeAcceptEdits, BypassPermissions: words.ModeBypassPermissions,
	Plan: words.ModePlan, DontAsk: words.ModeDontAsk, Auto: words.ModeAuto,
}

// Modes returns all modes.
func Modes() []Mode { return []Mode{Default, AcceptEdits, BypassPermissions, Plan, DontAsk, Auto} }

// ParseMode reads the word of a mode, exactly as [Mode.String] writes it.
func ParseMode(word string) (Mode, bool) {
	for _, m := range Modes() {
		if string(modeWords[m]) == word {
			return m, true
		}
	}
	return 0, false
}

// String returns the word of the mode; for what is no mode, its number.
func (m Mode) String() string {
	if m.known() {
		return string(modeWords[m])
	}
	return "mode(" + strconv.Itoa(int(m)) + ")"
}

func (m Mode) known() bool { return m >= Default && m <= Auto }

// Class is the worst that a tool can do. The zero Class is none and is never
// allowed.
type Class uint8

// The classes, each able to do more than the one before.
const (
	Read  Class = iota + 1 // looks at files of the workspace
	Write                  // changes files of the workspace
	Exec                   // runs commands, which can do what the person can
)

var classWords = [...]words.ToolClass{Read: words.ClassRead, Write: words.ClassWrite, Exec: words.ClassExec}

// String returns the word of the class; for what is no class, its number.
func (c Class) String() string {
	if c.known() {
		return string(classWords[c])
	}
	return "class(" + strconv.Itoa(int(c)) + ")"
}

func (c Class) known() bool { return c >= Read && c <= Exec }

// Behavior is what becomes of a call.
type Behavior uint8

// The behaviors.
const (
	Deny     Behavior = iota // it does not run
	Allow                    // it runs
	Ask                      // a person decides
	Classify                 // a classifier decides: see Classified
)

// Decision is the answer to a call. The zero Decision is a refusal.
type Decision struct {
	behavior Behavior
	sentence string
	by       words.DeniedBy
	origin   words.AskOrigin
	cause    words.UndecidedCause
	rule     Rule // the one that decided; zero: none
	mandate  words.Mandate
}

// Behavior says what becomes of the call.
func (d Decision) Behavior() Behavior { return d.behavior }

// Allowed reports whether the call may run as things are.
func (d Decision) Allowed() bool { return d.behavior == Allow }

// Sentence is why the call does not run, for the model and the person alike: of a
// refusal, and of a question when there is nobody to put it to. It is empty when
// the call is allowed.
func (d Decision) Sentence() string {
	if !d.Allowed() && d.sentence == "" {
		return "This call was refused; nothing was done."
	}
	return d.sentence
}

// DeniedBy is who refused; empty unless the call is denied.
func (d Decision) DeniedBy() words.DeniedBy { return d.by }

// Origin is what made the call a question; empty unless it is one.
func (d Decision) Origin() words.AskOrigin { return d.origin }

// Cause is why a classifier gave no verdict; empty unless that is what made the
// call a question.
func (d Decision) Cause() words.UndecidedCause { return d.cause }

// Decide answers a call of a tool of class c in mode m.
func Decide(m Mode, c Class) Decision {
	if !m.known() || !c.known() {
		return Decision{by: words.DeniedByMode, sentence: "This call was refused because its permission mode or tool class is unknown; nothing was done."}
	}
	if c <= strongest(m) {
		return Decision{behavior: Allow}
	}
	d := Decision{sentence: refused(c) + " in permission mode " + m.String() + "; nothing was done. " + way(c)}
	switch m {
	case Default, AcceptEdits:
		d.behavior, d.origin = Ask, words.AskedByMode
	case Auto:
		d.behavior = Classify
	case Plan, DontAsk, BypassPermissions:
		d.by = words.DeniedByMode
	}
	return d
}

// strongest is the strongest class that a mode allows by itself.
func strongest(m Mode) Class {
	switch m {
	case Default, Plan, DontAsk, Auto:
		return Read
	case AcceptEdits:
		return Write
	case BypassPermissions:
		return Exec
	}
	return 0
}

// way names the flag that allows a class.
func way(c Class) string {
	return "The person can allow it with " + Flag + " " + needed(c).String() + "."
}

// needed is the strictest mode that allows c.
func needed(c Class) Mode {
	for _, m := range []Mode{Default, AcceptEdits} {
		if c <= strongest(m) {
			return m
		}
	}
	return BypassPermissions
}

func refused(c Class) string {
	switch c {
	case Read:
		return "Reading files is not allowed"
	case Write:
		return "Writing files is not allowed"
	case Exec:
		return "Running commands is not allowed"
	}
	return "This is not allowed"
}

// Verdict is what became of asking a classifier: Allows, Denies, Unsure or
// Undecided.
type Verdict interface{ verdict() }

// Allows lets the call run.
type Allows struct{}

// Denies refuses it.
type Denies struct{ Reason string }

// Unsure leaves it to a person.
type Unsure struct{ Reason string }

// Undecided is no verdict at all.
type Undecided struct{ Cause words.UndecidedCause }

func (Allows) verdict()    {}
func (Denies) verdict()    {}
func (Unsure) verdict()    {}
func (Undecided) verdict() {}

// maxReason bounds what is kept of a classifier's reason, in bytes.
const maxReason = 400

// ReadVerdict reads a classifier's answer: one of the words allow, deny and ask on
// the first line, and a reason after it. Anything else is out of its contract.
func ReadVerdict(answer string) Verdict {
	word, reason, _ := strings.Cut(strings.TrimSpace(answer), "\n")
	reason = strings.Join(strings.Fields(strings.ToValidUTF8(reason, "")), " ")
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "") + "..."
	}
	switch strings.TrimSpace(word) {
	case "allow":
		return Allows{}
	case "deny":
		return Denies{reason}
	case "ask":
		return Unsure{reason}
	}
	return Undecided{words.UndecidedContract}
}

// Classified answers a call that [Decide] left to a classifier.
func Classified(c Class, v Verdict) Decision {
	if !c.known() {
		return Decide(Auto, c)
	}
	because := func(reason string) string {
		if reason == "" {
			return ""
		}
		return ": " + strings.TrimSuffix(reason, ".")
	}
	ask := Decision{behavior: Ask, origin: words.AskedByClassifier}
	switch v := v.(type) {
	case Allows:
		return Decision{behavior: Allow}
	case Denies:
		return Decision{by: words.DeniedByClassifier, sentence: "The classifier of permission mode auto refused this call" + because(v.Reason) + "; nothing was done. " + way(c)}
	case Unsure:
		ask.sentence = "The classifier of permission mode auto left this call to a person" + because(v.Reason) + "; nothing was done. " + way(c)
		return ask
	case Undecided:
		ask.cause = v.Cause
		ask.sentence = refused(c) + " in permission mode auto without its classifier, " + undecided(v.Cause) + "; nothing was done. " + way(c)
		return ask
	}
	ask.cause = words.UndecidedFailed
	ask.sentence = refused(c) + " in permission mode auto without its classifier, " + undecided(words.UndecidedFailed) + "; nothing was done. " + way(c)
	return ask
}

// undecided says why there is no verdict. A cause that is newer than this build is
// an outage like the others.
func undecided(cause words.UndecidedCause) string {
	switch cause {
	case words.UndecidedUnrouted:
		return "to which no model is assigned"
	case words.UndecidedTimedOut:
		return "which gave no answer in its time"
	case words.UndecidedContract:
		return "whose answer was none of its words"
	case words.UndecidedFailed:
	}
	return "which could not be asked"
}
