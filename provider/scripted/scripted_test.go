package scripted_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/providertest"
	"github.com/loom-run/loom/provider/scripted"
)

const clockAt = 42

func now() int64 { return clockAt }

func request(answered int) provider.Request {
	req := provider.Request{Model: scripted.Model}
	for range answered {
		req.Messages = append(req.Messages, &message.Assistant{})
	}
	return req
}

func play(script scripted.Script) providertest.Scene {
	return func(testing.TB) (provider.Provider, provider.Request) { return scripted.New(script, now), request(0) }
}

func turn(steps ...scripted.Step) scripted.Script {
	return scripted.Script{Turns: []scripted.Turn{{Steps: steps}}}
}

func TestConformance(t *testing.T) {
	full := []scripted.Step{scripted.Thinking("hm"), scripted.Text("héllo"), scripted.Call{Name: "read", Args: `{"path":"a"}`}, scripted.Call{Name: "ls"}}
	subject := providertest.Subject{
		At: clockAt, API: scripted.API,
		Settles: map[string]providertest.Scene{
			"text": play(scripted.Say("hello")),
			"full": play(turn(full...)),
		},
		Cuts: func(_ testing.TB, seed int) (provider.Provider, provider.Request) {
			return scripted.New(scripted.Script{Turns: []scripted.Turn{{Steps: full, Chunk: seed}}}, now), request(0)
		},
		Stalls: play(turn(scripted.Text("so far"), scripted.Stall{})),
		Fails:  map[provider.Class]providertest.Scene{},
	}
	for _, class := range provider.Classes() {
		if class != provider.Cancelled { // only a caller cancels
			subject.Fails[class] = play(scripted.Script{Turns: []scripted.Turn{{Steps: []scripted.Step{scripted.Text("so far")}, Fail: &scripted.Failure{Class: class}}}})
		}
	}
	providertest.Run(t, subject)
}

func ask(t *testing.T, p *scripted.Provider, req provider.Request) (string, *provider.Error) {
	t.Helper()
	m, err := p.Stream(t.Context(), req, func(provider.Delta) {})
	if e, ok := errors.AsType[*provider.Error](err); ok {
		return "", e
	}
	return message.TextOf(m.Content), nil
}

func TestTheRequestChoosesTheTurn(t *testing.T) {
	p := scripted.New(scripted.Say("one", "two"), now)
	for answered, want := range []string{"one", "two"} {
		for range 2 {
			if got, err := ask(t, p, request(answered)); got != want {
				t.Errorf("after %d answers: %q, %v", answered, got, err)
			}
		}
	}
	if _, err := ask(t, p, request(2)); err == nil || err.Class != provider.InvalidRequest {
		t.Errorf("beyond the script: %v", err)
	}
	if n := len(p.Requests()); n != 5 {
		t.Errorf("%d requests recorded", n)
	}
}

func TestASequentialScriptGoesOnWithEachCall(t *testing.T) {
	script := scripted.Say("one", "two")
	script.Sequential = true
	p := scripted.New(script, now)
	for _, want := range []string{"one", "two"} {
		if got, err := ask(t, p, request(0)); got != want {
			t.Errorf("%q, %v", got, err)
		}
	}
}

