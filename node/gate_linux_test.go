package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/policy"
	"github.com/loom-run/loom/server"
	"github.com/loom-run/loom/server/memlisten"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/wireclient"
)

// gated is a play in the mode default that somebody watches who can decide, over the wire.
type gated struct {
	*play
	*wireclient.Client
	server *server.Server
	heard  chan wire.Frame
}

func newGated(t *testing.T, config func(*Config), steps ...string) *gated {
	script := "-- part boss --\n"
	for i, s := range steps {
		if i > 0 {
			script += "==\n"
		}
		script += s + "\n"
	}
	p := &play{t: t, home: Home{filepath.Join(t.TempDir(), "home")}, cwd: t.TempDir(), mode: policy.Default, cast: castOf(txtar.Parse([]byte(script)))}
	p.config = func(c *Config) {
		c.Environ = append(c.Environ, "USER=ann")
		if config != nil {
			config(c)
		}
	}
	p.open()
	g := &gated{play: p}
	g.serve()
	t.Cleanup(func() { g.leave() })
	return g
}

// serve lets clients in, and hears what one of them hears.
func (g *gated) serve() {
	in := memlisten.New()
	g.server = server.New(g.node.Host())
	go func() { _ = g.server.Serve(in) }()
	g.Client = wireclient.New(&http.Transport{DialContext: in.DialContext, DisableKeepAlives: true}, "http://loom")
	stream, err := g.Attach(g.t.Context(), g.slot.ID(), wire.FromHead())
	if err != nil {
		g.t.Fatal(err)
	}
	heard := make(chan wire.Frame, 4096)
	g.heard = heard
	go func() {
		for f, err := range stream.Frames(g.t.Context()) {
			if err != nil {
				return
			}
			heard <- f
		}
	}()
}

func (g *gated) leave() {
	if findings, _, err := g.slot.Check(); err != nil || len(findings) > 0 {
		g.t.Errorf("the session has %v, %v", findings, err)
	}
	if err := errors.Join(g.server.Close(time.Second), g.node.Close()); err != nil {
		g.t.Error(err)
	}
}

// restart is what a new process is.
func (g *gated) restart() {
	g.leave()
	g.open()
	g.serve()
}

func (g *gated) prompt(text string) {
	g.t.Helper()
	if _, err := g.Client.Prompt(g.t.Context(), g.slot.ID(), wire.Prompt{
		Input: wire.Input{Text: text}, ApproverPosture: new(words.ApproverResident),
	}); err != nil {
		g.t.Fatal(err)
	}
}

func (g *gated) resume() {
	g.t.Helper()
	if _, err := g.Client.Resume(g.t.Context(), g.slot.ID(), wire.Resume{ApproverPosture: new(words.ApproverResident)}); err != nil {
		g.t.Fatal(err)
	}
}

// until reads frames up to one of a kind that fits.
func until[B wire.Body](g *gated, fits func(B) bool) B {
	g.t.Helper()
	for {
		select {
		case f := <-g.heard:
			if b, ok := f.Body.(B); ok && (fits == nil || fits(b)) {
				return b
			}
		case <-time.After(20 * time.Second):
			var none B
			g.t.Fatalf("no %s was heard\n%s", none.Kind(), g.print())
		}
	}
}

// asked waits until the run waits for somebody alone, and fetches what it asks.
func (g *gated) asked() []wire.Pending {
	g.t.Helper()
	until(g, func(a wire.Activity) bool { return a.State == words.ActivityAsking })
	return g.pending()
}

func (g *gated) pending() []wire.Pending {
	g.t.Helper()
	rows, err := g.Client.Pending(g.t.Context(), g.slot.ID())
	if err != nil {
		g.t.Fatal(err)
	}
	return rows.Rows
}

func (g *gated) approval() wire.ApprovalRequest {
	g.t.Helper()
	rows := g.asked()
	if len(rows) != 1 {
		g.t.Fatalf("%d questions wait: %+v", len(rows), rows)
	}
	r, ok := rows[0].(wire.ApprovalRequest)
	if !ok {
		g.t.Fatalf("%+v", rows[0])
	}
	return r
}

func (g *gated) ended() wire.RunEnd {
	g.t.Helper()
	return until[wire.RunEnd](g, nil)
}

func allow(r wire.ApprovalRequest) wire.Decide {
	return wire.Decide{ID: r.ID, Binding: r.Binding, Seq: r.Seq, Decision: words.Allow}
}

