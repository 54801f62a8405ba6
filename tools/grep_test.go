package tools

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/jsonv"
	"pgregory.net/rapid"
)

func TestGrepFindsLines(t *testing.T) {
	r := newRig(t)
	r.put(t, "b.go", "package b\n\nfunc B() {}\n")
	r.put(t, "a/a.go", "package a\r\nfunc A() {}\r\n")
	r.put(t, "a/a.txt", "func in text")
	r.put(t, ".hidden", "func hidden")
	r.put(t, ".git/config", "func in git")
	r.put(t, "bin", "func\x00")
	r.put(t, "latin1", "func caf\xe9")
	r.link(t, "b.go", "link.go")
	for _, c := range []struct {
		args []jsonv.Member
		want string
	}{
		{[]jsonv.Member{str("pattern", "func [A-Z]")}, "2 matching lines\na/a.go:2:func A() {}\nb.go:3:func B() {}"},
		{[]jsonv.Member{str("pattern", `\{\}$`)}, "2 matching lines\na/a.go:2:func A() {}\nb.go:3:func B() {}"},
		{[]jsonv.Member{str("pattern", "func"), str("glob", "*.txt")}, "1 matching line\na/a.txt:1:func in text"},
		{[]jsonv.Member{str("pattern", "func"), str("glob", "!*.go"), str("path", "a")}, "1 matching line\na/a.txt:1:func in text"},
		{[]jsonv.Member{str("pattern", "func"), str("glob", "a/*")}, "2 matching lines\na/a.go:2:func A() {}\na/a.txt:1:func in text"},
		{[]jsonv.Member{str("pattern", "func"), str("path", "b.go")}, "1 matching line\nb.go:3:func B() {}"},
		{[]jsonv.Member{str("pattern", "caf.$")}, "1 matching line [1 byte replaced by U+FFFD: NUL or not UTF-8]\nlatin1:1:func caf\uFFFD"},
		{[]jsonv.Member{str("pattern", "func"), num("max_results", 2)}, "the first 2 matching lines; there are more: narrow the pattern, path or glob, or raise max_results\n.hidden:1:func hidden\na/a.go:2:func A() {}"},
		{[]jsonv.Member{str("pattern", "nowhere")}, "no match in 6 files"},
		{[]jsonv.Member{str("pattern", "(?i)PACKAGE a")}, "1 matching line\na/a.go:1:package a"},
	} {
		if got := r.ok(t, "grep", c.args...); got != c.want {
			t.Errorf("%v:\n got %q\nwant %q", jsonv.Obj(c.args...), got, c.want)
		}
	}
}

