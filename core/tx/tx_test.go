package tx_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
)

func TestShorthandsSayWhatTheyMean(t *testing.T) {
	leaf := register.Address{NS: register.StrandLeaf, Key: "main"}
	got := tx.Tx{
		Writes:   []tx.Write{tx.Set(register.StrandLeaf, "main", jsonv.Num(1)), tx.Delete(register.StrandLeaf, "main")},
		Expected: []tx.Expectation{tx.Expect(register.StrandLeaf, "main", 7), tx.ExpectAbsent(register.StrandLeaf, "main")},
	}
	want := tx.Tx{
		Writes:   []tx.Write{tx.SetRegister{Address: leaf, Value: jsonv.Num(1)}, tx.DeleteRegister{Address: leaf}},
		Expected: []tx.Expectation{{Address: leaf, Seq: 7}, {Address: leaf, Seq: 0}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// A caller acts on the type of a refusal, behind any wrapping, and a person reads one sentence.
func TestEachRefusalIsItsOwnType(t *testing.T) {
	report := corrupt.New("storage.commit", "entry", "an id that is not used", "019b76da")
	refusals := map[string]struct {
		err   error
		says  []string
		isOne func(error) bool
	}{
		"stale": {&tx.StaleExpectation{Failed: tx.Expect(register.OpState, "k", 7)}, []string{"op.state/k", "changed since seq 7"}, is[*tx.StaleExpectation]},
		"stale, expected absent": {
			&tx.StaleExpectation{Failed: tx.ExpectAbsent(register.OpState, "k")}, []string{"op.state/k", "exists already"}, is[*tx.StaleExpectation],
		},
		"corruption":          {&tx.Corruption{Report: report}, []string{"refused", "an id that is not used"}, is[*tx.Corruption]},
		"fault":               {&tx.Faulted{Reason: "the disk is full", Err: fs.ErrInvalid}, []string{"the disk is full"}, is[*tx.Faulted]},
		"fault without cause": {&tx.Faulted{Reason: "the session is closed"}, []string{"the session is closed"}, is[*tx.Faulted]},
		"lease held":          {&tx.LeaseLost{HeldBy: new("pid 7 on host a")}, []string{"pid 7 on host a", "nothing more was written", "open the session again"}, is[*tx.LeaseLost]},
		"lease gone":          {&tx.LeaseLost{}, []string{"its lease is gone", "nothing more was written", "open the session again"}, is[*tx.LeaseLost]},
	}
	for name, c := range refusals {
		wrapped := fmt.Errorf("settle the call: %w", c.err)
		if !c.isOne(wrapped) {
			t.Errorf("%s is not found behind another error", name)
		}
		kinds := 0
		for _, isOne := range []func(error) bool{is[*tx.StaleExpectation], is[*tx.Corruption], is[*tx.Faulted], is[*tx.LeaseLost]} {
			if isOne(wrapped) {
				kinds++
			}
		}
		if kinds != 1 {
			t.Errorf("%s is %d of the four", name, kinds)
		}
		for _, s := range c.says {
			if !strings.Contains(c.err.Error(), s) {
				t.Errorf("%s says %q, without %q", name, c.err, s)
			}
		}
		if strings.ContainsAny(c.err.Error(), "\n\r") {
			t.Errorf("%s needs two lines: %q", name, c.err)
		}
	}
	if r, ok := corrupt.As(fmt.Errorf("x: %w", refusals["corruption"].err)); !ok || r != report {
		t.Error("the report of a corruption is not found")
	}
	if !errors.Is(refusals["fault"].err, fs.ErrInvalid) || errors.Unwrap(refusals["fault without cause"].err) != nil {
		t.Error("the cause of a fault is not kept as it is")
	}
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func TestALostLeaseHasOneWording(t *testing.T) {
	for _, held := range []*string{nil, new("pid 7 on host a")} {
		if got, want := (&tx.LeaseLost{HeldBy: held}).Error(), tx.DescribeLeaseLoss(held); got != want {
			t.Errorf("%q and %q", got, want)
		}
	}
}
