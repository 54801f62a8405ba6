package wire_test

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/shape"
	"github.com/loom-run/loom/wire/wiretest"
)

var update = flag.Bool("update", false, "rewrite the generated and golden files; review them as a diff")

// generated checks a file that is made from the code, or rewrites it.
func generated(t *testing.T, path string, text []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path)
	if err != nil || string(have) != string(text) {
		t.Errorf("%s is stale (%v): go test ./wire -update, and review the diff", path, err)
	}
}

// schemer makes JSON Schemas, as what a sender may send. Frames and answers may hold
// words and fields of a newer sender; requests may not.
type schemer struct {
	strict bool
	docs   map[string]string
	defs   []jsonv.Member
	known  []string
}

func member(name string, v jsonv.Value) jsonv.Member { return jsonv.F(name, v) }

func (s *schemer) described(key string, v jsonv.Value) jsonv.Value {
	if doc := s.docs[key]; doc != "" {
		return v.With("description", jsonv.Str(doc))
	}
	return v
}

// of is the schema of a type: a reference where it has a name.
func (s *schemer) of(d *shape.Desc) jsonv.Value {
	if (d.Kind == shape.KindObject || d.Kind == shape.KindSum) && d.Name != "" {
		if !slices.Contains(s.known, d.Name) {
			s.known = append(s.known, d.Name)
			v := s.described(d.Name, s.inline(d))
			s.defs = append(s.defs, member(d.Name, v))
		}
		return jsonv.Obj(member("$ref", jsonv.Str("#/$defs/"+d.Name)))
	}
	return s.inline(d)
}

func typed(name string, more ...jsonv.Member) jsonv.Value {
	return jsonv.Obj(append([]jsonv.Member{member("type", jsonv.Str(name))}, more...)...)
}

func anyOf(list ...jsonv.Value) jsonv.Value { return jsonv.Obj(member("anyOf", jsonv.Arr(list...))) }

func texts(list []string) jsonv.Value {
	out := make([]jsonv.Value, len(list))
	for i, s := range list {
		out[i] = jsonv.Str(s)
	}
	return jsonv.Arr(out...)
}

func (s *schemer) inline(d *shape.Desc) jsonv.Value {
	switch d.Kind {
	case shape.KindObject:
		return s.object(d)
	case shape.KindArray:
		return typed("array", member("items", s.of(d.Elem)))
	case shape.KindText:
		return s.text(d)
	case shape.KindFlag:
		return typed("boolean")
	case shape.KindCount:
		return typed("integer", member("minimum", jsonv.Num(d.Min)), member("maximum", jsonv.Num(d.Max)))
	case shape.KindStated:
		return anyOf(jsonv.Obj(member("const", jsonv.Str("none"))), s.of(d.Elem))
	case shape.KindSum:
		return s.sum(d)
	case shape.KindAny:
		if d.Name != "" {
			return typed("object")
		}
	}
	return jsonv.Boolean(true)
}

// patterns are the formats that a pattern describes.
var patterns = map[string]string{
	"generation:seq:ordinal": `^(0|[1-9][0-9]*):(0|[1-9][0-9]*):(0|[1-9][0-9]*)$`,
}

const uuidPattern = `^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-7[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$`

func (s *schemer) text(d *shape.Desc) jsonv.Value {
	v := typed("string")
	switch {
	case d.Words != nil && (s.strict || d.Name == "Delivery"):
		return v.With("enum", texts(d.Words))
	case d.Words != nil:
		v = v.With("examples", texts(d.Words))
	case d.Format != "" && patterns[d.Format] != "":
		v = v.With("pattern", jsonv.Str(patterns[d.Format]))
	case d.Format != "":
		v = v.With("pattern", jsonv.Str(uuidPattern)).With("description", jsonv.Str(d.Format))
	}
	if d.Min > 0 {
		v = v.With("minLength", jsonv.Num(d.Min))
	}
	if d.Max > 0 { // a bound in bytes is one in characters too
		v = v.With("maxLength", jsonv.Num(d.Max))
	}
	return v
}

func (s *schemer) object(d *shape.Desc) jsonv.Value {
	v := typed("object")
	var properties []jsonv.Member
	var required []string
	for _, f := range d.Fields {
		p := s.of(f.Desc)
		if f.Optional {
			if f.Desc.Kind != shape.KindStated {
				p = anyOf(p, typed("null"))
			}
		} else {
			required = append(required, f.Name)
		}
		properties = append(properties, member(f.Name, s.described(fieldKey(d, f), p)))
	}
	v = v.With("properties", jsonv.Obj(properties...))
	if len(required) > 0 {
		v = v.With("required", texts(required))
	}
	if s.strict {
		v = v.With("additionalProperties", jsonv.Boolean(false))
	}
	return v
}

