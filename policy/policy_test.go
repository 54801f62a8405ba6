package policy_test

import (
	"strings"
	"testing"

	"github.com/loom-run/loom/policy"
	"pgregory.net/rapid"
)

func TestWhatEachModeAllows(t *testing.T) {
	for _, c := range []struct {
		mode              string
		read, write, exec bool
	}{
		{"default", true, false, false},
		{"acceptEdits", true, true, false},
		{"bypassPermissions", true, true, true},
	} {
		mode, ok := policy.ParseMode(c.mode)
		if !ok {
			t.Fatalf("%s is no mode", c.mode)
		}
		for class, want := range map[policy.Class]bool{policy.Read: c.read, policy.Write: c.write, policy.Exec: c.exec} {
			if got := policy.Decide(mode, class).Allowed(); got != want {
				t.Errorf("%s, %s: allowed %v, want %v", mode, class, got, want)
			}
		}
	}
}

func TestRefusalsAreSentencesThatNameTheFlag(t *testing.T) {
	for want, d := range map[string]policy.Decision{
		"Writing files is not allowed in permission mode default; nothing was done. The person can allow it with --permission-mode acceptEdits.":              policy.Decide(policy.Default, policy.Write),
		"Running commands is not allowed in permission mode default; nothing was done. The person can allow it with --permission-mode bypassPermissions.":     policy.Decide(policy.Default, policy.Exec),
		"Running commands is not allowed in permission mode acceptEdits; nothing was done. The person can allow it with --permission-mode bypassPermissions.": policy.Decide(policy.AcceptEdits, policy.Exec),
	} {
		if d.Allowed() || d.Sentence() != want {
			t.Errorf("allowed %v, says %q, want %q", d.Allowed(), d.Sentence(), want)
		}
	}
}

func TestTheFlagThatARefusalNamesIsEnough(t *testing.T) {
	for _, m := range policy.Modes() {
		for c := policy.Read; c <= policy.Exec; c++ {
			d := policy.Decide(m, c)
			if d.Allowed() {
				if d.Sentence() != "" {
					t.Errorf("%s, %s: allowed, and says %q", m, c, d.Sentence())
				}
				continue
			}
			_, word, ok := strings.Cut(strings.TrimSuffix(d.Sentence(), "."), policy.Flag+" ")
			better, known := policy.ParseMode(word)
			if !ok || !known || !policy.Decide(better, c).Allowed() {
				t.Errorf("%s, %s: %q does not help", m, c, d.Sentence())
			}
		}
	}
}

func TestDecideFailsClosedAndIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, c := policy.Mode(rapid.Uint8().Draw(t, "mode")), policy.Class(rapid.Uint8().Draw(t, "class"))
		d := policy.Decide(m, c)
		_, knownMode := policy.ParseMode(m.String())
		if knownClass := c >= policy.Read && c <= policy.Exec; d.Allowed() && (!knownMode || !knownClass) {
			t.Fatalf("%s allows %s", m, c)
		}
		if !d.Allowed() && d.Sentence() == "" {
			t.Fatalf("%s refuses %s without a word", m, c)
		}
		if d.Allowed() {
			for stronger := m; stronger <= policy.BypassPermissions; stronger++ {
				for weaker := policy.Read; weaker <= c; weaker++ {
					if !policy.Decide(stronger, weaker).Allowed() {
						t.Fatalf("%s allows %s, but %s refuses %s", m, c, stronger, weaker)
					}
				}
			}
		}
	})
}

func TestZeroValuesAllowNothing(t *testing.T) {
	var d policy.Decision
	if d.Allowed() || d.Sentence() == "" {
		t.Errorf("the zero decision: allowed %v, says %q", d.Allowed(), d.Sentence())
	}
	if policy.Decide(0, policy.Read).Allowed() || policy.Decide(policy.BypassPermissions, 0).Allowed() {
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
