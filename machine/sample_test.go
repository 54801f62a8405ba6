package machine_test

import (
	"flag"
	"slices"
	"sync"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/machine"
)

var update = flag.Bool("update", false, "rewrite the texts under testdata")

// codec is the encoder and decoder of one register, over text.
type codec struct {
	namespace register.Namespace
	samples   []sample
	// decode reads a value and returns its encoding again, and what it read.
	decode func(jsonv.Value) (again jsonv.Value, read any, err error)
}

// sample is one value of a register, one for each way in which it can be built.
type sample struct {
	name  string
	value jsonv.Value
	made  any
}

func codecOf[T any](ns register.Namespace, decode func(jsonv.Value) (T, error), encode func(T) jsonv.Value, made ...named[T]) codec {
	c := codec{namespace: ns, decode: func(v jsonv.Value) (jsonv.Value, any, error) {
		x, err := decode(v)
		if err != nil {
			return jsonv.Value{}, x, err
		}
		return encode(x), x, nil
	}}
	for _, m := range made {
		c.samples = append(c.samples, sample{m.name, encode(m.value), m.value})
	}
	return c
}

type named[T any] struct {
	name  string
	value T
}

// codecs are all registers whose payload this package owns.
var codecs = sync.OnceValue(func() []codec {
	return []codec{
		codecOf(register.OpState, machine.DecodeState, machine.State.Value, states()...),
		codecOf(register.OpMeta, machine.DecodeOperation, machine.Operation.Value, operations()...),
		codecOf(register.OpPreparation, machine.DecodePreparation, machine.PreparationValue, preparations()...),
		codecOf(register.StrandConfig, machine.DecodeConfiguration, machine.Configuration.Value, named[machine.Configuration]{"configuration", config}),
		codecOf(register.StrandState, machine.DecodeStrandState, machine.StrandState.Value,
			named[machine.StrandState]{"idle", machine.StrandState{}},
			named[machine.StrandState]{"busy", machine.StrandState{CurrentOperation: opID(1), PendingNextRun: entries(1, 2)}},
			named[machine.StrandState]{"starting by itself", machine.StrandState{PendingNextRun: entries(1), Start: &machine.Start{}}},
			named[machine.StrandState]{"starting by itself, with a limit", machine.StrandState{PendingNextRun: entries(1), Start: &machine.Start{MaxTurns: new(int64(3))}}}),
		codecOf(register.StrandLastResult, machine.DecodeLastResult, machine.LastResult.Value, results()...),
		codecOf(register.PendingEntry, machine.DecodePendingEntry, machine.PendingEntry.Value, pendings()...),
	}
})

func ids(n int) id.Generator {
	return id.NewGenerator(clock.Fixed(1767225600000+int64(n)), uint64(n))
}

func entryID(n int) id.EntryID {
	i, _ := ids(n).Entry()
	return i
}

func usageID(n int) id.UsageID {
	i, _ := ids(1000 + n).Usage()
	return i
}

func opID(n int) id.OpID {
	i, _ := ids(2000 + n).Op()
	return i
}

func entries(ns ...int) (list []id.EntryID) {
	for _, n := range ns {
		list = append(list, entryID(n))
	}
	return list
}

var (
	config = machine.Configuration{
		Model: machine.ModelRef{Provider: "openai", ModelID: "gpt-5"}, ThinkingLevel: machine.ThinkingLow, ActiveToolNames: []string{"read", "bash"},
	}
	settings = machine.Settings{
		Compaction:   machine.CompactionSettings{Enabled: true, ReserveTokens: 16384, KeepRecentTokens: 20000},
		SteeringMode: machine.DrainAll, FollowUpMode: machine.DrainOneAtATime, ToolExecution: machine.Parallel,
	}
	retry   = machine.RetryPolicy{MaxAttempts: new(int64(3)), BaseDelayMs: 1000, MaxDelayMs: 60000}
	options = jsonv.Obj(jsonv.F("temperature", jsonv.Num(0)))
	failure = machine.OperationError{Code: "provider_error", Message: "no", Details: new(jsonv.Value{})}

	checkpoint = machine.Checkpoint{
		Continuation: machine.NeedAssistant{OverflowRecoveryUsed: true}, Trigger: entryID(3), ThresholdChecked: entryID(3), SkipInboxOnce: true,
	}
	generation = machine.GenerationContext{
		StepID: entryID(4).String(), Trigger: entryID(3), Configuration: config, StreamOptions: options, RetryPolicy: retry,
	}
	summary = machine.SummaryContext{
		TaskID: entryID(5).String(), ResultEntryID: entryID(6), Kind: "compaction", Configuration: config, StreamOptions: options,
		RetryPolicy: machine.RetryPolicy{BaseDelayMs: 1000, MaxDelayMs: 60000}, Reason: machine.ReasonManual,
	}
)

