package route_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/price"
	"github.com/loom-run/loom/provider/route"
)

// fake is a provider that notes what it was asked.
type fake struct {
	says   string
	fails  *provider.Error // nil: it answers
	asked  []provider.Request
	begins bool // it shows something before it fails
}

func (f *fake) Stream(_ context.Context, req provider.Request, sink func(provider.Delta)) (*message.Assistant, error) {
	f.asked = append(f.asked, req)
	if f.fails == nil || f.begins {
		sink(provider.TextDelta{Text: f.says})
	}
	used := usage.Usage{Input: 1_000_000, TotalTokens: 1_000_000, Evidence: usage.Reported(usage.API, usage.Complete)}
	m := &message.Assistant{Provider: req.Model.Provider, Model: req.Model.ModelID, Content: []message.AssistantBlock{message.Text{Text: f.says}}, StopReason: message.Stop, Usage: used}
	if f.fails != nil {
		e := *f.fails
		if f.begins {
			e.Partial = m
		}
		return nil, &e
	}
	return m, nil
}

func model(name string) provider.Model {
	return provider.Model{Identity: provider.Identity{Provider: name, ModelID: name + "-1"}}
}

func link(name string, p provider.Provider, change ...func(*route.Link)) route.Link {
	l := route.Link{Model: model(name), Open: func() (provider.Provider, error) { return p, nil }}
	for _, c := range change {
		c(&l)
	}
	return l
}

func keyless(name string) route.Link {
	return route.Link{Model: model(name), Open: func() (provider.Provider, error) {
		return nil, &provider.Error{Class: provider.MissingKey, Message: name + " has no key"}
	}}
}

func priced(dollars int64) func(*route.Link) {
	return func(l *route.Link) {
		l.Price = &price.Card{Rates: price.Rates{Input: usage.Micros(dollars * 1_000_000)}}
	}
}

// ask makes one attempt and tells what fell on the way.
func ask(t *testing.T, c *route.Chain, req provider.Request) (m *message.Assistant, e *provider.Error, fallen []provider.Fallen, drawn string) {
	t.Helper()
	req.Fell = func(f provider.Fallen) { fallen = append(fallen, f) }
	m, err := c.Stream(t.Context(), req, func(d provider.Delta) { drawn += d.(provider.TextDelta).Text })
	if err != nil {
		var ok bool
		if e, ok = errors.AsType[*provider.Error](err); !ok {
			t.Fatalf("%T: %v", err, err)
		}
	}
	return m, e, fallen, drawn
}

func failing(class provider.Class) *provider.Error {
	return &provider.Error{Class: class, Message: "it is " + string(class)}
}

func TestTheNextIsAskedOnlyForAFailureOfTheMoment(t *testing.T) {
	for _, class := range provider.Classes() {
		first, second := &fake{says: "one", fails: failing(class)}, &fake{says: "two"}
		m, e, fallen, drawn := ask(t, route.New([]route.Link{link("a", first), link("b", second)}, nil), provider.Request{})
		walks := class.Retryable() || class == provider.Unreachable
		switch {
		case walks && (m == nil || m.Provider != "b" || drawn != "two" || len(fallen) != 1 || fallen[0].Model.Provider != "a" || fallen[0].Error.Class != class):
			t.Errorf("%s: %v, %v, fell %v", class, m, e, fallen)
		case !walks && (e == nil || e.Class != class || len(second.asked) != 0 || len(fallen) != 0):
			t.Errorf("%s: %v, %v, fell %v", class, m, e, fallen)
		}
	}
}

func TestTheFirstIsAskedFirstEveryTime(t *testing.T) {
	first, second := &fake{fails: failing(provider.Overloaded)}, &fake{says: "two"}
	c := route.New([]route.Link{link("a", first), link("b", second)}, nil)
	for range 3 {
		ask(t, c, provider.Request{})
	}
	if len(first.asked) != 3 || len(second.asked) != 3 {
		t.Errorf("asked %d and %d times", len(first.asked), len(second.asked))
	}
}

func TestAnAnswerThatBeganIsTheLastOfItsAttempt(t *testing.T) {
	first, second := &fake{says: "Hello", fails: failing(provider.Overloaded), begins: true}, &fake{says: "Hello"}
	_, e, fallen, drawn := ask(t, route.New([]route.Link{link("a", first), link("b", second)}, nil), provider.Request{})
	if e == nil || !e.Retryable() || drawn != "Hello" || len(second.asked) != 0 || len(fallen) != 0 || e.Partial == nil {
		t.Errorf("%v, drawn %q, fell %v", e, drawn, fallen)
	}
}

