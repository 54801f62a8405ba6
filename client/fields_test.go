package client_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/loom-run/loom/client"
	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/client/project"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/wiretest"
)

var wiretestOp2 = wiretest.Op(2)

// maps marks a field that reaches an output. Any other text is the reason why
// it does not.
const mapped = ""

// disposition says of every field of every body what becomes of it. A field that
// is new on the wire is missing here, and the test is red until somebody decides.
var disposition = map[string]string{
	"Frame.ID":        mapped,
	"Frame.Cursor":    "it orders frames and is kept in the state; no output needs it",
	"Frame.Delivery":  "what it promises is in the plane that an output is on",
	"Frame.Session":   mapped,
	"Frame.Lane":      "it decides whether an output is made at all",
	"Frame.Task":      "it decides the proof; the body of a task's frame names it again",
	"Frame.Parent":    "outputs have the order of their commits; who walks the tree reads pages",
	"Frame.Strand":    "it decides the lane; outputs of other strands do not exist",
	"Frame.Operation": mapped,
	"Frame.Body":      "its fields are listed one by one",

	"RunStart.Model.Provider": mapped, "RunStart.Model.ModelID": mapped,
	"RunStart.Mode": mapped, "RunStart.Cwd": mapped, "RunStart.MaxTurns": mapped,
	"RunStart.Roster": mapped, "RunStart.Hands": mapped, "RunStart.MCP": mapped,

	"TurnStart.Entry": mapped, "TurnStart.Attempt": mapped, "TurnStart.Model.Provider": mapped, "TurnStart.Model.ModelID": mapped,

	"UserMessage.Entry": mapped, "UserMessage.Text": mapped, "UserMessage.Bytes": mapped, "UserMessage.Images": mapped,
	"UserMessage.Author.Kind": mapped, "UserMessage.Author.ID": mapped, "UserMessage.Author.Label": mapped,

	"TextDelta.Segment.Entry": mapped, "TextDelta.Segment.Block": mapped, "TextDelta.Text": mapped,
	"TextDelta.Offset":      "it tells whether a piece is missing; what is shown has no gaps",
	"TextEnd.Segment.Entry": mapped, "TextEnd.Segment.Block": mapped, "TextEnd.Content": mapped,

	"ReasoningDelta.Segment.Entry": mapped, "ReasoningDelta.Segment.Block": mapped, "ReasoningDelta.Text": mapped,
	"ReasoningDelta.Offset":      "it tells whether a piece is missing; what is shown has no gaps",
	"ReasoningEnd.Segment.Entry": mapped, "ReasoningEnd.Segment.Block": mapped, "ReasoningEnd.Content": mapped, "ReasoningEnd.Redacted": mapped,

	"ToolCallDelta.Segment.Entry": mapped, "ToolCallDelta.Segment.Block": mapped, "ToolCallDelta.CallID": mapped,
	"ToolCallDelta.Name": mapped, "ToolCallDelta.Fragment": mapped, "ToolCallDelta.Offset": mapped,

	"ToolDisclosure.CallID": mapped, "ToolDisclosure.Name": mapped, "ToolDisclosure.Title": mapped, "ToolDisclosure.Class": mapped,
	"ToolDisclosure.Target": mapped, "ToolDisclosure.Mount": mapped,

	"ToolCall.Segment.Entry": mapped, "ToolCall.Segment.Block": mapped,
	"ToolCall.CallID": mapped, "ToolCall.Name": mapped, "ToolCall.Arguments": mapped,

	"ToolProgress.CallID": mapped, "ToolProgress.Stream": mapped, "ToolProgress.Tail": mapped, "ToolProgress.TotalBytes": mapped, "ToolProgress.ElapsedMs": mapped,

	"ToolResult.Entry": mapped, "ToolResult.CallID": mapped, "ToolResult.Name": mapped,
	"ToolResult.Text.Text": mapped, "ToolResult.Text.Bytes": mapped, "ToolResult.Images": mapped, "ToolResult.IsError": mapped,
	"ToolResult.Gate.Disposition": mapped, "ToolResult.Gate.Settlement": mapped, "ToolResult.Gate.DeniedBy": mapped, "ToolResult.Gate.Origin": mapped,
	"ToolResult.Gate.Decider.Kind": mapped, "ToolResult.Gate.Decider.ID": mapped, "ToolResult.Gate.Decider.Label": mapped,
	"ToolResult.Structured": mapped, "ToolResult.StructuredBytes": mapped,

	"TurnEnd.Entry": mapped, "TurnEnd.StopReason": mapped, "TurnEnd.ErrorMessage": mapped,
	"TurnEnd.Model.Provider": mapped, "TurnEnd.Model.ModelID": mapped,
	"TurnEnd.Usage.Input": mapped, "TurnEnd.Usage.Output": mapped, "TurnEnd.Usage.CacheRead": mapped, "TurnEnd.Usage.CacheWrite": mapped,
	"TurnEnd.Usage.CostMicroUSD": mapped, "TurnEnd.Usage.Measured": mapped, "TurnEnd.Usage.LowerBound": mapped, "TurnEnd.Usage.CostLowerBound": mapped,

	"LastTurnUsage.Entry": mapped, "LastTurnUsage.Model.Provider": mapped, "LastTurnUsage.Model.ModelID": mapped,
	"LastTurnUsage.ContextTokens": mapped, "LastTurnUsage.ContextWindow": mapped,
	"LastTurnUsage.Usage.Input": mapped, "LastTurnUsage.Usage.Output": mapped, "LastTurnUsage.Usage.CacheRead": mapped, "LastTurnUsage.Usage.CacheWrite": mapped,
	"LastTurnUsage.Usage.CostMicroUSD": mapped, "LastTurnUsage.Usage.Measured": mapped, "LastTurnUsage.Usage.LowerBound": mapped, "LastTurnUsage.Usage.CostLowerBound": mapped,

	"CompactionBoundary.Entry": mapped, "CompactionBoundary.Trigger": mapped, "CompactionBoundary.Summary": mapped, "CompactionBoundary.Bytes": mapped,
	"CompactionBoundary.TokensBefore": mapped, "CompactionBoundary.TokensAfter": mapped, "CompactionBoundary.Kept": mapped, "CompactionBoundary.FromHook": mapped,
	"CompactionBoundary.Usage.Input": mapped, "CompactionBoundary.Usage.Output": mapped, "CompactionBoundary.Usage.CacheRead": mapped, "CompactionBoundary.Usage.CacheWrite": mapped,
	"CompactionBoundary.Usage.CostMicroUSD": mapped, "CompactionBoundary.Usage.Measured": mapped, "CompactionBoundary.Usage.LowerBound": mapped, "CompactionBoundary.Usage.CostLowerBound": mapped,

	"BranchSummary.Entry": mapped, "BranchSummary.From": mapped, "BranchSummary.Summary": mapped, "BranchSummary.Bytes": mapped, "BranchSummary.FromHook": mapped,
	"BranchSummary.Usage.Input": mapped, "BranchSummary.Usage.Output": mapped, "BranchSummary.Usage.CacheRead": mapped, "BranchSummary.Usage.CacheWrite": mapped,
	"BranchSummary.Usage.CostMicroUSD": mapped, "BranchSummary.Usage.Measured": mapped, "BranchSummary.Usage.LowerBound": mapped, "BranchSummary.Usage.CostLowerBound": mapped,

	"Retry.Attempt": mapped, "Retry.MaxAttempts": mapped, "Retry.UntilMs": mapped, "Retry.Error": mapped,

	"RunEnd.Terminal": mapped, "RunEnd.FinalEntry": mapped,
	"RunEnd.Gates.CallID": mapped, "RunEnd.Gates.Gate.Disposition": mapped, "RunEnd.Gates.Gate.Settlement": mapped,
	"RunEnd.Gates.Gate.DeniedBy": mapped, "RunEnd.Gates.Gate.Origin": mapped,
	"RunEnd.Gates.Gate.Decider.Kind": mapped, "RunEnd.Gates.Gate.Decider.ID": mapped, "RunEnd.Gates.Gate.Decider.Label": mapped,
	"RunEnd.Usage.Input": mapped, "RunEnd.Usage.Output": mapped, "RunEnd.Usage.CacheRead": mapped, "RunEnd.Usage.CacheWrite": mapped,
	"RunEnd.Usage.CostMicroUSD": mapped, "RunEnd.Usage.Measured": mapped, "RunEnd.Usage.LowerBound": mapped, "RunEnd.Usage.CostLowerBound": mapped,

	"RunStopped.Code": mapped, "RunStopped.Message": mapped,

	"Activity.Queued": mapped, "Activity.State": mapped, "Activity.Tasks": mapped,

	"ApprovalRequest.AskedAtMs": mapped, "ApprovalRequest.AutoModeUnavailable": mapped, "ApprovalRequest.Binding.BoundCallID": mapped,
	"ApprovalRequest.Binding.BoundInputHash": mapped, "ApprovalRequest.ExpiresAtMs": mapped, "ApprovalRequest.ID": mapped,
	"ApprovalRequest.Input": mapped, "ApprovalRequest.Lifetimes": mapped, "ApprovalRequest.Mandate": mapped, "ApprovalRequest.Mandated": mapped,
	"ApprovalRequest.Origin": mapped, "ApprovalRequest.ProbeReason": mapped, "ApprovalRequest.ReadRootCandidate": mapped,
	"ApprovalRequest.RuleOffers.Behavior": mapped, "ApprovalRequest.RuleOffers.Destinations": mapped, "ApprovalRequest.RuleOffers.Rule": mapped,
	"ApprovalRequest.RuleOffersAbsence": mapped, "ApprovalRequest.Seq": mapped, "ApprovalRequest.Title": mapped, "ApprovalRequest.Tool": mapped,

	"ApprovalSettled.CallID": mapped, "ApprovalSettled.Decider.ID": mapped, "ApprovalSettled.Decider.Kind": mapped,
	"ApprovalSettled.Decider.Label": mapped, "ApprovalSettled.ID": mapped, "ApprovalSettled.Settlement": mapped,

	"Background.Tasks.CallID": mapped, "Background.Tasks.Command": mapped, "Background.Tasks.DeadlineMs": mapped,
	"Background.Tasks.Description": mapped, "Background.Tasks.Parent": mapped, "Background.Tasks.Released": mapped,
	"Background.Tasks.StartedAtMs": mapped, "Background.Tasks.Stats.CostMicroUSD": mapped, "Background.Tasks.Stats.DurationMs": mapped,
	"Background.Tasks.Stats.LowerBound": mapped, "Background.Tasks.Stats.Tokens": mapped, "Background.Tasks.Stats.ToolUses": mapped,
	"Background.Tasks.Status": mapped, "Background.Tasks.Task": mapped, "Background.Tasks.TaskKind": mapped,

	"Diagnostics.CallID": mapped, "Diagnostics.Files.Items.Column": mapped, "Diagnostics.Files.Items.Line": mapped,
	"Diagnostics.Files.Items.Message": mapped, "Diagnostics.Files.Items.Severity": mapped, "Diagnostics.Files.Items.Source": mapped,
	"Diagnostics.Files.Path": mapped, "Diagnostics.Settled": mapped,

	"HookNotice.CallID": mapped, "HookNotice.Event": mapped, "HookNotice.ExitCode": mapped, "HookNotice.Hook": mapped, "HookNotice.Name": mapped,
	"HookNotice.Outcome": mapped, "HookNotice.Output": mapped, "HookNotice.Phase": mapped,

	"InputTaken.Entry": mapped, "InputTaken.Item": mapped, "InputTaken.Lane": mapped,

	"InputUnused.Cause": mapped, "InputUnused.Child": mapped, "InputUnused.Count": mapped, "InputUnused.Items": mapped, "InputUnused.Lane": mapped,

	"PendingLevel.Rows": mapped,

	"PlanRequest.AskedAtMs": mapped, "PlanRequest.Binding.BoundCallID": mapped, "PlanRequest.Binding.BoundInputHash": mapped,
	"PlanRequest.ExpiresAtMs": mapped, "PlanRequest.ID": mapped, "PlanRequest.Plan": mapped, "PlanRequest.Seq": mapped,

	"PlanSettled.CallID": mapped, "PlanSettled.Decider.ID": mapped, "PlanSettled.Decider.Kind": mapped, "PlanSettled.Decider.Label": mapped,
	"PlanSettled.Expiry": mapped, "PlanSettled.ID": mapped, "PlanSettled.Verdict": mapped,

	"Presence.Clients.Author.ID": mapped, "Presence.Clients.Author.Kind": mapped, "Presence.Clients.Author.Label": mapped,
	"Presence.Clients.CanDecide": mapped, "Presence.Clients.Connection": mapped,

	"QuestionRequest.AskedAtMs": mapped, "QuestionRequest.Binding.BoundCallID": mapped, "QuestionRequest.Binding.BoundInputHash": mapped,
	"QuestionRequest.ExpiresAtMs": mapped, "QuestionRequest.ID": mapped, "QuestionRequest.Questions.Header": mapped,
	"QuestionRequest.Questions.ID": mapped, "QuestionRequest.Questions.Multiple": mapped, "QuestionRequest.Questions.Options.About": mapped,
	"QuestionRequest.Questions.Options.ID": mapped, "QuestionRequest.Questions.Options.Label": mapped, "QuestionRequest.Questions.Text": mapped,
	"QuestionRequest.Seq": mapped,

	"QuestionSettled.Answered": mapped, "QuestionSettled.CallID": mapped, "QuestionSettled.Decider.ID": mapped, "QuestionSettled.Decider.Kind": mapped,
	"QuestionSettled.Decider.Label": mapped, "QuestionSettled.Expiry": mapped, "QuestionSettled.ID": mapped,

	"Queue.Items.Author.ID": mapped, "Queue.Items.Author.Kind": mapped, "Queue.Items.Author.Label": mapped, "Queue.Items.Bytes": mapped,
	"Queue.Items.Editable": mapped, "Queue.Items.ID": mapped, "Queue.Items.Images": mapped, "Queue.Items.Lane": mapped, "Queue.Items.Revision": mapped,
	"Queue.Items.Text": mapped,

	"RosterChange.Roster.Count": mapped, "RosterChange.Roster.Digest": mapped, "RosterChange.Roster.Tools.Face.Class": mapped,
	"RosterChange.Roster.Tools.Face.Exclusive": mapped, "RosterChange.Roster.Tools.Face.PathField": mapped,
	"RosterChange.Roster.Tools.Face.Repeats": mapped, "RosterChange.Roster.Tools.Face.Title": mapped, "RosterChange.Roster.Tools.Mount": mapped,
	"RosterChange.Roster.Tools.Name": mapped, "RosterChange.Summary.Added": mapped, "RosterChange.Summary.BaseDigest": mapped,
	"RosterChange.Summary.Removed": mapped,

	"Settings.ActiveTools": mapped, "Settings.Mode": mapped, "Settings.Model.ModelID": mapped, "Settings.Model.Provider": mapped,
	"Settings.ThinkingLevel": mapped,

	"TaskNotification.CallID": mapped, "TaskNotification.Diagnostics": mapped, "TaskNotification.EditedFiles": mapped,
	"TaskNotification.ExitCode": mapped, "TaskNotification.Injected": mapped, "TaskNotification.Lines": mapped, "TaskNotification.OutputFile": mapped,
	"TaskNotification.Partial": mapped, "TaskNotification.RecentSteps": mapped, "TaskNotification.Result": mapped, "TaskNotification.Resumable": mapped,
	"TaskNotification.Seq": mapped, "TaskNotification.Source": mapped, "TaskNotification.Stats.CostMicroUSD": mapped,
	"TaskNotification.Stats.DurationMs": mapped, "TaskNotification.Stats.LowerBound": mapped, "TaskNotification.Stats.Tokens": mapped,
	"TaskNotification.Stats.ToolUses": mapped, "TaskNotification.Status": mapped, "TaskNotification.StoppedBy": mapped,
	"TaskNotification.Summary": mapped, "TaskNotification.Task": mapped, "TaskNotification.TaskKind": mapped,

	"TaskProgress.CallID": mapped, "TaskProgress.Description": mapped, "TaskProgress.LastTool": mapped, "TaskProgress.Stats.CostMicroUSD": mapped,
	"TaskProgress.Stats.DurationMs": mapped, "TaskProgress.Stats.LowerBound": mapped, "TaskProgress.Stats.Tokens": mapped,
	"TaskProgress.Stats.ToolUses": mapped, "TaskProgress.Summary": mapped, "TaskProgress.Task": mapped,

	"TaskStarted.AgentType": mapped, "TaskStarted.Background": mapped, "TaskStarted.CallID": mapped, "TaskStarted.Depth": mapped,
	"TaskStarted.Description": mapped, "TaskStarted.Parent": mapped, "TaskStarted.Task": mapped, "TaskStarted.TaskKind": mapped,
	"TaskStarted.Workflow": mapped,

	"WorkflowProgress.Approvals": mapped, "WorkflowProgress.Name": mapped, "WorkflowProgress.Refusal": mapped, "WorkflowProgress.Run": mapped,
	"WorkflowProgress.Stats.CostMicroUSD": mapped, "WorkflowProgress.Stats.DurationMs": mapped, "WorkflowProgress.Stats.LowerBound": mapped,
	"WorkflowProgress.Stats.Tokens": mapped, "WorkflowProgress.Stats.ToolUses": mapped, "WorkflowProgress.Status": mapped,
	"WorkflowProgress.Steps.After": mapped, "WorkflowProgress.Steps.ID": mapped, "WorkflowProgress.Steps.Status": mapped,
	"WorkflowProgress.Steps.Task": mapped, "WorkflowProgress.Steps.Title": mapped,

	"WorkspaceChanged.Branch": mapped, "WorkspaceChanged.CallID": mapped, "WorkspaceChanged.Changes.Change": mapped,
	"WorkspaceChanged.Changes.From": mapped, "WorkspaceChanged.Changes.Path": mapped,

	"Notice.Code": mapped, "Notice.Facts.Name": mapped, "Notice.Facts.Value": mapped,
	"Notice.Audience": "the catalogue decides; a code cannot promote itself",
}

