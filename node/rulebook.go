package node

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/loom-run/loom/config"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/policy"
	"github.com/loom-run/loom/server"
	"github.com/loom-run/loom/session"
)

// RuleChange is a rule to be written or removed.
type RuleChange struct {
	Rule     string
	Behavior words.RuleBehavior
	Place    words.RuleDestination
	Remove   bool
}

// Ruled is what became of a change.
type Ruled struct {
	Row  RuleRow
	Live words.RuleLiveness // in the sessions that it concerns and that run
}

// RuleRow is one rule that there is.
type RuleRow struct {
	Rule     string
	Behavior words.RuleBehavior
	Place    words.RuleDestination
	InEffect *bool // nil: the session is not open here
}

// rulePlaces are where rules can be written, as far as this node goes.
func (n *Node) rulePlaces() []words.RuleDestination {
	if n.cfg.PermissionsFile == "" {
		return rulePlaces[1:]
	}
	return rulePlaces
}

var rulePlaces = []words.RuleDestination{words.RuleForUser, words.RuleForProject, words.RuleForLocal, words.RuleForSession}

// ChangeRule writes or removes a rule of a directory, for the person or the workspace.
// The error is a [*server.RuleRefused] when the rule is wrong, or its place.
func (n *Node) ChangeRule(dir string, c RuleChange) (Ruled, error) {
	dir, err := absolute(dir)
	if err != nil {
		return Ruled{}, n.home.refuse(err)
	}
	if c.Place == words.RuleForSession {
		return Ruled{}, refuseRule(c, words.RulePlaceMissing, "There is no session here that could keep it.")
	}
	done, err := n.changeRule(dir, nil, c)
	return done, n.home.refuse(err)
}

// ChangeRule writes or removes a rule that holds for the session: in one of the files
// that it reads, or until this process ends. Sessions that are open here and that it
// concerns have it at once; what was let run before stays so.
func (s *Slot) ChangeRule(c RuleChange) (Ruled, error) {
	dir, err := s.workspace()
	if err != nil {
		return Ruled{}, s.node.home.refuse(err)
	}
	done, err := s.node.changeRule(dir, s, c)
	return done, s.node.home.refuse(err)
}

// workspace is the directory that the session works in, whether it is open or not.
func (s *Slot) workspace() (dir string, err error) {
	if r := s.resident(); r != nil {
		return r.cwd, nil
	}
	err = s.Read(func(v *session.View) error {
		var ok bool
		if dir, ok, err = v.Workspace(); err == nil && !ok {
			err = server.Refuse(server.BadRequest, "the session does not say which directory it works in; nothing was changed")
		}
		return err
	})
	if err == nil {
		dir, err = absolute(dir)
	}
	return dir, err
}

