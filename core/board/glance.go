package board

import (
	"strings"

	"github.com/clipperhouse/uax29/v2/graphemes"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
)

// Bounds of a glance, in bytes.
const (
	MaxTitle   = 64
	MaxSummary = 96
)

// Glance is what an operator reads of a strand: a title and one line of activity.
// A reader drops it when its operation is no longer the strand's current one.
type Glance struct {
	Operation id.OpID
	Title     string
	Summary   string // may be empty
	At        int64  // Unix ms
	// Tokens is the operation's current context size, from its newest usage row: a
	// value that replaces the one before, never a sum.
	Tokens int64
}

const glancePrefix = "client/glance/"

// GlanceKey is the cell of a strand's glance. Its prefix is reserved: a model
// cannot write it.
func GlanceKey(strand string) string { return glancePrefix + strand }

// GlanceStrand reads the strand out of a key.
func GlanceStrand(key string) (strand string, ok bool) {
	strand, ok = strings.CutPrefix(key, glancePrefix)
	return strand, ok && strand != ""
}

// Value returns the stored shape.
func (g Glance) Value() jsonv.Value {
	return jsonv.Obj(
		jsonv.F("operation", jsonv.Str(g.Operation.String())), jsonv.F("title", jsonv.Str(g.Title)),
		jsonv.F("summary", jsonv.Str(g.Summary)), jsonv.F("at", jsonv.Num(g.At)), jsonv.F("tokens", jsonv.Num(g.Tokens)))
}

// DecodeGlance reads the stored shape. The error is a [*corrupt.Report].
func DecodeGlance(v jsonv.Value) (Glance, error) {
	r := jsonv.Read(v, "board.DecodeGlance")
	g := Glance{Title: r.Str("title"), Summary: r.Str("summary"), At: r.Num("at"), Tokens: r.Num("tokens")}
	op := r.Str("operation")
	if err := r.Err(); err != nil {
		return Glance{}, err
	}
	var err error
	if g.Operation, err = id.ParseOpID(op); err != nil {
		rep, _ := corrupt.As(err)
		return Glance{}, rep.In("operation")
	}
	return g, nil
}

const ellipsis = "…" // three bytes

// Clip makes one line of at most limit bytes out of model text: runs of spaces and
// line ends become one space, the cut is between graphemes, and a cut text ends in
// an ellipsis that counts against the limit (which needs three bytes of it).
func Clip(text string, limit int) string {
	line := strings.TrimSpace(strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return r == ' ' || r == '\t' || r == '\n' || r == '\r'
	}), " "))
	if len(line) <= limit {
		return line
	}
	room, end := limit-len(ellipsis), ellipsis
	if room < 0 {
		room, end = max(limit, 0), ""
	}
	cut := 0
	for g := graphemes.FromString(line); g.Next() && g.End() <= room; {
		cut = g.End()
	}
	return strings.TrimRight(line[:cut], " ") + end
}
