package memory

import (
	"cmp"
	"maps"
	"slices"

	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/storage"
)

var _ storage.Walker = (*Store)(nil)

// Walk implements storage.Walker: one committed state, shown without holding it up.
func (s *Store) Walk(v storage.Visitor) error {
	unlock, err := s.reading()
	if err != nil {
		return err
	}
	entries, ledger := s.entries, s.ledger // only ever appended to
	cells, stats, nextSeq := maps.Clone(s.cells), s.stats, s.nextSeq
	unlock()

	v.Session(stats, nextSeq)
	for _, e := range entries {
		v.Entry(e)
	}
	for _, row := range ledger {
		v.Usage(row)
	}
	addresses := slices.SortedFunc(maps.Keys(cells), func(a, b register.Address) int {
		return cmp.Or(cmp.Compare(a.NS, b.NS), cmp.Compare(a.Key, b.Key))
	})
	for _, a := range addresses {
		v.Register(string(a.NS), a.Key, cells[a])
	}
	return nil
}
