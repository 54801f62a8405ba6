package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// coverageFiles are the tables that say what is named, where it is and what shows it.
var coverageFiles = []string{"docs/core-coverage.md", clientCoverage, machineCoverage}

const machineCoverage = "docs/machine-coverage.md"

var (
	// goName is a name of this module in a coverage table: the package by its path, then an exported name, or a method or field of one.
	goName   = regexp.MustCompile(`^([a-z][a-z0-9]*(?:/[a-z][a-z0-9]*)*)\.([A-Z]\w*(?:\.[A-Z]\w*)?)$`)
	codeSpan = regexp.MustCompile("`([^`]*)`")
	testFunc = regexp.MustCompile(`^(Test|Fuzz|Benchmark)[A-Z]`)
)

// reasons are the words that a cell without a name begins with; what follows has to be a sentence.
var reasons = []string{"missing: ", "later: ", "settled: "}

// declared are the names that files declare at their top level, with the methods and fields of types.
func declared(files ...*ast.File) map[string]bool {
	names := map[string]bool{}
	for _, f := range files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				names[receiver(d)+d.Name.Name] = true
			case *ast.GenDecl:
				for _, s := range d.Specs {
					declare(names, s)
				}
			}
		}
	}
	return names
}

// receiver is "T." for a method of T or *T.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return ""
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.Ident:
			return x.Name + "."
		default:
			return ""
		}
	}
}

func declare(names map[string]bool, s ast.Spec) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			names[n.Name] = true
		}
	case *ast.TypeSpec:
		names[s.Name.Name] = true
		var members *ast.FieldList
		switch t := s.Type.(type) {
		case *ast.StructType:
			members = t.Fields
		case *ast.InterfaceType:
			members = t.Methods
		default:
			return
		}
		for _, m := range members.List {
			for _, n := range m.Names {
				names[s.Name.Name+"."+n.Name] = true
			}
		}
	}
}

// vocabulary is what each package declares, in its files and in its tests.
type vocabulary struct{ code, tests map[string]map[string]bool }

// coverageFaults checks every table row of the document: a Go name that exists or a reason, and a test that exists wherever there is a Go name.
func coverageFaults(file, doc string, v vocabulary) (faults []string) {
	rows := 0
	for n, line := range strings.Split(doc, "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| named |") {
			continue
		}
		rows++
		bad := func(format string, args ...any) {
			faults = append(faults, fmt.Sprintf("%s:%d: %s", file, n+1, fmt.Sprintf(format, args...)))
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 4 {
			bad("%d cells, want 4", len(cells))
			continue
		}
		here, shown := strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])
		kind := slices.IndexFunc(reasons, func(r string) bool { return strings.HasPrefix(here, r) && len(here) > len(r)+8 })
		names := resolve(here, v.code, func(name string) { bad("nothing is called %s", name) })
		tests := resolve(shown, v.tests, func(name string) { bad("no test is called %s", name) })
		switch {
		case strings.TrimSpace(cells[0]) == "":
			bad("names nothing")
		case kind < 0 && names == 0:
			bad("%q is neither a Go name nor a reason", here)
		case kind >= 0 && kind < 2 && names > 0:
			bad("%q is there, so it is not missing", here)
		case tests == 0 && (kind < 0 || reasons[kind] == "settled: "):
			bad("no test shows it")
		}
	}
	if rows == 0 {
		faults = append(faults, file+" has no row that reads as one")
	}
	return faults
}

// resolve counts the code spans of a cell that are in words, and reports the others.
func resolve(cell string, words map[string]map[string]bool, unknown func(string)) (found int) {
	for _, span := range codeSpan.FindAllStringSubmatch(cell, -1) {
		m := goName.FindStringSubmatch(span[1])
		switch {
		case m == nil && !strings.Contains(span[1], "."):
			continue // a package or a word
		case m == nil || !words[m[1]][m[2]]:
			unknown(span[1])
		default:
			found++
		}
	}
	return found
}