func TestAMissingKeyNeverFallsThrough(t *testing.T) {
	last := &fake{says: "three"}
	_, e, fallen, _ := ask(t, route.New([]route.Link{keyless("a"), link("c", last)}, nil), provider.Request{})
	if e == nil || e.Class != provider.MissingKey || len(last.asked) != 0 || len(fallen) != 0 {
		t.Errorf("at the head: %v, fell %v", e, fallen)
	}
	first := &fake{fails: failing(provider.Server)}
	_, e, fallen, _ = ask(t, route.New([]route.Link{link("a", first), keyless("b"), link("c", last)}, nil), provider.Request{})
	if e == nil || e.Class != provider.Server || len(last.asked) != 0 || len(fallen) != 0 {
		t.Errorf("behind a failure: %v, fell %v", e, fallen)
	}
}

func TestTheLastErrorIsReportedWithThoseBeforeIt(t *testing.T) {
	a, b := &fake{fails: failing(provider.RateLimit)}, &fake{fails: failing(provider.Server)}
	_, e, fallen, _ := ask(t, route.New([]route.Link{link("a", a), link("b", b)}, nil), provider.Request{})
	if e == nil || e.Class != provider.Server || e.Message != "it is server; asked before it: a/a-1 (rate_limit)" || len(fallen) != 1 || e.Asked.Provider != "b" {
		t.Errorf("%v, fell %v", e, fallen)
	}
}

func TestEachRequestIsPricedByTheCardOfItsModel(t *testing.T) {
	a, b := &fake{fails: failing(provider.Server)}, &fake{says: "two"}
	m, _, _, _ := ask(t, route.New([]route.Link{link("a", a, priced(3)), link("b", b, priced(7))}, nil), provider.Request{})
	if got := m.Usage.Cost.Total.Literal(); got != "7.0" {
		t.Errorf("the answer costs %s", got)
	}
	if d := m.Diagnostics.String(); d != `{"fell_back_from":[{"provider":"a","model":"a-1","class":"server","message":"it is server"}]}` {
		t.Errorf("diagnostics %s", d)
	}
	broken := &fake{says: "half", fails: failing(provider.Server), begins: true}
	_, e, _, _ := ask(t, route.New([]route.Link{link("a", broken, priced(3))}, nil), provider.Request{})
	if got := e.Partial.Usage.Cost.Total.Literal(); got != "3.0" {
		t.Errorf("the failed request costs %s", got)
	}
	free, _, _, _ := ask(t, route.New([]route.Link{link("b", b)}, nil), provider.Request{})
	if _, _, known := free.Usage.Evidence.Price(); known {
		t.Error("a model without a card has a price")
	}
}

func TestReasoningIsNotAskedOfWhoCannot(t *testing.T) {
	a, b := &fake{fails: failing(provider.Server)}, &fake{says: "two"}
	c := route.New([]route.Link{link("a", a), link("b", b, func(l *route.Link) { l.Unthinking = true })}, nil)
	ask(t, c, provider.Request{Thinking: provider.ThinkHigh})
	if a.asked[0].Thinking != provider.ThinkHigh || b.asked[0].Thinking != provider.ThinkOff {
		t.Errorf("asked with %s and %s", a.asked[0].Thinking, b.asked[0].Thinking)
	}
}

func picture(n int) message.Image { return message.Image{Data: fmt.Sprint(n), MimeType: "image/png"} }

func shows(pictures ...int) *message.User {
	m := &message.User{Content: []message.UserBlock{message.Text{Text: "see"}}}
	for _, n := range pictures {
		m.Content = append(m.Content, picture(n))
	}
	return m
}

// seen lists the pictures of a request in order, with - for one that was left out.
func seen(req provider.Request) string {
	var out []string
	add := func(b message.Block) {
		switch b := b.(type) {
		case message.Image:
			out = append(out, b.Data)
		case message.Text:
			if strings.HasPrefix(b.Text, "(a picture stood here") {
				out = append(out, "-")
			}
		}
	}
	for _, m := range req.Messages {
		switch m := m.(type) {
		case *message.User:
			for _, b := range m.Content {
				add(b)
			}
		case *message.ToolResult:
			for _, b := range m.Content {
				add(b)
			}
		}
	}
	return strings.Join(out, " ")
}

