package client

import (
	"errors"
	"fmt"

	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/client/project"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/sdkmsg"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/shape"
)

// ledgerVersion is the form that [State.Export] writes. Another one is refused.
const ledgerVersion = 1

// ledger is what a host keeps over a restart, as JSON.
type ledger struct {
	Version   int64           `wire:"loomLedger"`
	Session   id.SessionID    `wire:"session"`
	Strand    string          `wire:"strand,opt"`
	Cursor    wire.Cursor     `wire:"cursor,opt"`
	Operation id.OpID         `wire:"operation,opt"`
	Open      bool            `wire:"open"` // no end was seen
	Turns     int64           `wire:"turns"`
	Lacking   bool            `wire:"lacking"`
	Tally     []ledgerCount   `wire:"tally"`
	Calls     []ledgerCall    `wire:"calls"`
	Denials   []sdkmsg.Denial `wire:"denials"`
	Entry     id.EntryID      `wire:"entry,opt"`
	Texts     []string        `wire:"texts"`
	Answer    string          `wire:"answer"`
	Shown     []string        `wire:"shown"`
	Fed       []string        `wire:"fed"`
	Workflows []string        `wire:"workflows"`
}

type ledgerCount struct {
	N     int64 `wire:"n"`
	Known bool  `wire:"known"`
	Exact bool  `wire:"exact"`
}

type ledgerCall struct {
	ID    string      `wire:"id"`
	Name  string      `wire:"name"`
	Input jsonv.Value `wire:"input"`
}

// Check implements [shape.Checked].
func (l ledger) Check() (field, expected string) {
	switch {
	case l.Version != ledgerVersion:
		return "loomLedger", "version 1"
	case len(l.Tally) != 5:
		return "tally", "five counts"
	case len(l.Calls) > maxCalls, len(l.Denials) > maxDenials, len(l.Shown) > maxKeys, len(l.Fed) > maxKeys, len(l.Workflows) > maxKeys, len(l.Texts) > maxTexts:
		return "ledger", "no more than is kept"
	}
	for _, c := range l.Tally {
		if c.Exact && !c.Known || !c.Known && c.N != 0 {
			return "tally", "counts that agree with themselves"
		}
	}
	return "", ""
}

// Export writes what a later state needs to go on where this one stands: the position,
// the account of the run that is on, and what was told already. Live text is not in
// it: it is superseded by what is committed. The bytes are JSON of this build.
func (s *State) Export() []byte {
	b := &s.book
	l := ledger{
		Version: ledgerVersion, Session: s.watch.Session, Strand: s.watch.Strand, Cursor: s.position.Cursor(), Operation: s.operation,
		Open: s.ending == nil, Turns: int64(s.turns), Lacking: s.lacking, Denials: b.denials, Entry: b.entry, Texts: b.texts, Answer: b.answer,
		Shown: b.shown, Fed: b.fed, Workflows: b.workflows,
	}
	for _, c := range [...]plane.Count{s.tally.Input, s.tally.Output, s.tally.CacheRead, s.tally.CacheWrite, s.tally.CostMicroUSD} {
		l.Tally = append(l.Tally, ledgerCount(c))
	}
	for _, c := range b.calls {
		l.Calls = append(l.Calls, ledgerCall{ID: c.id, Name: c.name, Input: c.input})
	}
	return wire.Encode(l)
}

// ErrLedger is an export that cannot be imported. Nothing of it was taken.
var ErrLedger = errors.New("client: the saved ledger cannot be used; nothing of it was taken")

