package wire_test

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/shape"
)

// The reference page is made from the types, their comments and the tables of words.
const referencePage = "../docs/formats/wire-reference.md"

// page writes the reference.
type page struct {
	b     strings.Builder
	docs  map[string]string
	queue []*shape.Desc // named types that still need a section
	known []string
}

func (p *page) line(format string, args ...any) { fmt.Fprintf(&p.b, format+"\n", args...) }

// row is one row of a table.
func row(cells ...string) string {
	line := "|"
	for _, c := range cells {
		if c != "" {
			line += " " + strings.ReplaceAll(c, "|", `\|`)
		}
		line += " |"
	}
	return line
}

func anchor(name string) string { return "[" + name + "](#" + strings.ToLower(name) + ")" }

// typeOf is how a type stands in a table.
func (p *page) typeOf(d *shape.Desc) string {
	switch d.Kind {
	case shape.KindObject, shape.KindSum:
		if !slices.Contains(p.known, d.Name) {
			p.known = append(p.known, d.Name)
			p.queue = append(p.queue, d)
		}
		return anchor(d.Name)
	case shape.KindArray:
		return "array of " + p.typeOf(d.Elem)
	case shape.KindText:
		return p.textType(d)
	case shape.KindFlag:
		return "boolean"
	case shape.KindCount:
		if d.Min > 0 {
			return fmt.Sprintf("count from %d", d.Min)
		}
		return "count"
	case shape.KindStated:
		return "stated " + p.typeOf(d.Elem)
	case shape.KindAny:
		if d.Name != "" {
			return "object"
		}
	}
	return "any JSON"
}

func (p *page) textType(d *shape.Desc) string {
	switch {
	case d.Words != nil:
		for _, s := range words.Tables() {
			if s.Type() == d.Go {
				return "word: [" + d.Name + "](#" + strings.ToLower(d.Name) + "-words)"
			}
		}
		return "word: `" + strings.Join(d.Words, "`, `") + "`"
	case d.Format != "":
		return d.Format
	case d.Min == 1 && d.Max == wire.MaxWord:
		return "word"
	case d.Max >= 1<<20:
		return fmt.Sprintf("text, at most %d MiB", d.Max>>20)
	case d.Max > 0:
		return fmt.Sprintf("text, at most %d bytes", d.Max)
	case d.Min > 0:
		return "text, not empty"
	}
	return "text"
}

// table is the fields of an object.
func (p *page) table(d *shape.Desc) {
	if len(d.Fields) == 0 {
		p.line("No fields.\n")
		return
	}
	p.line("| field | type | there | meaning |\n|---|---|---|---|")
	for _, f := range d.Fields {
		there := "always"
		if f.Optional {
			there = "optional"
		}
		p.line("%s", row("`"+f.Name+"`", p.typeOf(f.Desc), there, p.docs[fieldKey(d, f)]))
	}
	p.line("")
}

// section is one named type.
func (p *page) section(d *shape.Desc) {
	p.line("### %s\n", d.Name)
	if doc := p.docs[d.Name]; doc != "" {
		p.line("%s\n", doc)
	}
	if d.Kind == shape.KindSum {
		p.line("One of these, by its `%s`. Another word is kept, and never read as one of them.\n", d.Tag)
		for _, v := range d.Variants {
			p.line("- `%s`: %s", v.Tag, p.typeOf(v.Desc))
		}
		p.line("")
		return
	}
	p.table(d)
}

// rest writes the sections of the types that were named so far, and of those that
// they name.
func (p *page) rest() {
	for len(p.queue) > 0 {
		batch := p.queue
		p.queue = nil
		slices.SortFunc(batch, func(a, b *shape.Desc) int { return strings.Compare(a.Name, b.Name) })
		for _, d := range batch {
			p.section(d)
		}
	}
}

func (p *page) frames() {
	p.line("## Frames\n")
	p.line("| kind | delivery | body |\n|---|---|---|")
	for _, k := range wire.Kinds() {
		var deliveries []string
		for _, d := range []wire.Delivery{wire.Replay, wire.Level, wire.Live} {
			if k.Delivers(d) {
				deliveries = append(deliveries, string(d))
			}
		}
		p.line("| `%s` | %s | %s |", k, strings.Join(deliveries, ", "), p.typeOf(shape.OfType(k.Body())))
	}
	p.line("")
	p.rest()
}

