package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/loom-run/loom/core/corrupt"
)

// Names of the protocol around the bodies.
const (
	// CursorHeader of a frame stream's answer tells the position it starts at,
	// so that a client that saw no frame yet can come back without a gap.
	CursorHeader = "Loom-Cursor"
	// EventStream is the media type of a frame stream.
	EventStream = "text/event-stream"
	// HeartbeatMs is how often a quiet stream sends a heartbeat. A client that
	// got no byte for three of them may take the link for dead.
	HeartbeatMs = 15_000
)

// Heartbeat is a comment: bytes that prove the link and carry no event.
const Heartbeat = ":\n\n"

// AppendEvent appends the frame as one Server-Sent Event. Its id is the cursor,
// on replay frames only, so that an event source's own memory of the last id is
// a position in the replayable part.
func AppendEvent(dst []byte, f Frame) []byte {
	if f.Delivery == Replay {
		dst = append(dst, "id: "...)
		dst = append(f.Cursor.Append(dst), '\n')
	}
	dst = append(dst, "event: "...)
	dst = append(dst, f.Kind()...)
	dst = append(dst, "\ndata: "...)
	dst = f.Append(dst)
	return append(dst, "\n\n"...)
}

// EventReader reads frames from an event stream. Lines end in LF or CRLF.
type EventReader struct {
	r    *bufio.Reader
	line []byte
	data []byte
}

// maxLine is the longest line that is read: a frame and the field's name.
const maxLine = MaxFrame + 16

// NewEventReader reads from r.
func NewEventReader(r io.Reader) *EventReader {
	return &EventReader{r: bufio.NewReaderSize(r, 16<<10)}
}

// Next returns the next frame. The error is [io.EOF] between events,
// [io.ErrUnexpectedEOF] inside one, a [*corrupt.Report] for an event that is
// not a frame, or what the reader returned. After an error the stream is over.
func (e *EventReader) Next() (Frame, error) {
	var event, lastID string
	started, hasData := false, false
	e.data = e.data[:0]
	if cap(e.data) > 1<<20 {
		e.data = nil // one huge frame must not be paid for until the end
	}
	for {
		line, err := e.readLine()
		if err != nil {
			if errors.Is(err, io.EOF) && (started || len(line) > 0) {
				err = io.ErrUnexpectedEOF
			}
			return Frame{}, err
		}
		if len(line) == 0 {
			if hasData {
				return e.frame(event, lastID)
			}
			event, lastID, started = "", "", false
			continue
		}
		if line[0] == ':' {
			continue
		}
		started = true
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			event = clip(value)
		case "id":
			lastID = clip(value)
		case "data":
			if hasData {
				e.data = append(e.data, '\n')
			}
			if len(e.data)+len(value) > MaxFrame {
				return Frame{}, tooLong()
			}
			e.data = append(e.data, value...)
			hasData = true
		}
	}
}

// frame decodes the collected data and checks that the event's own fields say
// the same.
func (e *EventReader) frame(event, lastID string) (Frame, error) {
	f, err := DecodeFrame(e.data)
	if err != nil {
		return Frame{}, err
	}
	cursor := ""
	if f.Delivery == Replay {
		cursor = f.Cursor.String()
	}
	if event != string(f.Kind()) || lastID != cursor {
		return Frame{}, corrupt.New("wire.EventReader", "event", "the kind and the cursor of the frame inside",
			event+" "+lastID)
	}
	return f, nil
}

func (e *EventReader) readLine() ([]byte, error) {
	e.line = e.line[:0]
	if cap(e.line) > 1<<20 {
		e.line = nil
	}
	for {
		part, err := e.r.ReadSlice('\n')
		if len(e.line)+len(part) > maxLine {
			return nil, tooLong()
		}
		if err == nil && len(e.line) == 0 {
			return trimEnd(part), nil
		}
		e.line = append(e.line, part...)
		switch {
		case err == nil:
			return trimEnd(e.line), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return e.line, err
		}
	}
}

func trimEnd(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}

// clip keeps a short field; a longer one can equal nothing that a frame has.
func clip(b []byte) string { return string(b[:min(len(b), MaxWord+1)]) }

func tooLong() error {
	return corrupt.New("wire.EventReader", "event", "at most MaxFrame bytes", "more")
}
