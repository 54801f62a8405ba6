//go:build linux

package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/session/check"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlite"
)

const (
	finalText = "The file says: hello from the mock workspace."
	model     = "openai/mock-1"
)

// TestTheStoreHoldsWhatTheServerSaw runs the binary against a server of somebody else's: each body that arrived is the branch before the response that
// answered it, and the ledger has what each answer said it cost.
func TestTheStoreHoldsWhatTheServerSaw(t *testing.T) {
	m := startMock(t)
	u := newUser(t, m.url)
	write(t, filepath.Join(u.workspace, "hello.txt"), "hello from the workspace\n")
	talk := func(args ...string) string {
		return u.run(append([]string{"run", "--permission-mode", "bypassPermissions"}, args...)...)
	}
	if out := talk("--model", model, "Please RUN<<echo made > made.txt; env>> for me."); out != finalText+"\n" {
		t.Errorf("the first answer is %q", out)
	}
	talk("--continue", "What does the file say?")
	talk("--continue", "NOTOOL thank you.")

	if text := read(t, filepath.Join(u.workspace, "made.txt")); text != "made\n" {
		t.Errorf("the command left %q", text)
	}
	s := stored(t, u)
	if text := s.whole(); strings.Contains(text, key) || !strings.Contains(text, markVariable) {
		t.Errorf("what the command saw of its environment:\n%s", text)
	}
	log, bodies := m.logged(t), m.requests(t)
	if len(bodies) != 5 || len(log) != len(bodies) {
		t.Fatalf("the server saw %d requests and logged %d, want 5", len(bodies), len(log))
	}
	for n, want := range []logged{
		{Stage: "tool", Call: "bash"}, {Stage: "final"}, {Stage: "tool", Call: "read"}, {Stage: "final"}, {Stage: "final"},
	} {
		got := log[n]
		if got.Stage != want.Stage || got.Call != want.Call || got.Path != "/v1/chat/completions" || got.Status != 200 || got.Model != "mock-1" {
			t.Errorf("request %d was %+v", n+1, got)
		}
		if first, names := offered(t, bodies[0]), offered(t, bodies[n]); !slices.Equal(names, first) || len(names) != got.Tools {
			t.Errorf("request %d offers %v, and the first offered %v: what a provider caches would be read anew", n+1, names, first)
		}
	}
	s.compare(t, bodies)
	s.wantUsage(t, 5, 0)
	u.run("check", s.name)
}

// offered are the tools that a request offers, which are sorted, of names of their own, and what a run that may do everything cannot do without.
func offered(t *testing.T, body []byte) []string {
	t.Helper()
	var request struct {
		Tools []struct{ Function struct{ Name string } }
	}
	if err := json.Unmarshal(body, &request); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range request.Tools {
		names = append(names, tool.Function.Name)
	}
	if sorted := slices.Compact(slices.Sorted(slices.Values(names))); !slices.Equal(names, sorted) {
		t.Errorf("the tools are not sorted, or two have one name: %v", names)
	}
	for _, name := range []string{"agent_spawn", "bash", "edit", "grep", "job_start", "ls", "read", "schedule_create", "todo", "write"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not offered in %v", name, names)
		}
	}
	return names
}

// TestAnAnswerThatWasCutOffIsAskedForAgain kills the binary while an answer streams in.
func TestAnAnswerThatWasCutOffIsAskedForAgain(t *testing.T) {
	m := startMock(t, "-delay", "30ms")
	u := newUser(t, m.url)
	u.killAt(func(ctx context.Context) error { return m.passed(ctx, 4) }, "run", "--model", model, "NOTOOL Say something.")

	s := stored(t, u)
	if len(s.answers) != 0 {
		t.Errorf("an answer was stored before it had ended: %v", s.talk)
	}
	u.run("check", s.name)
	if list := u.run("sessions"); !strings.Contains(list, "interrupted") {
		t.Errorf("the list does not say interrupted: %s", list)
	}
	if out := u.run("resume", s.name); out != finalText+"\n" {
		t.Errorf("the resumed run answered %q", out)
	}
	bodies := m.requests(t)
	if len(bodies) != 2 || !bytes.Equal(bodies[0], bodies[1]) {
		t.Errorf("of %d requests the second is not the first again: %d and %d bytes", len(bodies), len(bodies[0]), len(bodies[len(bodies)-1]))
	}
	s = stored(t, u)
	s.compare(t, bodies[1:])
	s.wantUsage(t, 1, 1)
	u.run("check", s.name)
}