func (p *page) requests() {
	p.line("## Requests\n")
	p.line("| name | route | request | answer |\n|---|---|---|---|")
	for _, r := range wire.Routes() {
		request, answer := "", "the event stream"
		switch {
		case r.Request != nil:
			request = p.typeOf(shape.OfType(r.Request)) + fmt.Sprintf(", at most %s", size(r.Limit))
		case len(r.Query) > 0:
			request = "query `" + strings.Join(r.Query, "`, `") + "`"
		}
		if r.Answer != nil {
			answer = fmt.Sprintf("%d, %s", r.Status, p.typeOf(shape.OfType(r.Answer)))
		}
		p.line("%s", row("`"+r.Name+"`", "`"+r.Method+" "+wire.Prefix()+r.Path+"`", request, answer))
	}
	p.line("")
	p.line("### Errors\n")
	p.line("Every answer that is no success is an %s.\n", p.typeOf(shape.Of[wire.ErrorBody]()))
	p.line("| code | status | meaning |\n|---|---|---|")
	names := constants(p.docs, ".")
	for _, c := range wire.Codes() {
		p.line("%s", row("`"+string(c)+"`", fmt.Sprint(c.Status()), names["Code "+string(c)]))
	}
	p.line("")
	p.rest()
}

func size(n int64) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

func (p *page) words() {
	p.line("## Words\n")
	p.line("The closed sets, as `core/words` has them. A word that nothing mints yet is in the contract and comes from no engine of this build.\n")
	meanings := constants(p.docs, filepath.Join("..", "core", "words"))
	for _, s := range words.Tables() {
		name := s.Type().Name()
		p.line("### %s words\n", name)
		p.line("%s.\n", strings.ToUpper(s.Name()[:1])+s.Name()[1:])
		p.line("| word | meaning | minted by |\n|---|---|---|")
		for w, by := range s.Rows() {
			minted := strings.Join(by, ", ")
			if minted == "" {
				minted = "nothing yet"
			}
			note := meanings[name+" "+w]
			if name == "NoticeCode" {
				note += " (for the " + string(words.AudienceOf(words.NoticeCode(w))) + ")"
			}
			p.line("%s", row("`"+w+"`", strings.TrimSpace(note), minted))
		}
		p.line("")
	}
}

// constants are the comments of the typed string constants of a folder, by type and
// value.
func constants(docs map[string]string, dir string) map[string]string {
	found := map[string]string{}
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		panic(err)
	}
	for _, path := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			panic(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || len(v.Names) != 1 || len(v.Values) != 1 {
				return true
			}
			typ, typed := v.Type.(*ast.Ident)
			lit, literal := v.Values[0].(*ast.BasicLit)
			if typed && literal && lit.Kind == token.STRING {
				value := constant.StringVal(constant.MakeFromLiteral(lit.Value, lit.Kind, 0))
				found[typ.Name+" "+value] = docs[v.Names[0].Name]
			}
			return true
		})
	}
	return found
}

func reference(t *testing.T) string {
	p := &page{docs: comments(t)}
	p.line("# The wire: reference\n")
	p.line("Made from the types by `make docs`; [wire.md](wire.md) explains what it means, and the JSON Schemas stand in")
	p.line("[wire/schema](../../wire/schema/frame.json). *Count* is an integer from 0 to 2⁵³−1, *word* a text of 1 to 512 bytes, *optional* may be absent or null.")
	p.line("*Stated* T is absent (not stated), the text `none` (there is none), or T; what is none of these is unreadable, and stays apart from all three.\n")
	p.line("## The envelope\n")
	p.table(shape.Of[wire.Frame]())
	p.frames()
	p.requests()
	p.words()
	return p.b.String()
}

func TestTheReferenceIsThatOfTheTypes(t *testing.T) {
	generated(t, referencePage, []byte(reference(t)))
}

func TestTheReferenceIsWhole(t *testing.T) {
	text := reference(t)
	for _, k := range wire.Kinds() {
		if !strings.Contains(text, "| `"+string(k)+"` |") {
			t.Errorf("the kind %s is missing", k)
		}
	}
	for _, s := range words.Tables() {
		if !strings.Contains(text, "### "+s.Type().Name()+" words\n") {
			t.Errorf("the words of %s are missing", s.Type())
		}
	}
	for _, want := range []string{"| `rules_write` |", "| `key` | word | always |", "| `binding_mismatch` | 409 | the call or", "| `read_boundary` | the target lies", "stated [Roster](#roster)"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if !strings.Contains(text, "### Capabilities") {
		t.Error("the capabilities are missing")
	}
}
