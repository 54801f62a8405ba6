package plane

import (
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/wire"
)

// Event is what passes. Each says what its host owes. Those of this file are of the
// conversation, those of beside.go of what happens beside it.
type Event interface{ event() }

// Cleared says that a turn of the person opens. The host drops what it showed of the
// one before: live text and windows, the wait for an attempt, and suggestions of
// what to ask next.
type Cleared struct{}

// RunOpened says that a run is on, and with what. It replaces what was said of the
// run before.
type RunOpened struct {
	Operation id.OpID
	Model     wire.ModelRef
	Mode      words.PermissionMode
	Cwd       string
	MaxTurns  *int64
	Roster    wire.Stated[wire.Roster]      // what the model is offered
	Hands     wire.Stated[wire.Hands]       // whether it was given files and a shell
	MCP       wire.Stated[[]wire.MCPServer] // what became of external tool servers
}

// TurnOpened says that a response is on its way. The host may show that the model
// works.
type TurnOpened struct {
	Entry   id.EntryID
	Model   *wire.ModelRef
	Attempt *int64
}

// LiveArguments is a piece of the arguments of a call that the model is writing. A
// host that shows them starts again at an offset of 0, and shows no more after a
// gap; the committed call replaces them.
type LiveArguments struct {
	Segment      wire.Segment
	CallID, Name string
	Offset       int64
	Fragment     string
}

// CallDisclosed says what a committed call is. The host may draw it on the call's
// card; its result supersedes it.
type CallDisclosed struct{ Disclosure wire.ToolDisclosure }

// ContextUsed is what the newest response consumed and how full the context is. The
// host replaces what it showed of it.
type ContextUsed struct {
	Entry         id.EntryID
	Usage         Tally
	Model         wire.ModelRef
	ContextTokens *int64 // nil: not known
	ContextWindow *int64
}

// LiveText is a further piece of a segment. The host appends it.
type LiveText struct {
	Segment   wire.Segment
	Reasoning bool
	Text      string
}

// Settled says what becomes of the live text of a segment now that its
// authoritative text is there, or will never be. The host applies the verdict.
type Settled struct {
	Segment   wire.Segment
	Reasoning bool
	Verdict   Verdict
}

// ToolWindow is the end of a running tool's output. It replaces the window
// before; the call's result replaces both.
type ToolWindow struct {
	CallID     string
	Stream     string
	Tail       string
	TotalBytes int64
	ElapsedMs  *int64
}

// Waiting says that an attempt failed and the next one comes at a time.
type Waiting struct {
	Attempt     int64
	MaxAttempts *int64 // nil: not known, or without bound
	UntilMs     int64
	Error       string
}

// LastTurn is the accounting of the turn that just ended.
type LastTurn struct {
	Entry        id.EntryID
	Usage        Tally
	StopReason   string
	Model        wire.ModelRef
	ErrorMessage *string
}

// Noticed is a fact outside the conversation. A host shows those for the user
// and leaves the others to who runs the engine.
type Noticed struct {
	Code     words.NoticeCode
	Audience words.Audience
	Facts    []wire.Fact
}

// RunClosed is the last output about a run, always, also when the stream broke.
type RunClosed struct {
	Ending Ending
	Turns  int // responses of the model; attempts that failed are not counted
	Total  Tally
}

func (Cleared) event()       {}
func (RunOpened) event()     {}
func (TurnOpened) event()    {}
func (LiveArguments) event() {}
func (CallDisclosed) event() {}
func (ContextUsed) event()   {}
func (LiveText) event()      {}
func (Settled) event()       {}
func (ToolWindow) event()    {}
func (Waiting) event()       {}
func (LastTurn) event()      {}
func (Noticed) event()       {}
func (RunClosed) event()     {}

// Ending is how a run ended for the one who watched: [Seen] with its cause, or
// [Lost].
type Ending interface{ ending() }

// Seen is an end that was committed.
type Seen struct{ Cause wire.Cause }

// Lost is a run whose end was not seen. The session knows more than the watcher:
// the run may have ended or still be going.
type Lost struct {
	Why LostWord
	Err error // what broke, if something did
}

// LostWord says why an end was not seen.
type LostWord string

// The closed set of reasons.
const (
	StreamClosed  LostWord = "stream_closed"  // the stream ended without a run end
	StreamBroke   LostWord = "stream_broke"   // reading the stream failed for good
	Interrupted   LostWord = "interrupted"    // the watcher was told to stop and the end did not come in time
	ContractBroke LostWord = "contract_broke" // a run end came that cannot be read
	Stopped       LostWord = "stopped"        // the process that holds the session cannot go on with it
	OutputFailed  LostWord = "output_failed"  // the outputs could not be put out
	Earlier       LostWord = "ended_earlier"  // it ended before this client was started again, and was told then
)

func (Seen) ending() {}
func (Lost) ending() {}