// fieldKey is where the comment of a field stands: in its type, or in the one that
// is embedded there.
func fieldKey(d *shape.Desc, f shape.Field) string {
	sf, ok := d.Go.FieldByName(f.Go)
	if !ok {
		return d.Name + "." + f.Go
	}
	owner := d.Go
	for _, i := range sf.Index[:len(sf.Index)-1] {
		owner = owner.Field(i).Type
	}
	return owner.Name() + "." + f.Go
}

func (s *schemer) sum(d *shape.Desc) jsonv.Value {
	var list []jsonv.Value
	var tags []string
	for _, m := range d.Variants {
		tag := jsonv.Obj(member("properties", jsonv.Obj(member(d.Tag, jsonv.Obj(member("const", jsonv.Str(m.Tag)))))), member("required", texts([]string{d.Tag})))
		one := s.of(m.Desc)
		if s.strict { // the tag stands among the fields
			one = s.inline(m.Desc)
			properties, _ := one.Get("properties")
			one = one.With("properties", properties.With(d.Tag, jsonv.Obj(member("const", jsonv.Str(m.Tag)))))
			list = append(list, one)
			continue
		}
		list = append(list, jsonv.Obj(member("allOf", jsonv.Arr(tag, one))))
		tags = append(tags, m.Tag)
	}
	if !s.strict {
		list = append(list, typed("object",
			member("properties", jsonv.Obj(member(d.Tag, typed("string", member("not", jsonv.Obj(member("enum", texts(tags)))))))),
			member("required", texts([]string{d.Tag}))))
	}
	return anyOf(list...)
}

const draft = "https://json-schema.org/draft/2020-12/schema"

// frameSchema is the schema of a frame: the envelope, and the body by the kind.
func frameSchema(t *testing.T) jsonv.Value {
	s := &schemer{docs: comments(t)}
	envelope := s.inline(shape.Of[wire.Frame]())
	var rules []jsonv.Value
	for _, k := range wire.Kinds() {
		var deliveries []string
		for _, d := range []wire.Delivery{wire.Replay, wire.Level, wire.Live} {
			if k.Delivers(d) {
				deliveries = append(deliveries, string(d))
			}
		}
		rules = append(rules, jsonv.Obj(
			member("if", jsonv.Obj(member("properties", jsonv.Obj(member("kind", jsonv.Obj(member("const", jsonv.Str(string(k))))))))),
			member("then", jsonv.Obj(member("properties", jsonv.Obj(
				member("delivery", jsonv.Obj(member("enum", texts(deliveries)))), member("body", s.of(shape.OfType(k.Body()))),
			)))),
		))
	}
	return jsonv.Obj(append([]jsonv.Member{
		member("$schema", jsonv.Str(draft)), member("title", jsonv.Str("A frame")),
	}, slices.Concat(fields(envelope), []jsonv.Member{member("allOf", jsonv.Arr(rules...)), member("$defs", jsonv.Obj(s.defs...))})...)...)
}

func fields(v jsonv.Value) (list []jsonv.Member) {
	for n, x := range v.Fields() {
		list = append(list, member(n, x))
	}
	return list
}

// messageSchema is the schemas of all requests, or of all answers, by their names.
func messageSchema(t *testing.T, request bool) jsonv.Value {
	s := &schemer{docs: comments(t), strict: request}
	for _, m := range messages() {
		if m.request == request {
			s.of(m.desc)
		}
	}
	title := map[bool]string{true: "The requests, by their names in $defs", false: "The answers, by their names in $defs"}[request]
	return jsonv.Obj(member("$schema", jsonv.Str(draft)), member("title", jsonv.Str(title)), member("$defs", jsonv.Obj(s.defs...)))
}

// indented is JSON for people: one field on a line, short values on one.
func indented(v jsonv.Value) []byte { return append(indent(nil, v, ""), '\n') }

func indent(dst []byte, v jsonv.Value, margin string) []byte {
	if v.Len() == 0 || len(margin)+len(v.Append(nil)) <= 120 {
		return v.Append(dst)
	}
	open, end := byte('{'), byte('}')
	if v.Kind() == jsonv.Array {
		open, end = '[', ']'
	}
	dst = append(dst, open)
	first := true
	part := func(name string, x jsonv.Value) {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, "\n  "+margin...)
		if v.Kind() == jsonv.Object {
			dst = append(jsonv.AppendString(dst, name), ": "...)
		}
		dst = indent(dst, x, margin+"  ")
	}
	for n, x := range v.Fields() {
		part(n, x)
	}
	for _, x := range v.Elems() {
		part("", x)
	}
	return append(dst, "\n"+margin+string(end)...)
}

