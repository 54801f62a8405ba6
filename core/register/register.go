// Package register names the mutable cells of a session.
//
// # Purpose
//
// A session keeps its current state in cells addressed by a namespace and a
// key. A cell has a value and the seq of the write that last set it; that seq is
// the token of every compare-and-set. Cells have no history.
//
// # Key types
//
// [Namespace] (a closed set), [Cell], [Address].
//
// # Relationships
//
// Imports core/corrupt, core/id, core/jsonv. The payloads that a namespace
// demands are defined and decoded in machine; only the payload of a strand's
// leaf is understood here.
//
// # Traffic
//
// None.
//
// # Invariants
//
// Adding a namespace changes the interface of storage: unknown ones are
// corruption.
package register

import (
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
)

// Namespace is one of the twelve kinds of cell.
type Namespace string

// The closed set, with the key of each.
const (
	StrandLeaf       Namespace = "strand.leaf"        // strand name
	StrandConfig     Namespace = "strand.config"      // strand name
	StrandState      Namespace = "strand.state"       // strand name
	StrandLastResult Namespace = "strand.last_result" // strand name
	OpMeta           Namespace = "op.meta"            // operation id
	OpState          Namespace = "op.state"           // operation id
	OpToolArgs       Namespace = "op.tool_args"       // {op}:{step}:{source index}
	OpPreparation    Namespace = "op.preparation"     // {op}:{task}
	PendingEntry     Namespace = "pending.entry"      // reserved entry id
	FactName         Namespace = "fact.name"          // free
	FactLabel        Namespace = "fact.label"         // free; entry id for labels
	FactCustom       Namespace = "fact.custom"        // free; reserved prefixes
)

// Namespaces lists all of them in the order of their names' families.
var Namespaces = [...]Namespace{
	StrandLeaf, StrandConfig, StrandState, StrandLastResult,
	OpMeta, OpState, OpToolArgs, OpPreparation,
	PendingEntry, FactName, FactLabel, FactCustom,
}

// Parse reads a stored namespace.
func Parse(s string) (Namespace, error) {
	for _, n := range Namespaces {
		if string(n) == s {
			return n, nil
		}
	}
	return "", corrupt.New("register.Parse", "namespace", "one of the twelve namespaces", s)
}

// Address names one cell.
type Address struct {
	NS  Namespace
	Key string
}

func (a Address) String() string { return string(a.NS) + "/" + a.Key }

// Cell is the value of a register and the seq of the write that set it.
type Cell struct {
	Seq   int64
	Value jsonv.Value
}

// Leaf is the payload of a strand's leaf: an entry, or absent at the root.
func Leaf(i id.EntryID) jsonv.Value {
	if i.IsZero() {
		return jsonv.Value{}
	}
	return jsonv.Str(i.String())
}

// DecodeLeaf reads the payload of a strand's leaf.
func DecodeLeaf(v jsonv.Value) (id.EntryID, error) {
	if v.IsNull() {
		return id.EntryID{}, nil
	}
	s, ok := v.Text()
	if !ok {
		return id.EntryID{}, corrupt.New("register.DecodeLeaf", "strand.leaf", "an entry id or null", v.Kind().String())
	}
	return id.ParseEntryID(s)
}
