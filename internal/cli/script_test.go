package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/loom-run/loom/client/say"
)

// key is the key of the scripted models. It must not be found anywhere afterwards.
const key = "sk-0123456789-never-written-down"

// TestScripts runs testdata/script. Each script has a state root of its own and
// starts in $WORK/repo. Whatever it does, no command may let a control sequence or
// the key through, and every session that is left must be whole, unless the script
// says `damaged`.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		Setup:               setup,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Geteuid() == 0, nil
			}
			return false, fmt.Errorf("there is no condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exit": exit, "keep": keep, "result": result, "model": serve, "await": await, "asked": asked, "damaged": damaged,
			"find": find, "flip": flip, "holds": holds, "lacks": lacks, "patch": patch, "truncate": truncate,
			"fill": fillIn,
		},
	})
}

func setup(env *testscript.Env) error {
	env.Cd = filepath.Join(env.WorkDir, "repo")
	if err := os.MkdirAll(env.Cd, 0o700); err != nil {
		return err
	}
	home := filepath.Join(env.WorkDir, "home")
	env.Setenv("LOOM_HOME", home)
	env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config")) // as if nobody had a loom.toml
	t, ok := env.T().(testing.TB)
	if !ok {
		return errors.New("scripts are run by a test")
	}
	left := &leftovers{}
	env.Values[leftoversKey] = left
	env.Defer(func() {
		if left.model != nil {
			left.model.stop()
		}
		if !t.Skipped() {
			left.check(t, home)
		}
	})
	return nil
}

type contextKey string

const leftoversKey contextKey = "leftovers"

// leftovers is what a script leaves behind.
type leftovers struct {
	model   *model
	damaged bool // on purpose
}

// check fails unless every session is whole and no file holds the key.
func (l *leftovers) check(t testing.TB, home string) {
	files, _ := filepath.Glob(filepath.Join(home, "sessions", "*.db"))
	for _, f := range files {
		if l.damaged {
			break
		}
		if st, err := os.Stat(f); err == nil && st.Size() == 0 {
			continue // it was never made
		}
		wholeSession(t, home, strings.TrimSuffix(filepath.Base(f), ".db"))
	}
	err := filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // what cannot be read holds nothing
		}
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte(key)) {
			t.Errorf("%s holds the key", path)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func wholeSession(t testing.TB, home, session string) {
	t.Helper()
	cmd := exec.Command("loom", "check", session)
	cmd.Env = append(os.Environ(), "LOOM_HOME="+home)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("loom check: %v\n%s", err, out)
	}
}

// exit N COMMAND... runs a command that must end with that status.
func exit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exit N COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		ended, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = ended.ExitCode()
	}
	if got != want {
		ts.Fatalf("the status is %d, not %d", got, want)
	}
	for _, name := range []string{"stdout", "stderr"} {
		if fault := unfit(ts.ReadFile(name)); fault != "" {
			ts.Fatalf("%s: %s", name, fault)
		}
	}
}

// unfit is why text should not have been printed.
func unfit(text string) string {
	if strings.Contains(text, key) {
		return "it holds the key"
	}
	if !utf8.ValidString(text) {
		return "it is not UTF-8"
	}
	if i := strings.IndexFunc(text, say.Hidden); i >= 0 {
		return fmt.Sprintf("a terminal would obey %q", text[i:min(len(text), i+12)])
	}
	return ""
}

// keep VARIABLE FIELD remembers a field of the JSON object that was printed last.
func keep(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: keep VARIABLE FIELD")
	}
	object, ok := lastObject(ts).(map[string]any)
	if !ok || object[args[1]] == nil {
		ts.Fatalf("there is no %s in what was printed", args[1])
	}
	ts.Setenv(args[0], fmt.Sprint(object[args[1]]))
}

