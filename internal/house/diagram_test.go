package house

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	diagramFile  = "ARCHITECTURE.md"
	diagramOpen  = "```imports\n"
	diagramClose = "```\n"
)

// diagram draws the import graph, bottom up in floor order: one package a line, with what it imports of this module.
func diagram(l law, tr tree) string {
	floor := func(path string) int {
		if _, i := l.find(path); i >= 0 {
			return i
		}
		return len(l.rooms) // unknown to the law, which another test reports
	}
	byFloor := func(a, b string) int { return cmp.Or(cmp.Compare(floor(a), floor(b)), cmp.Compare(a, b)) }

	packages := slices.Clone(tr.Packages)
	slices.SortFunc(packages, func(a, b pkg) int { return byFloor(a.Path, b.Path) })
	var b strings.Builder
	for _, p := range packages {
		var inside []string
		for _, imp := range p.Imports {
			if rel, ok := tr.local(imp); ok {
				inside = append(inside, rel)
			}
		}
		slices.SortFunc(inside, byFloor)
		b.WriteString(p.Path)
		if len(inside) > 0 {
			b.WriteString(" -> " + strings.Join(inside, ", "))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// cutDiagram splits a document around its diagram.
func cutDiagram(doc string) (before, drawn, after string, err error) {
	before, rest, ok := strings.Cut(doc, diagramOpen)
	if !ok {
		return "", "", "", errors.New("the document has no block that opens with ```imports")
	}
	drawn, after, ok = strings.Cut(rest, diagramClose)
	if !ok {
		return "", "", "", errors.New("the block ```imports is not closed")
	}
	return before + diagramOpen, drawn, diagramClose + after, nil
}

func TestDiagramIsTheImportGraph(t *testing.T) {
	file := filepath.Join("..", "..", diagramFile)
	doc, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, drawn, after, err := cutDiagram(string(doc))
	if err != nil {
		t.Fatalf("%s: %v", diagramFile, err)
	}
	want := diagram(theLaw(t), theTree(t))
	if *update && drawn != want {
		if err := os.WriteFile(file, []byte(before+want+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if drawn != want {
		t.Errorf("the diagram in %s is stale; `make docs` rewrites it to:\n%s", diagramFile, want)
	}
}

func TestDiagramCanFail(t *testing.T) {
	l, tr := mustLaw(t, sampleLaw), sampleTree()
	want := "core/id\ncore/entry -> core/id\nstorage/kit -> core/id\nclient -> core/entry\n"
	if got := diagram(l, tr); got != want {
		t.Errorf("diagram:\n%s\nwant:\n%s", got, want)
	}
	tr.Packages[0].Imports = append(tr.Packages[0].Imports, "m.org/m/core/id")
	if got := diagram(l, tr); !strings.Contains(got, "client -> core/id, core/entry\n") {
		t.Errorf("a new arrow does not show:\n%s", got)
	}
	for _, doc := range []string{"no block", diagramOpen + "never closed"} {
		if _, _, _, err := cutDiagram(doc); err == nil {
			t.Errorf("document %q passed", doc)
		}
	}
	before, drawn, after, err := cutDiagram("a\n" + diagramOpen + "x -> y\n" + diagramClose + "b\n")
	if err != nil || before+drawn+after != "a\n"+diagramOpen+"x -> y\n"+diagramClose+"b\n" || drawn != "x -> y\n" {
		t.Errorf("cut %q | %q | %q, %v", before, drawn, after, err)
	}
}
