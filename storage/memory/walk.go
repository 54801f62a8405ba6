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
	var seen rows
	err := s.Within(func(storage.Reader) error {
		seen = rows{entries: s.entries, ledger: s.ledger, cells: maps.Clone(s.cells), stats: s.stats, nextSeq: s.nextSeq} // entries and ledger are only ever appended to
		return nil
	})
	if err != nil {
		return err
	}

	v.Session(seen.stats, seen.nextSeq)
	for _, e := range seen.entries {
		v.Entry(e)
	}
	for _, row := range seen.ledger {
		v.Usage(row)
	}
	addresses := slices.SortedFunc(maps.Keys(seen.cells), func(a, b register.Address) int {
		return cmp.Or(cmp.Compare(a.NS, b.NS), cmp.Compare(a.Key, b.Key))
	})
	for _, a := range addresses {
		v.Register(string(a.NS), a.Key, seen.cells[a])
	}
	return nil
}
