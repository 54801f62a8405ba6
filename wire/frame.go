package wire

import (
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
)

// Bounds of a frame.
const (
	// MaxFrame bounds the JSON of one frame. The largest is the authoritative
	// text of a segment.
	MaxFrame = 128 << 20
	// MaxWord bounds ids, kinds, strands and codes, in bytes.
	MaxWord = 512
	// MaxShownText bounds the text of a prompt or of a tool result in a frame,
	// in bytes. The row keeps the whole; the frame tells its length.
	MaxShownText = 1 << 20
	// MaxTail bounds the window of a tool's output in a frame, in bytes.
	MaxTail = 4096
)

// Frame is one fact about a session.
type Frame struct {
	// ID is a stable key: the same fact has the same id each time it is sent.
	ID       string
	Cursor   Cursor // the zero Cursor unless Delivery is Replay
	Delivery Delivery
	Session  id.SessionID
	Strand   string // "" for a fact of the whole session
	// Operation is the run a frame belongs to. It is absent on frames of
	// committed entries: a row does not know which operation wrote it.
	Operation id.OpID
	Body      Body
}

// Kind returns the kind of the body.
func (f Frame) Kind() Kind { return f.Body.Kind() }

// Body is what a frame says. The set of implementations is closed: one per
// [Kind], and [Unknown] and [Broken].
type Body interface {
	Kind() Kind
	appendFields(w *jsonv.Writer)
}

// Unknown is the body of a kind that this build does not know, verbatim.
type Unknown struct {
	Word Kind
	Raw  jsonv.Value
}

// Broken is the body of a known kind that breaks the contract.
type Broken struct {
	Of     Kind
	Raw    jsonv.Value
	Report *corrupt.Report
}

// Kind returns the word that was sent.
func (b Unknown) Kind() Kind { return b.Word }

// Kind returns the known kind.
func (b Broken) Kind() Kind { return b.Of }

func (b Unknown) appendFields(*jsonv.Writer) {}
func (b Broken) appendFields(*jsonv.Writer)  {}

// kindSpec is one row of the kinds' table.
type kindSpec struct {
	kind       Kind
	deliveries [2]Delivery
	decode     func(*jsonv.Reader) Body
}

// kinds is the table of this build, in the order in which a run shows them.
var kinds = [...]kindSpec{
	{KindRunStart, [2]Delivery{Level}, decodeRunStart},
	{KindUserMessage, [2]Delivery{Replay}, decodeUserMessage},
	{KindTextDelta, [2]Delivery{Live}, decodeTextDelta},
	{KindTextEnd, [2]Delivery{Replay}, decodeTextEnd},
	{KindReasoningDelta, [2]Delivery{Live}, decodeReasoningDelta},
	{KindReasoningEnd, [2]Delivery{Replay}, decodeReasoningEnd},
	{KindToolCall, [2]Delivery{Replay}, decodeToolCall},
	{KindToolProgress, [2]Delivery{Live}, decodeToolProgress},
	{KindToolResult, [2]Delivery{Replay}, decodeToolResult},
	{KindTurnEnd, [2]Delivery{Replay}, decodeTurnEnd},
	{KindRetry, [2]Delivery{Live}, decodeRetry},
	{KindRunEnd, [2]Delivery{Replay}, decodeRunEnd},
	{KindRunStopped, [2]Delivery{Level}, decodeRunStopped},
	{KindNotice, [2]Delivery{Live, Replay}, decodeNotice},
}

// Kinds returns the kinds of this build.
func Kinds() []Kind {
	out := make([]Kind, len(kinds))
	for i, k := range kinds {
		out[i] = k.kind
	}
	return out
}

// Delivers reports whether frames of a known kind may have that delivery.
func (k Kind) Delivers(d Delivery) bool {
	spec, ok := specOf(k)
	return ok && (spec.deliveries[0] == d || spec.deliveries[1] == d)
}

func specOf(k Kind) (kindSpec, bool) {
	for _, spec := range kinds {
		if spec.kind == k {
			return spec, true
		}
	}
	return kindSpec{}, false
}

// Append appends the JSON of the frame, one line without raw newlines.
func (f Frame) Append(dst []byte) []byte { return appendObject(dst, f.appendFields) }

