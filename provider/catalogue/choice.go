package catalogue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/loom-run/loom/config"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/demo"
	"github.com/loom-run/loom/provider/price"
	"github.com/loom-run/loom/provider/recording"
	"github.com/loom-run/loom/provider/remote"
	"github.com/loom-run/loom/provider/route"
)

// candidate is one model with all that is configured of it.
type candidate struct {
	model      provider.Model
	dialect    config.Dialect // empty: it is no server
	base       string
	baseName   string // where the address is configured, for sentences
	route      string // its name in error sentences; empty for a vendor, whose host says enough
	key        string // the variable of its key; empty for none
	price      *price.Card
	thinking   provider.Thinking
	unthinking bool
	vision     *bool
	maxImages  int
}

func ofDemo() candidate { return candidate{model: demo.Model} }

func ofReplay(path string) candidate {
	return candidate{model: provider.Model{Identity: provider.Identity{Provider: replayName, ModelID: path}, API: recording.API}}
}

// ofVendor is a model of a vendor, with what the list knows about it.
func (c *Catalogue) ofVendor(v vendor, id string) candidate {
	r := candidate{
		model:   provider.Model{Identity: provider.Identity{Provider: v.name, ModelID: id}, API: apiOf(v.dialect)},
		dialect: v.dialect, base: v.base, baseName: v.baseName, key: v.key,
	}
	if base := strings.TrimSpace(c.cfg.Env(v.baseName)); base != "" {
		r.base = base
	}
	if f, ok := v.fact(id); ok {
		r.model.ContextWindow, r.model.MaxOutput = f.window, f.output
		if r.base == v.base { // whoever else answers there has other prices
			r.price = f.price
		}
	}
	return r
}

// ofFile is a model of the file.
func (c *Catalogue) ofFile(m config.Model) candidate {
	r := candidate{
		model: provider.Model{
			Identity: provider.Identity{Provider: m.Name, ModelID: m.ModelID}, API: apiOf(m.Dialect),
			ContextWindow: m.ContextWindow, MaxOutput: m.MaxOutput,
		},
		dialect: m.Dialect, base: m.BaseURL, baseName: "base_url of [models." + m.Name + "]", route: m.Name, key: m.KeyEnv,
		thinking: provider.Thinking(m.Thinking), unthinking: m.Unthinking, vision: m.Vision, maxImages: m.MaxImages,
	}
	if r.base == "" {
		for _, v := range vendors() {
			if v.dialect == m.Dialect {
				r.base = v.base
			}
		}
	}
	if m.Pricing != nil {
		r.price = &price.Card{Rates: rates(m.Pricing.Rates)}
		for _, t := range m.Pricing.Tiers {
			r.price.Tiers = append(r.price.Tiers, price.Tier{Above: t.Above, Rates: rates(t.Rates)})
		}
	}
	return r
}

func rates(r config.Rates) price.Rates {
	return price.Rates{Input: r.Input, Output: r.Output, CacheRead: r.CacheRead, CacheWrite: r.CacheWrite, CacheWrite1h: r.CacheWrite1h}
}

// hasKey reports whether a key can be had, without asking for it.
func (c *Catalogue) hasKey(r candidate) bool {
	_, command := c.cfg.File.Secrets[r.key]
	return r.dialect == "" || r.key == "" || provider.NewSecret(c.cfg.Env(r.key)).Present() || command && c.cfg.Secret != nil
}

// keyOf asks for the key: the environment first, then the command.
func (c *Catalogue) keyOf(r candidate) provider.Secret {
	if key := provider.NewSecret(c.cfg.Env(r.key)); key.Present() {
		return key
	}
	if _, command := c.cfg.File.Secrets[r.key]; command && c.cfg.Secret != nil {
		return provider.NewSecret(c.cfg.Secret(r.key))
	}
	return provider.Secret{}
}

func keyless(r candidate) *provider.Error {
	e := &provider.Error{Class: provider.MissingKey, Unsent: true}
	if r.route == "" {
		e.Message = fmt.Sprintf("the model %s needs a key: set %s (a server of your own at %s may take any value), or use --model %s", r.model.ModelID, r.key, r.baseName, demoName)
	} else {
		e.Message = fmt.Sprintf("the model %s needs a key: set %s, or give it a command under [secrets] in loom.toml", r.route, r.key)
	}
	return e
}