func run(phase machine.Phase) machine.State {
	return machine.State{Control: machine.Running{}, Work: &machine.Run{Settings: settings, Phase: phase}}
}

// states has one state for each constructor of the sums that a state is made of.
func states() (list []named[machine.State]) {
	add := func(name string, s machine.State) { list = append(list, named[machine.State]{name, s}) }

	add("run/starting", run(machine.Starting{}))
	full := run(machine.AtCheckpoint{Checkpoint: checkpoint})
	full.Control = machine.CancelRequested{RequestedAt: 1767225600000, DrainedSteer: entries(10), DrainedFollows: entries(11, 12)}
	work := full.Work.(*machine.Run)
	work.Settings.MaxTurns, work.Turns = new(int64(9)), 2
	work.LatestAssistant = entryID(2)
	work.Inbox = machine.Inbox{Steer: entries(13), FollowUp: entries(14), Writes: entries(15, 16)}
	add("run/checkpoint/need_assistant", full)
	add("run/checkpoint/may_finish", run(machine.AtCheckpoint{Checkpoint: machine.Checkpoint{
		Continuation: machine.MayFinish{IncludeFinalAssistant: true}, Trigger: entryID(2),
	}}))
	add("run/assistant/ready", run(machine.Generating{Generation: machine.GenReady{Context: generation, NextAttempt: 1}}))
	add("run/assistant/effect_pending", run(machine.Generating{Generation: machine.GenPending{
		Context: generation, Attempt: 1, ResponseID: entryID(7), UsageID: usageID(1),
		IntendedOutputLimit: 8192, ContextWindow: 200000, RequestAPI: "openai-completions",
	}}))
	add("run/assistant/retry_wait", run(machine.Generating{Generation: machine.GenRetryWait{
		Context: generation, NextAttempt: 2, NotBefore: 1767225601000, ErrorMessage: "busy",
	}}))
	add("run/tools", run(machine.RunningTools{Batch: machine.Batch{
		AssistantID: entryID(7), Configuration: config, TurnID: generation.StepID, Calls: []machine.Call{
			{SourceIndex: 1, ResultID: entryID(20), Status: machine.Completed{Terminate: true}},
			{SourceIndex: 2, ResultID: entryID(21), Status: machine.OutcomeReady{}},
			{SourceIndex: 4, ResultID: entryID(22), Status: machine.InFlight{Replay: machine.ReplaySafe}},
			{SourceIndex: 5, ResultID: entryID(23), Status: machine.Planned{}},
		},
	}}))
	held := machine.Pause{
		Gate: entryID(30).String(), Reason: words.PausedOnApproval, Subject: jsonv.Obj(jsonv.F("command", jsonv.Str("npm install"))),
		AskedAt: 1767225600000, Window: words.ExpiredApproval, AnswerBy: 1767225900000, ParkUntil: 1767312000000,
	}
	question, plan := held, held
	question.Reason, question.AnswerBy, question.Window = words.PausedOnQuestion, 0, ""
	plan.Reason, plan.Window, plan.ParkUntil = words.PausedOnPlan, words.ExpiredDenialLimit, 0
	add("run/tools/paused", run(machine.RunningTools{Batch: machine.Batch{
		AssistantID: entryID(7), Configuration: config, TurnID: generation.StepID, Calls: []machine.Call{
			{SourceIndex: 0, ResultID: entryID(20), Status: machine.Held{Pause: held}},
			{SourceIndex: 1, ResultID: entryID(21), Status: machine.Held{Pause: question}},
			{SourceIndex: 2, ResultID: entryID(22), Status: machine.Held{Pause: plan}},
			{SourceIndex: 3, ResultID: entryID(23), Status: machine.Decided{Pause: held, Decision: machine.Approve{}, At: 1767225601000, By: &ann}},
			{SourceIndex: 4, ResultID: entryID(24), Status: machine.Decided{Pause: plan, Decision: machine.Approve{Arguments: new(jsonv.Obj())}, At: 1767225601000}},
			{SourceIndex: 5, ResultID: entryID(25), Status: machine.Decided{Pause: held, Decision: machine.Deny{Note: new("not now")}, At: 1767225601000}},
			{SourceIndex: 6, ResultID: entryID(26), Status: machine.Decided{Pause: held, Decision: machine.Deny{}, At: 1767225601000}},
			{SourceIndex: 7, ResultID: entryID(27), Status: machine.Decided{Pause: question, Decision: machine.Reply{
				Content: []message.UserBlock{message.Text{Text: "blue"}, message.Image{Data: "AA==", MimeType: "image/png"}},
			}, At: 1767225601000}},
		},
	}}))
	add("run/tools/ends", run(machine.RunningTools{Batch: machine.Batch{
		AssistantID: entryID(7), Configuration: config, TurnID: generation.StepID, Ends: &machine.OperationError{Code: string(words.ExpiredPark), Message: "too long"},
		Calls: []machine.Call{{SourceIndex: 0, ResultID: entryID(20), Status: machine.OutcomeReady{}}},
	}}))
	add("run/deferred/polled", run(machine.AwaitingDeferred{Deferred: machine.DeferredWait{
		StepID: generation.StepID, SourceEntryID: entryID(7), Poll: 2, Configuration: config, StreamOptions: options, NotBefore: 1767225610000,
	}}))
	again := run(machine.AtCheckpoint{Checkpoint: checkpoint})
	again.Work.(*machine.Run).Compactions = 2
	add("run/checkpoint/compacted", again)
	add("run/deferred/suspended", run(machine.AwaitingDeferred{Deferred: machine.DeferredWait{
		StepID: generation.StepID, SourceEntryID: entryID(7), Configuration: config, StreamOptions: options,
	}}))
	add("run/deferred/effect_pending", run(machine.AwaitingDeferred{Deferred: machine.DeferredWait{
		StepID: generation.StepID, SourceEntryID: entryID(7), Poll: 3, Configuration: config, StreamOptions: options,
		ResponseID: entryID(8), UsageID: usageID(2),
	}}))
	for name, s := range structurals() {
		add("run/compaction/"+name, run(machine.Compacting{Reason: machine.ReasonOverflow, Structural: s, ResumeAfter: checkpoint}))
		add("compaction/"+name, machine.State{Control: machine.Running{}, Work: &machine.Compaction{CustomInstructions: new("short"), Structural: s}})
		add("navigation/"+name, machine.State{Control: machine.Running{}, Work: &machine.Navigation{
			TargetID: entryID(1), Label: new("here"), CustomInstructions: new("short"), Structural: &s,
		}})
	}
	add("navigation/unsummarised", machine.State{Control: machine.Running{}, Work: &machine.Navigation{}})
	for _, p := range []named[machine.Provenance]{
		{"response", machine.FromResponse{EntryID: entryID(7)}}, {"structural", machine.FromStructural{TaskID: summary.TaskID}},
		{"configuration", machine.FromConfiguration{}},
	} {
		add("run/failure_drain/"+p.name, run(machine.FailureDrain{Error: failure, Provenance: p.value}))
	}
	return list
}

