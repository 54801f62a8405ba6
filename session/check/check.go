// Package check knows every invariant of a stored session.
//
// # Purpose
//
// The structure of a store is checked by storage; what its registers mean, and
// how operations, queues and the tree fit together, is checked here. The result
// names each broken rule; nothing is repaired.
//
// # Key types
//
// [Session] runs all checks over a store that can be walked and read, [Blobs] compares
// the outputs that its rows refer to with those that are kept.
//
// # Relationships
//
// Imports blob, core, machine, session and storage.
//
// # Traffic
//
// Reads only.
//
// # Invariants
//
// A store that an engine of this build left behind, at whatever commit it was
// stopped, has no findings.
package check

import (
	"fmt"
	"strings"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/machine/agency"
	"github.com/loom-run/loom/machine/automation"
	"github.com/loom-run/loom/machine/job"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
)

// The rules beyond structure.
const (
	StrandWhole       storage.Invariant = "strand-whole"        // a strand has a configuration, a leaf and a state
	OperationWhole    storage.Invariant = "operation-whole"     // a strand's operation has its registers, which name the strand
	OperationOwned    storage.Invariant = "operation-owned"     // an operation's registers belong to a strand that works on it
	BatchWhole        storage.Invariant = "batch-whole"         // an open batch has its response, and the results that are done
	QueuedOnce        storage.Invariant = "queued-once"         // an id is queued in one place and has its payload, not its entry
	PendingOwned      storage.Invariant = "pending-owned"       // a payload is queued or staged somewhere
	CallsAnswered     storage.Invariant = "calls-answered"      // each kept call has one result, unless its batch is open
	LedgerForResponse storage.Invariant = "ledger-for-response" // each response has exactly one ledger row
	ResultKept        storage.Invariant = "result-kept"         // a strand's last result is kept under its operation, too
)

// Store is what can be checked.
type Store interface {
	storage.Reader
	storage.Walker
}

// Session returns every broken invariant; nothing for a sound session.
func Session(s Store) ([]storage.Finding, error) {
	c := newChecker(s)
	findings := storage.Check(s, Cell)
	if len(findings) > 0 {
		return findings, nil // what follows reads rows, and would say the same again
	}
	if err := c.run(); err != nil {
		return nil, err
	}
	return c.findings, nil
}

// Cell judges the payload of a register by the codec of its namespace.
func Cell(a register.Address, c register.Cell) error {
	var err error
	switch a.NS {
	case register.StrandLeaf:
		_, err = register.DecodeLeaf(c.Value)
	case register.StrandConfig:
		_, err = machine.DecodeConfiguration(c.Value)
	case register.StrandState:
		_, err = machine.DecodeStrandState(c.Value)
	case register.StrandLastResult:
		_, err = machine.DecodeLastResult(c.Value)
	case register.OpMeta:
		_, err = machine.DecodeOperation(c.Value)
	case register.OpState:
		_, err = machine.DecodeState(c.Value)
	case register.OpToolArgs:
		if c.Value.Kind() != jsonv.Object {
			err = fmt.Errorf("the arguments of a call are an object, not a %s", c.Value.Kind())
		}
	case register.OpPreparation:
		_, err = machine.DecodePreparation(c.Value)
	case register.PendingEntry:
		_, err = machine.DecodePendingEntry(c.Value)
	case register.FactCustom:
		err = reserved(a.Key, c.Value)
	case register.FactName, register.FactLabel:
	}
	return err
}

// reserved judges the cells of fact.custom whose meaning this build knows.
func reserved(key string, v jsonv.Value) error {
	var err error
	text, isText := v.Text()
	switch {
	case strings.HasPrefix(key, resultPrefix):
		_, err = machine.DecodeLastResult(v)
	case key == session.IDKey || key == session.ParentKey:
		if !isText {
			return fmt.Errorf("a session's id is a text, not a %s", v.Kind())
		}
		_, err = id.ParseSessionID(text)
	case key == session.WorkspaceKey:
		if !isText {
			return fmt.Errorf("a directory is a text, not a %s", v.Kind())
		}
	case strings.HasPrefix(key, job.Prefix):
		_, err = job.Decode(v)
	default:
		known := false
		if known, err = agency.Judge(key, v); !known {
			_, err = automation.Judge(key, v)
		}
	}
	return err
}

// resultPrefix is what every machine.ResultKey begins with.
var resultPrefix = strings.TrimSuffix(machine.ResultKey(id.OpID{}), id.OpID{}.String())
