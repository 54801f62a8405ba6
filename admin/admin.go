// Package admin is work across everything that is kept of sessions.
//
// # Purpose
//
// A text that must go is in more than one file: in the session that it was typed
// into, in the forks of that and their forks, in outputs beside them, in files that
// were exported. One operation goes through all of it and writes down what became of
// each.
//
// # Key types
//
// [Erasure] is what must go and from where; [Erase] does it and returns a [Receipt],
// a list of [Account]. [Store] is one kind of place that keeps something; [Root] is
// where they all lie. [Export] and [Import] move a session as one file.
//
// # Relationships
//
// Imports core, blob, session, session/check, session/repo and storage/sqlite.
//
// # Traffic
//
// Rewrites session files, replaces and removes outputs, writes receipts and exports;
// one commit into a session that was imported.
//
// # Invariants
//
// Every place is accounted for: as clean, as one where the text is left and why, or
// as not searched and why. Nothing is called clean that was not looked through, as
// rows and as bytes, after the last change to it. An erasure never makes a sound
// session an unsound one: then it changes nothing. A dry run changes nothing. The
// text is in no account, no error and no receipt.
package admin

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/needle"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/session/repo"
	"github.com/loom-run/loom/storage"
)

// Root is where sessions and everything about them lie.
type Root struct {
	Dir string // absolute
	// Sessions lists the session files there are now.
	Sessions func() ([]Place, error)
	// Borrow keeps this process from opening a session until it is given back, and
	// closes it here if it is idle. The error says in a sentence why it cannot.
	Borrow func(id.SessionID) (giveBack func(), err error)

	Owner func() string // names one opening, uniquely
	Clock func() int64  // Unix ms

	// Stores are further kinds of places, of packages above this one: an index of
	// texts, say. They come after the sessions.
	Stores []Store
}

// Place is where one session lies.
type Place struct {
	Session id.SessionID
	File    string
	Outputs string // the folder of its blobs
}

// Erasure is a text that must go, and from where.
type Erasure struct {
	Needle needle.Needle
	// Session is the session to erase from, with all its forks and their forks. All
	// means every session, and whatever else lies in the root.
	Session id.SessionID
	All     bool
	// DryRun searches and changes nothing.
	DryRun bool
}

// Outcome is what became of one place: one of the shared words.
type Outcome = words.ErasureOutcome

// The outcomes.
const (
	Clean       = words.ErasureClean       // searched, and the text is not there (any more)
	Present     = words.ErasureFound       // of a dry run: it is there, and would go
	Unreachable = words.ErasureUnreachable // searched, and it is left; the reason says where and why
	NotSearched = words.ErasureNotSearched // the reason says why
)

// Found counts where a place holds the text.
type Found struct {
	Texts   int64 // occurrences in values
	Names   int64 // names of fields that hold it
	Numbers int64 // number literals that hold it
	Keys    int64 // keys of registers that hold it
	IDs     int64 // ids of rows that hold it
	Bytes   bool  // the raw bytes hold it
}

// any reports whether it was found anywhere.
func (f Found) any() bool { return f.fixed() || f.Texts > 0 || f.Bytes }

// fixed reports whether it was found where no rewrite reaches.
func (f Found) fixed() bool { return f.Names+f.Numbers+f.Keys+f.IDs > 0 }

func (f *Found) add(o Found) {
	f.Texts += o.Texts
	f.Names += o.Names
	f.Numbers += o.Numbers
	f.Keys += o.Keys
	f.IDs += o.IDs
	f.Bytes = f.Bytes || o.Bytes
}

// places says in words where it is.
func (f Found) places() string {
	var parts []string
	for _, p := range []struct {
		n    int64
		what string
	}{
		{f.Texts, "text"}, {f.Names, "name of a field"}, {f.Numbers, "number"}, {f.Keys, "key of a register"}, {f.IDs, "id"},
	} {
		switch {
		case p.n == 1:
			parts = append(parts, "1 "+p.what)
		case p.n > 1:
			first, rest, _ := strings.Cut(p.what, " ")
			parts = append(parts, strings.TrimSpace(fmt.Sprintf("%d %ss %s", p.n, first, rest)))
		}
	}
	if len(parts) == 0 && f.Bytes {
		return "its raw bytes"
	}
	return strings.Join(parts, ", ")
}

