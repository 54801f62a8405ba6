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

	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/catalogue"
	"github.com/loom-run/loom/provider/demo"
	"github.com/loom-run/loom/provider/openaichat"
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

var (
	noKey   = environment()
	withKey = environment(catalogue.KeyVariable, testKey)
)

func TestNamesLeadToModels(t *testing.T) {
	for _, c := range []struct {
		spec     string
		env      func(string) string
		identity string
		window   int64
		reason   catalogue.Reason
	}{
		{"demo", noKey, "demo/demo", demo.Model.ContextWindow, catalogue.Asked},
		{" demo ", withKey, "demo/demo", demo.Model.ContextWindow, catalogue.Asked},
		{"", noKey, "demo/demo", demo.Model.ContextWindow, catalogue.NoKey},
		{"", environment(catalogue.KeyVariable, " \n"), "demo/demo", demo.Model.ContextWindow, catalogue.NoKey},
		{"", withKey, "openai/gpt-5.1", 400_000, catalogue.HasKey},
		{"gpt-4o", withKey, "openai/gpt-4o", 128_000, catalogue.Asked},
		{"openai/gpt-4o", withKey, "openai/gpt-4o", 128_000, catalogue.Asked},
		{"openai/gpt-4o-2024-08-06", withKey, "openai/gpt-4o-2024-08-06", 128_000, catalogue.Asked},
		{"openai/qwen/qwen3-coder:30b", withKey, "openai/qwen/qwen3-coder:30b", 0, catalogue.Asked},
		{"openai/demo", withKey, "openai/demo", 0, catalogue.Asked},
	} {
		t.Run(c.spec, func(t *testing.T) {
			got, err := catalogue.Resolve(c.spec, c.env)
			if err != nil {
				t.Fatal(err)
			}
			if got.Model.String() != c.identity || got.Model.ContextWindow != c.window || got.Reason != c.reason {
				t.Errorf("got %s, window %d, %s", got.Model, got.Model.ContextWindow, got.Reason)
			}
			again, err := catalogue.ResolveIdentity(got.Model.Identity, c.env)
			if err != nil || again.Model != got.Model {
				t.Errorf("the stored identity leads to %+v, %v", again.Model, err)
			}
		})
	}
}

