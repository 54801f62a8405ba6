// Package cases finds the real inputs that tests read but the repository does not hold.
//
// # Purpose
//
// Recorded sessions, provider streams and conformance files of other people lie beside a checkout, not in it: their licences differ. A test
// that wants them asks [Dir] and is skipped, with the reason in its output, where they are absent.
package cases

import (
	"os"
	"path/filepath"
	"testing"
)

// Env names the folder of cases explicitly. Set but wrong is a failure, not a skip: whoever set it meant the tests to run.
const Env = "LOOM_CASES"

// Dir returns the absolute path of the folder of cases: the one $LOOM_CASES names, else shared/cases beside the repository. It skips the test when
// neither is there.
func Dir(t testing.TB) string {
	t.Helper()
	if named := os.Getenv(Env); named != "" {
		abs, err := filepath.Abs(named)
		if err != nil {
			t.Fatalf("%s=%q: %v", Env, named, err)
		}
		if !isDir(abs) {
			t.Fatalf("%s=%q is not a folder", Env, named)
		}
		return abs
	}
	wd, err := os.Getwd()
	if err != nil {
		t.Fatalf("find the cases: %v", err)
	}
	root, ok := moduleRoot(wd)
	if !ok {
		t.Fatalf("find the cases: no go.mod above %s", wd)
	}
	dir := filepath.Join(filepath.Dir(root), "shared", "cases")
	if !isDir(dir) {
		t.Skipf("no recorded cases: %s is not set and there is no ../shared/cases beside the repository", Env)
	}
	return dir
}

// moduleRoot returns the nearest folder, from dir upwards, that holds a go.mod.
func moduleRoot(dir string) (string, bool) {
	for {
		if info, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil && info.Mode().IsRegular() {
			return dir, true
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", false
		}
		dir = up
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