func refuse(r wire.ApprovalRequest) wire.Decide {
	return wire.Decide{ID: r.ID, Binding: r.Binding, Seq: r.Seq, Decision: words.Deny}
}

func (g *gated) decide(q wire.Decide, want words.Settlement) {
	g.t.Helper()
	got, err := g.Decide(g.t.Context(), g.slot.ID(), q)
	if err != nil || got.Settlement == nil || *got.Settlement != want || got.Seq == 0 {
		g.t.Fatalf("%+v, %v; wanted %s", got, err, want)
	}
}

func (g *gated) refused(q wire.Decide, want wire.Code) wireclient.Refused {
	g.t.Helper()
	_, err := g.Decide(g.t.Context(), g.slot.ID(), q)
	r, ok := errors.AsType[*wireclient.Refused](err)
	if !ok || r.Code != want {
		g.t.Fatalf("%v; wanted %s", err, want)
	}
	return *r
}

func (g *gated) there(name string) bool {
	_, err := os.Stat(filepath.Join(g.cwd, name))
	return err == nil
}

// gate is the record of the one call of a run.
func gate(t *testing.T, e wire.RunEnd) wire.GateRecord {
	t.Helper()
	if len(e.Gates) != 1 {
		t.Fatalf("%+v", e.Gates)
	}
	return e.Gates[0]
}

const touches = `call bash {"command":"touch made && echo $$ >> runs"}`

// TestAnApprovalIsAskedDecidedAndRecorded: a call that the mode asks about waits, for
// every client that comes; the answer runs it once, and the record says who gave it.
func TestAnApprovalIsAskedDecidedAndRecorded(t *testing.T) {
	g := newGated(t, nil, touches, "text done")
	g.prompt("part:boss go")
	r := g.approval()
	if r.Tool != "bash" || r.Origin == nil || *r.Origin != words.AskedByMode || r.Mandated || r.Title == nil || g.there("made") {
		t.Fatalf("%+v", r)
	}
	if command, ok := r.Input.Get("command"); !ok || command.String() == "" {
		t.Errorf("the input is %s", r.Input)
	}
	g.restart() // whoever comes later sees it, without having heard of it
	level := until[wire.PendingLevel](g, nil)
	if len(level.Rows) != 1 || wire.PendingID(level.Rows[0]) != r.ID {
		t.Fatalf("%+v", level)
	}
	g.resume()
	g.asked()
	g.decide(allow(r), words.ApprovedOnce)
	settled := until[wire.ApprovalSettled](g, nil)
	if settled.ID != r.ID || settled.Settlement != words.ApprovedOnce || settled.Decider == nil || settled.Decider.ID != "ann" {
		t.Errorf("%+v", settled)
	}
	if e := g.ended(); e.Terminal != (wire.Completed{}) || !g.there("made") {
		t.Fatalf("%+v\n%s", e, g.print())
	} else if at := gate(t, e); at.Disposition != words.GateAllowed || *at.Settlement != words.ApprovedOnce || *at.Origin != words.AskedByMode || at.Decider == nil || at.Decider.ID != "ann" {
		t.Errorf("the record is %+v", at)
	}
	if rows := g.pending(); len(rows) != 0 {
		t.Errorf("%+v", rows)
	}
}

// TestNobodyIsAskedInVain: without somebody who can decide a question is the refusal it
// comes to, at once.
func TestNobodyIsAskedInVain(t *testing.T) {
	g := newGated(t, nil, touches, "text done")
	if _, err := g.Client.Prompt(t.Context(), g.slot.ID(), wire.Prompt{Input: wire.Input{Text: "part:boss go"}}); err != nil {
		t.Fatal(err)
	}
	if e := g.ended(); gate(t, e).Disposition != words.GateDenied || *gate(t, e).DeniedBy != words.DeniedByMode || g.there("made") {
		t.Errorf("%+v", e)
	}
}

