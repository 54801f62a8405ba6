package machine

import (
	"errors"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/words"
)

// GateKey is the field of a result's details that records how its call was let through
// or refused, and by whom.
const GateKey = "loom.gate.v1"

// AnswerKey is the field of the details of a question's result that records who replied
// to it, and when.
const AnswerKey = "loom.answer.v1"

// The members of a record, and those of a subject that this package reads: all else in
// a subject is opaque.
const (
	gateOrigin = "origin" // of both: what made the call a question
	gateName   = "gate"
	gateGrants = "grants" // of a subject: by lifetime, the digest of what an allowance would cover
	gateTool   = "tool"   // of a subject
	gateAbout  = "about"  // of a subject: the call in a line, for people
)

// ErrLifetime refuses an allowance that is to be kept for longer than was offered.
var ErrLifetime = errors.New("this call cannot be allowed for that long; nothing was decided, allow it once")

// Settles says how a question was settled by a decision; empty for a reply, which
// is no question about a call.
func Settles(d Decision) words.Settlement {
	switch d := d.(type) {
	case Approve:
		switch {
		case d.Arguments != nil:
			return words.ApprovedEdited
		case d.Lifetime == words.GrantSession, d.Lifetime == words.GrantExact:
			return words.ApprovedSession
		}
		return words.ApprovedOnce
	case Deny:
		if d.Stop {
			return words.RejectedStop
		}
		return words.Rejected
	case Reply:
	}
	return ""
}

// settlements of questions that nobody answered.
var settlements = map[words.Expiry]words.Settlement{
	words.ExpiredApproval:    words.SettledApprovalWindow,
	words.ExpiredDenialLimit: words.SettledDenialLimit,
	words.ExpiredPark:        words.SettledPark,
}

// record is what is known of how a question ended.
func (p Pause) record(d words.Disposition, s words.Settlement, by words.DeniedBy) jsonv.Value {
	list := []jsonv.Member{jsonv.F("disposition", jsonv.Str(string(d)))}
	add := func(name, word string) {
		if word != "" {
			list = append(list, jsonv.F(name, jsonv.Str(word)))
		}
	}
	add("settlement", string(s))
	add("deniedBy", string(by))
	if origin, ok := textOf(p.Subject, gateOrigin); ok {
		add(gateOrigin, origin)
	}
	add(gateName, p.Gate)
	return jsonv.Obj(list...)
}

// Record is the record of the gate of a call that was decided; of a question that was
// replied to it is who did.
func (d Decided) Record() jsonv.Value {
	var list []jsonv.Member
	switch d.Decision.(type) {
	case Approve:
		list = members(d.Pause.record(words.GateAllowed, Settles(d.Decision), ""))
	case Deny:
		list = members(d.Pause.record(words.GateDenied, Settles(d.Decision), words.DeniedByPerson))
	case Reply:
		list = []jsonv.Member{jsonv.F(gateName, jsonv.Str(d.Pause.Gate))}
	}
	list = append(list, jsonv.F("decidedAt", jsonv.Num(d.At)))
	if d.By != nil {
		kind := "human"
		switch d.By.Kind() {
		case message.PeerOrigin:
			kind = "peer"
		case message.StrandOrigin:
			kind = "strand"
		case message.HumanOrigin:
		}
		list = append(list, jsonv.F("decider", jsonv.Obj(
			jsonv.F("kind", jsonv.Str(kind)), jsonv.F("id", jsonv.Str(d.By.Identity())), jsonv.F("label", jsonv.Str(d.By.Label())),
		)))
	}
	return jsonv.Obj(list...)
}

// gateOf is the record that the result of a call gets when it is staged; ok is false
// where nobody was asked about the call.
func gateOf(s CallStatus, step Step, now int64) (record jsonv.Value, ok bool) {
	switch s := s.(type) {
	case InFlight:
		if s.Gate != nil {
			return *s.Gate, true
		}
	case Decided:
		return s.Record(), true
	case Held:
		if step == StepCallExpired {
			window, _ := s.Pause.expired(now)
			return s.Pause.record(words.GateDenied, settlements[window], words.DeniedByNobody), true
		}
		settled := words.Settlement("")
		if step == StepCallAborted {
			settled = words.SettledAborted
		}
		return s.Pause.record(words.GateUnsettled, settled, ""), true
	case Planned, OutcomeReady, Completed:
	}
	return record, false
}

