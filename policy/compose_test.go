package policy_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/policy"
)

var (
	somePaths = []string{"/", "/a", "/a/b", "/a/b/c", "/a/bc", "/d", "/d/e"}
	someNames = []string{"PATH", "HOME", "KEY"}
	someHosts = []string{"x.test", "y.test", "z.test"}
)

func genNetwork() *rapid.Generator[policy.Network] {
	return rapid.Custom(func(t *rapid.T) policy.Network {
		switch rapid.IntRange(0, 2).Draw(t, "network") {
		case 0:
			return policy.Offline{}
		case 1:
			return policy.Proxied{Proxy: rapid.SampledFrom([]string{"p:1", "q:2"}).Draw(t, "proxy"), Hosts: rapid.SliceOfN(rapid.SampledFrom(someHosts), 1, 3).Draw(t, "hosts")}
		}
		return policy.Online{}
	})
}

func genLimits(t *rapid.T) (l policy.Limits) {
	for i := range l {
		l[i] = rapid.SampledFrom([]int64{0, 0, 1, 5, 9}).Draw(t, "limit")
	}
	return l
}

func some(t *rapid.T, from []string, label string) []string {
	return rapid.SliceOfN(rapid.SampledFrom(from), 0, 3).Draw(t, label)
}

func genBounds() *rapid.Generator[policy.Bounds] {
	return rapid.Custom(func(t *rapid.T) policy.Bounds {
		b, err := policy.NewBounds(policy.Terms{
			Readable: some(t, somePaths, "readable"), Writable: some(t, somePaths, "writable"), Protected: some(t, somePaths[1:], "protected"),
			Network: genNetwork().Draw(t, "network"), Env: some(t, someNames, "env"), Limits: genLimits(t),
			Scratch: rapid.SampledFrom([]string{"", "/tmp", "/a/tmp"}).Draw(t, "scratch"),
		})
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
}

func genNeeds() *rapid.Generator[policy.Needs] {
	return rapid.Custom(func(t *rapid.T) policy.Needs {
		t2 := genBounds().Draw(t, "needs").Terms()
		n := policy.Needs(t2)
		if rapid.Bool().Draw(t, "any readable") {
			n.Readable = nil
		} else {
			n.Readable = append([]string{}, n.Readable...)
		}
		if rapid.Bool().Draw(t, "any writable") {
			n.Writable = nil
		} else {
			n.Writable = append([]string{}, n.Writable...)
		}
		if rapid.Bool().Draw(t, "any network") {
			n.Network = nil
		}
		if rapid.Bool().Draw(t, "any env") {
			n.Env = nil
		} else {
			n.Env = append([]string{}, n.Env...)
		}
		return n
	})
}

func genGrant() *rapid.Generator[policy.Grant] {
	return rapid.Custom(func(t *rapid.T) policy.Grant {
		p := rapid.SampledFrom(somePaths[1:]).Draw(t, "path")
		switch rapid.IntRange(0, 5).Draw(t, "grant") {
		case 0:
			return policy.ReadableRoot{Path: p}
		case 1:
			return policy.WritableRoot{Path: p}
		case 2:
			return policy.Reaching{Network: genNetwork().Draw(t, "network")}
		case 3:
			return policy.Variable{Name: rapid.SampledFrom(someNames).Draw(t, "name")}
		case 4:
			return policy.UpTo{Limit: rapid.SampledFrom(policy.AllLimits()).Draw(t, "limit"), N: rapid.SampledFrom([]int64{0, 3, 7}).Draw(t, "n")}
		}
		return policy.ScratchAt{Path: p}
	})
}

// probes are paths at, above, below and beside those of the generators.
func probes() (all []string) {
	for _, p := range somePaths {
		all = append(all, p)
		if p != "/" {
			all = append(all, p+"/below", p+"x")
		}
	}
	return append(all, "/below")
}

func within(roots []string, p string) bool {
	return slices.ContainsFunc(roots, func(r string) bool {
		return r == p || r == "/" || len(p) > len(r) && p[:len(r)+1] == r+"/"
	})
}

// hosts are those that a network reaches; everything is one more.
func hosts(n policy.Network) map[string]bool {
	out := map[string]bool{}
	switch n := n.(type) {
	case policy.Offline:
	case policy.Proxied:
		for _, h := range n.Hosts {
			out[h] = true
		}
	case policy.Online:
		for _, h := range append(someHosts, "everything") {
			out[h] = true
		}
	}
	return out
}

func subset(a, b map[string]bool) bool {
	for h := range a {
		if !b[h] {
			return false
		}
	}
	return true
}

// tighter reports whether a limit keeps at least as much as another.
func tighter(a, b int64) bool { return b == 0 || a != 0 && a <= b }

func TestACompositionAllowsNoMoreThanEachPart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, n := genBounds().Draw(t, "base"), genNeeds().Draw(t, "asked")
		grants := rapid.SliceOfN(genGrant(), 0, 3).Draw(t, "grants")
		wide, err := base.Widen(grants...)
		if err != nil {
			t.Fatal(err)
		}
		out, narrowings, err := base.Compose(n, grants...)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range probes() {
			if out.Reads(p) && !wide.Reads(p) || out.Writes(p) && !wide.Writes(p) {
				t.Fatalf("%s is let through that the bounds do not let through", p)
			}
			if out.Writes(p) && !out.Reads(p) {
				t.Fatalf("%s may be written and not read", p)
			}
			asked := n.Readable == nil || within(n.Readable, p) || within(n.Writable, p)
			if out.Reads(p) && !asked || out.Writes(p) && !(n.Writable == nil && asked || within(n.Writable, p)) {
				t.Fatalf("%s is let through that was not asked for", p)
			}
			if (out.Reads(p) || out.Writes(p)) && (within(base.Terms().Protected, p) || within(n.Protected, p)) {
				t.Fatalf("%s is protected", p)
			}
		}
		have, got := wide.Terms(), out.Terms()
		if !subset(hosts(got.Network), hosts(have.Network)) || n.Network != nil && !subset(hosts(got.Network), hosts(n.Network)) {
			t.Fatalf("%v of %v and %v", got.Network, have.Network, n.Network)
		}
		for _, name := range got.Env {
			if !wide.Sees(name) || n.Env != nil && !slices.Contains(n.Env, name) {
				t.Fatalf("the variable %s is seen", name)
			}
		}
		for _, l := range policy.AllLimits() {
			if !tighter(out.Limit(l), wide.Limit(l)) || !tighter(out.Limit(l), n.Limits[l]) {
				t.Fatalf("%s: %d of %d and %d", l, out.Limit(l), wide.Limit(l), n.Limits[l])
			}
		}
		if got.Scratch != "" && got.Scratch != have.Scratch {
			t.Fatalf("temporary files in %s", got.Scratch)
		}
		for _, g := range policy.Wanted(narrowings) {
			if !answers(n, g) {
				t.Fatalf("%#v was not asked for", g)
			}
		}
	})
}

