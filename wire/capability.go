package wire

import "github.com/loom-run/loom/core/words"

// Floor is the oldest that is still read: a client that sees less shows that it is
// too old, and one that is older shows that the other side is.
type Floor struct {
	Contract int64 `wire:"contract"` // of the paths
	FrameSet int64 `wire:"frameSet"` // of the recorded frames that every later build reads
}

// SupportFloor is the floor of this build. The recorded frames of each set from
// there on are read by its tests.
var SupportFloor = Floor{Contract: Version, FrameSet: 1}

// Probe is the cheap answer to whether a server is there, and which one.
type Probe struct {
	Contract int64 `wire:"contract"`
	// Generation is larger for each process that serves the same place: an answer of
	// an older one is out of date.
	Generation int64        `wire:"generation"`
	Health     words.Health `wire:"health,word"`
	Floor      Floor        `wire:"floor"`
	Note       *string      `wire:"note"` // a sentence about a health that needs one
}

// Capabilities is what a server can do. What it does not have it says, with none;
// what is absent was not said, by a server that is older or smaller than the
// question.
type Capabilities struct {
	Probe
	Build *string `wire:"build"`
	// Frames are the kinds that this server mints, and Requests the routes that it
	// carries out, by their names. What the contract has beyond them comes from no
	// server yet, or is answered with unsupported.
	Frames          []Kind                          `wire:"frames"`
	Requests        []string                        `wire:"requests"`
	PermissionModes Stated[[]words.PermissionMode]  `wire:"permissionModes"`
	Store           Stated[StoreFace]               `wire:"store"`
	Idempotency     Stated[IdempotencyFace]         `wire:"idempotency"`
	Queue           Stated[QueueFace]               `wire:"queue"`
	Approvals       Stated[ApprovalsFace]           `wire:"approvals"`
	ApprovalsLive   Stated[ApprovalsStreamFace]     `wire:"approvalsStreamLive"`
	Rules           Stated[RulesFace]               `wire:"rules"`
	Background      Stated[BackgroundFace]          `wire:"background"`
	Agents          Stated[AgentsFace]              `wire:"agents"`
	Workflows       Stated[WorkflowsFace]           `wire:"workflows"`
	Hooks           Stated[HooksFace]               `wire:"hooks"`
	MCP             Stated[MCPFace]                 `wire:"mcp"`
	MCPProbe        Stated[MCPProbeFace]            `wire:"mcpProbe"`
	WebSearch       Stated[WebSearchFace]           `wire:"webSearch"`
	Search          Stated[SearchFace]              `wire:"search"`
	Rewind          Stated[RewindFace]              `wire:"rewind"`
	ExecutionLane   Stated[ExecutionLane]           `wire:"executionLane"`
	DeviceExecutor  Stated[DeviceExecutor]          `wire:"deviceExecutor"`
	Memory          Stated[[]words.MemoryCapture]   `wire:"memoryCapture"`
	Postures        Stated[[]words.ApproverPosture] `wire:"approverPosture"`
	SettledBy       Stated[[]words.SettledBy]       `wire:"settledBy"`
	Images          Stated[ImagesFace]              `wire:"images"`
	Attendance      Stated[AttendanceFace]          `wire:"presence"`
}

// StoreFace is where sessions are kept. No SQL under it is a fact of its own.
type StoreFace struct {
	Kind string          `wire:"kind,word"`
	SQL  Stated[SQLFace] `wire:"sql"`
}

// SQLFace is the database under the sessions.
type SQLFace struct {
	Backend     string  `wire:"backend,word"`
	Synchronous *string `wire:"synchronous"` // what an acknowledged commit survives, in the backend's word
	Isolation   *string `wire:"isolation"`
	// WriteProtection says what keeps a second writer out.
	WriteProtection Stated[WriteProtection] `wire:"writeProtection"`
}

// WriteProtection is the fence of a store.
type WriteProtection struct {
	Kind string `wire:"kind,word"`
}

// IdempotencyFace says how long a key is remembered.
type IdempotencyFace struct {
	Scope string `wire:"scope,word"` // process: until it ends; store: for as long as the session is
	Keys  *int64 `wire:"keys"`       // the newest so many; absent is all
}

// QueueFace says which lanes of queued input there are.
type QueueFace struct {
	Lanes    []words.QueueLane `wire:"lanes"`
	Editable bool              `wire:"editable"`
}

// ApprovalsFace says how questions about calls are kept.
type ApprovalsFace struct {
	Durable   bool                  `wire:"durable"`
	Lifetimes []words.GrantLifetime `wire:"lifetimes"`
	WindowMs  *int64                `wire:"windowMs"` // absent: no limit
}

// ApprovalsStreamFace says that pending rows are pushed.
type ApprovalsStreamFace struct {
	Kinds []Kind `wire:"kinds"`
}

// RulesFace says where rules can be written.
type RulesFace struct {
	Destinations []words.RuleDestination `wire:"destinations"`
}

// BackgroundFace says what works in the background and how it is listed.
type BackgroundFace struct {
	Kinds    []words.TaskKind `wire:"kinds"`
	ListFace Stated[ListFace] `wire:"listFace"`
}

// ListFace is a list for each session.
type ListFace struct {
	Stop bool `wire:"stop"` // a task of it can be stopped
}

// AgentsFace bounds the agents that a run may start.
type AgentsFace struct {
	MaxDepth  *int64 `wire:"maxDepth"`
	MaxAtOnce *int64 `wire:"maxAtOnce"`
}

// WorkflowsFace says which workflows there are.
type WorkflowsFace struct {
	Names []string `wire:"names"`
}

// HooksFace says which events hooks hear.
type HooksFace struct {
	Events []string `wire:"events"`
}

// MCPFace says how external tool servers reach a run.
type MCPFace struct {
	FromRequest bool            `wire:"fromRequest"`
	Transports  []string        `wire:"transports"`
	LastLegMCP  Stated[LastLeg] `wire:"lastLegMcp"` // how the servers of the newest run fared
}

// LastLeg is the newest run's tool servers.
type LastLeg struct {
	Servers []MCPServer `wire:"servers"`
}

// MCPProbeFace says that a tool server can be asked what it is.
type MCPProbeFace struct {
	TimeoutMs *int64 `wire:"timeoutMs"`
}

// WebSearchFace is what a deployment searches the web with by default. That there
// is none mounts no such tool by default; a request's own setting still may.
type WebSearchFace struct {
	Backend string `wire:"backend,word"` // an open word
}

// SearchFace says what is searched in sessions.
type SearchFace struct {
	Ranked bool `wire:"ranked"`
}

// RewindFace says what can be taken back.
type RewindFace struct {
	Files bool `wire:"files"`
}

// ExecutionLane says where tools run.
type ExecutionLane struct {
	Kind  string  `wire:"kind,word"`
	Jail  *string `wire:"jail"`  // the word of what confines a command; absent when not known
	Fence *string `wire:"fence"` // of commands that outlive their process
}

// DeviceExecutor says that tools can run on another machine.
type DeviceExecutor struct {
	Management Stated[DeviceManagement] `wire:"management"`
}

// DeviceManagement says that machines are enrolled here.
type DeviceManagement struct {
	Devices int64 `wire:"devices"`
}

// ImagesFace bounds the images of an input.
type ImagesFace struct {
	MediaTypes []string `wire:"mediaTypes"`
	MaxCount   *int64   `wire:"maxCount"`
	MaxBytes   *int64   `wire:"maxBytes"`
}

// AttendanceFace says that who looks at a session is told.
type AttendanceFace struct {
	Named bool `wire:"named"`
}
