// Package node is the composition root: it builds sessions that run from a
// configuration.
//
// # Purpose
//
// The command line, the server and programs that embed Loom need the same thing:
// find the state root, open a session under its lease, give it a model, tools and
// a broker, and hand its facts to whoever watches. It is done here, once.
//
// # Key types
//
// [Node] holds the sessions of one state root in one process; [Slot] is the place
// of one of them; [Home] is the root on disk; [Config] the ports; [Models] chooses
// and finds models.
//
// # Relationships
//
// Imports the whole engine side and the server, whose host it is; nothing of the
// wire.
//
// # Traffic
//
// Makes the folders of the state root, and reserves ids of new sessions. All other
// commits are the engine's.
//
// # Invariants
//
// A session is opened, and its lease taken, only to run something; reading never
// takes it. Before an interrupted run goes on, no command of the process that was
// interrupted is alive, as far as broker/jail can tell. The keys of providers are
// in no result of a tool. A session that is closed here leaves no process and no
// lease behind.
package node

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/loom-run/loom/config"
	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/events"
	"github.com/loom-run/loom/events/search"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/machine/automation"
	"github.com/loom-run/loom/policy"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlite"
	"github.com/loom-run/loom/telemetry"
)

// Models chooses a model by what a person wrote, and finds it again by what a
// strand stores.
type Models interface {
	engine.Models
	// Choose reads a name, VENDOR/ID, replay/FILE or demo; "" is the default. The
	// error says what there is.
	Choose(spec string) (Chosen, error)
	// Keys are the secrets of providers that are known by now, as name=value.
	Keys() []string
	// Role is the model that plays a role; ok is false where nobody named one.
	Role(config.Role) (c Chosen, ok bool)
}

// Config is what a node works with.
type Config struct {
	Home        Home
	Models      Models
	Environ     []string     // of the process, as name=value; commands see the harmless part
	Now         func() int64 // Unix ms
	Synchronous sqlite.Synchronous
	Retry       machine.RetryPolicy
	Build       string           // of the program, for people; may be empty
	Meter       *telemetry.Meter // nil: nothing is measured

	Automation automation.Settings // rules and schedules

	Permissions     config.Permissions // the person's rules
	Redaction       config.Redaction   // what results do not show, beside the keys of models
	PermissionsFile string             // where these stand, for people; calls do not change it

	// AnswerWithin is how long an answer about a call is waited for, in ms; 0: for ever.
	AnswerWithin int64

	// AfterCommit, when given, runs after a commit is durable and before anybody
	// hears of it: the place where a crash test dies.
	AfterCommit func(tx.Result)
}

// DefaultRetry is the ladder of a run: attempts until the provider answers or the
// run is aborted would never end a script, so they are bounded.
func DefaultRetry() machine.RetryPolicy {
	return machine.RetryPolicy{MaxAttempts: new(int64(8)), BaseDelayMs: 1000, MaxDelayMs: 60_000}
}

// summarizer is the model that writes the summaries of a strand.
func (n *Node) summarizer(own machine.ModelRef) machine.ModelRef {
	if c, ok := n.cfg.Models.Role(config.Summarize); ok {
		return c.Ref
	}
	return own
}

// subagent is the model that an agent begins with, and how much it is asked to
// reason: those of its parent where no role says otherwise.
func (n *Node) subagent(parent machine.ModelRef, thinking machine.ThinkingLevel) (machine.ModelRef, machine.ThinkingLevel) {
	if c, ok := n.cfg.Models.Role(config.Subagent); ok {
		return c.Ref, c.Thinking
	}
	return parent, thinking
}

// ErrUnknownSession is a session that has no file.
type ErrUnknownSession struct{ ID id.SessionID }

func (e *ErrUnknownSession) Error() string {
	return fmt.Sprintf("there is no session %s; `loom sessions` lists those there are", e.ID)
}

// Node holds the sessions of one state root.
type Node struct {
	cfg     Config
	home    Home
	started int64 // Unix ms
	bus     events.Bus

	ruling sync.RWMutex // held for writing while rules change; guards cfg.Permissions. Before Slot.mu and mu

	finding sync.Mutex    // guards found, and is held while it is worked on
	found   *search.Index // nil: not open

	mu     sync.Mutex // guards what follows
	slots  map[id.SessionID]*Slot
	closed bool
}

// New makes a node. It touches nothing on disk.
func New(cfg Config) *Node {
	return &Node{cfg: cfg, home: cfg.Home, started: cfg.Now(), slots: make(map[id.SessionID]*Slot)}
}

