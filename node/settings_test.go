package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loom-run/loom/config"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/provider/catalogue"
)

func TestRolesSayWhoWritesSummariesAndHowAgentsBegin(t *testing.T) {
	own := machine.ModelRef{Provider: "demo", ModelID: "demo"}
	model := func(name, more string) string {
		return "[models." + name + "]\ndialect = \"openai\"\nmodel_id = \"m\"\nbase_url = \"http://localhost:1/v1\"\ncontext_window = 1000\nmax_output_tokens = 100\n" + more
	}
	for text, want := range map[string][2]string{
		"": {"demo/demo", "demo/demo high"},
		model("a", "") + model("b", "thinking = \"low\"\n") + "[roles]\nmain = [\"a\"]\nsummarize = [\"a\", \"b\"]\nsubagent = [\"b\", \"a\"]\n": {"a/m", "b/m low"},
		model("a", "") + "[roles]\nmain = [\"a\"]\nsubagent = [\"a\"]\n":                                                                         {"demo/demo", "a/m off"},
	} {
		file, err := config.Decode([]byte(text), catalogue.Builtin)
		if err != nil {
			t.Fatal(err)
		}
		models, err := Catalogue(ModelsConfig{File: file, Now: func() int64 { return 0 }})
		if err != nil {
			t.Fatal(err)
		}
		n := &Node{cfg: Config{Models: models}}
		summarizer := n.summarizer(own)
		agent, thinking := n.subagent(own, machine.ThinkingHigh)
		got := [2]string{summarizer.Provider + "/" + summarizer.ModelID, agent.Provider + "/" + agent.ModelID + " " + string(thinking)}
		if got != want {
			t.Errorf("%q, not %q with\n%s", got, want, text)
		}
		_ = models.Close()
	}
}

