package say

import "github.com/loom-run/loom/core/words"

// DeniedBy says who denied a call. It is the one place of these sentences, so that a
// denial reads the same on every surface.
func DeniedBy(w words.DeniedBy) string {
	switch w {
	case words.DeniedByPerson:
		return "you refused this call"
	case words.DeniedByMode:
		return "the permission mode does not cover what this tool can do"
	case words.DeniedByRule:
		return "a rule denies this call"
	case words.DeniedByPolicy:
		return "this deployment does not allow the call at all"
	case words.DeniedByHook:
		return "a hook refused this call"
	case words.DeniedByClassifier:
		return "the check that answers in your place refused this call"
	case words.DeniedByReadBoundary:
		return "what it wants to read is outside the directories that may be read"
	case words.DeniedByJail:
		return "the operating system refused it to the command"
	case words.DeniedByNobody:
		return "it had to be asked, and nobody could be asked in time"
	case words.DeniedByLimit:
		return "a budget or a count is used up"
	}
	return "it was denied by " + quoted(string(w)) + ", a word that this build does not know"
}

// AskedBy says what made a call a question.
func AskedBy(w words.AskOrigin) string {
	switch w {
	case words.AskedByMode:
		return "the permission mode asks before tools like this one"
	case words.AskedByRule:
		return "a rule asks before calls like this one"
	case words.AskedBySubcommand:
		return "one of the commands in it is not covered by what is allowed"
	case words.AskedByTool:
		return "this tool always asks"
	case words.AskedByHook:
		return "a hook wants you to decide"
	case words.AskedByClassifier:
		return "the check that answers in your place left it to you"
	case words.AskedByAgent:
		return "an agent that the run started asks"
	case words.AskedByBoundary:
		return "its target is outside the directories that were granted"
	case words.AskedByNetwork:
		return "it reaches for the network"
	case words.AskedByJail:
		return "it asks to run without the fence"
	case words.AskedBySafety:
		return "it is asked each time, for safety"
	}
	return "it is asked because of " + quoted(string(w)) + ", a word that this build does not know"
}

// Mandated says what a question stands on that stays a question. No sentence of it
// speaks of rules: one that is written in answer never takes effect there.
func Mandated(w words.Mandate) string {
	switch w {
	case words.MandatedPath:
		return "this path is asked about each time"
	case words.MandatedState:
		return "it touches the agent's own files, which is asked each time"
	case words.MandatedJail:
		return "running without the fence is asked each time"
	case words.MandatedNetwork:
		return "the whole network is asked about each time"
	case words.MandatedLifetime:
		return "a command that outlives the run is asked about each time"
	case words.MandatedPlan:
		return "leaving the plan is asked each time"
	}
	return "it is asked each time because of " + quoted(string(w)) + ", a word that this build does not know"
}

// Settled says how the question about a call was answered.
func Settled(w words.Settlement) string {
	switch w {
	case words.ApprovedOnce:
		return "allowed once"
	case words.ApprovedSession:
		return "allowed for this session"
	case words.ApprovedAlways:
		return "allowed, and a rule was written"
	case words.ApprovedEdited:
		return "allowed with another input"
	case words.Rejected:
		return "refused"
	case words.RejectedStop:
		return "refused, and the run was stopped"
	case words.PolicyRefused:
		return "refused by the deployment's policy"
	case words.ModeAnswered:
		return "answered by the permission mode"
	case words.SettledNobody:
		return "nobody was there who can decide"
	case words.SettledAborted:
		return "the run was stopped while the question was open"
	case words.SettledApprovalWindow:
		return "nobody answered in time"
	case words.SettledDenialLimit:
		return "nobody said in time to go on after too many denials"
	case words.SettledPark:
		return "it waited for longer than a run may be parked"
	}
	return "settled as " + quoted(string(w)) + ", a word that this build does not know"
}

// Undecided says why you are asked although a check could have answered: it could not
// run. ok is false for no cause, and for the one word that is no outage: the check ran
// and answered outside of its words. A cause that this build does not know is another
// kind of outage, and never a check that works.
func Undecided(c *words.UndecidedCause) (sentence string, ok bool) {
	if c == nil {
		return "", false
	}
	switch *c {
	case words.UndecidedContract:
		return "", false
	case words.UndecidedUnrouted:
		return "you are asked because no model is set for the check that answers in your place", true
	case words.UndecidedFailed:
		return "you are asked because the check that answers in your place failed", true
	case words.UndecidedTimedOut:
		return "you are asked because the check that answers in your place gave no answer in time", true
	}
	return "you are asked because the check that answers in your place is unavailable this time: " + quoted(string(*c)), true
}
