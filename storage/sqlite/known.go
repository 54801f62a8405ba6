package sqlite

import (
	"fmt"
	"maps"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/storage"
)

// knowledge is what the writer knows of the file from its own commits. It holds
// while SQLite's data version stays: that moves when anybody else commits.
type knowledge struct {
	valid   bool
	version int64
	session sessionRow
	lease   *leaseRow
	cells   map[register.Address]int64 // seq of a cell; 0 for one that is absent
}

// maxCells bounds what is remembered of cells.
const maxCells = 1024

// learn remembers the seqs of cells.
func (k *knowledge) learn(cells map[register.Address]int64) {
	if k.cells == nil || len(k.cells) > maxCells {
		k.cells = make(map[register.Address]int64)
	}
	maps.Copy(k.cells, cells)
}

// dataVersion changes when another connection has changed the file.
func (c *conn) dataVersion() (int64, error) {
	r, ok, err := c.One("PRAGMA data_version")
	if err != nil || !ok {
		return 0, err
	}
	cols := read(r, "data version")
	return cols.num(), cols.damaged()
}

// heads remembers the heads of entries, which never change: those that new entries
// are linked to are nearly always among the last ones.
type heads struct {
	bySeq map[int64]*head
	byID  map[string]*head
}

// maxHeads bounds what is remembered.
const maxHeads = 512

func (k *heads) add(h *head) {
	if len(k.bySeq) >= maxHeads || k.bySeq == nil {
		k.bySeq, k.byID = make(map[int64]*head), make(map[string]*head)
	}
	k.bySeq[h.seq], k.byID[h.id] = h, h
}

// find returns the head of an id; nil when there is no such entry.
func (k *heads) find(c *conn, rowID []byte) (*head, error) {
	if h, ok := k.byID[string(rowID)]; ok {
		return h, nil
	}
	return k.read(c, startOf, rowID)
}

// at returns the head at a seq that a link leads to.
func (k *heads) at(c *conn, seq int64) (*head, error) {
	if h, ok := k.bySeq[seq]; ok {
		return h, nil
	}
	h, err := k.read(c, headAt, seq)
	if err == nil && h == nil {
		err = &storage.CorruptRow{Report: corrupt.New("sqlite.heads", "link", fmt.Sprintf("an entry at seq %d", seq), "none")}
	}
	return h, err
}

func (k *heads) read(c *conn, text string, arg any) (*head, error) {
	r, ok, err := c.One(text, arg)
	if err != nil || !ok {
		return nil, err
	}
	h, err := verifiedHead(r)
	if err == nil {
		k.add(h)
	}
	return h, err
}
