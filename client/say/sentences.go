package say

import (
	"fmt"
	"slices"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/wire"
)

// fieldsOf is an object as facts; of another value there are none.
func fieldsOf(v jsonv.Value) (out wire.Facts) {
	for name, x := range v.Fields() {
		out = append(out, wire.Fact{Name: name, Value: x})
	}
	return out
}

func (LiveDropped) Code() words.NoticeCode             { return words.NoticeLiveDropped }
func (ModelUnreachable) Code() words.NoticeCode        { return words.NoticeModelUnreachable }
func (HistoryPartRead) Code() words.NoticeCode         { return words.NoticeHistoryPartRead }
func (ToolTurnBroken) Code() words.NoticeCode          { return words.NoticeToolTurnBroken }
func (PairingRepaired) Code() words.NoticeCode         { return words.NoticePairingRepaired }
func (AskUnsettled) Code() words.NoticeCode            { return words.NoticeAskUnsettled }
func (ModeNotApplied) Code() words.NoticeCode          { return words.NoticeModeNotApplied }
func (ModeAnswered) Code() words.NoticeCode            { return words.NoticeModeAnswered }
func (ModePastReadDeny) Code() words.NoticeCode        { return words.NoticeModePastReadDeny }
func (ModeKeysMigrated) Code() words.NoticeCode        { return words.NoticeModeKeysMigrated }
func (ClassificationUndecided) Code() words.NoticeCode { return words.NoticeUndecided }
func (ReadRootGranted) Code() words.NoticeCode         { return words.NoticeReadRootGranted }
func (ReadRootRejected) Code() words.NoticeCode        { return words.NoticeReadRootRejected }
func (RuleStoreSkipped) Code() words.NoticeCode        { return words.NoticeRuleStoreSkipped }
func (AllowListIgnored) Code() words.NoticeCode        { return words.NoticeAllowListIgnored }
func (MCPDropped) Code() words.NoticeCode              { return words.NoticeMCPDropped }
func (OutcomeUnknown) Code() words.NoticeCode          { return words.NoticeOutcomeUnknown }
func (SecretsRedacted) Code() words.NoticeCode         { return words.NoticeSecretsRedacted }
func (MoneyLimitReached) Code() words.NoticeCode       { return words.NoticeMoneyLimitReached }

// Code tells the two lanes apart.
func (n InputUnused) Code() words.NoticeCode {
	if n.Lane == words.LaneSteer {
		return words.NoticeSteerUnused
	}
	return words.NoticeFollowUpUnused
}

// Sentence implements [Notice].
func (n LiveDropped) Sentence() string {
	return "this surface read too slowly and missed " + amount(n.Count, "piece", "pieces") + " of live text; nothing that is kept is missing"
}

// Sentence implements [Notice]. The remedy is told as it was sent.
func (n ModelUnreachable) Sentence() string {
	out := "no connection to the model at " + Line(n.Endpoint, maxQuoted) + " (" + Line(n.Failure, maxQuoted) + "): " + Line(n.Remedy, maxProse)
	if n.ProxyVariable != nil {
		out += " (the proxy is set by " + Line(*n.ProxyVariable, maxQuoted) + ")"
	}
	return out
}

// Sentence implements [Notice]. That nothing is left is said only when it was counted.
func (n HistoryPartRead) Sentence() string {
	out := amount(n.Skipped, "entry", "entries") + " of the saved history could not be read when the session was opened"
	if n.Left != nil && *n.Left == 0 {
		out += "; the model starts without any history, and the turn runs all the same"
	}
	return out
}

// Sentence implements [Notice].
func (n ToolTurnBroken) Sentence() string {
	return amount(&n.Count, "call", "calls") + " of a response had no result and got one in the tool's place (" + Line(n.Cause, maxQuoted) + ")"
}

// Sentence implements [Notice].
func (n PairingRepaired) Sentence() string {
	forms := []string{}
	for _, r := range n.Repairs {
		if f := Line(r.Form, maxQuoted); !slices.Contains(forms, f) {
			forms = append(forms, f)
		}
	}
	return fmt.Sprintf("a request whose calls and results did not pair was mended before it was sent: %v", forms)
}

// Sentence implements [Notice]. It names the count alone, claims nothing that the
// engine could not tell, and no id stands in it.
func (n InputUnused) Sentence() string {
	return Unused(n.Lane, n.Count, n.Cause, n.Child != nil)
}

