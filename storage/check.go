package storage

import (
	"fmt"
	"slices"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/usage"
)

// Invariant names a rule that every stored session keeps.
type Invariant string

// The rules that a structural check knows. Backends add none of their own: what
// is particular to one is found under the first five names.
const (
	BackendSound     Invariant = "backend-sound"      // the backend's own check finds nothing
	RowIntact        Invariant = "row-intact"         // digest and columns belong to the payload, which decodes
	OneSessionRow    Invariant = "one-session-row"    // exactly one, and readable
	IDsIndexed       Invariant = "ids-indexed"        // an id leads to its row, and to no other
	PathIndexed      Invariant = "path-indexed"       // what speeds up scans of a path agrees with the parents
	SeqUnique        Invariant = "seq-unique"         // over entries, ledger and registers, from 1 up
	SeqBelowNext     Invariant = "seq-below-next"     // nothing is stored at a seq that is still to come
	IDUnique         Invariant = "id-unique"          // over entries and ledger
	ParentEarlier    Invariant = "parent-earlier"     // a parent exists and was written before
	MessageCount     Invariant = "message-count"      // equals the number of message entries
	UsageSum         Invariant = "usage-sum"          // equals the sum of the ledger
	NamespaceKnown   Invariant = "namespace-known"    // one of the twelve
	LeafExists       Invariant = "leaf-exists"        // null or an entry
	PendingNotPlaced Invariant = "pending-not-placed" // an id is not pending and an entry at once
	CellValid        Invariant = "cell-valid"         // a CellCheck accepts it
)

// Finding is one broken invariant.
type Finding struct {
	Invariant Invariant
	Subject   string // the row, cell or counter, such as "entry 019b…" or "strand.leaf/main"
	Detail    string // what was expected and what is there
}

func (f Finding) String() string {
	return string(f.Invariant) + ": " + f.Subject + ": " + f.Detail
}

// Walker is a backend that can show every row it keeps, damaged ones included.
type Walker interface {
	// Walk shows the session row first, then entries, ledger rows and registers,
	// the former two by ascending seq. A row that cannot be shown is shown as
	// Damage and the walk goes on; the error says why a walk ended early.
	Walk(v Visitor) error
}

// Visitor is shown the rows of a walk.
type Visitor interface {
	Session(s Stats, nextSeq int64)
	Entry(e entry.Entry)
	Usage(row entry.UsageRow)
	// Register gets the namespace as stored, known or not.
	Register(ns, key string, cell register.Cell)
	Damage(d Damage)
}

// Damage is a row that does not read back, or a fault of the backend.
type Damage struct {
	Finding
	Table Table      // where it belongs; "" for none
	ID    id.EntryID // of a damaged entry, when that much is known
	Seq   int64      // 0 when unknown
}

// Table is one of the stores of a session.
type Table string

// The tables a damaged row may belong to.
const (
	SessionTable  Table = "session"
	EntryTable    Table = "entry"
	UsageTable    Table = "usage"
	RegisterTable Table = "register"
)

// CellCheck judges the payload of a register of a known namespace.
type CellCheck func(a register.Address, c register.Cell) error

// Check walks a whole store and returns every broken invariant in the order in
// which it was found; nothing for a sound store. It only reads. Counters are not
// compared with rows of which some are damaged: that finding would repeat the
// first.
func Check(w Walker, cells ...CellCheck) []Finding {
	c := &checker{entries: map[id.EntryID]int64{}, damaged: map[Table]bool{}, cells: cells}
	if err := w.Walk(c); err != nil {
		c.find(BackendSound, "walk", "the walk over all rows ended early: %v", err)
		return c.findings
	}
	c.finish()
	return c.findings
}

type checker struct {
	cells    []CellCheck
	findings []Finding

	session  bool
	stats    Stats
	nextSeq  int64
	messages int64
	spent    usage.Usage
	entries  map[id.EntryID]int64 // seq; of ledger rows too, since ids are one namespace, as 0
	seqs     []int64
	damaged  map[Table]bool
}

var _ Visitor = (*checker)(nil)

func (c *checker) find(i Invariant, subject, format string, args ...any) {
	c.findings = append(c.findings, Finding{i, subject, fmt.Sprintf(format, args...)})
}

