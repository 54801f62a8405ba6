package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/events/projection"
	"github.com/loom-run/loom/events/search"
	"github.com/loom-run/loom/server"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
)

func (h Home) searchIndex() string { return filepath.Join(h.dir, "search.db") }

// Indexed is what bringing the search index up to date came to.
type Indexed struct {
	Sessions, Entries int // that were read, and that can be found since
	Unreadable        []id.SessionID
}

// Indexing is told while the index is brought up to date: how many of the sessions that
// changed are done. nil: nobody listens.
type Indexing func(done, all int)

// Search finds text in the sessions of the state root, as they are now: what changed since
// the last search is read first. Sessions that cannot be read are named and left out. An
// index that cannot be used is made anew.
func (n *Node) Search(q search.Query, told Indexing) (r search.Result, now Indexed, err error) {
	defer func() { r.Unreadable = now.Unreadable }()
	err = n.searching(func(x *search.Index) error {
		if now, err = n.index(x, told); err != nil {
			return err
		}
		r, err = x.Find(q, n.cfg.Now())
		return err
	})
	return r, now, n.home.refuse(err)
}

// RebuildSearch makes the search index anew.
func (n *Node) RebuildSearch(told Indexing) (now Indexed, err error) {
	n.finding.Lock()
	defer n.finding.Unlock()
	if err := n.remakeSearch(); err != nil {
		return now, n.home.refuse(err)
	}
	now, err = n.index(n.found, told)
	return now, n.home.refuse(err)
}

// searching has f work on the index. It is made anew, once, when it cannot be used.
func (n *Node) searching(f func(*search.Index) error) (err error) {
	n.finding.Lock()
	defer n.finding.Unlock()
	if n.found == nil {
		if err := n.home.create(); err != nil {
			return err
		}
		n.found, err = search.Open(n.home.searchIndex())
	}
	if err == nil {
		err = f(n.found)
	}
	if _, spoilt := errors.AsType[*search.Unusable](err); spoilt {
		if err = n.remakeSearch(); err == nil {
			err = f(n.found)
		}
	}
	return err
}

func (n *Node) remakeSearch() (err error) {
	if err := errors.Join(n.home.create(), n.closeSearch()); err != nil {
		return err
	}
	n.found, err = search.Remake(n.home.searchIndex())
	return err
}

func (n *Node) closeSearch() error {
	x := n.found
	n.found = nil
	if x == nil {
		return nil
	}
	return x.Close()
}

// forget deletes what was read from sessions and kept beside them, the index and the memory of
// lists: an erased text may stand in it, and all else that does can be read anew.
func (n *Node) forget() error {
	n.finding.Lock()
	defer n.finding.Unlock()
	if err := errors.Join(n.closeSearch(), search.Delete(n.home.searchIndex()), projection.DeleteDisk(n.home.catalogue())); err != nil {
		return fmt.Errorf("the search index or the list of sessions may still hold the text and could not be deleted: %w; delete %s and %s by hand",
			err, n.home.searchIndex(), n.home.catalogue())
	}
	return nil
}

// archive is what the model of a session finds: what was said in its own directory. What a
// person did elsewhere is none of its business.
type archive struct {
	n   *Node
	cwd string
}

// SearchArchive implements tools.Archive.
func (h archive) SearchArchive(q search.Query) (search.Result, error) {
	q.Workspace = h.cwd
	r, _, err := h.n.Search(q, nil)
	return r, err
}

// index reads what changed since it was read last.
func (n *Node) index(x *search.Index, told Indexing) (now Indexed, err error) {
	ids, err := n.home.list()
	if err != nil {
		return now, err
	}
	known := map[id.SessionID]string{}
	sources, err := x.Sources()
	if err != nil {
		return now, err
	}
	for _, s := range sources {
		known[s.Session] = s.Stamp
	}
	var changed []*indexed
	for _, s := range ids {
		stamp := n.home.stamp(s)
		if was, ok := known[s]; !ok || stamp == "" || was != stamp {
			changed = append(changed, &indexed{n: n, id: s, stamp: stamp})
		}
		delete(known, s)
	}
	for gone := range known { // its file is not there any more
		if err := x.Remove(gone); err != nil {
			return now, err
		}
	}
	for i, s := range changed {
		if told != nil {
			told(i, len(changed))
		}
		entries, err := x.Sync(s)
		if _, unread := errors.AsType[*search.SourceError](err); unread {
			now.Unreadable = append(now.Unreadable, s.id)
			continue
		}
		if err != nil {
			return now, err
		}
		now.Sessions++
		now.Entries += entries
	}
	if told != nil && len(changed) > 0 {
		told(len(changed), len(changed))
	}
	return now, nil
}