func TestSchemasAreThoseOfTheTypes(t *testing.T) {
	generated(t, "schema/frame.json", indented(frameSchema(t)))
	generated(t, "schema/requests.json", indented(messageSchema(t, true)))
	generated(t, "schema/answers.json", indented(messageSchema(t, false)))
}

func definition(t *testing.T, schema jsonv.Value, name string) jsonv.Value {
	t.Helper()
	defs, _ := schema.Get("$defs")
	v, ok := defs.Get(name)
	if !ok {
		t.Fatalf("%s is not in the schema", name)
	}
	return v
}

// What a sender may send is what the schema allows, and what a decoder refuses of a
// request the schema refuses too.
func TestSchemasAgreeWithTheDecoders(t *testing.T) {
	frames := frameSchema(t)
	rapid.Check(t, func(t *rapid.T) {
		v := wiretest.SentFrame(rapid.SampledFrom(append(wire.Kinds(), "hologram")).Draw(t, "kind")).Draw(t, "frame")
		if faults := wiretest.Validate(frames, frames, v); len(faults) > 0 {
			t.Fatalf("%s\n%s", v, strings.Join(faults, "\n"))
		}
	})
	for _, m := range messages() {
		schema := messageSchema(t, m.request)
		def := definition(t, schema, m.name)
		t.Run(m.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				v := wiretest.Sent(m.desc, m.request).Draw(t, "sent")
				if faults := wiretest.Validate(schema, def, v); len(faults) > 0 {
					t.Fatalf("%s\n%s", v, strings.Join(faults, "\n"))
				}
				broken := wiretest.Spoilt(v).Draw(t, "spoilt")
				_, err := m.decode(broken.Append(nil))
				if err == nil && m.request && len(wiretest.Validate(schema, def, broken)) > 0 {
					t.Fatalf("the decoder takes what the schema does not: %s", broken)
				}
			})
		})
	}
}

// A schema that allows everything would agree with anything.
func TestSchemasRefuse(t *testing.T) {
	frames, requests := frameSchema(t), messageSchema(t, true)
	prompt := definition(t, requests, "Prompt")
	parse := func(s string) jsonv.Value {
		v, err := jsonv.ParseString(s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, text := range []string{
		`{}`, `[]`, `{"key":"k","text":""}`, `{"key":"k","text":7}`, `{"key":"k","text":"x","extra":1}`, `{"key":"k","text":"x","permissionMode":"yolo"}`,
		`{"key":"k","text":"x","maxTurns":0}`, `{"key":"k","text":"x","images":[{}]}`,
	} {
		if len(wiretest.Validate(requests, prompt, parse(text))) == 0 {
			t.Errorf("the schema takes %s", text)
		}
	}
	for _, text := range []string{
		`{}`, envelope + `{}}`, strings.Replace(envelope, `"replay"`, `"gossip"`, 1) + `{}}`, strings.Replace(envelope, `"id":"k"`, `"id":""`, 1) + `{}}`,
	} {
		if len(wiretest.Validate(frames, frames, parse(text))) == 0 {
			t.Errorf("the schema takes %s", text)
		}
	}
}

// Every named type of the contract says what it is, and every field that its name
// does not explain; the pages are made from that.
func TestEveryTypeSaysWhatItIs(t *testing.T) {
	docs := comments(t)
	seen := map[reflect.Type]bool{}
	var walk func(*shape.Desc)
	walk = func(d *shape.Desc) {
		if d == nil || seen[d.Go] {
			return
		}
		seen[d.Go] = true
		if d.Name != "" && d.Go.PkgPath() == "github.com/loom-run/loom/wire" && docs[d.Go.Name()] == "" {
			t.Errorf("%s has no comment", d.Go)
		}
		walk(d.Elem)
		for _, f := range d.Fields {
			walk(f.Desc)
		}
		for _, v := range d.Variants {
			walk(v.Desc)
		}
	}
	for _, k := range wire.Kinds() {
		walk(shape.OfType(k.Body()))
	}
	for _, m := range messages() {
		walk(m.desc)
	}
	if len(seen) < 100 {
		t.Fatalf("only %d types were found", len(seen))
	}
}
