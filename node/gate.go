package node

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/loom-run/loom/broker"
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/policy"
	"github.com/loom-run/loom/server"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/tools"
)

// clear asks the broker, with what a person said about this very call or about calls
// like it. Their word answers a question and nothing else; one about other arguments
// clears nothing.
func (t *toolbox) clear(c engine.Call, call broker.Call) (*broker.Permit, error) {
	if c.Consent != nil {
		approve, ok := c.Consent.Decision.(machine.Approve)
		ask, err := server.AskIn(c.Consent.Pause.Subject)
		if !ok || err != nil {
			return nil, broker.ErrUnapproved
		}
		approved := ask.Hash
		if approve.Arguments != nil { // they wrote these themselves
			approved = hashOf(*approve.Arguments)
		}
		if approved != hashOf(c.Arguments) {
			return nil, broker.ErrUnapproved
		}
		if call.Asks == policy.AsksPlan { // it was handed in in its mode, whatever the mode is by now
			call.Asks = policy.AsksQuestion
		}
		return t.broker.ClearApproved(call, broker.Approval{Arguments: broker.Digest(c.Arguments)})
	}
	permit, err := t.broker.Clear(call)
	if asked, ok := err.(*broker.Question); ok && call.Asks == 0 && t.allowed(call, asked.Decision) { //nolint:errorlint // it comes from there as it is
		return t.broker.ClearApproved(call, broker.Approval{Arguments: broker.Digest(c.Arguments)})
	}
	return permit, err
}

