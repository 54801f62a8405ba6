package project

import (
	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/client/say"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/sdkmsg"
	"github.com/loom-run/loom/wire"
)

// Prompt is a committed prompt.
func Prompt(b wire.UserMessage) sdkmsg.User {
	facts := &sdkmsg.UserFacts{Entry: b.Entry.String(), Bytes: &b.Bytes, Images: int64(b.Images), Author: authorOf(b.Author)}
	u := sdkmsg.User{Message: sdkmsg.Input{Role: "user", Content: sdkmsg.Content{sdkmsg.TextBlock{Text: b.Text}}}, ParentToolUseID: sdkmsg.Null(), Loom: facts}
	u.Message.Content = append(u.Message.Content, places(b.Images)...)
	if b.Author != nil {
		u.Origin = &sdkmsg.Origin{Kind: originOf(b.Author.Kind)}
	}
	return u
}

// maxPlaces is how many images of a message have a place in its line: more than any
// model takes. The count beside the line says how many there are.
const maxPlaces = 1000

// places stand for images, which are kept elsewhere. The number is a claim of the other
// side: it never decides alone how much is made.
func places(images int) sdkmsg.Content {
	places := make(sdkmsg.Content, max(0, min(images, maxPlaces)))
	for i := range places {
		places[i] = sdkmsg.Image{}
	}
	return places
}

// originOf is the kind of an author in the transcript's vocabulary. A kind that it
// does not have is never a human.
func originOf(kind string) string {
	switch kind {
	case "human", "peer":
		return kind
	case "strand":
		return "coordinator"
	}
	return "unclassified"
}

func authorOf(a *wire.Author) *sdkmsg.Author {
	if a == nil {
		return nil
	}
	return &sdkmsg.Author{Kind: a.Kind, ID: a.ID, Label: a.Label}
}

// Said is one committed block of a response. Blocks of one response have one message
// id, that of its entry.
func Said(seg wire.Segment, b sdkmsg.Block) sdkmsg.Assistant {
	return sdkmsg.Assistant{
		Message: sdkmsg.Response{
			ID: seg.Entry.String(), Type: "message", Role: "assistant", Content: sdkmsg.Content{b}, StopReason: sdkmsg.Null(), StopSequence: sdkmsg.Null(),
		},
		ParentToolUseID: sdkmsg.Null(), Loom: &sdkmsg.AssistantFacts{Block: int64(seg.Block)},
	}
}

// Answer is a committed text.
func Answer(b wire.TextEnd) sdkmsg.Assistant {
	return Said(b.Segment, sdkmsg.TextBlock{Text: b.Content})
}

// Reasoning is a committed piece of reasoning.
func Reasoning(b wire.ReasoningEnd) sdkmsg.Assistant {
	if b.Redacted {
		return Said(b.Segment, sdkmsg.RedactedThinking{Data: b.Content})
	}
	return Said(b.Segment, sdkmsg.Thinking{Thinking: b.Content})
}

// Call is a committed call.
func Call(b wire.ToolCall) sdkmsg.Assistant {
	return Said(b.Segment, sdkmsg.ToolUse{ID: b.CallID, Name: b.Name, Input: b.Arguments})
}

// Answered is the result of a call. The block holds what the model is given; what is
// told beside it stands on the envelope.
func Answered(b wire.ToolResult) sdkmsg.User {
	content := make(sdkmsg.Content, 0, len(b.Text))
	facts := &sdkmsg.UserFacts{Entry: b.Entry.String(), Images: int64(b.Images), Tool: b.Name, StructuredBytes: b.StructuredBytes}
	for _, t := range b.Text {
		content = append(content, sdkmsg.TextBlock{Text: t.Text})
		facts.TextBytes = append(facts.TextBytes, t.Bytes)
	}
	content = append(content, places(b.Images)...)
	if b.Gate != nil {
		facts.Gate = new(gateFacts("", *b.Gate))
	}
	return sdkmsg.User{
		Message:         sdkmsg.Input{Role: "user", Content: sdkmsg.Content{sdkmsg.ToolResult{ToolUseID: b.CallID, Content: content, IsError: b.IsError}}},
		ParentToolUseID: sdkmsg.Null(), ToolUseResult: b.Structured, Loom: facts,
	}
}

func gateFacts(callID string, g wire.Gate) sdkmsg.Gate {
	return sdkmsg.Gate{
		CallID: callID, Disposition: g.Disposition, Settlement: g.Settlement, DeniedBy: g.DeniedBy, Origin: g.Origin, Decider: authorOf(g.Decider),
	}
}

// DeniedUnasked is the line about a call that was denied with nobody asked; ok is
// false for any other result.
func DeniedUnasked(b wire.ToolResult) (m sdkmsg.PermissionDenied, ok bool) {
	if !Denied(b.Gate) || b.Gate.Settlement != nil {
		return sdkmsg.PermissionDenied{}, false
	}
	m = sdkmsg.PermissionDenied{ToolName: b.Name, ToolUseID: b.CallID, Message: DenialSentence(*b.Gate)}
	if b.Gate.DeniedBy != nil && words.DeniedBys.Has(*b.Gate.DeniedBy) {
		m.DecisionReasonType = string(*b.Gate.DeniedBy)
	}
	return m, true
}

