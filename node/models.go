package node

import (
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/catalogue"
)

// catalogued finds models by the built-in catalogue and the environment. Providers
// are built once, so that their connections are used again.
type catalogued struct {
	env   func(string) string
	ports catalogue.Ports

	mu   sync.Mutex
	open map[machine.ModelRef]opened
}

type opened struct {
	model    provider.Model
	provider provider.Provider
}

// Catalogue returns the models that the environment allows. Requests go through
// the proxy that the environment names.
func Catalogue(env func(string) string, now func() int64, userAgent string) Models {
	return &catalogued{
		env: env, open: make(map[machine.ModelRef]opened),
		ports: catalogue.Ports{Now: now, UserAgent: userAgent, Proxy: http.ProxyFromEnvironment},
	}
}

// Choose implements Models.
func (c *catalogued) Choose(spec string) (machine.ModelRef, error) {
	choice, err := catalogue.Resolve(spec, c.env)
	if err != nil {
		return machine.ModelRef{}, err
	}
	return machine.ModelRef{Provider: choice.Model.Provider, ModelID: choice.Model.ModelID}, nil
}

// Resolve implements engine.Models.
func (c *catalogued) Resolve(ref machine.ModelRef) (provider.Model, provider.Provider, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o, ok := c.open[ref]; ok {
		return o.model, o.provider, nil
	}
	choice, err := catalogue.ResolveIdentity(provider.Identity{Provider: ref.Provider, ModelID: ref.ModelID}, c.env)
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

// Close gives up the connections of the providers that were opened.
func (c *catalogued) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, o := range c.open {
		if p, ok := o.provider.(io.Closer); ok {
			errs = append(errs, p.Close())
		}
	}
	clear(c.open)
	return errors.Join(errs...)
}
