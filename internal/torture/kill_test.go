//go:build linux

package torture

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loom-run/loom/storage/sqlite"
)

// killsVariable is the number of kills. `make torture` sets it.
const killsVariable = "LOOM_TORTURE"

// seedVariable repeats the random part of another run.
const seedVariable = "LOOM_TORTURE_SEED"

const (
	defaultKills = 500
	defaultSeed  = 20
	workers      = 2 // stages at a time; more would only make deaths come later than they are meant to
)

// TestTorture kills a real process at each commit of a run and at random moments, and starts it again until its work is done. Whatever it breaks is
// told with the deaths that led there.
func TestTorture(t *testing.T) {
	s := &suite{t: t, kills: number(t, killsVariable, defaultKills), seed: uint64(number(t, seedVariable, defaultSeed)), dir: t.TempDir(), tally: newTally()}
	began := time.Now()
	for i, p := range plays {
		s.references[i] = rehearse(t, p)
	}
	s.commits()
	s.moments()
	t.Log(s.tally.summary(time.Since(began), s.seed))
	if !t.Failed() {
		for _, gap := range s.tally.gaps(s.kills) {
			t.Errorf("this run shows less than it should: %s", gap)
		}
	}
}

func number(t *testing.T, variable string, otherwise int) int {
	text, ok := os.LookupEnv(variable)
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is not a positive number", variable, text)
	}
	return n
}

// suite is one run of the test.
type suite struct {
	t     *testing.T
	kills int
	seed  uint64
	dir   string
	tally *tally

	references [len(plays)]map[string]string // in the order of plays
}

