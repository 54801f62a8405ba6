package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/loom-run/loom/broker/jail"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/policy"
)

// confine is the bounds that a call runs in.
func (b *Broker) confine(c Call, approval *Approval) (policy.Bounds, error) {
	var grants []policy.Grant
	if approval != nil {
		grants = approval.Grants
	}
	bounds, missing, err := b.bounds.Compose(c.Needs, grants...)
	if err != nil {
		return bounds, fmt.Errorf("broker: what the call asks for, or was granted, is wrong: %w", err)
	}
	if len(missing) == 0 {
		return bounds, nil
	}
	what := make([]string, len(missing))
	for i, n := range missing {
		what[i] = n.What
	}
	return bounds, &Refusal{
		Sentence: "This call was refused because it needs more than it is given: " + strings.Join(what, "; ") + ". Nothing was done.",
		By:       words.DeniedByPolicy, Wanted: policy.Wanted(missing),
	}
}

// Unconfined says that a command was not run because nothing here can keep it within its
// bounds.
type Unconfined struct{ What []policy.Aspect }

func (e *Unconfined) Error() string {
	names := make([]string, len(e.What))
	for i, a := range e.What {
		names[i] = string(a)
	}
	return "the command was not run: this build cannot enforce what it is bounded in (" + strings.Join(names, ", ") + ")"
}

// enforced is what a command is kept to, here or by the jail.
var enforced = []policy.Aspect{policy.Aspect(policy.Wall.String())}

// bounded is a command within its bounds: with the variables that it may see, and for no
// longer than it may run.
func bounded(c jail.Command, b policy.Bounds) (jail.Command, error) {
	open := slices.DeleteFunc(b.Restricts(), func(a policy.Aspect) bool { return slices.Contains(enforced, a) })
	if len(open) > 0 {
		return c, &Unconfined{open}
	}
	c.Env = slices.DeleteFunc(slices.Clone(c.Env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return !b.Sees(name)
	})
	if most := time.Duration(b.Limit(policy.Wall)) * time.Millisecond; most > 0 && (c.Timeout == 0 || c.Timeout > most) {
		c.Timeout = most
	}
	return c, nil
}

// share takes a command's part of the budget of its response, waiting for others of the
// response. What was detached has none: it is bounded by its own deadline.
func (b *Broker) share(ctx context.Context, p *Permit, path string, want time.Duration) (share, error) {
	for {
		s, wait, err := b.tryShare(p, want)
		if err != nil || wait == nil {
			return s, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			if cause := context.Cause(ctx); errors.Is(cause, ErrAborted) {
				return share{}, cause
			}
			return share{}, &jail.StartError{Reason: jail.Ended, Path: path}
		}
	}
}

// tryShare is one attempt; wait is what it has to wait for, nil when it has its share.
func (b *Broker) tryShare(p *Permit, want time.Duration) (s share, wait <-chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.live[p].detached {
		return share{timeout: want}, nil, nil
	}
	of := batch{p.grant.at.Op.String(), p.grant.at.Step}
	budget := b.pools[p.grant.at.Strand]
	if budget == nil || budget.batch != of {
		budget = &pool{limit: b.budget, batch: of}
		b.pools[p.grant.at.Strand] = budget
	}
	s, ok, err := budget.take(want)
	if err != nil || ok {
		return s, nil, err
	}
	return s, budget.changed(), nil
}

func (b *Broker) giveBack(s share, took time.Duration) {
	if s.pool == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s.pool.give(s, took)
}
