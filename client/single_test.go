package client_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/loom-run/loom/wire"
)

// census counts where the sources of folders say something: "lit NAME" is a composite
// literal of that type, "use PACKAGE.NAME" a name of another package, and "text TEXT"
// a string.
type census map[string][]string

func censusOf(t *testing.T, roots ...string) census {
	t.Helper()
	where := census{}
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && d.Name() == "testdata" {
				return fs.SkipDir
			}
			if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			where.take(path, f)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return where
}

func (c census) take(path string, f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			switch typ := n.Type.(type) {
			case *ast.SelectorExpr:
				c.add("lit "+typ.Sel.Name, path)
			case *ast.Ident:
				c.add("lit "+typ.Name, path)
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok {
				c.add("use "+x.Name+"."+n.Sel.Name, path)
			}
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
				c.add("text "+text, path)
			}
		}
		return true
	})
}

func (c census) add(what, path string) { c[what] = append(c[what], path) }

// faults are the places beside the one that is allowed. Each is a second decision,
// which drifts from the first.
func (c census) faults(places map[string]string) (out []string) {
	for _, what := range slices.Sorted(maps.Keys(places)) {
		files := slices.Compact(slices.Clone(c[what]))
		if !slices.Equal(files, []string{places[what]}) {
			out = append(out, what+" stands in "+strings.Join(files, ", ")+", not in "+places[what]+" alone")
		}
	}
	return out
}

// once is what is decided in one place.
var once = map[string]string{
	"lit Send": "project/segment.go", "lit Rest": "project/segment.go", "lit Nothing": "project/segment.go",
	"lit Replace": "project/segment.go", "lit Withhold": "project/segment.go", "lit Retract": "project/segment.go",
	"lit Proof": "plane/plane.go", "lit Transcript": "plane/plane.go", "lit Chrome": "plane/plane.go",
	// The one word that is no outage of the check that answers in a person's place.
	"use words.UndecidedContract": "say/gate.go",
	"use words.GateDenied":        "project/gate.go",
}

func TestEachVerdictHasOnePlace(t *testing.T) {
	c := censusOf(t, ".", "../host")
	for _, fault := range c.faults(once) {
		t.Error(fault)
	}
	if n := len(c["use words.UndecidedContract"]); n != 1 {
		t.Errorf("the exclusion is compared %d times", n)
	}
}

// TestAnApprovalIsReadByItsCauseAlone bans the reading of the field that the cause took
// the place of: with it a client would believe that it covers what it cannot.
func TestAnApprovalIsReadByItsCauseAlone(t *testing.T) {
	if files := censusOf(t, "say")["text settlement"]; len(files) > 0 {
		t.Errorf("a notice's settlement is read in %q", files)
	}
}

// TestPathsAreMintedByTheContract: who asks the server takes the path from the route.
func TestPathsAreMintedByTheContract(t *testing.T) {
	c := censusOf(t, ".", "../host", "../sdkmsg", "../wire/wireclient", "../internal/cli")
	for _, r := range wire.Routes() {
		for _, text := range []string{r.Path, wire.Prefix() + r.Path, wire.Prefix(), "/sessions/"} {
			if files := c["text "+text]; len(files) > 0 {
				t.Errorf("the path %q is written once more, in %q", text, files)
			}
		}
	}
}

func TestTheCensusSeesEachForm(t *testing.T) {
	const planted = `package p
import "words"
var a = plane.Send{}
var b = Send{}
var c = f(words.UndecidedContract, g(words.UndecidedContract))
// words.UndecidedContract in a comment is none, and neither is "settlement"
var d = struct{ S string ` + "`x:\"settlement\"`" + ` }{}
var e = "settlement"
`
	f, err := parser.ParseFile(token.NewFileSet(), "planted.go", planted, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	c := census{}
	c.take("planted.go", f)
	for what, n := range map[string]int{"lit Send": 2, "use words.UndecidedContract": 2, "text settlement": 1} {
		if len(c[what]) != n {
			t.Errorf("%s is seen %d times and not %d", what, len(c[what]), n)
		}
	}
	c["lit Send"] = append(c["lit Send"], "second.go")
	if got := c.faults(map[string]string{"lit Send": "planted.go"}); len(got) != 1 {
		t.Errorf("a second place gives %q", got)
	}
}
