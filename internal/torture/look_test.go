//go:build linux

package torture

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/loom-run/loom/blob"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/node"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/session/check"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlite"
)

// look is what is found on a stage while nobody works on it.
type look struct {
	Stores   map[string]survey // by session, also one whose making was interrupted, unless its file is empty
	Made     []string          // the sessions that were completely made
	Listed   []string          // the sessions that a person is shown
	Findings []string          // of all sessions
	Phases   []string          // where the run stands

	Branch   []item            // from the root to the leaf of the main strand
	Results  map[string][]item // every result in the session, on the branch or not, by call
	Calls    map[string]int    // every call of a response that is no failure
	Queued   []string          // texts of prompts that wait
	Placed   map[string]string // entry id of placed and queued prompts, to their text
	Endings  []string          // outcomes of operations that ended, in the order of their results
	Flying   map[string]string // calls in flight, to their replay policy
	Effects  map[string]int    // lines in the file of effects
	Counter  string            // the counter's file
	Output   string            // the file that write-1 makes; "" for none
	Kept     map[string]bool   // the large outputs that results refer to, and whether their bytes are there
	Halves   int               // large outputs that were being written
	Breathes []process         // of any life, once the stage is over
}

// item is one message of a branch, reduced to what a play can say about it.
type item struct {
	Kind  string // user, answer, failure, result
	ID    string // of the entry, or of the call for a result
	Text  string
	Calls []string // of an answer
}

func (i item) String() string {
	switch i.Kind {
	case itemResult:
		return fmt.Sprintf("result of %s: %.60q", i.ID, i.Text)
	case itemAnswer:
		return fmt.Sprintf("answer %.40q calling %v", i.Text, i.Calls)
	}
	return fmt.Sprintf("%s %.60q", i.Kind, i.Text)
}

const (
	itemUser    = "user"
	itemAnswer  = "answer"
	itemFailure = "failure"
	itemResult  = "result"
)

// newLook reads everything. Its error says that something could not be read at all. The process table is only looked at when the stage is over: the lives
// themselves do so as they open the session.
func newLook(s *stage, over bool) (look, error) {
	k := look{
		Stores: map[string]survey{}, Results: map[string][]item{}, Calls: map[string]int{}, Placed: map[string]string{},
		Flying: map[string]string{}, Effects: map[string]int{}, Kept: map[string]bool{},
	}
	if err := k.files(s); err != nil {
		return k, err
	}
	files, err := sessionFiles(s.home())
	if err != nil {
		return k, err
	}
	k.Phases = []string{phaseMaking} // unless a session says otherwise
	for _, f := range files {
		if err := k.session(f); err != nil {
			return k, err
		}
	}
	if over {
		if k.Breathes, err = ofStage(s.home()); err != nil {
			return k, err
		}
	}
	return k, k.listed(s.home())
}

// listed compares what `loom sessions` lists with what was made.
func (k *look) listed(home string) error {
	h, err := homeAt(home)
	if err != nil {
		return err
	}
	list, err := node.New(node.Config{Home: h, Now: now}).List()
	if err != nil {
		return err
	}
	for _, s := range list {
		k.Listed = append(k.Listed, s.ID.String())
		if s.Err != nil {
			k.Findings = append(k.Findings, fmt.Sprintf("%s is listed as unreadable: %v", s.ID, s.Err))
		}
	}
	return nil
}

