package engine

import (
	"errors"
	"fmt"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/session"
)

// ErrStrandExists says that a session has a strand of that name.
var ErrStrandExists = errors.New("the session has a strand of that name already; nothing was changed")

// NewStrand is a strand that is to be.
type NewStrand struct {
	Name          string     // 1 to 512 bytes, printable, without space around it; not the name of another
	At            id.EntryID // where in the tree it begins: below this entry; absent for the root
	Configuration machine.Configuration
}

// CreateStrand adds a strand. With At it is a fork inside the session: it shares
// the history up to that entry and goes its own way from there. An entry that is
// not there is machine.ErrUnknownTarget, a name that is taken ErrStrandExists.
func (e *Engine) CreateStrand(n NewStrand) error {
	if _, err := message.Strand(n.Name); err != nil { // it has to serve as an origin
		return fmt.Errorf("%q cannot name a strand: a name has 1 to 512 bytes, printable and without space around it; nothing was changed", n.Name)
	}
	if !n.At.IsZero() {
		found, err := e.cfg.Session.Rows().Entries(n.At)
		if err != nil {
			return err
		}
		if _, known := found[n.At]; !known {
			return machine.ErrUnknownTarget
		}
	}
	_, err := e.writer.commit(machine.SeedStrand(n.Name, n.At, n.Configuration), nil, nil)
	if _, taken := errors.AsType[*tx.StaleExpectation](err); taken {
		return ErrStrandExists
	}
	if err != nil {
		return err
	}
	return e.drive(n.Name)
}

// resume starts the driver of a strand, and tells of what it was left with.
func (e *Engine) resume(name string) error {
	d := e.Driver(name)
	op, interrupted, err := d.open()
	if _, damaged := errors.AsType[*session.Corrupt](err); damaged {
		d.refuse(err)
		d.tellStopped()
		return nil
	}
	if err != nil {
		return err
	}
	if interrupted {
		e.observe(e.resumed(name, op))
	}
	return e.drive(name)
}

// drive starts the driver of a strand, once, if drivers are started here at all.
func (e *Engine) drive(name string) error {
	d := e.Driver(name)
	e.mu.Lock()
	skip := e.driven == nil || e.driven[name]
	if !skip {
		e.driven[name] = true
	}
	e.mu.Unlock()
	if skip {
		return nil
	}
	return e.join(func() { d.run(e.ctx) })
}
