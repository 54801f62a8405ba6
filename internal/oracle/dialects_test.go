package oracle_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/dialect/dialecttest"
	"github.com/loom-run/loom/provider/remote"
	"pgregory.net/rapid"
)

// reading is what a stream says, as far as both readers tell it.
type reading struct {
	Said   []string // blocks in their order: texts, thoughts, calls
	Stop   string
	Tokens map[string]int64
}

func (r *reading) text(s string) {
	if s != "" {
		r.Said = append(r.Said, fmt.Sprintf("text %q", s))
	}
}

func (r *reading) thought(s string) {
	if s != "" {
		r.Said = append(r.Said, fmt.Sprintf("thought %q", s))
	}
}

func (r *reading) call(name, arguments string) {
	r.Said = append(r.Said, "call "+name+" "+plain(arguments))
}

// plain is JSON in one form; what is none stays as it is.
func plain(text string) string {
	if strings.TrimSpace(text) == "" {
		text = "{}"
	}
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return text
	}
	out, err := json.Marshal(v)
	if err != nil {
		return text
	}
	return string(out)
}

// ours is how our fold reads a stream. What the provider ran itself is not told: the libraries have a type for each kind of that.
func ours(m *message.Assistant) (r reading) {
	for _, b := range m.Content {
		switch b := b.(type) {
		case message.Text:
			r.text(b.Text)
		case message.Thinking:
			if !b.Redacted {
				r.thought(b.Thinking)
			}
		case message.ToolCall:
			arguments := b.Arguments.String()
			if raw, _, bad := message.AsMalformed(b.Arguments); bad {
				arguments = raw
			}
			r.call(b.Name, arguments)
		}
	}
	if m.RawStopReason != nil {
		r.Stop = *m.RawStopReason
	}
	return r
}

// without is a reading without what begins with a word.
func (r reading) without(word string) reading {
	r.Said = slices.DeleteFunc(slices.Clone(r.Said), func(s string) bool { return strings.HasPrefix(s, word+" ") })
	return r
}

// comparison is a library that reads the recorded streams of a kind.
type comparison struct {
	kind    string
	dialect remote.Dialect
	theirs  func(t *testing.T, base string) (reading, error)
	// unknown is what the library has no word for; empty for nothing.
	unknown string
	// but names the streams that the library reads in another way, and why ours is right.
	but map[string]string
}

// run demands of every stream that the library reads it as our fold does.
func (c comparison) run(t *testing.T) {
	t.Helper()
	compared := 0
	for _, r := range dialecttest.ReadRecorded(t, c.kind) {
		a := dialecttest.Fold(c.dialect, provider.Request{}, r.Body)
		if a.Settled == nil {
			continue // the libraries leave it to their caller to see that an answer is none
		}
		t.Run(r.ID, func(t *testing.T) {
			if why := c.but[r.ID]; why != "" {
				t.Skip(why)
			}
			got, err := c.theirs(t, serving(t, r.Body))
			if err != nil {
				t.Fatalf("the library fails: %v", err)
			}
			want := ours(a.Settled).without(c.unknown)
			want.Tokens = map[string]int64{}
			for name := range got.Tokens {
				want.Tokens[name] = counted(a.Settled, name)
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-ours +theirs):\n%s", diff)
			}
			compared++
		})
	}
	if compared == 0 {
		t.Error("nothing was compared")
	}
}

func counted(m *message.Assistant, name string) int64 {
	u := m.Usage
	switch name {
	case "input":
		return u.Input
	case "prompt":
		return u.Input + u.CacheRead + u.CacheWrite
	case "output":
		return u.Output
	case "cache read":
		return u.CacheRead
	case "cache write":
		return u.CacheWrite
	}
	return -1
}

// serving is a server that answers everything with a stream.
func serving(t *testing.T, body []byte) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// asked draws a request that tells any conversation.
func asked(d remote.Dialect) *rapid.Generator[provider.Request] {
	return rapid.Custom(func(t *rapid.T) provider.Request {
		model := dialecttest.Model
		model.API = d.API()
		return provider.Request{
			Model: model, System: rapid.SampledFrom([]string{"", "be brief"}).Draw(t, "system"),
			Thinking: rapid.SampledFrom(provider.ThinkingLevels()).Draw(t, "thinking"),
			Messages: dialecttest.Conversations(d.API()).Draw(t, "messages"),
			Tools:    []provider.Tool{{Name: "a"}, {Name: "b", Description: "does b"}}[:rapid.IntRange(0, 2).Draw(t, "tools")],
		}
	})
}

// survives demands that a part of a request is the same after a library read it into its own type and wrote it again.
func survives[T any](t *rapid.T, part json.RawMessage) {
	t.Helper()
	var typed T
	if err := json.Unmarshal(part, &typed); err != nil {
		t.Fatalf("the library cannot read it: %v\n%s", err, part)
	}
	again, err := json.Marshal(typed)
	if err != nil {
		t.Fatalf("the library cannot write it: %v\n%s", err, part)
	}
	var want, got any
	if json.Unmarshal(part, &want) != nil || json.Unmarshal(again, &got) != nil {
		t.Fatalf("%s is no JSON", again)
	}
	if diff := cmp.Diff(stated(want), stated(got)); diff != "" {
		t.Errorf("(-ours +theirs):\n%s\n%s", diff, part)
	}
}

// stated is a value without the members that are null or empty: a library leaves them out, and means the same.
func stated(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if v[name] = stated(member); empty(v[name]) {
				delete(v, name)
			}
		}
	case []any:
		for i := range v {
			v[i] = stated(v[i])
		}
	}
	return v
}

func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// fields are the fields of a body, without those that a library adds itself.
func fields(t *rapid.T, body []byte, without ...string) map[string]json.RawMessage {
	t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal(body, &all); err != nil {
		t.Fatal(err)
	}
	for _, name := range without {
		delete(all, name)
	}
	return all
}

func whole(t *rapid.T, all map[string]json.RawMessage) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
