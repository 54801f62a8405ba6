package machine_test

import (
	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/machine"
	"pgregory.net/rapid"
)

// Generators of what the registers hold. What is generated is storable.

func maybe[T any](g *rapid.Generator[T]) *rapid.Generator[*T] { return rapid.Ptr(g, true) }

// stored generates messages as a row gives them back: what a model wrote may not be UTF-8 before it was stored.
func stored() *rapid.Generator[message.Message] {
	return rapid.Map(coretest.Message(), func(m message.Message) message.Message {
		var w jsonv.Writer
		message.Append(&w, m)
		read, err := message.Decode(parseText(string(w.Bytes())))
		if err != nil {
			panic(err)
		}
		return read
	})
}

func entryIDs() *rapid.Generator[[]id.EntryID] { return rapid.SliceOfN(coretest.EntryID(), 0, 3) }

func count() *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Int64Range(0, 5), rapid.Int64())
}

func genConfiguration() *rapid.Generator[machine.Configuration] {
	levels := []machine.ThinkingLevel{
		machine.ThinkingOff, machine.ThinkingMinimal, machine.ThinkingLow, machine.ThinkingMedium, machine.ThinkingHigh, machine.ThinkingXHigh, machine.ThinkingMax,
	}
	return rapid.Custom(func(t *rapid.T) machine.Configuration {
		return machine.Configuration{
			Model:           machine.ModelRef{Provider: coretest.Text().Draw(t, "provider"), ModelID: coretest.Text().Draw(t, "modelId")},
			ThinkingLevel:   rapid.SampledFrom(levels).Draw(t, "thinkingLevel"),
			ActiveToolNames: rapid.SliceOfN(coretest.Text(), 0, 3).Draw(t, "activeToolNames"),
		}
	})
}

func genStrandState() *rapid.Generator[machine.StrandState] {
	return rapid.Custom(func(t *rapid.T) machine.StrandState {
		s := machine.StrandState{PendingNextRun: entryIDs().Draw(t, "pendingNextRun")}
		if rapid.Bool().Draw(t, "busy") {
			s.CurrentOperation = coretest.OpID().Draw(t, "op")
		}
		if rapid.Bool().Draw(t, "start") {
			s.Start = &machine.Start{MaxTurns: maybe(count()).Draw(t, "maxTurns")}
		}
		return s
	})
}

func genOperation() *rapid.Generator[machine.Operation] {
	text := maybe(coretest.Text())
	return rapid.Custom(func(t *rapid.T) machine.Operation {
		return machine.Operation{
			ID: coretest.OpID().Draw(t, "id"), Strand: coretest.Text().Draw(t, "strand"), SourceLeaf: coretest.MaybeEntryID().Draw(t, "sourceLeafId"),
			StartedAt: rapid.Int64().Draw(t, "startedAt"),
			Intent: rapid.OneOf(
				rapid.Map(entryIDs(), func(l []id.EntryID) machine.Intent { return machine.RunIntent{PromptEntryIDs: l} }),
				rapid.Map(text, func(s *string) machine.Intent { return machine.CompactionIntent{CustomInstructions: s} }),
				rapid.Custom(func(t *rapid.T) machine.Intent {
					return machine.NavigationIntent{
						TargetID: coretest.MaybeEntryID().Draw(t, "targetId"), Summarize: rapid.Bool().Draw(t, "summarize"),
						Label: text.Draw(t, "label"), CustomInstructions: text.Draw(t, "customInstructions"),
					}
				}),
			).Draw(t, "intent"),
		}
	})
}

func genError() *rapid.Generator[machine.OperationError] {
	return rapid.Custom(func(t *rapid.T) machine.OperationError {
		return machine.OperationError{
			Code: coretest.Text().Draw(t, "code"), Message: coretest.Text().Draw(t, "message"), Details: maybe(coretest.Value()).Draw(t, "details"),
		}
	})
}

