package say

import (
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
)

// readers has one reader for each code of the catalogue; a test holds the two equal.
var readers = map[words.NoticeCode]func(*reader) Notice{
	words.NoticeLiveDropped: func(r *reader) Notice { return LiveDropped{Count: r.count("count")} },
	words.NoticeModelUnreachable: func(r *reader) Notice {
		return ModelUnreachable{
			Failure: r.text("code"), Endpoint: r.text("endpoint"), Remedy: r.text("remedy"), Session: r.text("session"),
			ProxyVariable: r.optText("proxyVariable"), Task: r.optText("taskId"),
		}
	},
	words.NoticeHistoryPartRead: func(r *reader) Notice { return HistoryPartRead{Skipped: r.count("skipped"), Left: r.count("left")} },
	words.NoticeToolTurnBroken: func(r *reader) Notice {
		return ToolTurnBroken{Cause: r.text("cause"), Count: r.need("count"), Session: r.text("session"), Run: r.text("runId"), Calls: r.list("toolCallIds")}
	},
	words.NoticePairingRepaired: readPairing,
	words.NoticeSteerUnused:     func(r *reader) Notice { return readUnused(r, words.LaneSteer) },
	words.NoticeFollowUpUnused:  func(r *reader) Notice { return readUnused(r, words.LaneFollowUp) },
	words.NoticeAskUnsettled: func(r *reader) Notice {
		n := AskUnsettled{Cause: words.UnsettledCause(r.text("cause"))}
		if s := r.optText("remedy"); s != nil && *s != "" {
			n.Remedy = s
		}
		return n
	},
	words.NoticeModeNotApplied: func(r *reader) Notice {
		return ModeNotApplied{Mode: words.PermissionMode(r.text("mode")), Reason: r.text("reason")}
	},
	words.NoticeModeAnswered: func(r *reader) Notice {
		return ModeAnswered{Mode: words.PermissionMode(r.text("mode")), CallID: r.text("toolCallId")}
	},
	words.NoticeModePastReadDeny: func(r *reader) Notice {
		return ModePastReadDeny{Mode: words.PermissionMode(r.text("mode")), CallID: r.text("toolCallId")}
	},
	words.NoticeModeKeysMigrated: func(r *reader) Notice { return ModeKeysMigrated{Keys: r.count("keys")} },
	words.NoticeUndecided: func(r *reader) Notice {
		return ClassificationUndecided{Cause: words.UndecidedCause(r.text("cause")), Destination: r.text("destination")}
	},
	words.NoticeReadRootGranted: func(r *reader) Notice {
		n := ReadRootGranted{CallID: r.text("toolCallId"), Directory: r.text("directory"), Spelling: r.text("spelling")}
		if r.text("scope") != "exact" {
			r.ok = false // another scope is another fact
		}
		return n
	},
	words.NoticeReadRootRejected: func(r *reader) Notice {
		return ReadRootRejected{CallID: r.text("toolCallId"), Reason: r.text("reason")}
	},
	words.NoticeRuleStoreSkipped: func(r *reader) Notice { return RuleStoreSkipped{Store: r.text("store"), Reason: r.text("reason")} },
	words.NoticeAllowListIgnored: readAllowList,
	words.NoticeMCPDropped: func(r *reader) Notice {
		return MCPDropped{Session: r.text("session"), Server: r.text("server"), Reason: r.text("reason")}
	},
	words.NoticeOutcomeUnknown:    func(r *reader) Notice { return OutcomeUnknown{CallID: r.text("toolCallId"), Tool: r.text("tool")} },
	words.NoticeSecretsRedacted:   func(r *reader) Notice { return SecretsRedacted{CallID: r.text("toolCallId"), Count: r.count("count")} },
	words.NoticeMoneyLimitReached: func(r *reader) Notice { return MoneyLimitReached{LimitMicroUSD: r.count("limitMicroUsd")} },
}

// LiveDropped says that a surface read too slowly.
type LiveDropped struct{ Count *int64 }

// ModelUnreachable says that a model's endpoint could not be reached. Failure and
// Remedy are as they were sent.
type ModelUnreachable struct {
	Failure, Endpoint, Remedy, Session string
	ProxyVariable, Task                *string
}

// HistoryPartRead says that a part of the history could not be read. A count that is
// nil is not known, and neither nothing was skipped nor nothing is left.
type HistoryPartRead struct{ Skipped, Left *int64 }

