package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/loom-run/loom/blob"
	"github.com/loom-run/loom/broker"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
)

// Deps is what the tools of a session stand on.
type Deps struct {
	Workspace string           // absolute; the folder that files are confined to
	Closed    []string         // absolute; folders in it that no tool opens, the state root for instance
	Broker    *broker.Broker   // admits calls and runs commands
	Blobs     *blob.Store      // keeps large outputs; nil: they are not kept, and the text says so
	Agency    func() Agency    // what agents do with each other; nil: there are no tools for it. It is asked when a tool runs
	Jobs      func() Jobs      // commands in the background; nil: there are no tools for it
	Schedules func() Schedules // what is told later; nil: there are no tools for it
	Peers     func() Peers     // what agents of other sessions are told; nil: there are no tools for it
	Person    bool             // somebody puts the questions of calls to a person; false: there are no tools that ask
	Archive   func() Archive   // finds what was said earlier; nil: there is no tool for it
	More      []Tool           // further tools
}

// Registry is the tools of a session. It does not change.
type Registry struct {
	tools  []Tool // sorted by name
	broker *broker.Broker
	room   *workspace
}

// New opens the workspace and collects the tools. Two tools of one name are an
// error, as is a tool that lacks a part.
func New(d Deps) (*Registry, error) {
	if d.Broker == nil {
		return nil, errors.New("tools: no broker is given, and nothing may run without one")
	}
	room, err := openWorkspace(d.Workspace, d.Closed)
	if err != nil {
		return nil, err
	}
	kit := toolkit{room: room, blobs: d.Blobs, broker: d.Broker, secrets: d.Broker.Secrets(), kept: &keeper{}}
	all := append([]Tool{kit.read(), kit.write(), kit.edit(), kit.bash(), kit.grep(), kit.ls()}, d.More...)
	if d.Person {
		all = append(all, askers()...)
	}
	if d.Agency != nil {
		all = append(all, agents{d.Agency}.all()...)
	}
	if d.Jobs != nil {
		all = append(all, background{kit, d.Jobs}.all()...)
	}
	if d.Schedules != nil {
		all = append(all, schedulers{d.Schedules}.all()...)
	}
	if d.Peers != nil {
		all = append(all, correspondence{d.Peers}.all()...)
	}
	if d.Archive != nil {
		all = append(all, archivist{d.Archive}.all()...)
	}
	slices.SortStableFunc(all, func(a, b Tool) int { return cmp.Compare(a.Name, b.Name) })
	for i, t := range all {
		err := whole(t)
		if i > 0 && all[i-1].Name == t.Name {
			err = errors.New("the name is taken")
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("tools: tool %q: %w", t.Name, err), room.close())
		}
	}
	return &Registry{tools: all, broker: d.Broker, room: room}, nil
}

func whole(t Tool) error {
	if t.Name == "" || t.Description == "" || t.Class == 0 || t.Run == nil || t.Schema.Kind() != jsonv.Object {
		return errors.New("it needs a name, a description, a schema, a class and a function")
	}
	return nil
}

// Close gives up the workspace. No call may run any more.
func (r *Registry) Close() error { return r.room.close() }

// Lookup finds a tool by its name.
func (r *Registry) Lookup(name string) (Tool, bool) {
	i, ok := slices.BinarySearchFunc(r.tools, name, func(t Tool, name string) int { return cmp.Compare(t.Name, name) })
	if !ok {
		return Tool{}, false
	}
	return r.tools[i], true
}

// Definitions describes all tools, sorted by name: the order is part of what
// providers cache.
func (r *Registry) Definitions() []Definition {
	out := make([]Definition, len(r.tools))
	for i, t := range r.tools {
		out[i] = Definition{Name: t.Name, Description: t.Description, Schema: t.Schema}
	}
	return out
}

// Call is one call to run.
type Call struct {
	Permit      *broker.Permit
	Coordinates broker.Coordinates
	Tool        string
	Arguments   jsonv.Value
	Observe     func(Progress) // nil: nobody watches
}

// Run runs a call and returns when nothing of it runs any more. Whatever goes
// wrong is an outcome. The permit is used, and not settled.
func (r *Registry) Run(ctx context.Context, c Call) (out Outcome) {
	defer func() {
		if p := recover(); p != nil {
			out = failed(fmt.Sprintf("the tool %s failed inside: %.200v. What it had done until then is not undone.", c.Tool, p))
		}
		out = presentable(redacted(out, r.broker.Secrets()))
	}()
	tool, ok := r.Lookup(c.Tool)
	if !ok {
		return failed(r.Unknown(c.Tool))
	}
	if raw, reason, bad := message.AsMalformed(c.Arguments); bad {
		return failed(fmt.Sprintf("invalid arguments: %s. The text was: %s", reason, raw))
	}
	asked := broker.Call{Coordinates: c.Coordinates, Tool: tool.Name, Class: tool.Class, Arguments: c.Arguments}
	if err := r.broker.Admit(c.Permit, asked); err != nil {
		return failed("the call was not run: " + err.Error())
	}
	observe := func(Progress) {}
	if secrets := r.broker.Secrets(); c.Observe != nil {
		observe = func(p Progress) {
			c.Observe(Progress{Stdout: secrets.Window(p.Stdout), Stderr: secrets.Window(p.Stderr)})
		}
	}
	return tool.Run(ctx, Invocation{Arguments: c.Arguments, Observe: observe, broker: r.broker, permit: c.Permit})
}

// Unknown is the sentence about a tool that does not exist.
func (r *Registry) Unknown(name string) string {
	names := make([]string, len(r.tools))
	for i, t := range r.tools {
		names[i] = t.Name
	}
	return fmt.Sprintf("there is no tool %q; the tools are %s", clip(name, 80), strings.Join(names, ", "))
}

// presentable is the last word on every outcome, built-in or not: content is
// never empty and text always valid.
func presentable(o Outcome) Outcome {
	if len(o.Content) == 0 {
		o.Content = []message.ResultBlock{message.Text{Text: "(no output)"}}
		return o
	}
	for i, b := range o.Content {
		t, ok := b.(message.Text)
		if !ok {
			continue
		}
		if clean, replaced := Printable([]byte(t.Text)); replaced > 0 {
			o.Content = slices.Clone(o.Content)
			t.Text = clean + "\n" + replacedNote(replaced)
			o.Content[i] = t
		}
	}
	return o
}

// redacted takes the secrets out of the texts and details of every outcome,
// built-in or not. The marker in the place of one says so.
func redacted(o Outcome, secrets broker.Secrets) Outcome {
	if secrets.None() {
		return o
	}
	o.Content = slices.Clone(o.Content)
	for i, b := range o.Content {
		if t, ok := b.(message.Text); ok {
			t.Text, _ = secrets.Text(t.Text)
			o.Content[i] = t
		}
	}
	if o.Details != nil {
		clean, _ := secrets.Value(*o.Details)
		o.Details = &clean
	}
	return o
}

// toolkit is what the built-in tools share.
type toolkit struct {
	room    *workspace
	blobs   *blob.Store
	broker  *broker.Broker
	secrets broker.Secrets // of the broker
	kept    *keeper
}
