package sdkmsg

import (
	"reflect"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/wire/shape"
)

// Block is a part of a message: [TextBlock], [Thinking], [RedactedThinking],
// [ToolUse], [ToolResult], [Image], or [UnknownBlock].
type Block interface{ block() }

// TextBlock is text.
type TextBlock struct {
	Text string `wire:"text"`
}

// Thinking is readable reasoning. Signature is empty where it is kept elsewhere.
type Thinking struct {
	Thinking  string `wire:"thinking"`
	Signature string `wire:"signature,opt"`
}

// RedactedThinking is reasoning that nobody can read.
type RedactedThinking struct {
	Data string `wire:"data,opt"`
}

// ToolUse is a call of the model.
type ToolUse struct {
	ID    string      `wire:"id"`
	Name  string      `wire:"name"`
	Input jsonv.Value `wire:"input"`
}

// ToolResult answers a call. It holds what the model is given and nothing else: this
// block goes back to a provider.
type ToolResult struct {
	ToolUseID string  `wire:"tool_use_id"`
	Content   Content `wire:"content,opt"`
	IsError   bool    `wire:"is_error,opt"`
}

// Image stands for a picture. Source is absent where the bytes are kept elsewhere.
type Image struct {
	Source *jsonv.Value `wire:"source"`
}

// UnknownBlock is a block of a newer kind, whole.
type UnknownBlock struct {
	Tag string
	Raw jsonv.Value
}

func (TextBlock) block()        {}
func (Thinking) block()         {}
func (RedactedThinking) block() {}
func (ToolUse) block()          {}
func (ToolResult) block()       {}
func (Image) block()            {}
func (UnknownBlock) block()     {}

func init() {
	shape.Sum("type",
		func(tag string, raw jsonv.Value) Block { return UnknownBlock{Tag: tag, Raw: raw} },
		func(b Block) (jsonv.Value, bool) { u, ok := b.(UnknownBlock); return u.Raw, ok },
		shape.Member[Block]{Tag: "text", Zero: TextBlock{}},
		shape.Member[Block]{Tag: "thinking", Zero: Thinking{}},
		shape.Member[Block]{Tag: "redacted_thinking", Zero: RedactedThinking{}},
		shape.Member[Block]{Tag: "tool_use", Zero: ToolUse{}},
		shape.Member[Block]{Tag: "tool_result", Zero: ToolResult{}},
		shape.Member[Block]{Tag: "image", Zero: Image{}})
}

// Content is a list of blocks. A plain text is read as one block of text.
type Content []Block

// AbsentShape implements [shape.Custom].
func (c Content) AbsentShape() bool { return c == nil }

// AppendShape implements [shape.Custom].
func (c Content) AppendShape(w *jsonv.Writer) { shape.Append(w, []Block(c)) }

// DecodeShape implements [shape.CustomDecoder].
func (c *Content) DecodeShape(v jsonv.Value, _ bool) error {
	if v.IsNull() {
		return nil
	}
	if text, ok := v.Text(); ok {
		*c = Content{TextBlock{Text: text}}
		return nil
	}
	blocks, err := shape.Decode[[]Block](v, "sdkmsg.content")
	*c = blocks
	return err
}

// DescribeShape implements [shape.Custom].
func (Content) DescribeShape() *shape.Desc {
	return &shape.Desc{Kind: shape.KindAny, Go: reflect.TypeFor[Content](), Name: "Content"}
}

// Texts puts the texts of a content together as they stand on a page.
func (c Content) Texts() string {
	out := ""
	for _, b := range c {
		if t, ok := b.(TextBlock); ok {
			if out != "" && out[len(out)-1] != '\n' {
				out += "\n"
			}
			out += t.Text
		}
	}
	return out
}

// Text is a text that may be null, and may not be there. The zero Text is not there.
type Text struct {
	there bool
	text  *string
}

// Null is the explicit null.
func Null() Text { return Text{there: true} }

// Say is a text.
func Say(s string) Text { return Text{there: true, text: &s} }

// Get returns the text; ok is false for null and for what is not there.
func (t Text) Get() (s string, ok bool) {
	if t.text == nil {
		return "", false
	}
	return *t.text, true
}

// AbsentShape implements [shape.Custom].
func (t Text) AbsentShape() bool { return !t.there }

// AppendShape implements [shape.Custom].
func (t Text) AppendShape(w *jsonv.Writer) {
	if t.text == nil {
		w.Null()
		return
	}
	w.String(*t.text)
}

// DecodeShape implements [shape.CustomDecoder].
func (t *Text) DecodeShape(v jsonv.Value, _ bool) error {
	if v.IsNull() {
		*t = Null()
		return nil
	}
	s, ok := v.Text()
	if !ok {
		return corrupt.New("sdkmsg.Text", "value", "a text or null", v.Kind().String())
	}
	*t = Say(s)
	return nil
}

// DescribeShape implements [shape.Custom].
func (Text) DescribeShape() *shape.Desc {
	return &shape.Desc{Kind: shape.KindText, Go: reflect.TypeFor[Text](), Name: "Text"}
}
