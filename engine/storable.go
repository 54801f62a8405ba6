package engine

import (
	"fmt"
	"slices"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
)

// maxDepth is the deepest message that is kept. Arguments of the greatest depth
// fit into it, and it fits into every row that carries messages: a pending entry,
// a compaction's tail, a preparation.
const maxDepth = message.MaxArgumentsDepth + 8

// storable returns m as a store would give it back, or says why none could. What
// comes from outside is judged here, before a commit: a refused commit would stop
// the strand, and the outcome of an effect would be lost with it.
func storable[M message.Message](m M) (M, error) {
	var none M
	var w jsonv.Writer
	message.Append(&w, m)
	v, err := jsonv.Parse(w.Bytes())
	if err != nil {
		return none, err
	}
	if d := v.Depth(); d > maxDepth {
		return none, corrupt.New("engine.storable", "message", fmt.Sprintf("a value that nests at most %d deep", maxDepth), fmt.Sprintf("%d levels", d))
	}
	back, err := message.Decode(v)
	if err != nil {
		return none, err
	}
	kept, same := back.(M)
	if !same {
		return none, corrupt.New("engine.storable", "message", fmt.Sprintf("%T", m), fmt.Sprintf("%T", back))
	}
	return kept, nil
}

// storableResult keeps as much of a tool's result as can be kept: the parts for
// programs go first, since the model has never seen them.
func storableResult(call message.ToolCall, r *message.ToolResult) *message.ToolResult {
	if r == nil {
		return failedResult(call, "the tool returned no result; what it did is unknown")
	}
	kept, err := storable(r)
	if err == nil {
		return kept
	}
	bare := *r
	bare.Details, bare.AddedToolNames = nil, nil
	bare.Content = append(slices.Clone(r.Content), message.Text{
		Text: "(The details of this result could not be stored and were dropped: " + err.Error() + ")",
	})
	if kept, err := storable(&bare); err == nil {
		return kept
	}
	if bare.Usage != nil {
		bare.Usage = new(usage.Unknown(usage.Other))
	}
	if kept, err := storable(&bare); err == nil {
		return kept
	}
	return failedResult(call, "the tool ran, but its result could not be stored and was dropped: "+err.Error())
}