// hashOf is the identity of arguments, as a person's answer is bound to it.
func hashOf(arguments jsonv.Value) string {
	sum := broker.Digest(arguments)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// digests are what an allowance of a call would cover that is kept: calls with exactly
// its arguments, and those of which rules see the same. A question that no rule can
// retire has none.
func (t *toolbox) digests(call broker.Call, d policy.Decision) *server.Grants {
	if d.Mandate() != "" {
		return nil
	}
	of := func(parts ...string) *string {
		h := sha256.New()
		for _, p := range parts {
			sum := sha256.Sum256([]byte(p))
			_, _ = h.Write(sum[:]) // never fails
		}
		return new(hex.EncodeToString(h.Sum(nil)))
	}
	g := &server.Grants{Exact: of(call.Tool, hashOf(call.Arguments))}
	_, a := t.broker.Judge(call)
	switch {
	case a.Subject == policy.Commands && a.Command != "":
		g.Session = of(call.Tool, call.Class.String(), a.Command)
	case a.Subject == policy.Paths && len(a.Paths) > 0:
		g.Session = of(append([]string{call.Tool, call.Class.String()}, a.Paths...)...)
	}
	return g
}

// allowed reports whether a person allowed calls like this one for the session. What
// cannot be read allows nothing.
func (t *toolbox) allowed(call broker.Call, d policy.Decision) bool {
	g := t.digests(call, d)
	if g == nil {
		return false
	}
	holds := func(l words.GrantLifetime, digest *string) bool {
		if digest == nil {
			return false
		}
		cell, ok, err := t.session.Rows().Register(register.FactCustom, machine.GrantKey(l, *digest))
		if err != nil || !ok {
			return false
		}
		kept, err := machine.DecodeGrant(cell.Value)
		return err == nil && kept.Lifetime == l && kept.Tool == call.Tool
	}
	return holds(words.GrantExact, g.Exact) || holds(words.GrantSession, g.Session)
}

// asksOf is what a tool asks a person by itself.
func asksOf(t tools.Tool, arguments jsonv.Value) (asks policy.Asks, what tools.Asking, err error) {
	if t.Asks == nil {
		return 0, what, nil
	}
	if what, err = t.Asks(arguments); err != nil {
		return 0, what, err
	}
	if what.Plan != "" {
		return policy.AsksPlan, what, nil
	}
	return policy.AsksQuestion, what, nil
}

// asked is what a person is asked by a tool: questions, or the review of a plan.
func (t *toolbox) asked(c engine.Call, what tools.Asking) engine.Verdict {
	ask := server.Ask{CallID: c.Call.ID, Hash: hashOf(c.Arguments), Tool: c.Call.Name, Origin: new(words.AskedByTool)}
	q := engine.Question{Reason: words.PausedOnQuestion, AnswerWithin: t.window, Window: words.ExpiredApproval}
	for i, question := range what.Questions {
		one := server.Question{ID: "q" + strconv.Itoa(i+1), Text: question.Text, Multiple: question.Multiple}
		one.Header = given(question.Header)
		for n, o := range question.Options {
			one.Options = append(one.Options, server.Option{ID: "o" + strconv.Itoa(n+1), Label: o.Label, About: given(o.About)})
		}
		ask.Questions = append(ask.Questions, one)
	}
	if what.Plan != "" {
		q.Reason, ask.Plan, ask.Mandate = words.PausedOnPlan, &what.Plan, new(words.MandatedPlan)
	}
	q.Subject = ask.Subject()
	return q
}

// ask puts a question to a person, or refuses the call where there is nobody who could
// answer. An agent has nobody: whoever waits for it would wait for both.
func (t *toolbox) ask(c engine.Call, call broker.Call, d policy.Decision, what tools.Asking) engine.Verdict {
	if !t.attended() || c.Strand != session.MainStrand {
		// A mode that asks for a class is told as the refusal that it comes to without
		// anybody; what a rule or a check has asked about, as the question that reached
		// nobody.
		by := words.DeniedByMode
		if _, ruled := d.Rule(); ruled || d.Mandate() != "" || call.Asks != 0 {
			by = words.DeniedByNobody
		}
		return denied(c.Call, d.Sentence(), by)
	}
	if call.Asks != 0 {
		return t.asked(c, what)
	}
	ask := server.Ask{
		CallID: c.Call.ID, Hash: hashOf(c.Arguments), Tool: call.Tool, About: t.about(call), Grants: t.digests(call, d),
		Origin: given(d.Origin()), Mandate: given(d.Mandate()), Undecided: given(d.Cause()),
	}
	ask.Offers, ask.OffersAbsence = t.offers(call, d)
	return engine.Question{
		Reason: words.PausedOnApproval, Subject: ask.Subject(), AnswerWithin: t.window, Window: words.ExpiredApproval,
	}
}

// offers are the rules that would answer a question the next time, in the person's own
// places; absence says why there are none.
func (t *toolbox) offers(call broker.Call, d policy.Decision) (offers []server.Offer, absence *words.RuleOfferAbsence) {
	if d.Mandate() != "" {
		return nil, new(words.NoRuleMandated)
	}
	_, a := t.broker.Judge(call)
	if a.Subject == policy.NoSubject || t.compile == nil {
		return nil, new(words.NoRuleTooBroad)
	}
	text, ok := policy.ExactRule(a)
	if !ok {
		return nil, new(words.NoRuleForTool)
	}
	if r, issue := t.compile(text); issue != nil || !t.broker.Retires(r, call) {
		return nil, new(words.NoRuleForTool)
	}
	return []server.Offer{{
		Rule: text, Behavior: words.RuleAllow, Destinations: []words.RuleDestination{words.RuleForSession, words.RuleForLocal, words.RuleForUser},
	}}, nil
}

// given is a word that may be none.
func given[W ~string](w W) *W {
	if w == "" {
		return nil
	}
	return &w
}

// maxAbout bounds the line about a call, in graphemes.
const maxAbout = 200

// about is a call in a line, for who decides about it. The input beside it is what counts.
func (t *toolbox) about(call broker.Call) string {
	_, a := t.broker.Judge(call)
	text := a.Command
	if len(a.Paths) > 0 {
		text = strings.Join(a.Paths, " -> ")
	}
	if text == "" {
		return call.Tool
	}
	text = strings.Join(strings.Fields(text[:min(len(text), 4096)]), " ")
	if cut := corrupt.Clip(text, maxAbout); cut != text {
		text = cut + "…"
	}
	return call.Tool + " " + strings.ToValidUTF8(text, "\uFFFD")
}

// denied is the result of a call that was refused before it ran.
func denied(call message.ToolCall, sentence string, by words.DeniedBy) engine.Verdict {
	r := refusal(call, sentence)
	r.Details = new(jsonv.Obj(server.Denied(by)))
	return engine.Denied{Result: r}
}

// person is who decides here: the user that the process runs as, by the environment's
// word. It is attribution only, and nil where the environment has none.
func (n *Node) person() *message.Origin {
	for _, name := range []string{"LOGNAME=", "USER="} {
		for _, e := range n.cfg.Environ {
			if who, ok := strings.CutPrefix(e, name); ok {
				if o, err := message.Human(who, who); err == nil {
					return &o
				}
			}
		}
	}
	return nil
}

func positive(n int64) *int64 {
	if n <= 0 {
		return nil
	}
	return &n
}