func TestGrepLeavesOutWhatGitIgnoresAndWhatIsTooLarge(t *testing.T) {
	r := newRig(t)
	r.put(t, ".gitignore", "*.log\n/build/\n")
	r.put(t, "a.log", "needle")
	r.put(t, "sub/.gitignore", "!keep.log\n")
	r.put(t, "sub/a.log", "needle")
	r.put(t, "sub/keep.log", "needle")
	r.put(t, "build/out", "needle")
	r.put(t, "sub/build/out", "needle")
	if err := os.Truncate(r.put(t, "large", "needle"), fileLimit+1); err != nil {
		t.Fatal(err)
	}
	if got, want := r.ok(t, "grep", str("pattern", "needle")), "2 matching lines [1 file over 8 MiB not searched]\nsub/build/out:1:needle\nsub/keep.log:1:needle"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	// What is asked for by name is searched, ignored or not.
	if got, want := r.ok(t, "grep", str("pattern", "needle"), str("path", "build")), "1 matching line\nbuild/out:1:needle"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got, want := r.ok(t, "grep", str("pattern", "needle"), str("path", "a.log")), "1 matching line\na.log:1:needle"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	// Rules above the searched folder count.
	if got, want := r.ok(t, "grep", str("pattern", "needle"), str("path", "sub"), str("glob", "*.log")), "1 matching line\nsub/keep.log:1:needle"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestLongLinesAndManyResultsStayBounded(t *testing.T) {
	r := newRig(t)
	r.put(t, "min.js", strings.Repeat("é", 5000)+"\n")
	if got := r.ok(t, "grep", str("pattern", "é")); len(got) > 600 || !strings.HasSuffix(got, "é…") {
		t.Errorf("%d bytes: %.100s", len(got), got)
	}
	r.put(t, "many", strings.Repeat(strings.Repeat("x", 400)+"\n", 1000))
	out := r.run(t, "grep", jsonv.Obj(str("pattern", "x"), num("max_results", 1000)))
	if got := textOf(out); len(got) > 3*excerptLimit || !strings.Contains(got, "kept as blob") || out.IsError {
		t.Errorf("%d bytes: %.300s", len(got), got)
	}
}

func TestASearchThatIsCancelledEnds(t *testing.T) {
	r := newRig(t)
	r.put(t, "f", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	k := toolkit{room: r.registry.room, broker: r.broker}
	if out := k.runGrep(ctx, Invocation{Arguments: jsonv.Obj(str("pattern", "x")), broker: r.broker}); !out.IsError || textOf(out) != "the search was cancelled" {
		t.Error(textOf(out))
	}
}

// withoutRipgrep is an environment in which nothing is found.
var withoutRipgrep = []string{"PATH=/nowhere"}

func needRipgrep(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("rg"); err != nil {
		t.Skip("ripgrep is not installed: ", err)
	}
}

// TestTheAnswersDoNotDependOnRipgrep searches random trees for random patterns
// with and without it.
func TestTheAnswersDoNotDependOnRipgrep(t *testing.T) {
	needRipgrep(t)
	with := newRig(t)
	without := *with
	without.open(t, withoutRipgrep)
	if _, ok := without.broker.Program("rg"); ok {
		t.Fatal("ripgrep is found where it must not be")
	}
	line := rapid.StringMatching(`[abAB_ éſKß\xff\x80\r.-]{0,8}`)
	files := []string{"a", "b.go", "d/a", "d/e/c.go", "-x", "sp ace", "d/.gitignore", "new\nline"}
	for i := range 30 {
		for _, f := range files {
			text := strings.Join(rapid.SliceOfN(line, 0, 6).Example(i*len(files)+len(f)), "\n")
			text = strings.NewReplacer("ÿ", "\xff", "\u0080", "\x80").Replace(text)
			with.put(t, f, text)
		}
		pattern := randomPattern().Example(i)
		args := []jsonv.Member{str("pattern", pattern), num("max_results", 5)}
		if a, b := textOf(with.run(t, "grep", jsonv.Obj(args...))), textOf(without.run(t, "grep", jsonv.Obj(args...))); a != b {
			t.Errorf("%q: with ripgrep\n%s\nwithout\n%s", pattern, a, b)
		}
	}
}

func randomPattern() *rapid.Generator[string] {
	atom := rapid.SampledFrom([]string{"a", "b", "A", "_", "é", "ſ", "k", "s", ".", `\b`, `\B`, `\w`, `\W`, `\d`, `\s`, "^", "$", `\A`, `\z`, "[ab]", "[^a]", `\pL`, `[^\x00-\x7f]`, `\r`, `-`, "(?i)k", "(?i:S)", "(?s:.)", "()"})
	after := rapid.SampledFrom([]string{"", "", "", "*", "+", "?", "{2}", "{1,3}", "*?", "|"})
	return rapid.Custom(func(t *rapid.T) string {
		for {
			var b strings.Builder
			for range rapid.IntRange(1, 5).Draw(t, "atoms") {
				b.WriteString(atom.Draw(t, "atom") + after.Draw(t, "after"))
			}
			if _, err := regexp.Compile(b.String()); err == nil {
				return b.String()
			}
		}
	})
}

// TestTheTranslatedPatternMissesNoLine asks ripgrep itself about each line.
func TestTheTranslatedPatternMissesNoLine(t *testing.T) {
	needRipgrep(t)
	lines := []string{"", "a", "b", "ab", "aab", "A", "_", "a_b", "é", "aéb", "ſ", "K", "k", "s", "S", "ß", "a b", " ", "-", "a-b", "\xff", "a\xffb", "\x80", "a.b", "1", "a\r", "\r", "a\rb", "\ra", "\ufffd", "ǅ"}
	dir := t.TempDir()
	var names []string
	for i, l := range lines {
		name := fmt.Sprintf("%02d", i)
		names = append(names, name)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(l+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	asked := 0
	for i := range 100 {
		pattern := randomPattern().Example(i)
		translated, ok := rustPattern(pattern)
		if !ok {
			continue
		}
		cmd := exec.Command("rg", ripgrepArgs(translated, names)[1:]...)
		cmd.Dir = dir
		out, err := cmd.Output()
		if e, failed := err.(*exec.ExitError); failed && e.ExitCode() > 1 {
			continue // then the search does without
		}
		asked++
		hits := strings.Split(string(out), "\x00")
		re := regexp.MustCompile(pattern)
		for n, l := range lines {
			if re.MatchString(strings.TrimSuffix(l, "\r")) && !slices.Contains(hits, "./"+names[n]) {
				t.Errorf("%q matches %q, its translation %q does not", pattern, l, translated)
			}
		}
	}
	if asked < 30 {
		t.Errorf("ripgrep took only %d patterns", asked)
	}
}

func TestBatchesHoldEveryFileOnceAndStayBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,3}`), 1, 30).Draw(t, "files")
		size := rapid.IntRange(1, 10).Draw(t, "size")
		var got []string
		for rest := files; len(rest) > 0; {
			batch := takeBatch(rest, size)
			if len(batch) == 0 || len(batch) > size {
				t.Fatalf("a batch of %d", len(batch))
			}
			got, rest = append(got, batch...), rest[len(batch):]
		}
		if !slices.Equal(got, files) {
			t.Fatalf("%q became %q", files, got)
		}
	})
	long := strings.Repeat("x", batchBytes)
	if n := len(takeBatch([]string{long, long, "a"}, 10)); n != 1 {
		t.Errorf("a batch of %d long names", n)
	}
}

func TestGlobs(t *testing.T) {
	for _, c := range []struct {
		glob     string
		yes, not []string
	}{
		{"*.go", []string{"a.go", "d/e/a.go", ".go"}, []string{"a.got", "go"}},
		{"src/*.go", []string{"src/a.go"}, []string{"a.go", "src/d/a.go", "x/src/a.go"}},
		{"/src/*.go", []string{"src/a.go"}, []string{"x/src/a.go"}},
		{"src/**/*.{ts,tsx}", []string{"src/a.ts", "src/d/e/a.tsx"}, []string{"a.ts", "src/a.js"}},
		{"**/test/**", []string{"test/a", "x/test/y/z"}, []string{"test", "tests/a"}},
		{"a?c", []string{"abc", "aéc", "d/abc"}, []string{"ac", "abbc"}},
		{"[a-c]x", []string{"ax", "cx"}, []string{"dx", "-x"}},
		{"[!a]x", []string{"bx"}, []string{"ax"}},
		{"[]a]x", []string{"]x", "ax"}, []string{"bx"}},
		{"[[:digit:]]", []string{"1"}, []string{"a", ":"}},
		{`a\*b`, []string{"a*b"}, []string{"axb"}},
		{"!*.go", []string{"a.ts"}, []string{"a.go"}},
		{"a.b", []string{"a.b"}, []string{"axb"}},
		{"{a,b{c,d}}", []string{"a", "bc", "bd"}, []string{"b", "c"}},
	} {
		g, err := parseGlob(c.glob)
		if err != nil {
			t.Errorf("%s: %v", c.glob, err)
			continue
		}
		for _, path := range c.yes {
			if !g.selects(path) {
				t.Errorf("%s does not select %s", c.glob, path)
			}
		}
		for _, path := range c.not {
			if g.selects(path) {
				t.Errorf("%s selects %s", c.glob, path)
			}
		}
	}
	for _, bad := range []string{"!", "/", "[a", "{a", "[z-a]"} {
		if _, err := parseGlob(bad); err == nil {
			t.Errorf("%s is a glob", bad)
		}
	}
	if !(glob{}).selects("anything") {
		t.Error("no glob selects not everything")
	}
}

// TestIgnoreRulesAreThoseOfGit compares with git on random rules and trees.
func TestIgnoreRulesAreThoseOfGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed: ", err)
	}
	r := newRig(t)
	if out, err := exec.Command("git", "init", "-q", r.dir).CombinedOutput(); err != nil {
		t.Skipf("git init: %v: %s", err, out)
	}
	// Names are ASCII: git matches bytes, this package characters.
	for _, f := range []string{"a", "b", "ab", "a.x", "d/a", "d/b", "d/a.x", "d/e/a", "d/e/b.x", "e/a", "e/d/a", "#a", "!a", "a b", "a "} {
		r.put(t, f, "x")
	}
	rule := rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"", "", "", "!", "/", "!/", "#", `\#`, `\!`}).Draw(t, "before") +
			rapid.SampledFrom([]string{"a", "b", "d", "e", "*", "a*", "*.x", "**", "**/a", "d/**", "d/*", "d/a", "d/e", "**/e/**", "d/**/a", "[ab]", "[!a]", "?", "a b", `a\ `, "a  ", "[", "a.x"}).Draw(t, "pattern") +
			rapid.SampledFrom([]string{"", "", "/"}).Draw(t, "after")
	})
	for i := range 40 {
		top := strings.Join(rapid.SliceOfN(rule, 1, 4).Example(i), "\n")
		below := strings.Join(rapid.SliceOfN(rule, 0, 3).Example(i+1000), "\n")
		r.put(t, ".gitignore", top)
		r.put(t, "d/.gitignore", below)
		list := exec.Command("git", "-c", "core.excludesFile=/dev/null", "ls-files", "-z", "--others", "--exclude-standard")
		list.Dir = r.dir
		out, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for f := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			if f != "" {
				want = append(want, f)
			}
		}
		found, err := r.registry.room.files(t.Context(), place{rel: ".", shown: "."}, glob{})
		if err != nil {
			t.Fatal(err)
		}
		got := slices.Sorted(slices.Values(found.list))
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("rules %q and below %q:\n  git %q\nfound %q", top, below, want, got)
		}
	}
}

func FuzzGlob(f *testing.F) {
	f.Add("src/**/*.{ts,tsx}", "src/a.ts")
	f.Add("[!a-z]\\*?", "A*x")
	f.Fuzz(func(t *testing.T, text, path string) {
		g, err := parseGlob(text)
		if err == nil && g.re == nil {
			t.Errorf("%q selects without a pattern", text)
		}
		_ = err == nil && g.selects(path)
		for _, r := range parseIgnore("d", text) {
			r.matches(path, false)
		}
	})
}

func FuzzRustPattern(f *testing.F) {
	for i := range 20 {
		f.Add(randomPattern().Example(i))
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		translated, ok := rustPattern(pattern)
		if _, err := syntax.Parse(pattern, syntax.Perl); err != nil && ok {
			t.Errorf("%q is no pattern, but translates to %q", pattern, translated)
		}
	})
}
