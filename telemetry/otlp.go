package telemetry

import (
	"encoding/hex"
	"math"
	"strconv"
	"time"

	"github.com/loom-run/loom/core/jsonv"
)

// attribute is a name with a text, a whole number, or a list of texts.
type attribute struct {
	name string
	text string
	num  *int64
	list []string
}

func str(name, s string) attribute           { return attribute{name: name, text: s} }
func num(name string, n int64) attribute     { return attribute{name: name, num: &n} }
func strs(name string, l []string) attribute { return attribute{name: name, list: l} }

// The kinds of spans, as the protocol numbers them.
const (
	internalKind = 1
	clientKind   = 3
)

// failedStatus is the status of a span whose work failed, as the protocol numbers it.
const failedStatus = 2

// span is work that ended.
type span struct {
	trace      [16]byte
	id         [8]byte
	parent     [8]byte // zero for none
	name       string
	kind       int64
	start, end time.Time
	attributes []attribute
	failed     bool
}

// writeAttributes writes the field attributes.
func writeAttributes(w *jsonv.Writer, all []attribute) {
	w.Name("attributes")
	w.BeginArray()
	for _, a := range all {
		w.Begin()
		w.Str("key", a.name)
		w.Name("value")
		w.Begin()
		switch {
		case a.num != nil:
			w.Str("intValue", strconv.FormatInt(*a.num, 10)) // 64 bits are texts in this protocol
		case a.list != nil:
			w.Name("arrayValue")
			w.Begin()
			w.Name("values")
			w.BeginArray()
			for _, s := range a.list {
				w.Begin()
				w.Str("stringValue", s)
				w.End()
			}
			w.EndArray()
			w.End()
		default:
			w.Str("stringValue", a.text)
		}
		w.End()
		w.End()
	}
	w.EndArray()
}

func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

// scope is who measured.
const scope = "github.com/loom-run/loom"

// envelope writes what is around the spans or the metrics of one resource.
func envelope(outer, inner, field string, resource []attribute, version string, items func(*jsonv.Writer)) []byte {
	var w jsonv.Writer
	w.Begin()
	w.Name(outer)
	w.BeginArray()
	w.Begin()
	w.Name("resource")
	w.Begin()
	writeAttributes(&w, resource)
	w.End()
	w.Name(inner)
	w.BeginArray()
	w.Begin()
	w.Name("scope")
	w.Begin()
	w.Str("name", scope)
	w.Str("version", version)
	w.End()
	w.Name(field)
	w.BeginArray()
	items(&w)
	w.EndArray()
	w.End()
	w.EndArray()
	w.End()
	w.EndArray()
	w.End()
	return w.Bytes()
}

// spansDocument is the body of a request to /v1/traces.
func spansDocument(resource []attribute, version string, spans []span) []byte {
	return envelope("resourceSpans", "scopeSpans", "spans", resource, version, func(w *jsonv.Writer) {
		for _, s := range spans {
			w.Begin()
			w.Str("traceId", hex.EncodeToString(s.trace[:]))
			w.Str("spanId", hex.EncodeToString(s.id[:]))
			if s.parent != [8]byte{} {
				w.Str("parentSpanId", hex.EncodeToString(s.parent[:]))
			}
			w.Str("name", s.name)
			w.Num("kind", s.kind)
			w.Str("startTimeUnixNano", nanos(s.start))
			w.Str("endTimeUnixNano", nanos(s.end))
			writeAttributes(w, s.attributes)
			w.Name("status")
			w.Begin()
			if s.failed {
				w.Num("code", failedStatus)
			}
			w.End()
			w.End()
		}
	})
}

// instrument is a metric.
type instrument struct {
	name, unit, about string
	bounds            []float64
}

// histogram is the values of one instrument with the same attributes, since the meter was made.
type histogram struct {
	attributes []attribute
	counts     []int64 // one more than there are bounds
	sum        float64
	min, max   float64
}

func (h *histogram) record(bounds []float64, v float64) {
	if h.counts == nil {
		h.counts, h.min, h.max = make([]int64, len(bounds)+1), v, v
	}
	i := 0
	for i < len(bounds) && v > bounds[i] {
		i++
	}
	h.counts[i]++
	h.sum, h.min, h.max = h.sum+v, math.Min(h.min, v), math.Max(h.max, v)
}

// cumulative says that each point is since the start, as the protocol numbers it.
const cumulative = 2

// metricsDocument is the body of a request to /v1/metrics.
func metricsDocument(resource []attribute, version string, start, now time.Time, all []*series) []byte {
	return envelope("resourceMetrics", "scopeMetrics", "metrics", resource, version, func(w *jsonv.Writer) {
		for _, s := range all {
			if len(s.points) == 0 {
				continue
			}
			w.Begin()
			w.Str("name", s.name)
			w.Str("unit", s.unit)
			w.Str("description", s.about)
			w.Name("histogram")
			w.Begin()
			w.Num("aggregationTemporality", cumulative)
			w.Name("dataPoints")
			w.BeginArray()
			for _, key := range s.order {
				writePoint(w, s.bounds, s.points[key], start, now)
			}
			w.EndArray()
			w.End()
			w.End()
		}
	})
}

func writePoint(w *jsonv.Writer, bounds []float64, h *histogram, start, now time.Time) {
	w.Begin()
	writeAttributes(w, h.attributes)
	w.Str("startTimeUnixNano", nanos(start))
	w.Str("timeUnixNano", nanos(now))
	total := int64(0)
	for _, n := range h.counts {
		total += n
	}
	w.Str("count", strconv.FormatInt(total, 10))
	w.Name("sum")
	w.Literal(float(h.sum))
	w.Name("bucketCounts")
	w.BeginArray()
	for _, n := range h.counts {
		w.String(strconv.FormatInt(n, 10))
	}
	w.EndArray()
	w.Name("explicitBounds")
	w.BeginArray()
	for _, b := range bounds {
		w.Literal(float(b))
	}
	w.EndArray()
	w.Name("min")
	w.Literal(float(h.min))
	w.Name("max")
	w.Literal(float(h.max))
	w.End()
}

func float(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