// TestAnAnswerIsToWhatWasShown, once: to nothing else, not too late, and not twice.
func TestAnAnswerIsToWhatWasShown(t *testing.T) {
	g := newGated(t, nil, touches, "text done")
	g.prompt("part:boss go")
	r := g.approval()
	unknown := allow(r)
	unknown.ID = "per_does_not_exist"
	g.refused(unknown, wire.UnknownRow)
	other := allow(r)
	other.BoundInputHash = "sha256:00"
	if refused := g.refused(other, wire.BindingMismatch); refused.Pending == nil {
		t.Errorf("what waits is not with %+v", refused)
	}
	other = allow(r)
	other.BoundCallID = "another"
	g.refused(other, wire.BindingMismatch)
	other = allow(r)
	other.Seq++
	g.refused(other, wire.BindingMismatch)
	other = allow(r)
	other.Input = new(jsonv.Str("no object"))
	g.refused(other, wire.BadRequest)
	if _, err := g.Client.Answer(t.Context(), g.slot.ID(), wire.Answer{ID: r.ID, Binding: r.Binding, Seq: r.Seq}); err == nil {
		t.Error("a reply to an approval was taken")
	}
	g.restart()
	if rows := g.pending(); len(rows) != 1 || wire.PendingID(rows[0]) != r.ID {
		t.Fatalf("after all that wait %+v", rows)
	}
	// Nothing of the session runs here, and it can be decided all the same.
	no := refuse(r)
	no.Message = new("not that")
	got, err := g.Decide(t.Context(), g.slot.ID(), no)
	if err != nil || !got.Operation.IsZero() {
		t.Fatal(got, err)
	}
	g.refused(allow(r), wire.AlreadySettled)
	g.decide(refuse(r), words.Rejected) // what is said again was heard
	g.resume()
	if e := g.ended(); gate(t, e).Disposition != words.GateDenied || *gate(t, e).Settlement != words.Rejected || g.there("made") {
		t.Fatalf("%+v", e)
	}
	late := g.refused(allow(r), wire.AlreadySettled)
	if want := "rejected, by ann, at "; !strings.Contains(late.Message, want) {
		t.Errorf("%q does not say %q", late.Message, want)
	}
	g.decide(refuse(r), words.Rejected)
	if !strings.Contains(g.print(), "not that") {
		t.Errorf("the model does not read what the person said\n%s", g.print())
	}
}

// TestAnAbortSettlesWhatWaits, asks nothing more, and an answer to it is refused by name.
func TestAnAbortSettlesWhatWaits(t *testing.T) {
	g := newGated(t, nil, touches+"\n"+`call bash {"command":"touch second"}`, "text done")
	g.prompt("part:boss go")
	rows := g.asked()
	if len(rows) != 2 {
		t.Fatalf("%+v", rows)
	}
	first, _ := rows[0].(wire.ApprovalRequest)
	second, _ := rows[1].(wire.ApprovalRequest)
	stop := refuse(first)
	stop.Stop = true
	g.decide(stop, words.RejectedStop)
	e := g.ended()
	if e.Terminal != (wire.Aborted{}) || len(e.Gates) != 2 || *e.Gates[0].Settlement != words.RejectedStop || *e.Gates[1].Settlement != words.SettledAborted || e.Gates[1].Disposition != words.GateUnsettled {
		t.Fatalf("%+v", e)
	}
	if rows := g.pending(); len(rows) != 0 {
		t.Errorf("%+v", rows)
	}
	late := g.refused(allow(second), wire.AlreadySettled)
	if !strings.Contains(late.Message, "aborted") || g.there("second") || g.there("made") {
		t.Errorf("%+v", late)
	}
}

// TestOfManyDecidersOneDecides, over the wire and a real file.
func TestOfManyDecidersOneDecides(t *testing.T) {
	const deciders = 32
	for round := range 3 {
		g := newGated(t, nil, touches, "text done")
		g.prompt("part:boss go")
		r := g.approval()
		outcomes := make([]error, deciders)
		start := make(chan struct{})
		var all sync.WaitGroup
		for i := range deciders {
			q := allow(r)
			q.Input = new(jsonv.Obj(jsonv.F("command", jsonv.Str(fmt.Sprintf("touch by%d; echo %d >> runs", i, i)))))
			if (i+round)%3 == 0 {
				q = refuse(r)
				q.Stop = i%2 == 0
			}
			all.Go(func() {
				<-start
				_, outcomes[i] = g.Decide(t.Context(), g.slot.ID(), q)
			})
		}
		close(start)
		all.Wait()
		allowed, denied, by := 0, 0, -1
		for i, err := range outcomes {
			refused, isRefused := errors.AsType[*wireclient.Refused](err)
			switch {
			case err == nil && (i+round)%3 == 0:
				denied++
			case err == nil:
				allowed, by = allowed+1, i
			case !isRefused || refused.Code != wire.AlreadySettled:
				t.Errorf("decider %d: %v", i, err)
			}
		}
		e := g.ended()
		runs, _ := os.ReadFile(filepath.Join(g.cwd, "runs"))
		switch {
		case allowed == 1 && denied == 0:
			if string(runs) != fmt.Sprintf("%d\n", by) || *gate(t, e).Settlement != words.ApprovedEdited {
				t.Errorf("decider %d won, and %q ran: %+v", by, runs, e)
			}
		case allowed == 0 && denied > 0: // those who say what was heard are heard too
			if len(runs) != 0 {
				t.Errorf("it was refused, and %q ran", runs)
			}
		default:
			t.Errorf("%d allowed and %d refused it", allowed, denied)
		}
		g.leave()
		g.open()
		g.serve()
	}
}

