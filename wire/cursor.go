package wire

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/loom-run/loom/core/corrupt"
)

// Cursor is a position in the replayable part of a session, right behind one
// frame. The zero Cursor is absent as a frame's position and "the beginning" as
// a reader's.
type Cursor struct {
	Generation int64 // raised by a rewrite; cursors of an older one are void
	Seq        int64 // the storage seq of the row; 0 is before the first
	Ordinal    int   // which of the frames of that row
}

// Compare orders cursors: by generation, then seq, then ordinal.
func (c Cursor) Compare(o Cursor) int {
	return cmp.Or(
		cmp.Compare(c.Generation, o.Generation),
		cmp.Compare(c.Seq, o.Seq),
		cmp.Compare(c.Ordinal, o.Ordinal),
	)
}

// IsZero reports whether the cursor is absent.
func (c Cursor) IsZero() bool { return c == Cursor{} }

// String returns the wire form, generation:seq:ordinal in decimal.
func (c Cursor) String() string { return string(c.Append(nil)) }

// Append appends the wire form.
func (c Cursor) Append(dst []byte) []byte {
	dst = strconv.AppendInt(dst, c.Generation, 10)
	dst = strconv.AppendInt(append(dst, ':'), c.Seq, 10)
	return strconv.AppendInt(append(dst, ':'), int64(c.Ordinal), 10)
}

// maxOrdinal keeps an ordinal inside an int everywhere.
const maxOrdinal = 1<<31 - 1

// ParseCursor reads the wire form and nothing else: three decimal numbers
// without sign or leading zeros. The error is a [*corrupt.Report].
func ParseCursor(s string) (Cursor, error) {
	generation, rest, ok1 := strings.Cut(s, ":")
	seq, ordinal, ok2 := strings.Cut(rest, ":")
	g, ok3 := decimal(generation)
	q, ok4 := decimal(seq)
	o, ok5 := decimal(ordinal)
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || o > maxOrdinal {
		return Cursor{}, corrupt.New("wire.ParseCursor", "cursor", "generation:seq:ordinal in decimal", s)
	}
	return Cursor{Generation: g, Seq: q, Ordinal: int(o)}, nil
}

func decimal(s string) (int64, bool) {
	if s == "" || len(s) > 19 || (s[0] == '0' && len(s) > 1) {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// Position is where a reader of replay frames stands: right behind the newest one
// that it took. The zero Position is the beginning of whatever generation comes
// first. The law that it keeps is in docs/formats/cursor.md.
type Position struct{ cursor Cursor }

// At is the position of a cursor that a frame or an answer carried.
func At(c Cursor) Position { return Position{c} }

// Cursor is what a reader comes back with.
func (p Position) Cursor() Cursor { return p.cursor }

// Taken says what becomes of a frame at a position.
type Taken uint8

const (
	// Passing is a frame that is not replayed: it moves nothing.
	Passing Taken = iota
	// Next is the next replay frame; the position is behind it now.
	Next
	// Seen is a replay frame at or before the position.
	Seen
	// Elsewhere is a replay frame of another generation: this reader starts again or
	// reads something else.
	Elsewhere
)

// Take decides about a frame, and moves behind it when it is the next one.
func (p *Position) Take(f Frame) Taken {
	switch {
	case f.Delivery != Replay:
		return Passing
	case !p.cursor.IsZero() && f.Cursor.Generation != p.cursor.Generation:
		return Elsewhere
	case f.Cursor.Compare(p.cursor) <= 0:
		return Seen
	}
	p.cursor = f.Cursor
	return Next
}

// From is where a subscription or a page of history starts. The zero From is
// [FromHead].
type From struct {
	place  place
	cursor Cursor
}

type place uint8

const (
	atHead place = iota
	atStart
	afterCursor
)

// FromHead starts behind all that is committed when the request is handled.
func FromHead() From { return From{} }

// FromStart starts before the first row.
func FromStart() From { return From{place: atStart} }

// FromCursor starts behind c, which a frame or a receipt of the same session
// carried.
func FromCursor(c Cursor) From { return From{place: afterCursor, cursor: c} }

// Cursor returns the position for a [FromCursor].
func (f From) Cursor() (Cursor, bool) { return f.cursor, f.place == afterCursor }

// IsHead reports whether f is [FromHead].
func (f From) IsHead() bool { return f.place == atHead }

// String returns the query form: head, start or a cursor.
func (f From) String() string {
	switch f.place {
	case atStart:
		return "start"
	case afterCursor:
		return f.cursor.String()
	case atHead:
	}
	return "head"
}

// ParseFrom reads the query form; empty is [FromHead].
func ParseFrom(s string) (From, error) {
	switch s {
	case "", "head":
		return FromHead(), nil
	case "start":
		return FromStart(), nil
	}
	c, err := ParseCursor(s)
	if err != nil {
		return From{}, err
	}
	return FromCursor(c), nil
}
