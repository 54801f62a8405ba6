package client

import (
	"slices"

	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/client/project"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/sdkmsg"
	"github.com/loom-run/loom/wire"
)

// Bounds of what is remembered. A stream that never ends must not grow the memory.
const (
	maxCalls   = 256  // calls without a result
	maxDenials = 256  // of one run
	maxKeys    = 1024 // of each ledger of keys
	maxTexts   = 1024 // of one response
)

// book is what must outlive a restart: what the next messages need of the ones
// before, and what must not be told twice.
type book struct {
	calls   []call
	denials []sdkmsg.Denial

	entry  id.EntryID // of the newest text
	texts  []string   // of that entry
	answer string     // what the newest response that ended said

	// The ledgers are three key spaces: a card that was shown has not told the model,
	// and the other way round.
	shown     keys // cards of notifications
	fed       keys // notifications that the model was told, or is owed
	workflows keys // runs of workflows that were told to be over

	// rebuilt is what a transcript told of messages that were put out by a state that is
	// gone, and counted the turns that were counted then.
	rebuilt map[plane.MessageID]bool
	counted map[id.EntryID]bool
}

type call struct {
	id, name string
	input    jsonv.Value
}

// keys is a set that keeps the newest.
type keys []string

// add reports whether the key is new.
func (k *keys) add(key string) bool {
	if slices.Contains(*k, key) {
		return false
	}
	if len(*k) >= maxKeys {
		*k = slices.Delete(*k, 0, 1)
	}
	*k = append(*k, key)
	return true
}

// open starts the account of a run.
func (b *book) open() {
	b.calls, b.denials, b.entry, b.texts, b.answer = nil, nil, id.EntryID{}, nil, ""
}

// called remembers a call until its result.
func (b *book) called(c call) {
	if len(b.calls) >= maxCalls {
		b.calls = slices.Delete(b.calls, 0, 1)
	}
	b.calls = append(b.calls, c)
}

// answered pairs a result with its call.
func (b *book) answered(callID string) (call, bool) {
	i := slices.IndexFunc(b.calls, func(c call) bool { return c.id == callID })
	if i < 0 {
		return call{}, false
	}
	c := b.calls[i]
	b.calls = slices.Delete(b.calls, i, i+1)
	return c, true
}

func (b *book) denied(d sdkmsg.Denial) {
	if len(b.denials) >= maxDenials {
		b.denials = slices.Delete(b.denials, 0, 1)
	}
	b.denials = append(b.denials, d)
}

// said takes a committed text.
func (b *book) said(entry id.EntryID, text string) {
	if entry != b.entry {
		b.entry, b.texts = entry, nil
	}
	if len(b.texts) < maxTexts {
		b.texts = append(b.texts, text)
	}
}

// ended takes the end of a response: what it said is the answer so far.
func (b *book) ended(entry id.EntryID) {
	b.answer = ""
	if entry != b.entry || len(b.texts) == maxTexts { // a part of an answer is none
		return
	}
	var content sdkmsg.Content
	for _, t := range b.texts {
		if t != "" {
			content = append(content, sdkmsg.TextBlock{Text: t})
		}
	}
	b.answer = content.Texts()
}

// has reports whether a transcript had what the frame says.
func (b *book) has(idOf func(wire.Frame, int) plane.MessageID, f wire.Frame) bool {
	if b.rebuilt == nil {
		return false
	}
	if end, ok := f.Body.(wire.TurnEnd); ok {
		return b.counted[end.Entry]
	}
	return b.rebuilt[idOf(f, 0)]
}

// account is what a result tells of the run beside its end.
func (st *step) account() project.Account {
	return project.Account{Turns: new(int64(st.turns)), Answer: st.book.answer, Denials: slices.Clone(st.book.denials)}
}