// settled is the age from which on the time of a file tells whether it was written again: a
// file system's clock ticks a few times in it.
const settled = 100 * time.Millisecond

// stamp is what a session's files look like from outside. A commit changes it. It is empty
// where the last write is so new that another one might look the same.
func (h Home) stamp(s id.SessionID) (all string) {
	for _, path := range []string{h.file(s), h.file(s) + "-wal"} {
		st, err := os.Stat(path)
		if err != nil {
			continue
		}
		if time.Since(st.ModTime()) < settled {
			return ""
		}
		all += fmt.Sprintf("%d.%d ", st.Size(), st.ModTime().UnixNano())
	}
	return all
}

// indexed is a session as the search index reads it.
type indexed struct {
	n       *Node
	id      id.SessionID
	stamp   string
	strands map[id.EntryID]string // whose a row is, where it is not the main strand's
}

func (s *indexed) Session() id.SessionID { return s.id }

func (s *indexed) Stamp() string { return s.stamp }

// Workspace implements search.Source.
func (s *indexed) Workspace() (dir string, err error) {
	err = s.read(func(v *session.View) error {
		dir, _, err = v.Workspace()
		return err
	})
	return dir, err
}

func (s *indexed) read(f func(*session.View) error) error {
	slot, err := s.n.Slot(s.id)
	if err != nil {
		return err
	}
	return slot.glance(func(v *session.View) error { return v.Within(f) })
}

// readBytes bounds the rows of one batch.
const readBytes = 8 << 20

// Read implements search.Source.
func (s *indexed) Read(after int64, limit int) (b search.Batch, err error) {
	err = s.read(func(v *session.View) error {
		snap, err := v.Rows().Snapshot()
		if err != nil {
			return err
		}
		b = search.Batch{Generation: snap.Generation}
		if s.strands == nil {
			if s.strands, err = server.StrandsOf(server.FromSession(v)); err != nil {
				return err
			}
		}
		newest, err := v.Rows().ScanEntries(storage.EntryQuery{Order: storage.NewestFirst, Limit: new(1)})
		if err != nil {
			return err
		}
		rows, err := v.Rows().ScanEntries(storage.EntryQuery{FromSeq: new(after + 1), Order: storage.OldestFirst, Limit: &limit, Bytes: readBytes})
		for _, e := range rows {
			strand, ok := s.strands[e.ID]
			if !ok {
				strand = session.MainStrand
			}
			b.Rows = append(b.Rows, search.Row{Entry: e, Strand: strand})
		}
		b.Last = len(rows) == 0 || rows[len(rows)-1].Seq >= newest[0].Seq
		return err
	})
	return b, err
}

// SearchHealth is what is known of the search index without working on it.
type SearchHealth struct {
	Entries   int64 // that can be found; 0 where there is no index yet
	Sessions  int   // that it has read
	Behind    int   // sessions that changed since, which the next search reads first
	There     bool  // there is an index
	Unusable  error // why it has to be made anew; nil where it has not
	IndexPath string
}

// SearchHealth looks at the index, and makes none.
func (n *Node) SearchHealth() (h SearchHealth, err error) {
	n.finding.Lock()
	defer n.finding.Unlock()
	h.IndexPath = n.home.searchIndex()
	if _, err := os.Stat(h.IndexPath); errors.Is(err, os.ErrNotExist) {
		return h, nil
	}
	h.There = true
	if n.found == nil {
		if n.found, err = search.Open(h.IndexPath); err != nil {
			n.found = nil
			if _, spoilt := errors.AsType[*search.Unusable](err); spoilt {
				h.Unusable, err = err, nil
			}
			return h, err
		}
	}
	if h.Entries, err = n.found.Rows(); err != nil {
		return h, err
	}
	sources, err := n.found.Sources()
	if err != nil {
		return h, err
	}
	h.Sessions = len(sources)
	ids, err := n.home.list()
	if err != nil {
		return h, err
	}
	known := map[id.SessionID]string{}
	for _, s := range sources {
		known[s.Session] = s.Stamp
	}
	for _, s := range ids {
		if was, ok := known[s]; !ok || was != n.home.stamp(s) {
			h.Behind++
		}
	}
	return h, nil
}