func TestAFailureStopsAfterItsTimes(t *testing.T) {
	script := scripted.Say("at last")
	script.Turns[0].Fail = &scripted.Failure{Class: provider.Overloaded, Times: 2, Status: 503, RetryAfterMs: new(int64(7))}
	p := scripted.New(script, now)
	for range 2 {
		if _, err := ask(t, p, request(0)); err == nil || err.Class != provider.Overloaded || err.Status != 503 || *err.RetryAfterMs != 7 {
			t.Errorf("got %+v", err)
		}
	}
	if got, err := ask(t, p, request(0)); got != "at last" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestACallCutOffIsNoCall(t *testing.T) {
	script := turn(scripted.Call{Name: "read", Args: `{"path":"abcdef"}`})
	script.Turns[0].Chunk = 3
	ctx, cancel := context.WithCancel(t.Context())
	_, err := scripted.New(script, now).Stream(ctx, request(0), func(provider.Delta) { cancel() })
	e, ok := errors.AsType[*provider.Error](err)
	if !ok || e.Class != provider.Cancelled || e.Partial != nil {
		t.Errorf("got %+v", err)
	}
}

func TestTheFileFormHasEveryFeature(t *testing.T) {
	path := filepath.Join(t.TempDir(), "script.json")
	const file = `{
	  "sequential": true,
	  "turns": [
	    {"say": "hi"},
	    {"steps": [{"thinking": "t"}, {"text": "x"}, {"call": "read", "args": {"path": "f"}, "id": "c1"}, {"call": "y", "args": "no JSON"}, {"call": "z"}, {"stall": true}],
	     "chunk": 4, "stop": "length",
	     "usage": {"input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4},
	     "fail": {"class": "overloaded", "message": "m", "status": 503, "retryAfterMs": 5, "times": 1}}
	  ]
	}`
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := scripted.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	want := scripted.Script{Sequential: true, Turns: []scripted.Turn{
		{Steps: []scripted.Step{scripted.Text("hi")}},
		{
			Steps: []scripted.Step{
				scripted.Thinking("t"), scripted.Text("x"), scripted.Call{ID: "c1", Name: "read", Args: scripted.Arguments("path", "f")},
				scripted.Call{Name: "y", Args: "no JSON"}, scripted.Call{Name: "z"}, scripted.Stall{},
			},
			Chunk: 4, Stop: message.Length,
			Usage: &usage.Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4, TotalTokens: 10, Evidence: usage.Reported(usage.API, usage.Complete)},
			Fail:  &scripted.Failure{Class: provider.Overloaded, Message: "m", Status: 503, RetryAfterMs: new(int64(5)), Times: 1},
		},
	}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(usage.Evidence{}, usage.Amount{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := scripted.Load(path + ".absent"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an absent file: %v", err)
	}
}

func TestAScriptWithAMistakeIsRefused(t *testing.T) {
	for _, file := range []string{
		``, `[]`, `{}`, `{"turns":5}`, `{"turns":[],"extra":1}`, `{"turns":[{"sey":"x"}]}`, `{"turns":[{"steps":[{}]}]}`,
		`{"turns":[{"steps":[{"text":"a","call":"b"}]}]}`, `{"turns":[{"steps":[{"stall":false}]}]}`, `{"turns":[{"stop":"pending"}]}`,
		`{"turns":[{"stop":"gone"}]}`, `{"turns":[{"usage":{"input":-1}}]}`, `{"turns":[{"fail":{"class":"bad luck"}}]}`, `{"turns":[{"fail":{}}]}`,
	} {
		if _, err := scripted.Parse([]byte(file)); err == nil {
			t.Errorf("taken: %s", file)
		}
	}
}

func TestTheSameScriptGivesTheSameMessage(t *testing.T) {
	steps := rapid.SliceOf(rapid.OneOf(
		rapid.Map(rapid.String(), func(s string) scripted.Step { return scripted.Text(s) }),
		rapid.Map(rapid.String(), func(s string) scripted.Step { return scripted.Thinking(s) }),
		rapid.Map(rapid.String(), func(s string) scripted.Step { return scripted.Call{Name: "x", Args: s} }),
	))
	rapid.Check(t, func(t *rapid.T) {
		script := turn(steps.Draw(t, "steps")...)
		stored := func(chunk int) string {
			script.Turns[0].Chunk = chunk
			var drawn strings.Builder
			m, err := scripted.New(script, now).Stream(context.Background(), request(0), func(d provider.Delta) {
				switch d := d.(type) {
				case provider.TextDelta:
					drawn.WriteString(d.Text)
				case provider.ThinkingDelta:
					drawn.WriteString(d.Text)
				case provider.ToolCallDelta:
					drawn.WriteString(d.Fragment)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			var w jsonv.Writer
			message.Append(&w, m)
			return drawn.String() + string(w.Bytes())
		}
		if diff := cmp.Diff(stored(0), stored(rapid.IntRange(1, 5).Draw(t, "chunk"))); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"turns":[{"say":"hi"}]}`))
	f.Add([]byte(`{"turns":[{"steps":[{"call":"x","args":{}},{"stall":true}],"fail":{"class":"server"}}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		script, err := scripted.Parse(raw)
		if err == nil && script.Turns == nil {
			t.Error("taken without turns")
		}
	})
}
