package server

import (
	"errors"
	"hash/fnv"
	"net/http"
	"slices"
	"strconv"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/wire"
)

// QueuedRow is input that waits for a strand, and the seq of its last change.
type QueuedRow struct {
	Strand string
	Seq    int64
	Queue  machine.Queue
	ID     id.EntryID
	Body   machine.PendingEntry
}

// lanes are the queues that the contract knows. What a run writes for itself is no
// input of anybody's.
var lanes = map[machine.Queue]words.QueueLane{
	machine.QueueSteer: words.LaneSteer, machine.QueueFollowUp: words.LaneFollowUp, machine.QueueNextRun: words.LaneNextRun,
}

// waitingInput is the level of input, and for each strand its own.
func waitingInput(src Source) (map[string]wire.Queue, error) {
	rows, err := src.Queued()
	all := map[string]wire.Queue{}
	for _, r := range rows {
		if item, ok := queuedItem(r); ok {
			level := all[r.Strand]
			level.Items = append(level.Items, item)
			all[r.Strand] = level
		}
	}
	return all, err
}

// queuedItem is a row as it is listed; ok is false for what is no input.
func queuedItem(r QueuedRow) (item wire.QueuedItem, ok bool) {
	lane, ok := lanes[r.Queue]
	if !ok {
		return item, false
	}
	item = wire.QueuedItem{ID: r.ID.String(), Lane: lane, Revision: r.Seq}
	body, is := r.Body.Body.(entry.Message)
	if !is {
		return item, true
	}
	m, is := body.Message.(*message.User)
	if !is {
		return item, true
	}
	for _, b := range m.Content {
		if _, ok := b.(message.Image); ok {
			item.Images++
		}
	}
	text := message.TextOf(m.Content)
	item.Text, item.Bytes, item.Author = cut(text, wire.MaxQueuedText), int64(len(text)), authorOf(m.Origin)
	item.Editable = m.Origin == nil // a person's whom nobody named, as those of this engine are
	return item, true
}

func (s *Server) postSteer(r *http.Request, q wire.Steer) (wire.Prompted, error) {
	return s.input(r, q.Input, engine.AtOnce)
}

func (s *Server) postFollowUp(r *http.Request, q wire.FollowUp) (wire.Prompted, error) {
	return s.input(r, q.Input, engine.WhenDone)
}

// input gives a strand a text. One that rests begins to work on it: nothing of it runs
// that the text could wait for.
func (s *Server) input(r *http.Request, q wire.Input, d engine.Delivery) (none wire.Prompted, err error) {
	if err := unsupported(option{"images", len(q.Images) > 0}); err != nil {
		return none, err
	}
	h, err := s.session(r)
	if err != nil {
		return none, err
	}
	got, err := h.resident.Prompt(r.Context(), Prompt{Strand: strandOf(q.Strand), Text: q.Text, Delivery: d})
	if err != nil {
		return none, err
	}
	return prompted(got), nil
}

// prompted is the receipt of an input.
func prompted(got engine.Receipt) wire.Prompted {
	receipt := wire.Prompted{Status: wire.Admitted, Operation: got.Op, Seq: got.Seq}
	if got.Queued {
		receipt.Status, receipt.Item = wire.Queued, new(got.Entry.String())
	}
	return receipt
}

func (s *Server) postQueueEdit(r *http.Request, q wire.QueueEdit) (wire.QueueReceipt, error) {
	return s.queued(r, q.Item, func(h *hub, row QueuedRow) (int64, error) {
		if row.Seq != q.Revision {
			return 0, engine.ErrQueueMoved
		}
		return h.resident.EditQueued(r.Context(), row, q.Text)
	})
}

func (s *Server) postQueueCancel(r *http.Request, q wire.QueueCancel) (wire.QueueReceipt, error) {
	return s.queued(r, q.Item, func(h *hub, row QueuedRow) (int64, error) {
		if q.Revision != nil && row.Seq != *q.Revision {
			return 0, engine.ErrQueueMoved
		}
		return h.resident.Withdraw(r.Context(), row)
	})
}

