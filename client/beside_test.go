package client_test

import (
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/wiretest"
)

// besideBodies is one filled body of each kind that happens beside the conversation.
func besideBodies() []wire.Body {
	author := &wire.Author{Kind: "human", ID: "p", Label: "l"}
	bound := wire.Binding{BoundCallID: "c9", BoundInputHash: "sha256:ab"}
	stats := &wire.TaskStats{DurationMs: new(int64(5)), ToolUses: new(int64(6)), Tokens: new(int64(7)), CostMicroUSD: new(int64(8))}
	approval := wire.ApprovalRequest{
		ID: "a1", Binding: bound, Seq: 3, Tool: "bash", Input: jsonv.Obj(), Title: new("t"), Origin: new(words.AskedByMode), Mandate: new(words.MandatedJail),
		RuleOffers:        []wire.RuleOffer{{Rule: "bash(ls)", Behavior: words.RuleAllow, Destinations: []words.RuleDestination{words.RuleForUser}}},
		RuleOffersAbsence: new(words.NoRuleMandated), Lifetimes: []words.GrantLifetime{words.GrantOnce}, ReadRootCandidate: new("/d"),
		ProbeReason: new("p"), AutoModeUnavailable: new(words.UndecidedFailed), AskedAtMs: new(int64(1)), ExpiresAtMs: new(int64(2)),
	}
	return []wire.Body{
		wire.RosterChange{
			Roster: wire.RosterOf([]wire.ToolRow{
				{Name: "ls", Mount: words.MountedHands, Face: &wire.ToolFace{
					Title: new("t"), Class: new(words.ClassRead), PathField: new("path"), Exclusive: new(false), Repeats: new(true),
				}},
				{Name: "bash", Mount: words.MountedHands},
			}),
			Summary: &wire.RosterSummary{BaseDigest: wire.RosterOf(nil).Digest, Added: []string{"bash"}, Removed: []string{"ls"}},
		},
		wire.PendingLevel{Rows: []wire.Pending{approval}},
		approval,
		wire.ApprovalSettled{ID: "a1", CallID: "c9", Settlement: words.ApprovedOnce, Decider: author},
		wire.QuestionRequest{
			ID: "q1", Binding: bound, Seq: 4, AskedAtMs: new(int64(1)), ExpiresAtMs: new(int64(2)),
			Questions: []wire.Question{{ID: "q", Header: new("h"), Text: "t", Options: []wire.Option{{ID: "o", Label: "l", About: new("a")}}}},
		},
		wire.QuestionSettled{ID: "q1", CallID: "c9", Answered: true, Expiry: new(words.ExpiredApproval), Decider: author},
		wire.PlanRequest{ID: "p1", Binding: bound, Seq: 5, Plan: "do", AskedAtMs: new(int64(1)), ExpiresAtMs: new(int64(2))},
		wire.PlanSettled{ID: "p1", CallID: "c9", Verdict: new(words.PlanAccept), Expiry: new(words.ExpiredApproval), Decider: author},
		wire.Queue{Items: []wire.QueuedItem{{ID: "i", Lane: words.LaneSteer, Text: "t", Bytes: 1, Images: 1, Revision: 1, Author: author}}},
		wire.InputTaken{Item: "i", Lane: words.LaneSteer, Entry: wiretest.Entry(1)},
		wire.InputUnused{Lane: words.LaneSteer, Count: 2, Cause: new(words.UnusedRunEnded), Items: []string{"i"}, Child: new(wiretest.Session(9))},
		wire.Diagnostics{
			Files:  []wire.FileDiagnostics{{Path: "f", Items: []wire.Diagnostic{{Severity: words.SeverityError, Line: 1, Column: new(int64(2)), Message: "m", Source: new("s")}}}},
			CallID: new("c9"),
		},
		wire.WorkspaceChanged{Changes: []wire.WorkspaceChange{{Path: "f", Change: words.FileRenamed, From: new("g")}}, CallID: new("c9"), Branch: new("b")},
		wire.HookNotice{
			Hook: "h", Event: "e", Name: new("n"), Phase: words.HookResponded, CallID: new("c9"), Output: new("o"), ExitCode: new(int64(1)),
			Outcome: new(words.HookErred),
		},
		wire.TaskStarted{Task: "t1", TaskKind: words.TaskAgent, CallID: new("c9"), Parent: new("p"), Description: "d", AgentType: new("a"), Workflow: new("w"), Depth: 1},
		wire.TaskProgress{Task: "t1", CallID: new("c9"), Description: "d", LastTool: new("l"), Summary: new("s"), Stats: stats},
		taskNotification(),
		wire.WorkflowProgress{
			Run: "t1", Name: "n", Status: words.BackgroundRunning, Approvals: wire.FactOf([]wire.ApprovalRequest{approval}), Refusal: new("r"), Stats: stats,
			Steps: []wire.WorkflowStep{{ID: "s", Title: "t", Status: words.BackgroundRunning, After: []string{"q"}, Task: new("k")}},
		},
		wire.Background{Tasks: []wire.BackgroundTask{{
			Task: "t1", TaskKind: words.TaskShell, Status: words.BackgroundRunning, CallID: new("c9"), Parent: new("p"), Description: "d", Command: new("c"),
			StartedAtMs: new(int64(1)), DeadlineMs: new(int64(2)), Released: new(true), Stats: stats,
		}}},
		wire.Activity{State: words.ActivityRunning, Queued: 1, Tasks: 2},
		wire.Settings{Model: model, Mode: "default", ThinkingLevel: new(words.ThinkingHigh), ActiveTools: []string{"ls"}},
		wire.Presence{Clients: []wire.Attendee{{Connection: "c", Author: author, CanDecide: true}}},
	}
}

func taskNotification() wire.TaskNotification {
	return wire.TaskNotification{
		Task: "t1", TaskKind: words.TaskAgent, Status: words.BackgroundKilled, CallID: new("c9"), Summary: "s", Result: new("r"),
		StoppedBy: new(words.CancelledByPerson), Resumable: new(true), Partial: new(true), ExitCode: new(int64(1)), Diagnostics: new("d"),
		Lines: new(int64(2)), RecentSteps: []string{"a"}, EditedFiles: []string{"b"}, Source: new("s"), Seq: new(int64(3)), Injected: new(false),
		OutputFile: new("o"), Stats: &wire.TaskStats{DurationMs: new(int64(5)), ToolUses: new(int64(6)), Tokens: new(int64(7)), CostMicroUSD: new(int64(8))},
	}
}

// beside is a frame of each of those kinds, on the lane of the conversation.
func beside() (out []wire.Frame) {
	for _, b := range besideBodies() {
		f := frameOf(b)
		f.ID = "beside/" + string(b.Kind())
		if f.Delivery == wire.Replay { // those that have it pass here, so that positions stay in order
			f.Delivery, f.Cursor = wire.Live, wire.Cursor{}
		}
		out = append(out, f)
	}
	return out
}