// Compacted is where the model's context begins anew: the boundary, and what stands
// in the place of what was before it.
func Compacted(b wire.CompactionBoundary) (sdkmsg.CompactBoundary, sdkmsg.User) {
	facts := &sdkmsg.CompactFacts{Entry: b.Entry.String(), Trigger: b.Trigger, Kept: int64(b.Kept), FromHook: b.FromHook, Cost: spent(b.Usage)}
	mark := sdkmsg.CompactBoundary{Metadata: sdkmsg.CompactMetadata{PreTokens: b.TokensBefore, PostTokens: b.TokensAfter}, Loom: facts}
	if b.Trigger != nil {
		mark.Metadata.Trigger = "auto"
		if *b.Trigger == words.CompactedByHand {
			mark.Metadata.Trigger = "manual"
		}
	}
	return mark, sdkmsg.User{
		Message:         sdkmsg.Input{Role: "user", Content: sdkmsg.Content{sdkmsg.TextBlock{Text: b.Summary}}},
		ParentToolUseID: sdkmsg.Null(), IsSynthetic: true, Loom: &sdkmsg.UserFacts{Entry: b.Entry.String(), Bytes: &b.Bytes, Summary: true},
	}
}

// BranchLeft describes a branch that was left.
func BranchLeft(b wire.BranchSummary) sdkmsg.Informational {
	from := ""
	if !b.From.IsZero() {
		from = b.From.String()
	}
	return sdkmsg.Informational{Content: b.Summary, Level: "info", Tag: "branch_left", Loom: &sdkmsg.InfoFacts{
		Branch: &sdkmsg.BranchFacts{Entry: b.Entry.String(), From: from, Bytes: b.Bytes, FromHook: b.FromHook, Cost: spent(b.Usage)},
	}}
}

// spent is usage in a transcript. What is not known is not there.
func spent(u *wire.Usage) *sdkmsg.Spent {
	if u == nil {
		return nil
	}
	t := Measure(*u)
	s := &sdkmsg.Spent{Usage: *usageOf(t), UsageExact: exact(t), CostExact: t.CostMicroUSD.Exact}
	if t.CostMicroUSD.Known {
		s.CostMicroUSD = &t.CostMicroUSD.N
	}
	return s
}

func exact(t plane.Tally) bool {
	return t.Input.Exact && t.Output.Exact && t.CacheRead.Exact && t.CacheWrite.Exact
}

func usageOf(t plane.Tally) *sdkmsg.Usage {
	number := func(c plane.Count) *int64 {
		if !c.Known {
			return nil
		}
		return &c.N
	}
	return &sdkmsg.Usage{Input: number(t.Input), Output: number(t.Output), CacheRead: number(t.CacheRead), CacheWrite: number(t.CacheWrite)}
}

// NoticeLine is a notice that is kept. The catalogue says whom it is for.
func NoticeLine(b wire.Notice, audience words.Audience) sdkmsg.Informational {
	facts := make([]jsonv.Member, 0, len(b.Facts))
	for _, f := range b.Facts {
		facts = append(facts, jsonv.F(f.Name, f.Value))
	}
	return sdkmsg.Informational{Content: say.Told(b.Code, b.Facts), Level: "notice", Tag: "notice", Loom: &sdkmsg.InfoFacts{
		Notice: &sdkmsg.NoticeFacts{Code: b.Code, Audience: audience, Facts: jsonv.Obj(facts...)},
	}}
}

// UnusedLine says that queued input was not used, or may not have been.
func UnusedLine(b wire.InputUnused) sdkmsg.Informational {
	facts := &sdkmsg.UnusedFacts{Lane: b.Lane, Count: b.Count, Cause: b.Cause, Items: b.Items}
	if b.Child != nil {
		facts.Child = b.Child.String()
	}
	return sdkmsg.Informational{
		Content: say.Unused(b.Lane, b.Count, b.Cause, b.Child != nil), Level: "warning", Tag: "input_unused", Loom: &sdkmsg.InfoFacts{Unused: facts},
	}
}

// Account is what is known of a run when it ends, beside its end.
type Account struct {
	Turns   *int64 // nil: nobody counted
	Answer  string // what the newest response said, when it is an answer
	Denials []sdkmsg.Denial
}

// Ended is the end of a run. The answer is told of a run that completed.
func Ended(operation string, b wire.RunEnd, total plane.Tally, a Account) sdkmsg.Result {
	t := TerminalOf(b.Terminal)
	r := sdkmsg.Result{
		Subtype: t.Subtype, IsError: t.IsError, NumTurns: a.Turns, Errors: t.Errors, StopReason: sdkmsg.Null(), TerminalReason: t.Reason,
		Usage: usageOf(total), PermissionDenials: a.Denials,
		Loom: &sdkmsg.ResultFacts{
			Operation: operation, Terminal: terminalValue(b.Terminal), UsageExact: exact(total), CostExact: total.CostMicroUSD.Exact,
		},
	}
	if !t.IsError {
		r.Result = &a.Answer
	}
	if !b.FinalEntry.IsZero() {
		r.Loom.FinalEntry = b.FinalEntry.String()
	}
	if b.Gates != nil {
		r.Loom.Gates = make([]sdkmsg.Gate, 0, len(b.Gates))
		for _, g := range b.Gates {
			r.Loom.Gates = append(r.Loom.Gates, gateFacts(g.CallID, g.Gate))
		}
	}
	if c := total.CostMicroUSD; c.Known {
		r.TotalCostUSD = dollars(c.N)
	}
	return r
}

// dollars is an amount of millionths as an exact decimal.
func dollars(micro int64) *jsonv.Value {
	text := make([]byte, 0, 24)
	text = jsonv.Num(micro / 1_000_000).Append(text)
	text = append(text, '.')
	for place := int64(100_000); place > 0; place /= 10 {
		text = append(text, byte('0'+micro/place%10))
	}
	v, err := jsonv.Parse(text)
	if err != nil {
		return nil // an amount below zero is no cost
	}
	return &v
}
