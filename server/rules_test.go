package server

import (
	"errors"
	"testing"

	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/wireclient"
)

func TestRulesAreWrittenRemovedAndListed(t *testing.T) {
	f := newFakeSession(t, 1)
	_, rt := serve(t, hostOf(f))
	c := wireclient.New(rt, "http://loom")
	choice := wire.RuleChoice{Rule: "bash(ls)", Behavior: words.RuleAllow, Destination: words.RuleForUser}
	got, err := c.WriteRule(t.Context(), f.self, wire.WriteRule{RuleChoice: choice})
	if err != nil || got.StillLive != words.RuleLive || got.Rule.Rule != "bash(ls)" || got.Rule.Writable == nil || !*got.Rule.Writable || got.Rule.InEffect != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = c.RemoveRule(t.Context(), f.self, wire.RemoveRule{RuleChoice: choice}); err != nil || got.StillLive != words.RuleNotLive {
		t.Errorf("%+v, %v", got, err)
	}
	list, err := c.Rules(t.Context(), f.self)
	rows, ok := list.Rules.Get()
	if err != nil || !ok || len(rows) != 2 || rows[0].InEffect == nil || !*rows[0].InEffect || *rows[1].Writable || rows[1].InEffect != nil {
		t.Errorf("%+v, %v", list, err)
	}
	choice.Rule = "Bash"
	_, err = c.WriteRule(t.Context(), f.self, wire.WriteRule{RuleChoice: choice})
	r, ok := errors.AsType[*wireclient.Refused](err)
	if !ok || r.Code != wire.RuleRefused || len(r.Issues) != 1 || r.Issues[0].Code != words.RuleUnknownTool || *r.Issues[0].Rule != "Bash" {
		t.Errorf("%+v, %v", r, err)
	}
	caps, err := c.Capabilities(t.Context())
	if face, ok := caps.Rules.Get(); err != nil || !ok || len(face.Destinations) != 1 {
		t.Errorf("%v, %v", caps.Rules, err)
	}
}
