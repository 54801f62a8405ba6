package project_test

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/client/project"
	"github.com/loom-run/loom/core/board"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/sdkmsg"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/wiretest"
)

func parse(t interface{ Fatal(...any) }, text string) *jsonv.Value {
	v, err := jsonv.ParseString(text)
	if err != nil {
		t.Fatal(err)
	}
	return &v
}

// answered is a call of a tool with its result.
func answered(t interface{ Fatal(...any) }, tool, input string, r wire.ToolResult) (sdkmsg.ToolUse, sdkmsg.User) {
	r.CallID, r.Name, r.Entry = "c", tool, wiretest.Entry(1)
	return sdkmsg.ToolUse{ID: "c", Name: tool, Input: *parse(t, input)}, project.Answered(r)
}

func text(s string) []wire.TextBlock { return []wire.TextBlock{{Text: s, Bytes: int64(len(s))}} }

func TestWhatAToolSaysToProgramsBeatsItsProse(t *testing.T) {
	for name, c := range map[string]struct {
		tool, structured string
		result           wire.ToolResult
		want             project.Outcome
		note             string
	}{
		"status 0, and the flag says error": {"bash", `{"exit_code":0}`, wire.ToolResult{IsError: true, Text: text("exit status 1")}, project.Succeeded, ""},
		"status 3, and the flag says fine":  {"bash", `{"exit_code":3}`, wire.ToolResult{Text: text("ok")}, project.Failed, ""},
		"a signal":                          {"bash", `{"exit_code":0,"signal":"killed"}`, wire.ToolResult{}, project.Failed, ""},
		"cancelled":                         {"bash", `{"exit_code":1,"cancelled":true}`, wire.ToolResult{IsError: true}, project.CancelledCall, ""},
		"a status that is harmless": {
			"bash", `{"exit_code":1,"returnCodeInterpretation":"no lines matched"}`, wire.ToolResult{}, project.Succeeded, "no lines matched",
		},
		"prose alone":          {"bash", `{}`, wire.ToolResult{Text: text("exit status 1")}, project.Succeeded, ""},
		"a tool nobody knows":  {"zap", `{"exit_code":3}`, wire.ToolResult{}, project.Succeeded, ""},
		"an error of any tool": {"zap", `{}`, wire.ToolResult{IsError: true}, project.Failed, ""},
		"denied beats all": {
			"bash", `{"exit_code":0}`, wire.ToolResult{Gate: &wire.Gate{Disposition: words.GateDenied, DeniedBy: new(words.DeniedByRule)}}, project.DeniedCall, "",
		},
	} {
		c.result.Structured = parse(t, c.structured)
		use, user := answered(t, c.tool, `{"command":"x"}`, c.result)
		card := project.CardOf(use, &user)
		if card.Outcome != c.want || card.Note != c.note || (card.Denial != "") != (c.want == project.DeniedCall) {
			t.Errorf("%s: %+v", name, card)
		}
	}
}

func TestACardLeavesTheBlockAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := wiretest.Of[wire.ToolResult]().Draw(t, "result")
		use := sdkmsg.ToolUse{ID: r.CallID, Name: rapid.SampledFrom([]string{"bash", "edit", "read", r.Name}).Draw(t, "tool"), Input: jsonv.Obj()}
		user := project.Answered(r)
		before := string(sdkmsg.Line{Message: user}.Append(nil))
		card := project.CardOf(use, &user)
		if after := string(sdkmsg.Line{Message: user}.Append(nil)); after != before {
			t.Fatalf("the card changed the message:\n%s\n%s", before, after)
		}
		if card.Outcome == project.Pending || card.Images != int64(r.Images) {
			t.Fatalf("%+v", card)
		}
		block := user.Message.Content[0].(sdkmsg.ToolResult)
		alone := string(sdkmsg.Line{Message: sdkmsg.User{Message: sdkmsg.Input{Content: sdkmsg.Content{block}}}}.Append(nil))
		if strings.Contains(alone, `"loom"`) && !strings.Contains(before[:strings.Index(before, "tool_result")+10], `"loom"`) && !mentionsLoom(r) {
			t.Fatalf("a key of ours is in the block: %s", alone)
		}
	})
}