// Account is what became of one place.
type Account struct {
	Store   string // the kind of place: that of a [Store]
	Subject string // which one: the id of a session, the path of a file
	Outcome Outcome
	Found   Found  // before anything was changed
	Erased  int64  // occurrences that are gone
	Reason  string // a sentence; of what is not clean
}

// Store is one kind of place that keeps something of sessions.
type Store interface {
	// Erase searches every place of its kind that the erasure reaches, takes the text
	// out unless this is a dry run, and accounts for each. An account is always
	// returned: what cannot be looked at is one that was not searched.
	Erase(w *Work) []Account
}

// Keeper is a store that keeps files in the root, which are then nobody else's to
// search: it tells them by their paths within the root.
type Keeper interface {
	Store
	Keeps(within string) bool
}

// Work is an erasure in progress. Stores share it.
type Work struct {
	Erasure
	root   Root
	eraser needle.Eraser
	reach  map[id.SessionID]bool // sessions that were dealt with
	erased map[id.SessionID]bool // those of them that the erasure is about
}

// Eraser replaces the text.
func (w *Work) Eraser() needle.Eraser { return w.eraser }

// Reaches reports whether the erasure is about a session. It is known once the
// sessions were gone through.
func (w *Work) Reaches(s id.SessionID) bool { return w.All || w.erased[s] }

// Erase goes through every store of the root. The error says why the sessions could
// not be listed, or that there is no such session; then nothing was done.
func Erase(root Root, e Erasure) (Receipt, error) {
	w := &Work{Erasure: e, root: root, eraser: e.Needle.Marked(), reach: make(map[id.SessionID]bool), erased: make(map[id.SessionID]bool)}
	places, err := root.Sessions()
	if err != nil {
		return Receipt{}, err
	}
	if !e.All && !listed(places, e.Session) {
		return Receipt{}, &ErrUnknownSession{e.Session}
	}
	if !e.DryRun {
		root.sweep()
	}
	r := Receipt{At: root.Clock(), DryRun: e.DryRun, All: e.All, Session: e.Session, Coded: e.Needle.Coded()}
	for _, s := range slices.Concat([]Store{sessions{}, exports{}, recordings{}}, root.Stores, []Store{remains{}}) {
		r.Accounts = append(r.Accounts, s.Erase(w)...)
	}
	for i := range r.Accounts { // a name of a file, say, may hold it
		a := &r.Accounts[i]
		a.Subject, a.Reason = w.silent(a.Subject), w.silent(a.Reason)
	}
	return r, nil
}

// ErrUnknownSession is a session that has no file.
type ErrUnknownSession struct{ ID id.SessionID }

func (e *ErrUnknownSession) Error() string {
	return fmt.Sprintf("there is no session %s; nothing was changed", e.ID)
}

func listed(places []Place, s id.SessionID) bool {
	for _, p := range places {
		if p.Session == s {
			return true
		}
	}
	return false
}

// silent is a text without the needle.
func (w *Work) silent(text string) string {
	text, _ = w.eraser.Erase(text)
	return text
}

// plainly says why something could not be done, without an excerpt of what was seen:
// a report of corruption shows the start of a row, and that may be the start of the
// text.
func plainly(err error) string {
	if held, ok := errors.AsType[*storage.LeaseHeld](err); ok {
		return heldBy(held)
	}
	if version, ok := errors.AsType[*storage.UnsupportedVersion](err); ok {
		return version.Error()
	}
	switch {
	case is[*repo.EntryFailed](err), is[*repo.ValueFailed](err), errors.Is(err, errUnsound):
		return "the text is a part of what holds the session together, such as an id or a word of its format, so that the session could not be read without it"
	case is[*corrupt.Report](err), is[*session.Corrupt](err), is[*storage.CorruptRow](err), is[*tx.Corruption](err):
		return "it is damaged; `loom check` says where"
	case errors.Is(err, storage.ErrFull):
		return "there is no room left on the disk"
	case errors.Is(err, storage.ErrReadOnly), errors.Is(err, fs.ErrPermission):
		return "it cannot be read or written; check its permissions"
	case errors.Is(err, fs.ErrNotExist):
		return "it is gone"
	}
	if fault, ok := errors.AsType[*storage.BackendFault](err); ok {
		return fault.Reason
	}
	if failed, ok := errors.AsType[*storage.OpenFailed](err); ok {
		return failed.Reason
	}
	return err.Error()
}

func heldBy(held *storage.LeaseHeld) string {
	return fmt.Sprintf("pid %d on %s is running it; end that and erase again", held.Holder.PID, held.Holder.Host)
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
