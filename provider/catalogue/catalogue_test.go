package catalogue_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/config"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/catalogue"
	"github.com/loom-run/loom/provider/demo"
	"github.com/loom-run/loom/provider/recording"
)

const testKey = "sk-catalogue-0123456789"

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

var withKey = environment("OPENAI_API_KEY", testKey)

// of makes a catalogue of a file, or of none.
func of(t testing.TB, file string, env func(string) string, change ...func(*catalogue.Config)) *catalogue.Catalogue {
	t.Helper()
	f, err := config.Decode([]byte(file), catalogue.Builtin)
	if err != nil {
		t.Fatal(err)
	}
	c := catalogue.Config{File: f, Env: env}
	for _, f := range change {
		f(&c)
	}
	cat, err := catalogue.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return cat
}

const file = `
[models.sonnet]
dialect = "anthropic"
model_id = "claude-x"
api_key_env = "A_KEY"
context_window = 1000
max_output_tokens = 100
thinking = "high"
[models.sonnet.pricing]
input = 3
output = 15
[models.local]
dialect = "openai"
model_id = "qwen"
base_url = "http://localhost:1/v1"
context_window = 500
max_output_tokens = 50
thinking = "unsupported"
vision = false
[models.bad]
dialect = "openai"
model_id = "m"
base_url = "http://example.com/v1"
context_window = 500
max_output_tokens = 50
[roles]
main = ["sonnet", "gpt-5.1", "local"]
vision = ["sonnet"]
summarize = ["local", "sonnet"]
[profiles.cheap.roles]
main = ["local"]
`

func TestNamesLeadToModels(t *testing.T) {
	for _, c := range []struct {
		file, spec string
		env        func(string) string
		identity   string
		window     int64
		reason     catalogue.Reason
	}{
		{"", "demo", nil, "demo/demo", demo.Model.ContextWindow, catalogue.Asked},
		{"", " demo ", withKey, "demo/demo", demo.Model.ContextWindow, catalogue.Asked},
		{"", "", nil, "demo/demo", demo.Model.ContextWindow, catalogue.NoKey},
		{"", "", environment("OPENAI_API_KEY", " \n"), "demo/demo", demo.Model.ContextWindow, catalogue.NoKey},
		{"", "", withKey, "openai/gpt-5.5", 1_050_000, catalogue.HasKey},
		{"", "", environment("ANTHROPIC_API_KEY", testKey), "anthropic/claude-opus-5-5", 1_000_000, catalogue.HasKey},
		{"", "", environment("GEMINI_API_KEY", testKey), "gemini/gemini-3.1-pro-preview", 1_048_576, catalogue.HasKey},
		{"", "gpt-4o", withKey, "openai/gpt-4o", 128_000, catalogue.Asked},
		{"", "gpt-5.3-codex", withKey, "openai-responses/gpt-5.3-codex", 400_000, catalogue.Asked},
		{"", "openai/gpt-4o-2024-08-06", withKey, "openai/gpt-4o-2024-08-06", 128_000, catalogue.Asked},
		{"", "anthropic/claude-haiku-4-5-20251001", environment("ANTHROPIC_API_KEY", testKey), "anthropic/claude-haiku-4-5-20251001", 200_000, catalogue.Asked},
		{"", "openai/qwen/qwen3-coder:30b", withKey, "openai/qwen/qwen3-coder:30b", 0, catalogue.Asked},
		{"", "openai/demo", withKey, "openai/demo", 0, catalogue.Asked},
		{"", "replay/some/file with a space", nil, "replay/some/file with a space", 0, catalogue.Asked},
		{file, "sonnet", environment("A_KEY", testKey), "sonnet/claude-x", 1000, catalogue.Asked},
		{file, "local", nil, "local/qwen", 500, catalogue.Asked},
		{file, "", environment("A_KEY", testKey), "sonnet/claude-x", 1000, catalogue.Role},
		{file, "gpt-4o", withKey, "openai/gpt-4o", 128_000, catalogue.Asked},
	} {
		t.Run(c.spec+" "+c.identity, func(t *testing.T) {
			cat := of(t, c.file, c.env)
			got, err := cat.Choose(c.spec)
			if err != nil {
				t.Fatal(err)
			}
			if got.Model.String() != c.identity || got.Model.ContextWindow != c.window || got.Reason != c.reason {
				t.Errorf("got %s, window %d, %s", got.Model, got.Model.ContextWindow, got.Reason)
			}
			again, err := cat.Find(got.Model.Identity)
			if err != nil || again.Model != got.Model {
				t.Errorf("the stored identity leads to %+v, %v", again.Model, err)
			}
		})
	}
}

