package broker

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/loom-run/loom/policy"
)

// The arguments that rules speak of: every tool about commands or paths calls them so.
const (
	CommandArgument = "command"
	PathArgument    = "path"
)

// Judge says what becomes of a call as things are, and what of it rules speak of.
func (b *Broker) Judge(c Call) (policy.Decision, policy.Action) {
	a := b.action(c)
	return policy.Judge(b.Mode(), b.Rules(), b.guarded, a), a
}

// Retires reports whether a rule would let a call run about which a person is asked now.
func (b *Broker) Retires(r policy.Rule, c Call) bool {
	return policy.Judge(b.Mode(), b.Rules().With(r), b.guarded, b.action(c)).Allowed()
}

// Mode is the mode in force.
func (b *Broker) Mode() policy.Mode {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mode
}

// SetMode changes the mode; what was cleared before stays cleared.
func (b *Broker) SetMode(m policy.Mode) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mode = m
}

// LeavePlan goes from the mode plan to the mode default, since a plan was accepted. It
// returns the mode in force; left is false where it was another one before.
func (b *Broker) LeavePlan() (now policy.Mode, left bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mode == policy.Plan {
		b.mode, left = policy.Default, true
	}
	return b.mode, left
}

// Rules are the rules in force.
func (b *Broker) Rules() policy.Rules {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rules
}

// Rule changes the rules; what was cleared before stays cleared.
func (b *Broker) Rule(change func(policy.Rules) policy.Rules) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rules = change(b.rules)
}

// action is what rules see of a call. Arguments that are not what the tool takes are
// for the tool to refuse: rules see nothing, and cover nothing.
func (b *Broker) action(c Call) policy.Action {
	a := policy.Action{Tool: c.Tool, Class: c.Class, Subject: c.Subject, Asks: c.Asks}
	text := func(name, absent string) (string, bool) {
		v, ok := c.Arguments.Get(name)
		if !ok {
			return absent, absent != ""
		}
		return v.Text()
	}
	switch c.Subject {
	case policy.Commands:
		a.Command, _ = text(CommandArgument, "")
	case policy.Paths:
		if named, ok := text(PathArgument, "."); ok {
			a.Paths = b.paths(named)
			if c.Class == policy.Read {
				a.Beyond = b.beyond(a.Paths)
			}
		}
	case policy.NoSubject:
	}
	return a
}

// paths is a path as it was named, and where it leads if that is elsewhere.
func (b *Broker) paths(named string) []string {
	if !filepath.IsAbs(named) {
		named = filepath.Join(b.workspace, named)
	}
	named = filepath.Clean(named)
	leads := resolved(named)
	if rest, ok := strings.CutPrefix(leads+"/", strings.TrimSuffix(b.real, "/")+"/"); ok {
		leads = filepath.Join(b.workspace, rest)
	}
	if leads == named {
		return []string{named}
	}
	return []string{named, leads}
}

// beyond is the directory that would have to be granted for reading at paths; empty where
// they lie in the workspace.
func (b *Broker) beyond(paths []string) string {
	for _, p := range paths {
		if p == b.workspace || strings.HasPrefix(p, strings.TrimSuffix(b.workspace, "/")+"/") {
			continue
		}
		if st, err := os.Stat(p); err == nil && st.IsDir() {
			return p
		}
		return filepath.Dir(p)
	}
	return ""
}

// resolved follows the links of the part of a path that exists.
func resolved(path string) string {
	rest := ""
	for dir := path; ; {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if target, err := os.Readlink(dir); err == nil { // a link to what is not there yet
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(dir), target)
			}
			return filepath.Join(target, rest)
		}
		up := filepath.Dir(dir)
		if up == dir {
			return path
		}
		dir, rest = up, filepath.Join(filepath.Base(dir), rest)
	}
}
