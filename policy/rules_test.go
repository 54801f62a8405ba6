package policy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/internal/cases"
	"github.com/loom-run/loom/policy"
	"pgregory.net/rapid"
)

var at = policy.Base{Workspace: "/w", Home: "/people/p"}

func subjects(tool string) (policy.Subject, bool) {
	s, ok := map[string]policy.Subject{"bash": policy.Commands, "read": policy.Paths, "write": policy.Paths, "todo": policy.NoSubject}[tool]
	return s, ok
}

func compiled(t interface{ Fatalf(string, ...any) }, b words.RuleBehavior, texts ...string) []policy.Rule {
	var list []policy.Rule
	for _, text := range texts {
		r, issue := policy.Compile(text, b, words.RuleForUser, at, subjects)
		if issue != nil {
			t.Fatalf("%s: %s", text, issue.Sentence)
		}
		list = append(list, r)
	}
	return list
}

func command(text string) policy.Action {
	return policy.Action{Tool: "bash", Class: policy.Exec, Subject: policy.Commands, Command: text}
}

func behaviorWord(b policy.Behavior) string {
	return map[policy.Behavior]string{policy.Allow: "allow", policy.Ask: "ask", policy.Deny: "deny"}[b]
}

// A rule speaks of each command of a line, wherever it stands in it, and of what these
// commands start.
func TestCommandsAreReadAsAShellReadsThem(t *testing.T) {
	rules := policy.RulesOf(append(compiled(t, words.RuleAllow, "bash(git log *)", "bash(cd *)", "bash(echo *)", "bash(cat *)", "bash(sh -c *)"),
		compiled(t, words.RuleDeny, "bash(rm *)", "bash(git push * --force)")...)...)
	for text, want := range map[string]string{
		"git log -3":                       "allow",
		"git log 'a; rm b'":                "allow",
		"cd sub && git log | cat":          "allow",
		"git logger":                       "ask",
		"./git log":                        "ask",
		"git log; touch x":                 "ask",
		"git log $(touch x)":               "ask",
		"git log `rm x`":                   "deny",
		"git log <(rm x)":                  "deny",
		"git log > out":                    "ask",
		"git log > /dev/null 2>&1":         "allow",
		"git log >& out":                   "ask",
		"GIT_PAGER=sh git log":             "ask",
		"git() { touch x; }; git log":      "ask",
		"git log $HOME":                    "allow",
		"$GIT log":                         "ask",
		"git log 'unfinished":              "ask",
		"/bin/rm x":                        "deny",
		`\rm x`:                            "deny",
		"'r'm x":                           "deny",
		"sudo -n rm x":                     "deny",
		"sudo -u root rm x":                "ask",
		"find . -exec rm {} +":             "ask",
		"echo x | xargs rm":                "deny",
		"sh -c 'echo a; rm x'":             "deny",
		"sh -c 'echo a'":                   "allow",
		`bash -c "$X"`:                     "ask",
		"env A=1 sh -c 'rm x'":             "deny",
		"eval rm x":                        "deny",
		`eval "$X"`:                        "ask",
		"curl x | sh":                      "ask",
		"bash <<'E'\nrm x\nE":              "deny",
		"bash <<< 'rm x'":                  "deny",
		"cat <<E\nrm x\nE":                 "allow",
		"cat <<E\n$(rm x)\nE":              "deny",
		"if git log; then rm x; fi":        "deny",
		"for f in *; do echo $f; done":     "allow",
		"git push origin main --force":     "deny",
		"git push origin main":             "ask",
		"bash -o pipefail -c 'rm x'":       "deny",
		"bash -co pipefail 'rm x'":         "ask",
		"bash build.sh":                    "ask",
		"trap 'rm x' EXIT":                 "deny",
		"r? x":                             "ask",
		"":                                 "ask",
		"[[ a -eq 'b[$(rm x)]' ]]":         "ask",
		strings.Repeat("git log;", 20_000): "ask",
		strings.Repeat("(", 30_000):        "ask",
		strings.Repeat("$(", 30_000):       "ask",
		strings.Repeat("(", 300) + "git log" + strings.Repeat(")", 300): "ask",
		"git log \x00":                         "ask",
		"sh -c \"sh -c 'sh -c \\\"rm x\\\"'\"": "deny",
	} {
		d := policy.Judge(policy.Default, rules, nil, command(text))
		if got := behaviorWord(d.Behavior()); got != want {
			t.Errorf("%.80q: %s, want %s (%s)", text, got, want, d.Sentence())
		}
		if d.Behavior() != policy.Allow && d.Sentence() == "" {
			t.Errorf("%.80q: it does not run, and nothing says why", text)
		}
	}
}

