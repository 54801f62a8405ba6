package house

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A sealed sum is an interface with an unexported method: nobody outside its package can add a member. The linter's exhaustive check knows constants;
// it takes T and *T for two members where the methods have value receivers, so sums are checked here.

// checkedPackage is one package with its types.
type checkedPackage struct {
	fset  *token.FileSet
	files []*ast.File
	info  *types.Info
	pkg   *types.Package
}

// checkPackage types the sources of a package against what it imports.
func checkPackage(path string, sources map[string][]byte, imp types.Importer) (checkedPackage, error) {
	c := checkedPackage{fset: token.NewFileSet(), info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}}
	for name, src := range sources {
		f, err := parser.ParseFile(c.fset, name, src, parser.SkipObjectResolution)
		if err != nil {
			return c, err
		}
		c.files = append(c.files, f)
	}
	conf := types.Config{Importer: imp}
	var err error
	c.pkg, err = conf.Check(path, c.fset, c.files, c.info)
	return c, err
}

// sealedSum returns the named interface behind t when it is sealed and of this module.
func sealedSum(t types.Type, module string) (*types.Named, bool) {
	named, ok := types.Unalias(t).(*types.Named)
	if !ok || named.Obj().Pkg() == nil {
		return nil, false
	}
	home := named.Obj().Pkg().Path()
	iface, ok := named.Underlying().(*types.Interface)
	if !ok || home != module && !strings.HasPrefix(home, module+"/") {
		return nil, false
	}
	for m := range iface.Methods() {
		if !m.Exported() && m.Pkg() == named.Obj().Pkg() {
			return named, true
		}
	}
	return nil, false
}

// members returns the types of the sum's own package that belong to it: T where its values do, *T where only its pointers do.
func members(sum *types.Named) (out []types.Type) {
	iface := sum.Underlying().(*types.Interface)
	scope := sum.Obj().Pkg().Scope()
	for _, name := range scope.Names() {
		tn, ok := scope.Lookup(name).(*types.TypeName)
		if !ok || tn.IsAlias() || types.IsInterface(tn.Type()) {
			continue
		}
		if named, ok := tn.Type().(*types.Named); ok && named.TypeParams().Len() > 0 {
			continue
		}
		for _, t := range []types.Type{tn.Type(), types.NewPointer(tn.Type())} {
			if types.Implements(t, iface) {
				if declaresSeal(t, iface) {
					out = append(out, t)
				}
				break
			}
		}
	}
	return out
}

// declaresSeal tells whether t has the sealing methods by its own declaration. A struct that embeds a member has them too, without being one.
func declaresSeal(t types.Type, iface *types.Interface) bool {
	set := types.NewMethodSet(t)
	for m := range iface.Methods() {
		if m.Exported() {
			continue
		}
		if sel := set.Lookup(m.Pkg(), m.Name()); sel == nil || len(sel.Index()) != 1 {
			return false
		}
	}
	return true
}

// covers tells whether a case type takes a member: it is the member, a pointer to it, or an interface that it has.
func covers(c, member types.Type) bool {
	if types.Identical(c, member) || types.Identical(c, types.NewPointer(member)) {
		return true
	}
	iface, ok := c.Underlying().(*types.Interface)
	return ok && types.Implements(member, iface)
}

// sumFaults finds the type switches over sealed sums that leave a member out and say nothing about the rest.
func sumFaults(c checkedPackage, module string) (faults []string) {
	for _, f := range c.files {
		ast.Inspect(f, func(n ast.Node) bool {
			sw, ok := n.(*ast.TypeSwitchStmt)
			if !ok {
				return true
			}
			sum, ok := sealedSum(c.info.TypeOf(switched(sw)), module)
			if !ok {
				return true
			}
			var cases []types.Type
			hasDefault := false
			for _, s := range sw.Body.List {
				clause := s.(*ast.CaseClause)
				hasDefault = hasDefault || clause.List == nil
				for _, e := range clause.List {
					cases = append(cases, c.info.TypeOf(e))
				}
			}
			if hasDefault {
				return true
			}
			var missing []string
			for _, m := range members(sum) {
				if !slices.ContainsFunc(cases, func(c types.Type) bool { return covers(c, m) }) {
					missing = append(missing, types.TypeString(m, types.RelativeTo(sum.Obj().Pkg())))
				}
			}
			if len(missing) > 0 {
				at := c.fset.Position(sw.Pos())
				faults = append(faults, fmt.Sprintf("%s:%d: a switch over %s leaves out %s and has no default", at.Filename, at.Line, sum.Obj().Name(), strings.Join(missing, ", ")))
			}
			return true
		})
	}
	return faults
}

