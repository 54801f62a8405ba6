package provider

import "slices"

// Thinking is how much a model is asked to reason. Each dialect maps the levels to what it has.
type Thinking string

// The closed set of levels; the empty one is [ThinkOff].
const (
	ThinkOff     Thinking = "off"
	ThinkMinimal Thinking = "minimal"
	ThinkLow     Thinking = "low"
	ThinkMedium  Thinking = "medium"
	ThinkHigh    Thinking = "high"
	ThinkXHigh   Thinking = "xhigh"
	ThinkMax     Thinking = "max"
)

// ThinkingLevels returns every level, from the least.
func ThinkingLevels() []Thinking {
	return []Thinking{ThinkOff, ThinkMinimal, ThinkLow, ThinkMedium, ThinkHigh, ThinkXHigh, ThinkMax}
}

// Known reports whether t is one of the levels.
func (t Thinking) Known() bool { return slices.Contains(ThinkingLevels(), t) }
