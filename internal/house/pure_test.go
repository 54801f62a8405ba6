package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pureStd is all of the standard library that a pure package may import: values and text, nothing that reaches a clock, a file, a socket or a source
// of randomness by its nature. What is reached by a call is in impureCalls.
var pureStd = []string{
	"bufio", "bytes", "cmp", "container/heap", "container/list", "context",
	"crypto/hmac", "crypto/sha256", "crypto/sha512", "crypto/subtle",
	"embed", "encoding", "encoding/base32", "encoding/base64", "encoding/binary", "encoding/hex", "encoding/json",
	"errors", "fmt", "hash", "hash/crc32", "hash/fnv", "html", "io", "iter", "maps", "math", "math/big", "math/bits", "mime",
	"net/url", // parses and prints, dials nothing
	"path", "reflect", "regexp", "slices", "sort", "strconv", "strings", "sync", "sync/atomic", "text/tabwriter", "text/template", "time",
	"unicode", "unicode/utf16", "unicode/utf8", "unique",
}

// impureCalls are the names that reach out of a package that pureStd allows.
var impureCalls = map[string][]string{
	"time":    {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Local", "LoadLocation"},
	"context": {"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause", "AfterFunc"},
	"fmt":     {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
}

// pureExceptions are files of pure packages that may start goroutines and hold timers, with the reason.
var pureExceptions = map[string]string{
	"client/run.go": "client.Run is the one driver of the client runtime: it holds the timers and races that Step decides about, through its ports",
}

// purityFaults checks one file of a pure package; name is its path in the module.
func purityFaults(name string, src []byte) (faults []string) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}
	}
	_, excepted := pureExceptions[name]
	fault := func(n ast.Node, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%s:%d: %s", name, fset.Position(n.Pos()).Line, fmt.Sprintf(format, args...)))
	}

	names := map[string]string{} // how this file calls an import → its path
	for _, s := range f.Imports {
		imp, err := strconv.Unquote(s.Path.Value)
		if err != nil {
			fault(s, "import path %s: %v", s.Path.Value, err)
			continue
		}
		if isStd(imp) && !slices.Contains(pureStd, imp) {
			fault(s, "a pure package imports %s", imp)
		}
		local := path.Base(imp)
		if s.Name != nil {
			local = s.Name.Name
		}
		if local == "." {
			fault(s, "a dot import hides where names come from")
		}
		names[local] = imp
	}
	if excepted {
		return faults
	}

	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			fault(n, "a pure package starts a goroutine")
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if !ok {
				break
			}
			imp, imported := names[x.Name]
			if imported && slices.Contains(impureCalls[imp], n.Sel.Name) {
				fault(n, "a pure package uses %s.%s", imp, n.Sel.Name)
			}
			if !imported && n.Sel.Name == "Go" {
				fault(n, "a pure package starts a goroutine through %s.Go", x.Name)
			}
		}
		return true
	})
	return faults
}

func TestPurePackagesStartNothingAndReachNothing(t *testing.T) {
	tr, l := theTree(t), theLaw(t)
	for _, p := range tr.Packages {
		if r, _ := l.find(p.Path); !r.is("pure") {
			continue
		}
		for _, f := range p.Files {
			src, err := os.ReadFile(filepath.Join(p.Dir, f))
			if err != nil {
				t.Fatal(err)
			}
			report(t, purityFaults(p.Path+"/"+f, src))
		}
	}
}

func TestPurityCanFail(t *testing.T) {
	clean := "package p\nimport \"time\"\nfunc f(t time.Time) int64 { return t.Add(time.Second).UnixMilli() }\n"
	wantFaults(t, purityFaults("core/p/p.go", []byte(clean)))

	for src, want := range map[string]string{
		`package p; import "os"; var _ = os.Args`:                                              "imports os",
		`package p; import "net/http"; var _ http.Header`:                                      "imports net/http",
		`package p; import "math/rand/v2"; var _ = rand.Int`:                                   "imports math/rand/v2",
		`package p; import "crypto/rand"; var _ = rand.Reader`:                                 "imports crypto/rand",
		`package p; import "log/slog"; var _ = slog.Info`:                                      "imports log/slog",
		`package p; import "time"; var now = time.Now`:                                         "uses time.Now",
		`package p; import clock "time"; func f() { clock.Sleep(1) }`:                          "uses time.Sleep",
		`package p; import . "time"; var now = Now`:                                            "dot import",
		`package p; import "context"; func f(c context.Context) { context.WithTimeout(c, 1) }`: "uses context.WithTimeout",
		`package p; import "fmt"; func f() { fmt.Println() }`:                                  "uses fmt.Println",
		`package p; func f() { go f() }`:                                                       "starts a goroutine",
		`package p; import "sync"; func f() { var wg sync.WaitGroup; wg.Go(f) }`:               "through wg.Go",
		`package p; func f( {`:                                                                 "expected",
	} {
		faults := purityFaults("core/p/p.go", []byte(src))
		if len(faults) == 0 || !strings.Contains(faults[0], want) {
			t.Errorf("%s\nfaults %q, want one that says %q", src, faults, want)
		}
	}

	run := `package client; import ("time"; "os"); func Run() { go Run(); time.Sleep(1); os.Exit(1) }`
	wantFaults(t, purityFaults("client/run.go", []byte(run)), "imports os")
}

func TestPurePackagesBuildForWasm(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the pure packages for another platform; make wasm does it too")
	}
	tr, l := theTree(t), theLaw(t)
	args := []string{"GOOS=js", "GOARCH=wasm", "go", "build"}
	for _, p := range tr.Packages {
		if r, _ := l.find(p.Path); r.is("pure") && len(p.Files) > 0 {
			args = append(args, tr.Module+"/"+p.Path)
		}
	}
	if len(args) == 4 {
		t.Fatal("no package is marked pure")
	}
	if _, err := run("env", args...); err != nil {
		t.Error(err)
	}
}

func TestTheWasmBuildCanFail(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the compiler")
	}
	// A file that only other platforms have: native builds pass, js/wasm finds no declaration.
	dir := t.TempDir()
	for name, src := range map[string]string{
		"go.mod":     "module planted\n\ngo 1.26.0\n",
		"p.go":       "package planted\n\nvar _ = hidden\n",
		"q_linux.go": "package planted\n\nconst hidden = 1\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(src), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := run("env", "GOOS=js", "GOARCH=wasm", "go", "-C", dir, "build", "./..."); err == nil {
		t.Error("a package that js/wasm cannot build passed")
	}
}