// files reads the workspace.
func (k *look) files(s *stage) error {
	effects, err := os.ReadFile(filepath.Join(s.workspace(), effectsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for line := range strings.Lines(string(effects)) {
		k.Effects[strings.TrimSuffix(line, "\n")]++
	}
	counter, err := os.ReadFile(filepath.Join(s.workspace(), counterFile))
	if err != nil {
		return err
	}
	k.Counter = string(counter)
	output, err := os.ReadFile(filepath.Join(s.workspace(), outputFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	k.Output = string(output)
	return nil
}

// session reads one session and checks it, as `loom check` does.
func (k *look) session(path string) (err error) {
	name := sessionName(path)
	rows, err := sqlite.OpenReader(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // an empty file: its making was interrupted
	}
	if err != nil {
		k.Findings = append(k.Findings, fmt.Sprintf("%s cannot be opened: %v", name, err))
		return nil
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	findings, err := check.Session(rows)
	if err != nil {
		k.Findings = append(k.Findings, fmt.Sprintf("%s cannot be checked: %v", name, err))
		return nil
	}
	for _, f := range findings {
		k.Findings = append(k.Findings, name+": "+f.String())
	}
	if k.Stores[name], err = newSurvey(rows); err != nil {
		return err
	}
	v := session.NewView(rows)
	if _, made, err := v.Workspace(); err != nil || !made {
		return err
	}
	k.Made = append(k.Made, name)
	if err := k.read(v); err != nil {
		return err
	}
	return k.outputs(strings.TrimSuffix(path, ".db") + ".blobs")
}

// outputs looks for the bytes of the large outputs, by the digest that is their name.
func (k *look) outputs(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return ignoreMissing(err)
	}
	for _, f := range files {
		bytes, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(bytes)
		if name := hex.EncodeToString(sum[:]); name != f.Name() {
			k.Halves++
		} else if _, wanted := k.Kept[name]; wanted {
			k.Kept[name] = true
		}
	}
	return nil
}

// refers notes the large outputs that a result refers to.
func (k *look) refers(b entry.Body) error {
	body, _ := b.(entry.Message)
	m, ok := body.Message.(*message.ToolResult)
	if !ok {
		return nil
	}
	refs, err := blob.InDetails(m.Details)
	for _, r := range refs {
		k.Kept[r.SHA256] = false // until it is seen
	}
	return err
}

// read reads the session that the play is about.
func (k *look) read(v *session.View) error {
	all, err := v.Rows().ScanEntries(storage.EntryQuery{})
	if err != nil {
		return err
	}
	byID := map[id.EntryID]entry.Entry{}
	for _, e := range all {
		byID[e.ID] = e
		k.entry(e)
		if err := k.refers(e.Body); err != nil {
			return err
		}
	}
	if err := k.pending(v); err != nil {
		return err
	}
	if err := k.endings(v); err != nil {
		return err
	}
	leaf, _, err := v.StrandLeaf(session.MainStrand)
	if err != nil {
		return err
	}
	for at := leaf.Value; !at.IsZero(); at = byID[at].Parent {
		if i, ok := itemOf(byID[at]); ok {
			k.Branch = append(k.Branch, i)
		}
	}
	slices.Reverse(k.Branch)
	return k.phase(v)
}

// entry notes what must be counted over the whole session.
func (k *look) entry(e entry.Entry) {
	i, ok := itemOf(e)
	if !ok {
		return
	}
	switch i.Kind {
	case itemUser:
		k.Placed[e.ID.String()] = i.Text
	case itemAnswer:
		for _, c := range i.Calls {
			k.Calls[c]++
		}
	case itemResult:
		k.Results[i.ID] = append(k.Results[i.ID], i)
	}
}

func itemOf(e entry.Entry) (item, bool) {
	b, ok := e.Body.(entry.Message)
	if !ok {
		return item{}, false
	}
	switch m := b.Message.(type) {
	case *message.User:
		return item{Kind: itemUser, ID: e.ID.String(), Text: message.TextOf(m.Content)}, true
	case *message.Assistant:
		i := item{Kind: itemAnswer, ID: e.ID.String(), Text: message.TextOf(m.Content)}
		if m.StopReason == message.Error || m.StopReason == message.Aborted {
			i.Kind = itemFailure
			return i, true
		}
		calls, _ := m.ToolCalls()
		for _, c := range calls {
			i.Calls = append(i.Calls, c.ID)
		}
		return i, true
	case *message.ToolResult:
		return item{Kind: itemResult, ID: m.ToolCallID, Text: message.TextOf(m.Content)}, true
	case *message.Custom:
	}
	return item{}, false
}

func (k *look) pending(v *session.View) error {
	cells, err := v.Rows().Registers(register.PendingEntry, "")
	if err != nil {
		return err
	}
	for _, c := range cells {
		p, err := machine.DecodePendingEntry(c.Value)
		if err != nil {
			return err
		}
		b, _ := p.Body.(entry.Message)
		if u, ok := b.Message.(*message.User); ok {
			text := message.TextOf(u.Content)
			k.Queued = append(k.Queued, text)
			k.Placed[c.Key] = text
		}
		if err := k.refers(p.Body); err != nil {
			return err
		}
	}
	return nil
}

func (k *look) endings(v *session.View) error {
	cells, err := v.Rows().Registers(register.FactCustom, "operation-result/")
	if err != nil {
		return err
	}
	slices.SortFunc(cells, func(a, b storage.KeyedCell) int { return int(a.Seq - b.Seq) })
	for _, c := range cells {
		r, err := machine.DecodeLastResult(c.Value)
		if err != nil {
			return err
		}
		k.Endings = append(k.Endings, string(r.Outcome))
	}
	return nil
}

// The phases in which a run may be killed.
const (
	phaseMaking     = "the session is being made"
	phaseIdle       = "made, no prompt yet"
	phaseStarting   = "starting"
	phaseCheckpoint = "checkpoint"
	phaseReady      = "request planned"
	phasePending    = "request in flight"
	phaseRetry      = "waiting for another attempt"
	phasePlanned    = "call planned"
	phaseSafe       = "safe call in flight"
	phaseUnsafe     = "unsafe call in flight"
	phaseStaged     = "result staged"
	phasePlaced     = "result placed, batch open"
	phaseDrain      = "failing"
	phaseCancelled  = "abort requested"
	phaseQueued     = "prompt queued"
	phaseOver       = "over"
)

// phases are all of them.
var phases = []string{
	phaseMaking, phaseIdle, phaseStarting, phaseCheckpoint, phaseReady, phasePending, phaseRetry, phasePlanned, phaseSafe, phaseUnsafe,
	phaseStaged, phasePlaced, phaseDrain, phaseCancelled, phaseQueued, phaseOver,
}

// phase says where the strand stands.
func (k *look) phase(v *session.View) error {
	k.Phases = nil
	if len(k.Queued) > 0 {
		k.Phases = append(k.Phases, phaseQueued)
	}
	strand, ok, err := v.StrandState(session.MainStrand)
	switch {
	case err != nil:
		return err
	case !ok:
		return errors.New("a session that was made has no main strand")
	case strand.Value.CurrentOperation.IsZero():
		where := phaseIdle
		if len(k.Endings) > 0 {
			where = phaseOver
		}
		k.Phases = append(k.Phases, where)
		return nil
	}
	op := strand.Value.CurrentOperation
	st, ok, err := v.OpState(op)
	if err != nil || !ok {
		return errors.Join(err, fmt.Errorf("the operation %s has no state", op))
	}
	if _, cancelled := st.Value.Control.(machine.CancelRequested); cancelled {
		k.Phases = append(k.Phases, phaseCancelled)
	}
	run, ok := st.Value.Work.(*machine.Run)
	if !ok {
		return fmt.Errorf("the operation %s is no run", op)
	}
	return k.runPhase(v, run)
}

func (k *look) runPhase(v *session.View, run *machine.Run) error {
	add := func(phase string) { k.Phases = append(k.Phases, phase) }
	switch p := run.Phase.(type) {
	case machine.Starting:
		add(phaseStarting)
	case machine.AtCheckpoint:
		add(phaseCheckpoint)
	case machine.Generating:
		switch p.Generation.(type) {
		case machine.GenReady:
			add(phaseReady)
		case machine.GenPending:
			add(phasePending)
		case machine.GenRetryWait:
			add(phaseRetry)
		}
	case machine.RunningTools:
		return k.batch(v, p.Batch)
	case machine.FailureDrain:
		add(phaseDrain)
	case machine.Compacting, machine.AwaitingDeferred:
		return fmt.Errorf("no play leads to %T", p)
	}
	return nil
}

func (k *look) batch(v *session.View, b machine.Batch) error {
	rows, err := v.Rows().Entries(b.AssistantID)
	if err != nil {
		return err
	}
	body, _ := rows[b.AssistantID].Body.(entry.Message)
	source, ok := body.Message.(*message.Assistant)
	if !ok {
		return fmt.Errorf("the batch of %s has no response", b.AssistantID)
	}
	for _, c := range b.Calls {
		switch st := c.Status.(type) {
		case machine.Planned:
			k.Phases = append(k.Phases, phasePlanned)
		case machine.InFlight:
			where := phaseUnsafe
			if st.Replay == machine.ReplaySafe {
				where = phaseSafe
			}
			k.Phases = append(k.Phases, where)
			if call, ok := source.Content[c.SourceIndex].(message.ToolCall); ok {
				k.Flying[call.ID] = string(st.Replay)
			}
		case machine.OutcomeReady:
			k.Phases = append(k.Phases, phaseStaged)
		case machine.Completed:
			k.Phases = append(k.Phases, phasePlaced)
		}
	}
	slices.Sort(k.Phases)
	k.Phases = slices.Compact(k.Phases)
	return nil
}