// Import goes on where an export stood. It is for a state that has seen nothing. An
// export of another version, of another session or strand, or one that cannot be read,
// is refused whole with [ErrLedger].
func (s *State) Import(data []byte) error {
	v, err := jsonv.Parse(data)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLedger, err)
	}
	l, err := shape.Exact[ledger](v, "client.Import")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLedger, err)
	}
	if l.Session != s.watch.Session || l.Strand != s.watch.Strand {
		return fmt.Errorf("%w: it is of another session", ErrLedger)
	}
	if w := s.watch.Operation; !w.IsZero() && l.Operation != w {
		return fmt.Errorf("%w: it is of another run", ErrLedger)
	}
	s.position = wire.At(l.Cursor)
	s.operation, s.turns, s.lacking = l.Operation, int(l.Turns), l.Lacking
	c := func(i int) plane.Count { return plane.Count(l.Tally[i]) }
	s.tally = plane.Tally{Input: c(0), Output: c(1), CacheRead: c(2), CacheWrite: c(3), CostMicroUSD: c(4)}
	if !l.Open {
		s.over, s.ending = l.Operation, plane.Lost{Why: plane.Earlier}
	}
	if len(l.Denials) == 0 {
		l.Denials = nil // as in a state that has seen none
	}
	s.book = book{denials: l.Denials, entry: l.Entry, texts: l.Texts, answer: l.Answer, shown: l.Shown, fed: l.Fed, workflows: l.Workflows}
	for _, x := range l.Calls {
		s.book.calls = append(s.book.calls, call{id: x.ID, name: x.Name, input: x.Input})
	}
	return nil
}

// Rebuild starts from a stored transcript, for a host that has no export: what was put
// out is not put out again, wherever the stream starts, and what the model was told is
// not told again. What a transcript does not hold is not known: the totals of a run
// that is on are lower bounds.
func Rebuild(w plane.Watch, surface project.Surface, lines []sdkmsg.Line) *State {
	s := New(w, surface)
	b := &s.book
	b.rebuilt, b.counted = map[plane.MessageID]bool{}, map[id.EntryID]bool{}
	for _, l := range lines {
		if m, ok := plane.ParseMessageID(l.UUID); ok {
			b.rebuilt[m] = true
		}
		s.recall(l.Message)
	}
	return s
}

// recall takes one stored message.
func (s *State) recall(m sdkmsg.Message) {
	b := &s.book
	switch m := m.(type) {
	case sdkmsg.Assistant:
		entry, err := id.ParseEntryID(m.Message.ID)
		if err != nil {
			return // somebody else's
		}
		if !b.counted[entry] {
			b.counted[entry] = true
			s.turns++
			s.lacking = true
		}
		b.recallBlocks(entry, m.Message.Content)
	case sdkmsg.User:
		s.recallUser(m)
	case sdkmsg.Result:
		if m.Loom == nil {
			return
		}
		if op, err := id.ParseOpID(m.Loom.Operation); err == nil {
			s.operation, s.over, s.ending = op, op, plane.Lost{Why: plane.Earlier}
		}
	case sdkmsg.TaskNotification:
		key := project.LineKey(m)
		b.shown.add(key)
		if f := m.Loom; f != nil && f.Injected != nil && *f.Injected {
			b.fed.add(key)
		}
	case sdkmsg.Init, sdkmsg.CompactBoundary, sdkmsg.Informational, sdkmsg.PermissionDenied, sdkmsg.Unknown:
	}
}

// recallBlocks takes the blocks of a response.
func (b *book) recallBlocks(entry id.EntryID, content sdkmsg.Content) {
	for _, block := range content {
		switch block := block.(type) {
		case sdkmsg.TextBlock:
			b.said(entry, block.Text)
		case sdkmsg.ToolUse:
			b.called(call{id: block.ID, name: block.Name, input: block.Input})
		default: // nothing that the next messages need
		}
	}
	b.ended(entry)
}

func (s *State) recallUser(m sdkmsg.User) {
	b := &s.book
	results := false
	for _, block := range m.Message.Content {
		switch block := block.(type) {
		case sdkmsg.ToolResult:
			results = true
			asked, _ := b.answered(block.ToolUseID)
			if project.DeniedLine(m) {
				b.denied(sdkmsg.Denial{ToolName: m.Loom.Tool, ToolUseID: block.ToolUseID, ToolInput: asked.input})
			}
		case sdkmsg.TextBlock:
			for _, key := range project.TaskKeys(block.Text) {
				b.fed.add(key)
			}
		default: // nothing that the next messages need
		}
	}
	if !results && !m.IsSynthetic && s.ending != nil { // the next prompt
		op := s.watch.Operation
		s.operation, s.turns, s.lacking, s.ending = op, 0, false, nil
		b.open()
	}
}
