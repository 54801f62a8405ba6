package jail

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTheAllowListIsSorted(t *testing.T) {
	if !slices.IsSorted(allowed) {
		t.Fatal("the allow list is searched by halving and must be sorted")
	}
}

func TestNoSecretOfTheHarnessPasses(t *testing.T) {
	env := Environment([]string{
		"OPENAI_API_KEY=sk-1", "ANTHROPIC_API_KEY=sk-2", "GITHUB_TOKEN=t", "AWS_SECRET_ACCESS_KEY=s", "LOOM_HOME=/x", "SSH_AUTH_SOCK=/s",
		"HOME=/home/a", "PATH=/usr/bin", "GOPROXY=https://u:p@h", "LD_PRELOAD=/x.so", "BASH_ENV=/x", "GIT_SSH_COMMAND=x",
	})
	if want := []string{"HOME=/home/a", "PATH=/usr/bin"}; !slices.Equal(env, want) {
		t.Errorf("environment is %q, want %q", env, want)
	}
}

func TestTheEnvironmentIsBuiltFromTheAllowListAlone(t *testing.T) {
	name := rapid.OneOf(rapid.SampledFrom(allowed), rapid.StringMatching(`[A-Z_]{1,12}`), rapid.String())
	entry := rapid.Custom(func(t *rapid.T) string { return name.Draw(t, "name") + "=" + rapid.String().Draw(t, "value") })
	rapid.Check(t, func(t *rapid.T) {
		env := Environment(rapid.SliceOfN(rapid.OneOf(entry, rapid.String()), 0, 30).Draw(t, "harness"))
		if !slices.IsSorted(env) {
			t.Fatalf("not sorted: %q", env)
		}
		seen := map[string]bool{}
		for _, e := range env {
			n := nameOf(e)
			if !slices.Contains(allowed, n) || seen[n] {
				t.Fatalf("%q must not be there (once)", e)
			}
			seen[n] = true
		}
		if len(SearchPath(env)) == 0 {
			t.Fatalf("no PATH in %q", env)
		}
		for _, dir := range SearchPath(env) {
			if !strings.HasPrefix(dir, "/") {
				t.Fatalf("PATH of %q has the relative entry %q", env, dir)
			}
		}
	})
}
