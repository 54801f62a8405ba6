package engine_test

import (
	"context"
	"testing"

	"github.com/loom-run/loom/core/accounting"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/storage"
)

// falling is a provider whose requests fall before the last one answers or fails.
type falling struct {
	fallen []provider.Fallen
	last   error // nil: it answers
}

func (f falling) Stream(_ context.Context, req provider.Request, _ func(provider.Delta)) (*message.Assistant, error) {
	for _, one := range f.fallen {
		req.Fell(one)
	}
	if f.last != nil {
		return nil, f.last
	}
	return &message.Assistant{
		Provider: "second", Model: "m2", Content: []message.AssistantBlock{message.Text{Text: "ok"}}, StopReason: message.Stop,
		Usage: usage.Usage{Input: 5, Output: 2, TotalTokens: 7, Evidence: usage.Reported(usage.API, usage.Complete)},
	}, nil
}

func (f falling) Resolve(machine.ModelRef) (provider.Model, provider.Provider, error) {
	return provider.Model{API: "fake"}, f, nil
}

func TestAnAttemptOfSeveralRequestsHasOneRowThatNamesThem(t *testing.T) {
	partial := &message.Assistant{Usage: usage.Usage{Input: 3, TotalTokens: 3, Evidence: usage.Reported(usage.API, usage.Partial)}}
	first := provider.Fallen{
		Model: provider.Identity{Provider: "first", ModelID: "m1"},
		Error: &provider.Error{Class: provider.Overloaded, Message: "busy", Partial: partial},
	}
	unsent := provider.Fallen{
		Model: provider.Identity{Provider: "nowhere", ModelID: "m0"},
		Error: &provider.Error{Class: provider.Transport, Message: "gone", Unsent: true},
	}
	for name, c := range map[string]struct {
		p     falling
		total int64
		count int64 // of requests; 0 for a row without details
		last  int64
		exact bool
	}{
		"one request":            {falling{}, 7, 0, 7, true},
		"the second answers":     {falling{fallen: []provider.Fallen{first}}, 10, 2, 7, false},
		"the third answers":      {falling{fallen: []provider.Fallen{unsent, first}}, 10, 3, 7, false},
		"the first was not sent": {falling{fallen: []provider.Fallen{unsent}}, 7, 2, 7, true},
		"the last fails, and says more": {falling{fallen: []provider.Fallen{first}, last: &provider.Error{
			Class: provider.Auth, Message: "no", Asked: provider.Model{Identity: provider.Identity{Provider: "second", ModelID: "m2"}, API: "fake"},
		}}, 3, 2, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			p := boot(t, w, nil, func(e *engine.Config) { e.Models = c.p })
			finish(t, p, prompt(t, p, text("go")))
			rows, err := w.store.ScanUsage(storage.UsageQuery{})
			if err != nil || len(rows) != 1 {
				t.Fatalf("%d rows, %v", len(rows), err)
			}
			row := rows[0]
			report, err := accounting.DecodeRow(row)
			if err != nil {
				t.Fatal(err)
			}
			last, _ := report.Last()
			if row.Usage.TotalTokens != c.total || last.TotalTokens != c.last {
				t.Errorf("%d tokens, the last %d", row.Usage.TotalTokens, last.TotalTokens)
			}
			if coverage, _ := row.Usage.Evidence.Tokens(); (coverage == usage.Complete) != c.exact {
				t.Errorf("evidence %v", row.Usage.Evidence)
			}
			if c.count == 0 {
				if row.Details != nil {
					t.Errorf("details %s", row.Details)
				}
				return
			}
			requests, ok, err := accounting.DecodeRequests(row)
			if err != nil || !ok || report.Attempts() != c.count || int64(len(requests)) != c.count {
				t.Fatalf("%d requests, listed %v, %v", report.Attempts(), requests, err)
			}
			if requests[0].Class == "" {
				t.Errorf("the first request is not told as fallen: %v", requests)
			}
			if last := requests[len(requests)-1]; last.Provider != "second" || last.Model != "m2" || last.Class != "" {
				t.Errorf("the last request is %v", last)
			}
		})
	}
}
