package machine_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/machine"
)

// TestARecordSaysHowAQuestionWasSettled: in words of the closed sets, of its own gate, and by whom.
func TestARecordSaysHowAQuestionWasSettled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := machine.Decided{
			Pause: genPause().Draw(t, "pause"), Decision: genDecision().Draw(t, "decision"),
			At: count().Draw(t, "at"), By: maybe(coretest.Origin()).Draw(t, "by"),
		}
		record := d.Record()
		if machine.GateIn(record) != d.Pause.Gate {
			t.Fatalf("%s is of another gate than %q", record, d.Pause.Gate)
		}
		text := func(name string) string {
			v, _ := record.Get(name)
			s, _ := v.Text()
			return s
		}
		settled := machine.Settles(d.Decision)
		if _, replied := d.Decision.(machine.Reply); replied {
			if settled != "" || text("disposition") != "" {
				t.Fatalf("a reply is recorded as %s", record)
			}
		} else if !words.Settlements.Has(settled) || text("settlement") != string(settled) || !words.Dispositions.Has(words.Disposition(text("disposition"))) {
			t.Fatalf("%T is recorded as %s", d.Decision, record)
		}
		if _, denied := d.Decision.(machine.Deny); denied != (text("deniedBy") == string(words.DeniedByPerson)) {
			t.Fatalf("%T is recorded as %s", d.Decision, record)
		}
		if _, by := record.Get("decider"); by != (d.By != nil) {
			t.Fatalf("by %v is recorded as %s", d.By, record)
		}
	})
}

// heldBy is a run that waits for a person about one call.
func heldBy(subject jsonv.Value) (machine.State, machine.Pause) {
	p := machine.Pause{Gate: entryID(30).String(), Reason: words.PausedOnApproval, Subject: subject, AskedAt: 1}
	return run(machine.RunningTools{Batch: machine.Batch{
		AssistantID: entryID(7), Configuration: config, TurnID: "t", Calls: []machine.Call{{ResultID: entryID(20), Status: machine.Held{Pause: p}}},
	}}), p
}

// TestAnAllowanceIsKeptOnlyAsItWasOffered: under the digest that was offered, for what was asked about, and with the answer.
func TestAnAllowanceIsKeptOnlyAsItWasOffered(t *testing.T) {
	op := machine.Operation{ID: opID(1), Strand: "main"}
	offered := jsonv.Obj(jsonv.F("tool", jsonv.Str("bash")), jsonv.F("about", jsonv.Str("bash ls")), jsonv.F("grants", jsonv.Obj(jsonv.F("exact_action", jsonv.Str("d1")))))
	for name, c := range map[string]struct {
		subject jsonv.Value
		d       machine.Approve
		want    string
	}{
		"once":                {offered, machine.Approve{Lifetime: words.GrantOnce}, ""},
		"not said":            {offered, machine.Approve{}, ""},
		"as offered":          {offered, machine.Approve{Lifetime: words.GrantExact}, "grant/exact_action/d1"},
		"another lifetime":    {offered, machine.Approve{Lifetime: words.GrantSession}, "refused"},
		"with another input":  {offered, machine.Approve{Lifetime: words.GrantExact, Arguments: new(jsonv.Obj())}, "refused"},
		"nothing offered":     {jsonv.Obj(), machine.Approve{Lifetime: words.GrantExact}, "refused"},
		"a subject of others": {jsonv.Str("x"), machine.Approve{Lifetime: words.GrantSession}, "refused"},
	} {
		st, p := heldBy(c.subject)
		plan, err := machine.Answer(op, st, 1, 2, p.Gate, c.d, nil)
		if c.want == "refused" {
			if !errors.Is(err, machine.ErrLifetime) || len(plan.Writes) != 0 {
				t.Errorf("%s: %v, %v", name, plan, err)
			}
			continue
		}
		key := ""
		for _, w := range plan.Writes {
			if set, ok := w.(tx.SetRegister); ok && set.NS == register.FactCustom {
				key = set.Key
				if g, err := machine.DecodeGrant(set.Value); err != nil || g.Tool != "bash" || g.About != "bash ls" || g.Gate != p.Gate || g.At != 2 {
					t.Errorf("%s: %+v, %v", name, g, err)
				}
			}
		}
		next, ok := machine.StateIn(plan, op.ID)
		closed, changed := machine.Gates(st, next, 2)
		if err != nil || key != c.want || !ok || !changed || len(closed) != 1 || closed[0].Settlement != machine.Settles(c.d) {
			t.Errorf("%s: %q, %+v, %v", name, key, closed, err)
		}
	}
}

// TestWhatEndsAQuestionIsTold: an abort, an expiry, and a refusal that stops the run, each as itself.
func TestWhatEndsAQuestionIsTold(t *testing.T) {
	op := machine.Operation{ID: opID(1), Strand: "main"}
	st, p := heldBy(jsonv.Obj())
	abort, _ := machine.RequestAbort(op, st, 1, 5)
	after, _ := machine.StateIn(abort, op.ID)
	if closed, _ := machine.Gates(st, after, 5); len(closed) != 1 || closed[0].Settlement != words.SettledAborted || closed[0].Decision != nil {
		t.Errorf("%+v", closed)
	}
	if len(machine.Waiting(after)) != 0 {
		t.Error("an aborted run still asks")
	}
	stop, err := machine.Answer(op, st, 1, 5, p.Gate, machine.Deny{Stop: true}, &ann)
	stopped, _ := machine.StateIn(stop, op.ID)
	if _, cancelled := stopped.Control.(machine.CancelRequested); err != nil || !cancelled {
		t.Errorf("%+v, %v", stopped.Control, err)
	}
	closed, _ := machine.Gates(st, stopped, 5)
	record, ok := machine.SettledGate(stopped, p.Gate)
	if len(closed) != 1 || closed[0].Settlement != words.RejectedStop || !ok || !strings.Contains(record.String(), string(words.RejectedStop)) {
		t.Errorf("%+v, %s", closed, record)
	}
	if closed, changed := machine.Gates(st, st, 5); changed || len(closed) > 0 {
		t.Errorf("nothing changed, and %+v", closed)
	}
	if _, ok := machine.SettledGate(st, p.Gate); ok {
		t.Error("an open question has a record")
	}
}

// FuzzDecodeGrant: a register of another build is a report and never half an allowance.
func FuzzDecodeGrant(f *testing.F) {
	f.Add(machine.Grant{Lifetime: words.GrantSession, Tool: "bash", About: "bash ls", Gate: "g", At: 7, By: new(ann)}.Value().String())
	f.Add(`{"lifetime":"ever"}`)
	f.Fuzz(func(t *testing.T, text string) {
		v, err := jsonv.Parse([]byte(text))
		if err != nil {
			return
		}
		g, err := machine.DecodeGrant(v)
		if err != nil {
			return
		}
		again, err := machine.DecodeGrant(g.Value())
		if err != nil || again.Lifetime != g.Lifetime || again.Tool != g.Tool || again.Gate != g.Gate || again.At != g.At || (again.By == nil) != (g.By == nil) {
			t.Fatalf("%s became %s: %v", v, g.Value(), err)
		}
	})
}
