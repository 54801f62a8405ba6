//go:build linux

package torture

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/demo"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/session/check"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlite"
)

// Many strands commit through the engine's one writer at once, so that their commits share flushes, and the process is killed at any moment.

// strandsVariable holds the orders of such a process as JSON.
const strandsVariable = "LOOM_TORTURE_STRANDS"

// committers is how many strands run side by side.
const committers = 16

// flushOrders is what such a process is told to do.
type flushOrders struct {
	Path    string
	Prompts int // for each strand; the process ends when all are answered
}

// flushEvent is one line of what it says.
type flushEvent struct {
	About   string        // about to flush: the rows that each transaction of a batch places
	Batch   [][]string    `json:",omitempty"`
	Applied []bool        `json:",omitempty"` // flushed: which of them were applied
	Prompt  *acknowledged `json:",omitempty"` // accepted
	Error   string        `json:",omitempty"`
}

const (
	aboutToFlush = "to flush"
	flushed      = "flushed"
	accepted     = "accepted"
	broken       = "broken"
	finished     = "finished"
)

// flusher is the inside of such a process.
type flusher struct {
	*sqlite.Store
	mu  sync.Mutex // guards out
	out *os.File
}

func (f *flusher) say(e flushEvent) {
	line, err := json.Marshal(e)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		_, err = f.out.Write(append(line, '\n'))
	}
	if err != nil {
		panic("the parent does not listen: " + err.Error())
	}
}

// CommitAll says what it is about to flush, and what became of it.
func (f *flusher) CommitAll(txs ...tx.Tx) []storage.Outcome {
	batch := make([][]string, len(txs))
	for i, t := range txs {
		batch[i] = []string{}
		for _, w := range t.Writes {
			switch w := w.(type) {
			case tx.InsertEntry:
				batch[i] = append(batch[i], w.Entry.ID.String())
			case tx.InsertUsage:
				batch[i] = append(batch[i], w.Row.ID.String())
			case tx.SetRegister, tx.DeleteRegister:
			}
		}
	}
	f.say(flushEvent{About: aboutToFlush, Batch: batch})
	outcomes := f.Store.CommitAll(txs...)
	applied := make([]bool, len(txs))
	for i, o := range outcomes {
		applied[i] = o.Err == nil
	}
	f.say(flushEvent{About: flushed, Applied: applied})
	return outcomes
}

// liveStrands is the whole of such a process.
func liveStrands(text string) int {
	f := &flusher{out: os.NewFile(reportFD, "reports")}
	var o flushOrders
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = f.run(o)
	}
	if err != nil {
		f.say(flushEvent{About: broken, Error: err.Error()})
		return 1
	}
	f.say(flushEvent{About: finished})
	return 0
}

// echo is the only model.
type echo struct{ *demo.Provider }

func (m echo) Resolve(machine.ModelRef) (provider.Model, provider.Provider, error) {
	return demo.Model, m.Provider, nil
}

func (f *flusher) run(o flushOrders) (err error) {
	f.Store, err = sqlite.Open(sqlite.Config{Path: o.Path, Owner: fmt.Sprint("process ", os.Getpid()), Clock: now, Create: true})
	if err != nil {
		return err
	}
	e, err := engine.Open(engine.Config{
		Session: session.New(f), Models: echo{demo.New(now)}, Clock: now, Entropy: rand.Uint64, After: time.After,
		Settings: machine.Settings{SteeringMode: machine.DrainAll, FollowUpMode: machine.DrainAll, ToolExecution: machine.Parallel},
		Retry:    machine.RetryPolicy{BaseDelayMs: 4, MaxDelayMs: 16},
	})
	if err != nil {
		return err
	}
	main := machine.Configuration{Model: machine.ModelRef{Provider: demo.Model.Provider, ModelID: demo.Model.ModelID}, ThinkingLevel: machine.ThinkingOff}
	for n := range committers {
		if err := e.Session().EnsureStrand(strandName(n), main); err != nil {
			return err
		}
	}
	if err := e.Start(main); err != nil {
		return err
	}
	errs := make([]error, committers)
	var wg sync.WaitGroup
	for n := range committers {
		wg.Go(func() { errs[n] = f.talk(e, strandName(n), o.Prompts) })
	}
	wg.Wait()
	e.Close()
	return errors.Join(append(errs, f.Close())...)
}

