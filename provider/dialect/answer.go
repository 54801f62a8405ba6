package dialect

import (
	"fmt"
	"strings"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/provider"
)

// MaxCalls bounds the tool calls of one answer, and its blocks are bounded by it too; more is a broken stream.
const MaxCalls = 256

// maxBlocks bounds the blocks of one answer.
const maxBlocks = 4096

// Answer assembles one answer: blocks in the order in which their content came, deltas as they grow, one message at the end. A dialect's fold owns one
// and feeds it; what is pure in one is pure in both.
type Answer struct {
	API  string
	Peer Peer
	Req  provider.Request
	Sink func(provider.Delta)

	ResponseID, ResponseModel string
	// Finish is the provider's own word for why the answer ended, the last one that was not empty.
	Finish string
	// Usage is the last report; nil when there was none.
	Usage *usage.Usage
	// Replaced counts the characters that were broken in the provider's JSON.
	Replaced int
	// Failure is the first error that the stream stated or showed; the answer fails with it.
	Failure *provider.Error

	notes  []jsonv.Member
	blocks []*Block // those with a place in the content, in its order
	calls  []*Block // those of them that are calls
	last   *Block   // what Text and Thinking continue
}

// kind tells the blocks apart.
type kind uint8

const (
	textKind kind = iota
	thinkingKind
	callKind
	opaqueKind
)

// Block is one block being assembled. It gets its place in the content when there is something to keep in it, so that a block that stays empty is none.
type Block struct {
	answer *Answer
	kind   kind
	at     int // index in the content; -1 before it has a place

	text      strings.Builder // of text, thinking and opaque blocks: what is shown
	signature strings.Builder // opaque to everybody but the provider; of opaque blocks what is kept
	redacted  bool
	call      call
}

// Fail keeps the first error of the stream.
func (a *Answer) Fail(e *provider.Error) {
	if a.Failure == nil {
		a.Failure = e
	}
}

// Note adds a fact to the diagnostics of the message.
func (a *Answer) Note(name string, v jsonv.Value) { a.notes = append(a.notes, jsonv.F(name, v)) }

// OpenText starts a text block.
func (a *Answer) OpenText() *Block { return a.open(textKind) }

// OpenThinking starts a block of reasoning.
func (a *Answer) OpenThinking() *Block { return a.open(thinkingKind) }

// OpenCall starts a tool call; it has its place at once.
func (a *Answer) OpenCall() *Block {
	b := a.open(callKind)
	if len(a.calls) >= MaxCalls {
		a.Fail(a.Peer.Malformed("it asked for too many tools at once"))
		return b
	}
	a.calls = append(a.calls, b)
	b.place()
	return b
}

// Opaque keeps a block that only the provider understands, under a name that people can read; see [Unseal].
func (a *Answer) Opaque(name string, v jsonv.Value) {
	b := a.open(opaqueKind)
	b.redacted = true
	b.signature.WriteString(seal(a.API, v))
	b.Add("[" + Excerpt(name) + "]")
}

// Redact keeps reasoning that the provider shows to nobody.
func (a *Answer) Redact(data string) {
	b := a.open(thinkingKind)
	b.redacted = true
	b.Sign(data)
}

func (a *Answer) open(k kind) *Block {
	b := &Block{answer: a, kind: k, at: -1}
	a.last = b
	return b
}

// place gives the block its index in the content.
func (b *Block) place() {
	a := b.answer
	if b.at >= 0 || a.Failure != nil && len(a.blocks) >= maxBlocks {
		return
	}
	if len(a.blocks) >= maxBlocks {
		a.Fail(a.Peer.Malformed("it sent too many blocks in one answer"))
		return
	}
	b.at = len(a.blocks)
	a.blocks = append(a.blocks, b)
}

// Text continues the text that came last, or starts one. It is for dialects whose text has no index.
func (a *Answer) Text(s string) { a.continueLast(textKind, s) }

// Thinking continues the reasoning that came last, or starts one.
func (a *Answer) Thinking(s string) { a.continueLast(thinkingKind, s) }

func (a *Answer) continueLast(k kind, s string) {
	if s == "" {
		return
	}
	if a.last == nil || a.last.kind != k || a.last.Signed() {
		a.open(k)
	}
	a.last.Add(s)
}

// Add continues the text of a block, or the arguments of a call.
func (b *Block) Add(s string) {
	if b.kind == callKind {
		b.Take("", "", s)
		return
	}
	if s == "" {
		return
	}
	if b.place(); b.at < 0 {
		return
	}
	b.text.WriteString(s)
	if b.kind == textKind {
		b.answer.Sink(provider.TextDelta{Block: b.at, Text: s})
	} else {
		b.answer.Sink(provider.ThinkingDelta{Block: b.at, Text: s})
	}
}

// Sign continues the signature of a block.
func (b *Block) Sign(s string) {
	if s == "" {
		return
	}
	if b.place(); b.at >= 0 {
		b.signature.WriteString(s)
	}
}

// Signed reports whether the block has a signature.
func (b *Block) Signed() bool { return b.signature.Len() > 0 }

// Complete brings the block to the text that the provider declares to be all of it, and reports whether what had come before agrees with that. Where
// it does, the rest is shown as if it had come in pieces.
func (b *Block) Complete(all string) (agrees bool) {
	if b.kind == callKind {
		return b.completeCall(all)
	}
	so := b.text.String()
	if rest, ok := strings.CutPrefix(all, so); ok {
		b.Add(rest)
		return true
	}
	b.text.Reset()
	b.text.WriteString(all)
	return false
}

// Shown is the text so far.
func (b *Block) Shown() string { return b.text.String() }

