// Package catalogue turns what a person names as a model into a provider that answers for it.
//
// # Purpose
//
// A person says demo, a name of loom.toml or of the built-in list, or VENDOR/ID; a session stores an identity. Both lead here, and what cannot work is
// refused before anything is sent: an unknown name with the names that exist, a missing key with the variable that holds it.
//
// # Key types
//
// [Catalogue] is what there is, made of a [Config]. [Catalogue.Choose] and [Catalogue.Find] yield a [Choice]; [Choice.Open] builds its provider from
// [Ports]. [Catalogue.Routes] lists what there is, for people.
//
// # Relationships
//
// Imports config, provider, provider/route, provider/price, provider/remote, provider/recording and the dialects. Imported by node.
//
// # Traffic
//
// None.
//
// # Invariants
//
//   - The environment, secrets and recordings are read through the functions that are given, and nowhere else. A secret is asked for when a request needs it.
//   - The list states facts, it does not forbid: VENDOR/ID takes any id. Facts of a model that is not listed are unknown, which is zero.
//   - A model name, once stored, resolves to the same identity for ever, or says what became of it.
//   - A price is of the file, or stands in the list with its source and date; there is no other.
package catalogue

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/loom-run/loom/config"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/anthropic"
	"github.com/loom-run/loom/provider/demo"
	"github.com/loom-run/loom/provider/gemini"
	"github.com/loom-run/loom/provider/openaichat"
	"github.com/loom-run/loom/provider/openairesponses"
	"github.com/loom-run/loom/provider/recording"
	"github.com/loom-run/loom/provider/remote"
)

const (
	demoName   = "demo"
	replayName = "replay"
	maxID      = 256  // bytes
	maxPath    = 4096 // bytes, of a recording
)

// Reason says why a model was chosen.
type Reason string

// The reasons.
const (
	Asked  Reason = "asked"  // by name
	Role   Reason = "role"   // nothing was asked; the main role of the file names it
	HasKey Reason = "key"    // nothing was asked; a key is configured
	NoKey  Reason = "no_key" // nothing was asked and no key is configured, so it is the demo; people must be told
)

// Config is what a catalogue is made of.
type Config struct {
	File config.File
	// Profile chooses the roles of a profile of the file; empty is none.
	Profile string
	// Env is the environment; an absent variable is the empty string.
	Env func(string) string
	// Secret runs the command of a secret, at most once; empty is a command that gave nothing. Nil where there are no commands.
	Secret func(name string) string
	// ReadRecording returns the text of a recording; nil where none can be played.
	ReadRecording func(path string) (string, error)
}

// Ports are what a provider is given by whoever builds it.
type Ports struct {
	// Now is the clock of settled messages, in Unix milliseconds.
	Now func() int64
	// UserAgent names the program to servers; it may be empty.
	UserAgent string
	// Proxy chooses the proxy of a request; nil is none.
	Proxy func(*http.Request) (*url.URL, error)
	// Record keeps what passes; nil keeps nothing.
	Record *recording.Recorder
}

// Catalogue is the models that there are.
type Catalogue struct {
	cfg   Config
	roles config.Roles
}

// New makes a catalogue. The error says that there is no such profile.
func New(c Config) (*Catalogue, error) {
	roles := c.File.Roles
	if c.Env == nil {
		c.Env = func(string) string { return "" }
	}
	if c.Profile != "" {
		profile, ok := c.File.Profiles[c.Profile]
		if !ok {
			return nil, &provider.Error{Class: provider.NotFound, Unsent: true, Message: fmt.Sprintf("there is no profile %q in loom.toml; nothing was started, %s", c.Profile, profiles(c.File))}
		}
		if profile != nil {
			roles = profile
		}
	}
	return &Catalogue{c, roles}, nil
}

func profiles(f config.File) string {
	if len(f.Profiles) == 0 {
		return "it has no [profiles] table"
	}
	var names []string
	for name := range f.Profiles {
		names = append(names, name)
	}
	slices.Sort(names)
	return "it has " + strings.Join(names, ", ")
}

// Builtin reports whether a name is a model without a file.
func Builtin(name string) bool {
	_, err := (&Catalogue{cfg: Config{Env: func(string) string { return "" }}}).named(name)
	return err == nil
}

// KeyVariables are the variables that may hold the keys of vendors.
func KeyVariables() []string {
	var names []string
	for _, v := range vendors() {
		if !slices.Contains(names, v.key) {
			names = append(names, v.key)
		}
	}
	return names
}

// KeyVariables are the variables that may hold keys, whether they do or not.
func (c *Catalogue) KeyVariables() []string {
	names := KeyVariables()
	for _, m := range c.cfg.File.Models {
		names = append(names, m.KeyEnv)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(s string) bool { return s == "" })
}

