package sdkmsg

import (
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
)

// Message is what one line says: [Assistant], [User], [Result], [Init],
// [CompactBoundary], [Informational], [PermissionDenied], [TaskNotification], or
// [Unknown].
type Message interface{ message() }

// Assistant is one finished block of a response. The lines of one response share the
// id of their message.
type Assistant struct {
	Message         Response        `wire:"message"`
	ParentToolUseID Text            `wire:"parent_tool_use_id"`
	Aborted         bool            `wire:"aborted,opt"`
	Loom            *AssistantFacts `wire:"loom,lenient"`
}

// Response is a message of a model, as far as the line has it.
type Response struct {
	ID           string  `wire:"id,opt"`
	Type         string  `wire:"type,opt"`
	Role         string  `wire:"role,opt"`
	Model        string  `wire:"model,opt"`
	Content      Content `wire:"content"`
	StopReason   Text    `wire:"stop_reason"`
	StopSequence Text    `wire:"stop_sequence"`
	Usage        *Usage  `wire:"usage,lenient"`
}

// Usage is what a response, or a turn, consumed. What is absent was not told.
type Usage struct {
	Input      *int64 `wire:"input_tokens"`
	Output     *int64 `wire:"output_tokens"`
	CacheWrite *int64 `wire:"cache_creation_input_tokens"`
	CacheRead  *int64 `wire:"cache_read_input_tokens"`
}

// AssistantFacts is what the vocabulary has no place for.
type AssistantFacts struct {
	Block int64 `wire:"block"` // which block of the response it is
}

// User is a prompt, or the results of calls.
type User struct {
	Message         Input        `wire:"message"`
	ParentToolUseID Text         `wire:"parent_tool_use_id"`
	IsSynthetic     bool         `wire:"isSynthetic,opt"` // the harness wrote it, and no person
	IsReplay        bool         `wire:"isReplay,opt"`
	ToolUseResult   *jsonv.Value `wire:"tool_use_result"` // what the tool says to programs
	Origin          *Origin      `wire:"origin,lenient"`  // absent: not attributed
	Loom            *UserFacts   `wire:"loom,lenient"`
}

// Input is what is said to a model.
type Input struct {
	Role    string  `wire:"role,opt"`
	Content Content `wire:"content"`
}

// Origin says who wrote an input. A reader that asks for a human takes the exact
// word and nothing else.
type Origin struct {
	Kind string `wire:"kind"`
}

// UserFacts is what the vocabulary has no place for.
type UserFacts struct {
	Entry  string  `wire:"entry,opt"`
	Bytes  *int64  `wire:"bytes"`  // of the whole text, which may be longer than what is shown
	Images int64   `wire:"images"` // that came with it, which are kept elsewhere
	Author *Author `wire:"author"`

	Tool            string  `wire:"tool,opt"`       // of a result: the tool's name
	TextBytes       []int64 `wire:"text_bytes,opt"` // of a result: the whole length of each text
	Gate            *Gate   `wire:"gate"`
	StructuredBytes int64   `wire:"structured_bytes,opt"` // of what was too large to be told
	Summary         bool    `wire:"summary,opt"`          // it stands for the history before it
}

// Author is whom something is attributed to.
type Author struct {
	Kind  string `wire:"kind"`
	ID    string `wire:"id"`
	Label string `wire:"label"`
}

// Gate is how a call came to be allowed or refused. Words are verbatim.
type Gate struct {
	CallID      string            `wire:"tool_use_id,opt"`
	Disposition words.Disposition `wire:"disposition"`
	Settlement  *words.Settlement `wire:"settlement"`
	DeniedBy    *words.DeniedBy   `wire:"denied_by"`
	Origin      *words.AskOrigin  `wire:"origin"`
	Decider     *Author           `wire:"decider"`
}

