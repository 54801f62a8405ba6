package project_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/client/project"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/sdkmsg"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/wiretest"
)

func blockedBy(kind words.BlockedKind, cause string) wire.Blocked {
	return wire.Blocked{Detail: &wire.BlockedDetail{Kind: kind, Cause: cause}}
}

func TestOnlyACompletionIsASuccess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := wiretest.Cause().Draw(t, "cause")
		got := project.TerminalOf(c)
		_, done := c.(wire.Completed)
		if got.IsError == done || (got.Subtype == sdkmsg.Success) != done || (len(got.Errors) == 0) != done {
			t.Fatalf("%#v is %+v", c, got)
		}
		r := project.Ended("", wire.RunEnd{Terminal: c}, plane.NoTally(), project.Account{Answer: "a"})
		if r.IsError == done || (r.Result != nil) != done || (len(r.Errors) == 0) != done {
			t.Fatalf("%#v ends as %+v", c, r)
		}
		back, ok := project.EndingOf(r)
		if !ok || back.Word() != c.Word() {
			t.Fatalf("%#v reads back as %#v", c, back)
		}
	})
	unknown := project.TerminalOf(wire.UnknownCause{Tag: "evaporated"})
	if !strings.Contains(unknown.Errors[0], "evaporated") {
		t.Errorf("the word is lost: %+v", unknown)
	}
	if _, ok := project.EndingOf(sdkmsg.Result{Subtype: "success"}); ok {
		t.Error("a line of somebody else has a cause")
	}
}