func TestARoleIsPlayedByTheHeadOfItsChain(t *testing.T) {
	cat := of(t, file, environment("A_KEY", testKey))
	for role, want := range map[config.Role]string{config.Main: "sonnet/claude-x high true", config.Summarize: "local/qwen  true", config.Subagent: "/  false"} {
		model, thinking, ok := cat.Role(role)
		if got := fmt.Sprintf("%s %s %v", model, thinking, ok); got != want {
			t.Errorf("%s: %s", role, got)
		}
	}
}

func TestAProfileHasItsOwnRoles(t *testing.T) {
	cheap := func(c *catalogue.Config) { c.Profile = "cheap" }
	got, err := of(t, file, environment("A_KEY", testKey), cheap).Choose("")
	if err != nil || got.Model.String() != "local/qwen" {
		t.Errorf("%s, %v", got.Model, err)
	}
	f, err := config.Decode([]byte(file), catalogue.Builtin)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := catalogue.New(catalogue.Config{File: f, Profile: "x"}); err == nil || !strings.Contains(err.Error(), `no profile "x" in loom.toml; nothing was started, it has cheap`) {
		t.Errorf("%v", err)
	}
}

func TestWhatCannotWorkIsRefusedInOneSentence(t *testing.T) {
	withBase := func(base string) func(string) string {
		return environment("OPENAI_API_KEY", testKey, "OPENAI_BASE_URL", base)
	}
	for _, c := range []struct {
		file, spec string
		env        func(string) string
		class      provider.Class
		holds      []string
	}{
		{"", "gpt-9", withKey, provider.NotFound, []string{`"gpt-9"`, "demo, gpt-5.5", "openai/ID", "loom models"}},
		{"", "openai", withKey, provider.NotFound, []string{"openai/ID"}},
		{"", "openai/", withKey, provider.NotFound, nil},
		{"", "openai/a b", withKey, provider.NotFound, nil},
		{"", "openai/a\x1b[31m", withKey, provider.NotFound, []string{`\x1b`}},
		{"", "bedrock/claude", withKey, provider.NotFound, nil},
		{"", "demo/demo", nil, provider.NotFound, nil},
		{"", "replay/", nil, provider.NotFound, nil},
		{"", strings.Repeat("x", 10_000), withKey, provider.NotFound, []string{"…"}},
		{"", "gpt-5", nil, provider.MissingKey, []string{"OPENAI_API_KEY", "demo"}},
		{"", "anthropic/x", withKey, provider.MissingKey, []string{"ANTHROPIC_API_KEY"}},
		{"", "gpt-5", withBase("http://example.com/v1"), provider.InvalidRequest, []string{"OPENAI_BASE_URL", "https"}},
		{"", "", withBase("nonsense"), provider.InvalidRequest, []string{"OPENAI_BASE_URL"}},
		{file, "sonnet", nil, provider.MissingKey, []string{"the model sonnet needs a key: set A_KEY", "[secrets]"}},
		{file, "", nil, provider.MissingKey, []string{"the model sonnet needs a key"}},
		{file, "bad", nil, provider.InvalidRequest, []string{"base_url of [models.bad]", "https"}},
		{file, "x", nil, provider.NotFound, []string{"demo, bad, local, sonnet, gpt-5.5"}},
	} {
		t.Run(fmt.Sprintf("%.20q", c.spec), func(t *testing.T) {
			_, err := of(t, c.file, c.env).Choose(c.spec)
			e, ok := errors.AsType[*provider.Error](err)
			if !ok || e.Class != c.class || !e.Unsent {
				t.Fatalf("got %v", err)
			}
			for _, part := range c.holds {
				if !strings.Contains(e.Message, part) {
					t.Errorf("%q lacks %q", e.Message, part)
				}
			}
			if strings.ContainsAny(e.Message, "\n\x1b") || strings.Contains(e.Message, testKey) || len(e.Message) > 1000 {
				t.Errorf("got %q", e.Message)
			}
		})
	}
}

