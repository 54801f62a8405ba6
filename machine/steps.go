package machine

// Step names what a commit of a pass does, for logs, scripts and the tests that
// assert that every one of them is reached. It is stored nowhere.
type Step string

// The steps of a run between two responses.
const (
	StepStart            Step = "start"
	StepPlaceWrites      Step = "place writes"
	StepPlaceSteering    Step = "place steering"
	StepPlaceFollowUps   Step = "place follow-ups"
	StepBegin            Step = "begin a step"
	StepTurnsUsed        Step = "stop, the turns are used"
	StepDrainWrites      Step = "drain writes"
	StepDrainSteering    Step = "drain steering"
	StepDrainFollowUps   Step = "drain follow-ups"
	StepPlaceAfterAbort  Step = "place writes after an abort"
	StepFinishCompleted  Step = "finish as completed"
	StepFinishTerminated Step = "finish, ended by tools"
	StepFinishFailed     Step = "finish as failed"
	StepFinishAborted    Step = "finish as aborted"
	StepFinishDeclined   Step = "finish as declined"
	StepFinishCompaction Step = "finish a compaction"
	StepFinishNavigation Step = "finish a navigation"
	StepGoOn             Step = "go on for a hook"
)

// The steps around a request.
const (
	StepRequest        Step = "request"
	StepRefused        Step = "stop, not usable as configured"
	StepRetry          Step = "try again"
	StepAnswered       Step = "settle an answer"
	StepCalls          Step = "settle calls"
	StepFailed         Step = "settle a failure"
	StepFailedForNow   Step = "settle a failure, try later"
	StepOverflow       Step = "settle an overflow"
	StepDeferred       Step = "settle a deferred response"
	StepDeferredBadly  Step = "settle an invalid handle"
	StepAborted        Step = "settle after an abort"
	StepLost           Step = "settle a lost response"
	StepLostForNow     Step = "settle a lost response, try later"
	StepLostAfterAbort Step = "settle a lost response after an abort"
)

// The steps of a response that the provider deferred.
const (
	StepPoll               Step = "poll"
	StepPollRefused        Step = "stop, the provider cannot be polled"
	StepPollExpired        Step = "stop, the deferred response expired"
	StepPollPending        Step = "poll later"
	StepPollMismatch       Step = "settle another handle"
	StepPollFailed         Step = "settle a deferred failure"
	StepPollAnswered       Step = "settle a deferred answer"
	StepPollCalls          Step = "settle deferred calls"
	StepPollAborted        Step = "settle a poll after an abort"
	StepPollLost           Step = "poll again for a lost one"
	StepPollLostAfterAbort Step = "settle a lost poll after an abort"
)

// The steps of compactions and summaries.
const (
	StepCompact               Step = "begin a compaction"
	StepOverflowCompact       Step = "settle an overflow, compact"
	StepNoHeadroom            Step = "stop, compacting left no room"
	StepSummaryBegin          Step = "have a summary written"
	StepSummarySupplied       Step = "publish a supplied summary"
	StepSummaryDeclined       Step = "go on without a summary"
	StepSummaryRequest        Step = "request a summary"
	StepSummaryGoesOn         Step = "request the rest of a summary"
	StepSummaryContinues      Step = "keep a part of a summary"
	StepSummaryShrinks        Step = "shorten the request of a summary"
	StepSummaryPublished      Step = "publish a summary"
	StepSummaryRefused        Step = "go on, no summary as configured"
	StepSummaryFailed         Step = "go on, the summary failed"
	StepSummaryFailedForNow   Step = "try the summary later"
	StepSummaryRetry          Step = "try the summary again"
	StepSummaryLost           Step = "try a lost summary again"
	StepSummaryAborted        Step = "pay for a summary after an abort"
	StepSummaryLostAfterAbort Step = "pay for a lost summary after an abort"
)

// The steps of a batch.
const (
	StepRunTool       Step = "run a call"
	StepReplay        Step = "run a lost call again"
	StepCallLost      Step = "answer a lost call"
	StepCallRefused   Step = "answer a refused call"
	StepCallSettled   Step = "keep a result"
	StepCallAborted   Step = "answer a call after an abort"
	StepCallCutOff    Step = "answer a call that was cut off"
	StepCallMalformed Step = "answer a malformed call"
	StepCallDenied    Step = "answer a call that a person refused"
	StepCallReplied   Step = "keep a person's reply"
	StepCallExpired   Step = "answer a call that nobody decided"
	StepCallEnded     Step = "answer a call of a run that ends"
	StepHold          Step = "ask a person"
	StepPlaceResults  Step = "place results"
	StepCloseBatch    Step = "close a batch"
	StepCloseExpired  Step = "close a batch, nobody decided"
)

// Steps are all steps.
func Steps() []Step {
	return []Step{
		StepStart, StepPlaceWrites, StepPlaceSteering, StepPlaceFollowUps, StepBegin, StepTurnsUsed, StepDrainWrites, StepDrainSteering,
		StepDrainFollowUps, StepPlaceAfterAbort, StepFinishCompleted, StepFinishTerminated, StepFinishFailed, StepFinishAborted,
		StepFinishDeclined, StepFinishCompaction, StepFinishNavigation, StepGoOn, StepRequest, StepRefused, StepRetry, StepAnswered, StepCalls,
		StepFailed, StepFailedForNow, StepOverflow, StepDeferred, StepDeferredBadly, StepAborted, StepLost, StepLostForNow, StepLostAfterAbort,
		StepPoll, StepPollRefused, StepPollExpired, StepPollPending, StepPollMismatch, StepPollFailed, StepPollAnswered, StepPollCalls,
		StepPollAborted, StepPollLost, StepPollLostAfterAbort, StepCompact, StepOverflowCompact, StepNoHeadroom, StepSummaryBegin,
		StepSummarySupplied, StepSummaryDeclined, StepSummaryRequest, StepSummaryGoesOn, StepSummaryContinues, StepSummaryShrinks,
		StepSummaryPublished, StepSummaryRefused, StepSummaryFailed, StepSummaryFailedForNow, StepSummaryRetry, StepSummaryLost,
		StepSummaryAborted, StepSummaryLostAfterAbort, StepRunTool, StepReplay, StepCallLost, StepCallRefused, StepCallSettled, StepCallAborted,
		StepCallCutOff, StepCallMalformed, StepCallDenied, StepCallReplied, StepCallExpired, StepCallEnded, StepHold, StepPlaceResults,
		StepCloseBatch, StepCloseExpired,
	}
}