// TestAWindowClosesWhoeverIsThere: also when the clock jumps over its end while nobody
// is, and what comes too late runs nothing.
func TestAWindowClosesWhoeverIsThere(t *testing.T) {
	var mu sync.Mutex
	ahead := int64(0)
	g := newGated(t, func(c *Config) {
		c.AnswerWithin = 3_600_000
		now := c.Now
		c.Now = func() int64 {
			mu.Lock()
			defer mu.Unlock()
			return now() + ahead
		}
	}, touches, "text done")
	g.prompt("part:boss go")
	r := g.approval()
	if r.ExpiresAtMs == nil || *r.ExpiresAtMs != *r.AskedAtMs+3_600_000 {
		t.Fatalf("%+v", r)
	}
	g.leave()
	mu.Lock()
	ahead = 7_200_000
	mu.Unlock()
	g.open()
	g.serve()
	g.refused(allow(r), wire.AlreadySettled)
	g.resume()
	e := g.ended()
	if f, ok := e.Terminal.(wire.Failed); !ok || f.Code != string(words.ExpiredApproval) || *gate(t, e).Settlement != words.SettledApprovalWindow || g.there("made") {
		t.Errorf("%+v", e)
	}
	if late := g.refused(allow(r), wire.AlreadySettled); !strings.Contains(late.Message, "expired") {
		t.Errorf("%+v", late)
	}
}

// TestAnAllowanceHoldsForAsLongAsItWasGiven, for calls that are like the one that was
// asked about, until it is taken back.
func TestAnAllowanceHoldsForAsLongAsItWasGiven(t *testing.T) {
	same, longer, other := `call bash {"command":"touch made"}`, `call bash {"command":"touch made","timeout_ms":60000}`, `call bash {"command":"touch made; true"}`
	g := newGated(t, nil, same, "text one", same, "text two", longer, "text three", longer, "text four", other, "text five", same, "text six")
	kept := func(l words.GrantLifetime) {
		t.Helper()
		r := g.approval()
		if len(r.Lifetimes) != 3 {
			t.Fatalf("it can be allowed for %v", r.Lifetimes)
		}
		q := allow(r)
		q.Lifetime = &l
		g.decide(q, words.ApprovedSession)
		if at := gate(t, g.ended()); *at.Settlement != words.ApprovedSession {
			t.Errorf("%+v", at)
		}
	}
	unasked := func() {
		t.Helper()
		if e := g.ended(); e.Terminal != (wire.Completed{}) || len(e.Gates) != 0 {
			t.Fatalf("%+v", e)
		}
	}
	g.prompt("part:boss 1")
	kept(words.GrantExact)
	g.prompt("part:boss 2")
	unasked()
	g.prompt("part:boss 3") // the same command, and another call
	kept(words.GrantSession)
	g.restart() // it outlives the process
	g.prompt("part:boss 4")
	unasked()
	g.prompt("part:boss 5") // another command
	g.decide(refuse(g.approval()), words.Rejected)
	g.ended()
	grants, err := g.Grants(t.Context(), g.slot.ID())
	if err != nil || len(grants.Grants) != 2 || grants.Grants[0].Lifetime != words.GrantSession || grants.Grants[0].Decider == nil || grants.Grants[0].About != "bash touch made" {
		t.Fatalf("%+v, %v", grants, err)
	}
	for _, row := range grants.Grants {
		if got, err := g.ForgetGrant(t.Context(), g.slot.ID(), wire.ForgetGrant{Grant: row.Grant}); err != nil || !got.Was {
			t.Fatal(got, err)
		}
	}
	if got, err := g.ForgetGrant(t.Context(), g.slot.ID(), wire.ForgetGrant{Grant: grants.Grants[0].Grant}); err != nil || got.Was {
		t.Error(got, err)
	}
	g.prompt("part:boss 6")
	g.decide(refuse(g.approval()), words.Rejected)
	g.ended()
}

