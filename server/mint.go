package server

import (
	"iter"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/shape"
)

// A row's frames have the ordinals from 1, so that ordinal 0 of a seq is the
// position before it.

// minted is a session's replay frames, made from its rows.
type minted struct {
	session    id.SessionID
	generation int64
	source     Source
	whose      *owners
}

// mint is the replay side of a session.
func mint(s id.SessionID, source Source) (minted, error) {
	generation, err := source.Generation()
	return minted{session: s, generation: generation, source: source, whose: &owners{}}, err
}

// pageRows is how many rows are read at a time.
const pageRows = 256

// head is the position behind all that is committed.
func (m minted) head() (wire.Cursor, error) {
	seq, err := m.source.Head()
	return m.behind(seq), err
}

// behind is the position behind all frames of a row.
func (m minted) behind(seq int64) wire.Cursor {
	return wire.Cursor{Generation: m.generation, Seq: seq + 1}
}

// frames yields the replay frames behind a cursor, of rows up to seq to. The same
// rows give the same frames.
func (m minted) frames(after wire.Cursor, to int64) iter.Seq2[wire.Frame, error] {
	return func(yield func(wire.Frame, error) bool) {
		err := m.whose.refresh(m.source)
		var ends []wire.Frame
		if err == nil {
			ends, err = m.ends(max(after.Seq, 1), to)
		}
		if err != nil {
			yield(wire.Frame{}, err)
			return
		}
		send := func(frames []wire.Frame) bool {
			for _, f := range frames {
				if f.Cursor.Compare(after) > 0 && !yield(f, nil) {
					return false
				}
			}
			return true
		}
		for from := max(after.Seq, 1); from <= to; {
			rows, err := m.source.Entries(from, to, pageRows)
			if err != nil {
				yield(wire.Frame{}, err)
				return
			}
			for _, e := range rows {
				for len(ends) > 0 && ends[0].Cursor.Seq < e.Seq {
					if !send(ends[:1]) {
						return
					}
					ends = ends[1:]
				}
				if !send(m.entry(e)) {
					return
				}
				from = e.Seq + 1
			}
			if len(rows) == 0 {
				break
			}
		}
		send(ends)
	}
}

// ends makes the frames of runs and jobs that ended, in the order of their cursors.
func (m minted) ends(from, to int64) ([]wire.Frame, error) {
	results, err := m.source.Results(from, to)
	if err != nil {
		return nil, err
	}
	jobs, err := m.source.Jobs()
	if err != nil {
		return nil, err
	}
	var out []wire.Frame
	for _, r := range results {
		out = append(out, m.runEnd(r))
		if c, ok := m.whose.children[r.Strand]; ok {
			out = append(out, m.agentEnded(r, c))
		}
	}
	for _, j := range jobs {
		if j.Job.Status.Ended() && j.Seq >= from && j.Seq <= to {
			out = append(out, m.jobEnded(j))
		}
	}
	slices.SortStableFunc(out, func(a, b wire.Frame) int { return a.Cursor.Compare(b.Cursor) })
	return out, nil
}

// row makes the frame of ordinal n of a row.
func (m minted) row(seq int64, n int, key string, b wire.Body) wire.Frame {
	return wire.Frame{
		ID: key, Cursor: wire.Cursor{Generation: m.generation, Seq: seq, Ordinal: n}, Delivery: wire.Replay,
		Session: m.session, Lane: wire.LaneMain, Strand: session.MainStrand, Body: b,
	}
}

// laneOf is the lane of a strand's frames.
func laneOf(strand string) wire.Lane {
	switch strand {
	case "":
		return wire.LaneSession
	case session.MainStrand:
		return wire.LaneMain
	}
	return wire.LaneAgent
}

// part makes frame n of an entry.
func (m minted) part(e entry.Entry, n int, b wire.Body) wire.Frame {
	f := m.row(e.Seq, n, entryKey(e.ID, n), b)
	f.Parent = e.Parent
	if strand, ok := m.whose.of[e.ID]; ok {
		f = owned(f, strand)
	}
	return f
}

