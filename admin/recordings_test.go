package admin_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loom-run/loom/admin"
	"github.com/loom-run/loom/core/jsonv"
)

// recorded is a recording that a root remembers, with these lines after the first.
func (w *world) recorded(lines ...string) (path string) {
	w.t.Helper()
	path = filepath.Join(w.t.TempDir(), "run.jsonl")
	if err := os.WriteFile(path, []byte("{\"loom_recording\":1}\n"+strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := admin.RememberRecording(w.root, path); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// exchange is one line, its body made of events.
func exchange(request, body string) string {
	return jsonv.Obj(
		jsonv.F("provider", jsonv.Str("p")), jsonv.F("model", jsonv.Str("m")), jsonv.F("request", jsonv.Obj(jsonv.F("messages", jsonv.Arr(jsonv.Str(request))))),
		jsonv.F("status", jsonv.Num(200)), jsonv.F("body", jsonv.Str(body)), jsonv.F("cuts", jsonv.Arr(jsonv.Num(1))),
	).String()
}

func deltas(pieces ...string) string {
	var b strings.Builder
	for _, p := range pieces {
		fmt.Fprintf(&b, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%s}}]}\n\n", jsonv.Str(p))
	}
	return b.String() + "data: [DONE]\n\n"
}

func recordingAccount(t testing.TB, r admin.Receipt, path string) admin.Account {
	t.Helper()
	for _, a := range r.Accounts {
		if a.Store == admin.RecordingStore && a.Subject == path {
			return a
		}
	}
	t.Fatalf("there is no account of %s: %s", path, r.Append(nil))
	return admin.Account{}
}

func TestATextGoesFromRecordingsAlsoWhereItCameInPieces(t *testing.T) {
	untouched := exchange("clean", deltas("all ", "clean"))
	for name, c := range map[string]struct {
		line string
		want func(v jsonv.Value) bool
	}{
		"in a request": {exchange("prompt "+secret, deltas("a")), func(v jsonv.Value) bool {
			_, cuts := v.Get("cuts") // of a body that is as it was
			return strings.Contains(v.String(), "prompt [erased]") && cuts
		}},
		"in one piece": {exchange("p", deltas("it is "+secret+".")), func(v jsonv.Value) bool {
			_, cuts := v.Get("cuts")
			return strings.Contains(v.String(), "it is [erased].") && !cuts
		}},
		"in three": {exchange("p", deltas("it is sk-", "secret-01", "23456789.")), func(v jsonv.Value) bool {
			body, _ := v.Get("body")
			broke, _ := v.Get("broke")
			return body.String() == `""` && broke.String() == "true"
		}},
		"in binary": {strings.Replace(exchange("p", in64("\x00\xff"+secret+"\x01")), `,"cuts"`, `,"base64":true,"cuts"`, 1), func(v jsonv.Value) bool {
			body, _ := v.Get("body")
			text, _ := body.Text()
			return !strings.Contains(text, in64(secret)[:8])
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.plain("prompt")
			path := w.recorded(untouched, c.line, untouched)
			before := must(os.ReadFile(path))
			dry := w.erase(admin.Erasure{Needle: needleOf(t, secret), Session: s, DryRun: true})
			if a := recordingAccount(t, dry, path); a.Outcome != admin.Present || !bytes.Equal(before, must(os.ReadFile(path))) {
				t.Errorf("%+v", a)
			}
			r := w.erase(admin.Erasure{Needle: needleOf(t, secret), Session: s})
			if a := recordingAccount(t, r, path); a.Outcome != admin.Clean || a.Erased < 1 {
				t.Errorf("%+v", a)
			}
			lines := strings.Split(string(must(os.ReadFile(path))), "\n")
			if len(lines) != 5 || lines[0] != `{"loom_recording":1}` || lines[1] != untouched || lines[3] != untouched {
				t.Errorf("the recording is %q", lines)
			}
			if v := must(jsonv.ParseString(lines[2])); !c.want(v) || needleOf(t, secret).In(v.String()) {
				t.Errorf("the exchange is %s", v)
			}
			again := w.erase(admin.Erasure{Needle: needleOf(t, secret), All: true})
			if a := recordingAccount(t, again, path); a.Outcome != admin.Clean || a.Erased != 0 {
				t.Errorf("%+v", a)
			}
			if files := must(os.ReadDir(filepath.Dir(path))); len(files) != 1 {
				t.Errorf("left are %v", files)
			}
		})
	}
}

func TestWhatIsNoRecordingAnyMoreIsNotCalledClean(t *testing.T) {
	w := newWorld(t)
	for text, says := range map[string]string{
		"my notes about " + secret: "another file is in its place", `{"loom_recording":2}` + "\n": "no recording that this build reads",
		`{"loom_recording":1}` + "\n" + `{"cut`: "no recording that this build reads",
	} {
		path := w.recorded()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		a := recordingAccount(t, w.erase(admin.Erasure{Needle: needleOf(t, secret), All: true}), path)
		if a.Outcome != admin.NotSearched || !strings.Contains(a.Reason, says) || string(must(os.ReadFile(path))) != text {
			t.Errorf("%q: %+v", text, a)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if a := recordingAccount(t, w.erase(admin.Erasure{Needle: needleOf(t, secret), All: true}), path); a.Outcome != admin.NotSearched {
			t.Errorf("gone: %+v", a)
		}
	}
	if r := w.erase(admin.Erasure{Needle: needleOf(t, secret), All: true}); r.Worst() != admin.Clean {
		t.Errorf("what is gone is told again: %s", r.Append(nil))
	}
	path := w.recorded(strings.Replace(exchange("p", ""), `"status"`, `"`+secret+`":1,"status"`, 1))
	if a := recordingAccount(t, w.erase(admin.Erasure{Needle: needleOf(t, secret), All: true}), path); a.Outcome != admin.Unreachable || a.Found.Names != 1 {
		t.Errorf("%+v", a)
	}
}
