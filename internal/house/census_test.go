package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/words"
)

// The census of words: every word of core/words is minted by the packages that its row names, and by no other. Who mints is the engine side, the server
// and the composition root; a client reads words and mints none.

const wordsPackage = "core/words"

// mints tells whether a package is one of those whose words are counted.
func mints(r room) bool {
	return r.path != wordsPackage && !r.is("testkit") && (r.side == "ground" || r.side == "engine" || r.side == "server" || r.path == "node")
}

// wordConstants are the constants of core/words by name: the type and the word.
func wordConstants(fset *token.FileSet, sources map[string][]byte) (map[string]wordOf, error) {
	found := map[string]wordOf{}
	for name, src := range sources {
		f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			gen, ok := d.(*ast.GenDecl)
			if !ok || gen.Tok != token.CONST {
				continue
			}
			for _, s := range gen.Specs {
				v, ok := s.(*ast.ValueSpec)
				if !ok || len(v.Names) != 1 || len(v.Values) != 1 {
					continue
				}
				typ, typed := v.Type.(*ast.Ident)
				lit, literal := v.Values[0].(*ast.BasicLit)
				if !typed || !literal || lit.Kind != token.STRING {
					continue
				}
				word, err := strconv.Unquote(lit.Value)
				if err != nil {
					return nil, err
				}
				found[v.Names[0].Name] = wordOf{typ.Name, word}
			}
		}
	}
	return found, nil
}

type wordOf struct{ typ, word string }

// spoken are the names of core/words that a file of another package refers to.
func spoken(name string, src []byte, wordsPath string) (names []string, err error) {
	f, err := parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	local := ""
	for _, s := range f.Imports {
		if path, _ := strconv.Unquote(s.Path.Value); path == wordsPath {
			local = "words"
			if s.Name != nil {
				local = s.Name.Name
			}
		}
	}
	if local == "" {
		return nil, nil
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == local {
				names = append(names, sel.Sel.Name)
			}
		}
		return true
	})
	return names, nil
}

// tellingLiterals are the string literals of a file that are words of a table and could be nothing else: those of two parts. One that stands for
// something else is in literalExceptions.
func tellingLiterals(name string, src []byte, all map[wordOf]bool) (out []string, err error) {
	f, err := parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for w := range all {
		known[w.word] = true
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil && strings.Contains(s, "_") && known[s] {
				out = append(out, s)
			}
		}
		return true
	})
	return out, nil
}

// literalExceptions are strings that look like a word of a table and are another thing, with what they are.
var literalExceptions = map[string]string{
	"tools timed_out":   "a field of a command's details",
	"machine max_turns": "the code of a failed run, which is another set than the limits of a blocked one",
}

// censusFaults compares what the rows say with who speaks.
func censusFaults(rows map[wordOf][]string, speakers map[wordOf][]string) (faults []string) {
	for w, by := range rows {
		for _, p := range by {
			if !slices.Contains(speakers[w], p) {
				faults = append(faults, fmt.Sprintf("the row of %s %q says that %s mints it, and its code does not", w.typ, w.word, p))
			}
		}
	}
	for w, by := range speakers {
		for _, p := range by {
			if !slices.Contains(rows[w], p) {
				faults = append(faults, fmt.Sprintf("%s mints %s %q, and its row does not say so", p, w.typ, w.word))
			}
		}
	}
	slices.Sort(faults)
	return faults
}

func TestEveryWordIsMintedWhereItsTableSays(t *testing.T) {
	tr, l := theTree(t), theLaw(t)
	i := slices.IndexFunc(tr.Packages, func(p pkg) bool { return p.Path == wordsPackage })
	if i < 0 {
		t.Fatal("there is no " + wordsPackage)
	}
	constants, err := wordConstants(token.NewFileSet(), sources(t, tr.Packages[i]))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[wordOf][]string{}
	for _, s := range words.Tables() {
		for w, by := range s.Rows() {
			rows[wordOf{s.Type().Name(), w}] = by
		}
	}
	all := map[wordOf]bool{}
	for _, w := range constants {
		all[w] = true
	}
	speakers := map[wordOf][]string{}
	for _, p := range tr.Packages {
		r, at := l.find(p.Path)
		if at < 0 || !mints(r) {
			continue
		}
		for _, f := range p.Files {
			src, err := os.ReadFile(filepath.Join(p.Dir, f))
			if err != nil {
				t.Fatal(err)
			}
			names, err := spoken(f, src, tr.Module+"/"+wordsPackage)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				if w, ok := constants[name]; ok && !slices.Contains(speakers[w], p.Path) {
					speakers[w] = append(speakers[w], p.Path)
				}
			}
			literals, err := tellingLiterals(f, src, all)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range literals {
				if _, ok := literalExceptions[p.Path+" "+s]; !ok {
					t.Errorf("%s/%s writes %q out: take the constant of %s, or say in literalExceptions what it is", p.Path, f, s, wordsPackage)
				}
			}
		}
	}
	report(t, censusFaults(rows, speakers))
	if len(slices.Collect(maps.Keys(speakers))) == 0 {
		t.Error("nobody mints a word: the census reads nothing")
	}
}

func TestTheCensusCanFail(t *testing.T) {
	const source = "package words\n\ntype Cause string\n\nconst (\n\tCauseDone Cause = \"done_well\"\n\tCauseGone Cause = \"gone\"\n)\n\nconst other = 3\n"
	constants, err := wordConstants(token.NewFileSet(), map[string][]byte{"w.go": []byte(source)})
	if err != nil {
		t.Fatal(err)
	}
	done, gone := wordOf{"Cause", "done_well"}, wordOf{"Cause", "gone"}
	if len(constants) != 2 || constants["CauseDone"] != done || constants["CauseGone"] != gone {
		t.Fatalf("constants: %v", constants)
	}
	for form, src := range map[string]string{
		"a call":         "package p\n\nimport \"m/core/words\"\n\nvar _ = f(words.CauseDone)\n",
		"a named import": "package p\n\nimport w \"m/core/words\"\n\nvar x = [...]w.Cause{w.CauseDone}\n",
		"a conversion":   "package p\n\nimport \"m/core/words\"\n\nconst c = string(words.CauseDone)\n",
	} {
		names, err := spoken("p.go", []byte(src), "m/core/words")
		if err != nil || !slices.Contains(names, "CauseDone") {
			t.Errorf("%s: %v %v", form, names, err)
		}
	}
	if names, err := spoken("p.go", []byte("package p\n\nimport \"m/other/words\"\n\nvar _ = words.CauseDone\n"), "m/core/words"); err != nil || len(names) != 0 {
		t.Errorf("another package of that name: %v %v", names, err)
	}
	literals, err := tellingLiterals("p.go", []byte("package p\n\nvar a, b = \"done_well\", \"gone\"\n"), map[wordOf]bool{done: true, gone: true})
	if err != nil || !slices.Equal(literals, []string{"done_well"}) {
		t.Errorf("literals: %v %v", literals, err)
	}
	wantFaults(t, censusFaults(map[wordOf][]string{done: {"machine"}, gone: nil}, map[wordOf][]string{done: {"machine"}}))
	wantFaults(t, censusFaults(map[wordOf][]string{done: {"machine"}}, nil), "says that machine mints it")
	wantFaults(t, censusFaults(map[wordOf][]string{done: {"machine"}}, map[wordOf][]string{done: {"machine", "server"}}), "server mints Cause")
	wantFaults(t, censusFaults(nil, map[wordOf][]string{gone: {"server"}}), "its row does not say so")
}
