package cases

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// outcome is a testing.TB that records how Dir ended instead of ending the test that watches it.
type outcome struct {
	testing.TB
	skipped, failed string
}

func (o *outcome) Helper() {}

func (o *outcome) Skipf(format string, args ...any) {
	o.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (o *outcome) Fatalf(format string, args ...any) {
	o.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// ask calls Dir as a test in folder wd would, and returns the folder and how it ended.
func ask(t *testing.T, wd string) (string, *outcome) {
	t.Helper()
	t.Chdir(wd)
	o := &outcome{TB: t}
	var dir string
	done := make(chan struct{})
	go func() {
		defer close(done)
		dir = Dir(o)
	}()
	<-done
	return dir, o
}

// checkout makes PARENT/repo/go.mod with a package folder below it and returns the parent and the package folder.
func checkout(t *testing.T) (parent, pkg string) {
	t.Helper()
	parent, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pkg = filepath.Join(parent, "repo", "core", "id")
	if err := os.MkdirAll(pkg, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(parent, "repo", "go.mod"), []byte("module x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return parent, pkg
}

func TestCasesBesideTheRepositoryAreFoundFromAnyPackage(t *testing.T) {
	t.Setenv(Env, "")
	parent, pkg := checkout(t)
	want := filepath.Join(parent, "shared", "cases")
	if err := os.MkdirAll(want, 0o755); err != nil {
		t.Fatal(err)
	}
	got, o := ask(t, pkg)
	if got != want || o.skipped != "" || o.failed != "" {
		t.Fatalf("Dir = %q (skipped %q, failed %q), want %q", got, o.skipped, o.failed, want)
	}
}

func TestAbsentCasesSkipAndNameTheVariable(t *testing.T) {
	t.Setenv(Env, "")
	_, pkg := checkout(t)
	_, o := ask(t, pkg)
	if o.failed != "" || !strings.Contains(o.skipped, Env) {
		t.Fatalf("skipped %q, failed %q; want a skip that names %s", o.skipped, o.failed, Env)
	}
}

func TestANamedFolderWinsAndAWrongNameFails(t *testing.T) {
	parent, pkg := checkout(t)
	t.Setenv(Env, parent)
	if got, o := ask(t, pkg); got != parent {
		t.Fatalf("Dir = %q (skipped %q, failed %q), want %q", got, o.skipped, o.failed, parent)
	}
	t.Setenv(Env, filepath.Join(parent, "absent"))
	if got, o := ask(t, pkg); o.failed == "" {
		t.Fatalf("Dir = %q (skipped %q) for a folder that is not there, want a failure", got, o.skipped)
	}
}
