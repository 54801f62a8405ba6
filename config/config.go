// Package config reads loom.toml.
//
// # Purpose
//
// One file says which models there are, who plays which role, where keys come from, how patient runs are and which rules the person has. It is read
// strictly: what is not known is refused with a sentence that names the table, since a misspelt limit that is passed over is no limit. A workspace may
// have a file of rules of its own.
//
// # Key types
//
// [Decode] yields a [File]: plain structs, one for each table, which the rooms that they are about receive. [DecodeProject] reads the
// file of a workspace. [Error] is a refusal.
//
// # Relationships
//
// Imports core/usage for exact prices, core/jsonv for their literals, machine/automation for what rules and schedules may say, and go-toml. Imported by provider/catalogue and node.
//
// # Traffic
//
// None: whoever calls reads the file.
//
// # Invariants
//
//   - Decoding is total: a File in which every name that is used exists and every number is in its range, or an Error.
//   - No value of the file is in an error, only names of tables and keys: a key may have been pasted where it does not belong.
//   - A File holds no secret. It names variables, and commands that print one.
package config

import (
	"cmp"

	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/machine/automation"
)

// File is loom.toml.
type File struct {
	Models    []Model // sorted by name
	Roles     Roles
	Profiles  map[string]Roles
	Secrets   map[string]Secret // by the name of the variable that they stand in for
	Retry     Retry
	Limits    Limits
	Telemetry Telemetry

	Permissions Permissions
	Redaction   Redaction
	Automation  automation.Settings // [[rule]], [[schedule]], [schedules]
}

// Dialect is how a server is spoken to.
type Dialect string

// The dialects.
const (
	Anthropic       Dialect = "anthropic"
	OpenAI          Dialect = "openai" // chat completions
	OpenAIResponses Dialect = "openai-responses"
	Gemini          Dialect = "gemini"
)

// Dialects returns every dialect.
func Dialects() []Dialect { return []Dialect{Anthropic, OpenAI, OpenAIResponses, Gemini} }

// Model is [models.NAME]. The name is the durable half of a model's identity.
type Model struct {
	Name          string
	Dialect       Dialect
	BaseURL       string // empty: the dialect's own
	KeyEnv        string // empty: the server needs no key
	ModelID       string
	ContextWindow int64
	MaxOutput     int64
	Thinking      string // off, low, medium, high; empty for off
	Unthinking    bool   // thinking = "unsupported"
	Vision        *bool  // nil: not said
	MaxImages     int    // 0: not said
	Pricing       *Pricing
}

// Pricing is [models.NAME.pricing]: US dollars for a million tokens.
type Pricing struct {
	Rates Rates
	Tiers []Tier
}

// Rates are prices by bucket; what is nil was not said.
type Rates struct {
	Input, Output                       usage.Amount
	CacheRead, CacheWrite, CacheWrite1h *usage.Amount
}

// Tier is the rates of requests with more input than Above.
type Tier struct {
	Above int64
	Rates Rates
}

// Role is what a model is used for.
type Role string

// The roles.
const (
	Main      Role = "main"
	Subagent  Role = "subagent"
	Plan      Role = "plan"
	Summarize Role = "summarize"
	Vision    Role = "vision"
	Advisor   Role = "advisor"
)

// AllRoles returns every role.
func AllRoles() []Role { return []Role{Main, Subagent, Plan, Summarize, Vision, Advisor} }

// Roles names models for roles, best first.
type Roles map[Role][]string

// Secret is how a value is got that must not stand in a file.
type Secret struct {
	Command []string // argv; what it prints is the value
}

// Retry is [retry]. What is nil was not said.
type Retry struct {
	Attempts  *int64 // how often a step is tried
	Unbounded bool   // attempts = "unbounded"

	BaseDelayMs, MaxDelayMs *int64
}

// Limits is [limits]: bounds on the phases of a request, in milliseconds. What is nil was not said.
type Limits struct{ ConnectMs, FirstByteMs, IdleMs, TotalMs *int64 }

// Permissions is [permissions]: rules about the calls of tools, as they are written.
type Permissions struct{ Allow, Ask, Deny []string }

// Redaction is [redaction]: what results of tools do not show.
type Redaction struct {
	Shapes    *bool    // also what has the form of a known kind of secret; nil was not said
	Variables []string // also the values of these variables of the environment
}

// Telemetry is [telemetry].
type Telemetry struct {
	Endpoint string // of a collector that takes OTLP over HTTP; empty: none
}

// Error is a file that is refused.
type Error struct {
	File    string // its name; empty for loom.toml
	Table   string // empty for the file as a whole
	Message string // what is wrong and what would be right
}

func (e *Error) Error() string {
	file := cmp.Or(e.File, "loom.toml")
	if e.Table == "" {
		return file + " " + e.Message
	}
	return file + ", [" + e.Table + "]: " + e.Message
}
