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
	StepDeferredBadly  Step = "settle an invalid handle"
	StepAborted        Step = "settle after an abort"
	StepLost           Step = "settle a lost response"
	StepLostForNow     Step = "settle a lost response, try later"
	StepLostAfterAbort Step = "settle a lost response after an abort"
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
	StepPlaceResults  Step = "place results"
	StepCloseBatch    Step = "close a batch"
)

// Steps are all steps.
func Steps() []Step {
	return []Step{
		StepStart, StepPlaceWrites, StepPlaceSteering, StepPlaceFollowUps, StepBegin, StepTurnsUsed, StepDrainWrites, StepDrainSteering,
		StepDrainFollowUps, StepPlaceAfterAbort, StepFinishCompleted, StepFinishTerminated, StepFinishFailed, StepFinishAborted,
		StepRequest, StepRefused, StepRetry, StepAnswered, StepCalls, StepFailed, StepFailedForNow, StepOverflow, StepDeferredBadly,
		StepAborted, StepLost, StepLostForNow, StepLostAfterAbort,
		StepRunTool, StepReplay, StepCallLost, StepCallRefused, StepCallSettled, StepCallAborted, StepCallCutOff, StepCallMalformed,
		StepPlaceResults, StepCloseBatch,
	}
}
