package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/machine/agency"
	"github.com/loom-run/loom/session"
)

// SetLink writes this session's side of a link that its owner granted: the grant of a
// session that is written to, and what a session that writes may do. The strand has to
// be there.
func (e *Engine) SetLink(side agency.Side, l agency.Link) error {
	if err := l.Check(); err != nil {
		return &agency.Refusal{Sentence: err.Error() + "; nothing was changed"}
	}
	own := l.To
	if side == agency.Outgoing {
		own = l.From
	}
	if own.Session != e.id {
		return fmt.Errorf("a link of session %s cannot be written to session %s", own.Session, e.id)
	}
	if _, ok, err := e.cfg.Session.StrandState(own.Strand); err != nil || !ok {
		return errors.Join(err, &agency.Refusal{Sentence: fmt.Sprintf("there is no strand %.200q in the session %s; nothing was changed", own.Strand, e.id)})
	}
	l.GrantedAt = e.cfg.Clock()
	_, err := e.writer.commit(l.Set(side), nil, nil)
	return err
}

// UnsetLink takes this session's side of a link away; was says whether there was one.
// What was delivered before stays.
func (e *Engine) UnsetLink(side agency.Side, l agency.Link) (was bool, err error) {
	for range admissionTries {
		_, seq, ok, err := e.link(side, l)
		if err != nil || !ok {
			return false, err
		}
		_, err = e.writer.commit(l.Unset(side, seq), nil, nil)
		if _, stale := errors.AsType[*tx.StaleExpectation](err); !stale {
			return err == nil, err
		}
	}
	return false, errors.New("the link changed faster than it could be read; it stands, try again")
}

func (e *Engine) link(side agency.Side, l agency.Link) (out agency.Link, seq int64, ok bool, err error) {
	cell, ok, err := e.cfg.Session.Rows().Register(register.FactCustom, l.Key(side))
	if err != nil || !ok {
		return agency.Link{}, 0, false, err
	}
	out, err = agency.DecodeLink(cell.Value)
	return out, cell.Seq, err == nil, err
}

// LinksOf lists one side of the links of a session.
func LinksOf(v *session.View, side agency.Side) (out []agency.Link, err error) {
	cells, err := v.Rows().Registers(register.FactCustom, string(side))
	if err != nil {
		return nil, err
	}
	for _, c := range cells {
		l, err := agency.DecodeLink(c.Value)
		if err != nil {
			return nil, fmt.Errorf("the link %s cannot be read: %w", c.Key, err)
		}
		out = append(out, l)
	}
	slices.SortFunc(out, agency.CompareLinks)
	return out, nil
}

// ReceiptOf finds the receipt of a letter in the session that it was sent to.
func ReceiptOf(v *session.View, letter string) (r agency.Receipt, ok bool, err error) {
	cell, ok, err := v.Rows().Register(register.FactCustom, agency.ReceiptKey(letter))
	if ok && err == nil {
		r, err = agency.DecodeReceipt(cell.Value)
	}
	return r, ok, err
}

// Receive takes a letter of another session, once, whatever happens to who sends it. An
// error that is no [*agency.Refusal] leaves open whether it was taken.
func (e *Engine) Receive(l agency.Letter) (agency.Receipt, error) {
	if l.To.Session != e.id {
		return agency.Receipt{}, fmt.Errorf("a letter to session %s came to session %s", l.To.Session, e.id)
	}
	for range sendTries {
		if r, ok, err := ReceiptOf(&e.cfg.Session.View, l.ID); ok || err != nil {
			if err == nil {
				err = l.Same(r)
			}
			return r, err
		}
		r, err := e.receive(l)
		if _, stale := errors.AsType[*tx.StaleExpectation](err); stale {
			continue
		}
		return r, err
	}
	return agency.Receipt{}, &agency.Refusal{Sentence: fmt.Sprintf("%s is too busy to be told anything; nothing was sent, try again later", l.To)}
}

func (e *Engine) receive(l agency.Letter) (agency.Receipt, error) {
	if err := e.usable(l.To.Strand); err != nil {
		return agency.Receipt{}, &agency.Refusal{Sentence: fmt.Sprintf("%s cannot work any more; nothing was sent", l.To)}
	}
	box := agency.Mailbox{Attended: e.attended()}
	grant, seq, ok, err := e.link(agency.Incoming, agency.Link{From: l.From, To: l.To})
	if err != nil {
		return agency.Receipt{}, err
	}
	if ok {
		box.Grant, box.GrantSeq = &grant, seq
		now, err := e.standing(l.To.Strand)
		if err != nil {
			return agency.Receipt{}, err
		}
		box.Standing = now.of(l.To.Strand)
	}
	r, t, err := l.Deliver(box, e.cfg.Clock(), e.generator())
	if err != nil {
		return agency.Receipt{}, err
	}
	if _, err = e.writer.commit(t, nil, nil); err != nil {
		return agency.Receipt{}, err
	}
	e.Driver(l.To.Strand).Ring()
	return r, nil
}

// attended reports whether strands are driven here.
func (e *Engine) attended() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.driven != nil && !e.closed
}

// SendPeer sends a letter to a strand of another session, under the link that the owner
// granted. A call that is made again sends the same letter.
func (e *Engine) SendPeer(c agency.Caller, to agency.Peer, text string) (agency.Delivery, error) {
	letter, err := agency.LetterOf(c, e.id, to, text)
	if err != nil {
		return nil, err
	}
	_, _, ok, err := e.link(agency.Outgoing, agency.Link{From: letter.From, To: to})
	if err != nil {
		return nil, err
	}
	if !ok || e.cfg.Peers == nil {
		return nil, &agency.Refusal{Sentence: fmt.Sprintf("you may not write to %s; nothing was sent, peer_roster lists those that you may write to", to)}
	}
	return e.cfg.Peers.Deliver(letter), nil
}

// PeerLinks lists whom a strand may write to, and who may write to it.
func (e *Engine) PeerLinks(strand string) (out, in []agency.Link, err error) {
	if out, err = LinksOf(&e.cfg.Session.View, agency.Outgoing); err != nil {
		return nil, nil, err
	}
	if in, err = LinksOf(&e.cfg.Session.View, agency.Incoming); err != nil {
		return nil, nil, err
	}
	out = slices.DeleteFunc(out, func(l agency.Link) bool { return l.From.Strand != strand })
	in = slices.DeleteFunc(in, func(l agency.Link) bool { return l.To.Strand != strand })
	return out, in, nil
}
