// Package catalogue turns what a person names as a model into a provider that answers for it.
//
// # Purpose
//
// A person says demo, a name from the list, or openai/ID; a session stores an identity. Both lead here, and what cannot work is refused before
// anything is sent: an unknown name with the names that exist, a missing key with the variable that holds it.
//
// # Key types
//
// [Resolve] and [ResolveIdentity] yield a [Choice]; [Choice.Open] builds its provider from [Ports]. [List] is the built-in list.
//
// # Relationships
//
// Imports provider, its dialects demo and openaichat, and core/jsonv. Imported by node.
//
// # Traffic
//
// None.
//
// # Invariants
//
//   - The environment is read through the function that is given, and nowhere else.
//   - The list states facts, it does not forbid: openai/ID takes any id. Facts of a model that is not listed are unknown, which is zero.
//   - A model name, once stored, resolves to the same identity for ever.
package catalogue

import (
	_ "embed"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"unicode"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/demo"
	"github.com/loom-run/loom/provider/openaichat"
	"github.com/loom-run/loom/provider/remote"
)

// The variables that configure the OpenAI dialect.
const (
	KeyVariable  = "OPENAI_API_KEY"
	BaseVariable = "OPENAI_BASE_URL"
)

// DefaultBase is used when no base URL is configured.
const DefaultBase = "https://api.openai.com/v1"

const (
	demoName   = "demo"
	openaiName = "openai"
	maxID      = 256 // bytes
)

// Reason says why a model was chosen.
type Reason string

// The reasons.
const (
	Asked  Reason = "asked"  // by name
	HasKey Reason = "key"    // nothing was asked; a key is configured
	NoKey  Reason = "no_key" // nothing was asked and no key is configured, so it is the demo; people must be told
)

// Ports are what a provider is given by whoever builds it.
type Ports struct {
	// Now is the clock of settled messages, in Unix milliseconds.
	Now func() int64
	// UserAgent names the program to servers; it may be empty.
	UserAgent string
	// Proxy chooses the proxy of a request; nil is none.
	Proxy func(*http.Request) (*url.URL, error)
	// Limits bounds each attempt; the zero value means the defaults.
	Limits remote.Limits
}

// Choice is a model that can be used.
type Choice struct {
	Model  provider.Model
	Reason Reason
	open   func(Ports) (provider.Provider, error)
}

// Open builds the provider. It is an io.Closer when it holds connections.
func (c Choice) Open(p Ports) (provider.Provider, error) { return c.open(p) }

// Resolve finds the model that spec names: "demo", a name of the [List], or "openai/" and any id. An empty spec chooses: the list's default when a
// key is configured, otherwise the demo. env is the environment; an absent variable is the empty string.
//
// The error is a [*provider.Error]: NotFound for an unknown name, MissingKey, or InvalidRequest for a base URL that cannot be used.
func Resolve(spec string, env func(string) string) (Choice, error) {
	spec = strings.TrimSpace(spec)
	vendor, id, slashed := strings.Cut(spec, "/")
	switch {
	case spec == "" && provider.NewSecret(env(KeyVariable)).Present():
		return openai(builtin().standard, HasKey, env)
	case spec == "":
		return ofDemo(NoKey), nil
	case spec == demoName:
		return ofDemo(Asked), nil
	case slashed && vendor == openaiName && usable(id):
		return openai(id, Asked, env)
	case !slashed && listed(spec):
		return openai(spec, Asked, env)
	}
	return Choice{}, unknown(spec)
}

// ResolveIdentity finds the model of a stored identity.
func ResolveIdentity(id provider.Identity, env func(string) string) (Choice, error) {
	switch {
	case id == demo.Model.Identity:
		return ofDemo(Asked), nil
	case id.Provider == openaiName && usable(id.ModelID):
		return openai(id.ModelID, Asked, env)
	}
	return Choice{}, unknown(id.String())
}

func unknown(spec string) *provider.Error {
	if len(spec) > maxID {
		spec = spec[:maxID] + "…"
	}
	return &provider.Error{
		Class: provider.NotFound,
		Message: fmt.Sprintf("there is no model %q; there are %s, and openai/ID for any other model of OpenAI or of the server at %s",
			spec, strings.Join(names(), ", "), BaseVariable),
	}
}