// rehearse lets a play happen undisturbed and returns what its calls answered.
func rehearse(t *testing.T, p play) (reference map[string]string) {
	t.Helper()
	st, err := newStage(p, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a, err := st.enter(death{})
	if err != nil {
		t.Fatal(err)
	}
	reference = p.reference(a.look)
	if faults := judge(p, reference, st.acts, true); len(faults) > 0 {
		t.Fatalf("%s, without a death: %v\n%s", p.name, faults, st.story())
	}
	return reference
}

func (s *suite) index(p play) int {
	return slices.IndexFunc(plays[:], func(q play) bool { return q.name == p.name })
}

// reference is what the calls of a play answer where nobody is killed.
func (p play) reference(k look) map[string]string {
	out := map[string]string{}
	for _, t := range p.turns {
		for _, c := range t.calls {
			out[c.id] = c.says
			if results := k.Results[c.id]; c.says == "" && len(results) > 0 {
				out[c.id] = results[0].Text
			}
		}
	}
	return out
}

// commits kills at every commit of every play, and again at one of the first commits of the life after that. With more kills than one round needs,
// further rounds pair each commit with other second deaths.
func (s *suite) commits() {
	for round := 0; round == 0 || s.tally.count() < s.kills/3; round++ {
		for _, p := range plays {
			s.round(p, round)
		}
		if s.t.Failed() {
			return
		}
	}
}

// secondDeaths is how many commits of a recovery the second deaths are spread over.
const secondDeaths = 9

func (s *suite) round(p play, round int) {
	var mu sync.Mutex
	next, last := 1, math.MaxInt // commits; last is known when a life outlived it
	take := func() (k int, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		k = next
		next++
		return k, k <= last && !s.t.Failed()
	}
	s.work(func() {
		for k, ok := take(); ok; k, ok = take() {
			deaths := []death{{atCommit: k}, {atCommit: 1 + (k+5*round)%secondDeaths}}
			acts := s.perform(p, fmt.Sprintf("%s-%d-%d", p.name, round, k), func(n int) (death, bool) {
				if n >= len(deaths) {
					return death{}, false
				}
				return deaths[n], true
			})
			if len(acts) > 0 && !acts[0].life.Killed {
				mu.Lock()
				last = min(last, k)
				mu.Unlock()
				s.tally.outlived(p, k)
			} else {
				s.tally.boundary(p, k)
			}
		}
	})
}

// moments kills at random until there were enough kills.
func (s *suite) moments() {
	var mu sync.Mutex
	chain := uint64(0)
	take := func() (uint64, bool) {
		mu.Lock()
		defer mu.Unlock()
		chain++
		return chain, s.tally.count() < s.kills && !s.t.Failed()
	}
	s.work(func() {
		for n, ok := take(); ok; n, ok = take() {
			r := rand.New(rand.NewPCG(s.seed, n))
			p := plays[min(max(r.IntN(10)-7, 0), len(plays)-1)] // mostly the first
			orphans := r.IntN(4) == 0
			if orphans {
				p = p.known()
			}
			s.perform(p, fmt.Sprintf("chain-%d", n), func(deaths int) (death, bool) {
				d := anyMoment(r)
				d.orphans = orphans && r.IntN(2) == 0
				return d, deaths < longestChain
			})
		}
	})
}

// longestChain is how many deaths a stage sees before a life is left alone.
const longestChain = 12

// anyMoment draws a death. Short times are likelier, because much happens in them.
func anyMoment(r *rand.Rand) death {
	d := death{opened: r.IntN(5) > 0}
	if d.opened {
		d.after = time.Duration(float64(100*time.Microsecond) * math.Exp(r.Float64()*math.Log(2500))) // to 250 ms
	} else {
		d.after = time.Millisecond + time.Duration(r.Int64N(int64(90*time.Millisecond)))
	}
	return d
}

func (s *suite) work(f func()) {
	var wg sync.WaitGroup
	for range workers {
		wg.Go(f)
	}
	wg.Wait()
}

// perform plays on a new stage: lives die as next says, until one ends its work. It judges after each.
func (s *suite) perform(p play, name string, next func(deaths int) (death, bool)) []act {
	dir := filepath.Join(s.dir, name)
	err := os.Mkdir(dir, 0o755)
	var st *stage
	if err == nil {
		st, err = newStage(p, dir)
	}
	if err != nil {
		s.t.Error(err)
		return nil
	}
	for n := 0; ; n++ {
		d, dies := next(n)
		if !dies {
			d = death{}
		}
		a, err := st.enter(d)
		if err != nil {
			s.t.Errorf("%s, %s: %v\n%s", name, p.name, err, st.story())
			return st.acts
		}
		if faults := judge(p, s.references[s.index(p)], st.acts, !a.life.Killed); len(faults) > 0 {
			s.t.Errorf("%s, %s: %v\n%s", name, p.name, faults, st.story())
			return st.acts
		}
		if !a.life.Killed {
			break
		}
		s.tally.kill(a)
	}
	s.tally.stage(p, s.references[s.index(p)], st.acts)
	if err := os.RemoveAll(dir); err != nil {
		s.t.Error(err)
	}
	return st.acts
}

// story tells the lives of a stage, for people.
func (s *stage) story() string {
	var b strings.Builder
	for _, a := range s.acts {
		fmt.Fprintf(&b, "  life %d, to end %s: ", a.life.Number, a.life.Orders)
		commits := 0
		for _, e := range a.life.Events {
			if e.Kind == committed {
				commits++
			} else {
				fmt.Fprintf(&b, "%s %s; ", e.Kind, e.Error)
			}
		}
		fmt.Fprintf(&b, "%d commits; left %q, flying %v, effects %v, outcomes %v\n", commits, a.look.Phases, a.look.Flying, a.look.Effects, a.look.Endings)
		if a.life.Said != "" {
			fmt.Fprintf(&b, "    said %.2000s\n", a.life.Said)
		}
	}
	for _, i := range s.acts[max(0, len(s.acts)-1):] {
		for _, m := range i.look.Branch {
			fmt.Fprintf(&b, "    %v\n", m)
		}
	}
	return b.String()
}

// tally counts what a run of the suite has shown. Its methods may be called from several goroutines.
type tally struct {
	mu         sync.Mutex // guards what follows
	kills      int
	orphaned   int // kills that took the supervisors along
	lives      int
	commits    int
	boundaries map[string]map[int]bool
	ends       map[string]int // the first commit that some life of a play ended before: how many there are depends on what happens side by side
	phases     map[string]int
	unknowns   int // results that call the outcome unknown
	replays    int // safe calls that were in flight at a death and have their result
	leases     int // openings while the lease of the dead process had not ended
	followed   int // prompts that were queued behind a run and answered
	abandoned  int // sessions whose making was interrupted
}

func newTally() *tally {
	return &tally{boundaries: map[string]map[int]bool{}, ends: map[string]int{}, phases: map[string]int{}}
}

func (t *tally) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.kills
}