// appendObject appends one object behind any bytes.
func appendObject(dst []byte, fields func(*jsonv.Writer)) []byte {
	w := jsonv.NewWriter(append(dst, '{'))
	fields(w)
	w.End()
	return w.Bytes()
}

func (f Frame) appendFields(w *jsonv.Writer) {
	w.Str("id", f.ID)
	if f.Delivery == Replay {
		w.Str("cursor", f.Cursor.String())
	}
	w.Str("kind", string(f.Kind()))
	w.Str("delivery", string(f.Delivery))
	w.Str("session", f.Session.String())
	if f.Strand != "" {
		w.Str("strand", f.Strand)
	}
	if !f.Operation.IsZero() {
		w.Str("operation", f.Operation.String())
	}
	w.Name("body")
	switch b := f.Body.(type) {
	case Unknown:
		w.Value(b.Raw)
	case Broken:
		w.Value(b.Raw)
	default:
		w.Begin()
		b.appendFields(w)
		w.End()
	}
}

// DecodeFrame reads one frame. An error, a [*corrupt.Report], means that the
// envelope is unreadable, so that the position in the stream is lost. A body
// that is not readable is a value: see [Unknown] and [Broken]. Unknown fields
// are ignored, so that an older client reads a newer server.
func DecodeFrame(data []byte) (Frame, error) {
	v, err := jsonv.Parse(data)
	if err != nil {
		return Frame{}, err
	}
	return frameOf(v)
}

func frameOf(v jsonv.Value) (Frame, error) {
	r := jsonv.Read(v, "wire.Frame")
	f := Frame{ID: word(r, "id", r.Str("id"))}
	cursor := r.OptStr("cursor")
	kind := kindWord(r)
	delivery := r.Str("delivery")
	session := r.Str("session")
	if s := r.OptStr("strand"); s != nil {
		f.Strand = word(r, "strand", *s)
	}
	operation := r.OptStr("operation")
	body := r.Value("body")
	if r.Err() != nil {
		return Frame{}, r.Err()
	}

	var ok bool
	if f.Delivery, ok = ParseDelivery(delivery); !ok {
		r.Fail("delivery", "replay, level or live", jsonv.Str(delivery))
	}
	var err error
	f.Session, err = id.ParseSessionID(session)
	r.Adopt("session", err)
	if operation != nil {
		f.Operation, err = id.ParseOpID(*operation)
		r.Adopt("operation", err)
	}
	switch {
	case (cursor != nil) != (f.Delivery == Replay):
		r.Fail("cursor", "a cursor exactly on a replay frame", jsonv.Str(delivery))
	case cursor != nil:
		f.Cursor, err = ParseCursor(*cursor)
		r.Adopt("cursor", err)
		if err == nil && f.Cursor.Seq == 0 {
			r.Fail("cursor", "the position of a row", jsonv.Str(*cursor))
		}
	}
	if r.Err() != nil {
		return Frame{}, r.Err()
	}
	f.Body = bodyOf(kind, f.Delivery, body)
	return f, nil
}

// kindWord reads a kind, known or not: lower-case words, since it is also a
// field of the event stream.
func kindWord(r *jsonv.Reader) Kind {
	k := r.Str("kind")
	for i := range len(k) {
		if c := k[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			r.Fail("kind", "lower-case letters, digits and _", jsonv.Str(k))
			break
		}
	}
	return Kind(word(r, "kind", k))
}

// word checks a short text of the envelope.
func word(r *jsonv.Reader, field, s string) string {
	if s == "" || len(s) > MaxWord {
		r.Fail(field, "1 to 512 bytes", jsonv.Str(s))
	}
	return s
}

func bodyOf(kind Kind, d Delivery, v jsonv.Value) Body {
	spec, known := specOf(kind)
	if !known {
		return Unknown{Word: kind, Raw: v}
	}
	r := jsonv.Read(v, "wire."+string(kind))
	if !kind.Delivers(d) {
		r.Fail("delivery", "a delivery that this kind has", jsonv.Str(string(d)))
	}
	body := spec.decode(r)
	if err := r.Err(); err != nil {
		rep, _ := corrupt.As(err)
		return Broken{Of: kind, Raw: v, Report: rep}
	}
	return body
}
