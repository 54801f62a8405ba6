package wire_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// sourceComments are the comments of this package and of core/words: what a type, a
// field, a constant or a variable means is said in the code, once. Keys are Type,
// Type.Field and the names of constants.
var sourceComments = sync.OnceValues(func() (map[string]string, error) {
	found := map[string]string{}
	for _, dir := range []string{".", filepath.Join("..", "core", "words")} {
		paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			for _, d := range f.Decls {
				if gen, ok := d.(*ast.GenDecl); ok {
					for _, s := range gen.Specs {
						noteSpec(found, gen, s)
					}
				}
			}
		}
	}
	return found, nil
})

func noteSpec(found map[string]string, gen *ast.GenDecl, s ast.Spec) {
	switch s := s.(type) {
	case *ast.TypeSpec:
		doc := s.Doc
		if doc == nil && len(gen.Specs) == 1 {
			doc = gen.Doc
		}
		found[s.Name.Name] = prose(doc)
		if st, ok := s.Type.(*ast.StructType); ok {
			for _, f := range st.Fields.List {
				for _, n := range f.Names {
					found[s.Name.Name+"."+n.Name] = prose(f.Doc, f.Comment)
				}
			}
		}
	case *ast.ValueSpec:
		for _, n := range s.Names {
			found[n.Name] = prose(s.Doc, s.Comment)
		}
	}
}

// prose is the text of comments on one line, without the marks of links.
func prose(groups ...*ast.CommentGroup) string {
	var parts []string
	for _, g := range groups {
		if text := strings.Join(strings.Fields(g.Text()), " "); text != "" {
			parts = append(parts, strings.NewReplacer("[", "", "]", "").Replace(text))
		}
	}
	return strings.Join(parts, " ")
}

// comments returns the comments of the source.
func comments(t *testing.T) map[string]string {
	t.Helper()
	found, err := sourceComments()
	if err != nil {
		t.Fatal(err)
	}
	return found
}
