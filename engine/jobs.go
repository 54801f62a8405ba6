package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/machine/agency"
	"github.com/loom-run/loom/machine/job"
	"github.com/loom-run/loom/session"
)

// liveJob is a job that this process runs.
type liveJob struct {
	cancel context.CancelFunc
	feed   *feed
	over   chan struct{} // closed once its end is durable, or never will be

	mu      sync.Mutex // guards what follows
	tails   job.Tails
	waiting int // who looks at it right now
}

// Work runs the command of a job, with what it reads and who watches it. It returns
// when nothing of it runs any more. An error says that it never ran, or that nobody
// knows how it ended.
type Work = func(ctx context.Context, input io.Reader, observe func(job.Tails)) (job.Exit, error)

// StartJob starts a job for the strand that calls. A call that is made again finds
// the job of the first time, and work is not used: started says whether it was.
func (e *Engine) StartJob(c agency.Caller, r job.Record, work Work) (_ job.Record, started bool, err error) {
	e.spawning.Lock() // the count holds until the job is there
	defer e.spawning.Unlock()
	r.ID, r.Strand, r.Op, r.Status = job.IDOf(c), c.Strand, c.Op, job.Starting
	if was, _, ok, err := e.job(r.ID); ok || err != nil {
		return was, false, err
	}
	all, err := e.Jobs(c.Strand)
	if err != nil {
		return job.Record{}, false, err
	}
	live := 0
	for _, other := range all {
		if !other.Status.Ended() {
			live++
		}
	}
	if live >= job.MaxLive {
		return job.Record{}, false, job.ErrLimit
	}
	r.StartedAt = e.cfg.Clock()
	r.Deadline += r.StartedAt
	if _, err := e.writer.commit(r.Create(), nil, JobChanged{r.ID, r.ID}); err != nil {
		return job.Record{}, false, err
	}
	ctx, cancel := context.WithCancel(e.ctx)
	l := &liveJob{cancel: cancel, feed: newFeed(), over: make(chan struct{})}
	e.mu.Lock()
	e.jobs[r.ID] = l
	e.mu.Unlock()
	if err := e.join(func() { e.runJob(ctx, r.ID, l, work) }); err != nil {
		cancel()
		return job.Record{}, false, err
	}
	return r, true, nil
}

// runJob is the life of a job in this process.
func (e *Engine) runJob(ctx context.Context, id string, l *liveJob, work Work) {
	e.count(true) // the session is not free for another process while one of its commands runs
	defer e.count(false)
	defer close(l.over)
	defer l.cancel()
	defer l.feed.end()
	if _, err := e.moveJob(id, job.Record.Run); err != nil {
		return // it is told to be lost at the next opening
	}
	exit, err := worked(func() (job.Exit, error) {
		return work(ctx, l.feed, func(t job.Tails) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.tails = t
		})
	})
	if e.ctx.Err() != nil {
		return // its end may be that of the closing, and nobody knows what it would have been
	}
	if _, lost := errors.AsType[*job.LostError](err); err != nil && !lost {
		exit, err = job.Exit{Code: -1, Failure: err.Error(), Interrupted: ctx.Err() != nil}, nil
	}
	e.endJob(id, l, func(r job.Record) job.Record {
		if err != nil {
			return r.Lose(err.Error(), e.cfg.Clock())
		}
		return r.End(exit, e.cfg.Clock())
	})
}

// worked makes a crash of what runs a job an end that nobody knows.
func worked(f func() (job.Exit, error)) (x job.Exit, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &job.LostError{Why: fmt.Sprintf("what ran it crashed: %.200v", r)}
		}
	}()
	return f()
}

// endJob makes the end of a job durable, in one transaction with what its owner is
// told. l is nil for a job of an earlier process.
func (e *Engine) endJob(id string, l *liveJob, end func(job.Record) job.Record) {
	for range admissionTries {
		r, seq, ok, err := e.job(id)
		if err != nil || !ok {
			return
		}
		next := end(r)
		t, ok := r.Move(next, seq)
		if !ok {
			return
		}
		told := next.Told(l != nil && l.attended())
		if told {
			if t, err = e.notice(next, t, l != nil); err != nil {
				return
			}
		}
		_, err = e.writer.commit(t, nil, JobChanged{Job: id})
		if _, stale := errors.AsType[*tx.StaleExpectation](err); stale {
			continue
		}
		if err == nil && told {
			e.Driver(r.Strand).Ring()
		}
		return // without a commit it is told to be lost at the next opening
	}
}

// notice adds what the owner is told. A strand is woken for a job that ends, unless
// another one started it; an opening wakes nobody.
func (e *Engine) notice(r job.Record, t tx.Tx, live bool) (tx.Tx, error) {
	now, err := e.standing(r.Strand)
	if err != nil {
		return tx.Tx{}, err
	}
	return r.Notice(t, now.of(r.Strand), live && !agency.Spawned(r.Strand), machine.AcceptInputs{Now: e.cfg.Clock(), IDs: e.generator()}), nil
}

// loseJobs ends the jobs that an earlier process ran: nobody saw how they ended.
// They are told before anything else happens.
func (e *Engine) loseJobs() error {
	cells, err := e.cfg.Session.Rows().Registers(register.FactCustom, job.Prefix)
	if err != nil {
		return err
	}
	for _, c := range cells {
		r, err := job.Decode(c.Value)
		if err != nil {
			return fmt.Errorf("the record %s cannot be read: %w", c.Key, err)
		}
		if r.Status.Ended() {
			continue
		}
		e.endJob(r.ID, nil, func(r job.Record) job.Record {
			return r.Lose("the process that ran it ended, and it with it; how far it came is unknown", e.cfg.Clock())
		})
	}
	return nil
}