func TestCompoundCommandsDoNotRideOnAnAllowedPrefix(t *testing.T) {
	dir := filepath.Join(cases.Dir(t), "bugs", "19.input")
	var list []struct{ Command, Expect string }
	var given struct{ Allow, Deny []string }
	for name, into := range map[string]any{"commands.json": &list, "rules.json": &given} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Skipf("no recorded commands: %v", err)
		}
		if err := json.Unmarshal(data, into); err != nil {
			t.Fatal(err)
		}
	}
	rules := func(b words.RuleBehavior, prefixes []string) (out []policy.Rule) {
		for _, p := range prefixes {
			out = append(out, compiled(t, b, "bash("+p+" *)")...)
		}
		return out
	}
	set := policy.RulesOf(append(rules(words.RuleAllow, given.Allow), rules(words.RuleDeny, given.Deny)...)...)
	for _, c := range list {
		d := policy.Judge(policy.Default, set, nil, command(c.Command))
		if got := behaviorWord(d.Behavior()); !slices.Contains(strings.Fields(strings.ReplaceAll(c.Expect, ",", " ")), got) {
			t.Errorf("%q: %s, want %s", c.Command, got, c.Expect)
		}
	}
	if len(list) == 0 {
		t.Error("there are no commands")
	}
}

func TestPathsAreMatchedWhereTheyAreNamedAndWhereTheyLead(t *testing.T) {
	rules := policy.RulesOf(append(compiled(t, words.RuleAllow, "write(src/**)", "write(~/notes/*.md)", "write(/tmp/)"),
		compiled(t, words.RuleDeny, "write(**/secret/**)", "write(src/*.key)")...)...)
	for _, c := range []struct {
		want  string
		paths []string
	}{
		{"allow", []string{"/w/src/a/b.go"}},
		{"allow", []string{"/w/src/../src/a.go"}},
		{"ask", []string{"/w/srcs/a.go"}},
		{"ask", []string{"/w/a.go"}},
		{"allow", []string{"/people/p/notes/a.md"}},
		{"ask", []string{"/people/p/notes/x/a.md"}},
		{"allow", []string{"/tmp/a/b"}},
		{"deny", []string{"/w/src/a.key"}},
		{"deny", []string{"/w/src/secret/x"}},
		{"deny", []string{"/w/src/a.go", "/w/secret/a.go"}}, // a link that leads there
		{"ask", []string{"/w/src/a.go", "/etc/passwd"}},
		{"ask", nil},
	} {
		a := policy.Action{Tool: "write", Class: policy.Write, Subject: policy.Paths, Paths: c.paths}
		if got := behaviorWord(policy.Judge(policy.Default, rules, nil, a).Behavior()); got != c.want {
			t.Errorf("%q: %s, want %s", c.paths, got, c.want)
		}
	}
}

// What guards the person from the call is not the call's to change.
func TestTheHarnessOwnFilesAreAskedAboutEachTime(t *testing.T) {
	rules := policy.RulesOf(compiled(t, words.RuleAllow, "write", "write(**)")...)
	a := policy.Action{Tool: "write", Class: policy.Write, Subject: policy.Paths, Paths: []string{"/w/x", "/w/.loom/permissions.toml"}}
	for _, m := range policy.Modes() {
		d := policy.Judge(m, rules, policy.Guarded{"/w/.loom"}, a)
		switch {
		case d.Allowed():
			t.Errorf("%v allows it", m)
		case d.Behavior() == policy.Ask && (d.Mandate() != words.MandatedState || d.Origin() != words.AskedBySafety):
			t.Errorf("%v asks, and does not say on what the question stands", m)
		}
	}
}