// Choice is a model that can be used.
type Choice struct {
	Model  provider.Model
	Reason Reason
	// Thinking is how much the model is asked to reason where nobody says otherwise.
	Thinking provider.Thinking

	catalogue *Catalogue
	chain     []candidate // the model first, then those that stand behind it
	vision    []candidate
}

// choice checks that a model can work, and finds those that stand behind it: the rest of the chain whose head it is.
func (c *Catalogue) choice(r candidate, why Reason) (Choice, error) {
	if err := c.check(r); err != nil {
		return Choice{}, err
	}
	ch := Choice{Model: r.model, Reason: why, Thinking: r.thinking, catalogue: c, chain: []candidate{r}}
	for _, role := range config.AllRoles() {
		chain := c.roles[role]
		if len(chain) == 0 {
			continue
		}
		if head, err := c.named(chain[0]); err != nil || head.model.Identity != r.model.Identity {
			continue
		}
		ch.chain = append(ch.chain, c.candidates(chain[1:])...)
		break
	}
	if r.vision != nil && !*r.vision {
		ch.vision = c.candidates(c.roles[config.Vision])
	}
	return ch, nil
}

// candidates are the models of a chain. The file was checked, so every name leads to one.
func (c *Catalogue) candidates(names []string) (all []candidate) {
	for _, name := range names {
		if r, err := c.named(name); err == nil {
			all = append(all, r)
		}
	}
	return all
}

// check says why a model cannot be asked as it is configured.
func (c *Catalogue) check(r candidate) error {
	if r.dialect == "" {
		return nil
	}
	if !c.hasKey(r) {
		return keyless(r)
	}
	if _, err := remote.ParseBase(r.base); err != nil {
		return &provider.Error{Class: provider.InvalidRequest, Unsent: true, Message: fmt.Sprintf("%s: %v", r.baseName, err)}
	}
	return nil
}

// Open builds the provider. It is an io.Closer when it holds connections.
func (ch Choice) Open(p Ports) (provider.Provider, error) {
	if ch.chain[0].dialect == "" {
		return ch.catalogue.open(ch.chain[0], p)
	}
	o := &opened{catalogue: ch.catalogue, ports: p, clients: map[provider.Identity]provider.Provider{}}
	var vision *route.Chain
	if len(ch.vision) > 0 {
		vision = route.New(o.links(ch.vision), nil)
	}
	return &chained{route.New(o.links(ch.chain), vision), o}, nil
}

// Probe sends one tiny request to the model that spec names, and to none that stands behind it.
func (c *Catalogue) Probe(ctx context.Context, spec string, p Ports) (_ *message.Assistant, err error) {
	ch, err := c.Choose(spec)
	if err != nil {
		return nil, err
	}
	ch.chain, ch.vision = ch.chain[:1], nil
	asked, err := ch.Open(p)
	if err != nil {
		return nil, err
	}
	if closer, ok := asked.(io.Closer); ok {
		defer func() { err = errors.Join(err, closer.Close()) }()
	}
	question := &message.User{Content: []message.UserBlock{message.Text{Text: "Reply with the single word: ready"}}, Timestamp: p.Now()}
	return asked.Stream(ctx, provider.Request{Model: ch.Model, Messages: []message.Message{question}, MaxOutput: probeTokens}, func(provider.Delta) {})
}

// probeTokens bounds the answer to a probe; some servers take no smaller bound.
const probeTokens = 16

// open builds the provider of one model.
func (c *Catalogue) open(r candidate, p Ports) (provider.Provider, error) {
	switch {
	case r.dialect != "":
		return c.openRemote(r, p)
	case r.model.Provider != replayName:
		return demo.New(p.Now), nil
	case c.cfg.ReadRecording == nil:
		return nil, &provider.Error{Class: provider.InvalidRequest, Unsent: true, Message: "recordings cannot be played here"}
	}
	text, err := c.cfg.ReadRecording(r.model.ModelID)
	if err != nil {
		return nil, &provider.Error{Class: provider.NotFound, Unsent: true, Message: fmt.Sprintf("the recording %s cannot be read (%v); nothing was sent", r.model.ModelID, err)}
	}
	player, err := recording.NewPlayer(r.model.ModelID, text, p.Now)
	if err != nil {
		return nil, err
	}
	return player, nil
}

