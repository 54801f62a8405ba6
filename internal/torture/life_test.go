//go:build linux

package torture

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loom-run/loom/config"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/node"
	"github.com/loom-run/loom/policy"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/scripted"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlite"
)

// lifeVariable holds the orders of a child process as JSON.
const lifeVariable = "LOOM_TORTURE_LIFE"

// reportFD is where a life says what happens.
const reportFD = 3

// liver is the inside of one life.
type liver struct {
	orders
	out    *os.File
	node   *node.Node
	before []string // session files that were there before this life
	first  sync.Once

	path    string         // of the session; guarded by the store's writer from its first commit on
	commits int            // guarded by the store's writer
	reader  *sqlite.Reader // likewise

	mu      sync.Mutex // guards what follows
	changed *sync.Cond
	ended   map[id.OpID]bool
	printed map[string]bool // calls that have printed something
	stopped error
}

// live is the whole of a child process; text is its orders.
func live(text string) int {
	unix.CloseOnExec(reportFD)
	l := &liver{out: os.NewFile(reportFD, "reports"), ended: map[id.OpID]bool{}, printed: map[string]bool{}}
	l.changed = sync.NewCond(&l.mu)
	err := json.Unmarshal([]byte(text), &l.orders)
	if err == nil {
		err = l.run()
	}
	if err != nil {
		l.say(event{Kind: failed, Error: err.Error()})
		return 1
	}
	l.say(event{Kind: done})
	return 0
}

// say writes one line. When it returns the line is in the pipe and survives this process.
func (l *liver) say(e event) {
	e.At = now()
	line, err := json.Marshal(e)
	if err == nil {
		_, err = l.out.Write(append(line, '\n'))
	}
	if err != nil {
		panic("the parent does not listen: " + err.Error())
	}
}

func now() int64 { return time.Now().UnixMilli() }

func (l *liver) run() (err error) {
	script, err := scripted.Load(l.Script)
	if err != nil {
		return err
	}
	home, err := homeAt(l.Home)
	if err != nil {
		return err
	}
	if l.before, err = sessionFiles(l.Home); err != nil {
		return err
	}
	l.node = node.New(node.Config{
		Home: home, Models: models{scripted.New(script, now)}, Environ: os.Environ(), Now: now,
		Retry:       machine.RetryPolicy{BaseDelayMs: 4, MaxDelayMs: 16},
		AfterCommit: l.afterCommit,
	})
	return errors.Join(l.play(), l.node.Close())
}

func homeAt(dir string) (node.Home, error) {
	return node.FindHome(func(name string) string { return map[string]string{"LOOM_HOME": dir}[name] })
}

// models offers the script as the only model.
type models struct{ *scripted.Provider }

func (models) Choose(string) (node.Chosen, error) {
	return node.Chosen{Ref: machine.ModelRef{Provider: scripted.Model.Provider, ModelID: scripted.Model.ModelID}}, nil
}

func (models) Keys() []string { return nil }

func (models) Role(config.Role) (node.Chosen, bool) { return node.Chosen{}, false }

func (m models) Resolve(machine.ModelRef) (provider.Model, provider.Provider, error) {
	return scripted.Model, m.Provider, nil
}

// play does what a person would: `loom resume` where a run was interrupted, and `loom run` for each prompt that the session does not hold.
func (l *liver) play() error {
	mode := policy.BypassPermissions
	opening := node.Opening{Mode: &mode}
	slot, err := usable(l.node)
	if err != nil {
		return err
	}
	var ops []id.OpID
	if slot == nil {
		if slot, err = l.node.Create(l.Workspace, mode, nil); err != nil {
			return err
		}
		slot.Watch(l.watch)
	} else {
		l.path = sessionFile(l.Home, slot.ID())
		slot.Watch(l.watch)
		op, open, err := slot.Resume(opening, session.MainStrand)
		if err != nil {
			return err
		}
		if open {
			ops = append(ops, op)
		}
	}
	for _, text := range l.Prompts {
		held, err := holds(slot, text)
		if err != nil {
			return err
		}
		if held {
			continue
		}
		r, err := slot.Prompt(opening, session.MainStrand, engine.Prompt{Content: []message.UserBlock{message.Text{Text: text}}})
		if err != nil {
			return err
		}
		l.say(event{Kind: prompted, Prompt: &acknowledged{text, r.Entry.String(), r.Seq, r.Queued}})
		ops = append(ops, r.Op)
	}
	return l.finish(slot, ops)
}

// finish waits for the ends of operations, and aborts them where the play says so.
func (l *liver) finish(slot *node.Slot, ops []id.OpID) error {
	for _, op := range ops {
		if l.AbortOn != "" {
			if err := l.until(func() bool { return l.printed[l.AbortOn] || l.ended[op] }); err != nil {
				return err
			}
			_, running, err := slot.Abort(session.MainStrand)
			if err != nil {
				return err
			}
			if running {
				l.say(event{Kind: aborted})
			}
		}
		if err := l.until(func() bool { return l.ended[op] }); err != nil {
			return err
		}
	}
	return nil
}

