package sqlite

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/storage"
)

// leaseRow is the one row of writer_lease.
type leaseRow struct {
	owner            string
	fence, expiresAt int64
	since            int64
	process          Process
}

const leaseColumns = "l.owner, l.fence, l.expires_at, l.since, l.pid, l.host, l.started, l.digest"

// readLease reads leaseColumns of a LEFT JOIN: nil when there is no lease.
func readLease(c *columns) *leaseRow {
	c.what = "writer lease"
	if c.err == nil && c.at < len(c.row) && c.row[c.at] == nil {
		c.at += 8
		return nil
	}
	l := &leaseRow{
		owner: c.text(), fence: c.num(), expiresAt: c.num(), since: c.num(),
		process: Process{PID: int(c.num()), Host: c.text(), Started: c.text()},
	}
	c.verify(c.num(), l.digest())
	return l
}

func (l *leaseRow) digest() int64 {
	d := digestOf('l')
	d.text(l.owner)
	d.num(l.fence)
	d.num(l.expiresAt)
	d.num(l.since)
	d.num(int64(l.process.PID))
	d.text(l.process.Host)
	d.text(l.process.Started)
	return d.sum()
}

// write replaces the row.
func (l *leaseRow) write(c *conn) error {
	_, err := c.Exec("INSERT OR REPLACE INTO writer_lease VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?)",
		l.owner, l.fence, l.expiresAt, l.since, int64(l.process.PID), l.process.Host, l.process.Started, l.digest())
	return err
}

// holder names the row's owner to people.
func (l *leaseRow) holder() storage.Holder {
	return storage.Holder{
		Owner: l.owner, PID: l.process.PID, Host: l.process.Host, Started: l.process.Started, Since: time.UnixMilli(l.since),
	}
}

func (l *leaseRow) held() *storage.LeaseHeld {
	return &storage.LeaseHeld{Holder: l.holder(), Expires: time.UnixMilli(l.expiresAt)}
}

// describe is how a lost lease names its new owner.
func (l *leaseRow) describe() *string {
	return new(fmt.Sprintf("%s (pid %d on %s)", l.owner, l.process.PID, l.process.Host))
}

// claimable reports whether a new opener may take the lease now: there is none,
// it expired, or its holder is provably dead.
func claimable(l *leaseRow, now int64, self Process, running Running) bool {
	return l == nil || l.expiresAt <= now || dead(l.process, self, running)
}

// Process identifies one process. The zero value stands for the one that runs.
type Process struct {
	PID  int
	Host string
	// Started is "" or three words: the boot and the pid namespace, which say
	// where PID means anything, and the start time, which tells the process from
	// later ones with its pid.
	Started string
}

// Running looks a pid up in the pid namespace of this process. started is the
// third word of Process.Started. known is false when the system does not say.
type Running func(pid int) (started string, alive, known bool)

// dead reports whether the holder of a lease provably runs no more. Where that
// cannot be known, only the end of the lease's term counts.
func dead(holder, self Process, running Running) bool {
	there, ok := strings.CutSuffix(holder.Started, lastWord(holder.Started))
	here, _ := strings.CutSuffix(self.Started, lastWord(self.Started))
	if !ok || there == "" || there != here || holder.Host != self.Host {
		return false
	}
	started, alive, known := running(holder.PID)
	return known && (!alive || started != lastWord(holder.Started))
}

func lastWord(s string) string { return s[strings.LastIndexByte(s, ' ')+1:] }

// admission is what an opening decides from.
type admission struct {
	now     int64
	ttl     int64
	owner   string
	take    bool // a person said so
	self    Process
	running Running
}

// moves reports whether the lease is that of the same operation on a closed file: it
// stays from one step of it to the next.
func (a admission) moves(l *leaseRow) bool {
	return strings.HasPrefix(a.owner, movePrefix) && l.owner == a.owner
}

// judge decides whether a session may be opened for writing. It returns the lease
// to write, or the refusal.
func (a admission) judge(s sessionRow, l *leaseRow) (*leaseRow, error) {
	if l != nil && l.fence > s.fence {
		return nil, damagedSession(corrupt.New("sqlite.Open", "writer lease", fmt.Sprintf("a fence up to %d", s.fence), fmt.Sprint(l.fence)))
	}
	if !a.take && !claimable(l, a.now, a.self, a.running) && !a.moves(l) {
		return nil, l.held()
	}
	return &leaseRow{owner: a.owner, fence: s.fence + 1, expiresAt: a.now + a.ttl, since: a.now, process: a.self}, nil
}

// Take ends the writing of a session by another process that is alive, as far as
// anybody can tell: its next commit is refused, and nothing that it does later is
// kept. The session is free afterwards. It returns who held the lease, nil when
// nobody did; then nothing was written. cfg is that of an opening; the errors are
// those of [Open] but for *storage.LeaseHeld.
func Take(cfg Config) (from *storage.LeaseHeld, err error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	r, err := OpenReader(cfg.Path)
	if err != nil {
		return nil, err
	}
	from, err = r.held(cfg.Clock(), cfg.Process, cfg.Running)
	if err = errors.Join(err, r.Close()); err != nil || from == nil {
		return nil, err
	}
	cfg.Take, cfg.Create = true, false
	s, err := Open(cfg)
	if err != nil {
		return nil, err
	}
	return from, s.Close()
}