func genLastResult() *rapid.Generator[machine.LastResult] {
	return rapid.Custom(func(t *rapid.T) machine.LastResult {
		r := rapid.SampledFrom(results()).Draw(t, "shape").value
		r.OperationID, r.LeafID = coretest.OpID().Draw(t, "operationId"), coretest.MaybeEntryID().Draw(t, "leafId")
		if r.Error != nil {
			r.Error = new(genError().Draw(t, "error"))
		}
		switch r.Kind {
		case "run":
			r.FinalAssistant = coretest.MaybeEntryID().Draw(t, "finalAssistantEntryId")
		case "navigation":
			r.OldLeafID, r.SummaryEntryID = coretest.MaybeEntryID().Draw(t, "oldLeafId"), coretest.MaybeEntryID().Draw(t, "summaryEntryId")
		}
		return r
	})
}

func genPending() *rapid.Generator[machine.PendingEntry] {
	return rapid.OneOf(
		rapid.Map(stored(), machine.PendingMessage),
		rapid.Custom(func(t *rapid.T) machine.PendingEntry {
			return machine.PendingEntry{Body: entry.Custom{Type: coretest.Text().Draw(t, "customType"), Data: maybe(coretest.Value()).Draw(t, "data")}}
		}),
	)
}

func genPreparation() *rapid.Generator[machine.Preparation] {
	messages := rapid.SliceOfN(stored(), 0, 2)
	paths := rapid.SliceOfN(coretest.Text(), 0, 2)
	files := rapid.Custom(func(t *rapid.T) machine.FileOps {
		return machine.FileOps{Read: paths.Draw(t, "read"), Written: paths.Draw(t, "written"), Edited: paths.Draw(t, "edited")}
	})
	return rapid.OneOf(
		rapid.Custom(func(t *rapid.T) machine.Preparation {
			return &machine.CompactionPreparation{
				MessagesToSummarize: messages.Draw(t, "messagesToSummarize"), TurnPrefixMessages: messages.Draw(t, "turnPrefixMessages"),
				RetainedTail: messages.Draw(t, "retainedTail"), IsSplitTurn: rapid.Bool().Draw(t, "isSplitTurn"), TokensBefore: count().Draw(t, "tokensBefore"),
				PreviousSummary: maybe(coretest.Text()).Draw(t, "previousSummary"), FileOps: files.Draw(t, "fileOps"),
				Settings: genCompactionSettings().Draw(t, "settings"),
			}
		}),
		rapid.Custom(func(t *rapid.T) machine.Preparation {
			return &machine.BranchPreparation{Messages: messages.Draw(t, "messages"), FileOps: files.Draw(t, "fileOps"), TotalTokens: count().Draw(t, "totalTokens")}
		}),
	)
}

func genCompactionSettings() *rapid.Generator[machine.CompactionSettings] {
	return rapid.Custom(func(t *rapid.T) machine.CompactionSettings {
		return machine.CompactionSettings{
			Enabled: rapid.Bool().Draw(t, "enabled"), ReserveTokens: count().Draw(t, "reserveTokens"), KeepRecentTokens: count().Draw(t, "keepRecentTokens"),
		}
	})
}

func genSettings() *rapid.Generator[machine.Settings] {
	mode := rapid.SampledFrom([]machine.DrainMode{machine.DrainAll, machine.DrainOneAtATime})
	return rapid.Custom(func(t *rapid.T) machine.Settings {
		return machine.Settings{
			Compaction: genCompactionSettings().Draw(t, "compaction"), SteeringMode: mode.Draw(t, "steeringMode"), FollowUpMode: mode.Draw(t, "followUpMode"),
			ToolExecution: rapid.SampledFrom([]machine.ToolExecution{machine.Sequential, machine.Parallel}).Draw(t, "toolExecution"),
			MaxTurns:      maybe(count()).Draw(t, "maxTurns"),
		}
	})
}

func genRetry() *rapid.Generator[machine.RetryPolicy] {
	return rapid.Custom(func(t *rapid.T) machine.RetryPolicy {
		return machine.RetryPolicy{
			MaxAttempts: maybe(count()).Draw(t, "maxAttempts"), BaseDelayMs: count().Draw(t, "baseDelayMs"), MaxDelayMs: count().Draw(t, "maxDelayMs"),
		}
	})
}

