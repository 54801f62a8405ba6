package broker_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/loom-run/loom/broker"
	"github.com/loom-run/loom/broker/jail"
	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/policy"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) {
	jail.Enter()
	os.Exit(m.Run())
}

// ops are distinct operations.
func ops(n int) []id.OpID {
	gen := id.NewGenerator(clock.Fixed(1_700_000_000_000), 7)
	out := make([]id.OpID, n)
	for i := range out {
		out[i], gen = gen.Op()
	}
	return out
}

type fataler interface {
	Helper()
	Fatal(...any)
}

func newBroker(t fataler, mode policy.Mode) *broker.Broker {
	t.Helper()
	b, err := broker.New(broker.Config{Mode: mode, Workspace: os.TempDir(), Environ: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func call(op id.OpID, index int) broker.Call {
	return broker.Call{
		Coordinates: broker.Coordinates{Op: op, Strand: "main", Step: "step", SourceIndex: index, CallID: "call"},
		Tool:        "bash", Class: policy.Exec, Arguments: jsonv.Obj(jsonv.F("command", jsonv.Str("true"))),
	}
}

// everyUse calls all that takes a permit; each must say the same.
func everyUse(t *testing.T, b *broker.Broker, p *broker.Permit, c broker.Call, want error) {
	t.Helper()
	if err := b.Admit(p, c); !errors.Is(err, want) {
		t.Errorf("Admit: %v, want %v", err, want)
	}
	cmd := jail.Command{Path: "/bin/sh", Args: []string{"sh", "-c", "true"}}
	if _, err := b.Exec(t.Context(), p, cmd, nil); !errors.Is(err, want) {
		t.Errorf("Exec: %v, want %v", err, want)
	}
}

func TestOnlyAnOutstandingPermitOfThisBrokerIsOne(t *testing.T) {
	op := ops(1)[0]
	b, other := newBroker(t, policy.BypassPermissions), newBroker(t, policy.BypassPermissions)
	c := call(op, 0)
	foreign, err := other.Clear(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*broker.Permit{nil, {}, foreign} {
		everyUse(t, b, p, c, broker.ErrNoPermit)
		if err := b.Settle(p); !errors.Is(err, broker.ErrNoPermit) {
			t.Errorf("Settle: %v", err)
		}
	}
	p, err := b.Clear(c)
	if err != nil {
		t.Fatal(err)
	}
	copied := *p
	everyUse(t, b, &copied, c, broker.ErrSettled)
	if err := b.Settle(&copied); !errors.Is(err, broker.ErrSettled) {
		t.Errorf("settling a copy: %v", err)
	}
	everyUse(t, b, p, c, nil)
	if p.Coordinates() != c.Coordinates {
		t.Errorf("the permit is for %+v", p.Coordinates())
	}
	if err := b.Settle(p); err != nil {
		t.Fatal(err)
	}
	everyUse(t, b, p, c, broker.ErrSettled)
	if err := b.Settle(p); !errors.Is(err, broker.ErrSettled) {
		t.Errorf("settling twice: %v", err)
	}
}

func TestAPermitIsBoundToItsCall(t *testing.T) {
	two := ops(2)
	b := newBroker(t, policy.BypassPermissions)
	c := call(two[0], 1)
	p, err := b.Clear(c)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*broker.Call){
		"operation": func(c *broker.Call) { c.Op = two[1] },
		"strand":    func(c *broker.Call) { c.Strand = "other" },
		"step":      func(c *broker.Call) { c.Step = "other" },
		"index":     func(c *broker.Call) { c.SourceIndex++ },
		"call id":   func(c *broker.Call) { c.CallID = "other" },
		"tool":      func(c *broker.Call) { c.Tool = "read" },
		"class":     func(c *broker.Call) { c.Class = policy.Read },
		"arguments": func(c *broker.Call) { c.Arguments = c.Arguments.With("command", jsonv.Str("false")) },
		"one more":  func(c *broker.Call) { c.Arguments = c.Arguments.With("timeout_ms", jsonv.Num(1)) },
	} {
		changed := c
		change(&changed)
		if err := b.Admit(p, changed); !errors.Is(err, broker.ErrMismatch) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	if err := b.Admit(p, c); err != nil {
		t.Errorf("the call itself: %v", err)
	}
}

func TestARefusalIsTheSentenceOfPolicyAndMakesNoPermit(t *testing.T) {
	op := ops(1)[0]
	for _, mode := range append(policy.Modes(), 0) {
		for class := policy.Read; class <= policy.Exec; class++ {
			b := newBroker(t, mode)
			c := call(op, 0)
			c.Class = class
			p, err := b.Clear(c)
			d := policy.Decide(mode, class)
			if d.Allowed() {
				if err != nil || p == nil {
					t.Errorf("%s, %s: %v", mode, class, err)
				}
				continue
			}
			_, refused := errors.AsType[*broker.Refusal](err)
			_, asked := errors.AsType[*broker.Question](err)
			if p != nil || refused == asked || refused != (d.Behavior() == policy.Deny) || err.Error() != d.Sentence() {
				t.Errorf("%s, %s: permit %v, %v", mode, class, p, err)
			}
		}
	}
}

func TestACallWithoutCoordinatesIsNotJudged(t *testing.T) {
	b := newBroker(t, policy.BypassPermissions)
	good := call(ops(1)[0], 0)
	for name, change := range map[string]func(*broker.Call){
		"operation": func(c *broker.Call) { c.Op = id.OpID{} },
		"strand":    func(c *broker.Call) { c.Strand = "" },
		"step":      func(c *broker.Call) { c.Step = "" },
		"tool":      func(c *broker.Call) { c.Tool = "" },
		"index":     func(c *broker.Call) { c.SourceIndex = -1 },
	} {
		c := good
		change(&c)
		if _, err := b.Clear(c); !errors.Is(err, broker.ErrIncomplete) {
			t.Errorf("without %s: %v", name, err)
		}
	}
	if _, err := broker.New(broker.Config{Mode: policy.Default, Workspace: "relative"}); err == nil {
		t.Error("a relative workspace is accepted")
	}
}

// TestPermitsAreSettledExactlyOnce compares the broker with a model of it under
// random use.
func TestPermitsAreSettledExactlyOnce(t *testing.T) {
	all := ops(3)
	rapid.Check(t, func(t *rapid.T) {
		b := newBroker(t, policy.BypassPermissions)
		type held struct {
			permit                 *broker.Permit
			call                   broker.Call
			used, settled, revoked bool
		}
		var given []*held
		closed := false
		pick := func(t *rapid.T) *held {
			if len(given) == 0 {
				t.Skip("no permit yet")
			}
			return rapid.SampledFrom(given).Draw(t, "permit")
		}
		t.Repeat(map[string]func(*rapid.T){
			"clear": func(t *rapid.T) {
				c := call(rapid.SampledFrom(all).Draw(t, "op"), rapid.IntRange(0, 2).Draw(t, "index"))
				earlier := slices.IndexFunc(given, func(h *held) bool { return !h.settled && h.call.Coordinates == c.Coordinates })
				p, err := b.Clear(c)
				switch {
				case closed:
					if !errors.Is(err, broker.ErrAborted) {
						t.Fatalf("closed: %v", err)
					}
				case earlier >= 0 && given[earlier].used:
					if !errors.Is(err, broker.ErrOutstanding) {
						t.Fatalf("outstanding: %v", err)
					}
				case err != nil:
					t.Fatal(err)
				default:
					if earlier >= 0 {
						given[earlier].settled = true
					}
					given = append(given, &held{permit: p, call: c})
				}
			},
			"admit": func(t *rapid.T) {
				h := pick(t)
				var want error
				switch {
				case h.settled:
					want = broker.ErrSettled
				case h.revoked:
					want = broker.ErrAborted
				}
				if err := b.Admit(h.permit, h.call); !errors.Is(err, want) {
					t.Fatalf("%v, want %v", err, want)
				}
				h.used = h.used || want == nil
			},
			"settle": func(t *rapid.T) {
				h := pick(t)
				if err := b.Settle(h.permit); h.settled != errors.Is(err, broker.ErrSettled) || !h.settled && err != nil {
					t.Fatalf("settled %v: %v", h.settled, err)
				}
				h.settled = true
			},
			"abort": func(t *rapid.T) {
				op := rapid.SampledFrom(all).Draw(t, "op")
				if n := b.Abort(op); n != 0 {
					t.Fatalf("ended %d commands, none runs", n)
				}
				for _, h := range given {
					h.revoked = h.revoked || h.call.Op == op && !h.settled
				}
			},
			"close": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "really") > 0 {
					t.Skip("seldom")
				}
				b.Close()
				closed = true
				for _, h := range given {
					h.revoked = h.revoked || !h.settled
				}
			},
		})
	})
}

func TestTheDigestForgetsOnlyTheOrderOfFields(t *testing.T) {
	var value func(depth int) *rapid.Generator[jsonv.Value]
	value = func(depth int) *rapid.Generator[jsonv.Value] {
		return rapid.Custom(func(t *rapid.T) jsonv.Value {
			kinds := 6
			if depth == 0 {
				kinds = 4
			}
			switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
			case 0:
				return jsonv.Value{}
			case 1:
				return jsonv.Boolean(rapid.Bool().Draw(t, "bool"))
			case 2:
				return jsonv.Num(rapid.Int64Range(-3, 3).Draw(t, "num"))
			case 3:
				return jsonv.Str(rapid.StringN(0, 3, 9).Draw(t, "str"))
			case 4:
				return jsonv.Arr(rapid.SliceOfN(value(depth-1), 0, 3).Draw(t, "elems")...)
			default:
				var fields []jsonv.Member
				for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", ""}), 0, 3, rapid.ID).Draw(t, "names") {
					fields = append(fields, jsonv.F(name, value(depth-1).Draw(t, "field")))
				}
				return jsonv.Obj(fields...)
			}
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		v, w := value(3).Draw(t, "v"), value(3).Draw(t, "w")
		mixed := shuffled(v, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)))
		if broker.Digest(v) != broker.Digest(mixed) {
			t.Fatalf("%v and %v differ", v, mixed)
		}
		if same := broker.Digest(v) == broker.Digest(w); same != equal(v, w) {
			t.Fatalf("%v and %v: same digest %v", v, w, same)
		}
	})
}