// answers reports whether a grant is one of the things that were asked for.
func answers(n policy.Needs, g policy.Grant) bool {
	switch g := g.(type) {
	case policy.ReadableRoot:
		return slices.Contains(n.Readable, g.Path)
	case policy.WritableRoot:
		return slices.Contains(n.Writable, g.Path)
	case policy.Reaching:
		return reflect.DeepEqual(hosts(g.Network), hosts(n.Network))
	case policy.Variable:
		return slices.Contains(n.Env, g.Name)
	case policy.UpTo:
		return n.Limits[g.Limit] == g.N
	case policy.ScratchAt:
		return n.Scratch == g.Path
	}
	return false
}

// With the grants that its narrowings want a call has all it asked for, but what is
// protected; without a narrowing it has that already.
func TestNarrowingsAreExactlyWhatIsMissing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, n := genBounds().Draw(t, "base"), genNeeds().Draw(t, "asked")
		_, first, err := base.Compose(n)
		if err != nil {
			t.Fatal(err)
		}
		out, rest, err := base.Compose(n, policy.Wanted(first)...)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rest {
			if r.Wanted != nil {
				t.Fatalf("%s is missing although %#v was granted", r.What, r.Wanted)
			}
		}
		protected := out.Terms().Protected
		for _, p := range n.Readable {
			if !out.Reads(p) && !within(protected, p) {
				t.Fatalf("%s was asked for, granted and is not readable", p)
			}
		}
		for _, p := range n.Writable {
			if !out.Writes(p) && !within(protected, p) {
				t.Fatalf("%s was asked for, granted and is not writable", p)
			}
		}
		if n.Network != nil && !subset(hosts(n.Network), hosts(out.Terms().Network)) {
			t.Fatalf("%v was asked for, and is %v", n.Network, out.Terms().Network)
		}
		for _, l := range policy.AllLimits() {
			if n.Limits[l] > 0 && out.Limit(l) != n.Limits[l] {
				t.Fatalf("%s: %d was asked for, and is %d", l, n.Limits[l], out.Limit(l))
			}
		}
		if len(first) == 0 {
			again, _, err := base.Compose(n)
			if err != nil || fmt.Sprint(again) != fmt.Sprint(out) {
				t.Fatalf("nothing is missing, and %v became %v", again, out)
			}
		}
	})
}

func TestAGrantWidensInItsOwnRespectAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, g := genBounds().Draw(t, "base"), genGrant().Draw(t, "grant")
		out, err := base.Widen(g)
		if err != nil {
			t.Fatal(err)
		}
		was, is := base.Terms(), out.Terms()
		var reads, writes []string
		switch g := g.(type) {
		case policy.ReadableRoot:
			reads = []string{g.Path}
			was.Readable, is.Readable = nil, nil
		case policy.WritableRoot:
			reads, writes = []string{g.Path}, []string{g.Path}
			was.Writable, is.Writable = nil, nil
		case policy.Reaching:
			both := hosts(was.Network)
			for h := range hosts(g.Network) {
				both[h] = true
			}
			if !reflect.DeepEqual(both, hosts(is.Network)) {
				t.Fatalf("%v and %v became %v", was.Network, g.Network, is.Network)
			}
			was.Network, is.Network = nil, nil
		case policy.Variable:
			if !out.Sees(g.Name) {
				t.Fatal("it is not seen")
			}
			was.Env, is.Env = nil, nil
		case policy.UpTo:
			if want := was.Limits[g.Limit]; want != 0 && (g.N == 0 || g.N > want) && is.Limits[g.Limit] != g.N || tighter(is.Limits[g.Limit], want) && is.Limits[g.Limit] != want {
				t.Fatalf("%d became %d", want, is.Limits[g.Limit])
			}
			was.Limits[g.Limit], is.Limits[g.Limit] = 0, 0
		case policy.ScratchAt:
			was.Scratch, is.Scratch = "", ""
		}
		if !reflect.DeepEqual(was, is) {
			t.Fatalf("%#v changed %+v to %+v", g, was, is)
		}
		for _, p := range probes() {
			protected := within(base.Terms().Protected, p)
			if out.Reads(p) != (base.Reads(p) || within(reads, p) && !protected) || out.Writes(p) != (base.Writes(p) || within(writes, p) && !protected) {
				t.Fatalf("%#v and %s", g, p)
			}
		}
	})
}

func TestWhatIsNoBoundIsRefused(t *testing.T) {
	for name, bad := range map[string]policy.Terms{
		"a relative path":       {Readable: []string{"a"}},
		"an unclean path":       {Writable: []string{"/a/../b"}},
		"a NUL":                 {Protected: []string{"/a\x00"}},
		"a negative limit":      {Limits: policy.Limits{policy.Wall: -1}},
		"scratch at the root":   {Scratch: "/"},
		"a variable with value": {Env: []string{"A=1"}},
		"a proxy to nowhere":    {Network: policy.Proxied{Proxy: "p:1"}},
	} {
		if _, err := policy.NewBounds(bad); err == nil {
			t.Errorf("%s is taken", name)
		}
		if _, _, err := policy.Unconfined().Compose(policy.Needs(bad)); err == nil {
			t.Errorf("%s can be asked for", name)
		}
	}
	for _, g := range []policy.Grant{
		policy.ReadableRoot{Path: "a"}, policy.WritableRoot{}, policy.Reaching{}, policy.Reaching{Network: policy.Proxied{}}, policy.Variable{}, policy.UpTo{Limit: 99},
		policy.UpTo{N: -1}, policy.ScratchAt{}, policy.ScratchAt{Path: "/"},
	} {
		if _, err := policy.Unconfined().Widen(g); err == nil {
			t.Errorf("%#v is granted", g)
		}
	}
	var zero policy.Bounds
	if zero.Reads("/") || zero.Writes("/") || zero.Sees("PATH") || !slices.Contains(zero.Restricts(), policy.OfNetwork) {
		t.Error("the zero bounds let something through")
	}
	if got := policy.Unconfined("PATH"); !got.Writes("/etc/passwd") || len(got.Restricts()) > 0 {
		t.Errorf("%v restrict %v", got, got.Restricts())
	}
}
