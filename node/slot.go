package node

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/loom-run/loom/blob"
	"github.com/loom-run/loom/broker"
	"github.com/loom-run/loom/broker/jail"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/events"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/machine/agency"
	"github.com/loom-run/loom/machine/automation"
	"github.com/loom-run/loom/policy"
	"github.com/loom-run/loom/prompt"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage/sqlite"
	"github.com/loom-run/loom/tools"
)

// Slot is the place of one session in a node. It exists as soon as somebody asks
// about the session; the session itself is opened, and its lease taken, only when
// something is to run.
type Slot struct {
	node *Node
	id   id.SessionID

	opening sync.RWMutex // held for writing while the session is opened or closed
	mode    *policy.Mode // it was last open in here; nil: it was not. Guarded by opening
	own     policy.Rules // that hold until the process ends. Guarded by node.ruling

	attended atomic.Bool // somebody who can decide is, or will be, there

	mu       sync.Mutex // guards what follows
	res      *resident
	watchers map[int]func(engine.Fact)
	next     int
}

// resident is an open session with everything that it runs with.
type resident struct {
	session *session.Session
	store   *sqlite.Store
	engine  *engine.Engine
	broker  *broker.Broker
	tools   *tools.Registry
	blobs   *blob.Store
	mode    policy.Mode
	cwd     string
}

// ErrMode is a request for another permission mode than the session was opened with.
type ErrMode struct{ Open, Asked policy.Mode }

func (e *ErrMode) Error() string {
	return fmt.Sprintf("the session is open in the permission mode %s and was asked for %s; nothing was changed, close it first", e.Open, e.Asked)
}

// ID names the session.
func (s *Slot) ID() id.SessionID { return s.id }

// Watch calls f with each fact of the session from now on, in order. f must not
// block.
func (s *Slot) Watch(f func(engine.Fact)) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.next
	s.next++
	s.watchers[n] = f
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, n)
	}
}

