package say

import "github.com/loom-run/loom/core/words"

// RuleIssue says why a permission rule was not taken, and what to do: a rule that is
// wrong is to be mended; one that is right and cannot be taken here is not. prose is
// the engine's own sentence, which rides along and decides nothing.
func RuleIssue(w words.RuleIssue, prose string) string {
	out := ruleSentence(w)
	if p := Line(prose, maxQuoted*4); p != "" {
		out += " (" + p + ")"
	}
	return out
}

func ruleSentence(w words.RuleIssue) string {
	const mend = "; mend the rule"
	switch w {
	case words.RuleNotText:
		return "an entry of the list of rules is no text" + mend
	case words.RuleEmpty:
		return "the rule is empty" + mend
	case words.RuleUnbalanced:
		return "the parentheses of the rule do not match, or text follows them" + mend
	case words.RuleUnknownTool:
		return "no tool has the name that the rule gives" + mend
	case words.RuleEmptyPattern:
		return "the parentheses of the rule are empty" + mend
	case words.RuleBadPattern:
		return "the pattern of the rule cannot be read" + mend
	case words.RuleBadCommand:
		return "the pattern of the rule is no command of the shell" + mend
	case words.RuleBadBase:
		return "the directory that the rule starts from is missing, or is no absolute path that can be used" + mend
	case words.RuleUnknownBehavior:
		return "the rule neither allows, nor denies, nor asks" + mend
	case words.RuleUnknownPlace:
		return "the place to keep the rule has a name that nobody knows" + mend
	case words.RuleNoPattern:
		return "that tool takes no pattern: write the rule for the whole tool instead"
	case words.RulePlaceReadOnly:
		return "nothing can be written to that place: choose another one"
	case words.RulePlaceMissing:
		return "this session has no such place: choose another one"
	case words.RuleNotBehavior:
		return "that tool cannot be ruled that way: choose another behavior"
	case words.RuleMandated:
		return "that question stays a question: answer it when it comes"
	}
	return "the rule was not taken: " + quoted(string(w)) + ", a reason that this build does not know"
}

// RuleLiveness says whether a rule that was written or removed is in force where it
// matters now.
func RuleLiveness(w words.RuleLiveness) string {
	switch w {
	case words.RuleLive:
		return "it is in force in the sessions that run"
	case words.RuleNotLive:
		return "sessions that run do not have it yet; the next ones do"
	case words.RuleLivenessOpen:
		return "whether sessions that run have it is not known"
	}
	return "whether it is in force was told as " + quoted(string(w)) + ", which this build does not know"
}

// NoRule says why a question offers no rule to write.
func NoRule(w words.RuleOfferAbsence) string {
	switch w {
	case words.NoRuleMandated:
		return "this is asked each time"
	case words.NoRuleForTool:
		return "nothing in this tool's input can be put in general terms"
	case words.NoRuleWritable:
		return "this deployment keeps its own list of what is allowed"
	case words.NoRuleUnneeded:
		return "the same was said before and is not in effect here"
	case words.NoRuleTooBroad:
		return "what would cover this call would cover far more"
	case words.NoRuleNotAsking:
		return "this is no call of a tool"
	}
	return "nothing general is offered: " + quoted(string(w)) + ", a reason that this build does not know"
}