// recorded adds a record to the details of a result. What whoever made the result
// recorded of the gate stands: an approved call may still be refused by a rule.
func recorded(details *jsonv.Value, record jsonv.Value) *jsonv.Value {
	key := GateKey
	if _, gate := record.Get("disposition"); !gate {
		key = AnswerKey
	}
	var rest, own []jsonv.Member
	if details != nil && details.Kind() == jsonv.Object {
		for name, v := range details.Fields() {
			if name == key && v.Kind() == jsonv.Object {
				own = members(v)
			} else if name != key {
				rest = append(rest, jsonv.F(name, v))
			}
		}
	}
	is := jsonv.Obj(own...)
	for name, v := range record.Fields() {
		if _, there := is.Get(name); !there {
			own = append(own, jsonv.F(name, v))
		}
	}
	return new(jsonv.Obj(append(rest, jsonv.F(key, jsonv.Obj(own...)))...))
}

func members(v jsonv.Value) []jsonv.Member {
	list := make([]jsonv.Member, 0, v.Len())
	for name, f := range v.Fields() {
		list = append(list, jsonv.F(name, f))
	}
	return list
}

func textOf(v jsonv.Value, name string) (string, bool) {
	if v.Kind() != jsonv.Object {
		return "", false
	}
	f, ok := v.Get(name)
	if !ok {
		return "", false
	}
	return f.Text()
}

// Waiter is a call that waits for a person, and where it stands.
type Waiter struct {
	Pause       Pause
	AssistantID id.EntryID // the response that holds the call
	SourceIndex int
}

// Waiting lists the calls that a run waits for a person about, in their order.
func Waiting(st State) []Waiter {
	b, _ := openBatch(st)
	var list []Waiter
	for _, c := range b.Calls {
		if held, ok := c.Status.(Held); ok {
			list = append(list, Waiter{held.Pause, b.AssistantID, c.SourceIndex})
		}
	}
	return list
}

// SettledGate is the record of a question that was decided and whose call has no result
// yet.
func SettledGate(st State, gate string) (record jsonv.Value, ok bool) {
	run, isRun := st.Work.(*Run)
	if !isRun {
		return record, false
	}
	tools, _ := run.Phase.(RunningTools)
	for _, c := range tools.Batch.Calls {
		switch s := c.Status.(type) {
		case Decided:
			if s.Pause.Gate == gate {
				return s.Record(), true
			}
		case InFlight:
			if s.Gate != nil && GateIn(*s.Gate) == gate {
				return *s.Gate, true
			}
		case Planned, Held, OutcomeReady, Completed:
		}
	}
	return record, false
}

// GateIn is the gate that a record is of; empty where it names none.
func GateIn(record jsonv.Value) string {
	name, _ := textOf(record, gateName)
	return name
}

// RecordIn is the record of a question in the details of a result: of a gate, or of a
// reply.
func RecordIn(details *jsonv.Value) (record jsonv.Value, ok bool) {
	if details == nil || details.Kind() != jsonv.Object {
		return record, false
	}
	for _, key := range []string{GateKey, AnswerKey} {
		if record, ok = details.Get(key); ok && record.Kind() == jsonv.Object {
			return record, true
		}
	}
	return record, false
}

// GrantPrefix starts the keys of what is allowed for the session.
const GrantPrefix = "grant/"

// GrantKey is the key, in fact.custom, of an allowance that is kept: of that lifetime,
// and of what the digest stands for.
func GrantKey(l words.GrantLifetime, digest string) string {
	return GrantPrefix + string(l) + "/" + digest
}

// offered is the digest of what an allowance of that lifetime would cover.
func (p Pause) offered(l words.GrantLifetime) (digest string, ok bool) {
	if p.Subject.Kind() != jsonv.Object {
		return "", false
	}
	grants, ok := p.Subject.Get(gateGrants)
	if !ok {
		return "", false
	}
	return textOf(grants, string(l))
}

