package words

// PermissionMode is how much a session may do without asking.
type PermissionMode string

// The six modes.
const (
	ModeDefault           PermissionMode = "default"
	ModeAcceptEdits       PermissionMode = "acceptEdits"
	ModeBypassPermissions PermissionMode = "bypassPermissions"
	ModePlan              PermissionMode = "plan"
	ModeDontAsk           PermissionMode = "dontAsk"
	ModeAuto              PermissionMode = "auto"
)

// PermissionModes is the closed set. Which of them an engine offers is its
// answer: see the capabilities of the wire.
var PermissionModes = of("permission mode",
	minted(ModeDefault, "policy"),
	minted(ModeAcceptEdits, "policy"),
	minted(ModeBypassPermissions, "policy"),
	minted(ModePlan, "policy"),
	minted(ModeDontAsk, "policy"),
	minted(ModeAuto, "policy"),
)

// ToolClass is the worst that a tool can do.
type ToolClass string

// The classes, each able to do more than the one before.
const (
	ClassRead  ToolClass = "read"  // looks at files of the workspace
	ClassWrite ToolClass = "write" // changes files of the workspace
	ClassExec  ToolClass = "exec"  // runs commands, which can do what the person can
)

// ToolClasses is the closed set.
var ToolClasses = of("the worst that a tool can do",
	minted(ClassRead, "policy"),
	minted(ClassWrite, "policy"),
	minted(ClassExec, "policy"),
)

// RuleBehavior is what a rule does with a call that it matches.
type RuleBehavior string

// The behaviors.
const (
	RuleAllow RuleBehavior = "allow"
	RuleDeny  RuleBehavior = "deny"
	RuleAsk   RuleBehavior = "ask"
)

// RuleBehaviors is the first of the three vocabularies of a rule offer.
var RuleBehaviors = of("what a rule does with a call that it matches",
	minted(RuleAllow, "node", "policy"),
	minted(RuleDeny, "node", "policy"),
	minted(RuleAsk, "node", "policy"),
)

// RuleDestination is where a rule is kept.
type RuleDestination string

// The destinations.
const (
	RuleForUser    RuleDestination = "user"         // the person's own, in every workspace
	RuleForProject RuleDestination = "project"      // the workspace's, shared with whoever has it
	RuleForLocal   RuleDestination = "local"        // the person's own in this workspace
	RuleForSession RuleDestination = "session"      // until the session is closed
	RuleForCommand RuleDestination = "command_line" // given with the command; cannot be written to
)

// RuleDestinations is the second of the three vocabularies of a rule offer.
var RuleDestinations = of("where a rule is kept",
	minted(RuleForUser, "node"),
	minted(RuleForProject, "node"),
	minted(RuleForLocal, "node"),
	minted(RuleForSession, "node"),
	planned(RuleForCommand),
)

// RuleOfferAbsence is why a question offers no rule to write.
type RuleOfferAbsence string

// The reasons.
const (
	NoRuleMandated  RuleOfferAbsence = "mandated"       // no rule can retire the question, see [Mandate]
	NoRuleForTool   RuleOfferAbsence = "unsupported"    // the tool's input has no pattern that a rule can hold
	NoRuleWritable  RuleOfferAbsence = "read_only"      // the deployment lets nobody write rules
	NoRuleUnneeded  RuleOfferAbsence = "already_stated" // a rule says the same and is not in effect here
	NoRuleTooBroad  RuleOfferAbsence = "too_broad"      // every rule that would cover the call covers far more
	NoRuleNotAsking RuleOfferAbsence = "not_a_call"     // a question or a plan is no call
)

// RuleOfferAbsences is the third of the three vocabularies of a rule offer.
var RuleOfferAbsences = of("why a question offers no rule",
	minted(NoRuleMandated, "node"),
	minted(NoRuleForTool, "node"),
	planned(NoRuleWritable),
	planned(NoRuleUnneeded),
	minted(NoRuleTooBroad, "node"),
	planned(NoRuleNotAsking),
)