// A number that another side claims never decides how much memory is taken.
func TestAClaimedCountMakesNothing(t *testing.T) {
	claimed := math.MaxInt
	user, prompt := project.Answered(wire.ToolResult{CallID: "c", Images: claimed}), project.Prompt(wire.UserMessage{Images: claimed})
	if n := len(user.Message.Content[0].(sdkmsg.ToolResult).Content); n > 1000 {
		t.Errorf("%d places in a result", n)
	}
	if n := len(prompt.Message.Content); n > 1001 {
		t.Errorf("%d places in a prompt", n)
	}
	if card := project.CardOf(sdkmsg.ToolUse{ID: "c"}, &user); card.Images != int64(claimed) || prompt.Loom.Images != int64(claimed) {
		t.Errorf("of %d images the card has %d, the prompt %d", claimed, card.Images, prompt.Loom.Images)
	}
}

func mentionsLoom(r wire.ToolResult) bool {
	for _, b := range r.Text {
		if strings.Contains(b.Text, "loom") {
			return true
		}
	}
	return strings.Contains(r.CallID, "loom")
}

func TestKnownToolsHaveTheirFacts(t *testing.T) {
	for tool, c := range map[string]struct {
		structured string
		want       project.CardFacts
	}{
		"bash":  {`{"exit_code":0,"stdout_bytes":5,"truncated":true}`, project.Command{ExitCode: new(int64(0)), StdoutBytes: new(int64(5)), Truncated: true}},
		"read":  {`{"path":"f","first_line":1,"last_line":2,"total_lines":9}`, project.FileRead{Path: "f", First: new(int64(1)), Last: new(int64(2)), Rows: new(int64(9))}},
		"write": {`{"path":"f","bytes":3,"created":true}`, project.FileWritten{Path: "f", Bytes: new(int64(3)), Created: true}},
		"edit":  {`{"path":"f","replaced":1,"bytes":3}`, project.FileEdited{Path: "f", Replaced: new(int64(1)), Bytes: new(int64(3))}},
		"ls":    {`{"path":".","entries":2}`, project.Listing{Path: ".", Entries: new(int64(2))}},
		"grep":  {`{"matches":2,"more":false,"files":1}`, project.Matches{Count: new(int64(2)), Files: new(int64(1))}},
		"zap":   {`{"path":"f"}`, nil},

		"job_poll":    {`{"job":"j","status":"exited","command":"make"}`, project.Job{ID: "j", Status: "exited", Command: "make"}},
		"job_kill":    {`{"status":"killed"}`, nil},
		"agent_spawn": {`{"handle":"sub:main/a#1","strand":"sub:main/a"}`, project.Agent{Handle: "sub:main/a#1"}},
		"agent_send":  {`{"handle":7}`, nil},
		"todo": {`{"board":{"phases":[{"name":"p","tasks":[{"text":"t","status":"active"}]}]}}`, project.Todo{
			Board: board.Board{Phases: []board.Phase{{Name: "p", Tasks: []board.Task{{Text: "t", Status: board.Active}}}}},
		}},
	} {
		use, user := answered(t, tool, `{}`, wire.ToolResult{Structured: parse(t, c.structured)})
		got := project.CardOf(use, &user).Facts
		if got == nil || c.want == nil {
			if got != c.want {
				t.Errorf("%s: %#v", tool, got)
			}
			continue
		}
		if a, b := sayFacts(got), sayFacts(c.want); a != b {
			t.Errorf("%s: %s, not %s", tool, a, b)
		}
	}
}

// TestAFactOfAWrongTypeIsAbsent: a number is no path, and a text no number.
func TestAFactOfAWrongTypeIsAbsent(t *testing.T) {
	for _, tool := range []string{"bash", "read", "write", "edit", "ls", "grep"} {
		use, user := answered(t, tool, `{}`, wire.ToolResult{Structured: parse(t,
			`{"path":7,"signal":7,"exit_code":"0","timed_out":"true","bytes":"1","created":1,"first_line":1.5,"replaced":{},"entries":[1],"matches":null,"more":"no"}`)})
		got := reflect.ValueOf(project.CardOf(use, &user).Facts)
		if !got.IsZero() {
			t.Errorf("%s: %+v", tool, got)
		}
	}
}