// bodies is one filled body of each kind. Fields of it are changed one at a time.
func bodies() map[wire.Kind]wire.Body {
	usage := wire.Usage{Input: 11, Output: 12, CacheRead: 13, CacheWrite: 14, Measured: true, CostMicroUSD: new(int64(15))}
	author := &wire.Author{Kind: "human", ID: "p", Label: "l"}
	gate := wire.Gate{
		Disposition: words.GateAllowed, Settlement: new(words.ApprovedOnce), DeniedBy: new(words.DeniedByMode), Origin: new(words.AskedByMode), Decider: author,
	}
	all := map[wire.Kind]wire.Body{
		wire.KindRunStart:       wire.RunStart{Model: model, Mode: "default", Cwd: "/w", MaxTurns: new(int64(3)), Roster: roster},
		wire.KindTurnStart:      wire.TurnStart{Entry: wiretest.Entry(1), Model: &wire.ModelRef{Provider: "p", ModelID: "m"}, Attempt: new(int64(1))},
		wire.KindUserMessage:    wire.UserMessage{Entry: wiretest.Entry(1), Text: "t", Bytes: 1, Images: 2, Author: author},
		wire.KindTextDelta:      wire.TextDelta{Segment: seg(1, 0), Text: "t"},
		wire.KindTextEnd:        wire.TextEnd{Segment: seg(1, 0), Content: "t"},
		wire.KindReasoningDelta: wire.ReasoningDelta{Segment: seg(1, 0), Text: "t"},
		wire.KindReasoningEnd:   wire.ReasoningEnd{Segment: seg(1, 0), Content: "t"},
		wire.KindToolCallDelta:  wire.ToolCallDelta{Segment: seg(1, 0), CallID: "c", Name: "n", Fragment: "f"},
		wire.KindToolCall:       wire.ToolCall{Segment: seg(1, 0), CallID: "c", Name: "n", Arguments: jsonv.Obj()},
		wire.KindToolDisclosure: wire.ToolDisclosure{
			CallID: "c", Name: "n", Title: new("t"), Class: new(words.ClassRead), Target: new("a"), Mount: new(words.MountedHands),
		},
		wire.KindToolProgress: wire.ToolProgress{CallID: "c", Stream: "s", Tail: "t", TotalBytes: 1, ElapsedMs: new(int64(5))},
		wire.KindToolResult: wire.ToolResult{
			Entry: wiretest.Entry(1), CallID: "c", Name: "n", Text: []wire.TextBlock{{Text: "t", Bytes: 1}}, Gate: &gate,
			Structured: new(jsonv.Obj()), StructuredBytes: 2,
		},
		wire.KindTurnEnd: wire.TurnEnd{Entry: wiretest.Entry(1), Usage: usage, StopReason: "stop", Model: model, ErrorMessage: new("e")},
		wire.KindLastTurnUsage: wire.LastTurnUsage{
			Entry: wiretest.Entry(1), Usage: usage, Model: model, ContextTokens: new(int64(1)), ContextWindow: new(int64(2)),
		},
		wire.KindRetry: wire.Retry{Attempt: 1, MaxAttempts: new(int64(8)), UntilMs: 2, Error: "e"},
		wire.KindCompactionBoundary: wire.CompactionBoundary{
			Entry: wiretest.Entry(1), Trigger: new(words.CompactedByHand), Summary: "s", Bytes: 1,
			TokensBefore: new(int64(1)), TokensAfter: new(int64(2)), Kept: 3, Usage: &usage,
		},
		wire.KindBranchSummary: wire.BranchSummary{Entry: wiretest.Entry(1), From: wiretest.Entry(2), Summary: "s", Bytes: 1, Usage: &usage},
		wire.KindRunEnd: wire.RunEnd{
			Terminal: wire.Completed{}, Usage: usage, Gates: []wire.GateRecord{{CallID: "c", Gate: gate}}, FinalEntry: wiretest.Entry(1),
		},
		wire.KindRunStopped: wire.RunStopped{Code: wire.StoreFull, Message: "m"},
		wire.KindNotice:     wire.Notice{Code: "c", Audience: words.ForUser, Facts: wire.Facts{{Name: "n", Value: jsonv.Str("t")}}},
	}
	for _, b := range besideBodies() {
		all[b.Kind()] = b
	}
	return all
}

