package sqlite

import (
	"fmt"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/storage"
)

// trial cuts the power of a recorded life, again and again.
type trial struct {
	calls  []ioCall
	base   map[string][]byte
	h      history
	lies   bool // the disk says that it has flushed, and has not
	rounds int  // fates of each cut that are drawn, besides the two extremes
	most   int  // images that are opened; 0 for all
	format *format
}

func newTrial(l *watchedSession) *trial {
	l.Helper()
	d := newDisk(l.rec.base)
	for _, c := range l.rec.calls {
		d.apply(c)
	}
	if there := contents(l, l.rec.folder); nameOf(there) != nameOf(d.image(allOfIt{})) {
		l.Fatal("the recording does not lead to the files that are there: something was done past it")
	}
	return &trial{calls: l.rec.calls, base: l.rec.base, h: l.h, rounds: rounds(l)}
}

// rounds is 1 unless LOOM_TORTURE asks for a long run.
func rounds(t testing.TB) int {
	text, ok := os.LookupEnv("LOOM_TORTURE")
	if !ok {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("LOOM_TORTURE: %v", err)
	}
	return max(1, n/100)
}

// image is what some cuts leave.
type image struct {
	files map[string][]byte
	cuts  []int
}

// images lists what the cuts leave, each once.
func (r *trial) images() (list []*image, cuts int) {
	seen := map[uint64]*image{}
	d := newDisk(r.base)
	d.lies = r.lies
	for cut := 0; ; cut++ {
		fates := []fate{nothingOfIt{}, allOfIt{}}
		for n := range r.rounds {
			random := rand.New(rand.NewPCG(1, uint64(cut*1000+n)))
			fates = append(fates, anyOfIt{random, random.Float64()})
		}
		for _, f := range fates {
			files := d.image(f)
			name := nameOf(files)
			if seen[name] == nil {
				seen[name] = &image{files: files}
				list = append(list, seen[name])
			}
			seen[name].cuts = append(seen[name].cuts, cut)
			cuts++
		}
		if cut == len(r.calls) {
			return list, cuts
		}
		d.apply(r.calls[cut])
	}
}

var imageSeed = maphash.MakeSeed()

// nameOf is the same for images that are the same.
func nameOf(files map[string][]byte) uint64 {
	var h maphash.Hash
	h.SetSeed(imageSeed)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h.WriteString(fmt.Sprintf("%s %d\n", name, len(files[name])))
		h.Write(files[name])
	}
	return h.Sum64()
}

// outcome is what was found in an image.
type outcome struct {
	image *image
	found string
	err   error // of opening it, of a check, or of going on
}

// open opens the images.
func (r *trial) open(t testing.TB) (outcomes []outcome, cuts int) {
	t.Helper()
	list, cuts := r.images()
	if r.most > 0 && len(list) > r.most {
		rand.New(rand.NewPCG(1, uint64(len(list)))).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		list = list[:r.most]
	}
	outcomes = make([]outcome, len(list))
	work := make(chan int)
	var wg sync.WaitGroup
	for w := range 2 {
		p := newPlace(t, 1000+uint64(w))
		p.cfg.format = r.format
		wg.Go(func() {
			for n := range work {
				outcomes[n] = p.try(list[n])
			}
		})
	}
	for n := range list {
		work <- n
	}
	close(work)
	wg.Wait()
	return outcomes, cuts
}

// try opens one image.
func (p *place) try(i *image) outcome {
	o := outcome{image: i, err: p.lay(i.files)}
	if o.err == nil {
		o.found, o.err = p.reopen()
	}
	return o
}

// judge says what is wrong with what was found. An acknowledged commit may be missing
// only where commits need not last.
func (r *trial) judge(outcomes []outcome, lasting bool) (faults []error) {
	for _, o := range outcomes {
		err := o.err
		for _, cut := range o.image.cuts {
			if err == nil {
				err = r.h.judge(cut, o.found, lasting)
			}
		}
		if err != nil {
			at := o.image.cuts[0]
			faults = append(faults, fmt.Errorf("cut %d of %d, before %v: %w", at, len(r.calls), r.calls[min(at, len(r.calls)-1)], err))
		}
	}
	return faults
}

