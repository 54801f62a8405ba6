package broker_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/loom-run/loom/broker"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/policy"
)

func ruled(t *testing.T, dir string, b words.RuleBehavior, text string) policy.Rule {
	t.Helper()
	r, issue := policy.Compile(text, b, words.RuleForSession, policy.Base{Workspace: dir}, func(tool string) (policy.Subject, bool) {
		return map[string]policy.Subject{"bash": policy.Commands, "write": policy.Paths}[tool], true
	})
	if issue != nil {
		t.Fatal(issue)
	}
	return r
}

// A path counts as it is named and where it leads, also when what it leads to is not
// there yet.
func TestALinkDoesNotLeadAroundARule(t *testing.T) {
	real := t.TempDir()
	for _, dir := range []string{"open", "closed"} {
		if err := os.Mkdir(filepath.Join(real, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"open/over": "../closed", "open/file": "../closed/not-there", "open/in": "."} {
		if err := os.Symlink(to, filepath.Join(real, link)); err != nil {
			t.Fatal(err)
		}
	}
	linked := filepath.Join(t.TempDir(), "w")
	if err := os.Symlink(real, linked); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{real, linked} {
		b, err := broker.New(broker.Config{Mode: policy.Default, Workspace: dir, Rules: policy.RulesOf(
			ruled(t, dir, words.RuleAllow, "write(open/**)"), ruled(t, dir, words.RuleDeny, "write(closed/**)"))})
		if err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]policy.Behavior{
			"open/a": policy.Allow, "open/in/a": policy.Allow, "open/new/a": policy.Allow, filepath.Join(dir, "open/a"): policy.Allow,
			"open/over/a": policy.Deny, "open/file": policy.Deny, "closed/a": policy.Deny, "open/../closed/a": policy.Deny,
			"other": policy.Ask,
		} {
			d, _ := b.Judge(broker.Call{Tool: "write", Class: policy.Write, Subject: policy.Paths, Arguments: jsonv.Obj(jsonv.F("path", jsonv.Str(path)))})
			if d.Behavior() != want {
				t.Errorf("%s in %s: %v, want %v (%s)", path, dir, d.Behavior(), want, d.Sentence())
			}
		}
		d, _ := b.Judge(broker.Call{Tool: "write", Class: policy.Write, Subject: policy.Paths, Arguments: jsonv.Obj(jsonv.F("path", jsonv.Num(1)))})
		if d.Allowed() {
			t.Error("a path that is no text is covered by a rule")
		}
	}
}

// What a person approved runs once cleared for these arguments, and their word undoes
// no refusal: the rule may have been written since, or be one that their own arguments
// run into.
func TestAnApprovalIsForItsArgumentsAndNotAgainstARule(t *testing.T) {
	dir := t.TempDir()
	b, err := broker.New(broker.Config{Mode: policy.Default, Workspace: dir})
	if err != nil {
		t.Fatal(err)
	}
	c := call(ops(1)[0], 0)
	c.Subject = policy.Commands
	_, err = b.Clear(c)
	if q, ok := errors.AsType[*broker.Question](err); !ok || q.Decision.Origin() != words.AskedByMode {
		t.Fatalf("the question is %v", err)
	}
	approval := broker.Approval{Arguments: broker.Digest(c.Arguments)}
	other := c
	other.Arguments = jsonv.Obj(jsonv.F("command", jsonv.Str("rm x")))
	if _, err := b.ClearApproved(other, approval); !errors.Is(err, broker.ErrUnapproved) {
		t.Errorf("other arguments: %v", err)
	}
	p, err := b.ClearApproved(c, approval)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Settle(p); err != nil {
		t.Fatal(err)
	}
	b.Rule(func(r policy.Rules) policy.Rules { return r.With(ruled(t, dir, words.RuleDeny, "bash(rm *)")) })
	_, err = b.ClearApproved(other, broker.Approval{Arguments: broker.Digest(other.Arguments)})
	if r, ok := errors.AsType[*broker.Refusal](err); !ok || r.By != words.DeniedByRule {
		t.Errorf("an approved call against a rule: %v", err)
	}
}
