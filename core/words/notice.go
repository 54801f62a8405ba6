package words

// Audience says whom a notice is for.
type Audience string

const (
	// ForUser marks a fact that the person at the session can act on.
	ForUser Audience = "user"
	// ForOperator marks a fact for who runs the engine. It is also how an unknown
	// code or audience reads: noise is not pushed at a person.
	ForOperator Audience = "operator"
)

// Audiences is the closed set.
var Audiences = of("whom a notice is for",
	planned(ForUser),
	minted(ForOperator, "server"),
)

// Minter says which side mints a notice.
type Minter string

// The minters.
const (
	ByEngine Minter = "engine" // everything below the server
	ByServer Minter = "server"
)

// Minters is the closed set.
var Minters = of("which side mints a notice",
	planned(ByEngine),
	planned(ByServer),
)

// NoticeCode names a fact outside the conversation.
type NoticeCode string

// The notices. Their facts are in the page of the wire.
const (
	NoticeLiveDropped       NoticeCode = "live_frames_dropped"          // a subscriber read too slowly; nothing durable is missing
	NoticeModelUnreachable  NoticeCode = "model_unreachable"            // no connection to the model's endpoint
	NoticeHistoryPartRead   NoticeCode = "history_partly_unread"        // a part of the saved history could not be read when the session was opened
	NoticeToolTurnBroken    NoticeCode = "tool_turn_incomplete"         // calls of a response were answered in the tool's place
	NoticePairingRepaired   NoticeCode = "provider_pairing_repaired"    // a request whose calls and results did not pair was mended on its way out
	NoticeSteerUnused       NoticeCode = "steer_unused"                 // steering that a run may not have used
	NoticeFollowUpUnused    NoticeCode = "follow_up_unused"             // a follow-up that a run may not have used
	NoticeAskUnsettled      NoticeCode = "approval_unresolvable"        // an approval that could not be resolved
	NoticeModeNotApplied    NoticeCode = "permission_mode_not_applied"  // a mode that was asked for did not take effect
	NoticeModeAnswered      NoticeCode = "permission_mode_answered"     // the mode answered a question in the person's place
	NoticeModePastReadDeny  NoticeCode = "mode_released_past_read_deny" // a mode let a call past a table of denied reads
	NoticeModeKeysMigrated  NoticeCode = "mode_keys_migrated"           // an older checkpoint's keys of modes were taken over
	NoticeUndecided         NoticeCode = "classification_undecided"     // the classifier could not decide; where the call went
	NoticeReadRootGranted   NoticeCode = "read_directory_granted"       // the one evidence that a directory was added
	NoticeReadRootRejected  NoticeCode = "read_directory_rejected"      // a directory that was offered was not added
	NoticeRuleStoreSkipped  NoticeCode = "rule_store_skipped"           // a person's rules could not be read and are not in force
	NoticeAllowListIgnored  NoticeCode = "allow_list_entries_ignored"   // entries that read as nothing
	NoticeMCPDropped        NoticeCode = "mcp_injection_dropped"        // a tool server that was asked for is not there
	NoticeOutcomeUnknown    NoticeCode = "tool_outcome_unknown"         // a call was under way when the process ended; what it did is not known
	NoticeSecretsRedacted   NoticeCode = "secrets_redacted"             // values were taken out of a result before it was kept
	NoticeMoneyLimitReached NoticeCode = "budget_reached"
)

// notices is the catalogue: each code with whom it is for and who mints it.
var notices = [...]struct {
	code     NoticeCode
	audience Audience
	minter   Minter
	by       []string
}{
	{NoticeLiveDropped, ForOperator, ByServer, []string{"server"}},
	{NoticeModelUnreachable, ForUser, ByServer, nil},
	{NoticeHistoryPartRead, ForUser, ByServer, nil},
	{NoticeToolTurnBroken, ForUser, ByEngine, nil},
	{NoticePairingRepaired, ForOperator, ByEngine, nil},
	{NoticeSteerUnused, ForUser, ByEngine, nil},
	{NoticeFollowUpUnused, ForUser, ByEngine, nil},
	{NoticeAskUnsettled, ForUser, ByEngine, nil},
	{NoticeModeNotApplied, ForUser, ByEngine, nil},
	{NoticeModeAnswered, ForUser, ByEngine, nil},
	{NoticeModePastReadDeny, ForOperator, ByEngine, nil},
	{NoticeModeKeysMigrated, ForOperator, ByEngine, nil},
	{NoticeUndecided, ForOperator, ByEngine, nil},
	{NoticeReadRootGranted, ForUser, ByEngine, nil},
	{NoticeReadRootRejected, ForUser, ByEngine, nil},
	{NoticeRuleStoreSkipped, ForUser, ByEngine, nil},
	{NoticeAllowListIgnored, ForUser, ByEngine, nil},
	{NoticeMCPDropped, ForUser, ByServer, nil},
	{NoticeOutcomeUnknown, ForUser, ByEngine, nil},
	{NoticeSecretsRedacted, ForUser, ByEngine, nil},
	{NoticeMoneyLimitReached, ForUser, ByEngine, nil},
}

// NoticeCodes is the closed set. Membership is tested on the raw word, so a code
// with a control character in it is none of these.
var NoticeCodes = func() *Table[NoticeCode] {
	t := of[NoticeCode]("notice")
	for _, n := range notices {
		t.rows = append(t.rows, minted(n.code, n.by...))
	}
	return t
}()

// AudienceOf says whom a notice is for. It is the code that decides and not what
// a notice claims: a code outside the catalogue is for the operator.
func AudienceOf(c NoticeCode) Audience {
	if i := notice(c); i >= 0 {
		return notices[i].audience
	}
	return ForOperator
}

// MinterOf says which side mints a notice; ok is false for a code outside the
// catalogue.
func MinterOf(c NoticeCode) (m Minter, ok bool) {
	if i := notice(c); i >= 0 {
		return notices[i].minter, true
	}
	return "", false
}

func notice(c NoticeCode) int {
	for i := range notices {
		if notices[i].code == c {
			return i
		}
	}
	return -1
}