func strandName(n int) string { return fmt.Sprintf("strand-%02d", n) }

// talk waits for what an earlier process has left, and then prompts, each time the last answer is there.
func (f *flusher) talk(e *engine.Engine, strand string, prompts int) error {
	wait := func(op id.OpID) error {
		_, err := e.Await(context.Background(), strand, op)
		return err
	}
	if op, ok, err := e.Current(strand); err != nil {
		return err
	} else if ok {
		if err := wait(op); err != nil {
			return err
		}
	}
	for n := range prompts {
		text := fmt.Sprintf("prompt %d of %s in %d", n, strand, os.Getpid())
		r, err := e.Prompt(strand, engine.Prompt{Content: []message.UserBlock{message.Text{Text: text}}})
		if err != nil {
			return err
		}
		f.say(flushEvent{About: accepted, Prompt: &acknowledged{text, r.Entry.String(), r.Seq, r.Queued}})
		if err := wait(r.Op); err != nil {
			return err
		}
	}
	return nil
}

// flushFaults says what of the account of one process is not so, with what is stored when it has ended. The rows of a transaction that was applied are there,
// and the rows of a batch are there together: also of the last one, of which nobody heard. A later process may place a row under an id that an earlier one
// had for it, so that an account is compared before the next process begins.
func flushFaults(events []flushEvent, stored map[string]bool) (faults []string) {
	var about [][]string
	for _, e := range events {
		switch e.About {
		case aboutToFlush:
			about = e.Batch
		case flushed:
			for i, applied := range e.Applied {
				for _, row := range about[i] {
					if stored[row] != applied {
						faults = append(faults, fmt.Sprintf("row %s of a transaction whose application was %v is there: %v", row, applied, stored[row]))
					}
				}
			}
			about = nil
		case accepted:
			if !e.Prompt.Queued && !stored[e.Prompt.Entry] {
				faults = append(faults, fmt.Sprintf("%q was accepted and is missing", e.Prompt.Text))
			}
		case broken:
			faults = append(faults, e.Error)
		}
	}
	return append(faults, halves(about, stored)...)
}

func halves(batch [][]string, stored map[string]bool) (faults []string) {
	rows := slices.Concat(batch...)
	for _, row := range rows {
		if stored[row] != stored[rows[0]] {
			return []string{fmt.Sprintf("a part of a batch is there: %v", rows)}
		}
	}
	return nil
}

