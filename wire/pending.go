package wire

import (
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/wire/shape"
)

// Binding is what a person's answer is bound to: the call, and the input that was
// shown. A client echoes both verbatim and never computes them.
type Binding struct {
	BoundCallID    string `wire:"boundCallId,word"`
	BoundInputHash string `wire:"boundInputHash,word"`
}

// ApprovalRequest is a call that waits for a person. The row that is fetched is
// what a card is made from; the frame only says that there is one.
type ApprovalRequest struct {
	ID string `wire:"id,word"`
	Binding
	Seq   int64       `wire:"seq"` // of the record; a decision is compared with it
	Tool  string      `wire:"tool"`
	Input jsonv.Value `wire:"input"`
	Title *string     `wire:"title"`
	// Origin is what made the call a question; a client uses it as it is.
	Origin *words.AskOrigin `wire:"origin"`
	// Mandated says that no rule can retire the question, and Mandate what it stands
	// on.
	Mandated bool           `wire:"mandated,opt"`
	Mandate  *words.Mandate `wire:"mandate"`
	// RuleOffers are the rules that would cover the call; RuleOffersAbsence says why
	// there are none.
	RuleOffers        []RuleOffer             `wire:"ruleOffers,opt"`
	RuleOffersAbsence *words.RuleOfferAbsence `wire:"ruleOffersAbsence"`
	Lifetimes         []words.GrantLifetime   `wire:"lifetimes,opt"`
	// ReadRootCandidate is the directory that would have to be granted for a read that
	// is outside. Offering it grants nothing.
	ReadRootCandidate *string `wire:"readRootCandidate"`
	ProbeReason       *string `wire:"probeReason"` // why it is asked before the call's own turn
	// AutoModeUnavailable is why the classifier could not answer in the person's
	// place; a newer word is another kind of outage.
	AutoModeUnavailable *words.UndecidedCause `wire:"autoModeUnavailable"`
	AskedAtMs           *int64                `wire:"askedAtMs"`
	ExpiresAtMs         *int64                `wire:"expiresAtMs"`
}

// RuleOffer is a rule that would answer this question the next time.
type RuleOffer struct {
	Rule         string                  `wire:"rule,nonempty"`
	Behavior     words.RuleBehavior      `wire:"behavior,word"`
	Destinations []words.RuleDestination `wire:"destinations"`
}

// QuestionRequest is a question of the model that waits for a person.
type QuestionRequest struct {
	ID string `wire:"id,word"`
	Binding
	Seq         int64      `wire:"seq"`
	Questions   []Question `wire:"questions"`
	AskedAtMs   *int64     `wire:"askedAtMs"`
	ExpiresAtMs *int64     `wire:"expiresAtMs"`
}

// Question is one of a request's.
type Question struct {
	ID       string   `wire:"id,word"`
	Header   *string  `wire:"header"`
	Text     string   `wire:"text"`
	Options  []Option `wire:"options,opt"` // absent: a free text is asked for
	Multiple bool     `wire:"multiple,opt"`
}

// Option is one answer that can be chosen.
type Option struct {
	ID    string  `wire:"id,word"`
	Label string  `wire:"label"`
	About *string `wire:"about"`
}

// PlanRequest is a plan that waits for a person. What was shown is what is
// approved: the hash is that of the plan.
type PlanRequest struct {
	ID string `wire:"id,word"`
	Binding
	Seq         int64  `wire:"seq"`
	Plan        string `wire:"plan"`
	AskedAtMs   *int64 `wire:"askedAtMs"`
	ExpiresAtMs *int64 `wire:"expiresAtMs"`
}

// Pending is one row that waits for a person: [ApprovalRequest], [QuestionRequest],
// [PlanRequest], or one of a kind that this build does not know.
type Pending interface{ pending() }

// UnknownPending is a row of a newer kind, whole.
type UnknownPending struct {
	Tag string
	Raw jsonv.Value
}

func (ApprovalRequest) pending() {}
func (QuestionRequest) pending() {}
func (PlanRequest) pending()     {}
func (UnknownPending) pending()  {}

func init() {
	shape.Sum("kind",
		func(tag string, raw jsonv.Value) Pending { return UnknownPending{Tag: tag, Raw: raw} },
		func(p Pending) (jsonv.Value, bool) { u, ok := p.(UnknownPending); return u.Raw, ok },
		shape.Member[Pending]{Tag: "approval", Zero: ApprovalRequest{}},
		shape.Member[Pending]{Tag: "question", Zero: QuestionRequest{}},
		shape.Member[Pending]{Tag: "plan", Zero: PlanRequest{}})
}

// PendingID is the id of a row; empty for one of a kind that this build does not know.
func PendingID(p Pending) string {
	switch p := p.(type) {
	case ApprovalRequest:
		return p.ID
	case QuestionRequest:
		return p.ID
	case PlanRequest:
		return p.ID
	case UnknownPending:
	}
	return ""
}

// PendingLevel is the level of everything in a session that waits for a person. It
// is the one to trust: the edges beside it may be missed.
type PendingLevel struct {
	Rows []Pending `wire:"rows"`
}

// ApprovalSettled says how an approval ended. The gate of the call's result is the
// lasting record.
type ApprovalSettled struct {
	ID         string           `wire:"id,word"`
	CallID     string           `wire:"toolCallId"`
	Settlement words.Settlement `wire:"settlement,word"`
	Decider    *Author          `wire:"decider"`
}

// QuestionSettled says how a question ended.
type QuestionSettled struct {
	ID       string        `wire:"id,word"`
	CallID   string        `wire:"toolCallId"`
	Answered bool          `wire:"answered"`
	Expiry   *words.Expiry `wire:"expiry"` // when nobody answered in time
	Decider  *Author       `wire:"decider"`
}

// PlanSettled says how a plan ended.
type PlanSettled struct {
	ID      string             `wire:"id,word"`
	CallID  string             `wire:"toolCallId"`
	Verdict *words.PlanVerdict `wire:"verdict"` // absent: nobody answered
	Expiry  *words.Expiry      `wire:"expiry"`
	Decider *Author            `wire:"decider"`
}