// Result closes a turn of the person: exactly one for each.
type Result struct {
	Subtype           string       `wire:"subtype,opt"`
	IsError           bool         `wire:"is_error,opt"`
	DurationMs        *int64       `wire:"duration_ms"`
	DurationAPIMs     *int64       `wire:"duration_api_ms"`
	NumTurns          *int64       `wire:"num_turns"`
	Result            *string      `wire:"result"` // the answer, of a success
	Errors            []string     `wire:"errors,opt"`
	StopReason        Text         `wire:"stop_reason"`
	TotalCostUSD      *jsonv.Value `wire:"total_cost_usd"` // the part that is known; absent when nothing is
	Usage             *Usage       `wire:"usage,lenient"`
	PermissionDenials []Denial     `wire:"permission_denials,opt"`
	TerminalReason    string       `wire:"terminal_reason,opt"`
	Loom              *ResultFacts `wire:"loom,lenient"`
}

// Subtypes of a result.
const (
	Success         = "success"
	ErrorExecution  = "error_during_execution"
	ErrorMaxTurns   = "error_max_turns"
	ErrorMaxBudget  = "error_max_budget_usd"
	ErrorMaxRetries = "error_max_structured_output_retries"
)

// Denial is a call that was not allowed.
type Denial struct {
	ToolName  string      `wire:"tool_name"`
	ToolUseID string      `wire:"tool_use_id"`
	ToolInput jsonv.Value `wire:"tool_input"`
}

// ResultFacts is what the vocabulary has no place for.
type ResultFacts struct {
	Operation  string      `wire:"operation,opt"`
	Terminal   jsonv.Value `wire:"terminal"` // how it ended, in the form of the wire
	FinalEntry string      `wire:"final_entry,opt"`
	Gates      []Gate      `wire:"gates,opt"`   // absent: not known
	UsageExact bool        `wire:"usage_exact"` // false: the counts that are there are lower bounds
	CostExact  bool        `wire:"cost_exact"`  // false: the cost is a lower bound
}

// Init is the first line: what a run was put together from.
type Init struct {
	Cwd            string      `wire:"cwd,opt"`
	Tools          []ToolName  `wire:"tools,opt"`
	MCPServers     []MCPServer `wire:"mcp_servers,opt"`
	Model          string      `wire:"model,opt"`
	PermissionMode string      `wire:"permissionMode,opt"`
	// ToolsSource says where the list of tools comes from, and ToolsReason why it is
	// an estimate when it is one.
	ToolsSource string `wire:"toolsSource,opt"`
	ToolsReason string `wire:"toolsReason,opt"`
}

// MCPServer is an external tool server.
type MCPServer struct {
	Name   string `wire:"name"`
	Status string `wire:"status"`
}

// CompactBoundary stands where history was put into a summary.
type CompactBoundary struct {
	Metadata CompactMetadata `wire:"compact_metadata"`
	Loom     *CompactFacts   `wire:"loom,lenient"`
}

// CompactMetadata says what was compacted.
type CompactMetadata struct {
	Trigger    string `wire:"trigger,opt"` // manual or auto; absent when not recorded
	PreTokens  *int64 `wire:"pre_tokens"`
	PostTokens *int64 `wire:"post_tokens"`
}

// CompactFacts is what the vocabulary has no place for.
type CompactFacts struct {
	Entry    string                   `wire:"entry"`
	Trigger  *words.CompactionTrigger `wire:"trigger"`
	Kept     int64                    `wire:"kept"` // messages that stay after the summary
	FromHook bool                     `wire:"from_hook,opt"`
	Cost     *Spent                   `wire:"cost"` // of making the summary
}

// Spent is what was consumed, with how well it is known.
type Spent struct {
	Usage
	CostMicroUSD *int64 `wire:"cost_micro_usd"`
	UsageExact   bool   `wire:"usage_exact"`
	CostExact    bool   `wire:"cost_exact"`
}

