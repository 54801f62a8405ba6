package admin

import (
	"errors"
	"io/fs"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlite"
)

// reached lists the sessions that the erasure is about and that were not dealt with:
// all, or the one, its forks and their forks. Those whose origin cannot be read are
// accounted for here: whether they belong is not known.
func (w *Work) reached(places []Place) (reached []Place, unknown []Account) {
	from := map[id.SessionID]identity{}
	for _, p := range places {
		if w.reach[p.Session] {
			continue
		}
		if w.All {
			reached = append(reached, p)
			continue
		}
		is, err := identityOf(p.File)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it was never made
		case err != nil && p.Session != w.Session:
			w.reach[p.Session] = true
			unknown = append(unknown, Account{Store: SessionStore, Subject: p.Session.String(), Outcome: NotSearched,
				Reason: "whether it is a fork is not known: " + plainly(err)})
		case err == nil && is.own.IsZero() && p.Session != w.Session:
			unknown = append(unknown, w.unnamed(p)...)
		default:
			from[p.Session] = is
		}
	}
	if w.All {
		return reached, nil
	}
	there := make(map[id.SessionID]Place, len(places))
	for _, p := range places {
		there[p.Session] = p
	}
	for _, p := range places {
		if is, ok := from[p.Session]; ok && (p.Session == w.Session || w.descends(is, p, there)) {
			reached = append(reached, p)
		}
	}
	return reached, unknown
}

// unnamed accounts for a session that does not say who it is. Somebody may be making
// it, out of one that is being erased.
func (w *Work) unnamed(p Place) []Account {
	r, err := sqlite.OpenReader(p.File)
	if err != nil {
		return nil // it is gone, or told of in the next round
	}
	held, err := r.Held(w.root.Clock())
	if err := errors.Join(err, r.Close()); err != nil || held == nil {
		return nil // who was making it is dead, and made nothing
	}
	w.reach[p.Session] = true
	return []Account{{Store: SessionStore, Subject: p.Session.String(), Outcome: NotSearched, Reason: "it is being made; " + heldBy(held)}}
}

// descends follows the parents of a session. Where one is gone, the entries tell: a
// fork has the ids of its source.
func (w *Work) descends(is identity, p Place, there map[id.SessionID]Place) bool {
	seen := map[id.SessionID]bool{p.Session: true}
	for !is.parent.IsZero() && !seen[is.parent] {
		if is.parent == w.Session || w.reach[is.parent] && !w.All {
			return true
		}
		seen[is.parent] = true
		above, ok := there[is.parent]
		if !ok {
			return w.shares(p, there[w.Session])
		}
		next, err := identityOf(above.File)
		if err != nil {
			return w.shares(p, there[w.Session])
		}
		is = next
	}
	return false
}

// shares reports whether a session begins with an entry of another one.
func (w *Work) shares(p, of Place) bool {
	roots, err := firstEntries(p.File)
	if err != nil || len(roots) == 0 {
		return false
	}
	r, err := sqlite.OpenReader(of.File)
	if err != nil {
		return false
	}
	found, err := r.Entries(roots...)
	return errors.Join(err, r.Close()) == nil && len(found) > 0
}

func firstEntries(path string) (ids []id.EntryID, err error) {
	r, err := sqlite.OpenReader(path)
	if err != nil {
		return nil, err
	}
	heads, err := r.ScanEntryHeads(storage.EntryQuery{Limit: new(1)})
	for _, h := range heads {
		ids = append(ids, h.ID)
	}
	return ids, errors.Join(err, r.Close())
}

// ancestors looks at what the session was forked from, and leaves it alone: nobody
// asked for it, but who thinks the text is gone should know.
func (w *Work) ancestors(places []Place) (all []Account) {
	if w.All {
		return nil
	}
	there := make(map[id.SessionID]Place, len(places))
	for _, p := range places {
		there[p.Session] = p
	}
	for s := w.Session; ; {
		is, err := identityOf(there[s].File)
		if err != nil || is.parent.IsZero() || w.reach[is.parent] {
			return all
		}
		s = is.parent
		w.reach[s] = true
		p, ok := there[s]
		a := Account{Store: SessionStore, Subject: s.String(), Outcome: NotSearched, Reason: "the session was forked from it, and it is not here"}
		if !ok {
			return append(all, a)
		}
		seen, err := w.look(p)
		if err != nil {
			a.Reason = "the session was forked from it: " + plainly(err)
			return append(all, a)
		}
		a.Outcome, a.Reason, a.Found = Clean, "", seen.found
		o := w.outputs(p, seen)
		if seen.found.any() || len(o.holding) > 0 {
			a.Outcome, a.Reason = Unreachable, "the session was forked from it, and it was not to be changed; `loom erase --session "+s.String()+"` erases from both"
		}
		all = append(all, a)
	}
}
