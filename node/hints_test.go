package node

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/events"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/policy"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage/sqlite"
)

func TestFactsThatChangeAStoreBecomeHints(t *testing.T) {
	op, _ := id.NewGenerator(clock.Fixed(epoch), 3).Op()
	for name, c := range map[string]struct {
		fact engine.Fact
		want events.Event // nil: none
	}{
		"a commit":                     {engine.Committed{FirstSeq: 3, LastSeq: 5, Timestamp: 7}, events.Committed{FirstSeq: 3, LastSeq: 5, Timestamp: 7}},
		"a run begins":                 {engine.RunStarted{Strand: "main", Op: op}, events.OpTransition{Op: op, Phase: "started"}},
		"a run goes on":                {engine.RunStarted{Strand: "main", Op: op, Resumed: true}, events.OpTransition{Op: op, Phase: "resumed"}},
		"a compaction begins":          {engine.OperationStarted{Strand: "main", Op: op, Kind: "compaction"}, events.OpTransition{Op: op, Phase: "started"}},
		"a run ends":                   {engine.RunFinished{Strand: "main", Op: op}, events.StrandResult{Strand: "main"}},
		"a compaction ends":            {engine.OperationFinished{Strand: "main", Op: op}, events.StrandResult{Strand: "main"}},
		"a strand stops":               {engine.StrandStopped{Strand: "main", Op: op, Err: errors.New("x")}, events.OpTransition{Op: op, Phase: "stopped"}},
		"a strand without a run stops": {engine.StrandStopped{Strand: "main"}, nil},
		"a run waits for a person": {
			engine.RunPaused{Strand: "main", Op: op, Pauses: []machine.Pause{{Reason: words.PausedOnApproval}, {Reason: words.PausedOnQuestion}}},
			events.Escalation{Op: op, Description: string(words.PausedOnApproval) + ", " + string(words.PausedOnQuestion)},
		},
		"a command prints": {
			engine.ToolOutput{Strand: "main", Op: op, Step: "s", SourceIndex: 1, CallID: "c", Stream: "stdout", Tail: "t", TotalBytes: 9},
			events.ToolOutput{Strand: "main", Op: op, Step: "s", SourceIndex: 1, CallID: "c", Stream: events.Stdout, Tail: "t", TotalBytes: 9},
		},
		"a command complains": {engine.ToolOutput{Stream: "stderr"}, events.ToolOutput{Stream: events.Stderr}},
		"text":                {engine.TextDelta{Text: "x"}, nil},
		"reasoning":           {engine.ThinkingDelta{Text: "x"}, nil},
		"part of a call":      {engine.ToolCallDelta{Fragment: "x"}, nil},
		"another attempt":     {engine.RetryScheduled{}, nil},
		"a job":               {engine.JobChanged{Job: "j"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got, ok := hint(c.fact); got != c.want && ok || ok != (c.want != nil) {
				t.Errorf("the hint is %+v, %v", got, ok)
			}
		})
	}
}

// Who looks into the store after the hint of a result finds everything that was hinted at.
func TestTheStoreHoldsWhatTheBusHintsAt(t *testing.T) {
	wall := func() int64 { return time.Now().UnixMilli() }
	models, err := Catalogue(ModelsConfig{Environ: os.Environ(), Now: wall})
	if err != nil {
		t.Fatal(err)
	}
	n := New(Config{Home: Home{t.TempDir()}, Models: models, Now: wall, Retry: DefaultRetry(), Environ: os.Environ(), Synchronous: sqlite.Normal})
	defer n.Close()
	slot, err := n.Create(t.TempDir(), policy.Default, new("demo"))
	if err != nil {
		t.Fatal(err)
	}
	hints := n.Events().SubscribeHints(t.Context(), events.KeyOf(slot.ID()))
	defer hints.Close()
	if _, err := slot.Prompt(Opening{}, session.MainStrand, engine.Prompt{Content: []message.UserBlock{message.Text{Text: "hello"}}}); err != nil {
		t.Fatal(err)
	}
	last := int64(0)
	for p := range hints.Events() {
		if c, ok := p.Event.(events.Committed); ok {
			if c.FirstSeq <= last || c.LastSeq < c.FirstSeq {
				t.Errorf("the commit of %d to %d after %d", c.FirstSeq, c.LastSeq, last)
			}
			last = c.LastSeq
		}
		if _, ok := p.Event.(events.StrandResult); ok {
			break
		}
	}
	if last == 0 {
		t.Fatal("no commit was hinted at")
	}
	err = slot.Read(func(v *session.View) error {
		snap, err := v.Rows().Snapshot()
		if err == nil && snap.Next <= last {
			t.Errorf("the next seq is %d after a commit up to %d", snap.Next, last)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
