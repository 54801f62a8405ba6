package node

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/loom-run/loom/broker"
	"github.com/loom-run/loom/config"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/machine/automation"
	"github.com/loom-run/loom/policy"
	"github.com/loom-run/loom/provider/catalogue"
	"github.com/loom-run/loom/tools"
)

// ErrRules is rules that cannot be taken. Nothing runs with a part of them: one that is
// misspelt may be the one that denies.
type ErrRules struct {
	Path string // the file
	Err  error
}

func (e *ErrRules) Error() string {
	return fmt.Sprintf("%v; nothing was started, the file is %s", e.Err, e.Path)
}
func (e *ErrRules) Unwrap() error { return e.Err }

// subjectOf is what rules about a tool speak of: that follows from its arguments.
func subjectOf(t tools.Tool) policy.Subject {
	properties, ok := t.Schema.Get("properties")
	if !ok {
		return policy.NoSubject
	}
	if _, ok := properties.Get(broker.CommandArgument); ok && t.Class == policy.Exec {
		return policy.Commands
	}
	if _, ok := properties.Get(broker.PathArgument); ok {
		return policy.Paths
	}
	return policy.NoSubject
}

// ruler compiles rules for the tools of a session.
type ruler struct {
	tools *tools.Registry
	base  policy.Base
}

func (r ruler) compile(text string, b words.RuleBehavior, place words.RuleDestination) (policy.Rule, *policy.Issue) {
	return policy.Compile(text, b, place, r.base, func(name string) (policy.Subject, bool) {
		t, ok := r.tools.Lookup(name)
		return subjectOf(t), ok
	})
}

// ruleFile is a file that keeps rules.
type ruleFile struct {
	place   words.RuleDestination
	path    string // empty: there is none
	decode  func([]byte) (config.Permissions, error)
	rewrite func([]byte, config.RuleChange) ([]byte, config.Permissions, error)
}

// ruleFiles are those of a workspace. The person's own rules for it are kept outside of
// it, since whoever made the workspace could have written them.
func (n *Node) ruleFiles(cwd string) []ruleFile {
	sum := sha256.Sum256([]byte(cwd))
	return []ruleFile{
		{words.RuleForUser, n.cfg.PermissionsFile, func(text []byte) (config.Permissions, error) {
			f, err := config.Decode(text, catalogue.Builtin)
			return f.Permissions, err
		}, func(text []byte, c config.RuleChange) ([]byte, config.Permissions, error) {
			return config.Rewrite(text, catalogue.Builtin, c)
		}},
		{words.RuleForProject, filepath.Join(cwd, config.ProjectFile), config.DecodeProject, config.RewriteProject},
		{words.RuleForLocal, filepath.Join(n.home.dir, "permissions", hex.EncodeToString(sum[:16])+".toml"), config.DecodeOwn, config.RewriteOwn},
	}
}

// rules reads the rules of the person, of the workspace, and of the person in it. Those
// of loom.toml are as this process knows them. The caller holds ruling.
func (n *Node) rules(r ruler) (policy.Rules, error) {
	var list []policy.Rule
	for _, f := range n.ruleFiles(r.base.Workspace) {
		p := n.cfg.Permissions
		if f.place != words.RuleForUser {
			text, err := readBounded(f.path)
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				return policy.Rules{}, &ErrRules{f.path, fmt.Errorf("the rules of the workspace cannot be read: %w", err)}
			}
			if p, err = f.decode(text); err != nil {
				return policy.Rules{}, &ErrRules{f.path, err}
			}
		}
		for _, kind := range ruleKinds {
			for _, text := range p.Of(config.RuleList(kind)) {
				rule, issue := r.compile(text, kind, f.place)
				if issue != nil {
					return policy.Rules{}, &ErrRules{f.path, fmt.Errorf("the rule %q cannot be taken (%s): %w", issue.Rule, issue.Code, issue)}
				}
				list = append(list, rule)
			}
		}
	}
	return policy.RulesOf(list...), nil
}

// guarded are the places that a call changes only when a person says so each time.
func (n *Node) guarded(cwd string) policy.Guarded {
	g := policy.Guarded{filepath.Join(cwd, filepath.Dir(config.ProjectFile))}
	if n.cfg.PermissionsFile != "" {
		g = append(g, n.cfg.PermissionsFile)
	}
	return g
}

func (n *Node) ruler(t *tools.Registry, cwd string) ruler {
	home := ""
	for _, e := range n.cfg.Environ {
		if v, ok := strings.CutPrefix(e, "HOME="); ok && filepath.IsAbs(v) {
			home = filepath.Clean(v)
		}
	}
	return ruler{t, policy.Base{Workspace: cwd, Home: home}}
}

// inert is the tools of a directory in which nothing runs.
func (n *Node) inert(dir string, mode policy.Mode) (*broker.Broker, *tools.Registry, error) {
	b, err := broker.New(broker.Config{Mode: mode, Workspace: dir, Environ: n.cfg.Environ, Guarded: n.guarded(dir)})
	if err != nil {
		return nil, nil, err
	}
	d := tools.Deps{Workspace: dir, Broker: b, Agency: func() tools.Agency { return nil }, Jobs: func() tools.Jobs { return nil }, Person: true}
	if n.cfg.Automation.Models != automation.Off {
		d.Schedules = func() tools.Schedules { return nil }
	}
	registry, err := tools.New(d)
	return b, registry, err
}

// Explanation is what becomes of a call, and why.
type Explanation struct {
	Decision policy.Decision
	Rules    []policy.Rule // in force, strongest first
}

// Explain says what would become of a call of a tool in a directory. argument is its
// command line or path. Nothing is opened, and nothing runs.
func (n *Node) Explain(dir string, mode policy.Mode, tool, argument string) (Explanation, error) {
	dir, err := absolute(dir)
	if err != nil {
		return Explanation{}, err
	}
	b, registry, err := n.inert(dir, mode)
	if err != nil {
		return Explanation{}, err
	}
	defer func() { _ = registry.Close() }() // it was only looked at
	n.ruling.RLock()
	rules, err := n.rules(n.ruler(registry, dir))
	n.ruling.RUnlock()
	if err != nil {
		return Explanation{}, err
	}
	b.Rule(func(policy.Rules) policy.Rules { return rules })
	e := Explanation{Rules: rules.All()}
	if tool == "" {
		return e, nil
	}
	t, ok := registry.Lookup(tool)
	if !ok {
		return Explanation{}, errors.New(registry.Unknown(tool))
	}
	name := broker.PathArgument
	if subjectOf(t) == policy.Commands {
		name = broker.CommandArgument
	}
	arguments := jsonv.Obj()
	if argument != "" {
		arguments = jsonv.Obj(jsonv.F(name, jsonv.Str(argument)))
	}
	e.Decision, _ = b.Judge(broker.Call{Tool: t.Name, Class: t.Class, Subject: subjectOf(t), Arguments: arguments})
	return e, nil
}

// ruleKinds are what rules do.
var ruleKinds = []words.RuleBehavior{words.RuleAllow, words.RuleAsk, words.RuleDeny}