// entry makes the frames of an entry. Entries that are no part of the
// conversation have none.
func (m minted) entry(e entry.Entry) []wire.Frame {
	one := func(b wire.Body) []wire.Frame { return []wire.Frame{m.part(e, 1, b)} }
	switch body := e.Body.(type) {
	case entry.Message:
		switch msg := body.Message.(type) {
		case *message.User:
			return one(userMessage(e.ID, msg))
		case *message.Assistant:
			return m.assistant(e, msg)
		case *message.ToolResult:
			return one(toolResult(e.ID, msg))
		default: // a custom message is between programs
			return nil
		}
	case entry.Compaction:
		return one(compaction(e.ID, body))
	case entry.BranchSummary:
		return one(branchSummary(e.ID, body))
	default: // and so is a custom entry
		return nil
	}
}

func compaction(e id.EntryID, c entry.Compaction) wire.CompactionBoundary {
	return wire.CompactionBoundary{
		Entry: e, Summary: shown(c.Summary), Bytes: int64(len(c.Summary)), TokensBefore: new(count(c.TokensBefore)),
		Kept: len(c.RetainedTail), FromHook: c.FromHook, Usage: optUsage(c.Usage),
	}
}

func branchSummary(e id.EntryID, b entry.BranchSummary) wire.BranchSummary {
	return wire.BranchSummary{
		Entry: e, From: b.FromID, Summary: shown(b.Summary), Bytes: int64(len(b.Summary)), FromHook: b.FromHook, Usage: optUsage(b.Usage),
	}
}

func optUsage(u *usage.Usage) *wire.Usage {
	if u == nil {
		return nil
	}
	return new(usageOf(*u))
}

func entryKey(e id.EntryID, n int) string { return "entry/" + e.String() + "/" + strconv.Itoa(n) }

// assistant makes one frame of each content block, and the turn's end.
func (m minted) assistant(e entry.Entry, msg *message.Assistant) []wire.Frame {
	var out []wire.Frame
	add := func(n int, b wire.Body) { out = append(out, m.part(e, n, b)) }
	for i, b := range msg.Content {
		seg := wire.Segment{Entry: e.ID, Block: i}
		switch b := b.(type) {
		case message.Text:
			add(i+1, wire.TextEnd{Segment: seg, Content: b.Text})
		case message.Thinking:
			content := b.Thinking
			if b.Redacted {
				content = ""
			}
			add(i+1, wire.ReasoningEnd{Segment: seg, Content: content, Redacted: b.Redacted})
		case message.ToolCall:
			add(i+1, wire.ToolCall{Segment: seg, CallID: b.ID, Name: b.Name, Arguments: b.Arguments})
		}
	}
	add(len(msg.Content)+1, wire.TurnEnd{
		Entry: e.ID, Usage: usageOf(msg.Usage), StopReason: string(msg.StopReason),
		Model: wire.ModelRef{Provider: msg.Provider, ModelID: msg.Model}, ErrorMessage: msg.ErrorMessage,
	})
	return out
}

func userMessage(e id.EntryID, msg *message.User) wire.UserMessage {
	out := wire.UserMessage{Entry: e, Author: authorOf(msg.Origin)}
	for _, b := range msg.Content {
		if _, ok := b.(message.Image); ok {
			out.Images++
		}
	}
	whole := message.TextOf(msg.Content)
	out.Text, out.Bytes = shown(whole), int64(len(whole))
	return out
}

// authorOf says whom a message is attributed to.
func authorOf(o *message.Origin) *wire.Author {
	if o == nil {
		return nil
	}
	kind := "human"
	switch o.Kind() {
	case message.PeerOrigin:
		kind = "peer"
	case message.StrandOrigin:
		kind = "strand"
	case message.HumanOrigin:
	}
	return &wire.Author{Kind: kind, ID: shownWord(o.Identity()), Label: o.Label()}
}

// shownWord cuts an identity to the length of a word, between characters.
func shownWord(s string) string { return cut(s, wire.MaxWord) }

