package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Terms are the parts of [Bounds]. Paths are absolute, in the form of [path.Clean].
type Terms struct {
	Readable  []string // folders and files that may be read, with what is below them
	Writable  []string // that may be read and changed
	Protected []string // that may be neither, whatever else is said
	Network   Network  // nil is [Offline]
	Env       []string // names of variables that commands see
	Limits    Limits
	Scratch   string // where temporary files go; empty is a place of the command's own
}

// Bounds are what a command is confined to. The zero Bounds let nothing be read,
// written or reached. Their parts are sorted, and no path lies below another of its
// list.
type Bounds struct{ t Terms }

// NewBounds checks terms: paths are absolute and clean, limits not negative, a proxy
// leads somewhere, and scratch is not the root.
func NewBounds(t Terms) (Bounds, error) {
	for _, list := range [][]string{t.Readable, t.Writable, t.Protected} {
		for _, p := range list {
			if err := checkPath(p); err != nil {
				return Bounds{}, err
			}
		}
	}
	if err := checkScratch(t.Scratch); err != nil {
		return Bounds{}, err
	}
	for l, n := range t.Limits {
		if n < 0 {
			return Bounds{}, fmt.Errorf("policy: the limit of %s is %d; the least is 0, which is none", Limit(l), n)
		}
	}
	for _, name := range t.Env {
		if err := checkName(name); err != nil {
			return Bounds{}, err
		}
	}
	t.Readable, t.Writable, t.Protected = outermost(t.Readable), outermost(t.Writable), outermost(t.Protected)
	t.Env = sorted(t.Env)
	if t.Network == nil {
		t.Network = Offline{}
	}
	if err := checkNetwork(t.Network); err != nil {
		return Bounds{}, err
	}
	t.Network = t.Network.clean()
	return Bounds{t}, nil
}

func checkNetwork(n Network) error {
	if p, ok := n.(Proxied); ok && (p.Proxy == "" || len(p.Hosts) == 0) {
		return fmt.Errorf("policy: a proxy needs an address and hosts that it leads to")
	}
	return nil
}

func checkPath(p string) error {
	if !path.IsAbs(p) || path.Clean(p) != p || strings.ContainsRune(p, 0) {
		return fmt.Errorf("policy: %q is no clean absolute path", p)
	}
	return nil
}

func checkScratch(p string) error {
	if p == "" {
		return nil
	}
	if p == "/" {
		return fmt.Errorf("policy: %q is no place for temporary files", p)
	}
	return checkPath(p)
}

func checkName(name string) error {
	if name == "" || strings.ContainsAny(name, "=\x00") {
		return fmt.Errorf("policy: %q is no name of a variable", name)
	}
	return nil
}

// Unconfined are the bounds of what runs as the person: every path and the network, with
// these variables.
func Unconfined(env ...string) Bounds {
	return Bounds{Terms{Readable: []string{"/"}, Writable: []string{"/"}, Network: Online{}, Env: sorted(env)}}
}

// Terms are the parts, which the caller may change.
func (b Bounds) Terms() Terms {
	t := b.t
	t.Readable, t.Writable, t.Protected = slices.Clone(t.Readable), slices.Clone(t.Writable), slices.Clone(t.Protected)
	t.Env = slices.Clone(t.Env)
	if t.Network == nil {
		t.Network = Offline{}
	}
	t.Network = t.Network.clean()
	return t
}

// Reads reports whether a clean absolute path may be read.
func (b Bounds) Reads(p string) bool {
	return (covered(b.t.Readable, p) || covered(b.t.Writable, p)) && !covered(b.t.Protected, p)
}

// Writes reports whether a clean absolute path may be changed.
func (b Bounds) Writes(p string) bool { return covered(b.t.Writable, p) && !covered(b.t.Protected, p) }

// Sees reports whether commands see a variable.
func (b Bounds) Sees(name string) bool { return slices.Contains(b.t.Env, name) }

// Limit is a limit; 0 is none.
func (b Bounds) Limit(l Limit) int64 {
	if int(l) >= len(b.t.Limits) {
		return 0
	}
	return b.t.Limits[l]
}

// Aspect is what of a command some bound is about: [OfPaths], [OfNetwork], [OfScratch],
// or the name of a [Limit].
type Aspect string

// The aspects that are no limits.
const (
	OfPaths   Aspect = "paths"
	OfNetwork Aspect = "network"
	OfScratch Aspect = "scratch"
)

// Restricts names what these bounds keep from a command that the person could do, which
// somebody has to enforce.
func (b Bounds) Restricts() (what []Aspect) {
	if !slices.Equal(b.t.Writable, []string{"/"}) || len(b.t.Protected) > 0 {
		what = append(what, OfPaths)
	}
	if _, online := b.t.Network.(Online); !online {
		what = append(what, OfNetwork)
	}
	if b.t.Scratch != "" {
		what = append(what, OfScratch)
	}
	for _, l := range AllLimits() {
		if b.Limit(l) > 0 {
			what = append(what, Aspect(l.String()))
		}
	}
	return what
}

// Limit is one limit of a command.
type Limit uint8

// The limits.
const (
	CPU       Limit = iota // ms of processor time
	Wall                   // ms of time
	Memory                 // bytes
	Processes              // at once
	FileSize               // bytes of one file that is written
	Output                 // bytes that are kept of what it prints
	limits                 // how many there are
)

var limitNames = [limits]string{"cpu", "wall", "memory", "processes", "file_size", "output"}

// AllLimits are the limits.
func AllLimits() []Limit { return []Limit{CPU, Wall, Memory, Processes, FileSize, Output} }

func (l Limit) String() string {
	if l < limits {
		return limitNames[l]
	}
	return fmt.Sprintf("limit(%d)", uint8(l))
}

// Limits are all limits, each by its [Limit]; 0 is none.
type Limits [limits]int64

// Network is what a command may reach: Offline, Proxied or Online.
type Network interface {
	network()
	// clean is a copy in the form that bounds hold.
	clean() Network
}

type (
	// Offline is nothing.
	Offline struct{}
	// Proxied is these hosts, by way of a proxy.
	Proxied struct {
		Proxy string   // host:port
		Hosts []string // sorted
	}
	// Online is everything.
	Online struct{}
)

func (Offline) network() {}
func (Proxied) network() {}
func (Online) network()  {}

func (Offline) clean() Network { return Offline{} }
func (Online) clean() Network  { return Online{} }

// clean makes a proxy that reaches nobody what it is.
func (n Proxied) clean() Network {
	if len(n.Hosts) == 0 || n.Proxy == "" {
		return Offline{}
	}
	return Proxied{n.Proxy, sorted(n.Hosts)}
}

// covers reports whether p is root or lies below it.
func covers(root, p string) bool {
	return root == p || root == "/" || strings.HasPrefix(p, root) && p[len(root)] == '/'
}

func covered(roots []string, p string) bool {
	return slices.ContainsFunc(roots, func(root string) bool { return covers(root, p) })
}

// outermost sorts paths and leaves out those below others.
func outermost(paths []string) []string {
	var out []string
	for _, p := range sorted(paths) {
		if !covered(out, p) {
			out = append(out, p)
		}
	}
	return out
}

func sorted(list []string) []string {
	out := slices.Clone(list)
	slices.Sort(out)
	return slices.Compact(out)
}