// state is the sample with a name.
func state(name string) machine.State {
	all := states()
	return all[slices.IndexFunc(all, func(s named[machine.State]) bool { return s.name == name })].value
}

// structurals yields the stages of a summary in a fixed order.
func structurals() func(func(string, machine.Structural) bool) {
	at := func(g machine.SummaryGeneration) machine.Structural {
		return machine.Structural{TaskID: summary.TaskID, Generation: g}
	}
	branch, partly := summary, summary
	branch.Kind, branch.Reason = "branch_summary", machine.ReasonThreshold
	partly.Progress = machine.SummaryProgress{Messages: 12, Summary: "so far", Shrunk: 1}
	return func(yield func(string, machine.Structural) bool) {
		_ = yield("deciding", at(nil)) &&
			yield("ready", at(machine.SummaryReady{Context: summary, NextAttempt: 1})) &&
			yield("effect_pending", at(machine.SummaryPending{Context: branch, Attempt: 1})) &&
			yield("effect_pending/request", at(machine.SummaryPending{
				Context: summary, Attempt: 2, Request: &machine.SummaryRequest{Index: 1, UsageID: usageID(4)},
				UsageIDs: []id.UsageID{usageID(3), usageID(4)},
			})) &&
			yield("retry_wait", at(machine.SummaryRetryWait{Context: summary, NextAttempt: 2, NotBefore: 1767225601000, ErrorMessage: "busy"})) &&
			yield("ready/progress", at(machine.SummaryReady{Context: partly, NextAttempt: 2}))
	}
}