// TestACommandThatWasCutOffIsNotRunAgain kills the binary while a command runs that a kill of its group would not end.
func TestACommandThatWasCutOffIsNotRunAgain(t *testing.T) {
	m := startMock(t)
	u := newUser(t, m.url)
	effects := filepath.Join(u.workspace, effectsFile)
	u.killAt(func(ctx context.Context) error {
		return eventually(ctx, func() (bool, error) {
			text, err := os.ReadFile(effects)
			return len(text) > 0, ignoreMissing(err)
		})
	}, "run", "--model", model, "--permission-mode", "bypassPermissions", "RUN<<echo ran | tee -a effects; env -i setsid sleep 60 & sleep 60>>")

	s := stored(t, u)
	u.run("check", s.name)
	u.environ = append(slices.DeleteFunc(u.environ, func(e string) bool { return strings.HasPrefix(e, markVariable+"=") }), markVariable+"="+mark(u.home, 2))
	if out := u.run("resume", "--permission-mode", "bypassPermissions", s.name); out != finalText+"\n" {
		t.Errorf("the resumed run answered %q", out)
	}
	if left, err := ofStage(u.home); err != nil || len(left) > 0 {
		t.Errorf("processes run on: %v, %v", left, err)
	}
	if text := read(t, effects); text != "ran\n" {
		t.Errorf("the effects are %q", text)
	}
	bodies := m.requests(t)
	s = stored(t, u)
	s.compare(t, bodies)
	s.wantUsage(t, 2, 0)
	if last := s.talk[len(s.talk)-2]; last.Role != "tool" || !strings.Contains(last.Text, "unknown") {
		t.Errorf("the model was told %v", last)
	}
	u.run("check", s.name)
}

// TestTortureBinary kills the binary at random moments of runs that go on with one session, from the command line to the end of the answer, and lets
// either the next run or a resumption end what was cut off.
func TestTortureBinary(t *testing.T) {
	m := startMock(t, "-delay", "2ms")
	u := newUser(t, m.url)
	rounds := max(16, number(t, killsVariable, defaultKills)/50)
	r := rand.New(rand.NewPCG(uint64(number(t, seedVariable, defaultSeed)), 0))
	kills, resumed := 0, 0
	for n := range rounds {
		args := []string{"run", "--permission-mode", "bypassPermissions", "--model", model}
		if strings.Contains(u.run("sessions"), u.workspace) {
			args = append(args, "--continue")
		}
		if u.killAfter(time.Duration(r.Int64N(int64(300*time.Millisecond))), append(args, fmt.Sprintf("RUN<<echo %d | tee -a effects>>", n))...) {
			kills++
		}
		for line := range strings.Lines(u.run("sessions")) {
			name, rest, _ := strings.Cut(line, " ")
			u.run("check", name)
			if strings.Contains(rest, "interrupted") && r.IntN(2) == 0 {
				resumed++
				u.run("resume", "--permission-mode", "bypassPermissions", name)
			}
		}
	}
	u.run("run", "--continue", "NOTOOL Good bye.")

	ran := map[string]int{}
	for line := range strings.Lines(read(t, filepath.Join(u.workspace, effectsFile))) {
		ran[strings.TrimSuffix(line, "\n")]++
	}
	s := stored(t, u)
	answered := map[string]int{}
	for i, said := range s.talk {
		answered[said.Answers]++
		if said.Role != "tool" || strings.Contains(said.Text, "is unknown") {
			continue
		}
		echoed := strings.TrimPrefix(said.Text, "exit code 0\nstdout:\n")
		if ran[echoed] != 1 {
			t.Errorf("message %d says %q, and %q ran %d times", i, said.Text, echoed, ran[echoed])
		}
	}
	for what, n := range ran {
		if n > 1 {
			t.Errorf("%s ran %d times", what, n)
		}
	}
	for _, said := range s.talk {
		for _, c := range said.Calls {
			if id, _, _ := strings.Cut(c, " "); answered[id] != 1 {
				t.Errorf("%s has %d results", c, answered[id])
			}
		}
	}
	t.Logf("%d kills over %d rounds, %d resumed; %d requests, %d attempts lost", kills, rounds, resumed, len(m.requests(t)), len(s.failed))
	if kills == 0 {
		t.Error("nobody was killed: this run shows nothing")
	}
}

// said is one message as both sides can show it.
type said struct {
	Role, Text, Answers string
	Calls               []string // id, name and arguments
}

// kept is what a store holds of a conversation.
type kept struct {
	name    string
	talk    []said   // the branch, without attempts that failed
	answers []int    // the places of responses in talk
	failed  []string // why attempts failed
	ledger  []entry.UsageRow
	of      map[id.EntryID]bool // responses, failed ones too
}