// leaves walks the fields of a value that can be set, and hands out each with
// its path.
func leaves(v reflect.Value, path string, visit func(path string, field reflect.Value)) {
	switch v.Kind() {
	case reflect.Struct:
		if v.NumField() > 0 && v.Type().Field(0).IsExported() {
			for i := range v.NumField() {
				leaves(v.Field(i), path+"."+v.Type().Field(i).Name, visit)
			}
			return
		}
	case reflect.Pointer:
		if v.Elem().Kind() == reflect.Struct {
			leaves(v.Elem(), path, visit)
			return
		}
	case reflect.Slice:
		leaves(v.Index(0), path, visit)
		return
	}
	visit(path, v)
}

// change sets a field to another legal value.
func change(v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *jsonv.Value:
		*x = jsonv.Obj(jsonv.F("sentinel", jsonv.Num(1)))
		return
	case **jsonv.Value:
		*x = new(jsonv.Obj(jsonv.F("sentinel", jsonv.Num(1))))
		return
	case *wire.Stated[wire.Roster]:
		*x = wire.None[wire.Roster]()
		return
	case *wire.Stated[wire.Hands]:
		*x = wire.None[wire.Hands]()
		return
	case *wire.Stated[[]wire.MCPServer]:
		*x = wire.None[[]wire.MCPServer]()
		return
	case *wire.Stated[[]wire.ApprovalRequest]:
		*x = wire.None[[]wire.ApprovalRequest]()
		return
	case *wire.Pending:
		*x = wire.UnknownPending{Tag: "sentinel"}
		return
	case **bool:
		*x = new(!**x)
		return
	case *id.SessionID:
		*x = wiretest.Session(77)
		return
	case *wire.Cause:
		*x = wire.Failed{Code: "sentinel", Message: "m"}
		return
	case **int64:
		*x = new(int64(987))
		return
	}
	switch {
	case v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.String:
		v.Set(reflect.New(v.Type().Elem()))
		v.Elem().SetString("sentinel")
	case v.Type() == reflect.TypeFor[wire.Segment]().Field(0).Type:
		v.Set(reflect.ValueOf(wiretest.Entry(77)))
	case v.Kind() == reflect.String:
		v.SetString("sentinel")
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.CanInt():
		v.SetInt(v.Int() + 900)
	default:
		panic(fmt.Sprintf("no other value for %s", v.Type()))
	}
}

