package policy

import (
	"fmt"
	"slices"
)

// Needs are what a call asks of the bounds that it runs in. What is nil or zero is asked
// for as the bounds have it, which nothing narrows.
type Needs struct {
	Readable, Writable []string // nil: whatever there is
	Protected          []string // to be protected beside what is
	Network            Network
	Env                []string
	Limits             Limits // 0: what there is
	Scratch            string // "": a place of its own where there is no other
}

// Grant widens bounds in one respect, and no further: ReadableRoot, WritableRoot,
// Reaching, Variable, UpTo or ScratchAt. None lifts a protection.
type Grant interface {
	grant()
	// check refuses what bounds would not take.
	check() error
}

type (
	// ReadableRoot lets a path, and what is below it, be read.
	ReadableRoot struct{ Path string }
	// WritableRoot lets it be changed, too.
	WritableRoot struct{ Path string }
	// Reaching lets the network be reached so far.
	Reaching struct{ Network Network }
	// Variable lets commands see a variable.
	Variable struct{ Name string }
	// UpTo raises a limit to N; 0 lifts it.
	UpTo struct {
		Limit Limit
		N     int64
	}
	// ScratchAt has temporary files lie there.
	ScratchAt struct{ Path string }
)

func (ReadableRoot) grant() {}
func (WritableRoot) grant() {}
func (Reaching) grant()     {}
func (Variable) grant()     {}
func (UpTo) grant()         {}
func (ScratchAt) grant()    {}

func (g ReadableRoot) check() error { return checkPath(g.Path) }
func (g WritableRoot) check() error { return checkPath(g.Path) }
func (g Variable) check() error     { return checkName(g.Name) }
func (g ScratchAt) check() error {
	if g.Path == "" {
		return fmt.Errorf("policy: the grant of a place for temporary files names none")
	}
	return checkScratch(g.Path)
}

func (g Reaching) check() error {
	if g.Network == nil {
		return fmt.Errorf("policy: the grant of a network names none")
	}
	return checkNetwork(g.Network)
}

func (g UpTo) check() error {
	if g.Limit >= limits || g.N < 0 {
		return fmt.Errorf("policy: %s cannot be raised to %d", g.Limit, g.N)
	}
	return nil
}

// Widen applies grants to bounds.
func (b Bounds) Widen(grants ...Grant) (Bounds, error) {
	t := b.Terms()
	for _, g := range grants {
		if err := g.check(); err != nil {
			return Bounds{}, err
		}
		switch g := g.(type) {
		case ReadableRoot:
			t.Readable = append(t.Readable, g.Path)
		case WritableRoot:
			t.Writable = append(t.Writable, g.Path)
		case Reaching:
			t.Network = wider(t.Network, g.Network)
		case Variable:
			t.Env = append(t.Env, g.Name)
		case UpTo:
			if now := t.Limits[g.Limit]; now > 0 && (g.N == 0 || g.N > now) {
				t.Limits[g.Limit] = g.N
			}
		case ScratchAt:
			t.Scratch = g.Path
		}
	}
	return NewBounds(t)
}

// Narrowing is one thing that was asked for and is not given.
type Narrowing struct {
	What string // for a sentence: "writing /etc"
	// Wanted is the grant that would give it, and nothing beyond it; nil when none
	// would, as for what is protected.
	Wanted Grant
}

// Wanted are the grants that would undo narrowings, as far as grants can.
func Wanted(narrowings []Narrowing) (grants []Grant) {
	for _, n := range narrowings {
		if n.Wanted != nil {
			grants = append(grants, n.Wanted)
		}
	}
	return grants
}

// Compose is what a call is given of bounds that were widened by grants: at most what
// these allow, at most what it asks for, with all that either protects. What it asked for
// and is not given are the narrowings, in the order of the parts of [Needs].
func (b Bounds) Compose(n Needs, grants ...Grant) (Bounds, []Narrowing, error) {
	wide, err := b.Widen(grants...)
	if err != nil {
		return Bounds{}, nil, err
	}
	asked, err := NewBounds(Terms(n))
	if err != nil {
		return Bounds{}, nil, err
	}
	c := composer{wide: wide, out: wide.Terms()}
	c.out.Protected = append(c.out.Protected, asked.t.Protected...)
	c.paths(n, asked.t)
	c.network(n, asked.t)
	c.env(n, asked.t)
	c.limits(asked.t)
	c.scratch(asked.t)
	out, err := NewBounds(c.out)
	return out, c.narrowings, err
}

type composer struct {
	wide       Bounds
	out        Terms
	narrowings []Narrowing
}

