package plane_test

import (
	"regexp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/sdkmsg"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/wiretest"
)

// owned says in other words than the code what a frame has to say of its owner.
func owned(f wire.Frame) bool {
	ofTasks := []wire.Kind{wire.KindTaskStarted, wire.KindTaskProgress, wire.KindTaskNotification, wire.KindWorkflowProgress}
	ofSession := []wire.Kind{
		wire.KindBackground, wire.KindPending, wire.KindActivity, wire.KindPresence, wire.KindNotice, wire.KindHookNotice, wire.KindDiagnostics,
		wire.KindWorkspaceChanged, wire.KindApprovalRequest, wire.KindApprovalSettled, wire.KindQuestionRequest, wire.KindQuestionSettled,
		wire.KindPlanRequest, wire.KindPlanSettled, wire.KindRunStopped,
	}
	task, beside := slices.Contains(ofTasks, f.Kind()), slices.Contains(ofTasks, f.Kind()) || slices.Contains(ofSession, f.Kind())
	switch f.Lane {
	case wire.LaneMain, wire.LaneAgent:
		return f.Strand != "" || task && f.Task != ""
	case wire.LaneWorkflow, wire.LaneBackground:
		return f.Task != "" && beside
	case wire.LaneSession:
		return beside
	}
	return false
}

func TestOnlyTheWatchedLaneHasAProof(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := wiretest.Frame().Draw(t, "frame")
		w := plane.Watch{
			Session: wiretest.Session(rapid.Uint64Range(0, 3).Draw(t, "session")),
			Strand:  rapid.SampledFrom([]string{"", "main", f.Strand}).Draw(t, "strand"),
		}
		if rapid.Bool().Draw(t, "one run") {
			w.Operation = wiretest.Op(rapid.Uint64Range(0, 3).Draw(t, "operation"))
		}
		if rapid.Bool().Draw(t, "same session") {
			w.Session = f.Session
		}
		p, ok := w.Prove(f)
		mine := f.Session == w.Session && (f.Strand == "" || f.Strand == w.Strand) &&
			(w.Operation.IsZero() || f.Operation.IsZero() || f.Operation == w.Operation) && owned(f)
		if ok != mine || p.Valid() != mine {
			t.Fatalf("proof %v, mine %v", ok, mine)
		}
		if plane.Keep(p, f, 0, sdkmsg.User{}).Valid() != mine || plane.Show(p, plane.Waiting{}).Valid() != mine {
			t.Fatal("an output is valid without its proof, or not with it")
		}
	})
	var none plane.Watch
	if _, ok := none.Prove(wire.Frame{}); ok {
		t.Error("a watch of nothing proves something")
	}
	if _, ok := none.Self(); ok {
		t.Error("a watch of nothing proves itself")
	}
	for _, o := range []plane.Output{plane.Transcript{}, plane.Chrome{}} {
		if o.Valid() {
			t.Errorf("the zero %T is valid", o)
		}
	}
}

func TestMessageIDsFollowFromTheFrame(t *testing.T) {
	w := plane.Watch{Session: wiretest.Session(1), Strand: "main"}
	shape := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	type key struct {
		session id.SessionID
		frame   string
		n       int
	}
	seen := map[plane.MessageID]key{}
	rapid.Check(t, func(t *rapid.T) {
		w := w
		f := wiretest.Frame().Draw(t, "frame")
		w.Session = f.Session
		p, _ := w.Self()
		for n := range 3 {
			m := plane.Keep(p, f, n, sdkmsg.Assistant{})
			k := key{f.Session, f.ID, n}
			f.Delivery, f.Cursor = wire.Live, wire.Cursor{} // nothing but the key counts
			if again := plane.Keep(p, f, n, sdkmsg.User{}); again.ID() != m.ID() {
				t.Fatalf("%v has the ids %v and %v", k, m.ID(), again.ID())
			}
			if other, ok := seen[m.ID()]; ok && other != k {
				t.Fatalf("%v and %v share an id", k, other)
			}
			seen[m.ID()] = k
			if !shape.MatchString(m.ID().String()) {
				t.Fatalf("%s has not the shape of an id", m.ID())
			}
		}
	})
}

func TestCountsNeverClaimMoreThanIsKnown(t *testing.T) {
	count := rapid.Custom(func(t *rapid.T) plane.Count {
		n := rapid.Int64Range(0, 5).Draw(t, "n")
		return rapid.SampledFrom([]plane.Count{plane.Exactly(n), plane.AtLeast(n), {}}).Draw(t, "count")
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := count.Draw(t, "a"), count.Draw(t, "b"), count.Draw(t, "c")
		sum := a.Add(b)
		if sum.Exact != (a.Exact && b.Exact) {
			t.Fatalf("%v + %v = %v: exact", a, b, sum)
		}
		if sum.Known != (sum.Exact || sum.N > 0) {
			t.Fatalf("%v + %v = %v: known", a, b, sum)
		}
		if sum != b.Add(a) || a.Add(b).Add(c) != a.Add(b.Add(c)) || a.Add(plane.Exactly(0)) != a {
			t.Fatalf("sums of %v, %v, %v depend on their order", a, b, c)
		}
		if f := a.Floor(); f.Exact || f.N != a.N {
			t.Fatalf("the floor of %v is %v", a, f)
		}
	})
}
