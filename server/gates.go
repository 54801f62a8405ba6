package server

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strconv"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/shape"
)

// Ask is what a host keeps of a call that waits for a person: the subject of its pause.
// What the call would run with stands in the response that made it, and Hash is its
// identity.
type Ask struct {
	CallID    string                `wire:"callId"`
	Hash      string                `wire:"inputHash,word"`
	Tool      string                `wire:"tool"`
	About     string                `wire:"about,opt"` // the call in a line
	Origin    *words.AskOrigin      `wire:"origin"`
	Mandate   *words.Mandate        `wire:"mandate"`
	Undecided *words.UndecidedCause `wire:"undecided"`
	Grants    *Grants               `wire:"grants"`
	ReadRoot  *string               `wire:"readRoot"`
	Offers    []Offer               `wire:"ruleOffers,opt"`

	OffersAbsence *words.RuleOfferAbsence `wire:"ruleOffersAbsence"` // why there are none
	Questions     []Question              `wire:"questions,opt"`     // of a question
	Plan          *string                 `wire:"plan"`              // of a plan
}

// Grants are the digests of what an allowance would cover that is kept; nil: it cannot
// be kept so.
type Grants struct {
	Session *string `wire:"session"`
	Exact   *string `wire:"exact_action"`
}

// Question and Option are a question of a model, Offer is a rule that would answer an
// approval the next time. They are named here so that a host need not know the wire.
type (
	Question = wire.Question
	Option   = wire.Option
	Offer    = wire.RuleOffer
)

// Subject encodes it.
func (a Ask) Subject() jsonv.Value {
	var w jsonv.Writer
	shape.Append(&w, a)
	return w.Tree()
}

// AskIn reads the subject of a pause.
func AskIn(subject jsonv.Value) (Ask, error) { return shape.Decode[Ask](subject, "server.Ask") }

// Waiting is a call that waits for a person.
type Waiting struct {
	Strand string
	Op     id.OpID
	Seq    int64 // of the response that holds the call
	Pause  machine.Pause
	Call   message.ToolCall
}

// Waiting reads what is open; the oldest question comes first. An operation that cannot
// be read asks nothing: whoever drives it says what is wrong with it.
func (s sessionSource) Waiting() ([]Waiting, error) {
	cells, err := s.session.Rows().Registers(register.OpState, "")
	if err != nil {
		return nil, err
	}
	var out []Waiting
	for _, c := range cells {
		st, unreadable := machine.DecodeState(c.Value)
		asked := machine.Waiting(st)
		if unreadable != nil || len(asked) == 0 {
			continue
		}
		op, err := id.ParseOpID(c.Key)
		if err != nil {
			return nil, err
		}
		meta, _, err := s.session.OpMeta(op)
		if err != nil {
			return nil, err
		}
		for _, w := range asked {
			one := Waiting{Strand: meta.Value.Strand, Op: op, Pause: w.Pause}
			rows, err := s.session.Rows().Entries(w.AssistantID)
			if err != nil {
				return nil, err
			}
			one.Seq = rows[w.AssistantID].Seq
			if body, ok := rows[w.AssistantID].Body.(entry.Message); ok {
				if a, ok := body.Message.(*message.Assistant); ok && w.SourceIndex < len(a.Content) {
					one.Call, _ = a.Content[w.SourceIndex].(message.ToolCall)
				}
			}
			out = append(out, one)
		}
	}
	slices.SortStableFunc(out, func(a, b Waiting) int { return cmp.Compare(a.Pause.AskedAt, b.Pause.AskedAt) })
	return out, nil
}

// settledPage is how many rows are read at a time to find how a question ended.
const settledPage = 64