// Rules lists the rules that hold for the session, strongest first.
func (s *Slot) Rules() ([]RuleRow, error) {
	dir, err := s.workspace()
	if err != nil {
		return nil, s.node.home.refuse(err)
	}
	s.node.ruling.RLock()
	defer s.node.ruling.RUnlock()
	_, registry, err := s.node.inert(dir, policy.Default)
	if err != nil {
		return nil, err
	}
	defer func() { _ = registry.Close() }() // it was only looked at
	kept, err := s.node.rules(s.node.ruler(registry, dir))
	if err != nil {
		return nil, s.node.home.refuse(err)
	}
	all := policy.RulesOf(append(kept.All(), s.own.All()...)...)
	var live *policy.Rules
	if r := s.resident(); r != nil {
		live = new(r.broker.Rules())
		for _, rule := range live.All() { // one that was taken out of its file by hand still holds
			if !all.Holds(rule) {
				all = all.With(rule)
			}
		}
	}
	rows := make([]RuleRow, 0, len(all.All()))
	for _, rule := range all.All() {
		row := RuleRow{Rule: rule.Text(), Behavior: rule.Behavior(), Place: rule.Place()}
		if live != nil {
			row.InEffect = new(live.Holds(rule))
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func refuseRule(c RuleChange, code words.RuleIssue, prose string) error {
	return &server.RuleRefused{Issues: []server.RuleProblem{{Code: code, Rule: c.Rule, Prose: prose}}}
}

// changeRule does it; s is nil where no session asks.
func (n *Node) changeRule(dir string, s *Slot, c RuleChange) (Ruled, error) {
	_, registry, err := n.inert(dir, policy.Default)
	if err != nil {
		return Ruled{}, err
	}
	defer func() { _ = registry.Close() }() // it was only looked at
	c.Rule = strings.TrimSpace(c.Rule)
	rule, issue := n.ruler(registry, dir).compile(c.Rule, c.Behavior, c.Place)
	// What is wrong may be taken out, where it is said out of which list.
	if issue != nil && !(c.Remove && words.RuleBehaviors.Has(c.Behavior) && words.RuleDestinations.Has(c.Place)) {
		return Ruled{}, refuseRule(c, issue.Code, issue.Sentence)
	}
	if err := n.writable(c); err != nil {
		return Ruled{}, err
	}
	open, holding, err := n.ruled(dir, s, c, rule)
	if err != nil {
		return Ruled{}, err
	}
	done := Ruled{RuleRow{Rule: c.Rule, Behavior: c.Behavior, Place: c.Place}, words.RuleNotLive}
	var r *resident
	if s != nil {
		r = s.resident()
	}
	if r != nil {
		done.Row.InEffect = new(holdsText(r.broker.Rules(), c))
	}
	switch {
	case s != nil && r == nil && s.Summary().Status == Held:
		done.Live = words.RuleLivenessOpen // another process runs it, and read the files when it opened it
	case c.Remove && holding > 0, !c.Remove && open > 0 && holding == open:
		done.Live = words.RuleLive
	}
	return done, nil
}

// ruled makes the change where it is kept, and then in the sessions that are open here and
// that it concerns. It counts these, and those in which the rule holds.
func (n *Node) ruled(dir string, s *Slot, c RuleChange, rule policy.Rule) (open, holding int, err error) {
	n.ruling.Lock()
	defer n.ruling.Unlock()
	if c.Place == words.RuleForSession {
		err = s.keepRule(c, rule)
	} else {
		err = n.fileRule(dir, c)
	}
	if err != nil {
		return 0, 0, err
	}
	for _, other := range n.all() {
		r := other.resident()
		switch {
		case r == nil,
			c.Place == words.RuleForSession && other != s,
			(c.Place == words.RuleForProject || c.Place == words.RuleForLocal) && r.cwd != dir:
			continue
		}
		r.rule(n, c)
		open++
		if holdsText(r.broker.Rules(), c) {
			holding++
		}
	}
	return open, holding, nil
}

// all are the places of the sessions that are known here.
func (n *Node) all() []*Slot {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Collect(maps.Values(n.slots))
}

// rule makes a change in an open session. A rule that its tools do not take, it does not
// have.
func (r *resident) rule(n *Node, c RuleChange) {
	rule, issue := n.ruler(r.tools, r.cwd).compile(c.Rule, c.Behavior, c.Place)
	if issue != nil {
		return
	}
	r.broker.Rule(func(rules policy.Rules) policy.Rules {
		if c.Remove {
			return rules.Without(rule)
		}
		return rules.With(rule)
	})
}

// writable refuses places that nothing is written to.
func (n *Node) writable(c RuleChange) error {
	switch {
	case !slices.Contains(rulePlaces, c.Place):
		return refuseRule(c, words.RulePlaceReadOnly, "It was given with the command, and lasts as long as that runs.")
	case c.Place == words.RuleForUser && n.cfg.PermissionsFile == "":
		return refuseRule(c, words.RulePlaceMissing, "There is no place for a loom.toml: neither LOOM_CONFIG, XDG_CONFIG_HOME nor HOME is set.")
	case c.Place == words.RuleForProject && c.Behavior == words.RuleAllow:
		return refuseRule(c, words.RuleNotBehavior, "A workspace allows nothing, since it comes from others as often as not; write the rule for yourself.")
	}
	return nil
}

var errNoRule = server.Refuse(server.BadRequest, "there is no such rule in that place; nothing was changed")

// keepRule changes the rules that end with the process.
func (s *Slot) keepRule(c RuleChange, rule policy.Rule) error {
	if !c.Remove {
		s.own = s.own.With(rule)
		return nil
	}
	if !s.own.Holds(rule) {
		return errNoRule
	}
	s.own = s.own.Without(rule)
	return nil
}

// fileRule changes the file of a place. One that cannot be read whole, as one with a key
// that is not known, is left as it is.
func (n *Node) fileRule(dir string, c RuleChange) error {
	files := n.ruleFiles(dir)
	f := files[slices.IndexFunc(files, func(f ruleFile) bool { return f.place == c.Place })]
	path, err := f.reach(dir)
	if err != nil {
		return refuseRule(c, words.RulePlaceReadOnly, err.Error())
	}
	var refused error
	permissions := n.cfg.Permissions
	err = rewriteFile(path, func(text []byte) ([]byte, error) {
		if c.Remove {
			was, err := f.decode(text)
			if err == nil && !slices.Contains(was.Of(config.RuleList(c.Behavior)), c.Rule) {
				refused = errNoRule
				return text, nil
			}
		}
		out, p, err := f.rewrite(text, config.RuleChange{List: config.RuleList(c.Behavior), Rule: c.Rule, Remove: c.Remove})
		if c.Place == words.RuleForUser {
			permissions = p
		}
		return out, err
	})
	switch {
	case refused != nil:
		return refused
	case err == nil:
		n.cfg.Permissions = permissions
		return nil
	}
	if _, unread := errors.AsType[*config.Error](err); unread {
		return refuseRule(c, words.RulePlaceReadOnly, fmt.Sprintf("%v; the file %s was not changed.", err, path))
	}
	return refuseRule(c, words.RulePlaceReadOnly, fmt.Sprintf("The file %s cannot be written (%v); nothing was changed.", path, err))
}

// reach is the file itself. A link of the person's own leads there; one in a workspace
// could lead anywhere, and is refused.
func (f ruleFile) reach(dir string) (string, error) {
	if f.place == words.RuleForUser {
		if real, err := filepath.EvalSymlinks(f.path); err == nil {
			return real, nil
		}
		return f.path, nil
	}
	if f.place == words.RuleForProject {
		for _, p := range []string{filepath.Dir(f.path), f.path} {
			if st, err := os.Lstat(p); err == nil && st.Mode()&os.ModeSymlink != 0 {
				rel, _ := filepath.Rel(dir, p)
				return "", fmt.Errorf("%s is a link, which may lead anywhere; nothing was changed", rel)
			}
		}
	}
	return f.path, nil
}

// holdsText reports whether rules say what a change is about, from whatever place.
func holdsText(rules policy.Rules, c RuleChange) bool {
	return slices.ContainsFunc(rules.All(), func(r policy.Rule) bool { return r.Text() == c.Rule && r.Behavior() == c.Behavior })
}

// rewriteFile gives a file another text, whole or not at all. It keeps its mode. Who
// writes it through here waits for others who do; where anybody else wrote it meanwhile,
// nothing is changed.
func rewriteFile(path string, change func([]byte) ([]byte, error)) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	unlock, err := lockDir(dir)
	if err != nil {
		return err
	}
	defer unlock()
	was, mode, err := readWith(path)
	if err != nil {
		return err
	}
	text, err := change(was)
	if err != nil || bytes.Equal(text, was) {
		return err
	}
	// A killed process may have left it; nobody else is here.
	temp := filepath.Join(dir, "."+filepath.Base(path)+".new")
	if err := os.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp) // or the next change does
		}
	}()
	if err := writeNew(temp, text, mode); err != nil {
		return err
	}
	if now, _, err := readWith(path); err != nil || !bytes.Equal(now, was) {
		return errors.Join(errors.New("somebody else is writing it"), err)
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return syncDir(dir)
}

// writeNew makes a file that is not there, and flushes it.
func writeNew(path string, text []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
}

// readWith reads a file and its mode; one that is not there is empty.
func readWith(path string) ([]byte, os.FileMode, error) {
	text, err := readBounded(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0o600, nil
	}
	if err != nil {
		return nil, 0, err
	}
	st, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	return text, st.Mode().Perm(), nil
}