func genCheckpoint(k machine.Continuation) *rapid.Generator[machine.Checkpoint] {
	return rapid.Custom(func(t *rapid.T) machine.Checkpoint {
		return machine.Checkpoint{
			Continuation: k, Trigger: coretest.EntryID().Draw(t, "triggerEntryId"),
			ThresholdChecked: coretest.MaybeEntryID().Draw(t, "thresholdChecked"), SkipInboxOnce: rapid.Bool().Draw(t, "skipInboxOnce"),
		}
	})
}

func genContext() *rapid.Generator[machine.GenerationContext] {
	return rapid.Custom(func(t *rapid.T) machine.GenerationContext {
		return machine.GenerationContext{
			StepID: coretest.Text().Draw(t, "stepId"), Trigger: coretest.EntryID().Draw(t, "trigger"), Configuration: genConfiguration().Draw(t, "configuration"),
			StreamOptions: coretest.Value().Draw(t, "streamOptions"), RetryPolicy: genRetry().Draw(t, "retryPolicy"),
			OverflowRecoveryUsed: rapid.Bool().Draw(t, "overflowRecoveryUsed"),
		}
	})
}

func genSummaryContext() *rapid.Generator[machine.SummaryContext] {
	reasons := []machine.CompactionReason{machine.ReasonManual, machine.ReasonThreshold, machine.ReasonOverflow}
	return rapid.Custom(func(t *rapid.T) machine.SummaryContext {
		return machine.SummaryContext{
			TaskID: coretest.Text().Draw(t, "taskId"), ResultEntryID: coretest.EntryID().Draw(t, "resultEntryId"),
			Kind:          rapid.SampledFrom([]string{"compaction", "branch_summary"}).Draw(t, "kind"),
			Configuration: genConfiguration().Draw(t, "configuration"), StreamOptions: coretest.Value().Draw(t, "streamOptions"),
			RetryPolicy: genRetry().Draw(t, "retryPolicy"), Reason: rapid.SampledFrom(reasons).Draw(t, "reason"),
			Progress: rapid.OneOf(rapid.Just(machine.SummaryProgress{}), rapid.Custom(func(t *rapid.T) machine.SummaryProgress {
				return machine.SummaryProgress{Messages: count().Draw(t, "messages"), Summary: coretest.Text().Draw(t, "summary"), Shrunk: count().Draw(t, "shrunk")}
			})).Draw(t, "progress"),
		}
	})
}

func genStructural() *rapid.Generator[machine.Structural] {
	return rapid.Custom(func(t *rapid.T) machine.Structural {
		s := machine.Structural{TaskID: coretest.Text().Draw(t, "taskId")}
		ctx := genSummaryContext()
		switch rapid.IntRange(0, 3).Draw(t, "status") {
		case 0:
		case 1:
			s.Generation = machine.SummaryReady{Context: ctx.Draw(t, "context"), NextAttempt: count().Draw(t, "nextAttempt")}
		case 2:
			p := machine.SummaryPending{
				Context: ctx.Draw(t, "context"), Attempt: count().Draw(t, "attempt"), UsageIDs: rapid.SliceOfN(coretest.UsageID(), 0, 3).Draw(t, "usageIds"),
			}
			if rapid.Bool().Draw(t, "requested") {
				p.Request = &machine.SummaryRequest{Index: count().Draw(t, "index"), UsageID: coretest.UsageID().Draw(t, "usageId")}
			}
			s.Generation = p
		case 3:
			s.Generation = machine.SummaryRetryWait{
				Context: ctx.Draw(t, "context"), NextAttempt: count().Draw(t, "nextAttempt"), NotBefore: rapid.Int64().Draw(t, "notBefore"),
				ErrorMessage: coretest.Text().Draw(t, "errorMessage"),
			}
		}
		return s
	})
}

// genCall generates calls of a batch; index bounds their place in the response.
func genCall(index *rapid.Generator[int]) *rapid.Generator[machine.Call] {
	return rapid.Custom(func(t *rapid.T) machine.Call {
		end := rapid.Bool().Draw(t, "terminate")
		return machine.Call{
			SourceIndex: index.Draw(t, "sourceIndex"), ResultID: coretest.EntryID().Draw(t, "resultEntryId"),
			Status: rapid.SampledFrom([]machine.CallStatus{
				machine.Planned{}, machine.InFlight{Replay: machine.ReplayNever}, machine.InFlight{Replay: machine.ReplaySafe},
				machine.InFlight{Replay: machine.ReplayNever, Gate: maybe(coretest.Value()).Draw(t, "gate")},
				machine.OutcomeReady{Terminate: end}, machine.Completed{Terminate: end},
				machine.Held{Pause: genPause().Draw(t, "pause")},
				machine.Decided{Pause: genPause().Draw(t, "pause"), Decision: genDecision().Draw(t, "decision"), At: count().Draw(t, "at"), By: maybe(coretest.Origin()).Draw(t, "by")},
			}).Draw(t, "status"),
		}
	})
}