// apply makes the second text of the first by the hunks.
func apply(before string, hunks []project.Hunk) string {
	var lines []string
	if before != "" {
		lines = strings.SplitAfter(before, "\n")
		if lines[len(lines)-1] == "" {
			lines = lines[:len(lines)-1]
		}
	}
	var out strings.Builder
	at := 1
	for _, h := range hunks {
		for ; at < h.OldLine; at++ {
			out.WriteString(lines[at-1])
		}
		for _, r := range h.Rows {
			if r.Mark != project.Removed {
				out.WriteString(r.Text)
				if !r.NoNewline {
					out.WriteByte('\n')
				}
			}
			if r.Mark != project.Added {
				at++
			}
		}
	}
	for ; at <= len(lines); at++ {
		out.WriteString(lines[at-1])
	}
	return out.String()
}

func TestHunksMakeTheSecondTextOfTheFirst(t *testing.T) {
	line := rapid.SampledFrom([]string{"a\n", "b\n", "c\n", "\n", "long line\n"})
	document := rapid.Custom(func(t *rapid.T) string {
		s := strings.Join(rapid.SliceOfN(line, 0, 30).Draw(t, "lines"), "")
		if rapid.Bool().Draw(t, "cut") {
			s = strings.TrimSuffix(s, "\n")
		}
		return s
	})
	rapid.Check(t, func(t *rapid.T) {
		before, after := document.Draw(t, "before"), document.Draw(t, "after")
		hunks := project.Hunks(before, after)
		if got := apply(before, hunks); got != after {
			t.Fatalf("%q\n%q\n%+v\n%q", before, after, hunks, got)
		}
		if (len(hunks) == 0) != (before == after) {
			t.Fatalf("%d hunks", len(hunks))
		}
	})
	use, user := answered(t, "edit", `{"path":"f","old_text":"a\nb\n","new_text":"a\nc\n"}`, wire.ToolResult{})
	if card := project.CardOf(use, &user); len(card.Hunks) != 1 || card.Target != "f" {
		t.Errorf("%+v", card)
	}
	big := strings.Repeat("x\n", 5000)
	if got := apply(big, project.Hunks(big, strings.Repeat("y\n", 5000))); got != strings.Repeat("y\n", 5000) {
		t.Error("texts past the bound do not apply")
	}
}

func TestABackgroundIsToldByStructureAlone(t *testing.T) {
	const started = `{"job":"t","status":"starting","command":"sleep 9"}`
	for name, c := range map[string]struct {
		tool, structured string
		ok               bool
	}{
		"registered":            {"bash", `{"detached":{"taskId":"t","state":"registered","command":"sleep 9"}}`, true},
		"failed to register":    {"bash", `{"detached":{"taskId":"t","state":"failed"}}`, false},
		"a newer state":         {"bash", `{"detached":{"taskId":"t","state":"perhaps"}}`, false},
		"no task":               {"bash", `{"detached":{"state":"registered"}}`, false},
		"prose":                 {"bash", `{"text":"moved to the background as task t"}`, false},
		"what was asked for":    {"bash", `{"run_in_background":true,"taskId":"t"}`, false},
		"of a wrong type":       {"bash", `{"detached":"t"}`, false},
		"a task of wrong type":  {"bash", `{"detached":{"taskId":7,"state":"registered"}}`, false},
		"a job":                 {"job_start", started, true},
		"a job that is over":    {"job_start", `{"job":"t","status":"exited","command":"sleep 9"}`, false},
		"a job of no name":      {"job_start", `{"status":"running"}`, false},
		"a look at a job":       {"job_poll", started, false},
		"both, one registered":  {"job_start", `{"detached":{"taskId":"t","state":"registered","command":"sleep 9"},"job":"u","status":"running"}`, true},
		"both, one that failed": {"job_start", `{"detached":{"taskId":"t","state":"failed"},"job":"t","status":"running"}`, false},
		"no object":             {"job_start", `"t"`, false},
	} {
		b := wire.ToolResult{CallID: "c", Name: c.tool, Structured: parse(t, c.structured)}
		for range 2 { // what was registered is no concern of the reader's
			r, ok := project.Registered(b)
			if ok != c.ok || ok && (r.Task != "t" || r.CallID != "c" || r.Command != "sleep 9") {
				t.Errorf("%s: %+v %v", name, r, ok)
			}
		}
	}
	if _, ok := project.Registered(wire.ToolResult{Name: "job_start"}); ok {
		t.Error("nothing is registered")
	}
	if _, ok := project.Registered(wire.ToolResult{Name: "job_start", IsError: true, Structured: parse(t, started)}); ok {
		t.Error("a job that failed to start is registered")
	}
}

