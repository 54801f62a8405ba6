package machine

import (
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
)

// Operation is what was accepted; written once, deleted by the terminal
// transaction (register op.meta).
type Operation struct {
	ID         id.OpID
	Strand     string
	SourceLeaf id.EntryID // the leaf before the operation; absent at the root
	StartedAt  int64      // Unix ms
	Intent     Intent
}

// Intent is one of RunIntent, CompactionIntent, NavigationIntent.
type Intent interface{ intent() string }

// RunIntent drives prompts until the model may finish.
type RunIntent struct{ PromptEntryIDs []id.EntryID }

// CompactionIntent replaces old context by a summary.
type CompactionIntent struct{ CustomInstructions *string }

// NavigationIntent moves the leaf.
type NavigationIntent struct {
	TargetID           id.EntryID // absent: the root
	Summarize          bool
	Label              *string
	CustomInstructions *string
}

// The tags of intents, states and results.
const (
	kindRun        = "run"
	kindCompaction = "compaction"
	kindNavigation = "navigation"
)

func (RunIntent) intent() string        { return kindRun }
func (CompactionIntent) intent() string { return kindCompaction }
func (NavigationIntent) intent() string { return kindNavigation }

// ModelRef is the durable identity of a model: the catalogue's entry name and
// the id that is sent.
type ModelRef struct{ Provider, ModelID string }

// ThinkingLevel is how much a model is asked to reason.
type ThinkingLevel = words.ThinkingLevel

// The closed set of levels.
const (
	ThinkingOff     = words.ThinkingOff
	ThinkingMinimal = words.ThinkingMinimal
	ThinkingLow     = words.ThinkingLow
	ThinkingMedium  = words.ThinkingMedium
	ThinkingHigh    = words.ThinkingHigh
	ThinkingXHigh   = words.ThinkingXHigh
	ThinkingMax     = words.ThinkingMax
)

// Configuration is a strand's (register strand.config).
type Configuration struct {
	Model           ModelRef
	ThinkingLevel   ThinkingLevel
	ActiveToolNames []string
}

// StrandState says what a strand works on (register strand.state).
type StrandState struct {
	CurrentOperation id.OpID      // absent when idle
	PendingNextRun   []id.EntryID // queued for the next acceptance, in order
	Start            *Start       // nil: that acceptance waits for somebody to ask for it
}

// Start says that queued input starts a run by itself once the strand is idle.
type Start struct {
	MaxTurns *int64 // of that run; nil: unlimited
}

// Kind is run, compaction or navigation.
func (op Operation) Kind() string { return op.Intent.intent() }

// IsRun reports whether the operation drives prompts.
func (op Operation) IsRun() bool { return op.Kind() == kindRun }

// Value returns the register payload.
func (op Operation) Value() jsonv.Value {
	return tree(func(w *jsonv.Writer) {
		w.Begin()
		w.Str("operationId", op.ID.String())
		w.Str("strand", op.Strand)
		optEntry(w, "sourceLeafId", op.SourceLeaf)
		w.Num("startedAt", op.StartedAt)
		w.Name("intent")
		w.Begin()
		w.Str("kind", op.Intent.intent())
		switch in := op.Intent.(type) {
		case RunIntent:
			entryList(w, "promptEntryIds", in.PromptEntryIDs)
		case CompactionIntent:
			w.OptStr("customInstructions", in.CustomInstructions)
		case NavigationIntent:
			optEntry(w, "targetId", in.TargetID)
			w.Flag("summarize", in.Summarize)
			w.OptStr("label", in.Label)
			w.OptStr("customInstructions", in.CustomInstructions)
		}
		w.End()
		w.End()
	})
}

// DecodeOperation reads op.meta.
func DecodeOperation(v jsonv.Value) (Operation, error) {
	r := jsonv.Read(v, "machine.DecodeOperation")
	op := Operation{
		ID: jsonv.One(r, "operationId", decodeOpID), Strand: r.Str("strand"),
		SourceLeaf: nullableEntry(r, "sourceLeafId"), StartedAt: r.Num("startedAt"),
		Intent: jsonv.One(r, "intent", decodeIntent),
	}
	return whole(op, r)
}

func decodeIntent(v jsonv.Value) (Intent, error) {
	r := jsonv.Read(v, "machine.decodeIntent")
	switch kind := r.Str("kind"); kind {
	case kindRun:
		return RunIntent{PromptEntryIDs: jsonv.Each(r, "promptEntryIds", entry.DecodeID)}, r.Err()
	case kindCompaction:
		return CompactionIntent{CustomInstructions: r.OptStr("customInstructions")}, r.Err()
	case kindNavigation:
		return NavigationIntent{
			TargetID: nullableEntry(r, "targetId"), Summarize: r.Flag("summarize"),
			Label: r.OptStr("label"), CustomInstructions: r.OptStr("customInstructions"),
		}, r.Err()
	default:
		r.Fail("kind", "run, compaction or navigation", jsonv.Str(kind))
	}
	return nil, r.Err()
}

// Value returns the register payload.
func (c Configuration) Value() jsonv.Value { return tree(c.write) }

func (c Configuration) write(w *jsonv.Writer) {
	w.Begin()
	w.Name("model")
	w.Begin()
	w.Str("provider", c.Model.Provider)
	w.Str("modelId", c.Model.ModelID)
	w.End()
	w.Str("thinkingLevel", string(c.ThinkingLevel))
	w.Strs("activeToolNames", c.ActiveToolNames)
	w.End()
}

// DecodeConfiguration reads strand.config.
func DecodeConfiguration(v jsonv.Value) (Configuration, error) {
	r := jsonv.Read(v, "machine.DecodeConfiguration")
	c := Configuration{
		Model: jsonv.One(r, "model", func(v jsonv.Value) (ModelRef, error) {
			r := jsonv.Read(v, "machine.DecodeConfiguration")
			return ModelRef{r.Str("provider"), r.Str("modelId")}, r.Err()
		}),
		ThinkingLevel: word(r, "thinkingLevel",
			ThinkingOff, ThinkingMinimal, ThinkingLow, ThinkingMedium, ThinkingHigh, ThinkingXHigh, ThinkingMax),
		ActiveToolNames: r.Strs("activeToolNames"),
	}
	return whole(c, r)
}

// Value returns the register payload.
func (s StrandState) Value() jsonv.Value {
	return tree(func(w *jsonv.Writer) {
		w.Begin()
		w.Name("currentOperationId")
		if s.CurrentOperation.IsZero() {
			w.Null()
		} else {
			w.String(s.CurrentOperation.String())
		}
		entryList(w, "pendingNextRun", s.PendingNextRun)
		if s.Start != nil {
			w.Name("start")
			w.Begin()
			w.OptNum("maxTurns", s.Start.MaxTurns)
			w.End()
		}
		w.End()
	})
}

// DecodeStrandState reads strand.state.
func DecodeStrandState(v jsonv.Value) (StrandState, error) {
	r := jsonv.Read(v, "machine.DecodeStrandState")
	r.Value("currentOperationId")
	s := StrandState{PendingNextRun: jsonv.Each(r, "pendingNextRun", entry.DecodeID)}
	if op := jsonv.OptOne(r, "currentOperationId", decodeOpID); op != nil {
		s.CurrentOperation = *op
	}
	s.Start = jsonv.OptOne(r, "start", func(v jsonv.Value) (Start, error) {
		r := jsonv.Read(v, "machine.DecodeStrandState")
		return Start{r.OptNum("maxTurns")}, r.Err()
	})
	return whole(s, r)
}