// Settled finds the record of a question that is not open any more: in the run that is
// on, among results that wait for their place, or with the result of its call.
func (s sessionSource) Settled(gate string) (record jsonv.Value, seq int64, ok bool, err error) {
	asked, err := id.ParseEntryID(gate)
	if err != nil {
		return record, 0, false, nil //nolint:nilerr // it names nothing that was ever asked
	}
	states, err := s.session.Rows().Registers(register.OpState, "")
	if err != nil {
		return record, 0, false, err
	}
	for _, c := range states {
		if st, unreadable := machine.DecodeState(c.Value); unreadable == nil {
			if record, ok = machine.SettledGate(st, gate); ok {
				return record, c.Seq, true, nil
			}
		}
	}
	staged, err := s.session.Rows().Registers(register.PendingEntry, "")
	if err != nil {
		return record, 0, false, err
	}
	for _, c := range staged {
		if p, unreadable := machine.DecodePendingEntry(c.Value); unreadable == nil {
			if record, ok = recordOf(p.Body, gate); ok {
				return record, c.Seq, true, nil
			}
		}
	}
	q := storage.EntryQuery{Order: storage.NewestFirst, Limit: new(settledPage), Bytes: readBytes}
	for {
		rows, err := s.session.Rows().ScanEntries(q)
		if err != nil || len(rows) == 0 {
			return record, 0, false, err
		}
		for _, e := range rows {
			if record, ok = recordOf(e.Body, gate); ok {
				return record, e.Seq, true, nil
			}
			q.ToSeq = new(e.Seq - 1)
		}
		if rows[len(rows)-1].Timestamp < asked.Time() {
			return record, 0, false, nil
		}
	}
}

func recordOf(b entry.Body, gate string) (record jsonv.Value, ok bool) {
	body, ok := b.(entry.Message)
	if !ok {
		return record, false
	}
	r, ok := body.Message.(*message.ToolResult)
	if !ok {
		return record, false
	}
	record, ok = machine.RecordIn(r.Details)
	return record, ok && machine.GateIn(record) == gate
}

// row is what is shown of a call that waits. One whose subject another build wrote is
// shown as an approval of the call: it can be refused.
func (w Waiting) row() wire.Pending {
	ask, err := AskIn(w.Pause.Subject)
	if err != nil {
		ask = Ask{CallID: w.Call.ID, Hash: "unknown", Tool: w.Call.Name}
	}
	bound := wire.Binding{BoundCallID: ask.CallID, BoundInputHash: ask.Hash}
	asked, expires := new(count(w.Pause.AskedAt)), (*int64)(nil)
	if at := w.Pause.Deadline(); at != 0 {
		expires = new(count(at))
	}
	switch {
	case w.Pause.Reason == words.PausedOnQuestion:
		return wire.QuestionRequest{
			ID: w.Pause.Gate, Binding: bound, Seq: count(w.Seq), Questions: ask.Questions, AskedAtMs: asked, ExpiresAtMs: expires,
		}
	case w.Pause.Reason == words.PausedOnPlan && ask.Plan != nil:
		return wire.PlanRequest{ID: w.Pause.Gate, Binding: bound, Seq: count(w.Seq), Plan: *ask.Plan, AskedAtMs: asked, ExpiresAtMs: expires}
	}
	r := wire.ApprovalRequest{
		ID: w.Pause.Gate, Binding: bound, Seq: count(w.Seq), Tool: ask.Tool, Input: w.Call.Arguments, Origin: ask.Origin,
		Mandated: ask.Mandate != nil, Mandate: ask.Mandate, Lifetimes: []words.GrantLifetime{words.GrantOnce},
		RuleOffers: ask.Offers, RuleOffersAbsence: ask.OffersAbsence, ReadRootCandidate: ask.ReadRoot, AutoModeUnavailable: ask.Undecided, AskedAtMs: asked, ExpiresAtMs: expires,
	}
	if ask.About != "" {
		r.Title = new(shown(ask.About))
	}
	if g := ask.Grants; g != nil && g.Session != nil {
		r.Lifetimes = append(r.Lifetimes, words.GrantSession)
	}
	if g := ask.Grants; g != nil && g.Exact != nil {
		r.Lifetimes = append(r.Lifetimes, words.GrantExact)
	}
	return r
}

// pendingRows is everything of a session that waits for a person.
func pendingRows(all []Waiting) []wire.Pending {
	rows := make([]wire.Pending, len(all))
	for i, w := range all {
		rows[i] = w.row()
	}
	return rows
}