func genPause() *rapid.Generator[machine.Pause] {
	return rapid.Custom(func(t *rapid.T) machine.Pause {
		p := machine.Pause{
			Gate: coretest.Text().Draw(t, "gate"), Reason: rapid.SampledFrom(words.PauseReasons.Words()).Draw(t, "reason"), Subject: coretest.Value().Draw(t, "subject"),
			AskedAt: count().Draw(t, "askedAt"), AnswerBy: count().Draw(t, "answerBy"), ParkUntil: count().Draw(t, "parkUntil"),
		}
		if p.AnswerBy != 0 {
			p.Window = rapid.SampledFrom([]words.Expiry{words.ExpiredApproval, words.ExpiredDenialLimit}).Draw(t, "window")
		}
		return p
	})
}

func genDecision() *rapid.Generator[machine.Decision] {
	return rapid.OneOf(
		rapid.Map(maybe(coretest.Value()), func(v *jsonv.Value) machine.Decision { return machine.Approve{Arguments: v} }),
		rapid.Map(rapid.SampledFrom(words.GrantLifetimes.Words()), func(l words.GrantLifetime) machine.Decision { return machine.Approve{Lifetime: l} }),
		rapid.Map(maybe(coretest.Text()), func(s *string) machine.Decision { return machine.Deny{Note: s} }),
		rapid.Map(maybe(coretest.Text()), func(s *string) machine.Decision { return machine.Deny{Note: s, Stop: true} }),
		rapid.Custom(func(t *rapid.T) machine.Decision {
			r := machine.Reply{Content: []message.UserBlock{}}
			for range rapid.IntRange(0, 2).Draw(t, "blocks") {
				r.Content = append(r.Content, message.Text{Text: coretest.Text().Draw(t, "text")})
			}
			return r
		}),
	)
}

type phaseGen struct {
	name string
	gen  *rapid.Generator[machine.Phase]
}

