package server

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/wire"
)

func (s *Server) getPending(r *http.Request, _ struct{}) (none wire.PendingRows, err error) {
	sid, err := sessionID(r)
	if err != nil {
		return none, err
	}
	reader, done, err := s.reader(r.Context(), sid)
	if err != nil {
		return none, err
	}
	defer done()
	m, err := mint(sid, reader.Source())
	if err != nil {
		return none, err
	}
	cursor, err := m.head()
	if err != nil {
		return none, err
	}
	all, err := reader.Source().Waiting()
	return wire.PendingRows{Rows: pendingRows(all), Cursor: cursor}, err
}

// shownRow is what an answer says of the row that its person saw.
type shownRow struct {
	id  string
	to  wire.Binding
	seq int64
}

// answering finds the row that an answer is about. An answer to what is over, or was
// never asked, and one to another call or input than the one that was shown, decide
// nothing.
func (h *hub) answering(q shownRow, reasons ...words.PauseReason) (w Waiting, err error) {
	all, err := h.resident.Source().Waiting()
	if err != nil {
		return w, err
	}
	n := slices.IndexFunc(all, func(w Waiting) bool { return w.Pause.Gate == q.id })
	if n < 0 {
		return w, machine.ErrNoSuchGate
	}
	w = all[n]
	if !slices.Contains(reasons, w.Pause.Reason) {
		return w, Refuse(wire.BadRequest, fmt.Sprintf("%s waits for another kind of answer, it is about: %s; nothing was decided", q.id, w.Pause.Reason))
	}
	bound, seq := boundOf(w.row())
	if bound != q.to || seq != q.seq {
		return w, &Mismatch{Row: w.row()}
	}
	return w, nil
}

func boundOf(p wire.Pending) (wire.Binding, int64) {
	switch p := p.(type) {
	case wire.ApprovalRequest:
		return p.Binding, p.Seq
	case wire.QuestionRequest:
		return p.Binding, p.Seq
	case wire.PlanRequest:
		return p.Binding, p.Seq
	default:
		return wire.Binding{}, -1
	}
}

// Mismatch refuses an answer to another call or input than the one that waits.
type Mismatch struct{ Row wire.Pending }

func (e *Mismatch) Error() string {
	return "what waits is not what was shown: the call or its input is another one; nothing was decided, look at it again"
}

// settle records a decision, or says what stands in its place.
func (s *Server) settle(r *http.Request, h *hub, q shownRow, w Waiting, found error, d machine.Decision) (receipt wire.Decided, err error) {
	receipt.ID = q.id
	if s := machine.Settles(d); s != "" {
		receipt.Settlement = &s
	}
	if found == nil {
		var seq int64
		receipt.Operation, seq, found = h.resident.Decide(r.Context(), Decided{Strand: w.Strand, Gate: q.id, Decision: d})
		receipt.Seq = count(seq)
	}
	switch {
	case found == nil:
		return receipt, nil
	case errors.Is(found, machine.ErrWrongAnswer), errors.Is(found, machine.ErrLifetime):
		return receipt, Refuse(wire.BadRequest, found.Error())
	case !errors.Is(found, machine.ErrNoSuchGate):
		return receipt, found
	}
	record, seq, ok, err := h.resident.Source().Settled(q.id)
	if err != nil {
		return receipt, err
	}
	if !ok && w.Pause.Gate == q.id {
		return receipt, Refuse(wire.AlreadySettled, "the time for an answer is over; nothing was changed by this one")
	}
	if !ok {
		return receipt, Refuse(wire.UnknownRow, fmt.Sprintf("nothing called %q waits for an answer in this session; nothing was changed", shownWord(q.id)))
	}
	if same(record, d) { // sent again, by whomever: it is the one that was heard
		receipt.Seq = count(seq)
		return receipt, nil
	}
	return receipt, Refuse(wire.AlreadySettled, "this was settled before: "+howSettled(record)+"; nothing was changed by this answer")
}

// same reports whether a decision says what was recorded. What a person edited or
// replied is theirs alone.
func same(record jsonv.Value, d machine.Decision) bool {
	word, ok := textOf(record, "settlement")
	settled := machine.Settles(d)
	return ok && word == string(settled) && settled != words.ApprovedEdited
}

func textOf(v jsonv.Value, name string) (string, bool) {
	f, ok := v.Get(name)
	if !ok {
		return "", false
	}
	return f.Text()
}

// howSettled says by whom, when and how.
func howSettled(record jsonv.Value) string {
	how := "it was answered"
	if word, ok := textOf(record, "settlement"); ok {
		how = strings.ReplaceAll(word, "_", " ")
	} else if _, gate := record.Get("disposition"); gate {
		how = "its run ended"
	}
	if by, ok := record.Get("decider"); ok && by.Kind() == jsonv.Object {
		if name, ok := textOf(by, "label"); ok {
			how += ", by " + shownWord(name)
		}
	}
	if at, ok := record.Get("decidedAt"); ok {
		if ms, ok := at.Int64(); ok {
			how += ", at " + time.UnixMilli(ms).UTC().Format(time.RFC3339)
		}
	}
	return how
}

