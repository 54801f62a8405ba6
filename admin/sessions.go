package admin

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/loom-run/loom/blob"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/session/check"
	"github.com/loom-run/loom/session/repo"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlite"
)

// Names of stores in accounts.
const (
	SessionStore = "session"
	OutputStore  = "outputs"
	OtherStore   = "other"
)

// sessions is the session files and the outputs beside them.
type sessions struct{}

// Erase goes through the sessions that the erasure reaches until there is none left
// that it has not seen: one that is forked meanwhile is seen in the next round.
func (sessions) Erase(w *Work) (all []Account) {
	for {
		places, err := w.root.Sessions()
		if err != nil {
			return append(all, Account{Store: SessionStore, Outcome: NotSearched, Reason: "the sessions cannot be listed again: " + plainly(err)})
		}
		reached, accounts := w.reached(places)
		all = append(all, accounts...)
		if len(reached) == 0 {
			return append(all, w.ancestors(places)...)
		}
		for _, p := range reached {
			w.reach[p.Session], w.erased[p.Session] = true, true
			all = append(all, w.session(p)...)
		}
	}
}

// session erases from one session and its outputs.
func (w *Work) session(p Place) []Account {
	account := func(o Outcome, reason string) Account {
		return Account{Store: SessionStore, Subject: p.Session.String(), Outcome: o, Reason: reason}
	}
	giveBack, err := w.root.Borrow(p.Session)
	if err != nil {
		return []Account{account(NotSearched, err.Error())}
	}
	defer giveBack()
	seen, err := w.look(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was never made, or is gone
	}
	if err != nil {
		return []Account{account(NotSearched, plainly(err))}
	}
	if seen.held != nil && seen.own.IsZero() {
		return []Account{account(NotSearched, "it is being made; "+heldBy(seen.held))}
	}
	a := account(Clean, "")
	a.Found = seen.found
	o := w.outputs(p, seen)
	switch {
	case w.DryRun:
		w.foresee(&a, seen)
		o.foresee(seen)
	case seen.held != nil:
		w.leave(&a, seen, heldBy(seen.held))
		o.leave(heldBy(seen.held))
	default:
		w.change(p, seen, &a, o)
	}
	return append([]Account{a}, o.accounts()...)
}

// foresee says what would become of a session.
func (w *Work) foresee(a *Account, seen sight) {
	switch reason := hindrance(seen); {
	case seen.held != nil && seen.found.any():
		a.Outcome, a.Reason = Unreachable, heldBy(seen.held)
	case reason != "":
		w.leave(a, seen, reason)
	case seen.found.any():
		a.Outcome = Present
	}
}

// hindrance says why an erasure would leave something; "" if it would not.
func hindrance(seen sight) string {
	switch {
	case seen.damaged:
		return plainly(&storage.CorruptRow{})
	case seen.refused != nil:
		return plainly(seen.refused)
	case seen.found.fixed():
		left := seen.found
		left.Texts = 0
		return beyond(left)
	}
	return ""
}

func beyond(left Found) string {
	return "it stands where an erasure does not reach: " + left.places()
}

// leave accounts for a session that cannot be changed.
func (w *Work) leave(a *Account, seen sight, reason string) {
	switch {
	case seen.found.any():
		a.Outcome, a.Reason = Unreachable, reason
	case seen.damaged:
		a.Outcome, a.Reason = NotSearched, "not every row could be read: "+plainly(&storage.CorruptRow{})
	}
}

// change erases from a session that nobody holds.
func (w *Work) change(p Place, seen sight, a *Account, o *outputs) {
	if seen.damaged {
		w.leave(a, seen, plainly(&storage.CorruptRow{}))
		o.leave("its session is damaged")
		return
	}
	if seen.refused != nil {
		w.leave(a, seen, plainly(seen.refused))
		o.leave("its session could not be changed")
		return
	}
	refs, err := o.replace(seen)
	if err == nil && (seen.found.Texts > 0 || seen.found.Bytes || len(refs) > 0) {
		err = w.rewrite(p, newRenamed(refs))
	}
	if err != nil {
		o.undo()
		w.leave(a, seen, plainly(err))
		if !seen.found.any() {
			a.Outcome, a.Reason = NotSearched, "its outputs could not be replaced: "+plainly(err)
		}
		o.leave(plainly(err))
		return
	}
	o.drop(w, p)
	w.settle(p, seen, a)
}