// queued changes one input that waits. One that is there no longer was taken,
// withdrawn, or never was.
func (s *Server) queued(r *http.Request, item string, change func(*hub, QueuedRow) (int64, error)) (none wire.QueueReceipt, err error) {
	h, err := s.session(r)
	if err != nil {
		return none, err
	}
	rows, err := h.resident.Source().Queued()
	if err != nil {
		return none, err
	}
	n := slices.IndexFunc(rows, func(r QueuedRow) bool { return r.ID.String() == item })
	if n < 0 {
		return none, notQueued(item)
	}
	seq, err := change(h, rows[n])
	switch {
	case errors.Is(err, machine.ErrNotPending):
		return none, notQueued(item)
	case errors.Is(err, engine.ErrQueueMoved):
		return none, &Refusal{Code: wire.RevisionChanged, Message: err.Error(), Err: err}
	case errors.Is(err, machine.ErrNotAuthor), errors.Is(err, machine.ErrNotEditable):
		return none, &Refusal{Code: wire.Forbidden, Message: err.Error() + "; nothing was changed", Err: err}
	case err != nil:
		return none, err
	}
	return wire.QueueReceipt{Item: item, Revision: seq, Seq: seq}, nil
}

func notQueued(item string) error {
	return Refuse(wire.UnknownRow, "no input "+cut(item, wire.MaxWord)+" waits in this session: it was taken or withdrawn, or it never was; nothing was changed")
}

func (s *Server) postConfig(r *http.Request, q wire.Configure) (wire.Configured, error) {
	return s.configure(r, strandOf(q.Strand), Configuring{ThinkingLevel: q.ThinkingLevel, ActiveTools: q.ActiveTools})
}

func (s *Server) postModel(r *http.Request, q wire.SetModel) (wire.Configured, error) {
	return s.configure(r, strandOf(q.Strand), Configuring{Model: &q.Model})
}

func (s *Server) postMode(r *http.Request, q wire.SetMode) (wire.Configured, error) {
	return s.configure(r, session.MainStrand, Configuring{Mode: &q.PermissionMode})
}

func (s *Server) configure(r *http.Request, strand string, c Configuring) (none wire.Configured, err error) {
	h, err := s.session(r)
	if err != nil {
		return none, err
	}
	now, err := h.resident.Configure(r.Context(), strand, c)
	if err != nil {
		return none, err
	}
	settings := wire.Settings{Model: wire.ModelRef{Provider: now.Provider, ModelID: now.ModelID}, Mode: now.Mode, ActiveTools: now.ActiveTools}
	if now.ThinkingLevel != "" {
		settings.ThinkingLevel = &now.ThinkingLevel
	}
	return wire.Configured{Settings: settings, Seq: now.Seq}, nil
}

// inputs states what waits for each strand, where it is not what was stated last, and
// tells of what was taken since: what waits no longer and stands in the conversation.
// Where a queue cannot be read the level is left out: who runs the session is told of
// that, and what is replayed needs none of it.
func (s *subscriber) inputs() error {
	now, err := waitingInput(s.minted.source)
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	for strand, before := range s.waiting {
		if err := s.taken(strand, before, now[strand]); err != nil {
			return err
		}
		if _, still := now[strand]; !still {
			delete(s.waiting, strand)
			s.stateQueue(strand, wire.Queue{Items: []wire.QueuedItem{}})
		}
	}
	for strand, level := range now {
		if before, ok := s.waiting[strand]; !ok || queueKey(before) != queueKey(level) {
			if s.waiting == nil {
				s.waiting = map[string]wire.Queue{}
			}
			s.waiting[strand] = level
			s.stateQueue(strand, level)
		}
	}
	return nil
}

func (s *subscriber) stateQueue(strand string, level wire.Queue) {
	s.write(s.hub.levelFrame(queueKey(level), strand, id.OpID{}, level))
}

// taken tells which of the items that waited are in the conversation now.
func (s *subscriber) taken(strand string, before, now wire.Queue) error {
	for _, item := range before.Items {
		if slices.ContainsFunc(now.Items, func(i wire.QueuedItem) bool { return i.ID == item.ID }) {
			continue
		}
		at, err := id.ParseEntryID(item.ID)
		if err != nil {
			continue // an id of ours always is one
		}
		there, err := s.minted.source.Has(at)
		if err != nil {
			return err
		}
		if there {
			s.write(passing(s.hub.session, strand, id.OpID{}, "taken/"+item.ID, wire.InputTaken{Item: item.ID, Lane: item.Lane, Entry: at}))
		}
	}
	return nil
}

// queueKey is the id of a level of input: the same input has the same.
func queueKey(q wire.Queue) string {
	sum := fnv.New64a()
	_, _ = sum.Write(wire.Encode(q)) // never fails
	return "queue/" + strconv.FormatUint(sum.Sum64(), 16)
}
