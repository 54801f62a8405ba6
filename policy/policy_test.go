package policy_test

import (
	"strings"
	"testing"

	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/policy"
	"pgregory.net/rapid"
)

var classes = []policy.Class{policy.Read, policy.Write, policy.Exec}

func TestWhatEachModeDecides(t *testing.T) {
	for _, c := range []struct {
		mode              string
		read, write, exec policy.Behavior
	}{
		{"default", policy.Allow, policy.Ask, policy.Ask},
		{"acceptEdits", policy.Allow, policy.Allow, policy.Ask},
		{"bypassPermissions", policy.Allow, policy.Allow, policy.Allow},
		{"plan", policy.Allow, policy.Deny, policy.Deny},
		{"dontAsk", policy.Allow, policy.Deny, policy.Deny},
		{"auto", policy.Allow, policy.Classify, policy.Classify},
	} {
		mode, ok := policy.ParseMode(c.mode)
		if !ok {
			t.Fatalf("%s is no mode", c.mode)
		}
		for class, want := range map[policy.Class]policy.Behavior{policy.Read: c.read, policy.Write: c.write, policy.Exec: c.exec} {
			if got := policy.Decide(mode, class).Behavior(); got != want {
				t.Errorf("%s, %s: %v, want %v", mode, class, got, want)
			}
		}
	}
	if len(policy.Modes()) != words.PermissionModes.Len() {
		t.Errorf("%d modes are decided, there are %d", len(policy.Modes()), words.PermissionModes.Len())
	}
}

func TestRefusalsAreSentencesThatNameTheFlag(t *testing.T) {
	for want, d := range map[string]policy.Decision{
		"Writing files is not allowed in permission mode default; nothing was done. The person can allow it with --permission-mode acceptEdits.":              policy.Decide(policy.Default, policy.Write),
		"Running commands is not allowed in permission mode default; nothing was done. The person can allow it with --permission-mode bypassPermissions.":     policy.Decide(policy.Default, policy.Exec),
		"Running commands is not allowed in permission mode acceptEdits; nothing was done. The person can allow it with --permission-mode bypassPermissions.": policy.Decide(policy.AcceptEdits, policy.Exec),
		"Writing files is not allowed in permission mode plan; nothing was done. The person can allow it with --permission-mode acceptEdits.":                 policy.Decide(policy.Plan, policy.Write),
		"The classifier of permission mode auto refused this call: it deletes files; nothing was done. The person can allow it with --permission-mode bypassPermissions.": policy.Classified(
			policy.Exec, policy.Denies{Reason: "it deletes files."}),
		"The classifier of permission mode auto left this call to a person; nothing was done. The person can allow it with --permission-mode acceptEdits.": policy.Classified(
			policy.Write, policy.Unsure{}),
		"Writing files is not allowed in permission mode auto without its classifier, to which no model is assigned; nothing was done. The person can allow it with --permission-mode acceptEdits.": policy.Classified(
			policy.Write, policy.Undecided{Cause: words.UndecidedUnrouted}),
	} {
		if d.Allowed() || d.Sentence() != want {
			t.Errorf("allowed %v, says %q, want %q", d.Allowed(), d.Sentence(), want)
		}
	}
}

// every yields all decisions that there are.
func every(see func(what string, c policy.Class, d policy.Decision)) {
	for _, c := range classes {
		for _, m := range policy.Modes() {
			see(m.String(), c, policy.Decide(m, c))
		}
		for _, v := range []policy.Verdict{policy.Allows{}, policy.Denies{}, policy.Denies{Reason: "no"}, policy.Unsure{}, nil} {
			see("classified", c, policy.Classified(c, v))
		}
		for cause := range words.UndecidedCauses.All() {
			see(string(cause), c, policy.Classified(c, policy.Undecided{Cause: cause}))
		}
		see("a newer cause", c, policy.Classified(c, policy.Undecided{Cause: "sunspots"}))
	}
}

func TestTheFlagThatARefusalNamesIsEnough(t *testing.T) {
	every(func(what string, c policy.Class, d policy.Decision) {
		if d.Allowed() {
			if d.Sentence() != "" {
				t.Errorf("%s, %s: allowed, and says %q", what, c, d.Sentence())
			}
			return
		}
		_, word, ok := strings.Cut(strings.TrimSuffix(d.Sentence(), "."), policy.Flag+" ")
		better, known := policy.ParseMode(word)
		if !ok || !known || !policy.Decide(better, c).Allowed() {
			t.Errorf("%s, %s: %q does not help", what, c, d.Sentence())
		}
	})
}

// TestADecisionSaysWhoMadeIt: exactly the words that fit what becomes of the call.
func TestADecisionSaysWhoMadeIt(t *testing.T) {
	every(func(what string, c policy.Class, d policy.Decision) {
		denied, asked := d.Behavior() == policy.Deny, d.Behavior() == policy.Ask
		if denied != (d.DeniedBy() != "") || asked != (d.Origin() != "") || d.Cause() != "" && d.Origin() != words.AskedByClassifier {
			t.Errorf("%s, %s: %v denied by %q, asked by %q because of %q", what, c, d.Behavior(), d.DeniedBy(), d.Origin(), d.Cause())
		}
	})
}

