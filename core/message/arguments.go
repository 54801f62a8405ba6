package message

import (
	"strings"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
)

// MalformedField is the one reserved field of arguments that the model did not
// write as a JSON object.
const MalformedField = "$loom/malformed_arguments"

// MaxMalformed is the most graphemes kept of the model's text: it is replayed
// on every later turn.
const MaxMalformed = 1024

// MaxArgumentsDepth is the deepest nesting of arguments that is taken as it is.
// The rows that carry a call add levels of their own and must stay below
// [jsonv.MaxDepth].
const MaxArgumentsDepth = 200

// MalformedArguments wraps argument text that is not a JSON object, so that the
// durable value stays replayable to dialects that demand an object. reason is
// the parser's complaint. Both are cut to [MaxMalformed] graphemes, and an
// ellipsis says so; bytes that are not UTF-8 become U+FFFD.
func MalformedArguments(raw, reason string) jsonv.Value {
	return jsonv.Obj(jsonv.F(MalformedField, jsonv.Obj(
		jsonv.F("raw", jsonv.Str(shortened(raw))), jsonv.F("reason", jsonv.Str(shortened(reason))))))
}

func shortened(s string) string {
	cut := corrupt.Clip(s, MaxMalformed)
	if len(cut) < len(s) {
		cut += "…"
	}
	return strings.ToValidUTF8(cut, "\uFFFD")
}

// AsMalformed reads back what [MalformedArguments] built. Only the exact shape
// matches; anything else is ordinary arguments.
func AsMalformed(args jsonv.Value) (raw, reason string, ok bool) {
	inner, found := args.Get(MalformedField)
	if !found || args.Len() != 1 || inner.Kind() != jsonv.Object || inner.Len() != 2 {
		return "", "", false
	}
	i := 0
	for name, v := range inner.Fields() {
		s, isText := v.Text()
		switch {
		case !isText:
			return "", "", false
		case i == 0 && name == "raw":
			raw = s
		case i == 1 && name == "reason":
			reason = s
		default:
			return "", "", false
		}
		i++
	}
	return raw, reason, true
}

// ParseArguments reads the argument text that a model streamed. Text that is
// not one JSON object becomes [MalformedArguments]; empty text means no
// arguments, as several providers send it for a tool without parameters.
func ParseArguments(text string) jsonv.Value {
	if text == "" {
		return jsonv.Obj()
	}
	v, err := jsonv.ParseString(text)
	if err != nil {
		return MalformedArguments(text, err.Error())
	}
	if v.Kind() != jsonv.Object {
		return MalformedArguments(text, "the arguments are a JSON "+v.Kind().String()+", not an object")
	}
	if v.Depth() > MaxArgumentsDepth {
		return MalformedArguments(text, "the arguments nest too deep")
	}
	return v
}