// deliveries are those that a kind has.
func deliveries(k wire.Kind) (out []wire.Delivery) {
	for _, d := range []wire.Delivery{wire.Replay, wire.Level, wire.Live} {
		if k.Delivers(d) {
			out = append(out, d)
		}
	}
	return out
}

func frameOf(b wire.Body) wire.Frame { return delivered(deliveries(b.Kind())[0], b) }

func delivered(d wire.Delivery, b wire.Body) wire.Frame {
	f := wire.Frame{ID: "k", Session: session, Lane: wire.LaneMain, Strand: "main", Operation: op, Body: b}
	f.Delivery = d
	if f.Delivery == wire.Replay {
		f.Cursor = wire.Cursor{Seq: 1}
	}
	return f
}

func outputs(f wire.Frame) string {
	s := client.New(plane.Watch{Session: f.Session, Strand: f.Strand, Operation: f.Operation}, project.Redraws)
	if f.Kind() == wire.KindRosterChange { // a summary is about a roster that is held
		s.Step(frameOf(wire.RunStart{Model: model, Roster: wire.FactOf(wire.RosterOf(nil))}))
	}
	return dump(s.Step(f))
}

// unmapped changes each field of a kind's body and complains where the output does
// not follow. It returns the paths.
func unmapped(t *testing.T, d wire.Delivery, k wire.Kind) (paths []string) {
	body := bodies()[k]
	name := reflect.TypeOf(body).Name()
	before := outputs(delivered(d, body))
	scratch := reflect.New(reflect.TypeOf(body)).Elem()
	scratch.Set(reflect.ValueOf(body))
	leaves(scratch, name, func(path string, _ reflect.Value) { paths = append(paths, path) })
	for _, path := range paths {
		fresh := reflect.New(reflect.TypeOf(body)).Elem()
		fresh.Set(reflect.ValueOf(bodies()[k]))
		leaves(fresh, name, func(p string, field reflect.Value) {
			if p == path {
				change(field)
			}
		})
		after := outputs(delivered(d, fresh.Interface().(wire.Body)))
		if why, ok := disposition[path]; ok && (after != before) != (why == mapped) && !strings.HasSuffix(path, ".Offset") {
			t.Errorf("%s, %s: the table says %q, and the output changes with it: %v", path, d, why, after != before)
		}
	}
	return paths
}