// ToolTurnBroken says that calls were answered in the tool's place.
type ToolTurnBroken struct {
	Cause        string // verbatim
	Count        int64
	Session, Run string
	Calls        []string
}

// Repair is one thing that was mended in a request.
type Repair struct {
	Form  string // verbatim; the words of it are open
	Calls []string
}

// PairingRepaired says that a request was mended on its way out.
type PairingRepaired struct{ Repairs []Repair }

// InputUnused says that input was not used, or may not have been. Cause is nil when
// it was not told, and never filled in.
type InputUnused struct {
	Lane  words.QueueLane
	Count int64
	Cause *words.UnusedCause
	Child *string // the session of a subagent whose input it was
}

// AskUnsettled says that an approval could not be resolved.
type AskUnsettled struct {
	Cause  words.UnsettledCause
	Remedy *string // verbatim
}

// ModeNotApplied says that a mode that was asked for is not in effect.
type ModeNotApplied struct {
	Mode   words.PermissionMode
	Reason string
}

// ModeAnswered says that the mode answered in the person's place.
type ModeAnswered struct {
	Mode   words.PermissionMode
	CallID string
}

// ModePastReadDeny says that a mode let a call past a table of denied reads.
type ModePastReadDeny struct {
	Mode   words.PermissionMode
	CallID string
}

// ModeKeysMigrated says that keys of an older checkpoint were taken over.
type ModeKeysMigrated struct{ Keys *int64 }

// ClassificationUndecided says that the check gave no verdict, and where the call
// went.
type ClassificationUndecided struct {
	Cause       words.UndecidedCause
	Destination string
}

// ReadRootGranted is the one evidence that a directory was added.
type ReadRootGranted struct {
	CallID    string
	Directory string // as it was asked for
	Spelling  string // as the engine holds it now
}

// ReadRootRejected says that a directory was not added. Reason is verbatim.
type ReadRootRejected struct{ CallID, Reason string }

// RuleStoreSkipped says that rules could not be read and are not in force.
type RuleStoreSkipped struct{ Store, Reason string }

// AllowEntry is one entry of an allow list that reads as nothing.
type AllowEntry struct {
	Source string
	Value  string // exactly as it was sent
	Shown  string // for a screen
	Reason string
}

// AllowListIgnored says that entries of allow lists read as nothing.
type AllowListIgnored struct{ Entries []AllowEntry }

// MCPDropped says that a tool server that was asked for is not there.
type MCPDropped struct{ Session, Server, Reason string }

// OutcomeUnknown says that a call was under way when the process ended.
type OutcomeUnknown struct{ CallID, Tool string }

// SecretsRedacted says that values were taken out of a result.
type SecretsRedacted struct {
	CallID string
	Count  *int64
}

// MoneyLimitReached says that the budget is used up.
type MoneyLimitReached struct{ LimitMicroUSD *int64 }

func readUnused(r *reader, lane words.QueueLane) Notice {
	n := InputUnused{Lane: lane, Count: r.need("count"), Child: r.optText("childSession")}
	if n.Count == 0 {
		r.ok = false
	}
	if n.Child != nil && *n.Child == "" {
		n.Child = nil
	}
	if s := r.optText("cause"); s != nil && *s != "" {
		n.Cause = new(words.UnusedCause(*s))
	}
	return n
}

// readPairing reads the repairs. One that cannot be read makes all of it unreadable.
func readPairing(r *reader) Notice {
	v, _ := r.facts.Get("repairs")
	var n PairingRepaired
	for _, x := range v.Elems() {
		form, _ := x.Get("form")
		word, ok := form.Text()
		calls := (&reader{facts: fieldsOf(x)}).list("toolCallIds")
		if !ok || word == "" || len(calls) == 0 {
			r.ok = false
			return n
		}
		n.Repairs = append(n.Repairs, Repair{Form: word, Calls: calls})
	}
	r.ok = r.ok && len(n.Repairs) > 0
	return n
}

func readAllowList(r *reader) Notice {
	v, _ := r.facts.Get("entries")
	var n AllowListIgnored
	for _, x := range v.Elems() {
		e := reader{facts: fieldsOf(x), ok: true}
		value := e.optText("value")
		entry := AllowEntry{Source: e.text("source"), Reason: e.text("reason")}
		if !e.ok || value == nil {
			r.ok = false
			return n
		}
		entry.Value, entry.Shown = *value, Line(*value, maxQuoted)
		n.Entries = append(n.Entries, entry)
	}
	r.ok = r.ok && len(n.Entries) > 0 && v.Kind() == jsonv.Array
	return n
}