func TestSubtypesOfEndings(t *testing.T) {
	for name, c := range map[string]struct {
		cause           wire.Cause
		subtype, reason string
	}{
		"turns, as a failure": {wire.Failed{Code: "max_turns"}, sdkmsg.ErrorMaxTurns, "max_turns"},
		"turns, as a limit":   {blockedBy(words.BlockedByLimit, "max_turns"), sdkmsg.ErrorMaxTurns, "max_turns"},
		"budget":              {blockedBy(words.BlockedByLimit, "max_budget"), sdkmsg.ErrorMaxBudget, "budget_exhausted"},
		"retries":             {blockedBy(words.BlockedByLimit, "output_retries"), sdkmsg.ErrorMaxRetries, "structured_output_retry_exhausted"},
		"a hook":              {blockedBy(words.BlockedByHook, "prompt_denied"), sdkmsg.ErrorExecution, "stop_hook_prevented"},
		"a new limit":         {blockedBy(words.BlockedByLimit, "moon_phase"), sdkmsg.ErrorExecution, ""},
		"an abort":            {wire.Aborted{}, sdkmsg.ErrorExecution, "aborted_streaming"},
		"a pause":             {wire.Paused{}, sdkmsg.ErrorExecution, ""},
	} {
		if got := project.TerminalOf(c.cause); got.Subtype != c.subtype || got.Reason != c.reason {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if !project.Parked(wire.Paused{}) || project.Parked(wire.Completed{}) {
		t.Error("a pause is not told apart")
	}
}

func TestABlockIsNeverFoldedIntoAKnownOne(t *testing.T) {
	for want, d := range map[project.Block]*wire.BlockedDetail{
		project.BlockUnstated: nil,
		project.BlockHook:     {Kind: words.BlockedByHook, Cause: string(words.HookTimedOut)},
		project.BlockLimit:    {Kind: words.BlockedByLimit, Cause: string(words.LimitTurns)},
		project.BlockExpiry:   {Kind: words.BlockedByExpiry, Cause: string(words.ExpiredPark)},
		project.BlockNewCause: {Kind: words.BlockedByHook, Cause: string(words.LimitTurns)},
		project.BlockNewKind:  {Kind: "moon", Cause: string(words.LimitTurns)},
	} {
		if got := project.BlockOf(d); got != want {
			t.Errorf("%+v is %d, not %d", d, got, want)
		}
	}
}

func TestThreeExpiriesHaveThreePredicates(t *testing.T) {
	predicates := map[words.Expiry]func(wire.Cause) bool{
		words.ExpiredApproval: project.ApprovalExpired, words.ExpiredDenialLimit: project.DenialWindowExpired, words.ExpiredPark: project.ParkExpired,
	}
	for w := range words.Expiries.All() {
		for of, holds := range predicates {
			for _, c := range []wire.Cause{blockedBy(words.BlockedByExpiry, string(w)), wire.Failed{Code: string(w)}} {
				if holds(c) != (of == w) {
					t.Errorf("%#v: the predicate of %s says %v", c, of, holds(c))
				}
			}
			if holds(blockedBy(words.BlockedByHook, string(w))) || holds(wire.Completed{}) {
				t.Errorf("the predicate of %s holds of something else", of)
			}
		}
	}
}

func TestEverySettlementHasItsBucket(t *testing.T) {
	if project.BucketOf(wire.Gate{}) != project.NobodyAsked {
		t.Error("no question")
	}
	counts := map[project.Bucket]int{}
	for w := range words.Settlements.All() {
		b := project.BucketOf(wire.Gate{Settlement: &w})
		if b == project.NobodyAsked || b == project.NewSettlement {
			t.Errorf("%s has no bucket", w)
		}
		counts[b]++
	}
	if counts[project.PolicySaidNo] != 1 || counts[project.PersonRefused] != 2 || len(counts) != 6 {
		t.Errorf("%v", counts)
	}
	if project.BucketOf(wire.Gate{Settlement: new(words.Settlement("new"))}) != project.NewSettlement {
		t.Error("a new word is folded")
	}
}

func TestUsageIsJudgedAlongTheWholeChain(t *testing.T) {
	for name, c := range map[string]struct {
		in    wire.Usage
		out   plane.Count
		shown *int64
	}{
		"measured":      {wire.Usage{Output: 7, Measured: true}, plane.Exactly(7), new(int64(7))},
		"a placeholder": {wire.Usage{}, plane.Count{}, nil},
		"non-zero":      {wire.Usage{Output: 7}, plane.AtLeast(7), new(int64(7))},
	} {
		if got := project.OutputOf(c.in); got != c.out {
			t.Errorf("%s: the turn put out %+v", name, got)
		}
		if raw := project.RawCounts(c.in); raw.Output != c.in.Output {
			t.Errorf("%s: the raw counts are judged: %+v", name, raw)
		}
		r := project.Ended("", wire.RunEnd{Terminal: wire.Completed{}, Usage: c.in}, project.Measure(c.in), project.Account{})
		if (r.Usage.Output == nil) != (c.shown == nil) || r.Loom.UsageExact != c.in.Measured || r.TotalCostUSD != nil {
			t.Errorf("%s: the result says %+v %+v", name, r.Usage, r.Loom)
		}
	}
	if project.CostOf(nil) != (plane.Count{}) || project.CostOf(&wire.TaskStats{}) != (plane.Count{}) {
		t.Error("a cost that is absent is known")
	}
	if got := project.TokensOf(&wire.TaskStats{Tokens: new(int64(5)), LowerBound: true}); got != plane.AtLeast(5) {
		t.Errorf("%+v", got)
	}
	r := project.Ended("", wire.RunEnd{Terminal: wire.Completed{}}, plane.Tally{CostMicroUSD: plane.Exactly(34_700)}, project.Account{})
	if r.TotalCostUSD.String() != "0.034700" {
		t.Errorf("the cost is %s", r.TotalCostUSD)
	}
}

func rosterOf(names ...string) wire.Roster {
	var rows []wire.ToolRow
	for _, n := range names {
		rows = append(rows, wire.ToolRow{Name: n, Mount: words.MountedHands, Face: &wire.ToolFace{Class: new(words.ClassRead)}})
	}
	return wire.RosterOf(rows)
}

func TestARosterReplacesAndASummaryMustFit(t *testing.T) {
	var tools project.Tools
	tools.Start(wire.RunStart{Roster: wire.FactOf(rosterOf("a"))})
	if _, ok := tools.Face("b"); ok {
		t.Error("a face is guessed")
	}
	next := rosterOf("a", "b")
	got := tools.Change(wire.RosterChange{Roster: next, Summary: &wire.RosterSummary{BaseDigest: rosterOf("a").Digest, Added: []string{"b"}}})
	if !got.Usable || !slices.Equal(got.Added, []string{"b"}) {
		t.Errorf("%+v", got)
	}
	lying := next
	lying.Digest = "sha256:00"
	for name, c := range map[string]wire.RosterChange{
		"a digest that lies": {Roster: lying, Summary: &wire.RosterSummary{BaseDigest: next.Digest, Added: []string{"x"}}},
		"another base":       {Roster: rosterOf("z"), Summary: &wire.RosterSummary{BaseDigest: "sha256:11", Added: []string{"x"}}},
		"no summary":         {Roster: rosterOf()},
	} {
		tools := tools
		got := tools.Change(c)
		held, ok := tools.Roster().Get()
		if got.Usable || got.Added != nil || !ok || held.Count != c.Roster.Count {
			t.Errorf("%s: %+v, held %+v", name, got, held)
		}
	}
	bare := wire.RosterOf([]wire.ToolRow{{Name: "a", Mount: words.MountedBuiltin}})
	tools.Start(wire.RunStart{Roster: wire.FactOf(bare)})
	if f, ok := tools.Face("a"); !ok || f.Class != nil || f.Exclusive != nil {
		t.Errorf("what is not stated is not absent: %+v", f)
	}
}

func TestHandsAreAFactOrAReason(t *testing.T) {
	unreadable := func() (s wire.Stated[wire.Hands]) { _ = s.DecodeShape(jsonv.Num(7), false); return s }()
	broken := func() (s wire.Stated[wire.Roster]) { _ = s.DecodeShape(jsonv.Num(7), false); return s }()
	newer := wire.RosterOf([]wire.ToolRow{{Name: "a", Mount: "magic"}})
	sentences := map[string]project.HandsReading{}
	for name, c := range map[string]struct {
		manifest wire.RunStart
		want     project.HandsReading
	}{
		"given":                  {wire.RunStart{Hands: wire.FactOf(wire.Hands{Tools: []string{"ls"}})}, project.HandsGiven},
		"an empty statement":     {wire.RunStart{Hands: wire.FactOf(wire.Hands{})}, project.HandsNotGiven},
		"none":                   {wire.RunStart{Hands: wire.None[wire.Hands]()}, project.HandsNotGiven},
		"nothing at all":         {wire.RunStart{}, project.HandsUnstated},
		"unreadable":             {wire.RunStart{Hands: unreadable}, project.HandsUnreadable},
		"an unreadable roster":   {wire.RunStart{Roster: broken}, project.HandsUnreadable},
		"by the roster":          {wire.RunStart{Roster: wire.FactOf(rosterOf("ls"))}, project.HandsGiven},
		"a roster without them":  {wire.RunStart{Roster: wire.FactOf(rosterOf())}, project.HandsNotGiven},
		"mounts that are newer":  {wire.RunStart{Roster: wire.FactOf(newer)}, project.HandsNoMounts},
		"a roster that is there": {wire.RunStart{Roster: wire.None[wire.Roster]()}, project.HandsNotGiven},
	} {
		var tools project.Tools
		tools.Start(c.manifest)
		got := tools.Hands()
		if got != c.want {
			t.Errorf("%s: %d", name, got)
		}
		if s := got.Sentence(); got > project.HandsNotGiven && strings.Contains(s, "no tools") {
			t.Errorf("%s claims that there were none: %q", name, s)
		}
		sentences[got.Sentence()] = got
	}
	if len(sentences) != 5 || project.HandsReading(99).Sentence() != project.HandsUnstated.Sentence() {
		t.Errorf("%d sentences: %v", len(sentences), sentences)
	}
}

func TestMCPWordsThatAreNewAreNeverConnected(t *testing.T) {
	for w := range words.MCPDeliveries.All() {
		if s := project.MCPStatus(w); s == "" || (s == "connected") != (w == words.MCPDelivered) {
			t.Errorf("%s is %s", w, s)
		}
	}
	if project.MCPStatus("teleported") != "teleported" {
		t.Error("a new word is folded")
	}
	servers := wire.FactOf([]wire.MCPServer{{Name: "g", Delivery: words.MCPFailed, HTTPStatus: new(int64(503))}})
	if s, ok := project.MCPOf(servers, "g"); !ok || *s.HTTPStatus != 503 {
		t.Errorf("%+v", s)
	}
	if _, ok := project.MCPOf(wire.None[[]wire.MCPServer](), "g"); ok {
		t.Error("none has a server")
	}
}

func TestAHistoryThatDoesNotPairWinsOverSendingAgain(t *testing.T) {
	unpaired := wire.Failed{Code: "provider_error", Message: "messages.3: `tool_use` ids were found without `tool_result` blocks"}
	for name, c := range map[string]struct {
		cause wire.Cause
		want  project.NextStep
	}{
		"unpaired":                  {unpaired, project.RecoverHistory},
		"in other words":            {wire.Failed{Code: "provider_error", Message: "An assistant message with 'tool_calls' must be followed by tool messages"}, project.RecoverHistory},
		"another code":              {wire.Failed{Code: "max_turns", Message: unpaired.Message}, project.GoOn},
		"another failure":           {wire.Failed{Code: "provider_error", Message: "overloaded without a reason"}, project.GoOn},
		"too long":                  {wire.Failed{Code: "context_overflow"}, project.EditAndResend},
		"a hook said no":            {blockedBy(words.BlockedByHook, "prompt_denied"), project.EditAndResend},
		"a hook failed":             {blockedBy(words.BlockedByHook, "hook_failed"), project.GoOn},
		"a pause":                   {wire.Paused{}, project.DecideFirst},
		"a completion":              {wire.Completed{}, project.NothingToDo},
		"a word of a newer build":   {wire.UnknownCause{Tag: "x"}, project.GoOn},
		"blocked without a detail":  {wire.Blocked{}, project.GoOn},
		"stopped by whoever it was": {wire.Aborted{}, project.GoOn},
	} {
		if got := project.NextStepOf(c.cause); got != c.want {
			t.Errorf("%s: %d", name, got)
		}
		if project.Mismatched(c.cause) != (c.want == project.RecoverHistory) {
			t.Errorf("%s: the two readers disagree", name)
		}
	}
}

func TestOnlyAGrantAddsADirectory(t *testing.T) {
	var roots project.ReadRoots
	f := func(pairs ...string) (out wire.Facts) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, wire.Fact{Name: pairs[i], Value: jsonv.Str(pairs[i+1])})
		}
		return out
	}
	whole := f("toolCallId", "c", "directory", "./d", "spelling", "/d", "scope", "exact")
	if roots.Apply(words.NoticeReadRootRejected, f("toolCallId", "c", "reason", "no")) || roots.Apply(words.NoticeReadRootGranted, whole[:3]) ||
		roots.Apply("other", whole) || roots.Has("/d") || len(roots.All()) != 0 {
		t.Error("something else than a grant added a directory")
	}
	if !roots.Apply(words.NoticeReadRootGranted, whole) || !roots.Has("/d") || roots.Has("./d") {
		t.Errorf("%v", roots.All())
	}
}
