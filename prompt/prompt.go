// Package prompt renders the system prompt.
//
// # Purpose
//
// One text for all strands of a session: who the agent is, how it works, where it
// stands.
//
// # Key types
//
// [Environment], [System].
//
// # Relationships
//
// A leaf.
//
// # Traffic
//
// None.
//
// # Invariants
//
// The text depends on nothing that changes while a session lives: no clock, no
// counters, no state of the repository. Providers cache by prefix, and a changing
// one is paid for again on every request.
package prompt

import (
	_ "embed"
	"strings"
)

//go:embed system.md
var system string

// Environment is what the agent is told about where it stands.
type Environment struct {
	Workspace string // absolute path
	Platform  string // operating system and architecture
	Mode      string // the permission mode's word
}

// System returns the whole system prompt.
func System(e Environment) string {
	var b strings.Builder
	b.WriteString(system)
	b.WriteString("\nEnvironment:\n")
	for _, line := range [][2]string{
		{"working directory", e.Workspace}, {"platform", e.Platform}, {"permission mode", e.Mode},
	} {
		if line[1] != "" {
			b.WriteString("- " + line[0] + ": " + oneLine(line[1]) + "\n")
		}
	}
	return b.String()
}

// oneLine keeps a hostile directory name from starting a section of its own.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}
