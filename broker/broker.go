// Package broker is the one door for every effect that a model shaped.
//
// # Purpose
//
// A tool call runs only with a permit, and only the broker makes permits: it
// asks policy, binds the permit to the call it was asked about, runs the
// commands of that call in a jail, and sees that each permit is settled once. So
// no code path from the model to the system goes around the person's decision,
// and what was decided about one call cannot be used for another.
//
// # Key types
//
// [Broker] is the door of one session. [Call] is what is asked, [Permit] the
// proof that it may run, [Refusal] the answer that it may not, [Question] that a
// person decides and [Approval] their word. [Secrets] are the values that no result
// may show.
//
// # Relationships
//
// Imports core/id, core/jsonv, core/words, policy and broker/jail. The engine clears and
// settles; tools admit and execute.
//
// # Traffic
//
// Processes, through broker/jail. Nothing is stored.
//
// # Invariants
//
//   - A permit is made by Clear and ClearApproved alone. Everything that takes one refuses a zero
//     permit, a copy, one of another broker, one that is settled or revoked, and
//     one of other coordinates, tool, class or arguments.
//   - At most one permit of a call is outstanding, and a permit is settled exactly
//     once, never while a command of it runs. A refusal is a settlement: there is
//     no permit. A permit that nobody has used yet is settled when its call is
//     cleared again, so that a caller which lost one is not stuck.
//   - A detached permit comes from one that was cleared and used, so that what works in
//     the background was decided about like the rest.
//   - A call that asks for more than the bounds and the grants it has is refused, with
//     the grants that are missing. What bounds keep from a command and the jail cannot
//     enforce keeps it from running at all.
//   - The commands of one response share one budget, which is never exceeded.
//   - Commands see the environment that [jail.Environment] builds, hold the fence
//     of the session, and are ended by [Broker.Abort] and [Broker.Close].
package broker

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/loom-run/loom/broker/jail"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/policy"
)

// Config is what a broker is made of. All of it but the rules and the mode is fixed
// for its life.
type Config struct {
	Mode      policy.Mode // what the person allows
	Rules     policy.Rules
	Guarded   policy.Guarded // places that nothing but a person's word lets a call write to
	Workspace string         // absolute; where commands run unless they say otherwise
	Environ   []string       // the environment of the harness, of which commands see the harmless part
	Fence     jail.Fence     // the lock file of the session; zero is none, for sessions that are not kept
	Secrets   Secrets        // what no result of a tool may show
	Bounds    *policy.Bounds // what commands are confined to; nil: to nothing but the harmless part of Environ
	Budget    Budget         // of the commands of one response
	// Now is Unix ms, of the clock that measures what the budget of time is spent on. Nil:
	// that part of the budget is off.
	Now func() int64
}

// Broker is the door of one session. Its methods may be called from several
// goroutines.
type Broker struct {
	guarded   policy.Guarded
	workspace string
	real      string // the workspace without links
	env       []string
	fence     jail.Fence
	secrets   Secrets
	bounds    policy.Bounds
	budget    Budget
	now       func() int64

	mu     sync.Mutex
	live   map[*Permit]*usage      // guarded by mu; what is not here is settled or no permit
	byCall map[Coordinates]*Permit // guarded by mu; the live ones again
	closed bool                    // guarded by mu
	mode   policy.Mode             // guarded by mu
	rules  policy.Rules            // guarded by mu
	pools  map[string]*pool        // guarded by mu; of the newest response of each strand
}

// usage is the state of an outstanding permit.
type usage struct {
	used    bool // admitted, or a command was run for it
	revoked bool
	end     context.CancelCauseFunc // of the command that runs; nil for none

	detached bool // it outlives the call and the operation
}

// New returns a broker that allows what mode allows.
func New(c Config) (*Broker, error) {
	if !filepath.IsAbs(c.Workspace) {
		return nil, fmt.Errorf("broker: the workspace %q is not an absolute path", c.Workspace)
	}
	env := jail.Environment(c.Environ)
	b := &Broker{
		mode: c.Mode, rules: c.Rules, guarded: c.Guarded,
		workspace: filepath.Clean(c.Workspace), env: env, fence: c.Fence, secrets: c.Secrets,
		bounds: policy.Unconfined(jail.Names(env)...), budget: c.Budget, now: c.Now,
		live: map[*Permit]*usage{}, byCall: map[Coordinates]*Permit{}, pools: map[string]*pool{},
	}
	if c.Bounds != nil {
		b.bounds = *c.Bounds
	}
	if c.Now == nil {
		b.budget.Wall, b.now = 0, func() int64 { return 0 }
	}
	b.real = b.workspace
	if real, err := filepath.EvalSymlinks(b.workspace); err == nil {
		b.real = real
	}
	return b, nil
}