func TestEachIssueHasItsCodeAndASentence(t *testing.T) {
	for _, c := range []struct {
		text, behavior, place string
		at                    policy.Base
		want                  words.RuleIssue
	}{
		{"", "allow", "user", at, words.RuleEmpty},
		{" \t", "allow", "user", at, words.RuleEmpty},
		{"bash(git log", "allow", "user", at, words.RuleUnbalanced},
		{"bash(git log) x", "allow", "user", at, words.RuleUnbalanced},
		{"bash)", "allow", "user", at, words.RuleUnbalanced},
		{"Bash(git log)", "allow", "user", at, words.RuleUnknownTool},
		{"(git log)", "allow", "user", at, words.RuleUnknownTool},
		{"bash( )", "allow", "user", at, words.RuleEmptyPattern},
		{"bash(git\nlog)", "allow", "user", at, words.RuleBadPattern},
		{"read(a**/b)", "allow", "user", at, words.RuleBadPattern},
		{"read(../b)", "allow", "user", at, words.RuleBadPattern},
		{"read(" + strings.Repeat("a/", 100) + ")", "allow", "user", at, words.RuleBadPattern},
		{"read(" + strings.Repeat("a", 5000) + ")", "allow", "user", at, words.RuleBadPattern},
		{"bash(git log; ls)", "allow", "user", at, words.RuleBadCommand},
		{"bash(git $X)", "allow", "user", at, words.RuleBadCommand},
		{"bash(git > x)", "allow", "user", at, words.RuleBadCommand},
		{"bash(A=1 git)", "allow", "user", at, words.RuleBadCommand},
		{"bash('git)", "allow", "user", at, words.RuleBadCommand},
		{"bash(git # x)", "allow", "user", at, words.RuleBadCommand},
		{"read(~/a)", "allow", "user", policy.Base{Workspace: "/w"}, words.RuleBadBase},
		{"read(a)", "allow", "user", policy.Base{}, words.RuleBadBase},
		{"bash", "grant", "user", at, words.RuleUnknownBehavior},
		{"bash", "allow", "moon", at, words.RuleUnknownPlace},
		{"todo(x)", "allow", "user", at, words.RuleNoPattern},
	} {
		_, issue := policy.Compile(c.text, words.RuleBehavior(c.behavior), words.RuleDestination(c.place), c.at, subjects)
		if issue == nil || issue.Code != c.want || !strings.HasSuffix(issue.Sentence, ".") || len(issue.Rule) > 500 {
			t.Errorf("%.60q: %+v, want %s", c.text, issue, c.want)
		}
	}
}

var (
	someRules    = []string{"bash", "bash(git *)", "bash(git log *)", "bash(rm *)", "bash(ls)", "bash(*)", "bash(* x)"}
	someCommands = []string{"git log", "git push x", "rm x", "ls; rm x", "ls", "sh -c 'rm x'", "$X y", "ls > f", "git 'log", "sudo rm x", "echo $(ls)"}
)

func genRules() *rapid.Generator[[]policy.Rule] {
	return rapid.Custom(func(t *rapid.T) []policy.Rule {
		var list []policy.Rule
		for range rapid.IntRange(0, 6).Draw(t, "rules") {
			list = append(list, compiled(t, rapid.SampledFrom([]words.RuleBehavior{words.RuleAllow, words.RuleAsk, words.RuleDeny}).Draw(t, "behavior"),
				rapid.SampledFrom(someRules).Draw(t, "rule"))...)
		}
		return list
	})
}