func (c *composer) narrow(wanted Grant, format string, args ...any) {
	c.narrowings = append(c.narrowings, Narrowing{fmt.Sprintf(format, args...), wanted})
}

func (c *composer) paths(n Needs, asked Terms) {
	have := c.wide.t
	if n.Readable != nil {
		c.out.Readable = c.kept(asked.Readable, append(slices.Clone(have.Readable), have.Writable...), "reading", func(p string) Grant { return ReadableRoot{p} })
		if n.Writable == nil { // whatever may be written, of what is to be read at all
			c.out.Writable = meet(have.Writable, asked.Readable)
		}
	}
	if n.Writable != nil {
		c.out.Writable = c.kept(asked.Writable, have.Writable, "writing", func(p string) Grant { return WritableRoot{p} })
	}
	if n.Writable != nil && n.Readable == nil {
		// What may be read stays as it is, also where nothing is to be written.
		c.out.Readable = append(c.out.Readable, have.Writable...)
	}
}

// kept are the roots that the bounds cover and that are not protected.
func (c *composer) kept(asked, have []string, doing string, grant func(string) Grant) (roots []string) {
	roots = []string{}
	for _, p := range asked {
		switch {
		case covered(c.out.Protected, p):
			c.narrow(nil, "%s %s, which is protected", doing, p)
		case covered(have, p):
			roots = append(roots, p)
		default:
			c.narrow(grant(p), "%s %s", doing, p)
			// What the bounds have below it stays: it was asked for as a part.
			roots = append(roots, meet(have, []string{p})...)
		}
	}
	return roots
}

// meet is what two lists of roots have in common.
func meet(a, b []string) (both []string) {
	both = []string{}
	for _, p := range a {
		if covered(b, p) {
			both = append(both, p)
		}
	}
	for _, p := range b {
		if covered(a, p) {
			both = append(both, p)
		}
	}
	return both
}

func (c *composer) network(n Needs, asked Terms) {
	if n.Network == nil {
		return
	}
	c.out.Network = narrower(c.wide.t.Network, asked.Network)
	if !reaches(c.out.Network, asked.Network) {
		c.narrow(Reaching{asked.Network}, "reaching the network")
	}
}

func (c *composer) env(n Needs, asked Terms) {
	if n.Env == nil {
		return
	}
	c.out.Env = nil
	for _, name := range asked.Env {
		if c.wide.Sees(name) {
			c.out.Env = append(c.out.Env, name)
		} else {
			c.narrow(Variable{name}, "the variable %s", name)
		}
	}
}

func (c *composer) limits(asked Terms) {
	for _, l := range AllLimits() {
		want, have := asked.Limits[l], c.wide.Limit(l)
		switch {
		case want == 0:
		case have > 0 && want > have:
			c.narrow(UpTo{l, want}, "a %s limit of %d", l, want)
		default:
			c.out.Limits[l] = want
		}
	}
}

func (c *composer) scratch(asked Terms) {
	switch {
	case asked.Scratch == "" || asked.Scratch == c.wide.t.Scratch:
	default:
		c.out.Scratch = "" // a place of its own is less than either
		c.narrow(ScratchAt{asked.Scratch}, "temporary files in %s", asked.Scratch)
	}
}

// reaches reports whether a reaches all that b does.
func reaches(a, b Network) bool {
	switch b := b.(type) {
	case Offline:
		return true
	case Proxied:
		switch a := a.(type) {
		case Online:
			return true
		case Proxied:
			return !slices.ContainsFunc(b.Hosts, func(h string) bool { return !slices.Contains(a.Hosts, h) })
		case Offline:
		}
		return false
	case Online:
		_, ok := a.(Online)
		return ok
	}
	return false
}

// narrower is what both reach. Of two proxies it is that of the first.
func narrower(a, b Network) Network {
	switch a := a.(type) {
	case Online:
		return b.clean()
	case Proxied:
		switch b := b.(type) {
		case Online:
			return a.clean()
		case Proxied:
			return Proxied{a.Proxy, slices.DeleteFunc(slices.Clone(a.Hosts), func(h string) bool { return !slices.Contains(b.Hosts, h) })}.clean()
		case Offline:
		}
	case Offline:
	}
	return Offline{}
}

// wider is what one of them reaches. Of two proxies it is that of the first.
func wider(a, b Network) Network {
	switch a := a.(type) {
	case Online:
		return a
	case Proxied:
		switch b := b.(type) {
		case Online:
			return b
		case Proxied:
			return Proxied{a.Proxy, append(slices.Clone(a.Hosts), b.Hosts...)}.clean()
		case Offline:
		}
		return a
	case Offline:
	}
	return b.clean()
}
