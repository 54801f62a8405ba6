package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/loom-run/loom/broker"
	"github.com/loom-run/loom/config"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/policy"
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

// rules reads the rules of the person and of the workspace.
func (n *Node) rules(r ruler) (policy.Rules, error) {
	var list []policy.Rule
	take := func(path string, place words.RuleDestination, p config.Permissions) error {
		for _, kind := range []struct {
			behavior words.RuleBehavior
			texts    []string
		}{{words.RuleAllow, p.Allow}, {words.RuleAsk, p.Ask}, {words.RuleDeny, p.Deny}} {
			for _, text := range kind.texts {
				rule, issue := r.compile(text, kind.behavior, place)
				if issue != nil {
					return &ErrRules{path, fmt.Errorf("the rule %q cannot be taken (%s): %w", issue.Rule, issue.Code, issue)}
				}
				list = append(list, rule)
			}
		}
		return nil
	}
	if err := take(n.cfg.PermissionsFile, words.RuleForUser, n.cfg.Permissions); err != nil {
		return policy.Rules{}, err
	}
	path := filepath.Join(r.base.Workspace, config.ProjectFile)
	text, err := readBounded(path)
	if errors.Is(err, os.ErrNotExist) {
		return policy.RulesOf(list...), nil
	}
	if err != nil {
		return policy.Rules{}, &ErrRules{path, fmt.Errorf("the rules of the workspace cannot be read: %w", err)}
	}
	p, err := config.DecodeProject(text)
	if err != nil {
		return policy.Rules{}, &ErrRules{path, err}
	}
	if err := take(path, words.RuleForProject, p); err != nil {
		return policy.Rules{}, err
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
	b, err := broker.New(broker.Config{Mode: mode, Workspace: dir, Environ: n.cfg.Environ, Guarded: n.guarded(dir)})
	if err != nil {
		return Explanation{}, err
	}
	registry, err := tools.New(tools.Deps{
		Workspace: dir, Broker: b, Agency: func() tools.Agency { return nil }, Jobs: func() tools.Jobs { return nil },
	})
	if err != nil {
		return Explanation{}, err
	}
	defer func() { _ = registry.Close() }() // it was only looked at
	rules, err := n.rules(n.ruler(registry, dir))
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