// find VARIABLE REGEXP keeps what the first group matches first in standard output.
func find(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: find VARIABLE REGEXP")
	}
	m := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if len(m) < 2 {
		ts.Fatalf("standard output has no match of %s", args[1])
	}
	ts.Setenv(args[0], m[1])
}

// holds TEXT demands that some file of the state root has the text; lacks TEXT that
// none has.
func holds(ts *testscript.TestScript, _ bool, args []string) { searched(ts, args, true) }

func lacks(ts *testscript.TestScript, _ bool, args []string) { searched(ts, args, false) }

func searched(ts *testscript.TestScript, args []string, want bool) {
	var in []string
	err := filepath.WalkDir(ts.Getenv("LOOM_HOME"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(args[0])) {
			in = append(in, path)
		}
		return err
	})
	if err != nil || (len(in) > 0) != want {
		ts.Fatalf("the text is in %v, %v", in, err)
	}
}

// lastObject is the last line of standard output.
func lastObject(ts *testscript.TestScript) any {
	lines := strings.Split(strings.TrimSuffix(ts.ReadFile("stdout"), "\n"), "\n")
	v, err := parse(lines[len(lines)-1])
	if err != nil {
		ts.Fatalf("the last line of standard output is no JSON: %v", err)
	}
	return v
}

func parse(text string) (any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

var variable = regexp.MustCompile(`\$[A-Z]+`)

// result FILE compares standard output, which must be one line, with a JSON object,
// field by field. See [differences].
func result(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: result FILE")
	}
	if n := strings.Count(ts.ReadFile("stdout"), "\n"); n != 1 {
		ts.Fatalf("there are %d lines on standard output, not one result", n)
	}
	want, err := parse(variable.ReplaceAllStringFunc(ts.ReadFile(beside(ts, args[0])), func(v string) string { return ts.Getenv(v[1:]) }))
	ts.Check(err)
	for _, d := range differences("", lastObject(ts), want) {
		ts.Logf("%s", d)
		defer ts.Fatalf("the result differs")
	}
}

// differences lists where got is not as wanted. In want, "<id>" and "<count>" stand
// for any of these, and "~PATTERN" for a text that matches.
func differences(path string, got, want any) []string {
	if pattern, ok := want.(string); ok {
		matched := false
		switch {
		case pattern == "<id>":
			s, ok := got.(string)
			matched = ok && regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(s)
		case pattern == "<count>":
			n, ok := got.(json.Number)
			i, err := n.Int64()
			matched = ok && err == nil && i >= 0
		case strings.HasPrefix(pattern, "~"):
			s, ok := got.(string)
			matched = ok && regexp.MustCompile(pattern[1:]).MatchString(s)
		default:
			matched = got == want
		}
		if !matched {
			return []string{fmt.Sprintf("%s is %v, not %v", path, got, want)}
		}
		return nil
	}
	var all []string
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s is %v, not an object", path, got)}
		}
		for name := range object {
			if _, expected := want[name]; !expected {
				all = append(all, fmt.Sprintf("%s.%s is %v, and should not be there", path, name, object[name]))
			}
		}
		for name, v := range want {
			if _, is := object[name]; !is {
				all = append(all, fmt.Sprintf("%s.%s is missing", path, name))
			} else {
				all = append(all, differences(path+"."+name, object[name], v)...)
			}
		}
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return []string{fmt.Sprintf("%s is %v, not %v", path, got, want)}
		}
		for i, v := range want {
			all = append(all, differences(fmt.Sprintf("%s[%d]", path, i), list[i], v)...)
		}
	default:
		if got != want {
			return []string{fmt.Sprintf("%s is %v, not %v", path, got, want)}
		}
	}
	slices.Sort(all)
	return all
}