// Unused says that queued input was not used, or may not have been.
func Unused(lane words.QueueLane, count int64, cause *words.UnusedCause, ofChild bool) string {
	what := "follow-up"
	switch lane {
	case words.LaneSteer:
		what = "steering message"
	case words.LaneNextRun:
		what = "message for the next run"
	case words.LaneFollowUp:
	}
	out := amount(&count, what, what+"s")
	if ofChild {
		out += " to an agent"
	}
	if cause != nil {
		switch *cause {
		case words.UnusedRunEnded:
			return out + " came when the run was over and went unused"
		case words.UnusedAborted:
			return out + " went unused because the run was stopped"
		case words.UnusedCancelled:
			return out + " went unused because they were taken back"
		case words.UnusedUncertain:
		}
	}
	return out + " may not have been read"
}

// Sentence implements [Notice].
func (n AskUnsettled) Sentence() string {
	out := ""
	switch n.Cause {
	case words.UnsettledNoRow:
		out = "an approval could not be resolved: the question is not there any more"
	case words.UnsettledNoDecider:
		out = "an approval could not be resolved: nobody who can decide could be reached"
	case words.UnsettledInFold:
		out = "an approval could not be resolved: it was refused together with another question"
	default:
		out = "an approval could not be resolved: " + quoted(string(n.Cause)) + ", a reason that this build does not know"
	}
	if n.Remedy != nil {
		out += ". " + Line(*n.Remedy, maxProse)
	}
	return out
}

// Sentence implements [Notice].
func (n ModeNotApplied) Sentence() string {
	return "the permission mode " + quoted(string(n.Mode)) + " did not take effect: " + Line(n.Reason, maxQuoted)
}

// Sentence implements [Notice].
func (n ModeAnswered) Sentence() string {
	return "the permission mode " + quoted(string(n.Mode)) + " answered a question in your place"
}

// Sentence implements [Notice].
func (n ModePastReadDeny) Sentence() string {
	return "the permission mode " + quoted(string(n.Mode)) + " let a call read what a table denies"
}

// Sentence implements [Notice].
func (n ModeKeysMigrated) Sentence() string {
	return amount(n.Keys, "key", "keys") + " of permission modes were taken over from an older checkpoint"
}

// Sentence implements [Notice].
func (n ClassificationUndecided) Sentence() string {
	return "the check in a person's place gave no verdict (" + Line(string(n.Cause), maxQuoted) + "); the call went to " + Line(n.Destination, maxQuoted)
}

// Sentence implements [Notice].
func (n ReadRootGranted) Sentence() string {
	return "the directory " + Line(n.Spelling, maxProse) + " may be read now"
}

// Sentence implements [Notice].
func (n ReadRootRejected) Sentence() string {
	return "the directory was not added to what may be read: " + Line(n.Reason, maxProse)
}

// Sentence implements [Notice].
func (n RuleStoreSkipped) Sentence() string {
	return "the rules of " + Line(n.Store, maxQuoted) + " could not be read and are not in force: " + Line(n.Reason, maxProse)
}

// Sentence implements [Notice].
func (n AllowListIgnored) Sentence() string {
	out := amount(new(int64(len(n.Entries))), "entry", "entries") + " of what is allowed read as nothing:"
	for i, e := range n.Entries {
		if i == 5 {
			return out + " " + Ellipsis
		}
		out += " " + quoted(e.Value) + " (" + Line(e.Reason, maxQuoted) + ")"
	}
	return out
}

// Sentence implements [Notice].
func (n MCPDropped) Sentence() string {
	return "the tool server " + quoted(n.Server) + " is not there: " + Line(n.Reason, maxProse)
}

// Sentence implements [Notice].
func (n OutcomeUnknown) Sentence() string {
	return "a call of " + quoted(n.Tool) + " was under way when the process ended; what it did is not known, and it was not run again"
}

// Sentence implements [Notice].
func (n SecretsRedacted) Sentence() string {
	return amount(n.Count, "secret value", "secret values") + " were taken out of a result before it was kept"
}

// Sentence implements [Notice].
func (n MoneyLimitReached) Sentence() string {
	if n.LimitMicroUSD == nil {
		return "the budget is used up"
	}
	return fmt.Sprintf("the budget of $%d.%06d is used up", *n.LimitMicroUSD/1_000_000, *n.LimitMicroUSD%1_000_000)
}