// settle looks at what became of a session.
func (w *Work) settle(p Place, seen sight, a *Account) {
	if !seen.found.any() {
		return // and its rows were at most told other names of outputs
	}
	left, err := w.look(p)
	if err != nil {
		a.Outcome, a.Reason = NotSearched, "it was rewritten and could not be looked at after that: "+plainly(err)
		return
	}
	a.Erased = seen.found.Texts - left.found.Texts
	if left.found.any() {
		a.Outcome, a.Reason = Unreachable, beyond(left.found)
	}
}

var errUnsound = errors.New("the session would not be sound")

// rewrite writes a session anew without the text and with the new names of outputs.
func (w *Work) rewrite(p Place, r *renamed) error {
	edit := func(text string) (string, int) {
		erased, times := w.eraser.Erase(text)
		out, more := r.edit(erased)
		return out, times + more
	}
	was, err := findings(p.File)
	if err != nil {
		return err
	}
	_, err = repo.RewriteSQLite(sqlite.Rewrite{
		Path: p.File, Clock: w.root.Clock,
		Verify: func(fresh *sqlite.Reader) error {
			is, err := check.Session(fresh)
			if err == nil && was == 0 && len(is) > 0 {
				err = errUnsound
			}
			return err
		},
	}, r.inEntries(repo.EditText(edit, w.eraser.Replacement())), checked(r.inValues(repo.EditValue(edit, w.eraser.Replacement()))))
	return err
}

// findings is how many invariants a session breaks as it is.
func findings(path string) (int, error) {
	r, err := sqlite.OpenReader(path)
	if err != nil {
		return 0, err
	}
	found, err := check.Session(r)
	return len(found), errors.Join(err, r.Close())
}

func (r *renamed) inEntries(f repo.EntryRewrite) repo.EntryRewrite {
	return func(e entry.Entry) (entry.Entry, bool, error) {
		out, changed, err := f(e)
		if err != nil || !changed || len(r.refs) == 0 {
			return out, changed, err
		}
		v, err := jsonv.Parse(entry.Encode(out))
		if err != nil {
			return out, false, err
		}
		if sized, differs := r.sized(v); differs {
			out, err = entry.Decode(sized)
		}
		return out, true, err
	}
}

func (r *renamed) inValues(f repo.ValueRewrite) repo.ValueRewrite {
	return func(a register.Address, v jsonv.Value) (jsonv.Value, bool, error) {
		out, changed, err := f(a, v)
		if err == nil && changed {
			out, _ = r.sized(out)
		}
		return out, changed, err
	}
}

// outputs is the blobs of one session.
type outputs struct {
	store   *blob.Store
	work    *Work
	session string
	account *Account   // nil: nothing to tell
	holding []blob.Ref // those with the text
	halves  bool       // what a killed process was writing holds it
	used    map[string]bool
	fresh   []blob.Ref // those that were put in the place of others
	others  []Account  // of files that are no blobs
}

// outputs searches the blobs of a session.
func (w *Work) outputs(p Place, seen sight) *outputs {
	o := &outputs{store: blob.Open(p.Outputs), work: w, session: p.Session.String(), used: make(map[string]bool)}
	fail := func(err error) *outputs {
		o.account = &Account{Store: OutputStore, Subject: p.Session.String(), Outcome: NotSearched, Reason: "its outputs: " + plainly(err)}
		return o
	}
	refs, err := o.store.List()
	if err != nil {
		return fail(err)
	}
	if len(refs) > 0 {
		o.account = &Account{Store: OutputStore, Subject: p.Session.String(), Outcome: Clean}
	}
	for _, ref := range refs {
		holds, err := w.holds(o.store, ref)
		if err != nil {
			return fail(err)
		}
		if holds {
			o.holding = append(o.holding, ref)
			_, o.used[ref.SHA256] = seen.refs[ref.SHA256]
		}
	}
	if err := o.strangers(p.Outputs); err != nil {
		return fail(err)
	}
	if n := int64(len(o.holding)); o.account != nil {
		o.account.Found = Found{Texts: n, Bytes: n > 0 || o.halves}
	}
	return o
}

// strangers searches the files in the folder that are no blobs.
func (o *outputs) strangers(dir string) error {
	names, err := o.store.Others()
	if err != nil {
		return err
	}
	for _, name := range names {
		found, err := o.work.inFile(filepath.Join(dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist), err == nil && !found:
		case err == nil && blob.Half(name):
			o.halves = true
			if o.account == nil {
				o.account = &Account{Store: OutputStore, Subject: o.session, Outcome: Clean}
			}
		case err != nil:
			o.others = append(o.others, Account{Store: OtherStore, Subject: name, Outcome: NotSearched, Reason: plainly(err)})
		default:
			o.others = append(o.others, Account{Store: OtherStore, Subject: name, Outcome: Unreachable, Reason: notOurs, Found: Found{Bytes: true}})
		}
	}
	return nil
}

