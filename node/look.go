package node

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/loom-run/loom/blob"
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/policy"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/session/check"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlite"
	"github.com/loom-run/loom/tools"
)

// Status is what a session is doing, as far as it can be read.
type Status uint8

// The states of a session.
const (
	Idle Status = iota
	Running
	Interrupted // an operation is open and nobody drives it
	Held        // an operation is open and another handle drives it
	Unreadable
)

// Summary is one session in a list. What could not be read is absent.
type Summary struct {
	ID        id.SessionID
	Status    Status
	Operation id.OpID // open on the main strand; may be absent
	Cwd       string
	Model     string
	Title     string // the start of the first prompt
	CreatedAt int64  // Unix ms
	UpdatedAt int64  // Unix ms of the newest entry; 0 without one
	Err       error  // why it is unreadable

	Holder storage.Holder // who drives it; of a held one
	Waits  int            // how many of its calls wait for a person

	empty bool // it holds no row
}

// List returns every session, newest first. One that cannot be read is in it; one
// that was never made is not.
func (n *Node) List() ([]Summary, error) {
	ids, err := n.home.list()
	if err != nil {
		return nil, err
	}
	all := make([]Summary, 0, len(ids))
	remembered := n.recollect(ids)
	defer remembered.close()
	for _, s := range ids {
		slot, err := n.Slot(s)
		if err != nil {
			continue // removed since it was listed
		}
		if sum := remembered.summary(s, slot.Summary); sum.made() {
			all = append(all, sum)
		}
	}
	slices.SortFunc(all, func(a, b Summary) int {
		return cmp.Or(cmp.Compare(max(b.UpdatedAt, b.CreatedAt), max(a.UpdatedAt, a.CreatedAt)), strings.Compare(b.ID.String(), a.ID.String()))
	})
	return all, nil
}

// made reports whether somebody finished making the session. A process that is
// killed before leaves an empty file, or one without a row: nobody was told of it.
// One that holds anything at all is shown, however odd it is.
func (sum Summary) made() bool {
	if sum.Err != nil {
		return !errors.Is(sum.Err, fs.ErrNotExist)
	}
	return !sum.empty
}

// Summary reads what a list shows.
func (s *Slot) Summary() Summary {
	sum := Summary{ID: s.id, CreatedAt: s.id.Time()}
	err := s.Read(func(v *session.View) error {
		if err := sum.read(v); err != nil {
			return err
		}
		return sum.driven(v.Rows(), s.node.cfg.Now())
	})
	if err != nil {
		return Summary{ID: s.id, Status: Unreadable, CreatedAt: s.id.Time(), Err: err}
	}
	if !sum.Operation.IsZero() && s.resident() != nil {
		sum.Status = Running
	}
	return sum
}

// leased is what can tell who writes a session: the reader of a file.
type leased interface {
	Held(now int64) (*storage.LeaseHeld, error)
}

// driven says what an open operation means. Whoever holds the lease drives it.
func (sum *Summary) driven(rows storage.Reader, now int64) error {
	if sum.Operation.IsZero() {
		return nil
	}
	sum.Status = Interrupted
	file, ok := rows.(leased)
	if !ok {
		return nil // it is open here
	}
	held, err := file.Held(now)
	if held != nil {
		sum.Status, sum.Holder = Held, held.Holder
	}
	return err
}

func (sum *Summary) read(v *session.View) error {
	var err error
	if sum.Cwd, _, err = v.Workspace(); err != nil {
		return err
	}
	config, ok, err := v.StrandConfig(session.MainStrand)
	if err != nil {
		return err
	}
	if ok {
		sum.Model = config.Value.Model.Provider + "/" + config.Value.Model.ModelID
	}
	state, _, err := v.StrandState(session.MainStrand)
	if err != nil {
		return err
	}
	sum.Operation = state.Value.CurrentOperation
	if !sum.Operation.IsZero() {
		if st, ok, err := v.OpState(sum.Operation); err == nil && ok { // one that cannot be read is for who drives it
			sum.Waits = len(machine.Waiting(st.Value))
		}
	}
	first, err := v.Rows().ScanEntries(storage.EntryQuery{Kind: entry.KindMessage, Limit: new(1)})
	if err != nil {
		return err
	}
	for _, e := range first {
		if u, ok := e.Body.(entry.Message).Message.(*message.User); ok {
			sum.Title = title(message.TextOf(u.Content))
		}
	}
	last, err := v.Rows().ScanEntries(storage.EntryQuery{Order: storage.NewestFirst, Limit: new(1)})
	for _, e := range last {
		sum.UpdatedAt = e.Timestamp
	}
	if err != nil || sum.Cwd != "" || len(last) > 0 {
		return err
	}
	sum.empty, err = empty(v.Rows())
	return err
}

// empty reports that a session without entries holds nothing else either.
func empty(rows storage.Reader) (bool, error) {
	ledger, err := rows.ScanUsage(storage.UsageQuery{Limit: new(1)})
	if err != nil || len(ledger) > 0 {
		return false, err
	}
	for _, ns := range register.Namespaces {
		if cells, err := rows.Registers(ns, ""); err != nil || len(cells) > 0 {
			return false, err
		}
	}
	return true, nil
}

// maxTitle is in graphemes.
const maxTitle = 80

func title(text string) string {
	text = strings.Join(strings.Fields(text[:min(len(text), 4096)]), " ")
	if cut := corrupt.Clip(text, maxTitle); cut != text {
		return cut + "…"
	}
	return text
}

func (s *Slot) current(strand string) (op id.OpID, seeded bool, err error) {
	err = s.Read(func(v *session.View) error {
		st, ok, err := v.StrandState(strand)
		op, seeded = st.Value.CurrentOperation, ok
		return err
	})
	return op, seeded, err
}

// RunningWith is how an open session runs.
type RunningWith struct {
	Mode  policy.Mode
	Cwd   string
	Tools []tools.Tool // as they are offered, in order
}

// With returns how the session runs; ok is false when it is not open.
func (s *Slot) With() (w RunningWith, ok bool) {
	r := s.resident()
	if r == nil {
		return RunningWith{}, false
	}
	w = RunningWith{Mode: r.broker.Mode(), Cwd: r.cwd}
	for _, d := range r.tools.Definitions() {
		if t, ok := r.tools.Lookup(d.Name); ok {
			w.Tools = append(w.Tools, t)
		}
	}
	return w, true
}

// Check walks the whole session and names every broken invariant. It reads the
// file, also while somebody writes it.
func (s *Slot) Check() (findings []storage.Finding, rows int64, err error) {
	r, err := sqlite.OpenReader(s.node.home.file(s.id))
	if err != nil {
		return nil, 0, err
	}
	if findings, err = check.Session(r); err == nil && len(findings) == 0 {
		var held *storage.LeaseHeld
		if held, err = r.Held(s.node.cfg.Now()); err == nil {
			findings, err = check.Blobs(r, blob.Open(s.node.home.blobs(s.id)), held != nil)
		}
	}
	if stats, serr := r.Stats(); serr == nil {
		rows = stats.Messages
	}
	return findings, rows, errors.Join(err, r.Close())
}