func TestTheFileIsFoundWhereItIsLookedFor(t *testing.T) {
	const text = "[retry]\nattempts = 3\n"
	dir := t.TempDir()
	place := func(path ...string) string {
		file := filepath.Join(append([]string{dir}, path...)...)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	named := place("named.toml")
	place("xdg", "loom", "loom.toml")
	place("home", ".config", "loom", "loom.toml")
	broken := filepath.Join(dir, "broken.toml")
	if err := os.WriteFile(broken, []byte("[retry]\nattempts = \"sk-not-to-be-repeated\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	xdg, home, none := filepath.Join(dir, "xdg"), filepath.Join(dir, "home"), filepath.Join(dir, "none")
	for name, c := range map[string]struct {
		env   map[string]string
		found bool
		fault string
	}{
		"by its name":              {map[string]string{"LOOM_CONFIG": named, "XDG_CONFIG_HOME": none}, true, ""},
		"in the XDG home":          {map[string]string{"XDG_CONFIG_HOME": xdg, "HOME": none}, true, ""},
		"in the home":              {map[string]string{"HOME": home}, true, ""},
		"a relative XDG home":      {map[string]string{"XDG_CONFIG_HOME": "xdg", "HOME": home}, true, ""},
		"an XDG home without it":   {map[string]string{"XDG_CONFIG_HOME": none, "HOME": home}, false, ""},
		"no home at all":           {nil, false, ""},
		"a name that leads astray": {map[string]string{"LOOM_CONFIG": none}, false, "cannot be read"},
		"a folder":                 {map[string]string{"LOOM_CONFIG": xdg}, false, "cannot be read"},
		"a relative name":          {map[string]string{"LOOM_CONFIG": "named.toml"}, false, "not an absolute path"},
		"a broken file":            {map[string]string{"LOOM_CONFIG": broken}, false, "[retry]"},
	} {
		f, err := Settings(func(name string) string { return c.env[name] })
		if (err != nil) != (c.fault != "") || err != nil && (!strings.Contains(err.Error(), c.fault) || strings.Contains(err.Error(), "sk-")) {
			t.Errorf("%s: %v", name, err)
		}
		if found := f.Retry.Attempts != nil; found != c.found {
			t.Errorf("%s: found %v", name, found)
		}
	}
}

func TestARetryLadderKeepsWhatTheFileDoesNotSay(t *testing.T) {
	for name, c := range map[string]struct {
		asked config.Retry
		want  machine.RetryPolicy
	}{
		"nothing":   {config.Retry{}, DefaultRetry()},
		"attempts":  {config.Retry{Attempts: new(int64(2))}, machine.RetryPolicy{MaxAttempts: new(int64(2)), BaseDelayMs: 1000, MaxDelayMs: 60_000}},
		"unbounded": {config.Retry{Unbounded: true}, machine.RetryPolicy{BaseDelayMs: 1000, MaxDelayMs: 60_000}},
		"delays":    {config.Retry{BaseDelayMs: new(int64(0)), MaxDelayMs: new(int64(5))}, machine.RetryPolicy{MaxAttempts: new(int64(8)), BaseDelayMs: 0, MaxDelayMs: 5}},
	} {
		if diff := cmp.Diff(c.want, Retry(c.asked)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestASecretIsWhatItsCommandPrints runs real commands.
func TestASecretIsWhatItsCommandPrints(t *testing.T) {
	environ := []string{"PATH=" + os.Getenv("PATH"), "SAID=by the environment"}
	for name, c := range map[string]struct {
		command     []string
		value, told string
	}{
		"a line":                {[]string{"echo", "sk-1"}, "sk-1", ""},
		"one newline is cut":    {[]string{"printf", "sk-1\n\n"}, "sk-1\n", ""},
		"nothing":               {[]string{"true"}, "", ""},
		"the environment":       {[]string{"sh", "-c", "echo $SAID"}, "by the environment", ""},
		"no standard input":     {[]string{"cat"}, "", ""},
		"failure":               {[]string{"sh", "-c", "echo sk-1; echo sk-1 >&2; exit 7"}, "", "exit status 7"},
		"a signal":              {[]string{"sh", "-c", "kill -9 $$"}, "", "signal: killed"},
		"no such program":       {[]string{"no-such-program-anywhere"}, "", "there is no such program"},
		"a path to nothing":     {[]string{"/no/such/program"}, "", "cannot be started"},
		"too much":              {[]string{"sh", "-c", "yes sk-1"}, "", "more than 65536 bytes"},
		"no end":                {[]string{"sleep", "60"}, "", "did not end within"},
		"a child that keeps it": {[]string{"sh", "-c", "sleep 5 & echo sk-1"}, "sk-1", ""},
		"a quiet child":         {[]string{"sh", "-c", "sleep 5 >/dev/null 2>&1 & echo sk-1"}, "sk-1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var told []string
			cs := newCommands(map[string]config.Secret{"KEY": {Command: c.command}}, environ, func(s string) { told = append(told, s) })
			if strings.Contains(c.told, "within") { // the others are as slow as the machine
				cs.bound = 50 * time.Millisecond
			}
			if v := cs.value("KEY"); v != c.value {
				t.Errorf("the value is %q", v)
			}
			if again := cs.value("KEY"); again != c.value {
				t.Errorf("a second time it is %q", again)
			}
			if c.told == "" && len(told) > 0 || c.told != "" && (len(told) != 1 || !strings.Contains(told[0], c.told)) {
				t.Errorf("told %q", told)
			}
			if strings.Contains(strings.Join(told, ""), "sk-1") {
				t.Errorf("the secret is told: %q", told)
			}
			if known := cs.known(); c.value != "" && (len(known) != 1 || known[0] != "KEY="+c.value) || c.value == "" && len(known) != 0 {
				t.Errorf("known are %q", known)
			}
			if v := cs.value("OTHER"); v != "" {
				t.Errorf("another is %q", v)
			}
		})
	}
}
