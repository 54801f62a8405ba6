package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/loom-run/loom/host/print"
	"github.com/loom-run/loom/internal/cli"
)

// The documents that say what the program does.
const (
	verbsFile  = "../../docs/verbs.md"
	readmeFile = "../../README.md"
)

// verbs are the commands that people type, in the order of the help.
func verbs(root *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, c := range root.Commands() {
		if c.Name() == "help" || c.Name() == "completion" || c.Hidden {
			continue
		}
		all = append(all, c)
		all = append(all, verbs(c)...)
	}
	return all
}

// reference is docs/verbs.md.
func reference() string {
	var b strings.Builder
	b.WriteString("# Verbs\n\nGenerated from the commands by `make docs`; a test fails when it is stale.\n")
	root := cli.Root()
	for _, c := range append([]*cobra.Command{root}, verbs(root)...) {
		fmt.Fprintf(&b, "\n## `%s`\n\n%s.\n", strings.TrimSuffix(c.UseLine(), " [flags]"), strings.TrimSuffix(describe(c), "."))
		// The help flag is there for everybody, and described once.
		if rows := flagRows(c); rows != "" {
			b.WriteString("\n| option | meaning |\n|---|---|\n" + rows)
		}
	}
	b.WriteString("\n`--help` prints the help of a command.\n\n## Exit statuses\n\n" + exitTable())
	return b.String()
}

func describe(c *cobra.Command) string {
	if c.Long != "" {
		return c.Long
	}
	return c.Short
}

// flagRows are the rows of a command's options.
func flagRows(c *cobra.Command) string {
	var b strings.Builder
	for line := range strings.Lines(c.LocalFlags().FlagUsagesWrapped(0)) {
		m := regexp.MustCompile(`^ +(.+?) {3,}(.+)$`).FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m != nil && !strings.Contains(m[1], "--help") {
			fmt.Fprintf(&b, "| `%s` | %s |\n", m[1], m[2])
		}
	}
	return b.String()
}

func verbTable() string {
	var b strings.Builder
	b.WriteString("| verb | what it does |\n|---|---|\n")
	for _, c := range verbs(cli.Root()) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.TrimSuffix(c.UseLine(), " [flags]"), strings.ToLower(c.Short[:1])+c.Short[1:])
	}
	return b.String()
}

func exitTable() string {
	var b strings.Builder
	b.WriteString("| status | meaning |\n|---|---|\n")
	for _, r := range print.Exits() {
		fmt.Fprintf(&b, "| %d | %s |\n", r.Exit, r.When)
	}
	return b.String()
}

func runFlags() string {
	for _, c := range verbs(cli.Root()) {
		if c.Name() == "run" {
			return "| option | meaning |\n|---|---|\n" + flagRows(c)
		}
	}
	return ""
}

// transcript runs the commands of the README in a copy of testdata/garden, and
// returns what a person sees: both streams as they come.
func transcript(t *testing.T) string {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	garden := filepath.Join(dir, "garden")
	if err := os.CopyFS(garden, os.DirFS(filepath.Join("testdata", "garden"))); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("```console\n")
	for _, line := range []string{
		`loom run "what is in this directory?"`,
		`loom run --continue "write notes.txt: sow beans in May"`,
		`loom run --continue --permission-mode acceptEdits "write notes.txt: sow beans in May"`,
	} {
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir = garden
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LOOM_HOME=" + filepath.Join(dir, "home")}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		fmt.Fprintf(&b, "$ %s\n%s\n", line, out)
	}
	text := strings.TrimSuffix(b.String(), "\n") + "```\n"
	text = strings.ReplaceAll(text, garden, "/src/garden")
	return regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`).ReplaceAllString(text, "01a22e4d-c8b4-797a-907f-927f937a83be")
}

// between puts a generated text into its place in a document.
func between(doc, name, text string) (string, error) {
	open, end := "<!-- generated: "+name+" -->\n", "<!-- end -->\n"
	before, rest, ok := strings.Cut(doc, open)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("there is no place for %s", name)
	}
	return before + open + text + end + after, nil
}

// fresh compares a document with what it should be, or rewrites it.
func fresh(t *testing.T, file, want string) {
	t.Helper()
	got, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	switch {
	case bytes.Equal(got, []byte(want)):
	case *update:
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is stale; `make docs` rewrites it. It should be:\n%s", filepath.Base(file), want)
	}
}

func TestDocsOfTheVerbsAreFresh(t *testing.T) { fresh(t, verbsFile, reference()) }

func TestDocsInTheReadmeAreFresh(t *testing.T) {
	text, err := os.ReadFile(readmeFile)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	for _, g := range []struct{ name, text string }{
		{"transcript", transcript(t)}, {"verbs", verbTable()}, {"options", runFlags()}, {"exits", exitTable()},
	} {
		if want, err = between(want, g.name, g.text); err != nil {
			t.Fatal(err)
		}
	}
	fresh(t, readmeFile, want)
}

func TestAPlaceInADocumentIsFound(t *testing.T) {
	doc := "a\n<!-- generated: x -->\nold\n<!-- end -->\nb\n"
	if got, err := between(doc, "x", "new\n"); err != nil || got != "a\n<!-- generated: x -->\nnew\n<!-- end -->\nb\n" {
		t.Errorf("%q %v", got, err)
	}
	for _, broken := range []string{"a\n", "<!-- generated: x -->\n"} {
		if _, err := between(broken, "x", ""); err == nil {
			t.Errorf("%q has a place", broken)
		}
	}
}
