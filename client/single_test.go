package client_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEachVerdictHasOnePlace holds that what is decided once is decided in one
// place: a second composite literal of a verdict, or of a proof, would be a second
// decision that drifts.
func TestEachVerdictHasOnePlace(t *testing.T) {
	where := map[string][]string{}
	for _, root := range []string{".", "../host"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			src, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, src, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				lit, ok := n.(*ast.CompositeLit)
				if !ok {
					return true
				}
				name := ""
				switch typ := lit.Type.(type) {
				case *ast.SelectorExpr:
					name = typ.Sel.Name
				case *ast.Ident:
					name = typ.Name
				}
				if !slices.Contains(where[name], path) {
					where[name] = append(where[name], path)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, verdict := range []string{"Send", "Rest", "Nothing", "Replace", "Withhold", "Retract"} {
		if got := where[verdict]; !slices.Equal(got, []string{"project/segment.go"}) {
			t.Errorf("the verdict %s is made in %v, not in project/segment.go alone", verdict, got)
		}
	}
	for _, made := range []string{"Proof", "Transcript", "Chrome"} {
		if got := where[made]; !slices.Equal(got, []string{"plane/plane.go"}) {
			t.Errorf("a %s is made in %v, not in plane/plane.go alone", made, got)
		}
	}
}
