package accounting

import (
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/usage"
)

// RequestsKey is the field of a row's details that lists its requests, where the
// entry that the row paid for does not say all of it: a chain of models was asked
// in one attempt, or a summary was written.
const RequestsKey = "loom.requests.v1"

// Request is one request to a provider, and what it consumed.
type Request struct {
	Provider, Model string
	Class           string // of the failure, as the provider room names it; empty for an answer
	Usage           usage.Usage
}

// Requests is the field of a row's details that lists requests, in their order.
func Requests(list []Request) jsonv.Member {
	all := make([]jsonv.Value, len(list))
	for i, q := range list {
		var w jsonv.Writer
		w.Begin()
		w.Str("provider", q.Provider)
		w.Str("model", q.Model)
		if q.Class != "" {
			w.Str("class", q.Class)
		}
		w.Name("usage")
		usage.Append(&w, q.Usage)
		w.End()
		all[i] = w.Tree()
	}
	return jsonv.F(RequestsKey, jsonv.Arr(all...))
}

const requestsBoundary = "accounting.DecodeRequests"

// DecodeRequests reads the requests of a row; ok is false for one that lists none.
// Requests that do not make up the row are corruption.
func DecodeRequests(row entry.UsageRow) (list []Request, ok bool, err error) {
	if row.Details == nil || row.Details.Kind() != jsonv.Object {
		return nil, false, nil
	}
	if _, ok := row.Details.Get(RequestsKey); !ok {
		return nil, false, nil
	}
	r := jsonv.Read(*row.Details, requestsBoundary)
	if list = jsonv.Each(r, RequestsKey, decodeRequest); r.Err() != nil {
		return nil, false, r.Err()
	}
	var report Report
	for _, q := range list {
		report = report.Append(q.Usage)
	}
	if !same(report.Total(), row.Usage) {
		return nil, false, corrupt.New(requestsBoundary, RequestsKey, "requests that add up to the row", row.Details.String())
	}
	return list, true, nil
}

func decodeRequest(v jsonv.Value) (Request, error) {
	r := jsonv.Read(v, requestsBoundary)
	q := Request{Provider: r.Str("provider"), Model: r.Str("model"), Usage: jsonv.One(r, "usage", usage.Decode)}
	if class := r.OptStr("class"); class != nil {
		q.Class = *class
	}
	return q, r.Err()
}
