package agency

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/machine"
)

// MaxLetter bounds what one session says to another, in bytes.
const MaxLetter = 32 << 10

// Peer is a strand of a session.
type Peer struct {
	Session id.SessionID
	Strand  string
}

// String is what models and people are given: {session}/{strand}.
func (p Peer) String() string { return p.Session.String() + "/" + p.Strand }

// ParsePeer reads a peer as [Peer.String] writes it.
func ParsePeer(text string) (Peer, error) {
	session, strand, ok := strings.Cut(text, "/")
	s, err := id.ParseSessionID(session)
	if err == nil && ok {
		_, err = message.Peer(session, strand)
	}
	if err != nil || !ok {
		return Peer{}, refuse("%.200q names no agent of another session; peer_roster lists those that you can write to", text)
	}
	return Peer{s, strand}, nil
}

// Link is what an owner granted: one strand may write to another one, of another
// session, and not the other way. It is kept in both sessions: as the grant of the one
// that is written to (fact.custom peer/in/), without which nothing is delivered, and
// for the one that writes (peer/out/), so that it knows.
type Link struct {
	From, To  Peer
	MayWake   bool  // whether a strand that rests starts to work for a message
	GrantedAt int64 // Unix ms
}

// Side is which end of a link a cell is for.
type Side string

// The sides: of who is written to, and of who writes.
const (
	Incoming Side = "peer/in/"
	Outgoing Side = "peer/out/"
)

// key names a link among all of them.
func (l Link) key() string {
	sum := sha256.Sum256([]byte(l.From.String() + "\x00" + l.To.String()))
	return hex.EncodeToString(sum[:16])
}

// Key is the cell of a link.
func (l Link) Key(s Side) string { return string(s) + l.key() }

// Check says in half a sentence why an owner cannot grant a link; nil: nothing.
func (l Link) Check() error {
	for _, p := range []Peer{l.From, l.To} {
		if _, err := message.Peer(p.Session.String(), p.Strand); err != nil || p.Session.IsZero() {
			return fmt.Errorf("%.200q cannot be the name of a strand", p.Strand)
		}
	}
	if l.From.Session == l.To.Session {
		return errors.New("agents of one session reach each other without a link")
	}
	if Spawned(l.To.Strand) && l.MayWake {
		return errors.New("an agent that another one started works for that one alone and is not woken")
	}
	return nil
}

func writePeer(w *jsonv.Writer, name string, p Peer) {
	w.Name(name)
	w.Begin()
	w.Str("session", p.Session.String())
	w.Str("strand", p.Strand)
	w.End()
}

func decodePeer(v jsonv.Value) (Peer, error) {
	r := jsonv.Read(v, "agency.decodePeer")
	p := Peer{jsonv.One(r, "session", sessionID), r.Str("strand")}
	return p, r.Err()
}

func sessionID(v jsonv.Value) (id.SessionID, error) {
	text, _ := v.Text()
	return id.ParseSessionID(text)
}

// Value returns the register payload.
func (l Link) Value() jsonv.Value {
	var w jsonv.Writer
	w.Begin()
	writePeer(&w, "from", l.From)
	writePeer(&w, "to", l.To)
	w.Flag("mayWake", l.MayWake)
	w.Num("grantedAt", l.GrantedAt)
	w.End()
	return w.Tree()
}

// DecodeLink reads a link.
func DecodeLink(v jsonv.Value) (Link, error) {
	r := jsonv.Read(v, "agency.DecodeLink")
	l := Link{From: jsonv.One(r, "from", decodePeer), To: jsonv.One(r, "to", decodePeer), MayWake: r.Flag("mayWake"), GrantedAt: r.Num("grantedAt")}
	if r.Err() == nil {
		r.Adopt("from", l.Check())
	}
	return l, r.Err()
}

// Set plans that a session has its side of a link. Of one that is there already only
// what was granted changes.
func (l Link) Set(s Side) tx.Tx {
	return tx.Tx{Writes: []tx.Write{tx.Set(register.FactCustom, l.Key(s), l.Value())}}
}

// Unset plans that it has not, as it was read at a seq.
func (l Link) Unset(s Side, seq int64) tx.Tx {
	return tx.Tx{
		Writes:   []tx.Write{tx.Delete(register.FactCustom, l.Key(s))},
		Expected: []tx.Expectation{tx.Expect(register.FactCustom, l.Key(s), seq)},
	}
}

// Letter is a message to a strand of another session.
type Letter struct {
	ID       string // the same for each delivery of it
	From, To Peer
	Text     string // 1 to [MaxLetter] bytes
}

// LetterOf is the letter that a call sends. A call that is made again sends the same.
func LetterOf(c Caller, self id.SessionID, to Peer, text string) (Letter, error) {
	if strings.TrimSpace(text) == "" || len(text) > MaxLetter {
		return Letter{}, refuse("the message has %d bytes; it has 1 to %d, and not only space; nothing was sent", len(text), MaxLetter)
	}
	sum := sha256.Sum256([]byte(self.String() + ":" + c.key()))
	return Letter{ID: hex.EncodeToString(sum[:16]), From: Peer{self, c.Strand}, To: to, Text: text}, nil
}

// Receipt is the mark that a letter was delivered, in the session that it reached
// (fact.custom peer/receipt/{id}). It is written with the message.
type Receipt struct {
	From   Peer
	To     string // the strand
	Digest string // of the text, so that one id delivers one text
	Entry  id.EntryID
	Woke   bool // a run of its own follows; else it is read before the next step, or with the next run
}