func (w *Work) holds(s *blob.Store, ref blob.Ref) (bool, error) {
	r, err := s.Raw(ref)
	if errors.Is(err, blob.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = r.Close() }() // it was only read
	return w.Needle.InBytes(r)
}

func (o *outputs) accounts() []Account {
	if o.account == nil {
		return o.others
	}
	return append([]Account{*o.account}, o.others...)
}

// any reports whether some output holds the text.
func (o *outputs) any() bool { return len(o.holding) > 0 || o.halves }

func (o *outputs) foresee(seen sight) {
	switch {
	case !o.any():
	case seen.held != nil:
		o.leave(heldBy(seen.held))
	case seen.damaged || seen.refused != nil:
		o.leave("its session could not be changed")
	default:
		o.account.Outcome = Present
	}
}

func (o *outputs) leave(reason string) {
	if o.any() {
		o.account.Outcome, o.account.Reason = Unreachable, reason
	}
}

// replace puts an output without the text beside each one that has it and that a row
// refers to.
func (o *outputs) replace(seen sight) (map[string]blob.Ref, error) {
	there := make(map[string]bool)
	refs, err := o.store.List()
	if err != nil {
		return nil, err
	}
	for _, r := range refs {
		there[r.SHA256] = true
	}
	to := make(map[string]blob.Ref)
	for _, old := range o.holding {
		if !o.used[old.SHA256] {
			continue
		}
		fresh, err := o.work.without(o.store, old)
		if err != nil {
			return nil, err
		}
		if !there[fresh.SHA256] {
			o.fresh = append(o.fresh, fresh)
		}
		to[old.SHA256] = fresh
	}
	return to, nil
}

// attempts is how often an output is gone through. What was replaced may stand
// beside what makes the text again; after that nothing of the output is kept.
const attempts = 4

func (w *Work) without(s *blob.Store, ref blob.Ref) (blob.Ref, error) {
	from := ref
	for n := 0; ; n++ {
		fresh, err := w.copied(s, from)
		if err == nil && n == attempts {
			fresh, err = s.PutBytes([]byte(w.eraser.Replacement()))
		}
		if err != nil {
			return blob.Ref{}, err
		}
		if from != ref && from != fresh {
			if err := s.Remove(from); err != nil {
				return blob.Ref{}, err
			}
		}
		holds, err := w.holds(s, fresh)
		if err != nil || !holds {
			return fresh, err
		}
		from = fresh
	}
}

// copied stores an output without the text. A damaged one is copied as it is.
func (w *Work) copied(s *blob.Store, ref blob.Ref) (blob.Ref, error) {
	r, err := s.Raw(ref)
	if err != nil {
		return blob.Ref{}, err
	}
	defer func() { _ = r.Close() }() // it was only read
	return s.Put(w.eraser.Reader(r))
}

// undo removes what was put in vain.
func (o *outputs) undo() {
	if err := o.store.Remove(o.fresh...); err != nil && o.account != nil {
		o.account.Reason = "outputs that nothing refers to are left" // they hold nothing
	}
}

// drop removes the outputs that hold the text. Their session is held meanwhile, so
// that nobody comes to refer to one of them.
func (o *outputs) drop(w *Work, p Place) {
	if !o.any() {
		return
	}
	err := w.holding(p, func(s *sqlite.Store) error {
		seen, err := w.rows(s)
		if err != nil {
			return err
		}
		for _, ref := range o.holding {
			if _, used := seen.refs[ref.SHA256]; used {
				return errors.New("a row refers to one of them again; erase again")
			}
		}
		if _, err := o.store.Sweep(); err != nil {
			return err
		}
		return o.store.Remove(o.holding...)
	})
	if err != nil {
		o.leave(plainly(err))
		return
	}
	o.account.Erased = int64(len(o.holding))
}

// holding runs f while this process holds a session.
func (w *Work) holding(p Place, f func(*sqlite.Store) error) error {
	s, err := sqlite.Open(sqlite.Config{Path: p.File, Owner: w.root.Owner(), Clock: w.root.Clock})
	if err != nil {
		return err
	}
	return errors.Join(f(s), s.Close())
}

// identity is what the registers of a session say.
type identity struct{ own, parent id.SessionID }

func identityOf(path string) (identity, error) {
	r, err := sqlite.OpenReader(path)
	if err != nil {
		return identity{}, err
	}
	v := session.NewView(r)
	own, _, err := v.ID()
	parent, _, perr := v.ParentID()
	return identity{own, parent}, errors.Join(err, perr, r.Close())
}