func operations() []named[machine.Operation] {
	op := func(source id.EntryID, in machine.Intent) machine.Operation {
		return machine.Operation{ID: opID(1), Strand: "main", SourceLeaf: source, StartedAt: 1767225600000, Intent: in}
	}
	return []named[machine.Operation]{
		{"run", op(id.EntryID{}, machine.RunIntent{PromptEntryIDs: entries(1, 2)})},
		{"compaction", op(entryID(1), machine.CompactionIntent{CustomInstructions: new("short")})},
		{"compaction/plain", op(entryID(1), machine.CompactionIntent{})},
		{"navigation", op(entryID(1), machine.NavigationIntent{TargetID: entryID(2), Summarize: true, Label: new("here"), CustomInstructions: new("")})},
		{"navigation/root", op(entryID(1), machine.NavigationIntent{})},
	}
}

func results() []named[machine.LastResult] {
	of := func(kind string, o machine.Outcome) machine.LastResult {
		r := machine.LastResult{Kind: kind, OperationID: opID(1), LeafID: entryID(9), Outcome: o}
		if o == machine.OutcomeFailed {
			r.Error = &failure
		}
		return r
	}
	byAssistant, byTools, failed := of("run", machine.OutcomeCompleted), of("run", machine.OutcomeCompleted), of("run", machine.OutcomeFailed)
	byAssistant.Completion, byAssistant.FinalAssistant = machine.ByAssistant, entryID(9)
	byTools.Completion = machine.ByTerminatedTools
	failed.FinalAssistant = entryID(9)
	aborted := of("run", machine.OutcomeAborted)
	aborted.LeafID = id.EntryID{}
	moved := of("navigation", machine.OutcomeCompleted)
	moved.OldLeafID, moved.SummaryEntryID = entryID(1), entryID(9)
	return []named[machine.LastResult]{
		{"run/completed/assistant", byAssistant}, {"run/completed/terminated_tools", byTools},
		{"run/failed", failed}, {"run/aborted", aborted},
		{"compaction/completed", of("compaction", machine.OutcomeCompleted)}, {"compaction/declined", of("compaction", machine.OutcomeDeclined)},
		{"compaction/failed", of("compaction", machine.OutcomeFailed)}, {"compaction/aborted", of("compaction", machine.OutcomeAborted)},
		{"navigation/completed", moved}, {"navigation/declined", of("navigation", machine.OutcomeDeclined)},
		{"navigation/failed", of("navigation", machine.OutcomeFailed)}, {"navigation/aborted", of("navigation", machine.OutcomeAborted)},
	}
}

func text(s string) *message.User {
	return &message.User{Content: []message.UserBlock{message.Text{Text: s}}, Timestamp: 1767225600000}
}

func pendings() []named[machine.PendingEntry] {
	return []named[machine.PendingEntry]{
		{"message/user", machine.PendingMessage(text("hello"))},
		{"message/tool_result", machine.PendingMessage(&message.ToolResult{
			ToolCallID: "c1", ToolName: "read", Content: []message.ResultBlock{message.Text{Text: "ok"}}, Usage: new(usage.Zero()), Timestamp: 1767225600000,
		})},
		{"custom", machine.PendingEntry{Body: entry.Custom{Type: "note"}}},
		{"custom/null", machine.PendingEntry{Body: entry.Custom{Type: "note", Data: new(jsonv.Value{})}}},
	}
}

func preparations() []named[machine.Preparation] {
	files := machine.FileOps{Read: []string{"a", "b"}, Written: []string{"c"}}
	return []named[machine.Preparation]{
		{"compaction", &machine.CompactionPreparation{
			MessagesToSummarize: []message.Message{text("old")}, RetainedTail: []message.Message{text("new")},
			TokensBefore: 150000, PreviousSummary: new("before"), FileOps: files, Settings: settings.Compaction,
		}},
		{"compaction/split", &machine.CompactionPreparation{TurnPrefixMessages: []message.Message{text("half")}, IsSplitTurn: true}},
		{"branch_summary", &machine.BranchPreparation{Messages: []message.Message{text("left")}, FileOps: files, TotalTokens: 12}},
	}
}
