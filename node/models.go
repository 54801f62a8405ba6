package node

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/loom-run/loom/config"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/catalogue"
	"github.com/loom-run/loom/provider/recording"
)

// Chosen is a model that a person's words lead to.
type Chosen struct {
	Ref      machine.ModelRef
	Thinking machine.ThinkingLevel // what a new strand is asked with; off when it is empty
	Reason   catalogue.Reason
}

// ModelsConfig is what models are found by.
type ModelsConfig struct {
	File    config.File
	Profile string   // of the file; empty for none
	Environ []string // of the process, as name=value
	Now     func() int64

	UserAgent string
	// Record gets what passes between Loom and the servers; nil: nothing is kept.
	Record io.Writer
	// Warn tells a person something beside an answer; nil: nobody.
	Warn func(string)
}

// Catalogued is the models of a catalogue. Providers are built once, so that their
// connections are used again.
type Catalogued struct {
	catalogue *catalogue.Catalogue
	ports     catalogue.Ports
	env       func(string) string
	secrets   *commands

	mu   sync.Mutex
	open map[machine.ModelRef]opened
}

type opened struct {
	model    provider.Model
	provider provider.Provider
}

// Catalogue returns the models that the file and the environment allow. Requests
// go through the proxy that the environment names.
func Catalogue(cfg ModelsConfig) (*Catalogued, error) {
	c := &Catalogued{
		env: lookup(cfg.Environ), open: make(map[machine.ModelRef]opened),
		secrets: newCommands(cfg.File.Secrets, cfg.Environ, cfg.Warn),
		ports:   catalogue.Ports{Now: cfg.Now, UserAgent: cfg.UserAgent, Proxy: http.ProxyFromEnvironment},
	}
	if cfg.Record != nil {
		c.ports.Record = recording.NewRecorder(cfg.Record)
	}
	var err error
	c.catalogue, err = catalogue.New(catalogue.Config{
		File: cfg.File, Profile: cfg.Profile, Env: c.env, Secret: c.secrets.value,
		ReadRecording: func(path string) (string, error) {
			text, err := os.ReadFile(path)
			return string(text), err
		},
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// lookup reads one environment.
func lookup(environ []string) func(string) string {
	return func(name string) string {
		for _, e := range environ {
			if v, ok := strings.CutPrefix(e, name+"="); ok {
				return v
			}
		}
		return ""
	}
}

// Choose implements Models.
func (c *Catalogued) Choose(spec string) (Chosen, error) {
	choice, err := c.catalogue.Choose(absoluteRecording(spec))
	if err != nil {
		return Chosen{}, err
	}
	return chosen(choice.Model.Identity, choice.Thinking, choice.Reason), nil
}

func chosen(model provider.Identity, thinking provider.Thinking, why catalogue.Reason) Chosen {
	c := Chosen{Ref: machine.ModelRef(model), Thinking: machine.ThinkingOff, Reason: why}
	if thinking.Known() {
		c.Thinking = machine.ThinkingLevel(thinking)
	}
	return c
}

// absoluteRecording makes the path of a recording one that leads to the same file
// from every directory, since a session remembers it.
func absoluteRecording(spec string) string {
	path, isReplay := strings.CutPrefix(strings.TrimSpace(spec), "replay/")
	if !isReplay || path == "" {
		return spec
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return spec
	}
	return "replay/" + abs
}

// Resolve implements engine.Models.
func (c *Catalogued) Resolve(ref machine.ModelRef) (provider.Model, provider.Provider, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o, ok := c.open[ref]; ok {
		return o.model, o.provider, nil
	}
	choice, err := c.catalogue.Find(provider.Identity{Provider: ref.Provider, ModelID: ref.ModelID})
	if err != nil {
		return provider.Model{}, nil, err
	}
	p, err := choice.Open(c.ports)
	if err != nil {
		return provider.Model{}, nil, err
	}
	c.open[ref] = opened{choice.Model, p}
	return choice.Model, p, nil
}

// Routes lists the models that have a name.
func (c *Catalogued) Routes() []catalogue.Route { return c.catalogue.Routes() }

// Configured names the models that somebody took care to configure.
func (c *Catalogued) Configured() []string { return c.catalogue.Configured() }

// Probe sends one tiny request to a model, and to none that stands behind it.
func (c *Catalogued) Probe(ctx context.Context, spec string) (*message.Assistant, error) {
	return c.catalogue.Probe(ctx, absoluteRecording(spec), c.ports)
}

// Role implements Models.
func (c *Catalogued) Role(role config.Role) (Chosen, bool) {
	model, thinking, ok := c.catalogue.Role(role)
	return chosen(model, thinking, catalogue.Role), ok
}

// Keys implements Models.
func (c *Catalogued) Keys() []string {
	keys := c.secrets.known()
	for _, name := range c.catalogue.KeyVariables() {
		if v := c.env(name); v != "" {
			keys = append(keys, name+"="+v)
		}
	}
	return keys
}

// Close gives up the connections of the providers that were opened. The error is
// also that of a recording that could not be written.
func (c *Catalogued) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, o := range c.open {
		if p, ok := o.provider.(io.Closer); ok {
			errs = append(errs, p.Close())
		}
	}
	clear(c.open)
	if c.ports.Record != nil {
		errs = append(errs, c.ports.Record.Err())
	}
	return errors.Join(errs...)
}

// NoModels are models that cannot be found, for a reason.
func NoModels(why error) Models { return noModels{why} }

type noModels struct{ why error }

func (n noModels) Choose(string) (Chosen, error)   { return Chosen{}, n.why }
func (n noModels) Keys() []string                  { return nil }
func (n noModels) Role(config.Role) (Chosen, bool) { return Chosen{}, false }
func (n noModels) Resolve(machine.ModelRef) (provider.Model, provider.Provider, error) {
	return provider.Model{}, nil, n.why
}