// switched returns the expression whose type is switched on.
func switched(sw *ast.TypeSwitchStmt) ast.Expr {
	var assert ast.Expr
	switch s := sw.Assign.(type) {
	case *ast.AssignStmt:
		assert = s.Rhs[0]
	case *ast.ExprStmt:
		assert = s.X
	}
	return assert.(*ast.TypeAssertExpr).X
}

// exportImporter imports what the Go command has compiled.
func exportImporter(t *testing.T) types.Importer {
	t.Helper()
	out, err := run("go", "list", "-e", "-export", "-deps", "-json=ImportPath,Export", "./...")
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p struct{ ImportPath, Export string }
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("%s is not compiled", path)
		}
		return os.Open(exports[path])
	})
}

func TestSwitchesOverSealedSumsAreTotal(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the module")
	}
	tr := theTree(t)
	imp := exportImporter(t)
	for _, p := range tr.Packages {
		native := map[string][]byte{}
		for _, f := range p.Native {
			src, err := os.ReadFile(filepath.Join(p.Dir, f))
			if err != nil {
				t.Fatal(err)
			}
			native[p.Path+"/"+f] = src
		}
		if len(native) == 0 {
			continue
		}
		c, err := checkPackage(tr.Module+"/"+p.Path, native, imp)
		if err != nil {
			t.Errorf("%s: %v", p.Path, err)
			continue
		}
		report(t, sumFaults(c, tr.Module))
	}
}

func TestTotalSwitchesCanFail(t *testing.T) {
	const sum = `package p
type Sum interface{ sum() }
type Sub interface{ Sum; Name() string }
type A struct{}
type B struct{ n int }
type C struct{}
func (A) sum() {}
func (A) Name() string { return "a" }
func (*B) sum() {}
func (*B) Name() string { return "b" }
func (C) sum() {}
type Holder struct{ C }
`
	for name, c := range map[string]struct {
		body string
		want []string
	}{
		"every member": {"switch s.(type) { case A: case *B: case C: }", nil},
		"every member, and one that only holds one": {"switch s.(type) { case A, *B, C: }", nil},
		"a pointer to a value":                      {"switch s.(type) { case *A, A: case *B: case *C: }", nil},
		"a part of the sum":                         {"switch x := s.(type) { case Sub: _ = x; case C: }", nil},
		"a default":                                 {"switch s.(type) { case A: default: }", nil},
		"a member left out":                         {"switch s.(type) { case A: case C: }", []string{"p.go:13: a switch over Sum leaves out *B"}},
		"two members left out":                      {"switch x := s.(type) { case nil: _ = x; case A: }", []string{"leaves out *B, C"}},
		"a switch in a literal":                     {"_ = func() { switch s.(type) { case A, *B: } }", []string{"leaves out C"}},
		"another type":                              {"switch any(s).(type) { case A: }", nil},
	} {
		t.Run(name, func(t *testing.T) {
			src := sum + "func f(s Sum) { " + c.body + " }\n"
			checked, err := checkPackage("m.org/m/p", map[string][]byte{"p.go": []byte(src)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			wantFaults(t, sumFaults(checked, "m.org/m"), c.want...)
			if c.want != nil {
				wantFaults(t, sumFaults(checked, "elsewhere.org/m"))
			}
		})
	}
}
