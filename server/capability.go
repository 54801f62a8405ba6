package server

import (
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/wire"
)

// mintedKinds are the frames that this server mints. The contract has more; those
// come from no server yet.
var mintedKinds = []wire.Kind{
	wire.KindRunStart, wire.KindTurnStart, wire.KindUserMessage, wire.KindTextDelta, wire.KindTextEnd, wire.KindReasoningDelta,
	wire.KindReasoningEnd, wire.KindToolCallDelta, wire.KindToolCall, wire.KindToolDisclosure, wire.KindToolProgress,
	wire.KindToolResult, wire.KindTurnEnd, wire.KindLastTurnUsage, wire.KindRetry, wire.KindCompactionBoundary,
	wire.KindBranchSummary, wire.KindRunEnd, wire.KindRunStopped, wire.KindNotice,
	wire.KindTaskStarted, wire.KindTaskNotification, wire.KindBackground, wire.KindQueue, wire.KindInputTaken,
	wire.KindTaskStarted, wire.KindTaskNotification, wire.KindBackground,
	wire.KindPending, wire.KindApprovalRequest, wire.KindApprovalSettled, wire.KindQuestionRequest, wire.KindQuestionSettled,
	wire.KindPlanRequest, wire.KindPlanSettled, wire.KindActivity,
}

// probe says that the server is there, and which one.
func (s *Server) probe() wire.Probe {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := wire.Probe{
		Contract: wire.Version, Generation: count(s.host.About().Generation), Health: words.HealthReady, Floor: wire.SupportFloor,
	}
	if s.closed {
		p.Health = words.HealthDraining
	}
	return p
}

// capabilities says what this server has, and that it has none of the rest.
func (s *Server) capabilities() wire.Capabilities {
	about := s.host.About()
	c := wire.Capabilities{
		Probe: s.probe(), Frames: mintedKinds, Requests: s.handled,
		PermissionModes: wire.FactOf(about.Modes),
		Idempotency:     wire.FactOf(wire.IdempotencyFace{Scope: "process", Keys: new(int64(rememberedKeys))}),
		Queue:           wire.FactOf(wire.QueueFace{Lanes: []words.QueueLane{words.LaneSteer, words.LaneFollowUp, words.LaneNextRun}, Editable: true}),
		ExecutionLane:   wire.FactOf(wire.ExecutionLane{Kind: "local"}),

		Approvals: wire.None[wire.ApprovalsFace](), ApprovalsLive: wire.None[wire.ApprovalsStreamFace](), Rules: wire.None[wire.RulesFace](),
		Background: wire.None[wire.BackgroundFace](), Agents: wire.None[wire.AgentsFace](), Workflows: wire.None[wire.WorkflowsFace](),
		Hooks: wire.None[wire.HooksFace](), MCP: wire.None[wire.MCPFace](), MCPProbe: wire.None[wire.MCPProbeFace](),
		WebSearch: wire.None[wire.WebSearchFace](), Search: wire.FactOf(wire.SearchFace{Ranked: true}), Rewind: wire.FactOf(wire.RewindFace{Files: true}),
		DeviceExecutor: wire.None[wire.DeviceExecutor](), Images: wire.None[wire.ImagesFace](), Attendance: wire.None[wire.AttendanceFace](),
		Memory: wire.None[[]words.MemoryCapture](), Postures: wire.None[[]words.ApproverPosture](), SettledBy: wire.None[[]words.SettledBy](),
	}
	var kinds []words.TaskKind
	if about.Agents != nil {
		c.Agents = wire.FactOf(wire.AgentsFace{MaxDepth: &about.Agents.MaxDepth, MaxAtOnce: &about.Agents.MaxAtOnce})
		kinds = append(kinds, words.TaskAgent)
	}
	if about.Jobs {
		kinds = append(kinds, words.TaskShell)
	}
	if len(kinds) > 0 {
		c.Background = wire.FactOf(wire.BackgroundFace{Kinds: kinds, ListFace: wire.FactOf(wire.ListFace{Stop: true})})
	}
	if a := about.Approvals; a != nil {
		c.Approvals = wire.FactOf(wire.ApprovalsFace{Durable: true, Lifetimes: a.Lifetimes, WindowMs: a.WindowMs})
		c.ApprovalsLive = wire.FactOf(wire.ApprovalsStreamFace{Kinds: []wire.Kind{wire.KindApprovalRequest, wire.KindQuestionRequest, wire.KindPlanRequest}})
		c.Postures = wire.FactOf([]words.ApproverPosture{words.ApproverResident, words.ApproverAbsent})
	}
	if len(about.Rules) > 0 {
		c.Rules = wire.FactOf(wire.RulesFace{Destinations: about.Rules})
	}
	if about.Build != "" {
		c.Build = &about.Build
	}
	if about.Store != "" {
		face := wire.StoreFace{Kind: about.Store, SQL: wire.None[wire.SQLFace]()}
		if about.SQL != nil {
			sql := wire.SQLFace{Backend: about.SQL.Backend, WriteProtection: wire.FactOf(wire.WriteProtection{Kind: about.SQL.Fence})}
			if about.SQL.Durability != "" {
				sql.Synchronous = &about.SQL.Durability
			}
			face.SQL = wire.FactOf(sql)
		}
		c.Store = wire.FactOf(face)
	}
	return c
}
