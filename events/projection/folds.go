package projection

import (
	"maps"
	"time"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/session/spending"
	"github.com/loom-run/loom/storage"
)

const boundary = "projection.state"

// Stats folds to the counters that the store keeps itself.
func Stats() Projection[storage.Stats] {
	return Projection[storage.Stats]{
		Name: "stats", Version: 1,
		New: func() storage.Stats { return storage.Stats{Usage: usage.Zero()} },
		Apply: func(s storage.Stats, c Change) storage.Stats {
			switch c := c.(type) {
			case EntryAppended:
				if c.Entry.Body.Kind() == entry.KindMessage {
					s.Messages++
				}
			case UsageAppended:
				s.Usage = s.Usage.Add(c.Row.Usage)
			}
			return s
		},
		Encode: func(s storage.Stats) []byte {
			var w jsonv.Writer
			w.Begin()
			w.Num("messages", s.Messages)
			w.Name("usage")
			usage.Append(&w, s.Usage)
			w.End()
			return w.Bytes()
		},
		Decode: func(text []byte) (s storage.Stats, err error) {
			r, err := object(text)
			if err != nil {
				return s, err
			}
			s = storage.Stats{Messages: r.Num("messages"), Usage: jsonv.One(r, "usage", usage.Decode)}
			return s, r.Err()
		},
	}
}

func object(text []byte) (*jsonv.Reader, error) {
	v, err := jsonv.Parse(text)
	if err != nil {
		return nil, err
	}
	r := jsonv.Read(v, boundary)
	return r, r.Err()
}

// Spent is what models consumed, by day in UTC and model.
type Spent struct {
	Days map[Day]spending.Total
	// Unreadable rows of the ledger are in no total.
	Unreadable int64
}

// Day is what one model did on one day. Provider and Model are empty where nobody knows them.
type Day struct{ Date, Provider, Model string }

// UsageByDay folds the ledger. It is kept nowhere: a total has no form of its own on disk.
func UsageByDay() Projection[Spent] {
	return Projection[Spent]{
		Name: "usage by day", Version: 1,
		New:   func() Spent { return Spent{Days: map[Day]spending.Total{}} },
		Clone: func(s Spent) Spent { s.Days = maps.Clone(s.Days); return s },
		Apply: func(s Spent, c Change) Spent {
			row, ok := c.(UsageAppended)
			if !ok {
				return s
			}
			paid := map[id.EntryID]entry.Entry{}
			if row.Paid != nil {
				paid[row.Paid.ID] = *row.Paid
			}
			for item, err := range spending.ItemsOf(row.Row, paid) {
				if err != nil {
					s.Unreadable++
					break
				}
				day := Day{time.UnixMilli(item.At).UTC().Format(time.DateOnly), item.Provider, item.Model}
				total := s.Days[day]
				total.Add(item)
				s.Days[day] = total
			}
			return s
		},
	}
}

// Overview is what a session is about, at a glance.
type Overview struct {
	FirstAt, LastAt           int64 // Unix ms, of entries; 0 without any
	Prompts, Answers, Results int64
	Failed                    int64 // responses that ended in an error
	Compactions               int64
}

// Overviews folds the rows of the tree.
func Overviews() Projection[Overview] {
	return Projection[Overview]{
		Name: "overview", Version: 1, New: func() Overview { return Overview{} }, Apply: glance,
		Encode: func(o Overview) []byte {
			var w jsonv.Writer
			w.Begin()
			for _, f := range o.fields() {
				w.Num(f.name, *f.n)
			}
			w.End()
			return w.Bytes()
		},
		Decode: func(text []byte) (o Overview, err error) {
			r, err := object(text)
			if err != nil {
				return o, err
			}
			for _, f := range o.fields() {
				*f.n = r.Num(f.name)
			}
			return o, r.Err()
		},
	}
}

type field struct {
	name string
	n    *int64
}

func (o *Overview) fields() []field {
	return []field{
		{"firstAt", &o.FirstAt}, {"lastAt", &o.LastAt}, {"prompts", &o.Prompts}, {"answers", &o.Answers}, {"results", &o.Results},
		{"failed", &o.Failed}, {"compactions", &o.Compactions},
	}
}

func glance(o Overview, c Change) Overview {
	row, ok := c.(EntryAppended)
	if !ok {
		return o
	}
	if o.FirstAt == 0 {
		o.FirstAt = row.Entry.Timestamp
	}
	o.LastAt = max(o.LastAt, row.Entry.Timestamp) // a clock that went back makes nothing older
	switch b := row.Entry.Body.(type) {
	case entry.Message:
		switch m := b.Message.(type) {
		case *message.User:
			o.Prompts++
		case *message.Assistant:
			o.Answers++
			if m.StopReason == message.Error {
				o.Failed++
			}
		case *message.ToolResult:
			o.Results++
		case *message.Custom:
		}
	case entry.Compaction:
		o.Compactions++
	case entry.BranchSummary, entry.Custom:
	}
	return o
}
