package config

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/usage"
)

// The most of each number.
const (
	maxTokens = 1_000_000_000
	maxImages = 10_000
	maxTries  = 1_000_000
	maxMs     = 24 * 60 * 60 * 1000
	maxSize   = 1 << 20 // of the file, in bytes
)

// reserved are names that models of the program itself have.
var reserved = []string{"demo", "replay", "anthropic", "gemini", "openai", "openai-responses"}

// Decode reads a file. builtin reports whether a model is known without being in the file, so that roles may name it.
//
// The error is an [*Error].
func Decode(text []byte, builtin func(string) bool) (File, error) {
	if len(text) > maxSize {
		return File{}, &Error{Message: fmt.Sprintf("is larger than %d bytes; nothing of it was used", maxSize)}
	}
	fields := map[string]any{}
	if err := toml.Unmarshal(text, &fields); err != nil {
		return File{}, malformed(err)
	}
	root := &table{fields: fields, fault: &fault{}}
	f := File{
		Roles:    rolesOf(root),
		Profiles: each(root, "profiles", func(t *table, _ string) Roles { return rolesOf(t) }),
		Secrets:  each(root, "secrets", readSecret),
	}
	models := each(root, "models", readModel)
	for _, name := range slices.Sorted(maps.Keys(models)) {
		f.Models = append(f.Models, models[name])
	}
	f.Retry, f.Limits, f.Telemetry = readRetry(root), readLimits(root), readTelemetry(root)
	if t, ok := root.sub("permissions"); ok {
		f.Permissions = readPermissions(t)
	}
	if t, ok := root.sub("redaction"); ok {
		f.Redaction = Redaction{Shapes: t.flag("shapes"), Variables: t.texts("variables")}
		t.done()
	}
	f.Automation = readAutomation(root)
	root.done()
	f.check(root, builtin)
	if root.failed() {
		return File{}, root.fault.err
	}
	return f, nil
}

// malformed words an error of the parser. Its own text draws the line, which may hold a key.
func malformed(err error) *Error {
	if e, ok := errors.AsType[*toml.DecodeError](err); ok {
		row, column := e.Position()
		return &Error{Message: fmt.Sprintf("is no TOML at line %d, column %d; nothing of it was used", row, column)}
	}
	return &Error{Message: "is no TOML; nothing of it was used"}
}

func rolesOf(t *table) Roles {
	inner, ok := t.sub("roles")
	if !ok {
		return nil
	}
	roles := Roles{}
	for _, role := range AllRoles() {
		if chain := inner.texts(string(role)); chain != nil {
			roles[role] = chain
		}
	}
	inner.done()
	return roles
}

func readModel(t *table, name string) Model {
	m := Model{Name: name}
	if slices.Contains(reserved, name) {
		t.fail("the name %s is taken by the program; choose another", name)
	}
	if _, ok := t.fields["headers"]; ok {
		t.fail("headers cannot be set: the key goes into the header of its dialect, and nothing else is sent")
	}
	for _, key := range []string{"api_key", "key", "token"} {
		if _, ok := t.fields[key]; ok {
			t.fail("%s has no place in this file: name the variable that holds the key as api_key_env, or a command under [secrets]", key)
		}
	}
	var ok bool
	if m.Dialect, ok = word(t, "dialect", Dialects()); !ok {
		t.fail(`dialect is missing: one of "anthropic", "openai", "openai-responses", "gemini"`)
	}
	m.ModelID = t.required("model_id", "the provider's own name for the model")
	m.KeyEnv, _ = t.text("api_key_env")
	if m.KeyEnv != "" && !validVariable(m.KeyEnv) {
		t.fail("api_key_env must be the name of a variable, of letters, digits and underscores, and not the key itself")
	}
	m.BaseURL, _ = t.text("base_url")
	m.BaseURL = strings.TrimRight(m.BaseURL, "/")
	m.ContextWindow = t.tokens("context_window")
	m.MaxOutput = t.tokens("max_output_tokens")
	m.Thinking, _ = word(t, "thinking", []string{"off", "low", "medium", "high", "unsupported"})
	if m.Thinking == "unsupported" {
		m.Thinking, m.Unthinking = "", true
	}
	m.Vision = t.flag("vision")
	if n := t.number("max_images", "images", maxImages); n != nil {
		m.MaxImages = int(*n)
	}
	readAuth(t, m.Dialect)
	if inner, ok := t.sub("pricing"); ok {
		m.Pricing = readPricing(inner)
	}
	return m
}

// readAuth reads the arrangement under which a server is used. Responses servers know several, so it must be said there.
func readAuth(t *table, d Dialect) {
	_, ok := word(t, "auth", []string{"api-key"})
	switch {
	case d == OpenAIResponses && !ok:
		t.fail(`auth is missing: "api-key" for the dialect openai-responses`)
	case d != OpenAIResponses && ok:
		t.fail("auth is of the dialect openai-responses alone; leave it out")
	}
}