// until waits for something that facts tell, or for the end of the strand.
func (l *liver) until(so func() bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !so() && l.stopped == nil {
		l.changed.Wait()
	}
	return l.stopped
}

// watch hears the facts of the session.
func (l *liver) watch(f engine.Fact) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch f := f.(type) {
	case engine.RunStarted:
		l.first.Do(l.open) // a resumed run: nothing of it goes on before this returns
	case engine.ToolOutput:
		l.printed[f.CallID] = true
	case engine.RunFinished:
		l.ended[f.Op] = true
	case engine.StrandStopped:
		l.stopped = f.Err
	}
	l.changed.Broadcast()
}

// open is the moment at which the session is open and runs nothing yet: nothing of an earlier life may run either.
func (l *liver) open() {
	e := event{Kind: opened}
	found, err := ofStage(l.Home)
	if err != nil {
		e.Strays = append(e.Strays, err.Error())
	}
	for _, p := range found {
		if p.life < l.Number {
			e.Strays = append(e.Strays, p.String())
		}
	}
	l.say(e)
}

// afterCommit is called with each commit that has become durable, before anybody hears of it.
func (l *liver) afterCommit(r tx.Result) {
	l.first.Do(l.open)
	l.commits++
	e := event{Kind: committed, First: r.FirstSeq, Last: r.FirstSeq + int64(len(r.Seqs)) - 1}
	dies := l.commits == l.DieAt
	if err := l.look(&e, dies); err != nil {
		panic("what was committed cannot be read: " + err.Error())
	}
	l.say(e)
	if dies {
		if err := kill(os.Getpid(), false); err != nil {
			panic(err)
		}
		select {} // the other threads die a moment later; this one must not go on meanwhile
	}
}

// look reads what a commit placed, through a reader of its own.
func (l *liver) look(e *event, whole bool) error {
	if l.reader == nil {
		if err := l.find(); err != nil {
			return err
		}
	}
	e.Session = sessionName(l.path)
	if whole {
		s, err := newSurvey(l.reader)
		if err != nil {
			return err
		}
		e.Whole = s.whole()
	}
	e.Rows = map[int64]string{}
	entries, err := l.reader.ScanEntries(storage.EntryQuery{FromSeq: &e.First, ToSeq: &e.Last})
	if err != nil {
		return err
	}
	for _, row := range entries {
		e.Rows[row.Seq] = entryRow(row)
	}
	ledger, err := l.reader.ScanUsage(storage.UsageQuery{FromSeq: &e.First, ToSeq: &e.Last})
	for _, row := range ledger {
		e.Rows[row.Seq] = usageRow(row)
	}
	return err
}

// find opens the reader, for a new session on the file that was not there before.
func (l *liver) find() (err error) {
	if l.path == "" {
		files, err := sessionFiles(l.Home)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(files, func(f string) bool { return !slices.Contains(l.before, f) })
		if i < 0 {
			return errors.New("a session was committed to and has no file")
		}
		l.path = files[i]
	}
	l.reader, err = sqlite.OpenReader(l.path)
	return err
}

func sessionName(path string) string { return strings.TrimSuffix(filepath.Base(path), ".db") }

func sessionFile(home string, s id.SessionID) string {
	return filepath.Join(home, "sessions", s.String()+".db")
}

func sessionFiles(home string) ([]string, error) {
	return filepath.Glob(filepath.Join(home, "sessions", "*.db"))
}

// usable finds the session, or nil.
func usable(n *node.Node) (*node.Slot, error) {
	list, err := n.List()
	if err != nil {
		return nil, err
	}
	var found *node.Slot
	for _, s := range list {
		if s.Err != nil {
			return nil, s.Err
		}
		if found != nil {
			return nil, fmt.Errorf("there are two sessions, %s and %s", found.ID(), s.ID)
		}
		if found, err = n.Slot(s.ID); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// holds reports whether a session has a prompt, queued or placed. They are two reads
// while the session works, so that they come in the order in which a prompt moves.
func holds(slot *node.Slot, text string) (held bool, err error) {
	err = slot.Read(func(v *session.View) error {
		queued, err := v.Rows().Registers(register.PendingEntry, "")
		if err != nil {
			return err
		}
		for _, c := range queued {
			p, err := machine.DecodePendingEntry(c.Value)
			if err != nil {
				return err
			}
			held = held || saysPrompt(p.Body, text)
		}
		placed, err := v.Rows().ScanEntries(storage.EntryQuery{Kind: entry.KindMessage})
		if err != nil {
			return err
		}
		for _, e := range placed {
			held = held || saysPrompt(e.Body, text)
		}
		return nil
	})
	return held, err
}

func saysPrompt(b entry.Body, text string) bool {
	m, ok := b.(entry.Message)
	if !ok {
		return false
	}
	u, ok := m.Message.(*message.User)
	return ok && message.TextOf(u.Content) == text
}