// Coordinates say where in the session a call stands. They come from the driver,
// never from arguments.
type Coordinates struct {
	Op          id.OpID // the operation
	Strand      string  // the strand it runs on
	Step        string  // the step that asked, as the machine names it
	SourceIndex int     // the index of the call among the blocks of the response
	CallID      string  // the provider's id of the call
}

// Call is one tool call.
type Call struct {
	Coordinates

	Tool      string
	Class     policy.Class
	Subject   policy.Subject // what rules about the tool speak of; only Clear looks at it
	Arguments jsonv.Value
	Asks      policy.Asks  // whether it asks a person by itself; only clearing looks at it
	Needs     policy.Needs // what it asks of the bounds; the zero Needs take what there is. Only clearing looks at it
}

// Permit is the proof that one call was cleared. It carries no public field and
// cannot be built, changed or copied into another proof.
type Permit struct {
	owner  *Broker
	grant  grant
	bounds policy.Bounds // that its commands run in
}

// Coordinates returns where the permitted call stands.
func (p *Permit) Coordinates() Coordinates {
	if p == nil {
		return Coordinates{}
	}
	return p.grant.at
}

// grant is what a permit is bound to.
type grant struct {
	at        Coordinates
	tool      string
	class     policy.Class
	arguments [sha256.Size]byte
}

func grantOf(c Call) grant {
	return grant{at: c.Coordinates, tool: c.Tool, class: c.Class, arguments: Digest(c.Arguments)}
}

// Refusal says that a call may not run.
type Refusal struct {
	Sentence string // for the model and the person
	By       words.DeniedBy
	// Wanted are the grants with which the bounds would have let the call run; none when
	// it was refused for another reason, or when no grant would.
	Wanted []policy.Grant
}

func (r *Refusal) Error() string { return r.Sentence }

// Question says that a person decides about a call.
type Question struct{ Decision policy.Decision }

func (q *Question) Error() string { return q.Decision.Sentence() }

// Approval is what a person approved: a call with these arguments, and with no other.
type Approval struct {
	Arguments [sha256.Size]byte
	Grants    []policy.Grant // what they granted to it
}

// The errors of callers that do not keep to the protocol of permits. They are
// defects, not refusals.
var (
	ErrIncomplete  = errors.New("broker: the call lacks an operation, a strand, a step or a tool")
	ErrOutstanding = errors.New("broker: the call was cleared before, is in use and is not settled")
	ErrNoPermit    = errors.New("broker: this is no permit of this broker")
	ErrSettled     = errors.New("broker: the permit is settled")
	ErrMismatch    = errors.New("broker: the permit is for another call")
	ErrUnapproved  = errors.New("broker: what was approved are other arguments")
	ErrBusy        = errors.New("broker: a command of this permit is running")
)

// ErrAborted says that the operation of the permit was aborted, or the broker
// closed, before or while it was used.
var ErrAborted = errors.New("broker: the operation was aborted")

// Clear asks whether a call may run. The error is a [*Refusal] when policy says no
// and a [*Question] when a person decides; otherwise the caller is wrong, or the
// broker is closed.
func (b *Broker) Clear(c Call) (*Permit, error) { return b.clear(c, nil) }

// ClearApproved is [Broker.Clear] for a call that a person approved. Their word
// answers a question, and no refusal: a rule that was written meanwhile, or that the
// arguments they wrote run into, stands.
func (b *Broker) ClearApproved(c Call, a Approval) (*Permit, error) {
	if Digest(c.Arguments) != a.Arguments {
		return nil, ErrUnapproved
	}
	return b.clear(c, &a)
}

func (b *Broker) clear(c Call, approval *Approval) (*Permit, error) {
	if err := complete(c); err != nil {
		return nil, err
	}
	d, _ := b.Judge(c)
	if d.Behavior() == policy.Deny {
		return nil, &Refusal{Sentence: d.Sentence(), By: d.DeniedBy()}
	}
	bounds, err := b.confine(c, approval) // before anybody is asked: their word would not change it
	if err != nil {
		return nil, err
	}
	if !d.Allowed() && approval == nil {
		return nil, &Question{d}
	}
	p := &Permit{owner: b, grant: grantOf(c), bounds: bounds}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, ErrAborted
	}
	if earlier, ok := b.byCall[c.Coordinates]; ok {
		if b.live[earlier].used {
			return nil, ErrOutstanding
		}
		delete(b.live, earlier)
	}
	b.live[p], b.byCall[c.Coordinates] = &usage{}, p
	return p, nil
}

func complete(c Call) error {
	if c.Op.IsZero() || c.Strand == "" || c.Step == "" || c.Tool == "" || c.SourceIndex < 0 {
		return ErrIncomplete
	}
	return nil
}

// Admit reports whether p permits exactly the call c, now. A tool asks before it
// does anything.
func (b *Broker) Admit(p *Permit, c Call) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	u, err := b.outstanding(p)
	if err != nil {
		return err
	}
	if err := usable(u, p.grant, grantOf(c)); err != nil {
		return err
	}
	u.used = true
	return nil
}

