package storagetest

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/storage"
)

// oneState reads within while commits go on. Each commit moves a leaf to a new
// entry and says its number in two cells, so reads of two states do not fit.
func oneState(b *bench) {
	var leaf id.EntryID
	commit := func(n int64) {
		e := b.said(leaf, fmt.Sprint("entry ", n))
		leaf = e.ID
		b.must(insert(e), tx.Set(register.StrandLeaf, "main", register.Leaf(leaf)),
			tx.Set(register.FactName, "a", jsonv.Num(n)), tx.Set(register.FactName, "b", jsonv.Num(n)))
	}
	commit(1)
	var wg sync.WaitGroup
	failures := make(chan error, 4)
	for range cap(failures) {
		wg.Go(func() {
			for range 50 {
				if err := b.store.Within(fits); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	for n := range int64(50) {
		commit(n + 2)
	}
	wg.Wait()
	close(failures)
	for err := range failures {
		b.Fatalf("%v", err)
	}
	own := errors.New("of the reader's own")
	if err := b.store.Within(func(r storage.Reader) error { return errors.Join(r.Close(), own) }); !errors.Is(err, own) {
		b.Fatalf("its own error became %v", err)
	}
	var unknown *storage.UnknownEntry
	err := b.store.Within(func(r storage.Reader) error {
		_, err := r.ScanBranch(storage.BranchQuery{Start: b.said(leaf, "nowhere").ID})
		return err
	})
	if !errors.As(err, &unknown) {
		b.Fatalf("an unknown entry became %v", err)
	}
	b.same() // the handle is open, and as it was
}

// fits reads each kind of row and compares the state it speaks of.
func fits(r storage.Reader) error {
	first, _, err := r.Register(register.FactName, "a")
	if err != nil {
		return err
	}
	runtime.Gosched() // commits go on here
	second, _, err := r.Register(register.FactName, "b")
	if err != nil {
		return err
	}
	cell, _, err := r.Register(register.StrandLeaf, "main")
	if err != nil {
		return err
	}
	leaf, err := register.DecodeLeaf(cell.Value)
	if err != nil {
		return err
	}
	path, err := r.ScanBranch(storage.BranchQuery{Start: leaf})
	if err != nil {
		return err
	}
	all, err := r.ScanEntries(storage.EntryQuery{})
	if err != nil {
		return err
	}
	heads, err := r.ScanEntryHeads(storage.EntryQuery{})
	if err != nil {
		return err
	}
	stats, err := r.Stats()
	if err != nil {
		return err
	}
	listed, err := r.Registers(register.FactName, "")
	if err != nil {
		return err
	}
	var snap storage.Snapshot
	if err := r.Within(func(again storage.Reader) (err error) { snap, err = again.Snapshot(); return err }); err != nil {
		return err
	}
	want := first.Value.String()
	for what, got := range map[string]string{
		"the second cell":  second.Value.String(),
		"the listed cell":  listed[0].Value.String(),
		"the branch":       fmt.Sprint(len(path)),
		"the entries":      fmt.Sprint(len(all)),
		"the heads":        fmt.Sprint(len(heads)),
		"the count":        fmt.Sprint(stats.Messages),
		"the commits made": fmt.Sprint((snap.Next - 1) / 4),
	} {
		if got != want {
			return fmt.Errorf("%s is %s where the first cell is %s", what, got, want)
		}
	}
	return nil
}