func names() []string {
	all := []string{demoName}
	for _, m := range List() {
		all = append(all, m.ModelID)
	}
	return all
}

// usable reports whether an id may be sent: some text without spaces and control characters.
func usable(id string) bool {
	return id != "" && len(id) <= maxID && !strings.ContainsFunc(id, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsGraphic(r) })
}

func ofDemo(why Reason) Choice {
	return Choice{Model: demo.Model, Reason: why, open: func(p Ports) (provider.Provider, error) { return demo.New(p.Now), nil }}
}

func openai(id string, why Reason, env func(string) string) (Choice, error) {
	key := provider.NewSecret(env(KeyVariable))
	if !key.Present() {
		return Choice{}, &provider.Error{
			Class: provider.MissingKey, Unsent: true,
			Message: fmt.Sprintf("the model %s needs a key: set %s (a server of your own at %s may take any value), or use --model %s",
				id, KeyVariable, BaseVariable, demoName),
		}
	}
	base := strings.TrimSpace(env(BaseVariable))
	if base == "" {
		base = DefaultBase
	}
	if _, err := remote.ParseBase(base); err != nil {
		return Choice{}, &provider.Error{Class: provider.InvalidRequest, Message: fmt.Sprintf("%s: %v", BaseVariable, err)}
	}
	return Choice{Model: facts(id), Reason: why, open: func(p Ports) (provider.Provider, error) {
		client, err := remote.New(remote.Config{
			Dialect: openaichat.New(), BaseURL: base, Key: key, KeyName: KeyVariable, UserAgent: p.UserAgent, Now: p.Now, Limits: p.Limits, Proxy: p.Proxy,
		})
		if err != nil {
			return nil, err
		}
		return client, nil
	}}, nil
}

//go:embed models.json
var modelsJSON []byte

// built is the built-in list, read.
type built struct {
	standard string // the name of the default model
	models   []provider.Model
}

// builtin reads the list at its first use. It cannot fail: a test reads the same bytes.
var builtin = sync.OnceValue(func() built {
	list, err := readList(modelsJSON)
	if err != nil {
		panic("catalogue: the embedded list: " + err.Error())
	}
	return list
})

func readList(raw []byte) (built, error) {
	v, err := jsonv.Parse(raw)
	if err != nil {
		return built{}, err
	}
	r := jsonv.Read(v, "catalogue.readList")
	r.Exact("default", "models")
	list := built{standard: r.Str("default"), models: jsonv.Each(r, "models", readModel)}
	return list, r.Err()
}

func readModel(v jsonv.Value) (provider.Model, error) {
	r := jsonv.Read(v, "catalogue.readModel")
	r.Exact("name", "context_window", "max_output_tokens")
	m := provider.Model{
		Identity:      provider.Identity{Provider: openaiName, ModelID: r.Str("name")},
		API:           openaichat.API,
		ContextWindow: r.Num("context_window"),
		MaxOutput:     r.Num("max_output_tokens"),
	}
	if r.Err() == nil && (m.ContextWindow <= 0 || m.MaxOutput <= 0) {
		r.Fail("context_window", "positive numbers of tokens", v)
	}
	return m, r.Err()
}

// List returns the models whose facts are known.
func List() []provider.Model { return append([]provider.Model(nil), builtin().models...) }

func listed(name string) bool {
	for _, m := range builtin().models {
		if m.ModelID == name {
			return true
		}
	}
	return false
}

// snapshot is how OpenAI names a fixed version of a model.
var snapshot = regexp.MustCompile(`-\d{4}-\d{2}-\d{2}$`)

// facts is the model of an id, with what the list knows about it or about the model that it is a dated version of.
func facts(id string) provider.Model {
	named := snapshot.ReplaceAllString(id, "")
	for _, m := range builtin().models {
		if m.ModelID == named {
			m.ModelID = id
			return m
		}
	}
	return provider.Model{Identity: provider.Identity{Provider: openaiName, ModelID: id}, API: openaichat.API}
}
