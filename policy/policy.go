// Package policy decides whether a tool call may run.
//
// # Purpose
//
// A person gives a session a permission mode; a tool has a class, which says
// what it can do at worst. The answer to a call follows from these two alone, so
// it can be explained in one sentence and tested exhaustively.
//
// # Key types
//
// [Mode] is the person's choice, [Class] the tool's nature, [Decision] the
// answer of [Decide].
//
// # Relationships
//
// Imports core/words. The broker asks it.
//
// # Traffic
//
// None.
//
// # Invariants
//
// Decide is total and fails closed: a mode or class that is not of the closed
// sets allows nothing. A mode that allows a class allows every weaker one, and a
// more permissive mode allows all that a stricter one does. A refusal says in one
// sentence what was refused and which flag allows it.
package policy

import (
	"github.com/loom-run/loom/core/words"
)

import "strconv"

// Mode is how much a session may do without asking. The zero Mode is none: it
// allows nothing.
type Mode uint8

// The modes, each allowing more than the one before.
const (
	Default           Mode = iota + 1 // read
	AcceptEdits                       // read, and write files in the workspace
	BypassPermissions                 // everything
)

// Flag is the flag that chooses the mode.
const Flag = "--permission-mode"

var modeWords = [...]words.PermissionMode{
	Default: words.ModeDefault, AcceptEdits: words.ModeAcceptEdits, BypassPermissions: words.ModeBypassPermissions,
}

// Modes returns all modes, strictest first. They are some of the shared words; the
// others are not decided here yet.
func Modes() []Mode { return []Mode{Default, AcceptEdits, BypassPermissions} }

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

func (m Mode) known() bool { return m >= Default && m <= BypassPermissions }

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

// Decision is the answer to a call. The zero Decision is a refusal.
type Decision struct {
	allowed  bool
	sentence string
}

// Allowed reports whether the call may run.
func (d Decision) Allowed() bool { return d.allowed }

// Sentence is why the call may not run, for the model and the person alike. It
// is empty when the call is allowed.
func (d Decision) Sentence() string {
	if !d.allowed && d.sentence == "" {
		return "This call was refused; nothing was done."
	}
	return d.sentence
}

// Decide answers a call of a tool of class c in mode m.
func Decide(m Mode, c Class) Decision {
	if !m.known() || !c.known() {
		return Decision{sentence: "This call was refused because its permission mode or tool class is unknown; nothing was done."}
	}
	if c <= strongest(m) {
		return Decision{allowed: true}
	}
	return Decision{sentence: refused(c) + " in permission mode " + m.String() + "; nothing was done. The person can allow it with " +
		Flag + " " + needed(c).String() + "."}
}

// strongest is the strongest class that a mode allows.
func strongest(m Mode) Class {
	switch m {
	case Default:
		return Read
	case AcceptEdits:
		return Write
	case BypassPermissions:
		return Exec
	}
	return 0
}

// needed is the strictest mode that allows c.
func needed(c Class) Mode {
	for _, m := range Modes() {
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
