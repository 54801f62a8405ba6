package openaichat

import (
	"bytes"
	"slices"
	"sync"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
)

// What is remembered of earlier requests. A small request is encoded faster than it is found; the rest bounds memory.
const (
	minRemembered = 64 << 10
	maxRemembered = 32 << 20 // in all
	maxHistories  = 4
)

// encoding is a request body up to the end of its messages, without the closing brackets, and where each message ends in it. A conversation grows at
// its end, so the next request shares all but a few messages and only those are encoded.
type encoding struct {
	head     int // length of what precedes the messages
	messages []message.Message
	ends     []int // ends[i] is the length after messages[:i+1], or -1 while pictures wait for the end of their batch
	body     []byte
	waiting  []picture
}

// newEncoding encodes a request, from where it departs from an earlier one; earlier may be nil.
func newEncoding(req provider.Request, earlier *encoding) *encoding {
	e := &encoding{messages: slices.Clone(req.Messages)}
	head := encodeHead(nil, req)
	e.body = make([]byte, 0, len(head)+sizeHint(req))
	e.head = len(head)
	if shared, end := earlier.shared(head, req.Messages); shared > 0 {
		e.ends = append(e.ends, earlier.ends[:shared]...)
		e.body = append(e.body, earlier.body[:end]...)
	} else {
		e.body = append(e.body, head...)
	}
	e.extend()
	return e
}

// shared is how many of the messages the encoding already holds, and the length of their bytes. A message is the same when it is the same value in
// memory.
func (e *encoding) shared(head []byte, messages []message.Message) (n, end int) {
	if e == nil || !bytes.Equal(e.body[:e.head], head) {
		return 0, 0
	}
	for n < len(messages) && n < len(e.messages) && messages[n] == e.messages[n] {
		n++
	}
	for n > 0 && e.ends[n-1] < 0 {
		n--
	}
	if n == 0 {
		return 0, 0
	}
	return n, e.ends[n-1]
}

// extend encodes the messages that have no end yet.
func (e *encoding) extend() {
	before := len(e.body)
	if e.body[before-1] != '[' {
		e.body = append(e.body, ',')
	}
	begun := len(e.body)
	w := jsonv.NewWriter(e.body)
	for _, m := range e.messages[len(e.ends):] {
		e.waiting = encodeMessage(w, m, e.waiting)
		end := len(w.Bytes())
		switch {
		case len(e.waiting) > 0:
			end = -1
		case end == begun:
			end = before // nothing was written, so the comma is none either
		}
		e.ends = append(e.ends, end)
	}
	if e.body = w.Bytes(); len(e.body) == begun {
		e.body = e.body[:before]
	}
}

// close is the finished request body. It may share memory with the encoding, whose own bytes it leaves as they are.
func (e *encoding) close() []byte {
	body := e.body
	if len(e.waiting) > 0 {
		w := jsonv.NewWriter(append(body, ','))
		encodePictures(w, e.waiting)
		body = w.Bytes()
	}
	return append(body, "]}"...)
}

// history remembers the encodings of the last large requests, the newest first. The zero history is empty and ready.
type history struct {
	mu   sync.Mutex
	list []*encoding
}

// encode is the body of a request.
func (h *history) encode(req provider.Request) []byte {
	e := newEncoding(req, h.longest(req))
	body := e.close()
	if len(body) >= minRemembered && len(body) <= maxRemembered {
		h.remember(e)
	}
	return body
}

// longest is the encoding that shares most with the request; nil when none does.
func (h *history) longest(req provider.Request) *encoding {
	h.mu.Lock()
	defer h.mu.Unlock()
	var best *encoding
	most := 0
	for _, e := range h.list {
		n := 0
		for n < len(req.Messages) && n < len(e.messages) && req.Messages[n] == e.messages[n] {
			n++
		}
		if n > most {
			best, most = e, n
		}
	}
	return best
}

// remember keeps an encoding, in the place of the one that it continues or of the oldest.
func (h *history) remember(e *encoding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = slices.DeleteFunc(h.list, func(old *encoding) bool {
		return len(old.messages) > 0 && len(e.messages) > 0 && old.messages[0] == e.messages[0]
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