func report(t testing.TB, faults []error) {
	t.Helper()
	for _, err := range faults[:min(20, len(faults))] {
		t.Error(err)
	}
}

// again lets what one cut left be opened and written, and cuts that.
func (r *trial) again(t testing.TB, i *image, most int) (opened int, faults []error) {
	t.Helper()
	p := newPlace(t, 7)
	o := p.try(i)
	if o.err != nil {
		return 1, []error{o.err}
	}
	if err := p.lay(i.files); err != nil {
		t.Fatal(err)
	}
	p.cfg.Create, p.cfg.Synchronous = o.found == nothing, Full
	l := newWatched(t, p.cfg, p.clock, 8, o.found)
	l.open("the opening after a cut")
	l.commit("a message after a cut", l.message(300)...)
	l.batch("a batch after a cut", l.s.CommitAll)
	l.close()
	second := newTrial(l)
	second.most = most
	outcomes, _ := second.open(t)
	return len(outcomes), second.judge(outcomes, true)
}

// recorded lets a life happen and records it.
func recorded(t testing.TB, how Synchronous, live func(*watchedSession)) *watchedSession {
	t.Helper()
	cfg, clock := newConfig(t)
	cfg.Synchronous = how
	l := newWatched(t, cfg, clock, 1, nothing)
	live(l)
	return l
}

func TestTortureEveryCommitSurvivesAPowerCut(t *testing.T) {
	l := recorded(t, Full, (*watchedSession).whole)
	r := newTrial(l)
	outcomes, cuts := r.open(t)
	report(t, r.judge(outcomes, true))
	t.Logf("%d moments, %d calls, %d cuts, %d different outcomes", len(l.h), len(l.rec.calls), cuts, len(outcomes))
	if len(outcomes) < 1000 {
		t.Errorf("only %d different outcomes were opened", len(outcomes))
	}

	// And what is done after a cut survives another one.
	seconds := 0
	for n := range 4 * r.rounds {
		opened, faults := r.again(t, outcomes[(n*len(outcomes)/4+n)%len(outcomes)].image, 40*r.rounds)
		report(t, faults)
		seconds += opened
	}
	t.Logf("%d different outcomes of a second cut", seconds)
}

func TestTortureUnderNormalACutTakesWholeCommitsFromTheEnd(t *testing.T) {
	r := newTrial(recorded(t, Normal, (*watchedSession).short))
	r.most = 120 * r.rounds
	outcomes, cuts := r.open(t)
	report(t, r.judge(outcomes, false))
	lost := r.judge(outcomes, true)
	t.Logf("%d cuts, %d outcomes were opened, in %d of them commits were lost", cuts, len(outcomes), len(lost))
	if len(lost) == 0 {
		t.Error("not one commit that nobody had flushed was lost: this shows nothing")
	}
}

// The model can lose commits, and the judge sees it.
func TestADiskThatLiesLosesCommits(t *testing.T) {
	r := newTrial(recorded(t, Full, (*watchedSession).short))
	r.lies, r.most = true, 40
	outcomes, _ := r.open(t)
	if all := fmt.Sprint(r.judge(outcomes, true)); !strings.Contains(all, "lost: ") {
		t.Errorf("nothing is lost: %s", all)
	}
}

// A batch that is several transactions is found to be one.
func TestAPartOfABatchIsSeen(t *testing.T) {
	r := newTrial(recorded(t, Full, func(l *watchedSession) {
		l.open("the founding")
		l.batch("no batch", func(txs ...tx.Tx) []storage.Outcome { return storage.OneByOne(l.s.Commit, txs) })
		l.close()
	}))
	r.most = 100
	outcomes, _ := r.open(t)
	if all := fmt.Sprint(r.judge(outcomes, true)); !strings.Contains(all, `a state that the session never had, while it was between "the founding" and "no batch"`) {
		t.Errorf("the parts of a batch go unnoticed: %s", all)
	}
}
