package wire

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/wire/shape"
)

// Encode returns the JSON of a request or an answer.
func Encode[T any](v T) []byte {
	var w jsonv.Writer
	shape.Append(&w, v)
	return w.Bytes()
}

// DecodeRequest reads a request. Fields and words that are not known are refused:
// an option that was misspelt or is newer than the server must not be silently off.
func DecodeRequest[Q any](data []byte) (Q, error) { return decodeWith(data, shape.Exact[Q]) }

// DecodeAnswer reads an answer. Fields that are not known are passed over and words
// are kept, so that an older client reads a newer server.
func DecodeAnswer[R any](data []byte) (R, error) { return decodeWith(data, shape.Decode[R]) }

func decodeWith[T any](data []byte, read func(jsonv.Value, string) (T, error)) (T, error) {
	v, err := jsonv.Parse(data)
	if err != nil {
		var none T
		return none, err
	}
	return read(v, "wire."+reflect.TypeFor[T]().Name())
}

// Spec is what there is to know of a route but its types.
type Spec struct {
	Name    string // by which the capabilities name it
	Method  string // GET or POST
	Path    string // behind the version; {session} stands for the session
	Status  int    // of a success
	Limit   int64  // of the request's body, in bytes
	Query   []string
	Request reflect.Type // nil of a GET
	Answer  reflect.Type // nil of the event stream
}

// Mutates reports whether the request carries an idempotency key.
func (s *Spec) Mutates() bool {
	if s.Request == nil {
		return false
	}
	_, ok := s.Request.FieldByName("Key")
	return ok
}

// PathOf is the path for a session, without the version.
func (s *Spec) PathOf(session id.SessionID) string {
	return strings.ReplaceAll(s.Path, "{session}", session.String())
}

// Route is one thing that can be asked: Q is sent and R comes back.
type Route[Q, R any] struct{ *Spec }

// routes is filled by the variables below, in their order.
var routes []*Spec

// Routes returns every route of the contract.
func Routes() []*Spec { return append([]*Spec(nil), routes...) }

// Prefix is the start of every path: the version of the contract.
func Prefix() string { return "/v" + strconv.Itoa(Version) }

func post[Q, R any](name, path string, status int, limit int64) Route[Q, R] {
	s := &Spec{Name: name, Method: "POST", Path: path, Status: status, Limit: limit, Request: reflect.TypeFor[Q](), Answer: reflect.TypeFor[R]()}
	routes = append(routes, s)
	return Route[Q, R]{s}
}

func get[R any](name, path string, query ...string) Route[struct{}, R] {
	s := &Spec{Name: name, Method: "GET", Path: path, Status: 200, Query: query, Answer: reflect.TypeFor[R]()}
	routes = append(routes, s)
	return Route[struct{}, R]{s}
}

// The routes.
var (
	GetProbe        = get[Probe]("probe", "/probe")
	GetCapabilities = get[Capabilities]("capabilities", "/capabilities")

	PostSession = post[CreateSession, Created]("session_create", "/sessions", 201, MaxBody)
	GetSessions = get[SessionList]("session_list", "/sessions", "archived")
	PostSearch  = post[Search, SearchPage]("search", "/search", 200, MaxBody)

	GetPage = get[SessionPage]("history", "/sessions/{session}", "after", "limit")
	// GetFrames is the event stream; its answer is no JSON.
	GetFrames = func() *Spec {
		s := &Spec{Name: "frames", Method: "GET", Path: "/sessions/{session}/frames", Status: 200, Query: []string{"after"}}
		routes = append(routes, s)
		return s
	}()

	PostPrompt      = post[Prompt, Prompted]("prompt", "/sessions/{session}/prompt", 202, MaxPromptBody)
	PostSteer       = post[Steer, Prompted]("steer", "/sessions/{session}/steer", 202, MaxPromptBody)
	PostFollowUp    = post[FollowUp, Prompted]("follow_up", "/sessions/{session}/follow-up", 202, MaxPromptBody)
	PostQueueEdit   = post[QueueEdit, QueueReceipt]("queue_edit", "/sessions/{session}/queue/edit", 200, MaxPromptBody)
	PostQueueCancel = post[QueueCancel, QueueReceipt]("queue_cancel", "/sessions/{session}/queue/cancel", 200, MaxBody)
	PostResume      = post[Resume, Resumed]("resume", "/sessions/{session}/resume", 202, MaxBody)
	PostAbort       = post[Abort, AbortReceipt]("abort", "/sessions/{session}/abort", 202, MaxBody)

	GetPending   = get[PendingRows]("pending", "/sessions/{session}/pending")
	PostDecide   = post[Decide, Decided]("decide", "/sessions/{session}/decide", 200, MaxDecisionBody)
	PostAnswer   = post[Answer, Decided]("answer", "/sessions/{session}/answer", 200, MaxDecisionBody)
	PostPlan     = post[DecidePlan, Decided]("plan", "/sessions/{session}/plan", 200, MaxDecisionBody)
	GetGrants    = get[GrantList]("grants_list", "/sessions/{session}/grants")
	PostForget   = post[ForgetGrant, Forgotten]("grants_forget", "/sessions/{session}/grants/forget", 200, MaxBody)
	PostConfig   = post[Configure, Configured]("config", "/sessions/{session}/config", 200, MaxBody)
	PostMode     = post[SetMode, Configured]("mode", "/sessions/{session}/mode", 200, MaxBody)
	PostModel    = post[SetModel, Configured]("model", "/sessions/{session}/model", 200, MaxBody)
	PostFork     = post[Fork, Forked]("fork", "/sessions/{session}/fork", 201, MaxBody)
	PostNavigate = post[Navigate, Navigated]("navigate", "/sessions/{session}/navigate", 202, MaxBody)
	PostCompact  = post[Compact, Navigated]("compact", "/sessions/{session}/compact", 202, MaxBody)
	PostRewind   = post[Rewind, Rewound]("rewind", "/sessions/{session}/rewind", 200, MaxBody)

	GetRules       = get[RuleList]("rules_list", "/sessions/{session}/rules")
	PostRuleWrite  = post[WriteRule, RuleReceipt]("rules_write", "/sessions/{session}/rules/write", 200, MaxBody)
	PostRuleRemove = post[RemoveRule, RuleReceipt]("rules_remove", "/sessions/{session}/rules/remove", 200, MaxBody)

	GetBackground = get[Background]("background_list", "/sessions/{session}/background")
	PostStopTask  = post[StopTask, StopReceipt]("background_stop", "/sessions/{session}/background/stop", 202, MaxBody)

	PostRename  = post[RenameSession, SessionChanged]("session_rename", "/sessions/{session}/rename", 200, MaxBody)
	PostArchive = post[ArchiveSession, SessionChanged]("session_archive", "/sessions/{session}/archive", 200, MaxBody)
	PostRestore = post[RestoreSession, SessionChanged]("session_restore", "/sessions/{session}/restore", 200, MaxBody)
	PostClose   = post[CloseSession, SessionChanged]("session_close", "/sessions/{session}/close", 200, MaxBody)
	PostErase   = post[EraseSession, Erased]("session_erase", "/sessions/{session}/erase", 200, MaxBody)
	PostCheck   = post[CheckSession, CheckReport]("session_check", "/sessions/{session}/check", 200, MaxBody)
)