func (c *checker) Damage(d Damage) {
	c.findings = append(c.findings, d.Finding)
	if d.Table != "" {
		c.damaged[d.Table] = true
	}
	if !d.ID.IsZero() {
		c.entries[d.ID] = d.Seq
	}
	if d.Seq != 0 {
		c.seqs = append(c.seqs, d.Seq)
	}
}

func (c *checker) Session(s Stats, nextSeq int64) {
	c.session, c.stats, c.nextSeq = true, s, nextSeq
}

func (c *checker) seq(subject string, seq int64) {
	c.seqs = append(c.seqs, seq)
	switch {
	case seq < 1:
		c.find(SeqUnique, subject, "seqs start at 1, this is %d", seq)
	case c.session && seq >= c.nextSeq:
		c.find(SeqBelowNext, subject, "seq %d, but the next one to be given is %d", seq, c.nextSeq)
	}
}

// claim enters an id into the namespace shared by entries and ledger rows.
func (c *checker) claim(subject string, i id.EntryID, seq int64) {
	if _, taken := c.entries[i]; taken {
		c.find(IDUnique, subject, "another row has the same id")
		return
	}
	c.entries[i] = seq
}

func (c *checker) Entry(e entry.Entry) {
	subject := "entry " + e.ID.String()
	c.seq(subject, e.Seq)
	if !e.Parent.IsZero() && c.entries[e.Parent] == 0 { // later ones were not shown yet
		c.find(ParentEarlier, subject, "its parent %s is not an earlier entry", e.Parent)
	}
	c.claim(subject, e.ID, e.Seq)
	if e.Body.Kind() == entry.KindMessage {
		c.messages++
	}
}

func (c *checker) Usage(row entry.UsageRow) {
	subject := "usage " + row.ID.String()
	c.seq(subject, row.Seq)
	if same, err := id.ParseEntryID(row.ID.String()); err == nil {
		c.claim(subject, same, 0)
	}
	c.spent = c.spent.Add(row.Usage)
}

func (c *checker) Register(ns, key string, cell register.Cell) {
	known, err := register.Parse(ns)
	a := register.Address{NS: known, Key: key}
	if err != nil {
		a.NS = register.Namespace(ns)
		c.find(NamespaceKnown, a.String(), "there is no namespace %q", ns)
	}
	subject := a.String()
	c.seq(subject, cell.Seq)
	if err != nil {
		return
	}
	c.refers(a, cell)
	for _, check := range c.cells {
		if err := check(a, cell); err != nil {
			c.find(CellValid, subject, "%v", err)
		}
	}
}

// refers checks the two namespaces that speak of entries.
func (c *checker) refers(a register.Address, cell register.Cell) {
	if a.NS == register.StrandLeaf {
		leaf, err := register.DecodeLeaf(cell.Value)
		if err != nil {
			c.find(LeafExists, a.String(), "%v", err)
		} else if !leaf.IsZero() && c.entries[leaf] == 0 {
			c.find(LeafExists, a.String(), "it points at %s, which is not an entry", leaf)
		}
	}
	if a.NS == register.PendingEntry {
		if reserved, err := id.ParseEntryID(a.Key); err != nil {
			c.find(PendingNotPlaced, a.String(), "its key is not an entry id")
		} else if _, placed := c.entries[reserved]; placed {
			c.find(PendingNotPlaced, a.String(), "the id is also stored as a row")
		}
	}
}

func (c *checker) finish() {
	slices.Sort(c.seqs)
	for i := 1; i < len(c.seqs); i++ {
		if c.seqs[i] == c.seqs[i-1] && (i < 2 || c.seqs[i] != c.seqs[i-2]) {
			c.find(SeqUnique, fmt.Sprintf("seq %d", c.seqs[i]), "more than one row has it")
		}
	}
	if !c.session {
		return // said by whoever could not show it
	}
	if !c.damaged[EntryTable] && c.messages != c.stats.Messages {
		c.find(MessageCount, "session", "it says %d, there are %d message entries", c.stats.Messages, c.messages)
	}
	if !c.damaged[UsageTable] {
		if says, is := usageText(c.stats.Usage), usageText(c.spent); says != is {
			c.find(UsageSum, "session", "it says %s, the ledger adds up to %s", says, is)
		}
	}
}

// usageText is the stored shape, in which equal sums are equal texts.
func usageText(u usage.Usage) string {
	var w jsonv.Writer
	usage.Append(&w, u)
	return string(w.Bytes())
}