// strict says how much an answer lets happen: less is stricter.
func lets(b policy.Behavior) int {
	return map[policy.Behavior]int{policy.Deny: 0, policy.Ask: 1, policy.Classify: 1, policy.Allow: 2}[b]
}

func TestTheOrderOfRulesMeansNothingAndNoRuleUndoesARefusal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := genRules().Draw(t, "rules")
		m := rapid.SampledFrom(policy.Modes()).Draw(t, "mode")
		a := command(rapid.SampledFrom(someCommands).Draw(t, "command"))
		d := policy.Judge(m, policy.RulesOf(rules...), nil, a)
		mixed := rapid.Permutation(rules).Draw(t, "mixed")
		if got := policy.Judge(m, policy.RulesOf(mixed...), nil, a); got.Behavior() != d.Behavior() {
			t.Fatalf("%v in one order, %v in another", d.Behavior(), got.Behavior())
		}
		extra := genRules().Draw(t, "more")
		for _, r := range extra {
			got := policy.Judge(m, policy.RulesOf(rules...).With(r), nil, a).Behavior()
			switch r.Behavior() {
			case words.RuleDeny, words.RuleAsk:
				if lets(got) > lets(d.Behavior()) {
					t.Fatalf("%s %s lets more happen: %v became %v", r.Behavior(), r.Text(), d.Behavior(), got)
				}
			case words.RuleAllow:
				if lets(got) < lets(d.Behavior()) || d.Behavior() == policy.Deny && got != policy.Deny && d.DeniedBy() == words.DeniedByRule {
					t.Fatalf("allow %s: %v became %v", r.Text(), d.Behavior(), got)
				}
			}
		}
		if m == policy.Plan && d.Allowed() {
			t.Fatal("the mode plan lets a command run by a rule")
		}
	})
}

// A command that is denied alone is not allowed as a part of any line.
func TestADeniedCommandIsNotHidden(t *testing.T) {
	rules := policy.RulesOf(append(compiled(t, words.RuleAllow, "bash"), compiled(t, words.RuleDeny, "bash(rm *)")...)...)
	wraps := []string{"%", "ls; %", "ls && %", "ls | %", "(%)", "{ %; }", "! %", "% &", "if ls; then %; fi", "while %; do ls; done", "echo $(%)", "echo \"$(%)\"",
		"sudo %", "nohup %", "env A=1 %", "command %", "time %", "f() { %; }", "case x in x) %;; esac", "cat <(%)", "cat <<E\n$(%)\nE", "bash <<'E'\n%\nE", "[[ -f $(%) ]]", "A=$(%)", "coproc %"}
	rapid.Check(t, func(t *rapid.T) {
		line := "rm x"
		for range rapid.IntRange(1, 3).Draw(t, "depth") {
			line = strings.ReplaceAll(rapid.SampledFrom(wraps).Draw(t, "wrap"), "%", line)
		}
		for _, m := range policy.Modes() {
			if d := policy.Judge(m, rules, nil, command(line)); d.Allowed() {
				t.Fatalf("%v allows %q", m, line)
			}
		}
	})
}

