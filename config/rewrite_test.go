package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func noModels(string) bool { return false }

var ruleLists = []RuleList{AllowRules, AskRules, DenyRules}

func TestARuleIsWrittenBesideWhatIsThere(t *testing.T) {
	for _, c := range []struct{ name, before, after string }{
		{"nothing", "", "[permissions]\ndeny = [\"new\"]\n"},
		{"other tables", "[retry]\nattempts = 3 # mine", "[retry]\nattempts = 3 # mine\n\n[permissions]\ndeny = [\"new\"]\n"},
		{"an empty list", "[permissions]\ndeny = [ # none yet\n]\n", "[permissions]\ndeny = [\"new\" # none yet\n]\n"},
		{"a list", "[permissions] # rules\ndeny = [\"a\", 'b'] # two\n\n[retry]\nattempts = 3\n", "[permissions] # rules\ndeny = [\"a\", 'b', \"new\"] # two\n\n[retry]\nattempts = 3\n"},
		{"lines", "[permissions]\ndeny = [\n  # why\n  \"a\", # because\n]\n", "[permissions]\ndeny = [\n  # why\n  \"a\", \"new\", # because\n]\n"},
		{"another list", "[permissions]\n# kept\nallow = [\"x\"]\n", "[permissions]\ndeny = [\"new\"]\n# kept\nallow = [\"x\"]\n"},
		{"a section at the end", "[permissions]", "[permissions]\ndeny = [\"new\"]\n"},
		{"dotted keys", "permissions.deny = [\"a\"]\n", "permissions.deny = [\"a\", \"new\"]\n"},
	} {
		out, p, err := Rewrite([]byte(c.before), noModels, RuleChange{List: DenyRules, Rule: "new"})
		if err != nil || string(out) != c.after || !slices.Contains(p.Deny, "new") {
			t.Errorf("%s: %v, %q", c.name, err, out)
		}
	}
}

func TestARuleIsTakenOutAndCommentsStay(t *testing.T) {
	for _, c := range []struct{ name, before, after string }{
		{"alone", "deny = [\"x\"] # one\n", "deny = [] # one\n"},
		{"first", "deny = [\"x\", \"a\"]\n", "deny = [\"a\"]\n"},
		{"last", "deny = [\"a\", \"x\"]\n", "deny = [\"a\", ]\n"},
		{"on lines", "deny = [\n  \"a\",\n  \"x\",\n  \"b\",\n]\n", "deny = [\n  \"a\",\n  \"b\",\n]\n"},
		{"with a comment", "deny = [\n  \"x\", # why, \"x\"\n  \"b\",\n]\n", "deny = [\n   # why, \"x\"\n  \"b\",\n]\n"},
		{"a comma that is far", "deny = [\"x\" # one, two\n , \"b\"]\n", "deny = [ # one, two\n  \"b\"]\n"},
		{"twice", "deny = ['x', \"a\", \"\\u0078\"]\n", "deny = [\"a\", ]\n"},
	} {
		out, p, err := RewriteProject([]byte(c.before), RuleChange{List: DenyRules, Rule: "x", Remove: true})
		if err != nil || string(out) != c.after || slices.Contains(p.Deny, "x") {
			t.Errorf("%s: %v, %q", c.name, err, out)
		}
	}
}

// What cannot be read whole, or would not come out as it was, is not touched.
func TestAFileThatIsNotUnderstoodIsNotRewritten(t *testing.T) {
	write := RuleChange{List: DenyRules, Rule: "new"}
	for name, text := range map[string]string{
		"an unknown key":             "[permissions]\ndeny = []\nforbid = [\"bash\"]\n",
		"an unknown table":           "[permision]\n",
		"no TOML":                    "[permissions\n",
		"an inline table":            "permissions = { deny = [\"a\"] }\n[retry]\n",
		"an entry that is no text":   "[permissions]\ndeny = [1]\n",
		"a list that is none":        "[permissions]\ndeny = \"a\"\n",
		"a section that is an array": "[[permissions]]\n",
	} {
		if out, _, err := Rewrite([]byte(text), noModels, write); err == nil && !strings.Contains(string(out), "\"a\"") {
			t.Errorf("%s: %q", name, out)
		}
	}
	for name, text := range map[string]string{"an unknown key": "forbid = []\n", "a rule that allows": "allow = [\"bash\"]\n"} {
		if out, _, err := RewriteProject([]byte(text), write); err == nil {
			t.Errorf("%s: %q", name, out)
		}
	}
	if out, _, err := RewriteProject(nil, RuleChange{List: AllowRules, Rule: "bash"}); err == nil {
		t.Errorf("a workspace allows: %q", out)
	}
	if _, err := DecodeOwn([]byte("allow = [\"a\"]\nother = 1\n")); err == nil {
		t.Error("an unknown key of the person's own file is taken")
	}
}

