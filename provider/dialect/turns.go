package dialect

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
)

// Turn is one part of a conversation as a provider may be told it: a [UserTurn], an [AnswerTurn] or a [ResultsTurn].
type Turn interface{ turn() }

// UserTurn is a message of a person, with its origin projected by whoever writes it.
type UserTurn struct{ Message *message.User }

// AnswerTurn is a response of a model. Calls are those that are told, in the order of their blocks; a call that is not among them is a repetition.
type AnswerTurn struct {
	Message *message.Assistant
	// Own says that the same model wrote it in the same dialect: then its signatures are valid, and only then are they told.
	Own   bool
	Calls []Call
}

// Call says under which id the call of a block is told.
type Call struct {
	Block int
	ID    string
}

// CallID is the id that the call of a block is told under; empty for a call that is not told.
func (t AnswerTurn) CallID(block int) string {
	for _, c := range t.Calls {
		if c.Block == block {
			return c.ID
		}
	}
	return ""
}

// ResultsTurn answers every call of the response before it, in the order of the calls.
type ResultsTurn struct{ Results []Result }

// Result is the answer to one call. Message is nil where the conversation has none.
type Result struct {
	ID, Name string
	Message  *message.ToolResult
}

func (UserTurn) turn()    {}
func (AnswerTurn) turn()  {}
func (ResultsTurn) turn() {}

// NoResult is what a model is told of a call that has no result.
const NoResult = "There is no result of this call. Whether it ran, and what it produced, is unknown."

// Arrange puts a stored conversation into the order that every dialect accepts:
//
//   - the results of a response's calls follow it directly, all of them, in the order of the calls; what stood between moves behind them;
//   - a call without a result is answered by one that says so, and a result without a call is left out;
//   - a call that repeats the id of another in the same response is left out; an id that repeats one of an earlier response is told under another;
//   - ids are told as mend makes them; messages of an application are left out.
//
// It is a function of the messages alone: the turns of a conversation that grows keep their values.
func Arrange(messages []message.Message, own func(*message.Assistant) bool, mend func(string) string) []Turn {
	turns := make([]Turn, 0, len(messages))
	taken := make(map[string]bool, len(messages)/2)
	for i := 0; i < len(messages); i++ {
		switch m := messages[i].(type) {
		case *message.User:
			turns = append(turns, UserTurn{m})
		case *message.Assistant:
			calls := told(m, mend, taken)
			turns = append(turns, AnswerTurn{Message: m, Own: own(m), Calls: calls})
			if len(calls) > 0 {
				turns = append(turns, ResultsTurn{answers(m, calls, messages[i+1:])})
			}
		case *message.ToolResult, *message.Custom:
			// A result was told with its response. What an application's message should tell a model is projected to a user message before.
		}
	}
	return turns
}

// told chooses the ids that the calls of a response are told under, and takes them.
func told(m *message.Assistant, mend func(string) string, taken map[string]bool) []Call {
	var calls []Call
	for i, b := range m.Content {
		c, ok := b.(message.ToolCall)
		if !ok || slices.ContainsFunc(calls, func(earlier Call) bool { return storedID(m, earlier) == c.ID }) {
			continue
		}
		id := mend(c.ID)
		for n := 2; taken[id]; n++ {
			id = mend(c.ID + "_" + strconv.Itoa(n))
		}
		taken[id] = true
		calls = append(calls, Call{i, id})
	}
	return calls
}

func storedID(m *message.Assistant, c Call) string {
	call, _ := m.Content[c.Block].(message.ToolCall)
	return call.ID
}

// answers gives each call the first result for its stored id that comes before the next response.
func answers(m *message.Assistant, calls []Call, later []message.Message) []Result {
	results := make([]Result, len(calls))
	for i, c := range calls {
		call, _ := m.Content[c.Block].(message.ToolCall)
		results[i] = Result{ID: c.ID, Name: call.Name}
	}
	missing := len(calls)
	for _, l := range later {
		if _, next := l.(*message.Assistant); next || missing == 0 {
			break
		}
		r, ok := l.(*message.ToolResult)
		if !ok {
			continue
		}
		i := slices.IndexFunc(calls, func(c Call) bool { return storedID(m, c) == r.ToolCallID })
		if i >= 0 && results[i].Message == nil {
			results[i].Message = r
			missing--
		}
	}
	return results
}

// SameModel says which answers keep their signatures: those of the same model in the same dialect. The name of the route does not matter, since the same
// model can be reached by several.
func SameModel(api string, model provider.Model) func(*message.Assistant) bool {
	return func(m *message.Assistant) bool { return m.API == api && m.Model == model.ModelID }
}

// Mend returns a function that makes ids of at most maxLen bytes that are all allowed: an id that is one already stays, any other becomes its digest.
func Mend(maxLen int, allowed func(byte) bool) func(string) string {
	return func(id string) string {
		if id != "" && len(id) <= maxLen && !slices.ContainsFunc([]byte(id), func(c byte) bool { return !allowed(c) }) {
			return id
		}
		sum := sha256.Sum256([]byte(id))
		return "call_" + hex.EncodeToString(sum[:16])
	}
}

// Printable allows every visible character of ASCII.
func Printable(c byte) bool { return c > ' ' && c <= '~' }

// Word allows letters, digits, _ and -.
func Word(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// maxToolName is the longest tool name that every dialect takes, in bytes.
const maxToolName = 64

// ToolName is the name with every character outside the common alphabet replaced, for a model may invent any name.
func ToolName(name string) string {
	if name == "" {
		return Unnamed
	}
	mended := make([]byte, 0, len(name))
	for _, r := range name {
		if r < 0x80 && Word(byte(r)) {
			mended = append(mended, byte(r))
		} else {
			mended = append(mended, '_')
		}
	}
	return string(mended[:min(len(mended), maxToolName)])
}

// sameTurn reports whether two turns are told alike: the same values in memory, under the same ids.
func sameTurn(a, b Turn) bool {
	switch a := a.(type) {
	case UserTurn:
		b, ok := b.(UserTurn)
		return ok && a.Message == b.Message
	case AnswerTurn:
		b, ok := b.(AnswerTurn)
		return ok && a.Message == b.Message && a.Own == b.Own && slices.Equal(a.Calls, b.Calls)
	case ResultsTurn:
		b, ok := b.(ResultsTurn)
		return ok && slices.Equal(a.Results, b.Results)
	}
	return false
}