// TestARewrittenInputMeetsTheRules: a person's word answers a question, and lifts no
// refusal; what rules cannot retire is asked each time.
func TestARewrittenInputMeetsTheRules(t *testing.T) {
	own := `call write {"path":".loom/permissions.toml","content":""}`
	g := newGated(t, func(c *Config) { c.PermissionsFile = filepath.Join(filepath.Dir(c.Home.dir), "loom.toml") }, touches, "text one", own, "text two")
	if _, err := g.slot.ChangeRule(rule(words.RuleForSession, words.RuleDeny, "bash(rm *)")); err != nil {
		t.Fatal(err)
	}
	g.prompt("part:boss 1")
	q := allow(g.approval())
	q.Input = new(jsonv.Obj(jsonv.F("command", jsonv.Str("rm -rf made"))))
	g.decide(q, words.ApprovedEdited)
	at := gate(t, g.ended())
	if at.Disposition != words.GateDenied || *at.DeniedBy != words.DeniedByRule || *at.Settlement != words.ApprovedEdited || at.Decider == nil {
		t.Errorf("%+v", at)
	}
	g.prompt("part:boss 2")
	r := g.approval()
	if !r.Mandated || *r.Mandate != words.MandatedState || len(r.Lifetimes) != 1 {
		t.Fatalf("%+v", r)
	}
	q = allow(r)
	q.Lifetime = new(words.GrantSession)
	g.refused(q, wire.BadRequest)
	g.decide(allow(r), words.ApprovedOnce)
	g.ended()
	if !g.there(".loom/permissions.toml") {
		t.Error("what was allowed was not done")
	}
}

const asks = `call ask_user {"questions":[{"question":"Which colour?","options":[{"label":"red"},{"label":"blue","description":"like the sky"}]},{"question":"And why?"}]}`