// attended reports whether somebody waits for the job right now.
func (l *liveJob) attended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting > 0
}

func (e *Engine) job(id string) (r job.Record, seq int64, ok bool, err error) {
	c, ok, err := e.cfg.Session.Rows().Register(register.FactCustom, job.Key(id))
	if err != nil || !ok {
		return job.Record{}, 0, false, err
	}
	r, err = job.Decode(c.Value)
	return r, c.Seq, err == nil, err
}

// moveJob commits the next state of a job. One that is past it stays as it is.
func (e *Engine) moveJob(id string, to func(job.Record) job.Record) (job.Record, error) {
	for range admissionTries {
		r, seq, ok, err := e.job(id)
		if err != nil || !ok {
			return job.Record{}, cmp.Or(err, error(job.ErrUnknown))
		}
		next := to(r)
		t, ok := r.Move(next, seq)
		if !ok {
			return r, nil
		}
		_, err = e.writer.commit(t, nil, JobChanged{Job: id})
		if _, stale := errors.AsType[*tx.StaleExpectation](err); !stale {
			return next, err
		}
	}
	return job.Record{}, fmt.Errorf("the job %s changed faster than it could be told to", id)
}

// Jobs lists the jobs of a strand, or of the whole session for "", oldest first.
func (e *Engine) Jobs(strand string) ([]job.Record, error) {
	return JobsOf(&e.cfg.Session.View, strand)
}

// JobsOf is [Engine.Jobs] of a session that is only read.
func JobsOf(v *session.View, strand string) (out []job.Record, err error) {
	cells, err := v.Rows().Registers(register.FactCustom, job.Prefix)
	if err != nil {
		return nil, err
	}
	for _, c := range cells {
		r, err := job.Decode(c.Value)
		if err != nil {
			return nil, err
		}
		if strand == "" || r.Strand == strand {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b job.Record) int {
		return cmp.Or(cmp.Compare(a.StartedAt, b.StartedAt), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

// own finds a job that belongs to a strand; l is nil when this process does not run
// it.
func (e *Engine) own(strand, id string) (job.Record, *liveJob, error) {
	r, _, ok, err := e.job(id)
	if err != nil {
		return job.Record{}, nil, err
	}
	if !ok || r.Strand != strand {
		return job.Record{}, nil, job.ErrUnknown
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return r, e.jobs[id], nil
}

// PollJob tells how a job of a strand stands, and the live end of what it prints. It
// waits for the end within a time. Who waits is not told of the end once more.
func (e *Engine) PollJob(ctx context.Context, strand, id string, within time.Duration) (job.Record, job.Tails, error) {
	r, l, err := e.own(strand, id)
	if err != nil || l == nil {
		return r, job.Tails{}, err
	}
	if within > 0 {
		l.mu.Lock()
		l.waiting++
		l.mu.Unlock()
		select {
		case <-l.over:
		case <-e.cfg.After(min(within, job.MaxWaitMs*time.Millisecond)):
		case <-ctx.Done():
		}
		l.mu.Lock()
		l.waiting--
		l.mu.Unlock()
		if r, l, err = e.own(strand, id); err != nil {
			return r, job.Tails{}, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return r, l.tails, nil
}

// SendJob gives a job something to read; with end nothing follows.
func (e *Engine) SendJob(strand, id, text string, end bool) error {
	r, l, err := e.own(strand, id)
	if err != nil {
		return err
	}
	if l == nil || r.Status.Ended() || !l.feed.put(text, end) {
		if r.Status.Ended() || l == nil || l.feed.ended() {
			return job.ErrOver
		}
		return job.ErrFull
	}
	return nil
}

// KillJob ends a job. The intent is durable before the command is told. It returns
// once the job is over, or after a time with one that drains.
func (e *Engine) KillJob(ctx context.Context, strand, id string, by job.Cause) (job.Record, error) {
	r, l, err := e.own(strand, id)
	if err != nil || r.Status.Ended() || l == nil {
		return r, err
	}
	if r, err = e.moveJob(id, func(r job.Record) job.Record { return r.Drain(by) }); err != nil {
		return r, err
	}
	l.cancel()
	select {
	case <-l.over:
	case <-ctx.Done():
	case <-e.cfg.After(job.MaxWaitMs * time.Millisecond):
	}
	r, _, err = e.own(strand, id)
	return r, err
}

// feed is what a job reads: bounded, and filled without waiting.
type feed struct {
	mu     sync.Mutex // guards what follows
	filled *sync.Cond
	buf    []byte
	closed bool // nothing follows
	gone   bool // nobody reads any more
}

func newFeed() *feed {
	f := &feed{}
	f.filled = sync.NewCond(&f.mu)
	return f
}

// put reports whether there was room for text.
func (f *feed) put(text string, end bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.gone || len(f.buf)+len(text) > job.MaxInput {
		return false
	}
	f.buf = append(f.buf, text...)
	f.closed = end
	f.filled.Broadcast()
	return true
}

func (f *feed) ended() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed || f.gone
}

// end wakes whoever reads, for good.
func (f *feed) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone = true
	f.filled.Broadcast()
}

// Read implements io.Reader.
func (f *feed) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.buf) == 0 && !f.closed && !f.gone {
		f.filled.Wait()
	}
	if f.gone || len(f.buf) == 0 {
		return 0, io.EOF
	}
	n := copy(p, f.buf)
	f.buf = f.buf[n:]
	return n, nil
}