// stored reads the one session of a user, which nobody has open, and checks it.
func stored(t *testing.T, u *user) kept {
	t.Helper()
	path := u.session()
	r, err := sqlite.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	if findings, err := check.Session(r); err != nil || len(findings) > 0 {
		t.Errorf("the check finds %v, %v", findings, err)
	}
	leaf, _, err := session.NewView(r).StrandLeaf(session.MainStrand)
	if err != nil {
		t.Fatal(err)
	}
	branch, err := r.ScanBranch(storage.BranchQuery{Start: leaf.Value, Order: storage.OldestFirst})
	if err != nil {
		t.Fatal(err)
	}
	k := kept{name: sessionName(path), of: map[id.EntryID]bool{}}
	for _, e := range branch {
		k.add(e)
	}
	if k.ledger, err = r.ScanUsage(storage.UsageQuery{}); err != nil {
		t.Fatal(err)
	}
	return k
}

func (k *kept) add(e entry.Entry) {
	switch m := e.Body.(entry.Message).Message.(type) {
	case *message.User:
		k.talk = append(k.talk, said{Role: "user", Text: message.TextOf(m.Content)})
	case *message.Assistant:
		k.of[e.ID] = true
		if m.StopReason == message.Error {
			k.failed = append(k.failed, *m.ErrorMessage)
			return
		}
		a := said{Role: "assistant", Text: message.TextOf(m.Content)}
		calls, _ := m.ToolCalls()
		for _, c := range calls {
			a.Calls = append(a.Calls, c.ID+" "+c.Name+" "+canonical(c.Arguments.String()))
		}
		k.answers = append(k.answers, len(k.talk))
		k.talk = append(k.talk, a)
	case *message.ToolResult:
		r := said{Role: "tool", Text: message.TextOf(m.Content), Answers: m.ToolCallID}
		if m.IsError {
			r.Text = "[tool error]\n" + r.Text // the dialect has no field for it
		}
		k.talk = append(k.talk, r)
	case *message.Custom:
	}
}

// whole is everything that was said.
func (k kept) whole() string {
	var b strings.Builder
	for _, s := range k.talk {
		fmt.Fprintln(&b, s.Role, s.Text, s.Calls)
	}
	return b.String()
}

// compare wants each response of the branch to answer, in order, a body that held the branch before it.
func (k kept) compare(t *testing.T, bodies [][]byte) {
	t.Helper()
	if len(bodies) != len(k.answers) {
		t.Fatalf("%d bodies for %d responses; failed attempts: %q", len(bodies), len(k.answers), k.failed)
	}
	for n, body := range bodies {
		if d := cmp.Diff(k.talk[:k.answers[n]], sent(t, body)); d != "" {
			t.Errorf("request %d (-stored +sent):\n%s", n+1, d)
		}
	}
}

// sent reads a body of the chat completions dialect with the standard library, so that no code of ours judges itself. It wants a system prompt first.
func sent(t *testing.T, body []byte) []said {
	t.Helper()
	var b struct {
		Messages []struct {
			Role      string
			Content   *string
			CallID    string `json:"tool_call_id"`
			ToolCalls []struct {
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
	}
	if err := json.Unmarshal(body, &b); err != nil {
		t.Fatal(err)
	}
	if len(b.Messages) == 0 || b.Messages[0].Role != "system" {
		t.Fatalf("there is no system prompt: %.300s", body)
	}
	var out []said
	for _, m := range b.Messages[1:] {
		s := said{Role: m.Role, Answers: m.CallID}
		if m.Content != nil {
			s.Text = *m.Content
		}
		for _, c := range m.ToolCalls {
			s.Calls = append(s.Calls, c.ID+" "+c.Function.Name+" "+canonical(c.Function.Arguments))
		}
		out = append(out, s)
	}
	return out
}

// canonical is a JSON text in the form that the standard library gives it.
func canonical(text string) string {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return err.Error()
	}
	out, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// wantUsage wants one ledger row for each attempt: those that ended with exactly the tokens of the server's answers, the others as unknown.
func (k kept) wantUsage(t *testing.T, exact, lost int) {
	t.Helper()
	if len(k.ledger) != exact+lost || len(k.answers) != exact || len(k.failed) != lost {
		t.Fatalf("%d ledger rows, %d responses and the failed attempts %q; want %d responses and %d failed attempts", len(k.ledger), len(k.answers), k.failed, exact, lost)
	}
	for n, row := range k.ledger {
		coverage, reported := row.Usage.Evidence.Tokens()
		got := [5]int64{row.Usage.Input, row.Usage.CacheRead, row.Usage.CacheWrite, row.Usage.Output, row.Usage.TotalTokens}
		want := [5]int64{200, 1000, 0, 40, 1240} // 1200 prompt tokens, of which 1000 were cached
		if n < lost {
			want = [5]int64{}
		}
		if got != want || reported != (n >= lost) || reported && coverage != usage.Complete || !k.of[row.EntryID] {
			t.Errorf("row %d is %+v of entry %s", n+1, row.Usage, row.EntryID)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func ignoreMissing(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}
