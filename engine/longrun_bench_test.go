package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/session/projection"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlite"
)

// lastWord answers by what came last: a call to a prompt, a summary to whoever asks for one, and an answer of about 1 KB to a result. Its window is small, so that
// a long session is compacted often.
type lastWord struct{ turns int }

func (m *lastWord) Resolve(ref machine.ModelRef) (provider.Model, provider.Provider, error) {
	return provider.Model{Identity: provider.Identity(ref), API: "fake", ContextWindow: 20_000}, m, nil
}

func (m *lastWord) Stream(ctx context.Context, req provider.Request, sink func(provider.Delta)) (*message.Assistant, error) {
	answer := say("summary: " + strings.Repeat("what was done, ", 32))
	switch last := req.Messages[len(req.Messages)-1].(type) {
	case *message.ToolResult:
		answer = say(fmt.Sprintf("answer %d: %s", m.turns, strings.Repeat("what was found, ", 64)))
	case *message.User:
		if !strings.Contains(message.TextOf(last.Content), "<conversation>") {
			m.turns++
			answer = callTools("safe")
		}
	}
	a, err := answer(ctx, sink)
	if a != nil {
		a.Usage = usage.Unknown(usage.API) // so that the size of the context is estimated
	}
	return a, err
}

// longSession is a session that has one run after the other.
type longSession struct {
	tb    testing.TB
	path  string
	model lastWord
	store *sqlite.Store
	e     *engine.Engine
}

func (l *longSession) open() {
	store, err := sqlite.Open(sqlite.Config{Path: l.path, Owner: "bench", Clock: wallMs, Create: true, Synchronous: sqlite.Normal})
	if err != nil {
		l.tb.Fatal(err)
	}
	cfg, _ := config(newWorld(), store, nil)
	cfg.Clock, cfg.After, cfg.Entropy, cfg.Models = wallMs, time.After, rand.Uint64, &l.model
	cfg.Settings.Compaction = machine.CompactionSettings{Enabled: true, ReserveTokens: 4000, KeepRecentTokens: 4000}
	e, err := engine.Open(cfg)
	if err == nil {
		err = e.Start(fakeConfiguration)
	}
	if err != nil {
		l.tb.Fatal(err)
	}
	l.store, l.e = store, e
}

func (l *longSession) close() {
	l.e.Close()
	if err := l.store.Close(); err != nil {
		l.tb.Fatal(err)
	}
}

// turns makes n runs of two requests and a call, and returns how long each took.
func (l *longSession) turns(n int) []time.Duration {
	took := make([]time.Duration, n)
	for i := range took {
		began := time.Now()
		op, err := started(l.e, session.MainStrand)
		if err != nil {
			l.tb.Fatal(err)
		}
		if r, err := l.e.Await(l.tb.Context(), session.MainStrand, op); err != nil || r.Outcome != machine.OutcomeCompleted {
			l.tb.Fatal(r, err)
		}
		took[i] = time.Since(began)
	}
	return took
}

// opening opens the closed session once and projects its context.
func (l *longSession) opening() time.Duration {
	began := time.Now()
	s, err := sqlite.Open(sqlite.Config{Path: l.path, Owner: "bench", Clock: wallMs})
	if err != nil {
		l.tb.Fatal(err)
	}
	view := session.New(s)
	leaf, _, err := view.StrandLeaf(session.MainStrand)
	if err != nil {
		l.tb.Fatal(err)
	}
	if list, err := view.Project(leaf.Value, projection.Policy{}); err != nil || len(list) == 0 {
		l.tb.Fatal(len(list), err)
	}
	took := time.Since(began)
	if err := s.Close(); err != nil {
		l.tb.Fatal(err)
	}
	return took
}

// held is the heap that the session holds when it is open and was worked on.
func (l *longSession) held() int64 {
	before := heap()
	l.open()
	l.turns(20)
	return heap() - before
}

// size is that of the file over the bytes of its entries, each message once.
func (l *longSession) size() float64 {
	rows, err := l.store.ScanEntries(storage.EntryQuery{})
	if err != nil {
		l.tb.Fatal(err)
	}
	distinct := 0
	for _, r := range rows {
		if c, ok := r.Body.(entry.Compaction); ok {
			c.RetainedTail = nil // stands in the session as what it was said as
			r.Body = c
		}
		distinct += len(entry.Encode(r))
	}
	info, err := os.Stat(l.path)
	if err != nil {
		l.tb.Fatal(err)
	}
	return float64(info.Size()) / float64(distinct)
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

// BenchmarkLongRun compares a session of 5,000 turns, which was compacted again and again, with one of 500: to open, to hold and to go on with, by turns.
func BenchmarkLongRun(b *testing.B) {
	for b.Loop() {
		short, long := newLongSession(b, 500), newLongSession(b, 5000)
		var opened, took [2][]time.Duration
		for range 25 {
			for i, l := range []*longSession{short, long} {
				opened[i] = append(opened[i], l.opening())
			}
		}
		more := -short.held() + long.held()
		for range 5 {
			for i, l := range []*longSession{short, long} {
				took[i] = append(took[i], l.turns(20)...)
			}
		}
		compacted, err := long.store.ScanEntryHeads(storage.EntryQuery{Kind: entry.KindCompaction})
		if err != nil || len(compacted) < 100 {
			b.Fatal(len(compacted), err)
		}
		b.ReportMetric(float64(median(opened[1]).Microseconds()), "open-µs")
		b.ReportMetric(float64(median(opened[1]))/float64(median(opened[0])), "open-ratio")
		b.ReportMetric(float64(median(took[1]).Microseconds()), "turn-µs")
		b.ReportMetric(float64(median(took[1]))/float64(median(took[0])), "turn-ratio")
		b.ReportMetric(float64(more)/(1<<20), "MiB-more")
		b.ReportMetric(long.size(), "file/rows")
		b.ReportMetric(long.size()/short.size(), "file-ratio")
		b.ReportMetric(float64(len(compacted)), "compactions")
		short.close()
		long.close()
	}
}

// newLongSession makes a session of so many turns and closes it.
func newLongSession(b *testing.B, turns int) *longSession {
	l := &longSession{tb: b, path: filepath.Join(b.TempDir(), "long.db")}
	l.open()
	l.turns(turns)
	l.close()
	return l
}

func wallMs() int64 { return time.Now().UnixMilli() }