// phases has a generator for each phase and each shape within it.
func phases() []phaseGen {
	ofCheckpoint := func(k machine.Continuation) *rapid.Generator[machine.Phase] {
		return rapid.Map(genCheckpoint(k), func(c machine.Checkpoint) machine.Phase { return machine.AtCheckpoint{Checkpoint: c} })
	}
	ofGeneration := func(make func(*rapid.T, machine.GenerationContext) machine.Generation) *rapid.Generator[machine.Phase] {
		return rapid.Custom(func(t *rapid.T) machine.Phase {
			return machine.Generating{Generation: make(t, genContext().Draw(t, "context"))}
		})
	}
	ofDeferred := func(pending bool) *rapid.Generator[machine.Phase] {
		return rapid.Custom(func(t *rapid.T) machine.Phase {
			d := machine.DeferredWait{
				StepID: coretest.Text().Draw(t, "stepId"), SourceEntryID: coretest.EntryID().Draw(t, "sourceEntryId"), Poll: count().Draw(t, "poll"),
				Configuration: genConfiguration().Draw(t, "configuration"), StreamOptions: coretest.Value().Draw(t, "streamOptions"),
			}
			d.NotBefore = rapid.OneOf(rapid.Just(int64(0)), count()).Draw(t, "notBefore")
			if pending {
				d.ResponseID, d.UsageID = coretest.EntryID().Draw(t, "responseEntryId"), coretest.UsageID().Draw(t, "usageId")
			}
			return machine.AwaitingDeferred{Deferred: d}
		})
	}
	return []phaseGen{
		{"starting", rapid.Just(machine.Phase(machine.Starting{}))},
		{"checkpoint/need_assistant", ofCheckpoint(machine.NeedAssistant{})},
		{"checkpoint/need_assistant/recovered", ofCheckpoint(machine.NeedAssistant{OverflowRecoveryUsed: true})},
		{"checkpoint/may_finish", ofCheckpoint(machine.MayFinish{})},
		{"checkpoint/may_finish/assistant", ofCheckpoint(machine.MayFinish{IncludeFinalAssistant: true})},
		{"assistant/ready", ofGeneration(func(t *rapid.T, c machine.GenerationContext) machine.Generation {
			return machine.GenReady{Context: c, NextAttempt: count().Draw(t, "nextAttempt")}
		})},
		{"assistant/effect_pending", ofGeneration(func(t *rapid.T, c machine.GenerationContext) machine.Generation {
			return machine.GenPending{
				Context: c, Attempt: count().Draw(t, "attempt"), ResponseID: coretest.EntryID().Draw(t, "responseEntryId"),
				UsageID: coretest.UsageID().Draw(t, "usageId"), IntendedOutputLimit: count().Draw(t, "intendedOutputLimit"),
				ContextWindow: count().Draw(t, "contextWindow"), RequestAPI: coretest.Text().Draw(t, "requestApi"),
			}
		})},
		{"assistant/retry_wait", ofGeneration(func(t *rapid.T, c machine.GenerationContext) machine.Generation {
			return machine.GenRetryWait{
				Context: c, NextAttempt: count().Draw(t, "nextAttempt"), NotBefore: rapid.Int64().Draw(t, "notBefore"),
				ErrorMessage: coretest.Text().Draw(t, "errorMessage"),
			}
		})},
		{"tools", rapid.Custom(func(t *rapid.T) machine.Phase {
			return machine.RunningTools{Batch: machine.Batch{
				AssistantID: coretest.EntryID().Draw(t, "assistantEntryId"), Configuration: genConfiguration().Draw(t, "configuration"),
				TurnID: coretest.Text().Draw(t, "turnId"), Calls: rapid.SliceOfN(genCall(rapid.OneOf(rapid.IntRange(0, 4), rapid.IntRange(-1, 6))), 0, 4).Draw(t, "calls"),
				Ends: rapid.OneOf(rapid.Just((*machine.OperationError)(nil)), maybe(genError())).Draw(t, "ends"),
			}}
		})},
		{"compaction", rapid.Custom(func(t *rapid.T) machine.Phase {
			return machine.Compacting{
				Reason:      rapid.SampledFrom([]machine.CompactionReason{machine.ReasonThreshold, machine.ReasonOverflow}).Draw(t, "reason"),
				Structural:  genStructural().Draw(t, "structural"),
				ResumeAfter: genCheckpoint(machine.NeedAssistant{}).Draw(t, "resumeAfter"),
			}
		})},
		{"deferred/suspended", ofDeferred(false)},
		{"deferred/effect_pending", ofDeferred(true)},
		{"failure_drain", rapid.Custom(func(t *rapid.T) machine.Phase {
			return machine.FailureDrain{
				Error: genError().Draw(t, "error"),
				Provenance: rapid.SampledFrom([]machine.Provenance{
					machine.FromResponse{EntryID: entryID(1)}, machine.FromStructural{TaskID: "t"}, machine.FromConfiguration{},
				}).Draw(t, "provenance"),
			}
		})},
	}
}

func genControl() *rapid.Generator[machine.Control] {
	return rapid.OneOf(rapid.Just(machine.Control(machine.Running{})), rapid.Custom(func(t *rapid.T) machine.Control {
		return machine.CancelRequested{
			RequestedAt: rapid.Int64().Draw(t, "requestedAt"), DrainedSteer: entryIDs().Draw(t, "drainedSteer"), DrainedFollows: entryIDs().Draw(t, "drainedFollowUp"),
		}
	}))
}

// genState generates states of a run in a phase.
func genState(phase *rapid.Generator[machine.Phase]) *rapid.Generator[machine.State] {
	return rapid.Custom(func(t *rapid.T) machine.State {
		return machine.State{Control: genControl().Draw(t, "control"), Work: &machine.Run{
			Settings: genSettings().Draw(t, "settings"), Phase: phase.Draw(t, "phase"),
			Inbox: machine.Inbox{
				Steer: entryIDs().Draw(t, "steer"), FollowUp: entryIDs().Draw(t, "followUp"), Writes: entryIDs().Draw(t, "writes"),
			},
			LatestAssistant: coretest.MaybeEntryID().Draw(t, "latestAssistantEntryId"), Turns: rapid.Int64Range(0, 1<<60).Draw(t, "turns"),
			Compactions: rapid.Int64Range(0, 7).Draw(t, "compactions"),
		}}
	})
}