func TestAResultThatDiffersIsFound(t *testing.T) {
	got, err := parse(`{"a":1,"id":"01a22e55-d909-75b3-a5cf-39c015014401","l":[true,null],"s":"some text","n":7}`)
	if err != nil {
		t.Fatal(err)
	}
	for want, faults := range map[string]int{
		`{"a":1,"id":"<id>","l":[true,null],"s":"~^some","n":"<count>"}`:  0,
		`{"a":2,"id":"<id>","l":[true,null],"s":"some text","n":7}`:       1,
		`{"a":1,"id":"<id>","l":[true],"s":"some text","n":7}`:            1,
		`{"a":1,"id":"<id>","l":[true,false],"s":"some text","n":7}`:      1,
		`{"a":1,"id":"<count>","l":[true,null],"s":"<id>","n":"<id>"}`:    3,
		`{"a":"1","id":"<id>","l":[true,null],"s":"~^text","n":7,"x":1}`:  3,
		`{"id":"<id>","l":{},"s":"some text","n":7}`:                      2,
		`{"a":null,"id":"<id>","l":[true,null],"s":["some text"],"n":{}}`: 3,
	} {
		v, err := parse(want)
		if err != nil {
			t.Fatal(err)
		}
		if d := differences("", got, v); len(d) != faults {
			t.Errorf("%s: %q", want, d)
		}
	}
}

func of(ts *testscript.TestScript) *leftovers {
	l, ok := ts.Value(leftoversKey).(*leftovers)
	if !ok {
		ts.Fatalf("the script was not set up")
	}
	return l
}

// beside is a file of the script that does not lie in the repository.
func beside(ts *testscript.TestScript, name string) string {
	return filepath.Join(ts.Getenv("WORK"), name)
}

// model FILE serves a script; see [model].
func serve(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: model FILE")
	}
	l := of(ts)
	if l.model != nil {
		l.model.stop()
	}
	m, err := startModel(ts.ReadFile(beside(ts, args[0])))
	ts.Check(err)
	l.model = m
	ts.Setenv("OPENAI_BASE_URL", m.base())
	ts.Setenv("OPENAI_API_KEY", key)
}

// await N waits until the model has been asked N times.
func await(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(strings.Join(args, " "))
	ts.Check(err)
	ts.Check(of(ts).model.await(n))
}

// asked N [PATTERN] fails unless the model was asked N times, the last time with
// something that matches.
func asked(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: asked N [PATTERN]")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	requests := of(ts).model.asked()
	if len(requests) != n {
		ts.Fatalf("the model was asked %d times, not %d", len(requests), n)
	}
	if len(args) == 2 && regexp.MustCompile(args[1]).Match(requests[n-1]) == neg {
		ts.Fatalf("the last request: %s", requests[n-1])
	}
}

// fill FROM TO copies a file with the variables of the script in their places.
func fillIn(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: fill FROM TO")
	}
	text := variable.ReplaceAllStringFunc(ts.ReadFile(args[0]), func(v string) string { return ts.Getenv(v[1:]) })
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o600))
}

// damaged says that the script damages its sessions on purpose.
func damaged(ts *testscript.TestScript, _ bool, _ []string) { of(ts).damaged = true }

// flip FILE TEXT changes one bit of the last place in a file where a text stands.
func flip(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: flip FILE TEXT")
	}
	bits := []byte(ts.ReadFile(args[0]))
	i := bytes.LastIndex(bits, []byte(args[1]))
	if i < 0 {
		ts.Fatalf("%s does not hold %q", args[0], args[1])
	}
	bits[i] ^= 1
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), bits, 0o600))
}

// patch FILE OFFSET BYTE... writes bytes into a file.
func patch(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: patch FILE OFFSET BYTE...")
	}
	bits := []byte(ts.ReadFile(args[0]))
	at, err := strconv.Atoi(args[1])
	ts.Check(err)
	for i, arg := range args[2:] {
		b, err := strconv.ParseUint(arg, 10, 8)
		ts.Check(err)
		bits[at+i] = byte(b)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), bits, 0o600))
}

// truncate FILE N cuts a file.
func truncate(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: truncate FILE N")
	}
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), n))
}