// TestAQuestionIsAnsweredByAPerson, over restarts, by whoever decides; an answer that is
// none changes nothing.
func TestAQuestionIsAnsweredByAPerson(t *testing.T) {
	g := newGated(t, nil, asks, "text thanks", asks, "text alone", `call ask_user {"questions":[]}`, "text sorry")
	g.prompt("part:boss go")
	q, ok := g.asked()[0].(wire.QuestionRequest)
	if !ok || len(q.Questions) != 2 || len(q.Questions[0].Options) != 2 || q.Questions[0].Options[1].Label != "blue" || len(q.Questions[1].Options) != 0 {
		t.Fatalf("%+v", q)
	}
	g.restart()
	answer := wire.Answer{ID: q.ID, Binding: q.Binding, Seq: q.Seq}
	for _, bad := range [][]wire.Reply{
		nil, {{Question: "q1", Chosen: []string{"o2"}}}, {{Question: "q1", Chosen: []string{"o1", "o2"}}, {Question: "q2", Text: new("x")}},
		{{Question: "q1", Chosen: []string{"o9"}}, {Question: "q2", Text: new("x")}}, {{Question: "q1", Chosen: []string{"o1"}}, {Question: "q2", Text: new(" ")}},
		{{Question: "q1", Chosen: []string{"o1"}}, {Question: "q2", Text: new("x")}, {Question: "q3", Text: new("x")}},
	} {
		answer.Answers = bad
		_, err := g.Client.Answer(t.Context(), g.slot.ID(), answer)
		if r, ok := errors.AsType[*wireclient.Refused](err); !ok || r.Code != wire.BadRequest {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	answer.Answers = []wire.Reply{{Question: "q1", Chosen: []string{"o2"}}, {Question: "q2", Text: new("because")}}
	if _, err := g.Client.Answer(t.Context(), g.slot.ID(), answer); err != nil {
		t.Fatal(err)
	}
	late := answer
	late.Answers = []wire.Reply{{Question: "q1", Chosen: []string{"o1"}}, {Question: "q2", Text: new("no")}}
	tooLate := func() {
		t.Helper()
		_, err := g.Client.Answer(t.Context(), g.slot.ID(), late)
		if r, ok := errors.AsType[*wireclient.Refused](err); !ok || r.Code != wire.AlreadySettled || !strings.Contains(r.Message, "by ann") {
			t.Errorf("%v", err)
		}
	}
	tooLate()
	g.resume()
	if e := g.ended(); e.Terminal != (wire.Completed{}) {
		t.Fatalf("%+v", e)
	}
	tooLate()
	if said := g.print(); !strings.Contains(said, "Answer: blue") || !strings.Contains(said, "Answer: because") || strings.Contains(said, "Answer: red") {
		t.Errorf("%s", said)
	}
	// Where nobody is there it is said so at once.
	if _, err := g.Client.Prompt(t.Context(), g.slot.ID(), wire.Prompt{Input: wire.Input{Text: "part:boss more"}, ApproverPosture: new(words.ApproverAbsent)}); err != nil {
		t.Fatal(err)
	}
	if at := gate(t, g.ended()); *at.DeniedBy != words.DeniedByNobody {
		t.Errorf("%+v", at)
	}
	// What is no question is told to the model, and asks nobody.
	g.prompt("part:boss again")
	if e := g.ended(); e.Terminal != (wire.Completed{}) || !strings.Contains(g.print(), "invalid arguments") {
		t.Errorf("%+v", e)
	}
}

// TestAPlanIsReviewed: what a person saw is what is accepted, and what is accepted leaves
// the mode plan.
func TestAPlanIsReviewed(t *testing.T) {
	hands := `call exit_plan {"plan":"1. touch made"}`
	g := newGated(t, nil, touches, hands, hands, touches, "text done", hands, "text enough")
	g.restart() // into another mode
	if _, err := g.Client.Prompt(t.Context(), g.slot.ID(), wire.Prompt{
		Input: wire.Input{Text: "part:boss go"}, PermissionMode: new(words.ModePlan), ApproverPosture: new(words.ApproverResident),
	}); err != nil {
		t.Fatal(err)
	}
	plan := func() wire.PlanRequest {
		t.Helper()
		p, ok := g.asked()[0].(wire.PlanRequest)
		if !ok || p.Plan != "1. touch made" {
			t.Fatalf("%+v", p)
		}
		return p
	}
	first := plan()
	answer := wire.DecidePlan{ID: first.ID, Binding: first.Binding, Seq: first.Seq, Verdict: words.PlanReject, Message: new("think again")}
	if _, err := g.DecidePlan(t.Context(), g.slot.ID(), answer); err != nil {
		t.Fatal(err)
	}
	settled := until[wire.PlanSettled](g, nil)
	if settled.Verdict == nil || *settled.Verdict != words.PlanReject || settled.Decider == nil {
		t.Errorf("%+v", settled)
	}
	second := plan()
	answer = wire.DecidePlan{ID: second.ID, Binding: first.Binding, Seq: second.Seq, Verdict: words.PlanEdit, Plan: new("1. touch made\n2. rest")}
	if _, err := g.DecidePlan(t.Context(), g.slot.ID(), answer); err == nil {
		t.Error("an answer to the plan before was taken")
	}
	answer.Binding = second.Binding
	if _, err := g.DecidePlan(t.Context(), g.slot.ID(), answer); err != nil {
		t.Fatal(err)
	}
	// The mode is default now: the same call that was refused is asked about.
	g.decide(allow(g.approval()), words.ApprovedOnce)
	e := g.ended()
	var settlements []words.Settlement
	for _, at := range e.Gates {
		if at.Settlement != nil {
			settlements = append(settlements, *at.Settlement)
		}
	}
	if !slices.Equal(settlements, []words.Settlement{words.Rejected, words.ApprovedEdited, words.ApprovedOnce}) || *e.Gates[0].DeniedBy != words.DeniedByMode || !g.there("made") {
		t.Errorf("%+v", e)
	}
	if said := g.print(); !strings.Contains(said, "2. rest") || !strings.Contains(said, "think again") {
		t.Errorf("%s", said)
	}
	if with, ok := g.slot.With(); !ok || with.Mode != policy.Default {
		t.Errorf("the mode is %v", with.Mode)
	}
	g.prompt("part:boss more") // and a plan has no place any more
	if at := gate(t, g.ended()); *at.DeniedBy != words.DeniedByMode {
		t.Errorf("%+v", at)
	}
}

// TestADeniedReadNamesWhatWouldHaveToBeGranted, and nothing is granted by naming it.
func TestADeniedReadNamesWhatWouldHaveToBeGranted(t *testing.T) {
	beside := t.TempDir()
	for _, name := range []string{"note", "other"} {
		if err := os.WriteFile(filepath.Join(beside, name), []byte("secret of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g := newGated(t, nil, fmt.Sprintf(`call read {"path":%q}`, filepath.Join(beside, "note")), `call read {"path":"link/other"}`, fmt.Sprintf(`call ls {"path":%q}`, beside), "text done")
	if err := os.Symlink(beside, filepath.Join(g.cwd, "link")); err != nil {
		t.Fatal(err)
	}
	g.prompt("part:boss go")
	e := g.ended()
	if len(e.Gates) != 3 {
		t.Fatalf("%+v\n%s", e, g.print())
	}
	for _, at := range e.Gates {
		if at.Disposition != words.GateDenied || *at.DeniedBy != words.DeniedByReadBoundary || at.Settlement != nil {
			t.Errorf("%+v", at)
		}
	}
	if said := g.print(); strings.Count(said, "The directory `"+beside+"` would have to be granted") != 3 || strings.Contains(said, "secret of") {
		t.Errorf("%s", said)
	}
	rows, err := g.Grants(t.Context(), g.slot.ID())
	if err != nil || len(rows.Grants) != 0 {
		t.Errorf("%+v, %v", rows, err)
	}
}

// TestARuleIsOfferedThatAnswersTheNextTime, and nothing is offered where none would.
func TestARuleIsOfferedThatAnswersTheNextTime(t *testing.T) {
	g := newGated(t, nil, `call bash {"command":"touch made"}`, "text one", `call bash {"command":"touch made"}`, "text two", `call bash {"command":"touch a > b"}`, "text three")
	g.prompt("part:boss 1")
	r := g.approval()
	if len(r.RuleOffers) != 1 || r.RuleOffers[0].Rule != "bash(touch made)" || r.RuleOffersAbsence != nil {
		t.Fatalf("%+v", r)
	}
	q := allow(r)
	q.Rule = &wire.RuleChoice{Rule: r.RuleOffers[0].Rule, Behavior: r.RuleOffers[0].Behavior, Destination: words.RuleForLocal}
	g.decide(q, words.ApprovedOnce)
	g.ended()
	g.restart()
	g.prompt("part:boss 2")
	if e := g.ended(); e.Terminal != (wire.Completed{}) || len(e.Gates) != 0 {
		t.Errorf("%+v", e)
	}
	g.prompt("part:boss 3")
	r = g.approval()
	if len(r.RuleOffers) != 0 || r.RuleOffersAbsence == nil || *r.RuleOffersAbsence != words.NoRuleForTool {
		t.Fatalf("%+v", r)
	}
	q = allow(r)
	q.Rule = &wire.RuleChoice{Rule: "bush", Behavior: words.RuleAllow, Destination: words.RuleForLocal}
	got, err := g.Decide(t.Context(), g.slot.ID(), q)
	if err != nil || len(got.RuleIssues) != 1 || got.RuleIssues[0].Code != words.RuleUnknownTool {
		t.Errorf("%+v, %v", got, err)
	}
	g.ended() // what was decided stands
	if !g.there("b") {
		t.Error("what was allowed did not run")
	}
}

// TestWhatChangedAfterTheQuestionNeverRuns: a consent clears the arguments that it is about, and no others.
func TestWhatChangedAfterTheQuestionNeverRuns(t *testing.T) {
	g := newGated(t, nil, touches, "text done")
	g.prompt("part:boss go")
	g.approval()
	open, err := (&served{slot: g.slot}).Source().Waiting()
	if err != nil || len(open) != 1 {
		t.Fatal(open, err)
	}
	r := g.slot.resident()
	box := &toolbox{broker: r.broker, tools: r.tools, session: &r.session.View, attended: func() bool { return true }}
	consent := machine.Decided{Pause: open[0].Pause, Decision: machine.Approve{}}
	clear := func(arguments string, c machine.Decided) engine.Verdict {
		v, err := jsonv.Parse([]byte(arguments))
		if err != nil {
			t.Fatal(err)
		}
		op, _, err := g.slot.current(session.MainStrand)
		if err != nil {
			t.Fatal(err)
		}
		return box.Clear(engine.Call{
			Strand: session.MainStrand, Op: op, Step: "another", Call: open[0].Call, Arguments: v, Offered: []string{"bash"}, Consent: &c,
		})
	}
	other := consent
	other.Decision = machine.Deny{}
	foreign := consent
	foreign.Pause.Subject = jsonv.Str("of another build")
	for name, v := range map[string]engine.Verdict{
		"other arguments":      clear(`{"command":"touch other"}`, consent),
		"one more":             clear(`{"command":"touch made && echo $$ >> runs","timeout_ms":1}`, consent),
		"a refusal as consent": clear(open[0].Call.Arguments.String(), other),
		"a subject of others":  clear(open[0].Call.Arguments.String(), foreign),
	} {
		denied, ok := v.(engine.Denied)
		if !ok || !strings.Contains(message.TextOf(denied.Result.Content), "not those that were approved") {
			t.Errorf("%s: %+v", name, v)
		}
	}
	granted, ok := clear(open[0].Call.Arguments.String(), consent).(engine.Granted)
	if !ok {
		t.Fatal("the very call is not cleared")
	}
	granted.Clearance.Release()
}

// TestAnObserverSeesAndDecidesNothing: what waits is shown to them, and waits on.
func TestAnObserverSeesAndDecidesNothing(t *testing.T) {
	g := newGated(t, nil, touches, "text done")
	g.prompt("part:boss go")
	r := g.approval()
	in := memlisten.New()
	go func() { _ = g.server.Observe(in) }()
	observer := wireclient.New(&http.Transport{DialContext: in.DialContext, DisableKeepAlives: true}, "http://loom")
	rows, err := observer.Pending(t.Context(), g.slot.ID())
	if err != nil || len(rows.Rows) != 1 || wire.PendingID(rows.Rows[0]) != r.ID {
		t.Fatalf("%+v, %v", rows, err)
	}
	forbidden := func(err error) {
		t.Helper()
		if refused, ok := errors.AsType[*wireclient.Refused](err); !ok || refused.Code != wire.Forbidden {
			t.Errorf("%v", err)
		}
	}
	_, err = observer.Decide(t.Context(), g.slot.ID(), allow(r))
	forbidden(err)
	_, err = observer.Decide(t.Context(), g.slot.ID(), refuse(r))
	forbidden(err)
	_, err = observer.Abort(t.Context(), g.slot.ID(), wire.Abort{})
	forbidden(err)
	if rows := g.pending(); len(rows) != 1 || g.there("made") {
		t.Errorf("%+v", rows)
	}
	g.decide(allow(r), words.ApprovedOnce)
	g.ended()
}

// TestAnAskerThatVanishesLeavesTheQuestion: nobody is attached any more, and it waits for
// whoever comes.
func TestAnAskerThatVanishesLeavesTheQuestion(t *testing.T) {
	g := newGated(t, nil, touches, "text done")
	ctx, vanish := context.WithCancel(t.Context())
	asker := *g
	stream, err := asker.Attach(ctx, g.slot.ID(), wire.FromHead())
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for _, err := range stream.Frames(ctx) {
			if err != nil {
				return
			}
		}
	}()
	g.prompt("part:boss go")
	r := g.approval()
	vanish()
	<-gone
	g.restart()
	if rows := g.pending(); len(rows) != 1 || wire.PendingID(rows[0]) != r.ID {
		t.Fatalf("%+v", rows)
	}
	g.resume()
	g.asked()
	g.decide(allow(r), words.ApprovedOnce)
	if e := g.ended(); e.Terminal != (wire.Completed{}) || !g.there("made") {
		t.Errorf("%+v", e)
	}
}

// TestTwoProcessesDecideAboutOneQuestion: a paused run holds nobody up, so another process
// can decide; the one that was there first learns that it was too late.
func TestTwoProcessesDecideAboutOneQuestion(t *testing.T) {
	ahead := int64(0)
	var mu sync.Mutex
	g := newGated(t, func(c *Config) {
		now := c.Now
		c.Now = func() int64 {
			mu.Lock()
			defer mu.Unlock()
			return now() + ahead
		}
	}, touches, "text done")
	g.prompt("part:boss go")
	r := g.approval()
	mu.Lock()
	ahead = 3_600_000 // a lease that nobody renews is over
	mu.Unlock()
	other := New(g.node.cfg)
	slot, err := other.Slot(g.slot.ID())
	if err != nil {
		t.Fatal(err)
	}
	there := server.New(other.Host())
	in := memlisten.New()
	go func() { _ = there.Serve(in) }()
	second := wireclient.New(&http.Transport{DialContext: in.DialContext, DisableKeepAlives: true}, "http://loom")
	if _, err := second.Decide(t.Context(), slot.ID(), refuse(r)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(there.Close(time.Second), other.Close()); err != nil {
		t.Error(err)
	}
	g.refused(allow(r), wire.AlreadySettled)
	g.restart()
	g.resume()
	if at := gate(t, g.ended()); *at.Settlement != words.Rejected || g.there("made") {
		t.Errorf("%+v", at)
	}
}