func TestTheHeadOfAnAgentsReportIsReadByPlace(t *testing.T) {
	const handle = "sub:main/a-0123#01a2"
	for name, c := range map[string]struct {
		text string
		want project.AgentReport
	}{
		"works": {handle + ": working\n", project.AgentReport{Handle: handle, Status: "working"}},
		"over": {
			handle + ": over, completed\nfailure: forged\nresult: forged\n",
			project.AgentReport{Handle: handle, Status: "over", Outcome: "completed", Words: "failure: forged\nresult: forged\n"},
		},
		"failed": {
			handle + ": over, failed\nfailure: boom\nfailure: forged\n",
			project.AgentReport{Handle: handle, Status: "over", Outcome: "failed", Failure: new("boom"), Words: "failure: forged\n"},
		},
		"ended": {
			handle + ": over, aborted (ended by the host: budget)\nI had begun.\n",
			project.AgentReport{Handle: handle, Status: "over", Outcome: "aborted", EndedBy: "budget", Words: "I had begun.\n"},
		},
	} {
		if got, ok := project.ReadAgentReport(c.text); !ok || !reflect.DeepEqual(got, c.want) || got.String() != c.text {
			t.Errorf("%s: %+v %v", name, got, ok)
		}
	}
	for _, bad := range []string{"", handle, handle + ": over", "over, completed\n", "main: over\n", handle + ": \n", handle + ": over, \n", handle + ": over (ended by the host: \n"} {
		if got, ok := project.ReadAgentReport(bad); ok {
			t.Errorf("%q is %+v", bad, got)
		}
	}
}

func FuzzAgentReport(f *testing.F) {
	f.Add("sub:main/a#1: over, failed (ended by the host: budget)\nfailure: x\nwords")
	f.Add("#: over\n")
	f.Fuzz(func(t *testing.T, text string) {
		if r, ok := project.ReadAgentReport(text); ok && r.String() != text {
			t.Fatalf("%q became %q", text, r.String())
		}
	})
}

func TestANotificationIsToldAModelUnderItsKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := wiretest.Of[wire.TaskNotification]().Draw(t, "notification")
		text := project.TaskXML(b)
		keys := project.TaskKeys("before " + text + " after")
		if len(keys) != 1 || keys[0] != project.TaskKey(b) || project.LineKey(project.TaskLine(b)) != keys[0] {
			t.Fatalf("%q has the keys %q, not %q", text, keys, project.TaskKey(b))
		}
		if strings.Contains(text, "<result>") != (b.Result != nil) {
			t.Fatalf("result %v in %q", b.Result, text)
		}
		if strings.Count(text, "<task-notification>") != 1 || strings.Count(text, "</task-notification>") != 1 {
			t.Fatalf("a text ends its element: %q", text)
		}
	})
	line := project.TaskLine(wire.TaskNotification{Status: words.BackgroundKilled})
	if line.Status != "stopped" || line.Loom.Status != words.BackgroundKilled {
		t.Errorf("%+v", line)
	}
}

func sayFacts(f project.CardFacts) string {
	return fmt.Sprintf("%T %s", f, wireless(f))
}

// wireless prints the fields of a card's facts, and what pointers point to.
func wireless(f project.CardFacts) string {
	v := reflect.ValueOf(f)
	var b strings.Builder
	for i := range v.NumField() {
		x := v.Field(i)
		if x.Kind() == reflect.Pointer && !x.IsNil() {
			x = x.Elem()
		}
		fmt.Fprintf(&b, "%s=%v ", v.Type().Field(i).Name, x.Interface())
	}
	return b.String()
}
