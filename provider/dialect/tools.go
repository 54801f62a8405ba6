package dialect

import (
	"cmp"
	"slices"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
)

// SortedTools is the tools by name: providers cache by prefix, so their order must not depend on who asks.
func SortedTools(tools []provider.Tool) []provider.Tool {
	return slices.SortedStableFunc(slices.Values(tools), func(a, b provider.Tool) int { return cmp.Compare(a.Name, b.Name) })
}

// ToolSchema is the schema of a tool's arguments, that of no arguments where it has none.
func ToolSchema(tool provider.Tool) jsonv.Value {
	if tool.Schema.Kind() == jsonv.Object {
		return tool.Schema
	}
	return jsonv.Obj(jsonv.F("type", jsonv.Str("object")), jsonv.F("properties", jsonv.Obj()))
}

// Texts is the texts of some blocks that are more than space, since providers refuse empty ones.
func Texts[B message.Block](blocks []B) []string {
	var texts []string
	for _, b := range blocks {
		if t, ok := any(b).(message.Text); ok && !Blank(t.Text) {
			texts = append(texts, t.Text)
		}
	}
	return texts
}

// Images is the images of some blocks.
func Images[B message.Block](blocks []B) []message.Image {
	var images []message.Image
	for _, b := range blocks {
		if i, ok := any(b).(message.Image); ok {
			images = append(images, i)
		}
	}
	return images
}

// NoOutput is what a model is told of a result without text.
const NoOutput = "(no output)"

// Blocks is the content of a result, and whether it is a failure; one that is missing says so.
func (r Result) Blocks() (content []message.ResultBlock, isError bool) {
	if r.Message == nil {
		return []message.ResultBlock{message.Text{Text: NoResult}}, true
	}
	return r.Message.Content, r.Message.IsError
}

// PicturesOf introduces the pictures of a result where they follow apart from it.
func PicturesOf(r Result) string {
	name := r.Name
	if r.Message != nil {
		name = r.Message.ToolName
	}
	return "Pictures from the output of the tool " + name + " (call " + r.ID + "):"
}

// Arguments is the arguments of a call, which are an object always.
func Arguments(c message.ToolCall) jsonv.Value {
	if c.Arguments.Kind() == jsonv.Object {
		return c.Arguments
	}
	return jsonv.Obj()
}

// Takes reports whether an image has one of the media types that a dialect takes.
func Takes(image message.Image, types ...string) bool { return slices.Contains(types, image.MimeType) }

// LeftOut is what a model is told in place of an image that its dialect does not take.
func LeftOut(image message.Image) string {
	return "(a picture of the type " + Excerpt(image.MimeType) + " was left out: this model cannot be shown one)"
}

// The texts that stand where a conversation lacks a turn that its dialect demands.
const (
	Beginning = "(The beginning of this conversation is not shown.)"
	GoOn      = "(Go on.)"
)