func TestTheOldestPicturesAreLeftOut(t *testing.T) {
	three := func(l *route.Link) { l.MaxImages = 3 }
	blind := func(l *route.Link) { l.Vision = new(false) }
	result := &message.ToolResult{Content: []message.ResultBlock{picture(7), picture(8)}}
	for name, c := range map[string]struct {
		messages []message.Message
		link     func(*route.Link)
		want     string
		refused  bool
	}{
		"as many as it takes":          {[]message.Message{shows(1, 2), shows(3)}, three, "1 2 3", false},
		"the oldest of a message":      {[]message.Message{shows(1, 2), shows(3, 4)}, three, "- 2 3 4", false},
		"those of the past":            {[]message.Message{shows(1, 2), shows(), result, &message.Assistant{}}, func(l *route.Link) { l.MaxImages = 2 }, "- - 7 8", false},
		"too many since the last turn": {[]message.Message{shows(1, 2), result}, three, "", true},
		"none for who cannot see":      {[]message.Message{shows(1, 2), result}, blind, "- - - -", false},
		"eight without a word":         {[]message.Message{shows(1, 2, 3, 4, 5, 6, 7, 8), shows(9)}, func(*route.Link) {}, "- 2 3 4 5 6 7 8 9", false},
	} {
		t.Run(name, func(t *testing.T) {
			p := &fake{says: "ok"}
			chain := route.New([]route.Link{link("a", p, c.link)}, nil)
			_, e, _, _ := ask(t, chain, provider.Request{Messages: c.messages})
			if c.refused {
				if e == nil || e.Detail != "image_limit" || len(p.asked) != 0 || !e.Unsent {
					t.Errorf("got %v", e)
				}
				return
			}
			if e != nil {
				t.Fatal(e)
			}
			if got := seen(p.asked[0]); got != c.want {
				t.Errorf("shown %q, want %q", got, c.want)
			}
			ask(t, chain, provider.Request{Messages: append(c.messages[:len(c.messages):len(c.messages)], &message.Assistant{})})
			for i, m := range p.asked[0].Messages {
				if m != p.asked[1].Messages[i] {
					t.Errorf("message %d is another value in the next request", i)
				}
			}
		})
	}
}

func TestPicturesGoToAModelThatSees(t *testing.T) {
	text, eyes := &fake{says: "text"}, &fake{says: "eyes"}
	vision := route.New([]route.Link{link("eyes", eyes)}, nil)
	for name, c := range map[string]struct {
		vision   *bool
		messages []message.Message
		want     string
	}{
		"no pictures":               {new(false), []message.Message{shows()}, "text"},
		"pictures":                  {new(false), []message.Message{shows(1)}, "eyes"},
		"one that sees":             {new(true), []message.Message{shows(1)}, "text"},
		"nobody knows if it can":    {nil, []message.Message{shows(1)}, "text"},
		"pictures of an older turn": {new(false), []message.Message{shows(1), &message.Assistant{}, shows()}, "eyes"},
	} {
		m, _, _, _ := ask(t, route.New([]route.Link{link("text", text, func(l *route.Link) { l.Vision = c.vision })}, vision), provider.Request{Messages: c.messages})
		if got := message.TextOf(m.Content); got != c.want {
			t.Errorf("%s: answered by %s", name, got)
		}
	}
}

// TestWhatEveryWalkKeepsTo draws chains of any outcomes.
func TestWhatEveryWalkKeepsTo(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var fakes []*fake
		var links []route.Link
		for i := range rapid.IntRange(1, 5).Draw(rt, "links") {
			f := &fake{says: fmt.Sprint(i)}
			if class := rapid.SampledFrom(append(provider.Classes(), "")).Draw(rt, "class"); class != "" {
				f.fails, f.begins = failing(class), rapid.Bool().Draw(rt, "begins")
			}
			fakes = append(fakes, f)
			links = append(links, link(fmt.Sprint(i), f, priced(int64(i+1))))
		}
		m, e, fallen, drawn := ask(t, route.New(links, nil), provider.Request{})
		if (m == nil) == (e == nil) {
			rt.Fatalf("%v and %v", m, e)
		}
		asked := 0
		for i, f := range fakes {
			if len(f.asked) > 1 {
				rt.Fatalf("%d was asked %d times", i, len(f.asked))
			}
			if len(f.asked) == 1 {
				if asked != i {
					rt.Fatalf("%d was asked after %d", i, asked)
				}
				asked++
			}
		}
		if len(fallen) != asked-1 {
			rt.Fatalf("%d were asked and %d fell", asked, len(fallen))
		}
		if want := fakes[asked-1]; m != nil || want.begins {
			if diff := cmp.Diff(want.says, drawn); diff != "" {
				rt.Fatal(diff)
			}
		} else if drawn != "" {
			rt.Fatalf("%q was drawn", drawn)
		}
		if m != nil {
			var told jsonv.Value
			if m.Diagnostics != nil {
				told, _ = m.Diagnostics.Get("fell_back_from")
			}
			if told.Len() != asked-1 {
				rt.Fatalf("%d were asked; diagnostics %s", asked, told)
			}
		}
	})
}