func (s *Slot) tell(f engine.Fact) {
	if e, ok := hint(f); ok {
		s.node.bus.Publish(events.KeyOf(s.id), e)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watchers {
		w(f)
	}
}

func (s *Slot) resident() *resident {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.res
}

// Read calls f with the session's rows: those of the open session, or those of
// its file, also while another process holds it.
func (s *Slot) Read(f func(*session.View) error) error {
	s.opening.RLock() // nobody closes the session while f reads
	return s.look(f)
}

// glance is Read for who may be waited for by whoever opens or closes the session, as a tool
// is: then it is refused.
func (s *Slot) glance(f func(*session.View) error) error {
	if !s.opening.TryRLock() {
		return errMoving
	}
	return s.look(f)
}

// look reads, and lets go of opening.
func (s *Slot) look(f func(*session.View) error) error {
	defer s.opening.RUnlock()
	if r := s.resident(); r != nil {
		return f(&r.session.View)
	}
	rows, err := sqlite.OpenReader(s.node.home.file(s.id))
	if err != nil {
		return err
	}
	err = f(session.NewView(rows))
	return errors.Join(err, rows.Close())
}

// open returns the open session, opening it if nobody has. Opening resumes what
// was interrupted.
func (s *Slot) open(o Opening) (*resident, error) {
	s.opening.Lock()
	defer s.opening.Unlock()
	if r := s.resident(); r != nil && r.engine.Lost() != nil {
		if err := s.evict(); err != nil { // another process had it meanwhile: what is known here is old
			return nil, err
		}
	}
	if r := s.resident(); r != nil {
		if now := r.broker.Mode(); o.Mode != nil && *o.Mode != now {
			return nil, &ErrMode{now, *o.Mode}
		}
		s.attend(o)
		return r, s.configure(r, o)
	}
	s.attend(o)
	s.node.ruling.RLock() // until it can be found by who changes rules
	defer s.node.ruling.RUnlock()
	r, err := s.load(o)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.res, s.mode = r, &r.mode
	s.mu.Unlock()
	return r, nil
}

// Opening says how a session is opened if it is not open yet.
type Opening struct {
	Mode  *policy.Mode // nil: as it is open, or was last open here, else default
	Model *string      // nil: as configured
	// Posture says whether a question may wait for a person; nil: as it was last said
	// here, else it may not and the call is refused at once.
	Posture *words.ApproverPosture
	cwd     string // of a new session
	still   bool   // nothing of it is to run
}

// attend notes whether a question may wait.
func (s *Slot) attend(o Opening) {
	if o.Posture != nil {
		s.attended.Store(*o.Posture == words.ApproverResident)
	}
}

// aside gives f the open session, or one that was opened for f alone and in which
// nothing runs.
func (s *Slot) aside(f func(*resident) error) (runs bool, err error) {
	s.opening.Lock()
	defer s.opening.Unlock()
	if r := s.resident(); r != nil && r.engine.Lost() == nil {
		err := f(r)
		if _, lost := errors.AsType[*tx.LeaseLost](err); !lost {
			return true, err
		}
		// It was paused here and another process had it meanwhile. Nothing was kept, so it
		// is asked of the session as it is now.
	}
	if err := s.evict(); err != nil {
		return false, err
	}
	s.node.ruling.RLock()
	r, err := s.load(Opening{still: true})
	s.node.ruling.RUnlock()
	if err != nil {
		return false, err
	}
	return false, errors.Join(f(r), r.close())
}

func (s *Slot) load(o Opening) (_ *resident, err error) {
	r := &resident{mode: policy.Default}
	if mode := cmp.Or(o.Mode, s.mode); mode != nil {
		r.mode = *mode
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	r.store, err = sqlite.Open(sqlite.Config{
		Path: s.node.home.file(s.id), Owner: owner(), Clock: s.node.cfg.Now, Create: o.cwd != "",
		Synchronous: s.node.cfg.Synchronous, AfterCommit: s.node.cfg.AfterCommit,
	})
	if err != nil {
		return nil, err
	}
	r.session = session.New(r.store)
	if r.cwd = o.cwd; r.cwd == "" {
		if err := r.place(); err != nil {
			return nil, err
		}
	}
	if err := s.awaitTools(); err != nil {
		return nil, err
	}
	r.blobs = blob.Open(s.node.home.blobs(s.id))
	if _, err := r.blobs.Sweep(); err != nil { // halves that a killed process left
		return nil, fmt.Errorf("the outputs of the session cannot be opened: %w; the session is unchanged", err)
	}
	return r, s.run(r, o)
}

// place finds the directory that the session works in.
func (r *resident) place() error {
	cwd, ok, err := r.session.Workspace()
	if err != nil {
		return err
	}
	if !ok {
		return errors.New("the session does not say which directory it works in, so nothing can run in it; it is unchanged, `loom sessions show` prints what it holds")
	}
	if st, err := os.Stat(cwd); err != nil || !st.IsDir() {
		return &ErrWorkspace{cwd, err}
	}
	r.cwd = cwd
	return nil
}

// ErrWorkspace is a directory that cannot be worked in.
type ErrWorkspace struct {
	Dir string
	Err error // nil: it is there and is no directory
}

func (e *ErrWorkspace) Error() string {
	if errors.Is(e.Err, os.ErrNotExist) {
		return fmt.Sprintf("the directory %s does not exist; the session is unchanged", e.Dir)
	}
	if e.Err != nil {
		return fmt.Sprintf("the directory %s cannot be used: %v; the session is unchanged", e.Dir, e.Err)
	}
	return fmt.Sprintf("%s is not a directory; the session is unchanged", e.Dir)
}

func (e *ErrWorkspace) Unwrap() error { return e.Err }

// toolsGrace bounds the wait for the commands of a killed process; they are sent
// SIGKILL at once, so this is the time of a loaded machine.
const toolsGrace = 20 * time.Second

// awaitTools makes sure that no command of an earlier process runs beside this one.
func (s *Slot) awaitTools() error {
	ctx, cancel := context.WithTimeout(context.Background(), toolsGrace)
	defer cancel()
	if err := jail.AwaitFence(ctx, s.node.home.fence(s.id)); err != nil {
		return fmt.Errorf("commands of an interrupted run are still alive (%w); the session is unchanged, end them and try again", err)
	}
	return nil
}

// run builds what the session runs with and starts it.
func (s *Slot) run(r *resident, o Opening) (err error) {
	r.broker, err = broker.New(broker.Config{
		Mode: r.mode, Workspace: r.cwd, Environ: s.node.cfg.Environ, Fence: jail.NewFence(s.node.home.fence(s.id)),
		Secrets: s.node.secrets(), Guarded: s.node.guarded(r.cwd), Budget: broker.DefaultBudget, Now: s.node.cfg.Now,
	})
	if err != nil {
		return err
	}
	r.tools, err = tools.New(tools.Deps{
		Workspace: r.cwd, Closed: []string{s.node.home.dir}, Broker: r.broker, Blobs: r.blobs,
		Agency: func() tools.Agency { return r.engine }, Jobs: func() tools.Jobs { return r.engine }, Schedules: s.node.schedules(r),
		Peers: func() tools.Peers { return r.engine }, Person: true, Archive: func() tools.Archive { return archive{s.node, r.cwd} },
	})
	if err != nil {
		return &ErrWorkspace{r.cwd, err}
	}
	ruler := s.node.ruler(r.tools, r.cwd)
	rules, err := s.node.rules(ruler)
	if err != nil {
		return err
	}
	r.broker.Rule(func(policy.Rules) policy.Rules { return policy.RulesOf(append(rules.All(), s.own.All()...)...) })
	box := &toolbox{broker: r.broker, tools: r.tools, session: &r.session.View, attended: s.attended.Load, window: s.node.cfg.AnswerWithin}
	box.compile = func(text string) (policy.Rule, *policy.Issue) {
		return ruler.compile(text, words.RuleAllow, words.RuleForLocal)
	}
	model, err := s.initialModel(r, o)
	if err != nil {
		return err
	}
	main := machine.Configuration{Model: model.Ref, ThinkingLevel: cmp.Or(model.Thinking, machine.ThinkingOff), ActiveToolNames: box.names()}
	if o.cwd != "" {
		if err := r.session.Found(s.id, o.cwd, main); err != nil {
			return err
		}
	}
	r.engine, err = engine.Open(engine.Config{
		Session: r.session, Models: s.node.cfg.Models, Tools: box,
		System: prompt.System(prompt.Environment{Workspace: r.cwd, Platform: runtime.GOOS + "/" + runtime.GOARCH, Mode: r.mode.String()}),
		Clock:  s.node.cfg.Now, Entropy: entropy, After: time.After, Observe: s.tell,
		Settings: machine.Settings{
			SteeringMode: machine.DrainAll, FollowUpMode: machine.DrainAll, ToolExecution: machine.Parallel,
			Compaction: machine.CompactionSettings{Enabled: true, ReserveTokens: machine.DefaultReserveTokens, KeepRecentTokens: machine.DefaultKeepRecentTokens},
		},
		Retry: s.node.cfg.Retry, Agency: agency.DefaultLimits(),
		Automation: s.node.cfg.Automation, Peers: post{s.node}, Summarizer: s.node.summarizer, Subagent: s.node.subagent, Meter: s.node.cfg.Meter.Session(s.id),
	})
	if err != nil {
		return err
	}
	if o.still {
		return nil
	}
	if err := r.session.EnsureStrand(session.MainStrand, main); err != nil {
		return err
	}
	if err := s.configure(r, o); err != nil {
		return err
	}
	return r.engine.Start(main)
}

// schedules is what the tools of schedules stand on; nil where models may make none.
func (n *Node) schedules(r *resident) func() tools.Schedules {
	if n.cfg.Automation.Models == automation.Off {
		return nil
	}
	return func() tools.Schedules { return r.engine }
}

// secrets are what no result shows.
func (n *Node) secrets() broker.Secrets {
	named := slices.DeleteFunc(slices.Clone(n.cfg.Environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return !slices.Contains(n.cfg.Redaction.Variables, name)
	})
	s := broker.SecretsFrom(func() []string { return append(n.cfg.Models.Keys(), named...) })
	if on := n.cfg.Redaction.Shapes; on == nil || *on {
		s = s.Shaped()
	}
	return s
}

// initialModel chooses what a strand without a configuration starts with.
func (s *Slot) initialModel(r *resident, o Opening) (Chosen, error) {
	if c, ok, err := r.session.StrandConfig(session.MainStrand); err != nil || ok {
		return Chosen{Ref: c.Value.Model, Thinking: c.Value.ThinkingLevel}, err
	}
	spec := ""
	if o.Model != nil {
		spec = *o.Model
	}
	return s.node.cfg.Models.Choose(spec)
}

// configure applies a model that was asked for by name.
func (s *Slot) configure(r *resident, o Opening) error {
	if o.Model == nil {
		return nil
	}
	chosen, err := s.node.cfg.Models.Choose(*o.Model)
	if err != nil {
		return err
	}
	return r.engine.Configure(session.MainStrand, func(c machine.Configuration) machine.Configuration {
		c.Model = chosen.Ref
		return c
	})
}

// close ends the session in this process. An open operation goes on at the next
// opening.
func (s *Slot) close() error {
	s.opening.Lock()
	defer s.opening.Unlock()
	return s.evict()
}

// evict is close for who holds the slot already.
func (s *Slot) evict() error {
	s.mu.Lock()
	r := s.res
	s.res = nil
	s.mu.Unlock()
	if r == nil {
		return nil
	}
	s.mode = new(r.broker.Mode()) // a plan that was accepted stays accepted
	return r.close()
}

// close works on a resident that was built in part, too.
func (r *resident) close() error {
	var errs []error
	if r.engine != nil {
		r.engine.Close()
	}
	if r.broker != nil {
		r.broker.Close() // the engine joined every command; what were left would end now
	}
	if r.tools != nil {
		errs = append(errs, r.tools.Close())
	}
	if r.store != nil {
		errs = append(errs, r.store.Close())
	}
	return errors.Join(errs...)
}

// owner names one opening, uniquely.
func owner() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func entropy() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}

// absolute checks a directory that a new session is to work in.
func absolute(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", &ErrWorkspace{dir, errors.New("it is not an absolute path")}
	}
	dir = filepath.Clean(dir)
	st, err := os.Stat(dir)
	if err == nil && st.IsDir() {
		return dir, nil
	}
	return "", &ErrWorkspace{dir, err}
}