func (t *table) tokens(key string) int64 {
	n := t.number(key, "tokens", maxTokens)
	if n == nil {
		t.fail("%s is missing: a whole number of tokens", key)
		return 0
	}
	return *n
}

func validVariable(s string) bool {
	return len(s) <= 128 && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_')
	}) && (s[0] < '0' || s[0] > '9')
}

func readPricing(t *table) *Pricing {
	p := &Pricing{Rates: readRates(t)}
	if v, ok := t.take("tiers"); ok {
		list, isList := v.([]any)
		if !isList {
			t.fail("tiers must be a list of tables, [[%s.tiers]]", t.name)
		}
		for _, e := range list {
			if inner, ok := t.inner("tiers", e); ok {
				p.Tiers = append(p.Tiers, Tier{Above: inner.tokens("above_input_tokens"), Rates: readRates(inner)})
				inner.done()
			}
		}
	}
	t.done()
	return p
}

func readRates(t *table) Rates {
	r := Rates{CacheRead: t.dollars("cache_read"), CacheWrite: t.dollars("cache_write"), CacheWrite1h: t.dollars("cache_write_1h")}
	for key, dst := range map[string]*usage.Amount{"input": &r.Input, "output": &r.Output} {
		if a := t.dollars(key); a != nil {
			*dst = *a
		} else {
			t.fail("%s is missing: US dollars for a million tokens", key)
		}
	}
	return r
}

// dollars is a price: a number, or a text of one where every digit of a long one counts.
func (t *table) dollars(key string) *usage.Amount {
	v, ok := t.take(key)
	if !ok {
		return nil
	}
	literal := ""
	switch v := v.(type) {
	case int64:
		literal = strconv.FormatInt(v, 10)
	case float64:
		literal = strconv.FormatFloat(v, 'f', -1, 64)
	case string:
		literal = v
	}
	n, err := jsonv.ParseString(literal)
	a, isAmount := usage.ParseAmount(n)
	if err != nil || !isAmount || a.Sign() < 0 || a.Cmp(usage.Micros(1_000_000_000_000)) > 0 {
		t.fail("%s must be US dollars for a million tokens: a number from 0 to 1000000", key)
		return nil
	}
	return &a
}

func readSecret(t *table, name string) Secret {
	if !validVariable(name) {
		t.fail("the name of a secret is that of a variable: letters, digits and underscores")
	}
	s := Secret{Command: t.texts("command")}
	if s.Command == nil {
		t.fail("command is missing: a list of texts, the program first")
	}
	return s
}

func readRetry(root *table) Retry {
	t, ok := root.sub("retry")
	if !ok {
		return Retry{}
	}
	var r Retry
	if t.fields["attempts"] == "unbounded" {
		t.take("attempts")
		r.Unbounded = true
	} else {
		r.Attempts = t.number("attempts", `attempts, or "unbounded",`, maxTries)
	}
	r.BaseDelayMs, r.MaxDelayMs = t.number("base_delay_ms", "milliseconds", maxMs), t.number("max_delay_ms", "milliseconds", maxMs)
	t.done()
	return r
}

func readLimits(root *table) Limits {
	t, ok := root.sub("limits")
	if !ok {
		return Limits{}
	}
	ms := func(key string) *int64 { return t.number(key, "milliseconds", maxMs) }
	l := Limits{ms("connect_ms"), ms("first_byte_ms"), ms("idle_ms"), ms("total_ms")}
	t.done()
	return l
}

func readTelemetry(root *table) Telemetry {
	t, ok := root.sub("telemetry")
	if !ok {
		return Telemetry{}
	}
	endpoint := t.required("endpoint", "the address of a collector, such as http://localhost:4318")
	if u, err := url.Parse(endpoint); endpoint != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil) {
		t.fail("endpoint must be an http or https address without a user")
	}
	t.done()
	return Telemetry{Endpoint: endpoint}
}

// check refuses names that lead nowhere.
func (f File) check(root *table, builtin func(string) bool) {
	exists := func(name string) bool {
		return slices.ContainsFunc(f.Models, func(m Model) bool { return m.Name == name }) || builtin(name)
	}
	chains := func(where string, roles Roles) {
		t := &table{name: where, fault: root.fault}
		for _, role := range AllRoles() {
			for i, name := range roles[role] {
				if !exists(name) {
					t.fail("%s names the model %s, which is neither a table here nor built in", role, quote(name))
				}
				if slices.Contains(roles[role][:i], name) {
					t.fail("%s names the model %s twice", role, quote(name))
				}
			}
		}
		if roles != nil && roles[Main] == nil {
			t.fail("main is missing: the models that answer, best first")
		}
	}
	chains("roles", f.Roles)
	for _, name := range slices.Sorted(maps.Keys(f.Profiles)) {
		chains("profiles."+name+".roles", f.Profiles[name])
	}
}
