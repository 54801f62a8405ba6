package machine

import (
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
)

// SeedStrand plans the registers that a strand begins with: what it uses and where
// in the tree it stands, the root without a leaf. A strand of that name that is
// there already makes the plan stale.
func SeedStrand(name string, leaf id.EntryID, c Configuration) tx.Tx {
	return tx.Tx{
		Writes: []tx.Write{
			tx.Set(register.StrandConfig, name, c.Value()),
			tx.Set(register.StrandLeaf, name, register.Leaf(leaf)),
			tx.Set(register.StrandState, name, StrandState{}.Value()),
		},
		Expected: []tx.Expectation{
			tx.ExpectAbsent(register.StrandConfig, name),
			tx.ExpectAbsent(register.StrandLeaf, name),
			tx.ExpectAbsent(register.StrandState, name),
		},
	}
}