// theVocabulary reads the whole tree.
func theVocabulary(t *testing.T) vocabulary {
	t.Helper()
	v := vocabulary{map[string]map[string]bool{}, map[string]map[string]bool{}}
	fset := token.NewFileSet()
	for _, p := range theTree(t).Packages {
		paths, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		var code, tests []*ast.File
		for _, path := range paths {
			f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(path, "_test.go") {
				tests = append(tests, f)
			} else {
				code = append(code, f)
			}
		}
		v.code[p.Path], v.tests[p.Path] = declared(code...), declared(tests...)
		for name := range v.tests[p.Path] {
			if !testFunc.MatchString(name) {
				delete(v.tests[p.Path], name)
			}
		}
	}
	return v
}

func TestCoverageNamesWhatExists(t *testing.T) {
	v := theVocabulary(t)
	for _, file := range coverageFiles {
		report(t, coverageFaults(file, string(readTracked(t, file)), v))
	}
}

// unmentioned are the kinds of commit that a document of the machine does not name.
func unmentioned(doc string, machine map[string]bool) (faults []string) {
	for name := range machine {
		if stepName.MatchString(name) && !strings.Contains(doc, "`machine."+name+"`") {
			faults = append(faults, name+" has no row")
		}
	}
	slices.Sort(faults)
	return faults
}

var stepName = regexp.MustCompile(`^Step[A-Z]\w*$`)

func TestEveryKindOfCommitHasARow(t *testing.T) {
	report(t, unmentioned(string(readTracked(t, machineCoverage)), theVocabulary(t).code["machine"]))
	wantFaults(t, unmentioned("| `machine.StepStart` |", map[string]bool{"StepStart": true, "StepPoll": true, "Step": true, "Steps": true}), "StepPoll has no row")
}

func TestCoverageCanFail(t *testing.T) {
	src := "package id\n\ntype ID struct{ Raw int }\n\nfunc (i *ID) Time() int { return 0 }\n\ntype Source interface{ Next() ID }\n\nconst Max = 3\n\nfunc Parse() {}\n"
	f, err := parser.ParseFile(token.NewFileSet(), "id.go", src, 0)
	if err != nil {
		t.Fatal(err)
	}
	v := vocabulary{
		code:  map[string]map[string]bool{"core/id": declared(f)},
		tests: map[string]map[string]bool{"core/id": {"TestParse": true}},
	}
	const head = "| named | here | shown by | note |\n|---|---|---|---|\n"
	wantFaults(t, coverageFaults("c.md", head+"| ids | `core/id.ID` `core/id.ID.Raw` `core/id.ID.Time` `core/id.Source.Next` `core/id.Max` `core/id.Parse` | `core/id.TestParse` | |\n"+
		"| erasing | later: another step does it | | |\n| plans | settled: another way, by `words` | `core/id.TestParse` | |\n", v))
	for row, want := range map[string]string{
		"| ids | `core/id.Gone` | `core/id.TestParse` | |":    "nothing is called core/id.Gone",
		"| ids | `core/id.ID.Gone` | `core/id.TestParse` | |": "nothing is called core/id.ID.Gone",
		"| ids | `core/gone.ID` | `core/id.TestParse` | |":    "nothing is called core/gone.ID",
		"| ids | `core/id.ID` | `core/id.TestGone` | |":       "no test is called core/id.TestGone",
		"| ids | `core/id.ID` | `core/id.ID` | |":             "no test is called core/id.ID",
		"| ids | `core/id.ID` | | |":                          "no test shows it",
		"| ids | | `core/id.TestParse` | |":                   "neither a Go name nor a reason",
		"| ids | missing: | | |":                              "neither a Go name nor a reason",
		"| ids | settled: in another way | | |":               "no test shows it",
		"| ids | missing: `core/id.ID` is not here | | |":     "so it is not missing",
		"| | `core/id.ID` | `core/id.TestParse` | |":          "names nothing",
		"| ids | `core/id.ID` | `core/id.TestParse` |":        "3 cells",
		"no table": "has no row",
	} {
		if faults := coverageFaults("c.md", head+row+"\n", v); !strings.Contains(strings.Join(faults, "\n"), want) {
			t.Errorf("%s: %v, want %q", row, faults, want)
		}
	}
}
