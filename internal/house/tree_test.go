package house

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "rewrite testdata/imports.txt (tighter only) and the diagram of ARCHITECTURE.md")

// pkg is one package of this module as the Go command sees it. Path is relative to the module ("core/id").
type pkg struct {
	Path        string
	Dir         string
	Native      []string // non-test files of this platform, base names
	Files       []string // non-test files of every platform
	Imports     []string // of Files
	TestImports []string // of all test files, without Imports
	LoadError   string
}

// tree is the whole module.
type tree struct {
	Root     string
	Module   string
	Packages []pkg // by path
}

// listed is the part of `go list -json` that the laws need.
type listed struct {
	ImportPath, Dir, Name              string
	GoFiles, CgoFiles, IgnoredGoFiles  []string
	Imports, TestImports, XTestImports []string
	Module                             *struct{ Path, Dir string }
	Error                              *struct{ Err string }
}

var loadTree = sync.OnceValues(func() (tree, error) {
	// -e: a package that does not parse yet is one fault of one test, not the silence of all.
	out, err := run("go", "list", "-e", "-json", "./...")
	if err != nil {
		return tree{}, err
	}
	return parseTree(out)
})

// theTree returns the module's tree, read once for all tests of this package.
func theTree(t *testing.T) tree {
	t.Helper()
	tr, err := loadTree()
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// run executes a command in the module's root, without network for the Go command, and returns its standard output.
func run(name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "GOPROXY=off")
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, exit.Stderr)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return out, nil
}

func parseTree(list []byte) (tree, error) {
	var tr tree
	dec := json.NewDecoder(bytes.NewReader(list))
	for {
		var l listed
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return tree{}, fmt.Errorf("read go list: %w", err)
		}
		if l.Module == nil {
			return tree{}, fmt.Errorf("go list: %s belongs to no module", l.ImportPath)
		}
		tr.Root, tr.Module = l.Module.Dir, l.Module.Path
		p := pkg{
			Path:    strings.TrimPrefix(l.ImportPath, l.Module.Path+"/"),
			Dir:     l.Dir,
			Native:  slices.Concat(l.GoFiles, l.CgoFiles),
			Imports: l.Imports,
		}
		if l.Error != nil {
			p.LoadError = l.Error.Err
		}
		p.Files = slices.Clone(p.Native)
		for _, f := range l.IgnoredGoFiles {
			// Files of other platforms obey the same laws.
			imports, ok := foreignImports(filepath.Join(l.Dir, f), l.Name)
			if ok {
				p.Files = append(p.Files, f)
				p.Imports = append(p.Imports, imports...)
			}
		}
		p.Imports = tidy(p.Imports)
		p.TestImports = slices.DeleteFunc(tidy(slices.Concat(l.TestImports, l.XTestImports)), func(s string) bool {
			return slices.Contains(p.Imports, s) || s == l.ImportPath
		})
		slices.Sort(p.Files)
		tr.Packages = append(tr.Packages, p)
	}
	if len(tr.Packages) == 0 {
		return tree{}, errors.New("go list names no package")
	}
	slices.SortFunc(tr.Packages, func(a, b pkg) int { return cmp.Compare(a.Path, b.Path) })
	return tr, nil
}

// foreignImports returns what a file that this platform leaves out imports; ok is false for tests and for programs kept beside a package.
func foreignImports(path, name string) (imports []string, ok bool) {
	if strings.HasSuffix(path, "_test.go") {
		return nil, false
	}
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil || f.Name.Name != name {
		return nil, false
	}
	for _, s := range f.Imports {
		if p, err := strconv.Unquote(s.Path.Value); err == nil {
			imports = append(imports, p)
		}
	}
	return imports, true
}

func tidy(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return slices.Compact(s)
}

// local returns the import path relative to the module, and whether it is inside it.
func (tr tree) local(imp string) (string, bool) {
	return strings.CutPrefix(imp, tr.Module+"/")
}

// isStd tells a standard library path by its first element, which has no dot.
func isStd(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return !strings.Contains(first, ".")
}

// report fails the test with every fault, each on its own line.
func report(t *testing.T, faults []string) {
	t.Helper()
	for _, f := range faults {
		t.Error(f)
	}
}

// wantFaults checks that a planted fault was found: as many faults as parts, each holding its part.
func wantFaults(t *testing.T, faults []string, parts ...string) {
	t.Helper()
	if len(faults) != len(parts) {
		t.Fatalf("found %d faults, want %d:\n%s", len(faults), len(parts), strings.Join(faults, "\n"))
	}
	for i, part := range parts {
		if !strings.Contains(faults[i], part) {
			t.Errorf("fault %q does not speak of %q", faults[i], part)
		}
	}
}

func TestEveryPackageLoads(t *testing.T) {
	for _, p := range theTree(t).Packages {
		if p.LoadError != "" {
			t.Errorf("%s: %s", p.Path, p.LoadError)
		}
	}
}

func TestAPackageThatDoesNotLoadIsKept(t *testing.T) {
	tr, err := parseTree([]byte(`{"ImportPath":"m.org/m/a","Module":{"Path":"m.org/m","Dir":"/m"},"Error":{"Err":"a.go:1: syntax"}}
{"ImportPath":"m.org/m/b","Module":{"Path":"m.org/m","Dir":"/m"},"Imports":["fmt"],"XTestImports":["testing","fmt","m.org/m/b"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := tr.Packages[0]; got.Path != "a" || got.LoadError == "" {
		t.Errorf("first package is %+v, want a with its error", got)
	}
	if got := tr.Packages[1]; !slices.Equal(got.TestImports, []string{"testing"}) {
		t.Errorf("test imports of b are %q, want only testing", got.TestImports)
	}
	if _, err := parseTree(nil); err == nil {
		t.Error("an empty listing passed")
	}
}