// genStructuralState generates the states of navigations, or of compactions.
func genStructuralState(navigation bool) *rapid.Generator[machine.State] {
	instructions := maybe(coretest.Text())
	return rapid.Custom(func(t *rapid.T) machine.State {
		s := machine.State{Control: genControl().Draw(t, "control")}
		if !navigation {
			s.Work = &machine.Compaction{CustomInstructions: instructions.Draw(t, "customInstructions"), Structural: genStructural().Draw(t, "structural")}
			return s
		}
		n := &machine.Navigation{TargetID: coretest.MaybeEntryID().Draw(t, "targetId"), Label: instructions.Draw(t, "label")}
		if rapid.Bool().Draw(t, "summarize") {
			n.CustomInstructions, n.Structural = instructions.Draw(t, "customInstructions"), new(genStructural().Draw(t, "structural"))
		}
		s.Work = n
		return s
	})
}

// genObservation generates reports, most of them about nothing that was asked.
func genObservation() *rapid.Generator[machine.Observation] {
	result := maybe(rapid.Map(coretest.ToolResult(), func(r *message.ToolResult) message.ToolResult { return *r }))
	response := maybe(rapid.Map(coretest.Assistant(), func(a *message.Assistant) message.Assistant { return *a }))
	index := rapid.IntRange(-1, 4)
	return rapid.OneOf(
		rapid.Custom(func(t *rapid.T) machine.Observation {
			return machine.Admitted{OutputLimit: count().Draw(t, "outputLimit"), ContextWindow: count().Draw(t, "contextWindow"), RequestAPI: "api"}
		}),
		rapid.Map(genError(), func(e machine.OperationError) machine.Observation { return machine.AdmissionRefused{Error: e} }),
		rapid.Custom(func(t *rapid.T) machine.Observation {
			return machine.Responded{ResponseID: coretest.MaybeEntryID().Draw(t, "responseId"), Message: response.Draw(t, "message")}
		}),
		rapid.Custom(func(t *rapid.T) machine.Observation {
			return machine.Cleared{
				SourceIndex: index.Draw(t, "sourceIndex"), Arguments: coretest.Value().Draw(t, "arguments"),
				Replay: rapid.SampledFrom([]machine.Replay{machine.ReplayNever, machine.ReplaySafe, "", "sometimes"}).Draw(t, "replay"),
			}
		}),
		rapid.Custom(func(t *rapid.T) machine.Observation {
			return machine.Refused{SourceIndex: index.Draw(t, "sourceIndex"), Result: result.Draw(t, "result"), Terminate: rapid.Bool().Draw(t, "terminate")}
		}),
		rapid.Custom(func(t *rapid.T) machine.Observation {
			return machine.ToolSettled{SourceIndex: index.Draw(t, "sourceIndex"), Result: result.Draw(t, "result"), Terminate: rapid.Bool().Draw(t, "terminate")}
		}),
		rapid.SampledFrom([]machine.Observation{
			machine.Verdict{Choice: machine.WriteSummary{}}, machine.Verdict{}, machine.Summarized{}, machine.OrphanedSummary{}, machine.RunStarting{}, machine.RunEnding{},
			machine.Asked{Reason: "whim"}, machine.Asked{Reason: words.PausedOnQuestion, Subject: jsonv.Str("x")},
		}),
		rapid.Map(coretest.MaybeEntryID(), func(i id.EntryID) machine.Observation { return machine.OrphanedResponse{ResponseID: i} }),
		rapid.Custom(func(t *rapid.T) machine.Observation {
			return machine.OrphanedCall{SourceIndex: index.Draw(t, "sourceIndex"), Arguments: maybe(coretest.Value()).Draw(t, "arguments"), StillSafe: rapid.Bool().Draw(t, "stillSafe")}
		}),
	)
}
