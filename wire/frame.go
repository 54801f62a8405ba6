package wire

import (
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/wire/shape"
)

// Bounds of a frame.
const (
	// MaxFrame bounds the JSON of one frame. The largest is the authoritative
	// text of a segment.
	MaxFrame = 128 << 20
	// MaxWord bounds ids, kinds, strands and codes, in bytes.
	MaxWord = shape.MaxWord
)

// Frame is one fact about a session.
type Frame struct {
	// ID is a stable key: the same fact has the same id each time it is sent.
	ID       string
	Cursor   Cursor // the zero Cursor unless Delivery is Replay
	Delivery Delivery
	Session  id.SessionID
	Lane     Lane

	// The owner: which strand, which of its runs, which task. What does not apply is
	// absent.
	Strand string // absent for a fact of the whole session
	// Operation is the run a frame belongs to. It is absent on frames of committed
	// entries: a row does not know which operation wrote it.
	Operation id.OpID
	Task      string

	// Parent is the entry before it in the tree, on frames of an entry that has one.
	Parent id.EntryID
	Body   Body
}

// Kind returns the kind of the body.
func (f Frame) Kind() Kind { return f.Body.Kind() }

// Body is what a frame says. The set of implementations is closed: one per
// [Kind], and [Unknown] and [Broken].
type Body interface {
	Kind() Kind
	body()
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

func (Unknown) body() {}
func (Broken) body()  {}

// envelope is a frame as JSON.
type envelope struct {
	ID        string       `wire:"id,word"`    // a stable key: the same fact has the same each time it is sent
	Cursor    Cursor       `wire:"cursor,opt"` // exactly with the delivery replay
	Kind      Kind         `wire:"kind,word"`
	Delivery  Delivery     `wire:"delivery"`
	Session   id.SessionID `wire:"session"`
	Lane      Lane         `wire:"lane,word"`
	Strand    string       `wire:"strand,opt,word"` // owner; absent for a fact of the whole session
	Operation id.OpID      `wire:"operation,opt"`   // owner; absent on frames of entries, which do not know it
	Task      string       `wire:"task,opt,word"`   // owner; of what works beside the conversation
	Parent    id.EntryID   `wire:"parent,opt"`      // the entry before it in the tree
	Body      jsonv.Value  `wire:"body"`
}

func init() {
	shape.Text("an entry id", id.EntryID.String, id.ParseEntryID)
	shape.Text("an operation id", id.OpID.String, id.ParseOpID)
	shape.Text("a session id", id.SessionID.String, id.ParseSessionID)
	shape.Text("generation:seq:ordinal", Cursor.String, ParseCursor)
}

// Append appends the JSON of the frame, one line without raw newlines.
func (f Frame) Append(dst []byte) []byte {
	w := jsonv.NewWriter(append(dst, '{'))
	f.appendFields(w)
	w.End()
	return w.Bytes()
}

// appendFields writes what [envelope] describes; a test holds the two together.
func (f Frame) appendFields(w *jsonv.Writer) {
	w.Str("id", f.ID)
	if f.Delivery == Replay {
		w.Str("cursor", f.Cursor.String())
	}
	w.Str("kind", string(f.Kind()))
	w.Str("delivery", string(f.Delivery))
	w.Str("session", f.Session.String())
	w.Str("lane", string(f.Lane))
	if f.Strand != "" {
		w.Str("strand", f.Strand)
	}
	if !f.Operation.IsZero() {
		w.Str("operation", f.Operation.String())
	}
	if f.Task != "" {
		w.Str("task", f.Task)
	}
	if !f.Parent.IsZero() {
		w.Str("parent", f.Parent.String())
	}
	w.Name("body")
	switch b := f.Body.(type) {
	case Unknown:
		w.Value(b.Raw)
	case Broken:
		w.Value(b.Raw)
	default:
		shape.AppendAny(w, b)
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
	e, err := shape.Decode[envelope](v, "wire.Frame")
	if err != nil {
		return Frame{}, err
	}
	if name, expected := e.fault(); name != "" {
		return Frame{}, corrupt.New("wire.Frame", name, expected, string(e.Delivery)+" "+e.Cursor.String())
	}
	return Frame{
		ID: e.ID, Cursor: e.Cursor, Delivery: e.Delivery, Session: e.Session, Lane: e.Lane,
		Strand: e.Strand, Operation: e.Operation, Task: e.Task, Parent: e.Parent,
		Body: bodyOf(e.Kind, e.Delivery, e.Body),
	}, nil
}

// AbsentShape implements [shape.Custom].
func (Frame) AbsentShape() bool { return false }

// AppendShape implements [shape.Custom].
func (f Frame) AppendShape(w *jsonv.Writer) {
	w.Begin()
	f.appendFields(w)
	w.End()
}

// DecodeShape implements [shape.CustomDecoder].
func (f *Frame) DecodeShape(v jsonv.Value, _ bool) (err error) {
	*f, err = frameOf(v)
	return err
}

// DescribeShape implements [shape.Custom].
func (Frame) DescribeShape() *shape.Desc {
	d := *shape.Of[envelope]()
	d.Name = "Frame"
	return &d
}

// fault is what the fields of an envelope say wrong together.
func (e *envelope) fault() (field, expected string) {
	if _, ok := ParseDelivery(string(e.Delivery)); !ok {
		return "delivery", "replay, level or live"
	}
	switch replay := e.Delivery == Replay; {
	case replay && e.Cursor.Seq == 0:
		return "cursor", "the position of a row on a replay frame"
	case !replay && !e.Cursor.IsZero():
		return "cursor", "no cursor on a frame that is not replayed"
	}
	for i := range len(e.Kind) { // it is also a field of the event stream
		if c := e.Kind[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return "kind", "lower-case letters, digits and _"
		}
	}
	return "", ""
}

func bodyOf(kind Kind, d Delivery, v jsonv.Value) Body {
	spec := byKind[kind]
	if spec == nil {
		return Unknown{Word: kind, Raw: v}
	}
	if !kind.Delivers(d) {
		return Broken{Of: kind, Raw: v, Report: corrupt.New("wire."+string(kind), "delivery", "a delivery that this kind has", string(d))}
	}
	body, err := spec.decode(v)
	if err != nil {
		rep, _ := corrupt.As(err)
		return Broken{Of: kind, Raw: v, Report: rep}
	}
	return body
}