// RuleIssue is why a permission rule was not taken.
type RuleIssue string

// The rules that are wrong: the person mends the rule.
const (
	RuleNotText         RuleIssue = "entry_not_text"
	RuleEmpty           RuleIssue = "empty_rule"
	RuleUnbalanced      RuleIssue = "unbalanced_pattern" // a parenthesis is missing, or text follows it
	RuleUnknownTool     RuleIssue = "unknown_tool"
	RuleEmptyPattern    RuleIssue = "empty_pattern"
	RuleBadPattern      RuleIssue = "malformed_pattern"
	RuleBadCommand      RuleIssue = "unreadable_command" // the pattern is no shell command
	RuleBadBase         RuleIssue = "base_path_unusable" // the base is missing, or no absolute path that can be used
	RuleUnknownBehavior RuleIssue = "unknown_behavior"
	RuleUnknownPlace    RuleIssue = "unknown_destination"
)

// The rules that are right and cannot be taken here: the person does something
// else.
const (
	RuleNoPattern     RuleIssue = "pattern_not_supported"     // the tool takes no pattern
	RulePlaceReadOnly RuleIssue = "destination_read_only"     // nothing can be written there
	RulePlaceMissing  RuleIssue = "destination_not_available" // this session has no such place
	RuleNotBehavior   RuleIssue = "behavior_not_supported"    // the tool cannot be ruled that way
	RuleMandated      RuleIssue = "question_is_mandated"      // no rule retires that question
)

// RuleIssues is the closed set of both families.
var RuleIssues = of("why a permission rule was not taken",
	planned(RuleNotText),
	minted(RuleEmpty, "policy"),
	minted(RuleUnbalanced, "policy"),
	minted(RuleUnknownTool, "policy"),
	minted(RuleEmptyPattern, "policy"),
	minted(RuleBadPattern, "policy"),
	minted(RuleBadCommand, "policy"),
	minted(RuleBadBase, "policy"),
	minted(RuleUnknownBehavior, "policy"),
	minted(RuleUnknownPlace, "policy"),
	minted(RuleNoPattern, "policy"),
	minted(RulePlaceReadOnly, "node"),
	minted(RulePlaceMissing, "node"),
	minted(RuleNotBehavior, "node"),
	planned(RuleMandated),
)

// IssueFamily tells two next steps apart.
type IssueFamily uint8

const (
	// UnknownFamily is a code of a newer build: neither next step is advised.
	UnknownFamily IssueFamily = iota
	// WrongRule is a rule to be mended.
	WrongRule
	// UnsupportedRule is a rule that is right and not supported here.
	UnsupportedRule
)

// Family says to which family a code belongs.
func Family(i RuleIssue) IssueFamily {
	switch i {
	case RuleNotText, RuleEmpty, RuleUnbalanced, RuleUnknownTool, RuleEmptyPattern, RuleBadPattern, RuleBadCommand, RuleBadBase,
		RuleUnknownBehavior, RuleUnknownPlace:
		return WrongRule
	case RuleNoPattern, RulePlaceReadOnly, RulePlaceMissing, RuleNotBehavior, RuleMandated:
		return UnsupportedRule
	}
	return UnknownFamily
}

// RuleLiveness says whether a rule that was written or removed is in force in the
// sessions that run.
type RuleLiveness string

// The three. Unknown is an answer: it says neither of the others.
const (
	RuleLive         RuleLiveness = "live"
	RuleNotLive      RuleLiveness = "not_live"
	RuleLivenessOpen RuleLiveness = "unknown"
)

// RuleLivenesses is the closed set.
var RuleLivenesses = of("whether a rule is in force where it was written or removed",
	minted(RuleLive, "node"),
	minted(RuleNotLive, "node"),
	minted(RuleLivenessOpen, "node"),
)
