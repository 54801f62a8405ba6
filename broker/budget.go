package broker

import (
	"fmt"
	"time"
)

// Budget bounds the commands of all calls of one response together. What is 0 is not
// bounded.
type Budget struct {
	Commands int           // that run at the same time
	Wall     time.Duration // that they run, added up
}

// DefaultBudget is far beyond what work needs, and bounds what a response can keep a
// machine busy with.
var DefaultBudget = Budget{Commands: 16, Wall: 2 * time.Hour}

// Spent says that the commands of a response have used up what they may run together.
type Spent struct{ Wall time.Duration }

func (e *Spent) Error() string {
	return fmt.Sprintf("the commands of this response have run for %v together, which is the most they may; this one was not run. Go on in a next step", e.Wall)
}

// pool is the budget of one response and what is taken of it. It decides, and does not
// wait; the zero pool of a zero budget gives all.
type pool struct {
	limit  Budget
	batch  batch
	out    int           // commands that run
	held   time.Duration // set aside for them
	used   time.Duration // by those that are over
	change chan struct{} // closed when something is given back
}

// batch is the response whose calls share a budget.
type batch struct{ op, step string }

// share is what one command got of a pool.
type share struct {
	pool    *pool
	timeout time.Duration // after which it is ended; 0 is never
	bounded bool          // the time is of the budget
}

// take asks for a command that may run for want, or as long as it likes for 0. ok is
// false when others have to end first; the error is a [*Spent] when that would not help.
func (p *pool) take(want time.Duration) (s share, ok bool, err error) {
	if p.limit.Commands > 0 && p.out >= p.limit.Commands {
		return s, false, nil
	}
	s = share{pool: p, timeout: want}
	if p.limit.Wall > 0 {
		left := p.limit.Wall - p.used - p.held
		switch {
		case left <= 0 && p.out == 0:
			return s, false, &Spent{p.limit.Wall}
		case left <= 0:
			return s, false, nil
		case want == 0 || want > left:
			s.timeout = left
		}
		s.bounded = true
		p.held += s.timeout
	}
	p.out++
	return s, true, nil
}

// give returns a share of which took was used. A command is over a little after its
// timeout: that is not counted.
func (p *pool) give(s share, took time.Duration) {
	p.out--
	if s.bounded {
		p.held -= s.timeout
		p.used += min(max(took, 0), s.timeout)
	}
	if p.change != nil {
		close(p.change)
		p.change = nil
	}
}

// changed is closed when something is given back.
func (p *pool) changed() <-chan struct{} {
	if p.change == nil {
		p.change = make(chan struct{})
	}
	return p.change
}
