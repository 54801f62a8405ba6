package node

import (
	"errors"
	"fmt"

	"github.com/loom-run/loom/blob"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/server"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlite"
	"github.com/loom-run/loom/tools"
)

// Rewind takes the files of the workspace back to what they held before a message of
// the person; an absent one is their newest. Calls of all strands count, in the order
// of their rows: files have no branches. What commands changed is not known and stays.
//
// Nothing of the session runs meanwhile, here or in another process: one that runs is
// refused. A dry run only reads, whoever runs it.
func (s *Slot) Rewind(at id.EntryID, dryRun bool) (out tools.Rewound, err error) {
	if dryRun {
		err = s.Read(func(v *session.View) error {
			out, err = s.rewind(v, at, true)
			return err
		})
		return out, s.node.home.refuse(err)
	}
	s.opening.Lock()
	defer s.opening.Unlock()
	if err := s.rest(); err != nil {
		return out, s.node.home.refuse(err)
	}
	store, err := sqlite.Open(sqlite.Config{Path: s.node.home.file(s.id), Owner: owner(), Clock: s.node.cfg.Now, Synchronous: s.node.cfg.Synchronous})
	if err != nil {
		return out, s.node.home.refuse(err)
	}
	if err = s.awaitTools(); err == nil {
		out, err = s.rewind(session.NewView(store), at, false)
	}
	return out, s.node.home.refuse(errors.Join(err, store.Close()))
}

// rest closes the session where it is open here and nothing of it runs. It is opened
// again as it was by whoever needs it. The caller holds opening.
func (s *Slot) rest() error {
	r := s.resident()
	if r == nil {
		return nil
	}
	busy := func(what string) error {
		return server.Refuse(server.Conflict, what+"; no file was changed, wait for its end or stop it, and rewind again")
	}
	strands, err := r.session.Strands()
	if err != nil {
		return err
	}
	for _, name := range strands {
		state, _, err := r.session.StrandState(name)
		if err != nil {
			return err
		}
		if !state.Value.CurrentOperation.IsZero() {
			return busy("the session runs")
		}
	}
	jobs, err := engine.JobsOf(&r.session.View, "")
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if !j.Status.Ended() {
			return busy("a command of the session works in the background")
		}
	}
	return s.evict()
}

func (s *Slot) rewind(v *session.View, at id.EntryID, dryRun bool) (tools.Rewound, error) {
	dir, ok, err := v.Workspace()
	if err != nil {
		return tools.Rewound{}, err
	}
	if !ok {
		return tools.Rewound{}, server.Refuse(server.BadRequest, "the session does not say which directory it works in; no file was changed")
	}
	seq, err := messageOf(v, at)
	if err != nil {
		return tools.Rewound{}, err
	}
	history, err := historySince(v, seq)
	if err != nil {
		return tools.Rewound{}, err
	}
	out, err := tools.Rewind(tools.Rewinding{
		Workspace: dir, Closed: []string{s.node.home.dir}, Blobs: blob.Open(s.node.home.blobs(s.id)), History: history, DryRun: dryRun,
	})
	if err != nil {
		return out, &ErrWorkspace{dir, err}
	}
	return out, nil
}

// messageOf is the seq of a message of the person.
func messageOf(v *session.View, at id.EntryID) (int64, error) {
	if at.IsZero() {
		return newestMessage(v)
	}
	found, err := v.Rows().Entries(at)
	if err != nil {
		return 0, err
	}
	e, ok := found[at]
	switch {
	case !ok:
		return 0, server.Refuse(server.BadRequest, fmt.Sprintf("the session has no entry %s; no file was changed", at))
	case !ofPerson(e):
		return 0, server.Refuse(server.BadRequest, fmt.Sprintf("the entry %s is no message of a person; no file was changed", at))
	}
	return e.Seq, nil
}

func newestMessage(v *session.View) (int64, error) {
	q := storage.EntryQuery{Kind: entry.KindMessage, Order: storage.NewestFirst, Bytes: rewindPage}
	for {
		page, err := v.Rows().ScanEntries(q)
		if err != nil {
			return 0, err
		}
		if len(page) == 0 {
			return 0, server.Refuse(server.BadRequest, "the session has no message of a person; no file was changed")
		}
		for _, e := range page {
			if ofPerson(e) {
				return e.Seq, nil
			}
		}
		q.ToSeq = new(page[len(page)-1].Seq - 1)
	}
}

// rewindPage bounds the rows that are read at a time, in bytes.
const rewindPage = 8 << 20

// ofPerson reports whether a row is a message that a person gave the session: not what
// strands say to each other, and not what a summary is made of.
func ofPerson(e entry.Entry) bool {
	b, ok := e.Body.(entry.Message)
	if !ok {
		return false
	}
	m, ok := b.Message.(*message.User)
	return ok && (m.Origin == nil || m.Origin.Kind() == message.HumanOrigin)
}

// historySince collects what calls did to files behind a seq.
func historySince(v *session.View, seq int64) (h tools.History, err error) {
	open := make(map[string][]string) // files of calls that have no result yet, by the id of the call
	q := storage.EntryQuery{Kind: entry.KindMessage, FromSeq: new(seq + 1), Bytes: rewindPage}
	for {
		page, err := v.Rows().ScanEntries(q)
		if err != nil {
			return h, err
		}
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			b, _ := e.Body.(entry.Message)
			if err := note(&h, open, b.Message); err != nil {
				return h, err
			}
		}
		q.FromSeq = new(page[len(page)-1].Seq + 1)
	}
	for _, paths := range open {
		h.Cut(paths...)
	}
	return h, nil
}

func note(h *tools.History, open map[string][]string, m message.Message) error {
	switch m := m.(type) {
	case *message.Assistant:
		for _, block := range m.Content {
			if c, ok := block.(message.ToolCall); ok {
				if path, ok := tools.TargetOf(c); ok {
					open[c.ID] = append(open[c.ID], path)
				}
			}
		}
	case *message.ToolResult:
		paths := open[m.ToolCallID] // of several strands, when a provider is not careful with ids
		if len(paths) > 0 {
			open[m.ToolCallID] = paths[1:]
		}
		if machine.Lost(m) {
			h.Cut(paths...)
			return nil
		}
		return h.Add(m)
	case *message.User, *message.Custom:
	}
	return nil
}
