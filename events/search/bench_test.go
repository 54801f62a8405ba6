package search

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/words"
)

var rows = flag.Int("rows", 1_000_000, "how many rows the index of BenchmarkFind has")

// library makes sessions of short texts: code, words in two scripts, a word that is in half of them, and one in ten of them.
type library struct {
	r *rand.Rand
	n int
}

var vocabulary = func() (all []string) {
	for i := range 4000 {
		all = append(all, fmt.Sprintf("w%dord", i), fmt.Sprintf("snake_%d_case", i), fmt.Sprintf("camelCase%d", i))
	}
	return all
}()

func (l *library) text() string {
	words := make([]string, 0, 14)
	for range 10 {
		words = append(words, vocabulary[int(l.r.ExpFloat64()*500)%len(vocabulary)])
	}
	if l.n%2 == 0 {
		words = append(words, "common")
	}
	if l.n%100_000 == 7 {
		words = append(words, fmt.Sprintf("needle%d", l.n))
	}
	if l.n%7 == 0 {
		words = append(words, "服务端的计划")
	}
	l.n++
	return strings.Join(words, " ")
}

func (l *library) session(n int) *fake {
	f := newFake()
	for range n {
		var m message.Message = person(l.text())
		if l.n%3 == 0 {
			m = &message.ToolResult{ToolName: "grep", Content: []message.ResultBlock{message.Text{Text: l.text()}}}
		}
		r := f.body(entry.Message{Message: m})
		f.rows[len(f.rows)-1].Entry.Timestamp = noon + int64(l.n)*100
		_ = r
	}
	return f
}

// BenchmarkFind indexes a million short texts, says how many a second, and asks.
func BenchmarkFind(b *testing.B) {
	x, err := Open(filepath.Join(b.TempDir(), "search.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = x.Close() }()
	l := &library{r: rand.New(rand.NewPCG(1, 2))}
	var took time.Duration
	var last *fake
	for l.n < *rows {
		last = l.session(5000)
		start := time.Now()
		if _, err := x.Sync(last); err != nil {
			b.Fatal(err)
		}
		took += time.Since(start)
	}
	now := int64(noon + l.n*100)
	rate := float64(l.n) / took.Seconds()
	for _, c := range []struct {
		name string
		q    Query
	}{
		{"rare term", Query{Text: fmt.Sprintf("needle%d", (*rows/2)/100_000*100_000+7), Newest: true}},
		{"common term, newest first", Query{Text: "common", Newest: true}},
		{"common term in a session", Query{Text: "common", Newest: true, Session: last.self}},
		{"common term of a tool", Query{Text: "common", Newest: true, Tool: "grep"}},
		{"common term of a role that is rare", Query{Text: "common", Newest: true, Role: words.SearchSummary}},
		{"common term long ago", Query{Text: "common", Newest: true, Until: noon + 60_000}},
		{"three characters", Query{Text: "服务端", Newest: true}},
		{"a phrase of an identifier", Query{Text: "snake_77_case", Newest: true}},
		{"a beginning", Query{Text: "w12*", Newest: true}},
		{"common term, ranked", Query{Text: "common"}},
		{"two terms, ranked", Query{Text: "common w3ord"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.q.Limit = 20
			var times []time.Duration
			for b.Loop() {
				start := time.Now()
				if _, err := x.Find(c.q, now); err != nil {
					b.Fatal(err)
				}
				times = append(times, time.Since(start))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
			b.ReportMetric(rate, "documents/s")
		})
	}
}
