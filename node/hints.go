package node

import (
	"strings"

	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/events"
)

// Events is the bus on which the open sessions of this node say that they changed, each under its id.
func (n *Node) Events() *events.Bus { return &n.bus }

// hint is what the bus says of a fact; ok is false for what only a client shows.
func hint(f engine.Fact) (e events.Event, ok bool) {
	switch f := f.(type) {
	case engine.Committed:
		return events.Committed{FirstSeq: f.FirstSeq, LastSeq: f.LastSeq, Timestamp: f.Timestamp}, true
	case engine.RunStarted:
		return events.OpTransition{Op: f.Op, Phase: begun(f.Resumed)}, true
	case engine.OperationStarted:
		return events.OpTransition{Op: f.Op, Phase: begun(f.Resumed)}, true
	case engine.RunFinished:
		return events.StrandResult{Strand: f.Strand}, true
	case engine.OperationFinished:
		return events.StrandResult{Strand: f.Strand}, true
	case engine.StrandStopped:
		return events.OpTransition{Op: f.Op, Phase: "stopped"}, !f.Op.IsZero()
	case engine.RunPaused:
		var reasons []string
		for _, p := range f.Pauses {
			reasons = append(reasons, string(p.Reason))
		}
		return events.Escalation{Op: f.Op, Description: strings.Join(reasons, ", ")}, true
	case engine.ToolOutput:
		stream := events.Stdout
		if f.Stream == "stderr" {
			stream = events.Stderr
		}
		return events.ToolOutput{
			Strand: f.Strand, Op: f.Op, Step: f.Step, SourceIndex: f.SourceIndex, CallID: f.CallID, Stream: stream, Tail: f.Tail, TotalBytes: f.TotalBytes,
		}, true
	case engine.TextDelta, engine.ThinkingDelta, engine.ToolCallDelta, engine.RetryScheduled, engine.JobChanged, engine.QueueChanged, engine.GatesChanged:
		return nil, false // deltas are for clients; the record of a job is told by its commit
	}
	return nil, false
}

func begun(resumed bool) string {
	if resumed {
		return "resumed"
	}
	return "started"
}
