package dialect

import (
	"bytes"
	"slices"
	"sync"

	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
)

// Grammar is how one dialect writes a request: a head, the turns of the conversation, a tail. The turns come last but for what differs from request to
// request, so that the next request of a conversation begins with the same bytes.
type Grammar struct {
	// API is the dialect's name in stored messages.
	API string
	// MendID makes a stored call id one that the dialect accepts.
	MendID func(string) string
	// Head writes what precedes the turns, with the bracket that opens them.
	Head func(provider.Request) []byte
	// Turn appends a turn to a list that is not closed. open is the state after the turn before, empty at the start; the result is the state after this one.
	// A turn that has nothing to tell leaves both as they are.
	Turn func(dst []byte, open string, t Turn) ([]byte, string)
	// Tail closes the list and the request. It may append to the body and must leave what is there as it is.
	Tail func(body []byte, open string, told Told) []byte
}

// Told is what a tail may want to know about the turns.
type Told struct {
	Request provider.Request
	Head    int // length of the head
	Turns   []Turn
	Ends    []int    // Ends[i] is the length of the body after Turns[:i+1]
	Opens   []string // Opens[i] is the state there
}

// mark is where a turn ends.
type mark struct {
	end  int
	open string
}

// Encoding is a request body up to the end of its turns, and where each of them ends in it. A conversation grows at its end, so the next request shares
// all but a few turns and only those are written. An Encoding does not change once it is made.
type Encoding struct {
	grammar *Grammar
	req     provider.Request
	head    int
	turns   []Turn
	ends    []mark
	body    []byte
}

// Encode writes the body of a request.
func (g *Grammar) Encode(req provider.Request) []byte { return g.Begin(req, nil).Body() }

// Begin writes a request, from where it departs from an earlier one; earlier may be nil.
func (g *Grammar) Begin(req provider.Request, earlier *Encoding) *Encoding {
	e := &Encoding{
		grammar: g, req: req,
		turns: Arrange(req.Messages, SameModel(g.API, req.Model), g.MendID),
	}
	head := g.Head(req)
	e.head = len(head)
	e.body = make([]byte, 0, len(head)+sizeHint(req))
	e.ends = make([]mark, 0, len(e.turns))
	open := ""
	if shared := earlier.shared(head, e.turns); shared > 0 {
		e.ends = append(e.ends, earlier.ends[:shared]...)
		last := earlier.ends[shared-1]
		e.body, open = append(e.body, earlier.body[:last.end]...), last.open
	} else {
		e.body = append(e.body, head...)
	}
	for _, t := range e.turns[len(e.ends):] {
		e.body, open = g.Turn(e.body, open, t)
		e.ends = append(e.ends, mark{len(e.body), open})
	}
	return e
}

// shared is how many of the turns the encoding already holds.
func (e *Encoding) shared(head []byte, turns []Turn) int {
	if e == nil || !bytes.Equal(e.body[:e.head], head) {
		return 0
	}
	n := 0
	for n < len(turns) && n < len(e.turns) && sameTurn(turns[n], e.turns[n]) {
		n++
	}
	return n
}

// Prefix is the body up to the end of its turns: what the next request of the conversation begins with. It must not be written to.
func (e *Encoding) Prefix() []byte { return e.body }

// Body is the finished request body, a copy.
func (e *Encoding) Body() []byte { return e.finish(slices.Clip(e.body)) }

// finish closes a body, which is the encoding's own or a copy of it.
func (e *Encoding) finish(body []byte) []byte {
	told := Told{Request: e.req, Head: e.head, Turns: e.turns, Ends: make([]int, len(e.ends)), Opens: make([]string, len(e.ends))}
	open := ""
	for i, m := range e.ends {
		told.Ends[i], told.Opens[i], open = m.end, m.open, m.open
	}
	return e.grammar.Tail(body, open, told)
}

// Separate appends the comma that a next element of a list needs.
func Separate(dst []byte) []byte {
	if n := len(dst); n > 0 && dst[n-1] != '[' && dst[n-1] != '{' && dst[n-1] != ':' {
		return append(dst, ',')
	}
	return dst
}

// What is remembered of earlier requests. A small request is encoded faster than it is found; the rest bounds memory.
const (
	minRemembered = 64 << 10
	maxRemembered = 32 << 20 // in all
	maxHistories  = 4
)

// History remembers the encodings of the last large requests, the newest first. The zero History is empty and ready.
type History struct {
	mu   sync.Mutex
	list []*Encoding
}

// Encode is the body of a request.
func (h *History) Encode(g *Grammar, req provider.Request) []byte {
	e := g.Begin(req, h.longest(req))
	body := e.finish(e.body) // nobody else has seen the encoding yet
	if len(body) >= minRemembered && len(body) <= maxRemembered {
		h.remember(e)
	}
	return body
}

// longest is the encoding that shares most with the request; nil when none does.
func (h *History) longest(req provider.Request) *Encoding {
	h.mu.Lock()
	defer h.mu.Unlock()
	var best *Encoding
	most := 0
	for _, e := range h.list {
		n := 0
		for n < len(req.Messages) && n < len(e.req.Messages) && req.Messages[n] == e.req.Messages[n] {
			n++
		}
		if n > most {
			best, most = e, n
		}
	}
	return best
}

// remember keeps an encoding, in the place of the one that it continues or of the oldest.
func (h *History) remember(e *Encoding) {
	e.req.Messages = slices.Clone(e.req.Messages) // the caller's list may be written to
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = slices.DeleteFunc(h.list, func(old *Encoding) bool {
		return len(old.req.Messages) > 0 && len(e.req.Messages) > 0 && old.req.Messages[0] == e.req.Messages[0]
	})
	h.list = slices.Insert(h.list, 0, e)
	size := 0
	for i, kept := range h.list {
		if size += len(kept.body); size > maxRemembered || i == maxHistories {
			h.list = slices.Delete(h.list, i, len(h.list))
			return
		}
	}
}

// sizeHint estimates the body, so that a large one is not copied again and again while it grows.
func sizeHint(req provider.Request) int {
	n := 4096 + len(req.System) + 1024*len(req.Tools)
	for _, m := range req.Messages {
		n += 128
		switch m := m.(type) {
		case *message.User:
			n += contentSize(m.Content)
		case *message.Assistant:
			n += contentSize(m.Content)
		case *message.ToolResult:
			n += contentSize(m.Content)
		case *message.Custom:
		}
	}
	return n + n/16 // escapes
}

func contentSize[B message.Block](blocks []B) int {
	n := 0
	for _, b := range blocks {
		switch b := any(b).(type) {
		case message.Text:
			n += len(b.Text)
		case message.Image:
			n += len(b.Data)
		case message.Thinking:
			n += len(b.Thinking)
			if b.Signature != nil {
				n += len(*b.Signature)
			}
		case message.ToolCall:
			n += 256
		}
	}
	return n
}
