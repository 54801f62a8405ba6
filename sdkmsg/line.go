package sdkmsg

import (
	"reflect"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/wire/shape"
)

// Line is one message with the ids that every line has. Either may be absent in a
// line of somebody else.
type Line struct {
	UUID      string
	SessionID string
	Message   Message
}

// ids are the fields around a message.
type ids struct {
	UUID      string `wire:"uuid,opt"`
	SessionID string `wire:"session_id,opt"`
}

// ToolName is a tool in a list: a text, or an object with a name.
type ToolName string

// AbsentShape implements [shape.Custom].
func (ToolName) AbsentShape() bool { return false }

// AppendShape implements [shape.Custom].
func (n ToolName) AppendShape(w *jsonv.Writer) { w.String(string(n)) }

// DecodeShape implements [shape.CustomDecoder].
func (n *ToolName) DecodeShape(v jsonv.Value, _ bool) error {
	if name, ok := v.Get("name"); ok {
		v = name
	}
	s, ok := v.Text()
	if !ok {
		return corrupt.New("sdkmsg.ToolName", "value", "a text or an object with a name", v.Kind().String())
	}
	*n = ToolName(s)
	return nil
}

// DescribeShape implements [shape.Custom].
func (ToolName) DescribeShape() *shape.Desc {
	return &shape.Desc{Kind: shape.KindText, Go: reflect.TypeFor[ToolName](), Name: "ToolName"}
}

// kindOf is the type and the subtype of a message. A result's subtype is a field of
// its own, since it says how it ended.
func kindOf(m Message) (typ, subtype string) {
	switch m := m.(type) {
	case Assistant:
		return "assistant", ""
	case User:
		return "user", ""
	case Result:
		return "result", ""
	case Init:
		return "system", "init"
	case CompactBoundary:
		return "system", "compact_boundary"
	case Informational:
		return "system", "informational"
	case PermissionDenied:
		return "system", "permission_denied"
	case TaskNotification:
		return "system", "task_notification"
	case Unknown:
		return m.Type, m.Subtype
	}
	return "", ""
}

// Append appends the line as JSON, without a newline.
func (l Line) Append(dst []byte) []byte {
	w := jsonv.NewWriter(dst)
	if u, ok := l.Message.(Unknown); ok {
		w.Value(u.Raw)
		return w.Bytes()
	}
	var body, around jsonv.Writer
	shape.AppendAny(&body, l.Message)
	shape.Append(&around, ids{l.UUID, l.SessionID})
	typ, subtype := kindOf(l.Message)
	w.Begin()
	w.Str("type", typ)
	if subtype != "" {
		w.Str("subtype", subtype)
	}
	for name, v := range body.Tree().Fields() {
		w.Name(name)
		w.Value(v)
	}
	for name, v := range around.Tree().Fields() {
		w.Name(name)
		w.Value(v)
	}
	w.End()
	return w.Bytes()
}

// DecodeLine reads one line. The error, a [*corrupt.Report], is for text that is no
// JSON object with a type, and for a known message with a field of a wrong type.
func DecodeLine(data []byte) (Line, error) {
	v, err := jsonv.Parse(data)
	if err != nil {
		return Line{}, err
	}
	return LineOf(v)
}

// LineOf is [DecodeLine] for a value.
func LineOf(v jsonv.Value) (Line, error) {
	typeField, _ := v.Get("type")
	typ, ok := typeField.Text()
	if v.Kind() != jsonv.Object || !ok {
		return Line{}, corrupt.New("sdkmsg.Line", "type", "an object with a type", v.Kind().String())
	}
	subField, _ := v.Get("subtype")
	subtype, _ := subField.Text()
	around, err := shape.Decode[ids](v, "sdkmsg.Line")
	if err != nil {
		return Line{}, err
	}
	l := Line{UUID: around.UUID, SessionID: around.SessionID}
	l.Message, err = messageOf(typ, subtype, v)
	return l, err
}

func messageOf(typ, subtype string, v jsonv.Value) (Message, error) {
	switch typ {
	case "assistant":
		return read[Assistant](v)
	case "user":
		return read[User](v)
	case "result":
		return read[Result](v)
	case "system":
		switch subtype {
		case "init":
			return read[Init](v)
		case "compact_boundary":
			return read[CompactBoundary](v)
		case "informational":
			return read[Informational](v)
		case "permission_denied":
			return read[PermissionDenied](v)
		case "task_notification":
			return read[TaskNotification](v)
		}
	}
	return Unknown{Type: typ, Subtype: subtype, Raw: v}, nil
}

func read[M Message](v jsonv.Value) (Message, error) {
	m, err := shape.Decode[M](v, "sdkmsg.Line")
	if err != nil {
		return nil, err
	}
	return m, nil
}