// gateKey is the field of a result's details that records how the call was let
// through or refused.
const gateKey = machine.GateKey

// Denied is the record of a call that was refused before it ran, as a field of its
// result's details.
func Denied(by words.DeniedBy) jsonv.Member {
	var w jsonv.Writer
	shape.Append(&w, wire.Gate{Disposition: words.GateDenied, DeniedBy: &by})
	return jsonv.F(gateKey, w.Tree())
}

func toolResult(e id.EntryID, msg *message.ToolResult) wire.ToolResult {
	out := wire.ToolResult{Entry: e, CallID: msg.ToolCallID, Name: msg.ToolName, IsError: msg.IsError, Gate: gateOf(msg.Details)}
	out.Structured, out.StructuredBytes = structuredOf(msg.Details)
	for _, b := range msg.Content {
		switch b := b.(type) {
		case message.Text:
			out.Text = append(out.Text, wire.TextBlock{Text: shown(b.Text), Bytes: int64(len(b.Text))})
		case message.Image:
			out.Images++
		}
	}
	return out
}

// structuredOf is what a tool says to programs, without the record of the gate.
// What is too large is told by its size.
func structuredOf(details *jsonv.Value) (*jsonv.Value, int64) {
	if details == nil || details.Kind() != jsonv.Object {
		return nil, 0
	}
	var rest []jsonv.Member
	for name, v := range details.Fields() {
		if name != gateKey {
			rest = append(rest, jsonv.F(name, v))
		}
	}
	if len(rest) == 0 {
		return nil, 0
	}
	v := jsonv.Obj(rest...)
	if n := len(v.Append(nil)); n > wire.MaxStructured {
		return nil, int64(n)
	}
	return &v, 0
}

// gateOf reads the record of a gate. One that cannot be read is absent: it tells
// how the call was judged and does not judge it.
func gateOf(details *jsonv.Value) *wire.Gate {
	if details == nil {
		return nil
	}
	v, ok := details.Get(gateKey)
	if !ok {
		return nil
	}
	g, err := shape.Decode[wire.Gate](v, "server.gateOf")
	if err != nil {
		return nil
	}
	return &g
}

// shown cuts a text to what a frame carries, between characters.
func shown(text string) string {
	return cut(text, wire.MaxShownText)
}

// cut keeps at most limit bytes of a text, between characters.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	n := limit
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

func (m minted) runEnd(r Result) wire.Frame {
	f := m.row(r.Seq, 1, "result/"+r.Op.String(), wire.RunEnd{
		Terminal: causeOf(r.Outcome), Usage: usageOf(r.Usage), Gates: r.Gates, FinalEntry: r.Final,
	})
	f.Operation = r.Op
	return owned(f, r.Strand)
}

// causeOf reads the word of an outcome. A word of a newer engine passes as it is.
func causeOf(o Outcome) wire.Cause {
	return wire.CauseOf(o.Word, o.Code, o.Message)
}

// usageOf turns evidence into what the wire says. Money is rounded here, once,
// from the exact amount.
func usageOf(u usage.Usage) wire.Usage {
	out := wire.Usage{
		Input: count(u.Input), Output: count(u.Output), CacheRead: count(u.CacheRead), CacheWrite: count(u.CacheWrite),
		Measured: true,
	}
	if _, remote := u.Evidence.Billing(); !remote {
		out.CostMicroUSD = new(int64(0)) // no provider was called
		return out
	}
	tokens, ok := u.Evidence.Tokens()
	out.Measured = ok
	out.LowerBound = tokens == usage.Partial
	if priced, _, ok := u.Evidence.Price(); ok {
		if micro, ok := u.Cost.Total.MicroDollars(); ok && micro >= 0 {
			out.CostMicroUSD = &micro
			out.CostLowerBound = priced == usage.Partial
		}
	}
	return out
}

// count keeps a count in the range of the wire. A ledger can hold corrections
// with a sign; a sum below zero is nothing consumed.
func count(n int64) int64 { return min(max(n, 0), 1<<53-1) }