func TestWhatCannotWorkIsRefusedInOneSentence(t *testing.T) {
	withBase := func(base string) func(string) string {
		return environment(catalogue.KeyVariable, testKey, catalogue.BaseVariable, base)
	}
	for _, c := range []struct {
		spec  string
		env   func(string) string
		class provider.Class
		holds []string
	}{
		{"gpt-9", withKey, provider.NotFound, []string{`"gpt-9"`, "demo, gpt-5.1", "openai/ID"}},
		{"openai", withKey, provider.NotFound, []string{"openai/ID"}},
		{"openai/", withKey, provider.NotFound, nil},
		{"openai/a b", withKey, provider.NotFound, nil},
		{"openai/a\x1b[31m", withKey, provider.NotFound, []string{`\x1b`}},
		{"anthropic/claude", withKey, provider.NotFound, nil},
		{"demo/demo", noKey, provider.NotFound, nil},
		{strings.Repeat("x", 10_000), withKey, provider.NotFound, []string{"…"}},
		{"gpt-5", noKey, provider.MissingKey, []string{"OPENAI_API_KEY", "demo"}},
		{"openai/x", noKey, provider.MissingKey, []string{"OPENAI_API_KEY"}},
		{"gpt-5", withBase("http://example.com/v1"), provider.InvalidRequest, []string{"OPENAI_BASE_URL", "https"}},
		{"", withBase("nonsense"), provider.InvalidRequest, []string{"OPENAI_BASE_URL"}},
	} {
		t.Run(fmt.Sprintf("%.20q", c.spec), func(t *testing.T) {
			_, err := catalogue.Resolve(c.spec, c.env)
			e, ok := errors.AsType[*provider.Error](err)
			if !ok || e.Class != c.class {
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

func TestAnIdentityOfAnotherProviderIsUnknown(t *testing.T) {
	for _, id := range []provider.Identity{{Provider: "anthropic", ModelID: "x"}, {Provider: "demo", ModelID: "x"}, {Provider: "openai"}, {}} {
		if _, err := catalogue.ResolveIdentity(id, withKey); err == nil {
			t.Errorf("%s was taken", id)
		}
	}
}

func TestTheListIsWhole(t *testing.T) {
	list := catalogue.List()
	var names []string
	for _, m := range list {
		names = append(names, m.ModelID)
		if m.API != openaichat.API || m.Provider != "openai" || m.MaxOutput > m.ContextWindow {
			t.Errorf("%+v", m)
		}
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != len(list) || len(list) == 0 {
		t.Errorf("a name is there twice, or none is: %v", names)
	}
	list[0].ModelID = "changed"
	if catalogue.List()[0].ModelID == "changed" {
		t.Error("the list can be changed from outside")
	}
}

func TestOpenBuildsTheProvider(t *testing.T) {
	ports := catalogue.Ports{Now: func() int64 { return 5 }, UserAgent: "loom/test"}
	t.Run("demo", func(t *testing.T) {
		choice, err := catalogue.Resolve("demo", noKey)
		if err != nil {
			t.Fatal(err)
		}
		p, err := choice.Open(ports)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Stream(t.Context(), provider.Request{Model: choice.Model}, func(provider.Delta) {}); err != nil {
			t.Error(err)
		}
	})
	t.Run("openai at a base URL", func(t *testing.T) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/chat/completions" || r.Header.Get("Authorization") != "Bearer "+testKey || r.UserAgent() != "loom/test" {
				t.Errorf("got %s with %v", r.URL, r.Header)
			}
			_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
		}))
		defer server.Close()
		choice, err := catalogue.Resolve("openai/x", environment(catalogue.KeyVariable, testKey+"\n", catalogue.BaseVariable, server.URL+"/v1/"))
		if err != nil {
			t.Fatal(err)
		}
		if printed := fmt.Sprintf("%+v %#v", choice, choice); strings.Contains(printed, testKey) {
			t.Errorf("the key is printed: %s", printed)
		}
		p, err := choice.Open(ports)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = p.(io.Closer).Close() }()
		m, err := p.Stream(t.Context(), provider.Request{Model: choice.Model}, func(provider.Delta) {})
		if err != nil || message.TextOf(m.Content) != "a" || m.Model != "x" || m.Timestamp != 5 {
			t.Errorf("got %+v, %v", m, err)
		}
	})
	t.Run("a key that cannot be sent", func(t *testing.T) {
		choice, err := catalogue.Resolve("gpt-5", environment(catalogue.KeyVariable, "a\x00b"))
		if err != nil {
			t.Fatal(err)
		}
		if p, err := choice.Open(ports); err == nil || p != nil || !strings.Contains(err.Error(), catalogue.KeyVariable) {
			t.Errorf("got %v, %v", p, err)
		}
	})
}

func TestResolveIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := rapid.OneOf(rapid.String(), rapid.Map(rapid.String(), func(s string) string { return "openai/" + s })).Draw(t, "spec")
		env := environment(catalogue.KeyVariable, rapid.SampledFrom([]string{"", testKey}).Draw(t, "key"), catalogue.BaseVariable, rapid.String().Draw(t, "base"))
		choice, err := catalogue.Resolve(spec, env)
		if err == nil {
			if again, err := catalogue.ResolveIdentity(choice.Model.Identity, env); err != nil || again.Model != choice.Model {
				t.Fatalf("%q resolves, its identity does not: %v", spec, err)
			}
			return
		}
		if _, ok := errors.AsType[*provider.Error](err); !ok {
			t.Fatalf("the error is a %T", err)
		}
	})
}