func TestEveryWireFieldIsMappedOrDroppedWithAReason(t *testing.T) {
	found := map[string]bool{}
	for _, k := range wire.Kinds() {
		_, ok := bodies()[k]
		if ok != client.Arms(k) {
			t.Errorf("kind %s has an arm: %v, and a body in this test: %v", k, client.Arms(k), ok)
		}
		if !ok {
			continue
		}
		for _, d := range deliveries(k) {
			for _, path := range unmapped(t, d, k) {
				found[path] = true
			}
		}
	}
	for i := range reflect.TypeFor[wire.Frame]().NumField() {
		found["Frame."+reflect.TypeFor[wire.Frame]().Field(i).Name] = true
	}
	for _, path := range slices.Sorted(maps.Keys(found)) {
		if _, ok := disposition[path]; !ok {
			t.Errorf("%s is new on the wire: map it, or drop it with a reason", path)
		}
	}
	for path := range disposition {
		if !found[path] {
			t.Errorf("%s is in the table and not on the wire", path)
		}
	}
}

func TestEnvelopeFieldsAreMapped(t *testing.T) {
	f := frameOf(bodies()[wire.KindRunEnd])
	before := outputs(f)
	for name, alter := range map[string]func(*wire.Frame){
		"Frame.ID":        func(f *wire.Frame) { f.ID = "other" },
		"Frame.Session":   func(f *wire.Frame) { f.Session = wiretest.Session(2) },
		"Frame.Operation": func(f *wire.Frame) { f.Operation = wiretest.Op(2) },
	} {
		other := f
		alter(&other)
		if disposition[name] != mapped || outputs(other) == before {
			t.Errorf("%s does not reach an output", name)
		}
	}
}

func TestEveryKindHasAnArmOrAReason(t *testing.T) {
	for _, k := range wire.Kinds() {
		if client.Arms(k) != (client.Unarmed(k) == "") {
			t.Errorf("%s: it has an arm: %v, and the reason %q", k, client.Arms(k), client.Unarmed(k))
		}
		if client.Arms(k) {
			continue
		}
		f := wire.Frame{ID: "k", Session: session, Lane: wire.LaneMain, Strand: "main", Operation: op, Body: wiretest.Body(k).Example(1)}
		f.Delivery = wire.Level
		s := client.New(watch, project.Redraws)
		if outs := s.Step(f); len(outs) != 0 || s.Drops().NoArm != 1 || s.LastDrops()[0].Detail != client.Unarmed(k) {
			t.Errorf("%s: %v, %+v", k, dump(outs), s.LastDrops())
		}
	}
	if client.Unarmed("hologram") != "" {
		t.Error("a kind that is not in the contract has a reason")
	}
}