func TestEachFaultOfAFlushIsSeen(t *testing.T) {
	stored := map[string]bool{"a": true, "b": true, "c": true}
	for name, c := range map[string]struct {
		events []flushEvent
		faults int
	}{
		"all there":            {[]flushEvent{{About: aboutToFlush, Batch: [][]string{{"a", "b"}, {}, {"c"}}}, {About: flushed, Applied: []bool{true, true, true}}}, 0},
		"one missing":          {[]flushEvent{{About: aboutToFlush, Batch: [][]string{{"a"}, {"x"}}}, {About: flushed, Applied: []bool{true, true}}}, 1},
		"refused, and there":   {[]flushEvent{{About: aboutToFlush, Batch: [][]string{{"a"}, {"b"}}}, {About: flushed, Applied: []bool{true, false}}}, 1},
		"killed, and all":      {[]flushEvent{{About: aboutToFlush, Batch: [][]string{{"a"}, {"b"}}}}, 0},
		"killed, and nothing":  {[]flushEvent{{About: aboutToFlush, Batch: [][]string{{"x"}, {"y"}}}}, 0},
		"killed, and a part":   {[]flushEvent{{About: aboutToFlush, Batch: [][]string{{"a"}, {"y"}}}}, 1},
		"a prompt":             {[]flushEvent{{About: accepted, Prompt: &acknowledged{Entry: "a"}}}, 0},
		"a prompt that is not": {[]flushEvent{{About: accepted, Prompt: &acknowledged{Entry: "x"}}}, 1},
		"broken":               {[]flushEvent{{About: broken, Error: "no"}}, 1},
	} {
		if got := flushFaults(c.events, stored); len(got) != c.faults {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestTortureStrands kills a process whose strands share flushes, again and again, and lets the last one answer everything that was left open.
func TestTortureStrands(t *testing.T) {
	kills := max(8, number(t, killsVariable, defaultKills)/50)
	random := rand.New(rand.NewPCG(uint64(number(t, seedVariable, defaultSeed)), 5))
	path := filepath.Join(t.TempDir(), "session.db")
	var events []flushEvent
	lasting := map[string]bool{} // every row that was ever seen
	for n := range kills + 1 {
		o, lines := flushOrders{Path: path, Prompts: 1 << 30}, 1+random.IntN(600)
		if n == kills {
			o.Prompts, lines = 1, 1<<30
		}
		said, err := liveUntil(o, lines)
		if err != nil {
			t.Fatalf("process %d: %v", n, err)
		}
		events = append(events, said...)
		stored := rowsOf(t, path)
		faults := slices.Concat(flushFaults(said, stored), findingsOf(t, path))
		for row := range lasting {
			if !stored[row] {
				faults = append(faults, "row "+row+" is gone")
			}
		}
		lasting = stored
		if len(faults) > 0 {
			t.Fatalf("process %d, after %d lines: %q", n, len(said), faults[:min(20, len(faults))])
		}
	}
	if last := events[len(events)-1]; last.About != finished {
		t.Errorf("the last process ended with %+v", last)
	}
	together, prompts := 0, 0
	for _, e := range events {
		if len(e.Batch) > 1 {
			together++
		}
		if e.About == accepted {
			prompts++
		}
	}
	t.Logf("%d kills, %d prompts accepted, %d flushes that several shared", kills, prompts, together)
	if together < kills || prompts < committers {
		t.Error("this run shows less than it should")
	}
}

// liveUntil starts a process and kills it after so many lines, if it has not ended before.
func liveUntil(o flushOrders, lines int) (events []flushEvent, err error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	reports, given, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer shut(reports)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), strandsVariable+"="+string(text))
	cmd.ExtraFiles, cmd.Stderr = []*os.File{given}, os.Stderr
	err = cmd.Start()
	shut(given)
	if err != nil {
		return nil, err
	}
	limit := time.AfterFunc(lifeLimit, func() { _ = cmd.Process.Kill() })
	in := bufio.NewScanner(reports)
	in.Buffer(nil, 1<<20)
	for err == nil && in.Scan() {
		var e flushEvent
		err = json.Unmarshal(in.Bytes(), &e)
		if events = append(events, e); len(events) == lines {
			err = cmd.Process.Signal(unix.SIGKILL)
		}
	}
	hung := !limit.Stop()
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // how it ended is in what it said
	if hung {
		err = fmt.Errorf("it did not end in %v", lifeLimit)
	}
	return events, errors.Join(err, in.Err())
}

// rowsOf are the ids of all entries and ledger rows.
func rowsOf(t *testing.T, path string) map[string]bool {
	t.Helper()
	r, err := sqlite.OpenReader(path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]bool{} // it was killed while it made the session
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	stored := map[string]bool{}
	entries, err := r.ScanEntries(storage.EntryQuery{})
	for _, e := range entries {
		stored[e.ID.String()] = true
	}
	ledger, more := r.ScanUsage(storage.UsageQuery{})
	for _, u := range ledger {
		stored[u.ID.String()] = true
	}
	if err := errors.Join(err, more); err != nil {
		t.Fatal(err)
	}
	return stored
}

func findingsOf(t *testing.T, path string) (faults []string) {
	t.Helper()
	r, err := sqlite.OpenReader(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	findings, err := check.Session(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		faults = append(faults, f.String())
	}
	return faults
}