// Calls is the number of tool calls.
func (a *Answer) Calls() int { return len(a.calls) }

// Empty reports whether nothing was received that could be kept.
func (a *Answer) Empty() bool { return len(a.blocks) == 0 }

// fewTokens is the most output of an answer that says nothing but that the input did not fit.
const fewTokens = 64

// Settle is the terminal of the answer. broke is why reading stopped before the end of the stream, or nil at its end; complete says whether the provider
// declared the answer complete; reason maps its word for the end. at is the time in Unix milliseconds.
//
// What breaks after the provider declared the answer complete costs at most the usage report, so it is settled all the same; a cancellation and a passed
// bound are not.
func (a *Answer) Settle(broke *provider.Error, at int64, complete bool, reason func() (message.StopReason, *provider.Error)) (*message.Assistant, *provider.Error) {
	switch {
	case a.Failure != nil:
		return nil, a.failed(a.Failure, at)
	case broke != nil && (broke.Class == provider.Cancelled || broke.Class == provider.MalformedStream):
		return nil, a.failed(broke, at)
	case !complete:
		if broke == nil {
			broke = a.Peer.Disconnected()
		}
		return nil, a.failed(broke, at)
	}
	stop, refused := reason()
	if refused == nil && a.overflowed() {
		refused = &provider.Error{
			Class:   provider.Overflow,
			Message: a.Peer.Sentence(provider.Overflow, a.Req.Model.ModelID) + "; " + a.Peer.Advice(provider.Overflow),
		}
	}
	if refused != nil {
		return nil, a.failed(refused, at)
	}
	if stop == message.Length {
		a.doubtUnended()
	}
	m := a.message(at, false)
	m.StopReason = stop
	return m, nil
}

// failed completes an error with what was received.
func (a *Answer) failed(e *provider.Error, at int64) *provider.Error {
	if len(a.blocks) == 0 && a.Usage == nil {
		return e
	}
	m := a.message(at, true)
	m.StopReason = message.Error
	if e.Class == provider.Cancelled {
		m.StopReason = message.Aborted
	}
	m.ErrorMessage = new(e.Message)
	e.Partial = m
	return e
}

// Natural is the stop reason of an answer that ended as it should: for its calls where it has some.
func (a *Answer) Natural() message.StopReason {
	if len(a.calls) > 0 {
		return message.ToolUse
	}
	return message.Stop
}

// Withheld is the error for an answer that the provider ended by its content rules; detail is its own words.
func (a *Answer) Withheld(detail string) *provider.Error {
	return &provider.Error{
		Class: provider.Refused, Detail: a.Peer.Excerpt(detail),
		Message: a.Peer.Name + " withheld the rest of the answer by its content rules (" + a.Peer.Excerpt(detail) + "); what arrived is kept, ask in another way",
	}
}

// Unmapped is the error for a word about the end that is not known here.
func (a *Answer) Unmapped() *provider.Error {
	return &provider.Error{
		Class: provider.UnmappedStopReason, Detail: a.Peer.Excerpt(a.Finish),
		Message: fmt.Sprintf("%s ended the answer for a reason that is not known here (%q); what arrived is kept", a.Peer.Name, a.Peer.Excerpt(a.Finish)),
	}
}

// overflowed reports an answer that is none: some servers cut a request that is too large and say almost nothing.
func (a *Answer) overflowed() bool {
	u, window := a.Usage, a.Req.Model.ContextWindow
	return u != nil && window > 0 && u.Input+u.CacheRead+u.CacheWrite > window && u.Output <= fewTokens
}

// message builds what was received. partial leaves out calls that are not whole, so that nothing can ever run from half a call.
func (a *Answer) message(at int64, partial bool) *message.Assistant {
	m := &message.Assistant{
		API: a.API, Provider: a.Req.Model.Provider, Model: a.Req.Model.ModelID,
		Usage: usage.Unknown(usage.API), Timestamp: at,
	}
	if a.Usage != nil {
		m.Usage = *a.Usage
	}
	m.ResponseID = Present(bounded(a.ResponseID))
	if a.ResponseModel != m.Model {
		m.ResponseModel = Present(bounded(a.ResponseModel))
	}
	m.RawStopReason = Present(bounded(a.Finish))

	ids := a.newIDs()
	for _, b := range a.blocks {
		switch b.kind {
		case textKind:
			m.Content = append(m.Content, message.Text{Text: b.text.String(), Signature: Present(b.signature.String())})
		case thinkingKind, opaqueKind:
			m.Content = append(m.Content, message.Thinking{Thinking: b.text.String(), Signature: Present(b.signature.String()), Redacted: b.redacted})
		case callKind:
			if !partial || b.Whole() {
				m.Content = append(m.Content, b.settled(ids.next(b.call.id)))
			}
		}
	}
	m.Diagnostics = a.diagnostics(ids.renamed)
	return m
}

// maxWord bounds the words of a provider that are stored beside the content, in bytes: those that exist have a few dozen.
const maxWord = 1024

func bounded(word string) string {
	if len(word) > maxWord {
		return Excerpt(word)
	}
	return word
}

// diagnostics notes what was mended; nil when nothing was.
func (a *Answer) diagnostics(renamed int64) *jsonv.Value {
	var notes []jsonv.Member
	if a.Replaced > 0 {
		notes = append(notes, jsonv.F("replaced_characters", jsonv.Num(int64(a.Replaced))))
	}
	if renamed > 0 {
		notes = append(notes, jsonv.F("renamed_calls", jsonv.Num(renamed)))
	}
	if notes = append(notes, a.notes...); notes == nil {
		return nil
	}
	return new(jsonv.Obj(notes...))
}