// gates states what waits for a person, and tells of what is new in it and of what ended.
func (s *subscriber) gates(l leveled) error {
	all, err := s.minted.source.Waiting()
	if err != nil {
		return err
	}
	if l.closed != nil || l.asked {
		for _, w := range all {
			if !slices.Contains(s.gated, w.Pause.Gate) {
				s.write(passing(s.hub.session, w.Strand, w.Op, "asked/"+w.Pause.Gate, asBody(w.row())))
			}
		}
		for _, c := range l.closed {
			s.write(passing(s.hub.session, l.strand, l.op, "settled/"+c.Pause.Gate, settledBody(c)))
		}
	}
	was := s.gated
	s.gated = nil
	for _, w := range all {
		s.gated = append(s.gated, w.Pause.Gate)
	}
	if !slices.Equal(was, s.gated) {
		level := wire.PendingLevel{Rows: pendingRows(all)}
		s.write(s.hub.levelFrame(levelKey("pending", level), "", id.OpID{}, level))
	}
	return s.activity(l.parked, len(all) > 0)
}

// activity states whether the session works, once something of it waited for a person.
func (s *subscriber) activity(parked, waits bool) error {
	now := wire.Activity{State: words.ActivityRunning}
	switch {
	case waits && parked:
		now.State = words.ActivityAsking
	case s.acts == "":
		return nil
	default:
		_, running, _, err := s.hub.current()
		if err != nil {
			return err
		}
		if !running {
			now.State = words.ActivityIdle
		}
	}
	tasks, err := working(s.minted.source)
	if err != nil {
		return err
	}
	inputs, err := s.minted.source.Queued()
	if err != nil {
		return err
	}
	now.Tasks, now.Queued = len(tasks.Tasks), len(inputs)
	if key := levelKey("activity", now); key != s.acts {
		s.acts = key
		s.write(s.hub.levelFrame(key, "", id.OpID{}, now))
	}
	return nil
}

// levelKey is the id of a level: what is equal has the same.
func levelKey[B wire.Body](what string, b B) string {
	sum := fnv.New64a()
	_, _ = sum.Write(wire.Encode(b)) // never fails
	return what + "/" + strconv.FormatUint(sum.Sum64(), 16)
}

// asBody is a row as the frame that says that it is new.
func asBody(p wire.Pending) wire.Body {
	switch p := p.(type) {
	case wire.QuestionRequest:
		return p
	case wire.PlanRequest:
		return p
	case wire.ApprovalRequest:
		return p
	default: // no row of this build's is another
		return wire.PendingLevel{Rows: []wire.Pending{p}}
	}
}

// settledBody says how a question ended.
func settledBody(c machine.ClosedGate) wire.Body {
	ask, _ := AskIn(c.Pause.Subject) // of another build's there is no call to name
	decider := authorOf(c.By)
	var expiry *words.Expiry
	for e, s := range map[words.Expiry]words.Settlement{
		words.ExpiredApproval: words.SettledApprovalWindow, words.ExpiredDenialLimit: words.SettledDenialLimit, words.ExpiredPark: words.SettledPark,
	} {
		if s == c.Settlement {
			expiry = &e
		}
	}
	switch c.Pause.Reason {
	case words.PausedOnQuestion:
		_, answered := c.Decision.(machine.Reply)
		return wire.QuestionSettled{ID: c.Pause.Gate, CallID: ask.CallID, Answered: answered, Expiry: expiry, Decider: decider}
	case words.PausedOnPlan:
		out := wire.PlanSettled{ID: c.Pause.Gate, CallID: ask.CallID, Expiry: expiry, Decider: decider}
		switch d := c.Decision.(type) {
		case machine.Approve:
			out.Verdict = new(words.PlanAccept)
			if d.Arguments != nil {
				out.Verdict = new(words.PlanEdit)
			}
		case machine.Deny:
			out.Verdict = new(words.PlanReject)
		case machine.Reply: // no plan is replied to
		}
		return out
	case words.PausedOnApproval:
	}
	return wire.ApprovalSettled{ID: c.Pause.Gate, CallID: ask.CallID, Settlement: cmp.Or(c.Settlement, words.SettledAborted), Decider: decider}
}