func (c *Catalogue) openRemote(r candidate, p Ports) (provider.Provider, error) {
	key := c.keyOf(r)
	if r.key != "" && !key.Present() {
		return nil, keyless(r)
	}
	cfg := remote.Config{
		Dialect: newDialect(r.dialect), BaseURL: r.base, Route: r.route, Key: key, KeyName: r.key, Keyless: r.key == "",
		UserAgent: p.UserAgent, Now: p.Now, Limits: limits(c.cfg.File.Limits), Proxy: p.Proxy,
	}
	if p.Record != nil {
		cfg.Through = p.Record.Through(r.model, key.Scrub)
	}
	client, err := remote.New(cfg)
	if err != nil {
		return nil, err
	}
	return client, nil
}

func limits(l config.Limits) remote.Limits {
	ms := func(n *int64) time.Duration {
		if n == nil {
			return 0
		}
		return time.Duration(*n) * time.Millisecond
	}
	return remote.Limits{Connect: ms(l.ConnectMs), FirstByte: ms(l.FirstByteMs), Idle: ms(l.IdleMs), Total: ms(l.TotalMs)}
}

// chained is a chain with the clients that it opened.
type chained struct {
	*route.Chain
	opened *opened
}

// Close gives up the connections.
func (c *chained) Close() error { return c.opened.close() }

// opened is the clients of a chain. Each is built at its first request, when its key is asked for.
type opened struct {
	catalogue *Catalogue
	ports     Ports

	mu      sync.Mutex // guards clients
	clients map[provider.Identity]provider.Provider
}

func (o *opened) links(all []candidate) (links []route.Link) {
	for _, r := range all {
		links = append(links, route.Link{
			Model: r.model, Price: r.price, Unthinking: r.unthinking, Vision: r.vision, MaxImages: r.maxImages,
			Open: func() (provider.Provider, error) { return o.client(r) },
		})
	}
	return links
}

func (o *opened) client(r candidate) (provider.Provider, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p, ok := o.clients[r.model.Identity]; ok {
		return p, nil
	}
	if err := o.catalogue.check(r); err != nil {
		return nil, err
	}
	p, err := o.catalogue.open(r, o.ports)
	if err != nil {
		return nil, err
	}
	o.clients[r.model.Identity] = p
	return p, nil
}

func (o *opened) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var errs []error
	for _, p := range o.clients {
		if c, ok := p.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	clear(o.clients)
	return errors.Join(errs...)
}

// Route is a model as people see it in a list.
type Route struct {
	Name     string // what --model takes
	Model    provider.Model
	Dialect  config.Dialect // empty for one that is no server
	Base     string         // empty also for one that cannot be used
	KeyName  string         // the variable of its key; empty for none
	Fault    error          // why it cannot be asked: its key is missing, or its address is none; nil when it can
	Price    *price.Card
	Vision   *bool
	Thinking provider.Thinking
	FromFile bool
	Roles    []config.Role // in which it stands, at whatever place
}

// Routes lists every model that has a name: those of the file, then the built-in ones.
func (c *Catalogue) Routes() []Route {
	var all []Route
	add := func(name string, r candidate, fromFile bool) {
		entry := Route{
			Name: name, Model: r.model, Dialect: r.dialect, KeyName: r.key, Fault: c.check(r), Price: r.price, Vision: r.vision, Thinking: r.thinking,
			FromFile: fromFile,
		}
		if _, err := remote.ParseBase(r.base); err == nil && r.dialect != "" {
			entry.Base = r.base
		}
		for _, role := range config.AllRoles() {
			if slices.Contains(c.roles[role], name) {
				entry.Roles = append(entry.Roles, role)
			}
		}
		all = append(all, entry)
	}
	for _, m := range c.cfg.File.Models {
		add(m.Name, c.ofFile(m), true)
	}
	add(demoName, ofDemo(), false)
	for _, v := range vendors() {
		for _, f := range v.models {
			add(f.name, c.ofVendor(v, f.name), false)
		}
	}
	return all
}

// Configured names the models that somebody took care to configure: those of the file, else the default of every vendor whose key can be had.
func (c *Catalogue) Configured() (names []string) {
	for _, m := range c.cfg.File.Models {
		names = append(names, m.Name)
	}
	if names != nil {
		return names
	}
	for _, v := range vendors() {
		if c.hasKey(c.ofVendor(v, v.standard)) {
			names = append(names, v.standard)
		}
	}
	return names
}