// ErrClosed is returned by a node that was closed.
var ErrClosed = errors.New("loom is shutting down; nothing was started")

// Slot returns the place of a session that exists.
func (n *Node) Slot(s id.SessionID) (*Slot, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if slot, ok := n.slots[s]; ok {
		return slot, nil
	}
	ok, err := n.home.has(s)
	if err != nil {
		return nil, fmt.Errorf("the session %s cannot be looked up: %w", s, err)
	}
	if !ok {
		return nil, &ErrUnknownSession{s}
	}
	return n.slot(s)
}

// slot makes a place. The caller holds mu.
func (n *Node) slot(s id.SessionID) (*Slot, error) {
	if n.closed {
		return nil, ErrClosed
	}
	slot := &Slot{node: n, id: s, watchers: make(map[int]func(engine.Fact))}
	n.slots[s] = slot
	return slot, nil
}

// Create makes a session that works in dir and opens it.
func (n *Node) Create(dir string, mode policy.Mode, model *string) (*Slot, error) {
	return n.create(dir, Opening{Mode: &mode, Model: model})
}

func (n *Node) create(dir string, o Opening) (*Slot, error) {
	dir, err := absolute(dir)
	if err != nil {
		return nil, err
	}
	spec := ""
	if o.Model != nil {
		spec = *o.Model
	}
	if _, err := n.cfg.Models.Choose(spec); err != nil {
		return nil, err // before anything is made
	}
	if err := n.home.create(); err != nil {
		return nil, err
	}
	s, _ := id.NewGenerator(clock.Real(n.cfg.Now), entropy()).Session()
	n.mu.Lock()
	slot, err := n.slot(s)
	n.mu.Unlock()
	if err != nil {
		return nil, err
	}
	o.cwd = dir
	if _, err := slot.open(o); err != nil {
		return nil, err
	}
	return slot, nil
}

// Prompt gives a strand input, opening the session if it must.
func (s *Slot) Prompt(o Opening, strand string, p engine.Prompt) (engine.Receipt, error) {
	for first := true; ; first = false {
		r, err := s.open(o)
		if err != nil {
			return engine.Receipt{}, err
		}
		receipt, err := r.engine.Prompt(strand, p)
		if _, lost := errors.AsType[*tx.LeaseLost](err); !lost || !first {
			return receipt, err
		}
		// The session was idle here and another process had it meanwhile. Nothing of the
		// prompt was kept, so it is given to the session as it is now.
	}
}

// Resume opens the session, which resumes what was interrupted, and returns the
// operation that runs. ok is false when there was nothing to finish.
func (s *Slot) Resume(o Opening, strand string) (op id.OpID, ok bool, err error) {
	// Whether something is open is read before: it may be over right after.
	before, _, err := s.current(strand)
	if err != nil {
		return id.OpID{}, false, err
	}
	if before.IsZero() {
		return id.OpID{}, false, nil
	}
	if _, err := s.open(o); err != nil {
		return id.OpID{}, false, err
	}
	return before, true, nil
}

// Abort ends what a strand runs. ok is false when nothing runs in this process.
func (s *Slot) Abort(strand string) (op id.OpID, ok bool, err error) {
	r := s.resident()
	if r == nil {
		return id.OpID{}, false, nil
	}
	return r.engine.Abort(strand)
}

// Take frees a session that another process holds: that process keeps nothing of what
// it does from now on. It returns who held it; nil when nobody did.
func (n *Node) Take(s id.SessionID) (*storage.LeaseHeld, error) {
	if _, err := n.Slot(s); err != nil {
		return nil, n.home.refuse(err)
	}
	held, err := sqlite.Take(sqlite.Config{Path: n.home.file(s), Owner: owner(), Clock: n.cfg.Now, Synchronous: n.cfg.Synchronous})
	return held, n.home.refuse(err)
}

// Close closes every session. Runs that are open go on at the next opening.
func (n *Node) Close() error {
	n.mu.Lock()
	n.closed = true
	slots := make([]*Slot, 0, len(n.slots))
	for _, s := range n.slots {
		slots = append(slots, s)
	}
	n.mu.Unlock()
	var errs []error
	for _, s := range slots {
		errs = append(errs, s.close())
	}
	n.finding.Lock()
	errs = append(errs, n.closeSearch())
	n.finding.Unlock()
	if m, ok := n.cfg.Models.(io.Closer); ok {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}
