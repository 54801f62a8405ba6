package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/session"
)

func TestWhatIsWrittenIsPlacedBetweenSteps(t *testing.T) {
	w := newWorld()
	var p *process
	begun := make(chan struct{})
	write := func(s string) {
		t.Helper()
		if _, err := p.Write(session.MainStrand, machine.PendingMessage(said(s))); err != nil {
			t.Error(err)
		}
	}
	p = boot(t, w, []turn{func(ctx context.Context, sink func(provider.Delta)) (*message.Assistant, error) {
		<-begun
		write("meanwhile")
		return callTools("safe")(ctx, sink)
	}, say("done")})
	write("before any run")
	close(begun)
	finish(t, p, prompt(t, p, text("go")))
	wantTranscript(t, w, "user before any run", "user go", "assistant toolUse  call:safe-0", "result safe-0 error=false did safe-0", "user meanwhile", "assistant stop done")
	settled(t, w)
	for _, m := range []message.Message{&message.Assistant{StopReason: message.Stop}, &message.ToolResult{ToolCallID: "x"}} {
		if _, err := p.Write(session.MainStrand, machine.PendingEntry{Body: entry.Message{Message: m}}); !errors.Is(err, engine.ErrNotWritable) {
			t.Errorf("a %T was written: %v", m, err)
		}
	}
}
