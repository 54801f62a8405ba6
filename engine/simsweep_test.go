package engine_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/loom-run/loom/machine"
	"pgregory.net/rapid"
)

var seeds = flag.Int("seeds", 2000, "how many seeds the simulation sweeps")

// converges plays a script without faults and with them, and compares.
func converges(t rapid.TB, sc script, schedule chooser, faults int, seen map[string]int) error {
	calm, err := newSim(t, sc, eager{}, 0, map[string]int{}).play()
	if err != nil {
		return fmt.Errorf("without faults: %w", err)
	}
	got, err := newSim(t, sc, schedule, faults, seen).play()
	switch {
	case err != nil:
		return err
	case sc.compared < nothing && got.outcomes != calm.outcomes:
		return &broken{"convergence/outcome", got.outcomes + "without faults\n" + calm.outcomes}
	case sc.compared == everything && got.contexts != calm.contexts:
		return &broken{"convergence/projection", got.contexts + "without faults\n" + calm.contexts}
	case sc.compared == everything && got.reported != calm.reported:
		return &broken{"convergence/ledger", fmt.Sprintf("%d attempts are known, without faults %d", got.reported, calm.reported)}
	}
	return nil
}

func faultsOf(seed uint64) int { return int(seed % 9) }

// TestFaultsDoNotChangeWhatARunComesTo sweeps numbered seeds. One that fails is shrunk and kept in testdata/sim, where TestKeptSchedules plays it from then on.
func TestFaultsDoNotChangeWhatARunComesTo(t *testing.T) {
	n := *seeds
	if testing.Short() {
		n = min(n, 200)
	}
	workers := runtime.GOMAXPROCS(0)
	found := make([]map[string]int, workers)
	var all sync.WaitGroup
	for k := range workers {
		found[k] = map[string]int{}
		all.Go(func() {
			for seed := uint64(k); seed < uint64(n) && !t.Failed(); seed += uint64(workers) {
				schedule := &recorder{of: newDice(^seed)}
				if err := converges(t, newScript(seed), schedule, faultsOf(seed), found[k]); err != nil {
					keep(t, seed, schedule.kept, err)
				}
			}
		})
	}
	all.Wait()
	seen := map[string]int{}
	for _, f := range found {
		for what, times := range f {
			seen[what] += times
		}
	}
	if n >= 2000 && !t.Failed() {
		covered(t, seen)
	}
	for _, what := range slices.Sorted(maps.Keys(seen)) {
		t.Logf("%7d %s", seen[what], what)
	}
}

// covered asserts that the sweep met every fault, every kind of commit and every outcome.
func covered(t *testing.T, seen map[string]int) {
	want := []string{
		"crash", "crash at a commit", "crash during an effect", "crash with an effect in flight", "stale expectation", "read fault", "stolen lease",
		"effect of a process without its lease", "failed commit", "dropped doorbell", "delayed doorbell", "slow effect", "the provider dies", "the provider times out",
		"effect out of order", "steering", "follow-up", "writing", "withdrawn input", "late", "abort during a generation", "abort during a batch", "abort during a poll",
		"abort during a summary", "abort during a terminal commit", "retry", "replayed call", "interrupted call", "answer", "deferred response", "poll", "summary",
		"overflow", "fork", "refused compaction", "refused navigation", "ended: completed", "ended: failed", "ended: aborted", "ended: declined",
	}
	for _, step := range machine.Steps() {
		want = append(want, "step: "+string(step))
	}
	for _, what := range want {
		if seen[what] < 1 {
			t.Errorf("the sweep had no: %s", what)
		}
	}
}

// TestTheSameSeedIsTheSameRun plays seeds twice, and compares every row, register and decision.
func TestTheSameSeedIsTheSameRun(t *testing.T) {
	for seed := range uint64(60) {
		run := func() string {
			schedule := &recorder{of: newDice(^seed)}
			s := newSim(t, newScript(seed), schedule, faultsOf(seed), map[string]int{})
			if _, err := s.play(); err != nil {
				t.Fatal(err)
			}
			text, err := dump(s.w.store)
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprintln(schedule.kept, s.seen) + text
		}
		if first, second := run(), run(); first != second {
			t.Fatalf("seed %d was played in two ways", seed)
		}
	}
}

// shrink finds a simpler schedule that fails the same check. It makes choices harmless; the script stays.
func shrink(t rapid.TB, sc script, faults int, choices []int, check string) []int {
	fails := func(list []int) bool {
		err := converges(t, sc, &tape{choices: list}, faults, map[string]int{})
		b, ok := errors.AsType[*broken](err)
		return ok && b.check == check
	}
	tries := 400
	for size := len(choices); size > 0; size /= 2 {
		for from := 0; from < len(choices) && tries > 0; from += size {
			part := choices[from:min(from+size, len(choices))]
			if !slices.ContainsFunc(part, func(c int) bool { return c != 0 }) {
				continue
			}
			tries--
			simpler := slices.Clone(choices)
			clear(simpler[from:min(from+size, len(choices))])
			if fails(simpler) {
				choices = simpler
			}
		}
	}
	for len(choices) > 0 && choices[len(choices)-1] == 0 {
		choices = choices[:len(choices)-1]
	}
	return choices
}

const keptSchedules = "testdata/sim"

// keep shrinks a schedule that failed, and keeps it.
func keep(t *testing.T, seed uint64, choices []int, failed error) {
	b, ok := errors.AsType[*broken](failed)
	if !ok {
		t.Errorf("seed %d: %v", seed, failed)
		return
	}
	choices = shrink(t, newScript(seed), faultsOf(seed), choices, b.check)
	again := converges(t, newScript(seed), &tape{choices: choices}, faultsOf(seed), map[string]int{})
	path := filepath.Join(keptSchedules, fmt.Sprintf("%s-%d.txt", strings.ReplaceAll(b.check, "/", "-"), seed))
	err := errors.Join(os.MkdirAll(keptSchedules, 0o755), os.WriteFile(path, fmt.Appendf(nil, "script %d faults %d choices %d\n", seed, faultsOf(seed), choices), 0o644))
	t.Errorf("seed %d, kept as %s (%v), shrunk to %d choices: %v", seed, path, err, len(choices), again)
}

// TestKeptSchedules plays the schedules that once failed.
func TestKeptSchedules(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(keptSchedules, "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var seed uint64
			var faults int
			head, list, ok := strings.Cut(strings.TrimSuffix(strings.TrimSpace(string(src)), "]"), " choices [")
			if _, err := fmt.Sscanf(head, "script %d faults %d", &seed, &faults); err != nil || !ok {
				t.Fatalf("%q is no schedule: %v", src, err)
			}
			var choices []int
			for _, word := range strings.Fields(list) {
				var c int
				if _, err := fmt.Sscan(word, &c); err != nil {
					t.Fatal(err)
				}
				choices = append(choices, c)
			}
			if err := converges(t, newScript(seed), &tape{choices: choices}, faults, map[string]int{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// FuzzSchedules looks for schedules that a seed does not make, and shrinks them.
func FuzzSchedules(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		sc := newScript(rapid.Uint64().Draw(t, "script"))
		if err := converges(t, sc, drawn{t}, rapid.IntRange(0, 8).Draw(t, "faults"), map[string]int{}); err != nil {
			t.Fatal(err)
		}
	}))
}
