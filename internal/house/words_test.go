package house

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// The words are put together here so that this file does not hold them.
var (
	// unfinished marks say that something is not done. What is not done is not in the tree.
	unfinished = regexp.MustCompile(`\b(` + strings.Join([]string{"TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK"}, "|") + `)\b`)

	// machinePath is an absolute path of the machine something was written on. It works nowhere else and tells what nobody asked.
	machinePath = regexp.MustCompile(`(^|[^A-Za-z0-9_./~$}*-])/(` + strings.Join([]string{"wo" + "rk", "ro" + "ot", "ho" + "me/[a-z]+", "Use" + "rs/[a-z]+"}, "|") + `)/`)
)

// wordExceptions are files that may hold such words, with the reason.
var wordExceptions = map[string]string{
	"LICENSE": "a text of others",
	"go.sum":  "hashes",
}

// wordFaults checks one tracked file.
func wordFaults(name string, text []byte) (faults []string) {
	if _, ok := wordExceptions[name]; ok || bytes.IndexByte(text, 0) >= 0 {
		return nil
	}
	for n, line := range strings.Split(string(text), "\n") {
		if m := unfinished.FindString(line); m != "" {
			faults = append(faults, fmt.Sprintf("%s:%d: the word %s: finish it, or describe the limit in words", name, n+1, m))
		}
		if m := machinePath.FindString(line); m != "" {
			faults = append(faults, fmt.Sprintf("%s:%d: a path of one machine: %s", name, n+1, strings.TrimLeft(m, " \"'`(=")))
		}
	}
	return faults
}

var listFiles = sync.OnceValues(func() ([]string, error) {
	if out, err := run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"); err == nil {
		return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 }), nil
	}
	// A release archive has no git: everything in it is tracked.
	var files []string
	root := os.DirFS(filepath.Join("..", ".."))
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (path == ".tmp" || path == "bin" || path == ".git") {
			return fs.SkipDir
		}
		if !d.IsDir() {
			files = append(files, path)
		}
		return nil
	})
	return files, err
})

// trackedFiles returns the files of the checkout by their path in it: what git tracks and what it would.
func trackedFiles(t *testing.T) []string {
	t.Helper()
	files, err := listFiles()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("the checkout has no files")
	}
	return files
}

func readTracked(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
	if os.IsNotExist(err) {
		return nil // removed and not committed yet
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestNothingUnfinishedAndNoMachineInTheTree(t *testing.T) {
	for _, f := range trackedFiles(t) {
		report(t, wordFaults(f, readTracked(t, f)))
	}
}

func TestWordsCanFail(t *testing.T) {
	for line, want := range map[string]string{
		"// TO" + "DO: later":                    "the word",
		"x := 1 // FIX" + "ME":                   "the word",
		"cd /wo" + "rk/main":                     "a path of one machine",
		`dir = "/ro` + `ot/go"`:                  "a path of one machine",
		"see (/ho" + "me/jane/src)":              "a path of one machine",
		"mktemp d.XX" + "XXXX":                   "",
		"the word todo in prose":                 "",
		"https://example.com/wo" + "rk/item":     "",
		"$HOME/wo" + "rk/item and ../wo" + "rk/": "",
	} {
		faults := wordFaults("a.md", []byte("fine\n"+line+"\n"))
		if want == "" {
			wantFaults(t, faults)
		} else {
			wantFaults(t, faults, want)
		}
	}
	wantFaults(t, wordFaults("LICENSE", []byte("TO"+"DO")))
	wantFaults(t, wordFaults("a.bin", []byte("\x00TO"+"DO")))
}
