package dialect

import (
	"strings"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
)

// sealed is the one field by which a sealed block is known; what a provider signs with is no JSON object of ours.
const sealed = "$loom/opaque"

// seal is the signature that keeps a block which only its provider understands: what the provider ran itself, and blocks of a kind that is not known
// here. It is stored as redacted reasoning, since that is what reasoning is that nobody but its provider can read: no tool is ever run from it, no other
// provider is ever sent it, and no reader of rows needs to know a new kind of block.
func seal(api string, v jsonv.Value) string {
	return jsonv.Obj(jsonv.F(sealed, jsonv.Num(1)), jsonv.F("api", jsonv.Str(api)), jsonv.F("block", v)).String()
}

// Unseal is the block that [Answer.Opaque] kept, for the dialect that it came in.
func Unseal(api string, b message.Thinking) (jsonv.Value, bool) {
	if !b.Redacted || b.Signature == nil || !strings.HasPrefix(*b.Signature, `{"`+sealed+`":1,`) {
		return jsonv.Value{}, false
	}
	v, err := jsonv.ParseString(*b.Signature)
	if err != nil || Text(v, "api") != api {
		return jsonv.Value{}, false
	}
	return v.Get("block")
}

// IsSealed reports whether a block of reasoning is a sealed block, of whatever dialect.
func IsSealed(b message.Thinking) bool {
	return b.Redacted && b.Signature != nil && strings.HasPrefix(*b.Signature, `{"`+sealed+`":1,`)
}
