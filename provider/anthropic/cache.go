package anthropic

import (
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/provider/dialect"
)

// Prompt caching is asked for in four places at most: behind the tools and behind the system prompt for an hour, since they do not change in a session,
// and behind the last two turns of a person for the five minutes of the default. The provider reads the longest prefix that it knows, so the mark of
// the turn before last is what the next request finds, and the mark of the last is what it leaves for the one after.

// markLong marks the block that is being written, for an hour. Marks of an hour must stand before those of five minutes.
func markLong(w *jsonv.Writer) {
	w.Name("cache_control")
	w.Begin()
	w.Str("type", "ephemeral")
	w.Str("ttl", "1h")
	w.End()
}

// shortMark goes before the closing brace of a block.
const shortMark = `,"cache_control":{"type":"ephemeral"}`

// markedTurns is how many turns of a person are marked.
const markedTurns = 2

// markTurns returns the body with marks on the last block of the last turns of a person. It copies: what is remembered of a request has no marks, so that
// the next one begins with the same bytes.
func markTurns(body []byte, told dialect.Told) []byte {
	var at []int // where each message of a person ends, but for its brackets
	side := ""
	for i, open := range told.Opens {
		switch {
		case open == person && open == side:
			at[len(at)-1] = told.Ends[i]
		case open == person:
			at = append(at, told.Ends[i])
		}
		side = open
	}
	at = at[max(0, len(at)-markedTurns):]
	out := make([]byte, 0, len(body)+len(at)*len(shortMark)+256)
	from := 0
	for _, end := range at {
		out = append(append(out, body[from:end-1]...), shortMark...) // before the brace that closes the last block
		from = end - 1
	}
	return append(out, body[from:]...)
}