// grant is the write that keeps an allowance; none for one that holds for this call.
func (d Decided) grant() ([]tx.Write, error) {
	a, ok := d.Decision.(Approve)
	if !ok || a.Lifetime == "" || a.Lifetime == words.GrantOnce {
		return nil, nil
	}
	digest, ok := d.Pause.offered(a.Lifetime)
	if !ok || a.Arguments != nil { // what was edited is not what was asked about
		return nil, ErrLifetime
	}
	g := Grant{Lifetime: a.Lifetime, Gate: d.Pause.Gate, At: d.At, By: d.By}
	g.Tool, _ = textOf(d.Pause.Subject, gateTool)
	g.About, _ = textOf(d.Pause.Subject, gateAbout)
	return []tx.Write{tx.Set(register.FactCustom, GrantKey(a.Lifetime, digest), g.Value())}, nil
}

// Grant is an allowance that a person gave for longer than a call.
type Grant struct {
	Lifetime words.GrantLifetime
	Tool     string
	About    string // the call in a line, for people
	Gate     string // the question that it answered
	At       int64  // Unix ms
	By       *message.Origin
}

const grantBoundary = "register fact.custom/grant"

// Value encodes it.
func (g Grant) Value() jsonv.Value {
	var w jsonv.Writer
	w.Begin()
	w.Str("lifetime", string(g.Lifetime))
	w.Str("tool", g.Tool)
	w.Str("about", g.About)
	w.Str("gate", g.Gate)
	w.Num("at", g.At)
	if g.By != nil {
		w.Name("by")
		message.AppendOrigin(&w, g.By)
	}
	w.End()
	return w.Tree()
}

// DecodeGrant reads it. The error is a report of what is wrong.
func DecodeGrant(v jsonv.Value) (Grant, error) {
	r := jsonv.Read(v, grantBoundary)
	return Grant{
		Lifetime: word(r, "lifetime", words.GrantSession, words.GrantExact), Tool: r.Str("tool"), About: r.Str("about"), Gate: r.Str("gate"),
		At: r.Num("at"), By: jsonv.OptOne(r, "by", message.DecodeOrigin),
	}, r.Err()
}

// ClosedGate is a question that a run waits for no longer.
type ClosedGate struct {
	Pause      Pause
	Settlement words.Settlement // empty for a question that was replied to, and where the run ended otherwise
	By         *message.Origin  // who decided; nil: nobody, or nobody was named
	Decision   Decision         // nil: nobody decided
}

// Gates compares what a run waits for in two states of it, one after the other.
func Gates(before, after State, now int64) (closed []ClosedGate, changed bool) {
	left := Waiting(after)
	for _, w := range Waiting(before) {
		still := false
		for _, l := range left {
			still = still || l.Pause.Gate == w.Pause.Gate
		}
		if !still {
			closed = append(closed, w.closed(after, now))
		}
	}
	return closed, len(closed) > 0 || len(left) != len(Waiting(before))
}

func (w Waiter) closed(after State, now int64) ClosedGate {
	out := ClosedGate{Pause: w.Pause}
	_, running := after.Control.(Running)
	run, isRun := after.Work.(*Run)
	if isRun {
		tools, _ := run.Phase.(RunningTools)
		for _, c := range tools.Batch.Calls {
			if d, decided := c.Status.(Decided); decided && d.Pause.Gate == w.Pause.Gate {
				out.Settlement, out.By, out.Decision = Settles(d.Decision), d.By, d.Decision
				return out
			}
		}
	}
	if window, gone := w.Pause.expired(now); gone && running {
		out.Settlement = settlements[window]
	} else if !running {
		out.Settlement = words.SettledAborted
	}
	return out
}

// StateIn is the state of an operation that a plan writes.
func StateIn(t tx.Tx, op id.OpID) (State, bool) {
	for _, w := range t.Writes {
		if set, ok := w.(tx.SetRegister); ok && set.NS == register.OpState && set.Key == op.String() {
			st, err := DecodeState(set.Value)
			return st, err == nil
		}
	}
	return State{}, false
}
