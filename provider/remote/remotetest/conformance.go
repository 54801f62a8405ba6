package remotetest

import (
	"net"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/dialect/dialecttest"
	"github.com/loom-run/loom/provider/providertest"
)

// Run runs the suite.
func Run(t *testing.T, v Voice) {
	t.Run("contract", func(t *testing.T) { v.contract(t) })
	for name, b := range behaviours {
		t.Run("behaves/"+name, func(t *testing.T) { v.behaves(t, b) })
	}
	v.faults(t)
}

var (
	said   = Answer{Text: []string{"a", "bé"}, Stop: message.Stop}
	called = Answer{Text: []string{"a"}, Calls: []Call{{"x", "read", `{"path":"a"}`}, {"y", "read", `{"path":"b"}`}}, Stop: message.ToolUse}
)

// contract runs the suite of every provider.
func (v Voice) contract(t *testing.T) {
	scene := func(h http.HandlerFunc) providertest.Scene {
		return func(t testing.TB) (provider.Provider, provider.Request) { return v.serve(t, h), v.request() }
	}
	status := func(code int) providertest.Scene {
		return scene(typed(code, "application/json", `{"error":{"message":"no"}}`))
	}
	word := func(w string) providertest.Scene {
		return scene(v.says(Answer{Text: []string{"a"}, Stop: message.Stop, Word: w}))
	}
	open := Answer{Text: []string{"a"}, Open: true}
	providertest.Run(t, providertest.Subject{
		At: clockAt, API: v.New().API(),
		Settles: map[string]providertest.Scene{
			"text": scene(v.says(said)), "thinking": scene(v.says(Answer{Thinking: "t", Text: []string{"b"}, Stop: message.Stop})), "calls": scene(v.says(called)),
			"whole": scene(typed(200, "application/json", v.Whole(called))),
		},
		Cuts: func(t testing.TB, seed int) (provider.Provider, provider.Request) {
			return v.serve(t, streamed([]int{0, 1, 2, 7, 50}[seed], v.Stream(called)...)), v.request()
		},
		Stalls: scene(func(w http.ResponseWriter, r *http.Request) {
			v.says(open)(w, r)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}),
		Fails: map[provider.Class]providertest.Scene{
			provider.Auth: status(401), provider.NotFound: status(404), provider.Overflow: status(413), provider.RateLimit: status(429), provider.Quota: status(402),
			provider.Server: status(500), provider.InvalidRequest: status(400), provider.Disconnect: scene(v.says(open)),
			provider.Overloaded:         scene(streamed(0, append(v.Stream(open), v.Fault)...)),
			provider.MalformedStream:    scene(streamed(0, append(v.Stream(open), "{")...)),
			provider.UnmappedStopReason: word(v.Novel),
			provider.Refused:            word(v.Withheld),
			provider.Transport:          scene(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
			provider.Unreachable: func(t testing.TB) (provider.Provider, provider.Request) {
				return v.client(t, "http://"+nobody(t)), v.request()
			},
		},
	})
}

// nobody is a loopback address where nobody listens.
func nobody(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// behaviour is what is said, and what it leads to in every dialect.
type behaviour struct {
	says Answer
	want string // the content, see [dialecttest.Sketch]
	stop message.StopReason
	cut  bool // it needs a call that can be cut
}

var behaviours = map[string]behaviour{
	"text":                        {said, `"abé"`, message.Stop, false},
	"thinking":                    {Answer{Thinking: "t", Text: []string{"a"}, Stop: message.Stop}, `(t) "a"`, message.Stop, false},
	"parallel calls":              {called, `"a" read{"path":"a"} read{"path":"b"}`, message.ToolUse, false},
	"a call without arguments":    {Answer{Calls: []Call{{"x", "read", ``}}, Stop: message.ToolUse}, `read{}`, message.ToolUse, false},
	"a call with empty arguments": {Answer{Calls: []Call{{"x", "read", `{}`}}, Stop: message.ToolUse}, `read{}`, message.ToolUse, false},
	"large numbers stay exact": {Answer{Calls: []Call{{"x", "read", `{"n":12345678901234567890,"f":0.10}`}}, Stop: message.ToolUse},
		`read{"n":12345678901234567890,"f":0.10}`, message.ToolUse, false},
	"a call whose id was used":      {Answer{Calls: []Call{{"x", "read", `{"p":1}`}, {"x", "read", `{"p":2}`}}, Stop: message.ToolUse}, `read{"p":1} read{"p":2}`, message.ToolUse, false},
	"a call that ends as text":      {Answer{Calls: []Call{{"x", "read", `{}`}}, Stop: message.Stop}, `read{}`, message.ToolUse, false},
	"the length of the answer":      {Answer{Text: []string{"a"}, Stop: message.Length}, `"a"`, message.Length, false},
	"arguments that are broken":     {Answer{Calls: []Call{{"x", "read", `{"path":`}}, Stop: message.ToolUse}, `read!{"path":`, message.ToolUse, true},
	"arguments that the length cut": {Answer{Calls: []Call{{"x", "read", `{"path":"a`}}, Stop: message.Length}, `read!{"path":"a`, message.Length, true},
	"arguments that are no object":  {Answer{Calls: []Call{{"x", "read", `[1]`}}, Stop: message.ToolUse}, `read![1]`, message.ToolUse, false},
}

// behaves checks what an answer leads to, streamed and whole.
func (v Voice) behaves(t *testing.T, b behaviour) {
	if b.cut && !v.CutCall {
		t.Skip("this dialect has no call that can be cut: arguments are values in it")
	}
	answers := map[string]http.HandlerFunc{"streamed": v.says(b.says)}
	if whole := v.Whole(b.says); whole != "" {
		answers["whole"] = typed(200, "application/json", whole)
	}
	for how, h := range answers {
		m, err := v.serve(t, h).Stream(t.Context(), v.request(), func(provider.Delta) {})
		if err != nil {
			t.Errorf("%s: %v", how, err)
			continue
		}
		if got := dialecttest.Sketch(m.Content); got != b.want || m.StopReason != b.stop {
			t.Errorf("%s: %s, %s", how, got, m.StopReason)
		}
		want := usage.Usage{Input: 10, Output: 5, TotalTokens: 15, Evidence: usage.Reported(usage.API, usage.Complete)}
		got := m.Usage
		got.Reasoning = nil // some dialects tell it apart
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b usage.Evidence) bool { return a == b }), cmp.Comparer(func(a, b usage.Amount) bool { return a == b })); diff != "" {
			t.Errorf("%s: the usage (-want +got):\n%s", how, diff)
		}
	}
}
