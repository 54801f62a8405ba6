package sqlite

import "testing"

// PowerCuts lets tests outside of the package cut the power of what they do to a fresh
// session.
type PowerCuts struct{ l *watchedSession }

// NewPowerCuts records what is done to a session at the path of its Config.
func NewPowerCuts(t testing.TB) *PowerCuts {
	t.Helper()
	cfg, clock := newConfig(t)
	cfg.Synchronous = Full
	return &PowerCuts{newWatched(t, cfg, clock, 1, nothing)}
}

// Config is that of the session.
func (c *PowerCuts) Config() Config { return c.l.cfg }

// Step is something that changes the session, which f returns while it is open.
func (c *PowerCuts) Step(what string, f func() *Store) {
	c.l.Helper()
	c.l.step(what, func() { c.l.s = f() })
}

// Judge cuts the power at every call and compares what is left with the steps. It
// returns how many different outcomes were opened.
func (c *PowerCuts) Judge() int {
	c.l.Helper()
	r := newTrial(c.l)
	outcomes, _ := r.open(c.l)
	report(c.l, r.judge(outcomes, true))
	return len(outcomes)
}
