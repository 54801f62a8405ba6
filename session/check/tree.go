package check

import (
	"maps"
	"slices"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/storage"
)

// tree checks answers along parent links: a result answers the nearest response
// above it.
func (c *checker) tree() error {
	rows, err := c.view.Rows().ScanEntries(storage.EntryQuery{})
	if err != nil {
		return err
	}
	ledger, err := c.view.Rows().ScanUsage(storage.UsageQuery{})
	if err != nil {
		return err
	}
	billed := make(map[id.EntryID]int, len(ledger))
	for _, row := range ledger {
		if !row.Adjustment {
			billed[row.EntryID]++
		}
	}
	above := make(map[id.EntryID]id.EntryID, len(rows)) // the nearest response, itself included
	answered := make(map[id.EntryID]map[string]int)
	for _, e := range rows {
		above[e.ID] = above[e.Parent]
		body, _ := e.Body.(entry.Message)
		switch m := body.Message.(type) {
		case *message.Assistant:
			above[e.ID] = e.ID
		case *message.ToolResult:
			source := above[e.Parent]
			if answered[source] == nil {
				answered[source] = make(map[string]int)
			}
			answered[source][m.ToolCallID]++
		case *message.User, *message.Custom: // neither asks nor answers
		}
	}
	for _, e := range rows {
		body, _ := e.Body.(entry.Message)
		if a, ok := body.Message.(*message.Assistant); ok {
			c.response(e.ID, a, billed[e.ID], answered[e.ID])
		}
	}
	for _, call := range slices.Sorted(maps.Keys(answered[id.EntryID{}])) {
		c.find(CallsAnswered, "call "+call, "it has results with no response above them")
	}
	return nil
}

// response checks one response against its ledger rows and the results below it.
func (c *checker) response(i id.EntryID, a *message.Assistant, billed int, answered map[string]int) {
	subject := "entry " + i.String()
	if billed > 1 || billed == 0 && !c.forked {
		c.find(LedgerForResponse, subject, "expected one ledger row, there are %d", billed)
	}
	asked := make(map[string]int)
	if kept(a.StopReason) {
		calls, _ := a.ToolCalls()
		for _, call := range calls {
			asked[call.ID]++
		}
	}
	ids := maps.Clone(asked)
	maps.Copy(ids, answered)
	for _, call := range slices.Sorted(maps.Keys(ids)) {
		few := answered[call] < asked[call] && !c.open[i] && !c.forked
		if many := answered[call] > asked[call]; few || many {
			c.find(CallsAnswered, subject, "call %q was made %d times and has %d results", call, asked[call], answered[call])
		}
	}
}

// kept reports whether a response is part of the conversation, so that its calls
// have results.
func kept(r message.StopReason) bool {
	return r != message.Error && r != message.Aborted && r != message.Deferred
}