// Whatever a file looks like, a rule that is written is in its list and one that is taken
// out is not, all other rules stay in their order, and so does every comment.
func TestRewritingKeepsEverythingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		comments := 0
		comment := func() string {
			if !rapid.Bool().Draw(t, "comment") {
				return ""
			}
			comments++
			return fmt.Sprintf(" # comment %d, \"x\" ]", comments)
		}
		space := func() string { return rapid.SampledFrom([]string{"", " ", "\n", "\n\t"}).Draw(t, "space") }
		if rapid.Bool().Draw(t, "before") {
			text.WriteString("[retry]" + comment() + "\nattempts = 3\n")
		}
		if rapid.Bool().Draw(t, "section") {
			text.WriteString("[permissions]" + comment() + "\n")
			for _, b := range rapid.Permutation(ruleLists).Draw(t, "lists")[rapid.IntRange(0, 3).Draw(t, "absent"):] {
				fmt.Fprintf(&text, "%s = [", b)
				list := rapid.SliceOfN(rapid.SampledFrom([]string{`"x"`, `'x'`, `"a"`, `"b \" ] # ,"`, `'''x'''`}), 0, 4).Draw(t, "rules")
				for i, r := range list {
					text.WriteString(space() + r)
					if c := comment(); c != "" {
						text.WriteString(c + "\n")
					}
					if i < len(list)-1 || rapid.Bool().Draw(t, "comma") {
						text.WriteString(space() + ",")
					}
				}
				text.WriteString(space() + "]" + comment() + "\n")
			}
		}
		if rapid.Bool().Draw(t, "after") {
			text.WriteString("[limits]" + comment())
		}
		was, err := Decode([]byte(text.String()), noModels)
		if err != nil {
			t.Fatalf("%v in %s", err, text.String())
		}
		c := RuleChange{List: rapid.SampledFrom(ruleLists).Draw(t, "list"), Rule: rapid.SampledFrom([]string{"x", "a", "new \\ \"]\x01é"}).Draw(t, "rule"), Remove: rapid.Bool().Draw(t, "remove")}
		out, got, err := Rewrite([]byte(text.String()), noModels, c)
		if err != nil {
			t.Fatalf("%+v: %v in\n%s", c, err, text.String())
		}
		want := was.Permissions
		if slices.Contains(want.Of(c.List), c.Rule) == c.Remove {
			want = want.changed(c)
		} else if string(out) != text.String() {
			t.Fatalf("nothing was to change, and\n%s\nbecame\n%s", text.String(), out)
		}
		if !sameRules(got, want) {
			t.Fatalf("%+v became %+v", was.Permissions, got)
		}
		for n := 1; n <= comments; n++ {
			if strings.Count(string(out), fmt.Sprintf("# comment %d, \"x\" ]\n", n))+strings.Count(string(out)+"\n", fmt.Sprintf("# comment %d, \"x\" ]\n", n)) == 0 {
				t.Fatalf("comment %d is gone:\n%s\nbecame\n%s", n, text.String(), out)
			}
		}
	})
}

func FuzzRewrite(f *testing.F) {
	f.Add("[permissions]\ndeny = ['a', \"b\"] # c\n", "rule", false)
	f.Add("deny = [\n\"x\" # c\n,]\n", "x", true)
	f.Add("[[rule]]\nname = \"n\"\n", "bash(rm *)", false)
	f.Fuzz(func(t *testing.T, text, rule string, remove bool) {
		c := RuleChange{List: DenyRules, Rule: rule, Remove: remove}
		if out, p, err := Rewrite([]byte(text), noModels, c); err == nil {
			again, err := Decode(out, noModels)
			if err != nil || !sameRules(again.Permissions, p) || slices.Contains(p.Deny, rule) == remove {
				t.Fatalf("%q: %v, %+v", out, err, p)
			}
		}
		_, _, _ = RewriteProject([]byte(text), c)
		_, _, _ = RewriteOwn([]byte(text), c)
	})
}
