// Package summary decides what is summarised, what is kept, and what is asked of
// whoever writes the summary.
//
// # Purpose
//
// A conversation that no longer fits its model's window is cut in two: the newer
// part is kept as it is, the older one becomes a text. How large a context is,
// where it may be cut and how the request for the text reads are decided here, so
// that the same rules hold for a compaction at the threshold, after an overflow and
// on request, and for a branch that is left.
//
// # Key types
//
// [Context] is a branch as its model is shown it; [Context.Tokens] its size and
// [Context.Prepare] the cut. [Next] is the next request to a model that writes, [Read] its
// answer. [Notes] is the text for which no model is asked.
//
// # Relationships
//
// Imports core, machine (whose preparations it makes and reads) and
// session/projection.
//
// # Traffic
//
// None: what it makes is committed and sent by others.
//
// # Invariants
//
// A cut never stands between a call and its result. What is kept, is kept verbatim.
// A request is bounded by the window of the model that it goes to, and the requests
// of one summary by [MaxRequests]; what is left out for that says so. Text of the
// conversation cannot end the quotation that it stands in.
package summary

import (
	"slices"
	"unicode/utf8"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/session/projection"
)

// Context is what a model is shown of a branch.
type Context struct {
	Previous *string           // the summary it starts with; nil when nothing was compacted yet
	Carried  []message.Message // what that compaction kept
	Since    []message.Message // what came after
	Fixed    int64             // tokens of what is sent beside messages: system prompt, tools
}

// Of reads the context of a branch, newest entry first and cut at the newest
// compaction.
func Of(newestFirst []entry.Entry, p projection.Policy) Context {
	var c Context
	if n := len(newestFirst); n > 0 {
		if head, ok := newestFirst[n-1].Body.(entry.Compaction); ok {
			c.Previous, c.Carried = &head.Summary, head.RetainedTail
			newestFirst = newestFirst[:n-1]
		}
	}
	c.Since = projection.Messages(newestFirst, p)
	return c
}

// Tokens is the size of the context: what the provider reported for the newest
// response since the last compaction, and an estimate of what came after it; an
// estimate of everything where nothing was reported. A report from before the
// compaction is about what is no longer there.
func (c Context) Tokens() int64 {
	since := int64(0)
	for _, m := range slices.Backward(c.Since) {
		if a, ok := m.(*message.Assistant); ok {
			if n := reported(a.Usage); n > 0 {
				return n + since
			}
		}
		since += Estimate(m)
	}
	n := c.Fixed + since + estimateAll(c.Carried)
	if c.Previous != nil {
		n += tokens(utf8.RuneCountInString(*c.Previous))
	}
	return n
}

// reported is the whole of a request and its answer; 0 when it is not known.
func reported(u usage.Usage) int64 {
	if coverage, ok := u.Evidence.Tokens(); !ok || coverage != usage.Complete {
		return 0
	}
	if u.TotalTokens > 0 {
		return u.TotalTokens
	}
	return u.Input + u.Output + u.CacheRead + u.CacheWrite
}

// imageChars is what an image counts as.
const imageChars = 6000

// Estimate is about how many tokens a message has: a quarter of its characters.
func Estimate(m message.Message) int64 {
	n := 0
	switch m := m.(type) {
	case *message.User:
		for _, b := range m.Content {
			n += chars(b)
		}
	case *message.Assistant:
		for _, b := range m.Content {
			n += chars(b)
		}
	case *message.ToolResult:
		for _, b := range m.Content {
			n += chars(b)
		}
	case *message.Custom:
		n = utf8.RuneCountInString(m.Payload.String())
	}
	return tokens(n)
}

func chars(b message.Block) int {
	switch b := b.(type) {
	case message.Text:
		return utf8.RuneCountInString(b.Text)
	case message.Thinking:
		return utf8.RuneCountInString(b.Thinking)
	case message.ToolCall:
		return len(b.Name) + utf8.RuneCountInString(b.Arguments.String())
	case message.Image:
		return imageChars
	}
	return 0
}

// EstimateText is about how many tokens a text has.
func EstimateText(s string) int64 { return tokens(utf8.RuneCountInString(s)) }

func tokens(chars int) int64 { return int64(chars+3) / 4 }

func estimateAll(list []message.Message) (n int64) {
	for _, m := range list {
		n += Estimate(m)
	}
	return n
}

// Prepare cuts the context for a model's window (0: unknown). Nil: everything is
// recent enough to be kept, and there is nothing to summarise.
func (c Context) Prepare(window int64, settings machine.CompactionSettings) *machine.CompactionPreparation {
	list := slices.Concat(c.Carried, c.Since)
	cut := cutPoint(list, window, settings)
	if cut == 0 {
		return nil
	}
	return &machine.CompactionPreparation{
		MessagesToSummarize: list[:cut], RetainedTail: list[cut:], TokensBefore: c.Tokens(), PreviousSummary: c.Previous, Settings: settings,
	}
}

// cutPoint is the index of the first message that is kept.
func cutPoint(list []message.Message, window int64, settings machine.CompactionSettings) int {
	keep := settings.For(window).KeepRecentTokens
	cut, kept := len(list), int64(0)
	for cut > 0 {
		next := kept + Estimate(list[cut-1])
		if next > keep {
			break
		}
		cut, kept = cut-1, next
	}
	allowed := cuts(list)
	for !allowed[cut] {
		cut++
	}
	if cut < len(list) || len(list) == 0 {
		return cut
	}
	// Nothing would be kept: the newest prompt, or the newest call with its results, is
	// larger than what is to be kept. It is what the next response is about, so it stays
	// as long as it leaves half of the room.
	newest := len(list) - 1
	for newest > 0 && !allowed[newest] {
		newest--
	}
	room := 2 * keep
	if limit := settings.Limit(window); limit > 0 {
		room = limit / 2
	}
	if estimateAll(list[newest:]) <= room {
		return newest
	}
	return cut
}

// cuts says for each index, the end included, whether the list may be cut there:
// no result after it answers a call before it, and the rest starts with no result.
func cuts(list []message.Message) []bool {
	allowed := make([]bool, len(list)+1)
	for i := range allowed {
		allowed[i] = true
	}
	calls := make(map[string]int) // by id: the newest response that makes the call
	for i, m := range list {
		switch m := m.(type) {
		case *message.Assistant:
			made, _ := m.ToolCalls()
			for _, c := range made {
				calls[c.ID] = i
			}
		case *message.ToolResult:
			from, ok := calls[m.ToolCallID]
			if !ok {
				from = i - 1
			}
			for j := from + 1; j <= i; j++ {
				allowed[j] = false
			}
		case *message.User, *message.Custom:
		}
	}
	return allowed
}
