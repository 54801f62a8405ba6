package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/loom-run/loom/config"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/policy"
	"github.com/loom-run/loom/server"
)

func ruledPlay(t *testing.T, script string) *play {
	p := &play{t: t, home: Home{filepath.Join(t.TempDir(), "home")}, cwd: t.TempDir(), mode: policy.DontAsk, cast: castOf(txtar.Parse([]byte(script)))}
	p.config = func(c *Config) { c.PermissionsFile = filepath.Join(filepath.Dir(p.home.dir), "loom.toml") }
	p.open()
	t.Cleanup(func() {
		if err := p.node.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func rule(place words.RuleDestination, b words.RuleBehavior, text string) RuleChange {
	return RuleChange{Rule: text, Behavior: b, Place: place}
}

func removed(c RuleChange) RuleChange {
	c.Remove = true
	return c
}

// A rule that is written is in force at the next call of a session that is open, and is
// not any more when it was removed. Whoever wrote it is told how it stands.
func TestARuleHoldsFromTheNextCallOn(t *testing.T) {
	var script strings.Builder
	script.WriteString("-- part boss --\n")
	for n := range 6 {
		if n > 0 {
			script.WriteString("==\n")
		}
		fmt.Fprintf(&script, "call bash {\"command\":\"touch t%d\"}\n==\ntext done\n", n)
	}
	p := ruledPlay(t, script.String())
	turn := 0
	runs := func(want bool) {
		t.Helper()
		p.do("prompt part:boss go")
		p.awaitEnd()
		if _, err := os.Stat(filepath.Join(p.cwd, fmt.Sprintf("t%d", turn))); (err == nil) != want {
			t.Errorf("call %d ran: %v\n%s", turn, err == nil, p.print())
		}
		turn++
	}
	change := func(c RuleChange, want words.RuleLiveness) {
		t.Helper()
		if got, err := p.slot.ChangeRule(c); err != nil || got.Live != want || got.Row.InEffect == nil || *got.Row.InEffect != (want == words.RuleLive) {
			t.Fatalf("%+v: %+v, %v", c, got, err)
		}
	}
	allow := rule(words.RuleForSession, words.RuleAllow, "bash(touch *)")
	own := rule(words.RuleForLocal, words.RuleAllow, "bash(touch *)")
	runs(false)
	change(allow, words.RuleLive)
	runs(true)
	change(own, words.RuleLive)
	change(removed(allow), words.RuleLive) // the other one still says so
	runs(true)
	change(rule(words.RuleForProject, words.RuleDeny, "bash(touch *)"), words.RuleLive)
	runs(false)
	change(removed(rule(words.RuleForProject, words.RuleDeny, "bash(touch *)")), words.RuleNotLive)
	runs(true)
	change(removed(own), words.RuleNotLive)
	runs(false)
}

func TestWhatRulesThereAreIsListedWithWhereTheyStand(t *testing.T) {
	p := ruledPlay(t, "-- part boss --\ntext hi\n")
	for _, c := range []RuleChange{
		rule(words.RuleForUser, words.RuleAllow, "read"), rule(words.RuleForProject, words.RuleDeny, "bash(rm *)"),
		rule(words.RuleForLocal, words.RuleAsk, "write(src/**)"), rule(words.RuleForSession, words.RuleAllow, "ls"),
	} {
		if _, err := p.slot.ChangeRule(c); err != nil {
			t.Fatal(err)
		}
	}
	want := "deny bash(rm *) project true; ask write(src/**) local true; allow read user true; allow ls session true; "
	if got := p.rules(t); got != want {
		t.Errorf("%s", got)
	}
	// The next process has those of files, and not that of the session.
	if err := p.node.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(p.node.cfg.PermissionsFile)
	if err != nil {
		t.Fatal(err)
	}
	file, err := config.Decode(text, func(string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	was := p.config
	p.config = func(c *Config) { was(c); c.Permissions = file.Permissions }
	p.open()
	if got, want := p.rules(t), strings.ReplaceAll(strings.ReplaceAll(want, "allow ls session true; ", ""), " true", " unknown"); got != want {
		t.Errorf("%s", got)
	}
	if _, err := p.slot.open(Opening{}); err != nil {
		t.Fatal(err)
	}
	if got := p.rules(t); !strings.HasPrefix(got, "deny bash(rm *) project true") {
		t.Errorf("%s", got)
	}
}

func (p *play) rules(t *testing.T) (all string) {
	t.Helper()
	rows, err := p.slot.Rules()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		in := "unknown"
		if r.InEffect != nil {
			in = fmt.Sprint(*r.InEffect)
		}
		all += fmt.Sprintf("%s %s %s %s; ", r.Behavior, r.Rule, r.Place, in)
	}
	return all
}

func TestASessionThatAnotherProcessRunsIsNotKnownToHaveARule(t *testing.T) {
	p := ruledPlay(t, "-- part boss --\nonce hang\ntext done\n")
	p.do("prompt part:boss go")
	p.do("await hang")
	other := New(Config{Home: p.home, Models: p.cast, Now: func() int64 { return time.Now().UnixMilli() }, Retry: DefaultRetry()})
	defer other.Close()
	slot, err := other.Slot(p.slot.ID())
	if err != nil {
		t.Fatal(err)
	}
	got, err := slot.ChangeRule(rule(words.RuleForLocal, words.RuleDeny, "bash"))
	if err != nil || got.Live != words.RuleLivenessOpen || got.Row.InEffect != nil {
		t.Errorf("%+v, %v", got, err)
	}
	// Nobody runs one that is idle.
	if _, _, err := p.slot.Abort("main"); err != nil {
		t.Fatal(err)
	}
	p.awaitEnd()
	if got, err := slot.ChangeRule(removed(rule(words.RuleForLocal, words.RuleDeny, "bash"))); err != nil || got.Live != words.RuleNotLive {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestARuleThatCannotBeTakenIsRefusedWithItsCodeAndNothingIsTouched(t *testing.T) {
	p := ruledPlay(t, "-- part boss --\ntext hi\n")
	odd := filepath.Join(p.cwd, config.ProjectFile)
	if err := os.MkdirAll(filepath.Dir(odd), 0o700); err != nil {
		t.Fatal(err)
	}
	const text = "# mine\nforbid = [\"bash\"]\n"
	if err := os.WriteFile(odd, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change RuleChange
		want   words.RuleIssue
	}{
		{rule(words.RuleForUser, words.RuleAllow, " "), words.RuleEmpty},
		{rule(words.RuleForUser, words.RuleAllow, "bash(ls"), words.RuleUnbalanced},
		{rule(words.RuleForUser, words.RuleAllow, "Bash"), words.RuleUnknownTool},
		{rule(words.RuleForUser, words.RuleAllow, "bash()"), words.RuleEmptyPattern},
		{rule(words.RuleForUser, words.RuleAllow, "bash(ls; rm x)"), words.RuleBadCommand},
		{rule(words.RuleForUser, words.RuleAllow, "write(../x)"), words.RuleBadPattern},
		{rule(words.RuleForUser, words.RuleAllow, "write(~/x)"), words.RuleBadBase},
		{rule(words.RuleForUser, words.RuleAllow, "agent_wait(x)"), words.RuleNoPattern},
		{rule(words.RuleForUser, "forbid", "bash"), words.RuleUnknownBehavior},
		{rule("somewhere", words.RuleDeny, "bash"), words.RuleUnknownPlace},
		{rule(words.RuleForCommand, words.RuleDeny, "bash"), words.RulePlaceReadOnly},
		{rule(words.RuleForProject, words.RuleAllow, "bash"), words.RuleNotBehavior},
		{rule(words.RuleForProject, words.RuleDeny, "bash"), words.RulePlaceReadOnly}, // its key is not known
	} {
		_, err := p.slot.ChangeRule(c.change)
		if r, ok := errors.AsType[*server.RuleRefused](err); !ok || len(r.Issues) != 1 || r.Issues[0].Code != c.want {
			t.Errorf("%+v: %v, want %s", c.change, err, c.want)
		}
	}
	if got := p.file(config.ProjectFile); got != text {
		t.Errorf("it is %q now", got)
	}
	if _, err := os.Stat(p.node.cfg.PermissionsFile); err == nil {
		t.Error("a file was made")
	}
	if err := os.Remove(odd); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "rules.toml")
	if err := os.Symlink(outside, odd); err != nil {
		t.Fatal(err)
	}
	_, err := p.slot.ChangeRule(rule(words.RuleForProject, words.RuleDeny, "bash"))
	if r, ok := errors.AsType[*server.RuleRefused](err); !ok || r.Issues[0].Code != words.RulePlaceReadOnly || !strings.Contains(r.Issues[0].Prose, "link") {
		t.Errorf("through a link: %v", err)
	}
	if _, err := os.Stat(outside); err == nil {
		t.Error("something was written outside of the workspace")
	}
	if _, err := New(p.node.cfg).ChangeRule(p.cwd, rule(words.RuleForSession, words.RuleDeny, "bash")); err == nil {
		t.Error("a rule is kept for a session that nobody named")
	}
}

// Of many who write the same file at once none undoes another, and a comment stays.
func TestNoRuleIsLostToAnother(t *testing.T) {
	p := ruledPlay(t, "-- part boss --\ntext hi\n")
	if err := os.WriteFile(p.node.cfg.PermissionsFile, []byte("# first\n[permissions] # rules\ndeny = [\n]\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	const writers, each = 4, 6
	for w := range writers {
		n := New(p.node.cfg) // as another process would
		wg.Go(func() {
			for i := range each {
				if _, err := n.ChangeRule(p.cwd, rule(words.RuleForUser, words.RuleDeny, fmt.Sprintf("bash(w%d n%d)", w, i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	text, err := os.ReadFile(p.node.cfg.PermissionsFile)
	if err != nil {
		t.Fatal(err)
	}
	f, err := config.Decode(text, func(string) bool { return false })
	if err != nil || len(f.Permissions.Deny) != writers*each || !strings.HasPrefix(string(text), "# first\n[permissions] # rules\n") {
		t.Errorf("%v:\n%s", err, text)
	}
	if st, err := os.Stat(p.node.cfg.PermissionsFile); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if files, err := os.ReadDir(filepath.Dir(p.node.cfg.PermissionsFile)); err != nil || len(files) != 2 {
		t.Errorf("%v, %v", files, err)
	}
}