// Choose finds the model that spec names: a model of the file, "demo", a name of the list, VENDOR/ID, or replay/FILE. An empty spec chooses: the main role of
// the file, else the default of the first vendor whose key is configured, else the demo.
//
// The error is a [*provider.Error]: NotFound for an unknown name, MissingKey, or InvalidRequest for what is configured in a way that cannot work.
func (c *Catalogue) Choose(spec string) (Choice, error) {
	spec = strings.TrimSpace(spec)
	if spec == "" {
		return c.standard()
	}
	r, err := c.named(spec)
	if err != nil {
		return Choice{}, err
	}
	return c.choice(r, Asked)
}

func (c *Catalogue) standard() (Choice, error) {
	if chain := c.roles[config.Main]; len(chain) > 0 {
		r, err := c.named(chain[0])
		if err != nil {
			return Choice{}, err
		}
		return c.choice(r, Role)
	}
	for _, v := range vendors() {
		if provider.NewSecret(c.cfg.Env(v.key)).Present() {
			return c.choice(c.ofVendor(v, v.standard), HasKey)
		}
	}
	return c.choice(ofDemo(), NoKey)
}

// Role is the model that stands first in a role, and how much it is asked to reason; ok is false where the file names none.
func (c *Catalogue) Role(role config.Role) (id provider.Identity, thinking provider.Thinking, ok bool) {
	chain := c.roles[role]
	if len(chain) == 0 {
		return provider.Identity{}, "", false
	}
	r, err := c.named(chain[0])
	return r.model.Identity, r.thinking, err == nil
}

// Find finds the model of a stored identity.
func (c *Catalogue) Find(id provider.Identity) (Choice, error) {
	for _, m := range c.cfg.File.Models {
		if m.Name != id.Provider {
			continue
		}
		if m.ModelID != id.ModelID {
			return Choice{}, &provider.Error{
				Class: provider.NotFound, Unsent: true,
				Message: fmt.Sprintf("the session uses %s, and %s is now the model %s in loom.toml; go on with --model %s, or name the old one again", id, m.Name, m.ModelID, m.Name),
			}
		}
		return c.choice(c.ofFile(m), Asked)
	}
	v, isVendor := vendorNamed(id.Provider)
	switch {
	case id == demo.Model.Identity:
		return c.choice(ofDemo(), Asked)
	case id.Provider == replayName && replayable(id.ModelID):
		return c.choice(ofReplay(id.ModelID), Asked)
	case isVendor && usable(id.ModelID):
		return c.choice(c.ofVendor(v, id.ModelID), Asked)
	}
	return Choice{}, c.unknown(id.String())
}

// named finds a route by what a person or a role calls it.
func (c *Catalogue) named(spec string) (candidate, error) {
	for _, m := range c.cfg.File.Models {
		if m.Name == spec {
			return c.ofFile(m), nil
		}
	}
	if spec == demoName {
		return ofDemo(), nil
	}
	if v, ok := listed(spec); ok {
		return c.ofVendor(v, spec), nil
	}
	before, id, slashed := strings.Cut(spec, "/")
	if v, ok := vendorNamed(before); slashed && ok && usable(id) {
		return c.ofVendor(v, id), nil
	}
	if slashed && before == replayName && replayable(id) {
		return ofReplay(id), nil
	}
	return candidate{}, c.unknown(spec)
}

func (c *Catalogue) unknown(spec string) *provider.Error {
	if len(spec) > maxID {
		spec = spec[:maxID] + "…"
	}
	names := []string{demoName}
	for _, m := range c.cfg.File.Models {
		names = append(names, m.Name)
	}
	for _, v := range vendors() {
		names = append(names, v.standard)
	}
	var forms []string
	for _, v := range vendors() {
		forms = append(forms, v.name+"/ID")
	}
	return &provider.Error{
		Class: provider.NotFound, Unsent: true,
		Message: fmt.Sprintf("there is no model %q; there are %s and more that `loom models` lists, and %s for any other", spec, strings.Join(names, ", "), strings.Join(forms, ", ")),
	}
}

// usable reports whether an id may be sent: some text without spaces and control characters.
func usable(id string) bool {
	return id != "" && len(id) <= maxID && !strings.ContainsFunc(id, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsGraphic(r) })
}

// replayable reports whether a text may be the path of a recording.
func replayable(path string) bool {
	return path != "" && len(path) <= maxPath && !strings.ContainsFunc(path, func(r rune) bool { return !unicode.IsGraphic(r) })
}

// newDialect makes the dialect of a route; each route has its own, since a dialect remembers what it encoded.
func newDialect(d config.Dialect) remote.Dialect {
	switch d {
	case config.Anthropic:
		return anthropic.New()
	case config.OpenAIResponses:
		return openairesponses.New()
	case config.Gemini:
		return gemini.New()
	case config.OpenAI:
	}
	return openaichat.New()
}

func apiOf(d config.Dialect) string { return newDialect(d).API() }
