package plane_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/loom-run/loom/client/plane"
)

// TestNobodyElseMakesAProof compiles a package that tries: each of its marked lines is
// refused by the compiler, and no other.
func TestNobodyElseMakesAProof(t *testing.T) {
	if runtime.GOOS == "js" {
		t.Skip("there is no compiler in this build; the native one compares")
	}
	dir := filepath.Join("testdata", "faults", "forged")
	source, err := os.ReadFile(filepath.Join(dir, "forged.go"))
	if err != nil {
		t.Fatal(err)
	}
	var want []int
	for n, line := range strings.Split(string(source), "\n") {
		if strings.HasSuffix(line, "// refused") {
			want = append(want, n+1)
		}
	}
	out, err := exec.CommandContext(t.Context(), "go", "build", "-gcflags=-e", "./"+filepath.ToSlash(dir)).CombinedOutput() //nolint:gosec // the folder above
	if err == nil {
		t.Fatal("it compiles")
	}
	var got []int
	for _, m := range regexp.MustCompile(`forged\.go:(\d+):`).FindAllStringSubmatch(string(out), -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, n)
	}
	got = slices.Compact(got)
	if len(want) < 10 || !slices.Equal(got, want) {
		t.Errorf("the lines %v are refused, and not %v:\n%s", got, want, out)
	}
}

// TestOnlyAWatchGivesAProof looks at the fields of what is a proof, and at all that the
// package lets out: a proof comes from a watch, or from an output that has one.
func TestOnlyAWatchGivesAProof(t *testing.T) {
	for _, typ := range []reflect.Type{reflect.TypeFor[plane.Proof](), reflect.TypeFor[plane.Transcript](), reflect.TypeFor[plane.Chrome]()} {
		for i := range typ.NumField() {
			if typ.Field(i).IsExported() {
				t.Errorf("%s.%s can be written by anybody", typ, typ.Field(i).Name)
			}
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Type.Results != nil && mentions(d.Type.Results, "Proof") {
					got = append(got, receiver(d)+d.Name.Name)
				}
			case *ast.GenDecl:
				if d.Tok == token.VAR && mentions(d, "Proof") {
					got = append(got, "a variable")
				}
			}
		}
	}
	slices.Sort(got)
	if want := []string{"Chrome.Proof", "Transcript.Proof", "Watch.Prove", "Watch.Self"}; !slices.Equal(got, want) {
		t.Errorf("proofs come from %v, and not from %v alone", got, want)
	}
}

func mentions(n ast.Node, name string) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		x, ok := n.(*ast.Ident)
		found = found || ok && x.Name == name
		return true
	})
	return found
}

func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	if x, ok := d.Recv.List[0].Type.(*ast.Ident); ok {
		return x.Name + "."
	}
	return "?."
}
