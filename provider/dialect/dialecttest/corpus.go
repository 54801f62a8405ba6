package dialecttest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/remote"
)

// Corpus has one stream for each thing that a dialect can say, by a name for it.
type Corpus map[string]struct {
	Body []byte
	Want string             // the sketch of the content; for a failure of what was kept
	Stop message.StopReason // of a stream that settles
	Fail provider.Class     // empty for a stream that settles
}

// Test folds each stream and compares.
func (all Corpus) Test(t *testing.T, d remote.Dialect) {
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			a := Fold(d, provider.Request{}, c.Body)
			Check(t.Errorf, a)
			if c.Fail == "" && a.Failure != nil {
				t.Fatal(a.Failure)
			}
			if c.Fail != "" && (a.Failure == nil || a.Failure.Class != c.Fail) {
				t.Fatalf("got %v, want the class %s", a.Failure, c.Fail)
			}
			got := ""
			if m := a.Kept(); m != nil {
				got = Sketch(m.Content)
			}
			if diff := cmp.Diff(c.Want, got); diff != "" {
				t.Errorf("content (-want +got):\n%s", diff)
			}
			if a.Settled != nil && a.Settled.StopReason != c.Stop {
				t.Errorf("stop reason %s, want %s", a.Settled.StopReason, c.Stop)
			}
		})
	}
}

// Streams are the bodies alone.
func (all Corpus) Streams() (list [][]byte) {
	for _, c := range all {
		list = append(list, c.Body)
	}
	return list
}