const receiptPrefix = "peer/receipt/"

// ReceiptKey is the cell of a letter's receipt.
func ReceiptKey(letter string) string { return receiptPrefix + letter }

func (l Letter) digest() string {
	sum := sha256.Sum256([]byte(l.Text))
	return hex.EncodeToString(sum[:16])
}

// Value returns the register payload.
func (r Receipt) Value() jsonv.Value {
	var w jsonv.Writer
	w.Begin()
	writePeer(&w, "from", r.From)
	w.Str("to", r.To)
	w.Str("digest", r.Digest)
	w.Str("entry", r.Entry.String())
	w.Flag("woke", r.Woke)
	w.End()
	return w.Tree()
}

// DecodeReceipt reads a receipt.
func DecodeReceipt(v jsonv.Value) (Receipt, error) {
	r := jsonv.Read(v, "agency.DecodeReceipt")
	out := Receipt{From: jsonv.One(r, "from", decodePeer), To: r.Str("to"), Digest: r.Str("digest"), Entry: jsonv.One(r, "entry", entryID), Woke: r.Flag("woke")}
	return out, r.Err()
}

// Same checks that a receipt is of this very letter.
func (l Letter) Same(r Receipt) error {
	if r.From != l.From || r.To != l.To.Strand || r.Digest != l.digest() {
		return refuse("a message of this id was delivered already, and it was another one; nothing was sent")
	}
	return nil
}

// Mailbox is where a letter is to be put.
type Mailbox struct {
	Grant    *Link // what the session that is written to grants; nil: nothing
	GrantSeq int64
	machine.Standing
	Attended bool // whether the session runs; a strand of one that does not is not woken
}

// Deliver plans that a letter reaches its strand, with its receipt: before the next
// request of an open run, or in a run that it starts, or, where nobody runs the session,
// with the next run. Without a grant that still stands at the commit nothing is
// delivered.
func (l Letter) Deliver(to Mailbox, now int64, ids id.Generator) (Receipt, tx.Tx, error) {
	if to.Grant == nil || to.Grant.From != l.From || to.Grant.To != l.To {
		return Receipt{}, tx.Tx{}, refuse("%s lets nobody write to it from here; nothing was sent, ask the person that you work for", l.To)
	}
	origin, err := message.Peer(l.From.Session.String(), l.From.Strand)
	if err != nil {
		return Receipt{}, tx.Tx{}, fmt.Errorf("%s cannot be named as an author: %w", l.From, err)
	}
	m := machine.PendingMessage(&message.User{
		Content: []message.UserBlock{message.Text{Text: Message(l.From.String(), l.Text)}}, Timestamp: now, Origin: &origin,
	})
	r := Receipt{From: l.From, To: l.To.Strand, Digest: l.digest()}
	i, t, err := to.Steer(m, ids)
	if err != nil {
		if !to.Grant.MayWake {
			return Receipt{}, tx.Tx{}, refuse("%s rests, and you may not wake it; nothing was sent, try again later", l.To)
		}
		var start *machine.Start
		if r.Woke = to.Attended; r.Woke {
			start = &machine.Start{}
		}
		i, t = machine.AdmitNextRun(to.Strand, to.State, to.StateSeq, m, start, ids)
	}
	r.Entry = i
	t.Writes = append(t.Writes, tx.Set(register.FactCustom, ReceiptKey(l.ID), r.Value()))
	t.Expected = append(t.Expected,
		tx.ExpectAbsent(register.FactCustom, ReceiptKey(l.ID)), tx.Expect(register.FactCustom, to.Grant.Key(Incoming), to.GrantSeq))
	return r, t, nil
}

// Delivery is what became of a letter, as far as who sent it can know.
type Delivery interface{ delivery() }

// Delivered is a letter that its strand reads; Receipt says how.
type Delivered struct{ Receipt Receipt }

// Refused is a letter of which nothing was kept, with why in a sentence.
type Refused struct{ Why string }

// Undecided is a letter of which nobody here knows whether it was kept. Sending it
// again with the same id delivers it once.
type Undecided struct{ Why string }

func (Delivered) delivery() {}
func (Refused) delivery()   {}
func (Undecided) delivery() {}

// Sentence tells a sender what became of its letter.
func Sentence(to Peer, d Delivery) string {
	switch d := d.(type) {
	case Delivered:
		if d.Receipt.Woke {
			return fmt.Sprintf("delivered to %s, which starts to work for it", to)
		}
		return fmt.Sprintf("delivered to %s, which reads it before its next step, or when it works next", to)
	case Refused:
		return d.Why
	case Undecided:
		return fmt.Sprintf("whether it reached %s is unknown: %s", to, d.Why)
	}
	return "nothing is known of it"
}

// judgePeer decodes the cells of links and receipts.
func judgePeer(key string, v jsonv.Value) (known bool, err error) {
	for _, s := range []Side{Incoming, Outgoing} {
		if strings.HasPrefix(key, string(s)) {
			l, err := DecodeLink(v)
			if err == nil && l.Key(s) != key {
				err = fmt.Errorf("the cell holds the link from %s to %s", l.From, l.To)
			}
			return true, err
		}
	}
	if strings.HasPrefix(key, receiptPrefix) {
		_, err := DecodeReceipt(v)
		return true, err
	}
	return false, nil
}

// CompareLinks orders links for people.
func CompareLinks(a, b Link) int {
	return cmp.Or(cmp.Compare(a.From.String(), b.From.String()), cmp.Compare(a.To.String(), b.To.String()))
}
