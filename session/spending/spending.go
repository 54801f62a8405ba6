// Package spending reads what the models of a session consumed.
//
// # Purpose
//
// The ledger has a row for each attempt. Here its rows become requests with the model that each went to and the time at which it was begun, sums that say how
// exact they are, and the requests that a cache did not serve although it could have.
//
// # Key types
//
// [Item], [Items]; [Total]; [Miss], [Misses].
//
// # Relationships
//
// Imports storage, core/accounting and core/entry. Imported by whoever shows costs.
//
// # Traffic
//
// Reads of one session, page by page.
//
// # Invariants
//
//   - Every row counts once. A session that was forked has only the rows of its own requests.
//   - Totals are derived, never stored, and are the same in whatever order items are added.
//   - What is not known is counted as that and adds nothing: it is never zero.
package spending

import (
	"iter"

	"github.com/loom-run/loom/core/accounting"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/storage"
)

// Item is one request to a model, or what was charged without one that is known: by a tool, by whoever supplied a summary, as a correction.
type Item struct {
	// Row is the ledger row, which several items may share.
	Row id.UsageID
	// At is when the attempt was begun, in Unix milliseconds.
	At int64
	// Entry is what the row paid for; absent for a summary and a correction.
	Entry id.EntryID
	// Request has no provider and no model where nobody knows them.
	accounting.Request
	// Adjustment is a correction; its numbers are signed and it is no request.
	Adjustment bool
}

// page is how many rows are read at once.
const page = 512

// Items yields what the ledger of a session holds, by seq. It ends with an error that it yields.
func Items(rows storage.Reader) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		from := int64(0)
		for {
			list, err := rows.ScanUsage(storage.UsageQuery{FromSeq: &from, Limit: new(page)})
			if err != nil {
				yield(Item{}, err)
				return
			}
			paid, err := rows.Entries(entries(list)...)
			if err != nil {
				yield(Item{}, err)
				return
			}
			for _, row := range list {
				for item, err := range ItemsOf(row, paid) {
					if !yield(item, err) || err != nil {
						return
					}
				}
			}
			if len(list) < page {
				return
			}
			from = list[len(list)-1].Seq + 1
		}
	}
}

func entries(list []entry.UsageRow) (ids []id.EntryID) {
	for _, row := range list {
		if !row.EntryID.IsZero() {
			ids = append(ids, row.EntryID)
		}
	}
	return ids
}

// ItemsOf yields what one row of the ledger holds, given the rows of the tree that it paid for.
func ItemsOf(row entry.UsageRow, paid map[id.EntryID]entry.Entry) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		item := Item{Row: row.ID, At: row.ID.Time(), Entry: row.EntryID, Adjustment: row.Adjustment}
		requests, ok, err := accounting.DecodeRequests(row)
		if err != nil {
			yield(Item{}, err)
			return
		}
		if !ok {
			item.Usage = row.Usage
			if m := response(paid[row.EntryID]); m != nil {
				item.Provider, item.Model = m.Provider, m.Model
			}
			yield(item, nil)
			return
		}
		for _, item.Request = range requests {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// response is the response that an entry holds, if it holds one.
func response(e entry.Entry) *message.Assistant {
	body, ok := e.Body.(entry.Message)
	if !ok {
		return nil
	}
	m, _ := body.Message.(*message.Assistant)
	return m
}

// Total is a sum that says what it does not cover.
type Total struct {
	Usage usage.Usage
	// Requests are those that reached a provider, as far as is known. The others below are of them.
	Requests int64
	// Unreported consumed nobody knows what. InPart reported less than they consumed.
	Unreported, InPart int64
	// Unpriced reported their tokens, and nobody knows the price.
	Unpriced int64
}

// Add adds an item.
func (t *Total) Add(i Item) {
	t.Usage = t.Usage.Add(i.Usage)
	_, remote := i.Usage.Evidence.Billing()
	if i.Adjustment || !remote {
		return
	}
	t.Requests++
	tokens, reported := i.Usage.Evidence.Tokens()
	price, _, priced := i.Usage.Evidence.Price()
	switch {
	case !reported:
		t.Unreported++
	case tokens != usage.Complete:
		t.InPart++
	}
	if reported && (!priced || tokens == usage.Complete && price != usage.Complete) {
		t.Unpriced++
	}
}

// Bound says what a number of a total is.
type Bound uint8

// The bounds.
const (
	Exact   Bound = iota
	AtLeast       // something is missing from it
	Unknown       // nothing is known at all
)

// Tokens says what the counts of tokens are.
func (t *Total) Tokens() Bound {
	return bound(t.Unreported+t.InPart, t.Requests-t.Unreported, t.Requests)
}

// Cost says what the cost is.
func (t *Total) Cost() Bound {
	return bound(t.Unreported+t.InPart+t.Unpriced, t.Requests-t.Unreported-t.Unpriced, t.Requests)
}

func bound(lacking, known, all int64) Bound {
	switch {
	case lacking == 0:
		return Exact
	case known <= 0 && all > 0:
		return Unknown
	}
	return AtLeast
}