// outstanding finds the state of a permit. The caller holds mu.
func (b *Broker) outstanding(p *Permit) (*usage, error) {
	if p == nil || p.owner != b {
		return nil, ErrNoPermit
	}
	u, ok := b.live[p]
	if !ok {
		return nil, ErrSettled // or a copy, which is no better
	}
	return u, nil
}

// usable decides whether an outstanding permit with the grant has covers want.
func usable(u *usage, has, want grant) error {
	switch {
	case has != want:
		return ErrMismatch
	case u.revoked:
		return ErrAborted
	}
	return nil
}

// Detach makes, from a permit that was admitted, one for a command that outlives the
// call: settling the call and aborting its operation leave it alone, closing the
// broker does not. name is of the command among those of the call. It is settled
// like any other.
func (b *Broker) Detach(p *Permit, name string) (*Permit, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	u, err := b.outstanding(p)
	switch {
	case err != nil:
		return nil, err
	case u.revoked || b.closed:
		return nil, ErrAborted
	case !u.used:
		return nil, ErrMismatch
	}
	d := &Permit{owner: b, grant: p.grant, bounds: p.bounds}
	d.grant.at.Step += "/" + name
	if _, there := b.byCall[d.grant.at]; there {
		return nil, ErrOutstanding
	}
	b.live[d], b.byCall[d.grant.at] = &usage{used: true, detached: true}, d
	return d, nil
}

// Exec runs a command for a permit, one at a time. Env and Fence of the command
// are the broker's; an empty Dir is the workspace. It waits while as many commands of the
// response run as may. Errors are those of [jail.Run], of the permit, [*Unconfined], or
// [*Spent]. An aborted command is told in Exit as cancelled.
func (b *Broker) Exec(ctx context.Context, p *Permit, c jail.Command, observe func(jail.Progress)) (jail.Exit, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if err := b.begin(p, end); err != nil {
		return jail.Exit{}, err
	}
	defer b.finish(p)
	c.Env, c.Fence = b.env, b.fence
	if c.Dir == "" {
		c.Dir = b.workspace
	}
	c, err := bounded(c, p.bounds)
	if err != nil {
		return jail.Exit{}, err
	}
	s, err := b.share(ctx, p, c.Path, c.Timeout)
	if err != nil {
		return jail.Exit{}, err
	}
	c.Timeout = s.timeout
	began := b.now()
	exit, err := jail.Run(ctx, c, observe)
	b.giveBack(s, time.Duration(b.now()-began)*time.Millisecond)
	if exit.TimedOut {
		exit.Limit = c.Timeout // which may be less than was asked for
	}
	return exit, err
}

func (b *Broker) begin(p *Permit, end context.CancelCauseFunc) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	u, err := b.outstanding(p)
	switch {
	case err != nil:
		return err
	case u.revoked:
		return ErrAborted
	case u.end != nil:
		return ErrBusy
	}
	u.used, u.end = true, end
	return nil
}

func (b *Broker) finish(p *Permit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live[p].end = nil // it is there: a permit is not settled while it is used
}

// Settle ends a permit. It is called exactly once for each, after the outcome of
// the call is known.
func (b *Broker) Settle(p *Permit) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	u, err := b.outstanding(p)
	if err != nil {
		return err
	}
	if u.end != nil {
		return ErrBusy
	}
	delete(b.live, p)
	delete(b.byCall, p.grant.at)
	return nil
}

// Abort ends whatever runs for an operation and revokes its permits, which still
// have to be settled; what was detached goes on. It does not wait: a command is over when its Exec returns.
// It returns how many commands it ended.
func (b *Broker) Abort(op id.OpID) int {
	return b.abort(func(p *Permit) bool { return p.grant.at.Op == op && !b.live[p].detached }, false)
}

// Close is [Broker.Abort] for all operations, and no call is cleared afterwards.
func (b *Broker) Close() int { return b.abort(func(*Permit) bool { return true }, true) }

func (b *Broker) abort(which func(*Permit) bool, closing bool) (ended int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = b.closed || closing
	for p, u := range b.live {
		if !which(p) || u.revoked {
			continue
		}
		u.revoked = true
		if u.end != nil {
			u.end(ErrAborted)
			ended++
		}
	}
	return ended
}

// Secrets are the values that whoever hands out results of tools has to redact.
func (b *Broker) Secrets() Secrets { return b.secrets }

// Program finds a program in the PATH that commands have. The result is an
// absolute path of an executable file.
func (b *Broker) Program(name string) (path string, ok bool) {
	if name != filepath.Base(name) {
		return "", false
	}
	for _, dir := range jail.SearchPath(b.env) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return path, true
		}
	}
	return "", false
}
