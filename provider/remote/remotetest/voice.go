// Package remotetest is the conformance suite that every dialect runs, against servers on loopback.
//
// # Purpose
//
// One set of behaviours for four implementations: what a model may say leads to the same neutral answer whatever words a dialect says it in, and what a server,
// a proxy or a network may do wrong leads to the same class of failure, in one sentence that names the route and the next step.
//
// # Key types
//
// [Voice] is how one dialect says things; [Run] is the suite.
//
// # Relationships
//
// Imports provider, provider/providertest, provider/remote and provider/dialect/dialecttest. Imported by the tests of the dialects.
//
// # Traffic
//
// Real HTTP servers on loopback.
//
// # Invariants
//
// What a dialect cannot say is left nil in its Voice and skipped by name.
package remotetest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/dialect/dialecttest"
	"github.com/loom-run/loom/provider/remote"
)

// Voice is how one dialect says things.
type Voice struct {
	New func() remote.Dialect
	// Stream is the data of the events of an answer.
	Stream func(Answer) []string
	// Whole is an answer that is not streamed; empty for one that cannot be said so.
	Whole func(Answer) string
	// Fault is the data of an event by which a server gives up in the middle of an answer, because it is overloaded.
	Fault string
	// Novel and Withheld are words in which an answer can end: one that nobody knows, and the one for an answer that content rules forbid.
	Novel, Withheld string
	// CutCall says that a call can be cut in the middle of its arguments.
	CutCall bool
}

// Answer is what a server says. Its usage is ten tokens in and five out.
type Answer struct {
	Thinking string
	Text     []string // in pieces
	Calls    []Call
	Stop     message.StopReason // Stop, Length or ToolUse
	Word     string             // in place of the dialect's word for Stop
	Open     bool               // the end does not come
}

// Call is a call of a tool, with the text of its arguments.
type Call struct{ ID, Name, Arguments string }

// what the tests know of a server and its client.
const (
	key      = "sk-test-0123456789"
	keyName  = "TEST_KEY"
	route    = "house"
	clockAt  = 1_750_000_000_000
	question = "hi"
)

// model is who is asked, by whatever dialect.
func (v Voice) model() provider.Model {
	return provider.Model{Identity: provider.Identity{Provider: "house", ModelID: "m"}, API: v.New().API()}
}

func (v Voice) request() provider.Request {
	return provider.Request{
		Model: v.model(), Tools: []provider.Tool{{Name: "read", Schema: jsonv.Obj()}},
		Messages: []message.Message{&message.User{Content: []message.UserBlock{message.Text{Text: question}}}},
	}
}

// client is a client of an address.
func (v Voice) client(t testing.TB, base string, options ...func(*remote.Config)) *remote.Client {
	t.Helper()
	c := remote.Config{
		Dialect: v.New(), BaseURL: base, Route: route, Key: provider.NewSecret(key), KeyName: keyName, Now: func() int64 { return clockAt },
	}
	for _, option := range options {
		option(&c)
	}
	made, err := remote.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = made.Close() })
	return made
}

// serve starts a server on loopback and a client of it.
func (v Voice) serve(t testing.TB, h http.HandlerFunc, options ...func(*remote.Config)) *remote.Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return v.client(t, server.URL, options...)
}

// streamed answers with events, in pieces of a size; 0 is whole.
func streamed(piece int, data ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		body := dialecttest.Stream(data...)
		for piece > 0 && len(body) > piece {
			_, _ = w.Write(body[:piece])
			_ = http.NewResponseController(w).Flush()
			body = body[piece:]
		}
		_, _ = w.Write(body)
	}
}

// typed answers with a body of a type.
func typed(status int, mediaType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func (v Voice) says(a Answer) http.HandlerFunc { return streamed(0, v.Stream(a)...) }
