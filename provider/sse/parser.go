package sse

import (
	"bytes"
	"fmt"
)

// Limits bounds what a peer can make a Parser hold or read. A zero field means the default of the same name.
type Limits struct {
	// Line is the longest line in bytes, without its ending.
	Line int
	// Event is the largest event: its data with the joining line feeds, and its name, in bytes.
	Event int
	// Fields is the largest number of data fields in one event.
	Fields int
	// Body is the largest number of bytes in the whole stream.
	Body int
}

// The default limits. A model answer is far below each of them; a peer that passes one is broken or hostile.
const (
	DefaultLine   = 4 << 20
	DefaultEvent  = 4 << 20
	DefaultFields = 4096
	DefaultBody   = 16 << 20
)

// Bound names one of the Limits.
type Bound string

// The bounds, in the words used for them in error texts.
const (
	BoundLine   Bound = "line bytes"
	BoundEvent  Bound = "event bytes"
	BoundFields Bound = "data fields of one event"
	BoundBody   Bound = "stream bytes"
)

// LimitError reports the bound that a stream passed. The parser gives no event after it.
type LimitError struct {
	Bound Bound
	Max   int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("event stream is larger than the limit of %d %s", e.Max, e.Bound)
}

// Event is one dispatched event.
type Event struct {
	// Name is the value of the last event field; empty when there was none or it was empty, which the format
	// treats alike.
	Name string
	// Data is the data fields joined by line feeds. The event owns the slice.
	Data []byte
	// ID is the last event id of the stream so far. It outlives the event that set it.
	ID string
}

var byteOrderMark = []byte("\ufeff")

// Parser is an incremental event-stream parser. The zero value is not ready; use [New].
// It is not safe for concurrent use.
type Parser struct {
	limits Limits

	line     []byte // the unfinished line, only what earlier chunks brought
	skipLF   bool   // the last byte was a CR: a LF that follows belongs to it
	begun    bool   // the first line is complete, so a byte order mark can no longer come
	consumed int    // bytes fed so far

	name   string
	data   []byte
	fields int // data fields of the event being built; 0 means that there is nothing to dispatch
	id     string

	err error
}

// New returns a parser at the start of a stream.
func New(limits Limits) *Parser {
	return &Parser{limits: Limits{
		Line:   orDefault(limits.Line, DefaultLine),
		Event:  orDefault(limits.Event, DefaultEvent),
		Fields: orDefault(limits.Fields, DefaultFields),
		Body:   orDefault(limits.Body, DefaultBody),
	}}
}

// orDefault is v, or def when v is not a usable bound.
func orDefault(v, def int) int {
	if v <= 0 {
		return def
	}
	return v
}

// Feed reads the next bytes of the stream and appends the events they complete to dst. It keeps no reference to chunk.
//
// The error is nil or a *[LimitError]; events that were complete before the bound was passed are in the result beside it.
// An error is sticky. The end of the stream needs no call: an event that is still open then is dropped, as the format asks.
func (p *Parser) Feed(chunk []byte, dst []Event) ([]Event, error) {
	if p.err != nil {
		return dst, p.err
	}
	// The body bound cuts the chunk rather than refusing it whole, or the events would depend on the chunking.
	rest := chunk[:min(len(chunk), p.limits.Body-p.consumed)]
	over := len(rest) < len(chunk)
	p.consumed += len(rest)

	for len(rest) > 0 && p.err == nil {
		if p.skipLF {
			p.skipLF = false
			if rest[0] == '\n' {
				rest = rest[1:]
				continue
			}
		}
		end := lineEnd(rest)
		if end < 0 {
			p.hold(rest)
			break
		}
		p.skipLF = rest[end] == '\r'
		dst = p.endLine(rest[:end], dst)
		rest = rest[end+1:]
	}
	if over && p.err == nil {
		p.err = &LimitError{Bound: BoundBody, Max: p.limits.Body}
	}
	return dst, p.err
}

// Consumed is the number of bytes taken so far.
func (p *Parser) Consumed() int { return p.consumed }

// lineEnd is the index of the first CR or LF, or -1.
func lineEnd(b []byte) int {
	lf := bytes.IndexByte(b, '\n')
	if lf >= 0 {
		b = b[:lf]
	}
	if cr := bytes.IndexByte(b, '\r'); cr >= 0 {
		return cr
	}
	return lf
}

// hold keeps the bytes of an unfinished line.
func (p *Parser) hold(part []byte) {
	if len(p.line)+len(part) > p.limits.Line {
		p.fail(BoundLine, p.limits.Line)
		return
	}
	p.line = append(p.line, part...)
}

// endLine completes the held line with tail and interprets it.
func (p *Parser) endLine(tail []byte, dst []Event) []Event {
	line := tail
	if len(p.line) > 0 {
		p.hold(tail)
		line = p.line
		p.line = p.line[:0]
	} else if len(tail) > p.limits.Line {
		p.fail(BoundLine, p.limits.Line)
	}
	if p.err != nil {
		return dst
	}
	if !p.begun {
		p.begun = true
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	if len(line) == 0 {
		return p.dispatch(dst)
	}
	p.field(line)
	return dst
}

// field interprets one non-empty line: "name: value", "name:value", "name", or a comment that starts with a colon.
func (p *Parser) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(name) {
	case "data":
		p.addData(value)
	case "event":
		if len(value)+len(p.data) > p.limits.Event {
			p.fail(BoundEvent, p.limits.Event)
			return
		}
		p.name = string(value)
	case "id":
		// An id with a NUL is ignored as a whole, so the earlier one stays.
		if bytes.IndexByte(value, 0) < 0 {
			p.id = string(value)
		}
	}
	// Comments (an empty name), retry and unknown fields say nothing that matters to a stream that is never
	// reconnected.
}

func (p *Parser) addData(value []byte) {
	if p.fields++; p.fields > p.limits.Fields {
		p.fail(BoundFields, p.limits.Fields)
		return
	}
	joint := 0
	if p.fields > 1 {
		joint = 1
	}
	if len(p.data)+joint+len(value)+len(p.name) > p.limits.Event {
		p.fail(BoundEvent, p.limits.Event)
		return
	}
	if joint == 1 {
		p.data = append(p.data, '\n')
	}
	p.data = append(p.data, value...)
}

// dispatch ends the event being built. Without a data field there is no event, and the name does not carry over;
// one empty data field is an event with empty data.
func (p *Parser) dispatch(dst []Event) []Event {
	if p.fields > 0 {
		dst = append(dst, Event{Name: p.name, Data: p.data, ID: p.id})
		p.data = nil
	}
	p.name, p.fields = "", 0
	return dst
}

func (p *Parser) fail(bound Bound, limit int) {
	p.err = &LimitError{Bound: bound, Max: limit}
	p.line, p.data = nil, nil
}