func (t *tally) boundary(p play, k int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.boundaries[p.name] == nil {
		t.boundaries[p.name] = map[int]bool{}
	}
	t.boundaries[p.name][k] = true
}

// outlived notes that a life was over before its commit k.
func (t *tally) outlived(p play, k int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if end, ok := t.ends[p.name]; !ok || k < end {
		t.ends[p.name] = k
	}
}

// kill notes one death.
func (t *tally) kill(a act) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kills++
	if strings.Contains(a.life.Orders, "supervisors") {
		t.orphaned++
	}
	for _, p := range a.look.Phases {
		t.phases[p]++
	}
}

// stage notes what a finished stage shows.
func (t *tally) stage(p play, reference map[string]string, acts []act) {
	t.mu.Lock()
	defer t.mu.Unlock()
	end := acts[len(acts)-1].look
	for id, results := range end.Results {
		c, _ := p.call(id)
		if outcomeOf(reference[id], c, results[0].Text) == unknown {
			t.unknowns++
		}
	}
	replayed := map[string]bool{}
	var touched int64 // when the newest commit before a life was made
	for _, a := range acts {
		t.lives++
		for _, e := range a.life.Events {
			switch e.Kind {
			case committed:
				t.commits++
			case opened:
				if touched > 0 && e.At-touched < sqlite.DefaultLeaseTTL.Milliseconds() {
					t.leases++
				}
			case prompted:
				if e.Prompt.Queued {
					t.followed++
				}
			case aborted, done, failed:
			}
		}
		for _, e := range a.life.Events {
			if e.Kind == committed {
				touched = e.At
			}
		}
		for id, replay := range a.look.Flying {
			if replay == "safe" {
				replayed[id] = true
			}
		}
	}
	t.replays += len(replayed)
	t.abandoned += len(end.Stores) - len(end.Made)
}

func (t *tally) summary(took time.Duration, seed uint64) string {
	var b strings.Builder
	covered := 0
	for _, ks := range t.boundaries {
		covered += len(ks)
	}
	fmt.Fprintf(&b, "%d kills in %.1fs (%.1f/s), %d with their supervisors; %d lives, %d commits acknowledged; %d commit boundaries; %d outcomes unknown, "+
		"%d safe calls replayed, %d leases taken from the dead, %d prompts followed, %d sessions abandoned unmade; seed %d\nkilled while:",
		t.kills, took.Seconds(), float64(t.kills)/took.Seconds(), t.orphaned, t.lives, t.commits, covered, t.unknowns,
		t.replays, t.leases, t.followed, t.abandoned, seed)
	for _, p := range slices.Sorted(maps.Keys(t.phases)) {
		fmt.Fprintf(&b, " %s %d;", p, t.phases[p])
	}
	return b.String()
}

// gaps names what a run of the suite should have shown and has not.
func (t *tally) gaps(kills int) []string {
	var out []string
	for _, p := range phases {
		if t.phases[p] == 0 {
			out = append(out, fmt.Sprintf("nobody was killed while: %s", p))
		}
	}
	for _, p := range plays {
		covered := t.boundaries[p.name]
		if len(covered) < p.leastCommits {
			out = append(out, fmt.Sprintf("%s was killed at %d commits, fewer than %d", p.name, len(covered), p.leastCommits))
		}
		for k := 1; k <= len(covered) && k != t.ends[p.name]; k++ {
			if !covered[k] {
				out = append(out, fmt.Sprintf("%s was not killed at commit %d", p.name, k))
			}
		}
	}
	for what, n := range map[string]int{
		"kills with their supervisors": t.orphaned, "unknown outcomes": t.unknowns, "replays of safe calls": t.replays,
		"leases of dead processes": t.leases, "prompts that waited": t.followed,
	} {
		if n == 0 {
			out = append(out, "no "+what)
		}
	}
	if t.kills < kills {
		out = append(out, fmt.Sprintf("%d kills, fewer than %d", t.kills, kills))
	}
	return out
}