// Informational is a plain line between the others.
type Informational struct {
	Content string     `wire:"content"`
	Level   string     `wire:"level"` // info, notice, suggestion or warning
	Tag     string     `wire:"tag,opt"`
	Loom    *InfoFacts `wire:"loom,lenient"`
}

// InfoFacts is what the vocabulary has no place for. One of its members is there.
type InfoFacts struct {
	Notice *NoticeFacts `wire:"notice"`
	Branch *BranchFacts `wire:"branch"`
	Unused *UnusedFacts `wire:"unused"`
}

// NoticeFacts is a fact outside the conversation.
type NoticeFacts struct {
	Code     words.NoticeCode `wire:"code"`
	Audience words.Audience   `wire:"audience"` // by the catalogue
	Facts    jsonv.Value      `wire:"facts"`
}

// BranchFacts is a branch that was left.
type BranchFacts struct {
	Entry    string `wire:"entry"`
	From     string `wire:"from,opt"`
	Bytes    int64  `wire:"bytes"`
	FromHook bool   `wire:"from_hook,opt"`
	Cost     *Spent `wire:"cost"`
}

// UnusedFacts is queued input that was not used, or may not have been.
type UnusedFacts struct {
	Lane  words.QueueLane    `wire:"lane"`
	Count int64              `wire:"count"`
	Cause *words.UnusedCause `wire:"cause"`
	Items []string           `wire:"items,opt"`
	Child string             `wire:"child_session,opt"`
}

// PermissionDenied says that a call was denied and nobody was asked. The result's
// own list of denials is the one to trust.
type PermissionDenied struct {
	ToolName           string `wire:"tool_name"`
	ToolUseID          string `wire:"tool_use_id"`
	DecisionReasonType string `wire:"decision_reason_type,opt"`
	Message            string `wire:"message"`
}

// TaskNotification is the end of a task beside the conversation, or its call for
// attention.
type TaskNotification struct {
	TaskID     string     `wire:"task_id"`
	ToolUseID  string     `wire:"tool_use_id,opt"`
	Status     string     `wire:"status"`
	OutputFile string     `wire:"output_file,opt"`
	Summary    string     `wire:"summary,opt"`
	Usage      *TaskUsage `wire:"usage,lenient"`
	Loom       *TaskFacts `wire:"loom,lenient"`
}

// TaskUsage is what a task consumed. What is absent is not known.
type TaskUsage struct {
	TotalTokens *int64 `wire:"total_tokens"`
	ToolUses    *int64 `wire:"tool_uses"`
	DurationMs  *int64 `wire:"duration_ms"`
}

// TaskFacts is what the vocabulary has no place for.
type TaskFacts struct {
	Kind         words.TaskKind         `wire:"kind"`
	Status       words.BackgroundStatus `wire:"status"` // the engine's word
	Result       *string                `wire:"result"`
	StoppedBy    *words.CancelCause     `wire:"stopped_by"`
	Resumable    *bool                  `wire:"resumable"`
	Partial      *bool                  `wire:"partial"`
	ExitCode     *int64                 `wire:"exit_code"`
	Diagnostics  *string                `wire:"diagnostics"`
	Lines        *int64                 `wire:"lines"`
	RecentSteps  []string               `wire:"recent_steps,opt"`
	EditedFiles  []string               `wire:"edited_files,opt"`
	Source       *string                `wire:"source"`
	Seq          *int64                 `wire:"seq"`
	Injected     *bool                  `wire:"injected"`
	CostMicroUSD *int64                 `wire:"cost_micro_usd"`
	LowerBound   bool                   `wire:"lower_bound,opt"`
}

// Unknown is a line of a type that this build does not know, whole.
type Unknown struct {
	Type, Subtype string
	Raw           jsonv.Value
}

func (Assistant) message()        {}
func (User) message()             {}
func (Result) message()           {}
func (Init) message()             {}
func (CompactBoundary) message()  {}
func (Informational) message()    {}
func (PermissionDenied) message() {}
func (TaskNotification) message() {}
func (Unknown) message()          {}