func (s *Server) postDecide(r *http.Request, q wire.Decide) (none wire.Decided, err error) {
	if q.SettledBy != nil {
		return none, Refuse(wire.AttributionTaken, "this engine attributes a refusal to the person who sends it; nothing was decided, send it without settledBy")
	}
	h, err := s.session(r)
	if err != nil {
		return none, err
	}
	var d machine.Decision = machine.Deny{Note: q.Message, Stop: q.Stop}
	if q.Decision == words.Allow {
		a := machine.Approve{Arguments: q.Input}
		if q.Lifetime != nil && *q.Lifetime != words.GrantOnce {
			a.Lifetime = *q.Lifetime
		}
		d = a
	}
	shown := shownRow{q.ID, q.Binding, q.Seq}
	w, found := h.answering(shown, words.PausedOnApproval)
	receipt, err := s.settle(r, h, shown, w, found, d)
	if err != nil || q.Rule == nil {
		return receipt, err
	}
	// What was decided stands, whatever becomes of the rule.
	_, err = h.resident.WriteRule(r.Context(), Rule{Text: q.Rule.Rule, Behavior: q.Rule.Behavior, Place: q.Rule.Destination}, false)
	if refused, ok := errors.AsType[*RuleRefused](err); ok {
		receipt.RuleIssues, err = ruleProblems(refused.Issues), nil
	}
	return receipt, err
}

func (s *Server) postAnswer(r *http.Request, q wire.Answer) (none wire.Decided, err error) {
	h, err := s.session(r)
	if err != nil {
		return none, err
	}
	shown := shownRow{q.ID, q.Binding, q.Seq}
	w, found := h.answering(shown, words.PausedOnQuestion)
	var text string
	if found == nil {
		ask, err := AskIn(w.Pause.Subject)
		if err != nil {
			return none, err
		}
		if text, err = replied(ask.Questions, q.Answers); err != nil {
			return none, Refuse(wire.BadRequest, err.Error()+"; nothing was decided")
		}
	}
	return s.settle(r, h, shown, w, found, machine.Reply{Content: []message.UserBlock{message.Text{Text: text}}})
}

// replied is what a model reads of the answers to its questions.
func replied(questions []Question, answers []wire.Reply) (string, error) {
	var b strings.Builder
	for _, a := range answers {
		if !slices.ContainsFunc(questions, func(q Question) bool { return q.ID == a.Question }) {
			return "", fmt.Errorf("there is no question %q among those that were asked", shownWord(a.Question))
		}
	}
	for _, q := range questions {
		n := slices.IndexFunc(answers, func(a wire.Reply) bool { return a.Question == q.ID })
		if n < 0 {
			return "", fmt.Errorf("the question %q has no answer", shownWord(q.ID))
		}
		said, err := chosen(q, answers[n])
		if err != nil {
			return "", err
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s\nAnswer: %s", q.Text, said)
	}
	return b.String(), nil
}

func chosen(q Question, a wire.Reply) (string, error) {
	if len(a.Chosen) > 1 && !q.Multiple {
		return "", fmt.Errorf("the question %q takes one option", shownWord(q.ID))
	}
	var said []string
	for _, c := range a.Chosen {
		n := slices.IndexFunc(q.Options, func(o Option) bool { return o.ID == c })
		if n < 0 {
			return "", fmt.Errorf("the question %q has no option %q", shownWord(q.ID), shownWord(c))
		}
		said = append(said, q.Options[n].Label)
	}
	if a.Text != nil && strings.TrimSpace(*a.Text) != "" {
		said = append(said, *a.Text)
	}
	if len(said) == 0 {
		return "", fmt.Errorf("the answer to %q is empty", shownWord(q.ID))
	}
	return strings.Join(said, "; "), nil
}

func (s *Server) postPlan(r *http.Request, q wire.DecidePlan) (none wire.Decided, err error) {
	h, err := s.session(r)
	if err != nil {
		return none, err
	}
	var d machine.Decision
	switch q.Verdict {
	case words.PlanAccept:
		d = machine.Approve{}
	case words.PlanEdit:
		d = machine.Approve{Arguments: new(jsonv.Obj(jsonv.F(PlanArgument, jsonv.Str(*q.Plan))))}
	case words.PlanReject:
		d = machine.Deny{Note: q.Message}
	default:
		return none, Refuse(wire.BadRequest, "a plan is accepted, edited or rejected; nothing was decided")
	}
	shown := shownRow{q.ID, q.Binding, q.Seq}
	w, found := h.answering(shown, words.PausedOnPlan)
	return s.settle(r, h, shown, w, found, d)
}

// PlanArgument is what the tool that hands in a plan calls it.
const PlanArgument = "plan"

func (s *Server) getGrants(r *http.Request, _ struct{}) (list wire.GrantList, err error) {
	h, err := s.session(r)
	if err != nil {
		return list, err
	}
	got, err := h.resident.Grants(r.Context())
	list.Grants = make([]wire.GrantRow, len(got))
	for i, g := range got {
		list.Grants[i] = wire.GrantRow{
			Grant: g.Key, Lifetime: g.Grant.Lifetime, Tool: shown(g.Grant.Tool), About: shown(g.Grant.About), AtMs: new(count(g.Grant.At)), Decider: authorOf(g.Grant.By),
		}
	}
	return list, err
}

func (s *Server) postForget(r *http.Request, q wire.ForgetGrant) (wire.Forgotten, error) {
	h, err := s.session(r)
	if err != nil {
		return wire.Forgotten{}, err
	}
	was, err := h.resident.Forget(r.Context(), q.Grant)
	return wire.Forgotten{Grant: q.Grant, Was: was}, err
}