// TestNoOutageOfAClassifierAllows: also not a cause of which this build has never heard, or no verdict at all.
func TestNoOutageOfAClassifierAllows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := policy.Class(rapid.IntRange(0, 4).Draw(t, "class"))
		cause := words.UndecidedCause(rapid.String().Draw(t, "cause"))
		for _, v := range []policy.Verdict{policy.Undecided{Cause: cause}, nil} {
			if d := policy.Classified(c, v); d.Allowed() || d.Behavior() == policy.Classify && c >= policy.Read && c <= policy.Exec {
				t.Fatalf("%s, %v: %v", c, v, d.Behavior())
			}
		}
		if d := policy.Classified(c, policy.Undecided{Cause: cause}); d.Behavior() == policy.Ask && d.Cause() != cause {
			t.Fatalf("the cause %q is told as %q", cause, d.Cause())
		}
	})
}

func TestOnlyItsWordsAreAVerdict(t *testing.T) {
	for answer, want := range map[string]policy.Verdict{
		"allow": policy.Allows{}, " allow \n it only reads\n": policy.Allows{}, "deny\nit deletes\nall files": policy.Denies{Reason: "it deletes all files"},
		"ask": policy.Unsure{}, "ask\nhm": policy.Unsure{Reason: "hm"},
		"": policy.Undecided{Cause: words.UndecidedContract}, "Allow": policy.Undecided{Cause: words.UndecidedContract},
		"allow it": policy.Undecided{Cause: words.UndecidedContract}, "I think: allow": policy.Undecided{Cause: words.UndecidedContract},
		"\"allow\"": policy.Undecided{Cause: words.UndecidedContract},
	} {
		if got := policy.ReadVerdict(answer); got != want {
			t.Errorf("%q is read as %#v, want %#v", answer, got, want)
		}
	}
	long, _ := policy.ReadVerdict("deny\n" + strings.Repeat("é", 5000)).(policy.Denies)
	if len(long.Reason) > 500 {
		t.Errorf("%d bytes of a reason are kept", len(long.Reason))
	}
}

func TestDecideFailsClosedAndIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, c := policy.Mode(rapid.Uint8Range(0, 9).Draw(t, "mode")), policy.Class(rapid.Uint8Range(0, 5).Draw(t, "class"))
		d := policy.Decide(m, c)
		_, knownMode := policy.ParseMode(m.String())
		knownClass := c >= policy.Read && c <= policy.Exec
		if (!knownMode || !knownClass) && d.Behavior() != policy.Deny {
			t.Fatalf("%s, %s: %v", m, c, d.Behavior())
		}
		if !d.Allowed() && d.Sentence() == "" {
			t.Fatalf("%s refuses %s without a word", m, c)
		}
		if !d.Allowed() {
			return
		}
		for weaker := policy.Read; weaker <= c; weaker++ {
			if !policy.Decide(m, weaker).Allowed() {
				t.Fatalf("%s allows %s and refuses %s", m, c, weaker)
			}
			for stronger := m; stronger <= policy.BypassPermissions; stronger++ {
				if !policy.Decide(stronger, weaker).Allowed() {
					t.Fatalf("%s allows %s, but %s refuses %s", m, c, stronger, weaker)
				}
			}
		}
	})
}

func TestZeroValuesAllowNothing(t *testing.T) {
	var d policy.Decision
	if d.Allowed() || d.Sentence() == "" || d.Behavior() != policy.Deny {
		t.Errorf("the zero decision: %v, says %q", d.Behavior(), d.Sentence())
	}
	if policy.Decide(0, policy.Read).Allowed() || policy.Decide(policy.BypassPermissions, 0).Allowed() || policy.Classified(0, policy.Allows{}).Allowed() {
		t.Error("a zero mode or class is allowed")
	}
}

func FuzzParseMode(f *testing.F) {
	for _, m := range policy.Modes() {
		f.Add(m.String())
	}
	f.Add("")
	f.Add("Default")
	f.Fuzz(func(t *testing.T, word string) {
		m, ok := policy.ParseMode(word)
		if ok && m.String() != word || !ok && m != 0 {
			t.Errorf("%q reads as %v, %v", word, m, ok)
		}
	})
}

func FuzzReadVerdict(f *testing.F) {
	for _, s := range []string{"allow", "deny\nno", "ask", "allow\x00", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		_, allows := policy.ReadVerdict(answer).(policy.Allows)
		if first, _, _ := strings.Cut(strings.TrimSpace(answer), "\n"); allows && strings.TrimSpace(first) != "allow" {
			t.Errorf("%q allows", answer)
		}
	})
}