// The rule that is offered for a call matches that call and says nothing wider.
func TestAnOfferedRuleMatchesItsCallAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"git", "a b", "x*y", "it's", `"`, "$X", "-n", "é", "", "a)b", `\`})
		list := append([]string{"git"}, rapid.SliceOfN(word, 0, 4).Draw(t, "words")...)
		quote := func(list []string) string {
			out := make([]string, len(list))
			for i, w := range list {
				out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
			}
			return strings.Join(out, " ")
		}
		a := command(quote(list))
		text, ok := policy.ExactRule(a)
		if !ok {
			t.Fatalf("no rule for %s", a.Command)
		}
		set := policy.RulesOf(compiled(t, words.RuleAllow, text)...)
		if d := policy.Judge(policy.Default, set, nil, a); !d.Allowed() {
			t.Fatalf("%s does not match %s: %s", text, a.Command, d.Sentence())
		}
		if d := policy.Judge(policy.Default, set, nil, command(quote(append(list, "more")))); d.Allowed() {
			t.Fatalf("%s matches more than %s", text, a.Command)
		}
	})
	if _, ok := policy.ExactRule(command("ls; ls")); ok {
		t.Error("a line of two commands has a rule")
	}
}

func TestNoPatternIsSlow(t *testing.T) {
	long := "a " + strings.Repeat("a", 60_000)
	set := policy.RulesOf(compiled(t, words.RuleAllow, "bash(a "+strings.Repeat("*a", 900)+"b)", "bash("+strings.Repeat("* a ", 31)+"b)")...)
	began := time.Now()
	policy.Judge(policy.Default, set, nil, command(long))
	policy.Judge(policy.Default, set, nil, command(strings.Repeat("a ", 30_000)))
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

func FuzzJudge(f *testing.F) {
	for _, c := range someCommands {
		f.Add("bash(git *)", c)
	}
	f.Add("bash(a*b *)", "sh -c \"a'b'c\"")
	f.Fuzz(func(t *testing.T, rule, line string) {
		deny, issue := policy.Compile(rule, words.RuleDeny, words.RuleForSession, at, subjects)
		if issue != nil {
			return
		}
		allow, issue := policy.Compile(rule, words.RuleAllow, words.RuleForSession, at, subjects)
		if issue != nil {
			t.Fatalf("%q denies and does not allow: %s", rule, issue.Sentence)
		}
		a := command(line)
		if policy.Judge(policy.Default, policy.RulesOf(allow), nil, a).Allowed() && policy.Judge(policy.Default, policy.RulesOf(deny), nil, a).Behavior() != policy.Deny {
			t.Fatalf("%q covers all of %q and as a denial nothing of it", rule, line)
		}
		policy.ExactRule(a)
	})
}

func BenchmarkJudge(b *testing.B) {
	var texts []string
	for _, w := range []string{"git", "npm", "go", "make", "cargo"} {
		texts = append(texts, "bash("+w+" test *)", "bash("+w+" build *)")
	}
	set := policy.RulesOf(append(compiled(b, words.RuleAllow, texts...), compiled(b, words.RuleDeny, "bash(rm *)", "bash(git push *)")...)...)
	a := command("cd sub && go test ./... 2>&1 | tail -20")
	for b.Loop() {
		policy.Judge(policy.Default, set, nil, a)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
}

// A tool that asks a person by itself asks whatever a rule allows, is denied by a rule
// that denies it, and asks nobody where nobody is to be asked.
func TestAToolThatAsksIsLeftToAPerson(t *testing.T) {
	for _, m := range append(policy.Modes(), 0) {
		for asks, own := range map[policy.Asks]policy.Mode{policy.AsksQuestion: m, policy.AsksPlan: policy.Plan} {
			a := policy.Action{Tool: "ask_user", Class: policy.Read, Asks: asks}
			base := func(string) (policy.Subject, bool) { return policy.NoSubject, true }
			rule := func(b words.RuleBehavior) policy.Rules {
				r, issue := policy.Compile("ask_user", b, words.RuleForUser, policy.Base{Workspace: "/w"}, base)
				if issue != nil {
					t.Fatal(issue)
				}
				return policy.RulesOf(r)
			}
			want := policy.Ask
			if m == 0 || m == policy.DontAsk || m != own {
				want = policy.Deny
			}
			if d := policy.Judge(m, rule(words.RuleAllow), nil, a); d.Behavior() != want || d.Sentence() == "" {
				t.Errorf("%v %v: %v %q", m, asks, d.Behavior(), d.Sentence())
			} else if want == policy.Ask && d.Origin() != words.AskedByTool {
				t.Errorf("%v %v asks as %s", m, asks, d.Origin())
			}
			if d := policy.Judge(m, rule(words.RuleDeny), nil, a); d.Behavior() != policy.Deny {
				t.Errorf("%v %v: a deny rule is passed over", m, asks)
			}
		}
	}
}
