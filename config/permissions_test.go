package config_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/loom-run/loom/config"
)

func TestAWorkspaceDeniesAndAsksAndAllowsNothing(t *testing.T) {
	p, err := config.DecodeProject([]byte("deny = ['bash(rm *)']\nask = ['bash']\n"))
	if err != nil || !slices.Equal(p.Deny, []string{"bash(rm *)"}) || !slices.Equal(p.Ask, []string{"bash"}) {
		t.Fatalf("%+v, %v", p, err)
	}
	for text, want := range map[string]string{
		"allow = ['bash']":                   "permissions.toml has the key allow, and a workspace can only",
		"denied = ['bash']":                  `there is no key "denied" here; there are ask, deny`,
		"deny = 'bash'":                      "deny must be a list of texts that is not empty",
		"deny = [1]":                         "deny must be a list of texts that is not empty",
		"deny = ['']":                        "deny must be a list of texts that is not empty",
		"deny = ['a'":                        "is no TOML at line 1",
		"x = '" + strings.Repeat("a", 2<<20): "is larger than",
		"deny = [" + strings.Repeat("'bash',", 1001) + "]": "deny has more than 1000 rules",
	} {
		_, err := config.DecodeProject([]byte(text))
		if e, ok := errors.AsType[*config.Error](err); !ok || !strings.Contains(e.Error(), want) || !strings.HasPrefix(e.Error(), config.ProjectFile) {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
}

func TestThePersonsRulesAreAListEach(t *testing.T) {
	f, err := config.Decode([]byte("[permissions]\nallow = ['bash(ls)']\n"), func(string) bool { return false })
	if err != nil || !slices.Equal(f.Permissions.Allow, []string{"bash(ls)"}) {
		t.Fatalf("%+v, %v", f.Permissions, err)
	}
	if _, err := config.Decode([]byte("[permissions]\nallowed = ['bash(ls)']\n"), func(string) bool { return false }); err == nil ||
		!strings.Contains(err.Error(), `loom.toml, [permissions]: there is no key "allowed" here; there are allow, ask, deny`) {
		t.Errorf("a key that is not known: %v", err)
	}
}

func TestRedactionIsOnUnlessItIsTurnedOff(t *testing.T) {
	for text, want := range map[string]string{"": "nil", "[redaction]": "nil", "[redaction]\nshapes = false": "false", "[redaction]\nshapes = true": "true"} {
		f, err := config.Decode([]byte(text), func(string) bool { return false })
		got := "nil"
		if f.Redaction.Shapes != nil {
			got = strconv.FormatBool(*f.Redaction.Shapes)
		}
		if err != nil || got != want {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
	f, err := config.Decode([]byte("[redaction]\nvariables = ['DATABASE_URL', 'TOKEN']"), func(string) bool { return false })
	if err != nil || len(f.Redaction.Variables) != 2 || f.Redaction.Variables[1] != "TOKEN" || f.Redaction.Shapes != nil {
		t.Errorf("%+v, %v", f.Redaction, err)
	}
	if _, err := config.Decode([]byte("[redaction]\nshape = false"), func(string) bool { return false }); err == nil {
		t.Error("a misspelt key is passed over")
	}
}

func FuzzDecodeProject(f *testing.F) {
	f.Add([]byte("deny = ['bash']"))
	f.Add([]byte("[x]\ny = 1"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if p, err := config.DecodeProject(text); err == nil && len(p.Allow) > 0 {
			t.Fatal("it allows")
		}
	})
}