func shuffled(v jsonv.Value, r *rand.Rand) jsonv.Value {
	switch v.Kind() {
	case jsonv.Array:
		var elems []jsonv.Value
		for _, e := range v.Elems() {
			elems = append(elems, shuffled(e, r))
		}
		return jsonv.Arr(elems...)
	case jsonv.Object:
		var fields []jsonv.Member
		for name, f := range v.Fields() {
			fields = append(fields, jsonv.F(name, shuffled(f, r)))
		}
		r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
		return jsonv.Obj(fields...)
	case jsonv.Null, jsonv.Bool, jsonv.Int, jsonv.Float, jsonv.String:
	}
	return v
}

// equal compares without regard to the order of fields.
func equal(v, w jsonv.Value) bool {
	if v.Kind() != w.Kind() || v.Len() != w.Len() {
		return false
	}
	switch v.Kind() {
	case jsonv.Array:
		for i := range v.Len() {
			if !equal(v.At(i), w.At(i)) {
				return false
			}
		}
		return true
	case jsonv.Object:
		for name, f := range v.Fields() {
			if g, ok := w.Get(name); !ok || !equal(f, g) {
				return false
			}
		}
		return true
	case jsonv.Null, jsonv.Bool, jsonv.Int, jsonv.Float, jsonv.String:
	}
	return v.Equal(w)
}