func TestAnIdentityThatIsNoMoreSaysWhatBecameOfIt(t *testing.T) {
	cat := of(t, file, environment("A_KEY", testKey))
	for id, want := range map[provider.Identity]string{
		{Provider: "bedrock", ModelID: "x"}: "there is no model",
		{Provider: "demo", ModelID: "x"}:    "there is no model",
		{Provider: "openai"}:                "there is no model",
		{}:                                  "there is no model",
		{Provider: "sonnet", ModelID: "claude-older"}: "the session uses sonnet/claude-older, and sonnet is now the model claude-x in loom.toml; go on with --model sonnet",
	} {
		if _, err := cat.Find(id); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// server answers every dialect's chat request, or refuses, and notes the keys that came.
func server(t *testing.T, status int, says string, keys *[]string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*keys = append(*keys, r.Header.Get("Authorization")+r.Header.Get("X-Api-Key"))
		if status != http.StatusOK {
			w.WriteHeader(status)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\""+says+"\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1000000,\"completion_tokens\":0}}\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(s.Close)
	return s
}

func chat(name, base, more string) string {
	return "[models." + name + "]\ndialect = \"openai\"\nmodel_id = \"" + name + "-1\"\nbase_url = \"" + base + "/v1\"\ncontext_window = 2000000\nmax_output_tokens = 50\n" + more
}

func ask(t *testing.T, ch catalogue.Choice, ports catalogue.Ports) (*message.Assistant, error) {
	t.Helper()
	ports.Now = func() int64 { return 5 }
	p, err := ch.Open(ports)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if c, ok := p.(io.Closer); ok {
			_ = c.Close()
		}
	}()
	return p.Stream(t.Context(), provider.Request{Model: ch.Model, Messages: []message.Message{&message.User{Content: []message.UserBlock{message.Text{Text: "hi"}}}}}, func(provider.Delta) {})
}

func TestARouteIsAskedWithItsKeyAndPricedByItsCard(t *testing.T) {
	var keys []string
	s := server(t, 200, "a", &keys)
	cat := of(t, chat("x", s.URL, "api_key_env = \"K\"\n[models.x.pricing]\ninput = 2.5\noutput = 10\n"), environment("K", testKey+"\n"))
	ch, err := cat.Choose("x")
	if err != nil {
		t.Fatal(err)
	}
	if printed := fmt.Sprintf("%+v %#v", ch, cat); strings.Contains(printed, testKey) {
		t.Errorf("the key is printed: %s", printed)
	}
	m, err := ask(t, ch, catalogue.Ports{UserAgent: "loom/test"})
	if err != nil || message.TextOf(m.Content) != "a" || m.Provider != "x" || m.Model != "x-1" || m.Timestamp != 5 || m.Usage.Cost.Total.Literal() != "2.5" {
		t.Errorf("got %+v, %v", m, err)
	}
	if len(keys) != 1 || keys[0] != "Bearer "+testKey {
		t.Errorf("keys %q", keys)
	}
}

func TestTheChainOfARoleStandsBehindItsHead(t *testing.T) {
	var first, second []string
	down, up := server(t, 503, "", &first), server(t, 200, "up", &second)
	text := chat("a", down.URL, "") + chat("b", up.URL, "") + "[roles]\nmain = [\"a\", \"b\"]\n"
	cat := of(t, text, nil)
	head, err := cat.Choose("")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := ask(t, head, catalogue.Ports{}); err != nil || m.Provider != "b" {
		t.Errorf("%v, %v", m, err)
	}
	stored, err := cat.Find(head.Model.Identity)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := ask(t, stored, catalogue.Ports{}); err != nil || m.Provider != "b" {
		t.Errorf("the stored identity: %v, %v", m, err)
	}
	alone, err := of(t, chat("a", down.URL, ""), nil).Choose("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t, alone, catalogue.Ports{}); err == nil {
		t.Error("a model without a role has somebody behind it")
	}
}

func TestASecretOfACommandIsAskedForWhenARequestNeedsIt(t *testing.T) {
	var keys []string
	s := server(t, 200, "a", &keys)
	asked := 0
	text := chat("x", s.URL, "api_key_env = \"K\"\n") + "[secrets.K]\ncommand = [\"pass\"]\n"
	cat := func(value string, env func(string) string) *catalogue.Catalogue {
		return of(t, text, env, func(c *catalogue.Config) {
			c.Secret = func(name string) string { asked++; return value }
		})
	}
	ch, err := cat(testKey, nil).Choose("x")
	if err != nil || asked != 0 {
		t.Fatalf("%v; asked %d times before a request", err, asked)
	}
	if _, err := ask(t, ch, catalogue.Ports{}); err != nil || asked != 1 || keys[0] != "Bearer "+testKey {
		t.Errorf("%v, asked %d times, %q", err, asked, keys)
	}
	ch, err = cat("", nil).Choose("x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t, ch, catalogue.Ports{}); err == nil || !strings.Contains(err.Error(), "set K") {
		t.Errorf("a command that gave nothing: %v", err)
	}
	asked = 0
	ch, err = cat(testKey, environment("K", "from-the-environment")).Choose("x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t, ch, catalogue.Ports{}); err != nil || asked != 0 || keys[1] != "Bearer from-the-environment" {
		t.Errorf("%v, asked %d times, %q", err, asked, keys)
	}
}

func TestARunIsRecordedAndPlayedAgain(t *testing.T) {
	var keys []string
	s := server(t, 200, "recorded "+testKey, &keys)
	var tape strings.Builder
	cat := of(t, chat("x", s.URL, "api_key_env = \"K\"\n"), environment("K", testKey), func(c *catalogue.Config) {
		c.ReadRecording = func(path string) (string, error) {
			if path != "/tape" {
				return "", errors.New("no such file")
			}
			return tape.String(), nil
		}
	})
	ch, err := cat.Choose("x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t, ch, catalogue.Ports{Record: recording.NewRecorder(&tape)}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(tape.String(), testKey) {
		t.Errorf("the key is recorded: %s", tape.String())
	}
	replay, err := cat.Choose("replay//tape")
	if err != nil {
		t.Fatal(err)
	}
	m, err := ask(t, replay, catalogue.Ports{})
	if err != nil || message.TextOf(m.Content) != "recorded [redacted]" || m.Provider != "x" {
		t.Errorf("%+v, %v", m, err)
	}
	lost, err := cat.Choose("replay//lost")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lost.Open(catalogue.Ports{}); err == nil || !strings.Contains(err.Error(), "the recording /lost cannot be read (no such file)") {
		t.Errorf("%v", err)
	}
}

func TestKeysMayBeInTheseVariables(t *testing.T) {
	got := of(t, file, nil).KeyVariables()
	if want := []string{"ANTHROPIC_API_KEY", "A_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestTheListForPeople(t *testing.T) {
	routes := of(t, file, environment("A_KEY", testKey)).Routes()
	if len(routes) < 10 || routes[0].Name != "bad" || routes[0].Fault == nil || routes[1].Fault != nil || routes[2].Price == nil {
		t.Errorf("%+v", routes[:3])
	}
	if got := fmt.Sprint(routes[1].Roles, routes[2].Roles); got != "[main summarize] [main summarize vision]" {
		t.Errorf("roles %s", got)
	}
	for _, r := range routes[3:] {
		if r.Price != nil && (r.Price.Source == "" || r.Price.Date == "") {
			t.Errorf("%s has a price from nowhere", r.Name)
		}
	}
}

func TestChooseIsTotal(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		prefix := rapid.SampledFrom([]string{"", "openai/", "anthropic/", "replay/", "gemini/"}).Draw(rt, "prefix")
		spec := prefix + rapid.String().Draw(rt, "spec")
		env := environment("OPENAI_API_KEY", rapid.SampledFrom([]string{"", testKey}).Draw(rt, "key"), "OPENAI_BASE_URL", rapid.String().Draw(rt, "base"))
		cat := of(t, rapid.SampledFrom([]string{"", file}).Draw(rt, "file"), env)
		choice, err := cat.Choose(spec)
		if err == nil {
			if again, err := cat.Find(choice.Model.Identity); err != nil || again.Model != choice.Model {
				rt.Fatalf("%q resolves, its identity does not: %v", spec, err)
			}
			return
		}
		if _, ok := errors.AsType[*provider.Error](err); !ok {
			rt.Fatalf("the error is a %T", err)
		}
	})
}
