package demo_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/demo"
	"github.com/loom-run/loom/provider/providertest"
)

const clockAt = 99

func tools(names ...string) []provider.Tool {
	var out []provider.Tool
	for _, name := range names {
		out = append(out, provider.Tool{Name: name, Schema: jsonv.Obj()})
	}
	return out
}

var allTools = tools("bash", "edit", "grep", "ls", "read", "write")

func asking(prompt string) provider.Request {
	return provider.Request{
		Model: demo.Model, Tools: allTools,
		Messages: []message.Message{&message.User{Content: []message.UserBlock{message.Text{Text: prompt}}}},
	}
}

func TestConformance(t *testing.T) {
	scene := func(req provider.Request) providertest.Scene {
		return func(testing.TB) (provider.Provider, provider.Request) {
			return demo.New(func() int64 { return clockAt }), req
		}
	}
	bare := asking("what is here?")
	bare.Tools = nil
	providertest.Run(t, providertest.Subject{
		At: clockAt, API: demo.API,
		Settles: map[string]providertest.Scene{
			"a call":        scene(asking("what is here?")),
			"an answer":     scene(bare),
			"nothing asked": scene(provider.Request{Model: demo.Model}),
		},
	})
}

// world answers tool calls the way a small directory would.
func world(c message.ToolCall) (text string, isError bool) {
	arg := func(name string) string { v, _ := c.Arguments.Get(name); s, _ := v.Text(); return s }
	switch c.Name {
	case "ls":
		return ".: 4 entries\nREADME.md 24\ncmd/\ngo.mod 28\nmain.go 13", false
	case "read":
		switch arg("path") {
		case "README.md":
			return "README.md: lines 1 to 3 of 9\n1\t# Spindle\n2\t\n3\tSpins thread.\n[6 lines left; next offset 4]", false
		case "go.mod":
			return "module example.com/spindle\n", false
		case "main.go":
			return "package main\n", false
		}
		return "no such file: " + arg("path"), true
	case "grep":
		if arg("pattern") == "absent" {
			return "no match in 4 files", false
		}
		return "1 matching line\nmain.go:3:func " + arg("pattern") + "() {", false
	case "bash":
		return "refused: commands need --permission-mode bypassPermissions", true
	case "write":
		return "wrote 5 bytes", false
	}
	return "no such tool", true
}

// converse plays a prompt to its end and returns the calls as one line each, and the final text.
func converse(t interface{ Fatalf(string, ...any) }, req provider.Request, answer func(message.ToolCall) (string, bool)) (calls []string, final string) {
	for {
		r := demo.Respond(req)
		if len(r.Calls) == 0 {
			return calls, r.Text
		}
		if len(calls)+len(r.Calls) > demo.MaxCalls {
			t.Fatalf("more than %d calls: %v then %v", demo.MaxCalls, calls, r.Calls)
		}
		m := &message.Assistant{Content: []message.AssistantBlock{message.Text{Text: r.Text}}}
		req.Messages = append(req.Messages, m)
		for _, c := range r.Calls {
			calls = append(calls, c.Name+c.Arguments.String())
			m.Content = append(m.Content, c)
			text, isError := answer(c)
			req.Messages = append(req.Messages, &message.ToolResult{
				ToolCallID: c.ID, ToolName: c.Name, IsError: isError, Content: []message.ResultBlock{message.Text{Text: text}},
			})
		}
	}
}

func TestPromptsLeadToTheToolsTheyAskFor(t *testing.T) {
	overview := []string{`ls{"path":"."}`, `read{"path":"README.md"}`, `read{"path":"go.mod"}`}
	for _, c := range []struct {
		prompt string
		calls  []string
		holds  string
	}{
		{"what is in this directory?", overview, "Spins thread."},
		{"hello", overview, "module example.com/spindle"},
		{"", overview, "4 entries"},
		{"I run this every day: is it good?", overview, "Spindle"},
		{"please write a poem", overview, "Spindle"},
		{"read main.go", []string{`read{"path":"main.go"}`}, "package main"},
		{"What does `main.go` do?", []string{`read{"path":"main.go"}`}, "package main"},
		{"open the file \"odd name\"", []string{`read{"path":"odd name"}`}, "no such file: odd name"},
		{"cat 'LICENSE'", []string{`read{"path":"LICENSE"}`}, "no such file"},
		{"explain cmd/tool/main.go.", []string{`read{"path":"cmd/tool/main.go"}`, `ls{"path":"."}`}, "read cmd/tool/main.go (did not work: no such file"},
		{"is this e.g. a Node.js project?", overview, "Spindle"},
		{"find startServer", []string{`grep{"pattern":"startServer"}`}, "main.go:3"},
		{"where is the config loaded in this project?", []string{`grep{"pattern":"config"}`}, "main.go:3"},
		{"Where is max_lines defined?", []string{`grep{"pattern":"max_lines"}`}, "max_lines"},
		{"find \"a b\" please", []string{`grep{"pattern":"a b"}`}, "a b"},
		{"search for x.y()", []string{`grep{"pattern":"x\\.y"}`}, "found:"},
		{"find absent", []string{`grep{"pattern":"absent"}`}, "Nothing here matches absent"},
		{"run: go test ./...", []string{`bash{"command":"go test ./..."}`}, "bypassPermissions"},
		{"RUN: `ls -l`\nand more", []string{`bash{"command":"ls -l"}`}, "did not work"},
		{"write notes.txt: hello\nworld", []string{`write{"path":"notes.txt","content":"hello\nworld"}`}, "wrote 5 bytes"},
		{"write notes.txt:\nhello\n", []string{`write{"path":"notes.txt","content":"hello\n"}`}, "wrote 5 bytes"},
	} {
		t.Run(c.prompt, func(t *testing.T) {
			calls, final := converse(t, asking(c.prompt), world)
			if diff := cmp.Diff(c.calls, calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if !strings.Contains(final, c.holds) {
				t.Errorf("the answer lacks %q:\n%s", c.holds, final)
			}
		})
	}
}

func TestEveryAnswerSaysWhatItIsAndWhatItLookedAt(t *testing.T) {
	for _, prompt := range []string{"what is here?", "read main.go", "find x1", "run: ls", "write a.txt: b"} {
		calls, final := converse(t, asking(prompt), world)
		for _, want := range []string{"built-in demo", "no language model", "OPENAI_API_KEY", "--model openai/"} {
			if !strings.Contains(final, want) {
				t.Errorf("%q: the answer lacks %q:\n%s", prompt, want, final)
			}
		}
		for _, call := range calls {
			if name, _, _ := strings.Cut(call, "{"); !strings.Contains(final, "- "+name+" ") {
				t.Errorf("%q: the answer does not say that it used %s:\n%s", prompt, name, final)
			}
		}
	}
}

func TestFilesAreShownWithoutTheMarksOfTheTool(t *testing.T) {
	_, final := converse(t, asking("read README.md"), world)
	if !strings.Contains(final, "    # Spindle\n    Spins thread.\n") || strings.Contains(final, "next offset") {
		t.Errorf("got:\n%s", final)
	}
}

func TestAHugePromptCostsLittle(t *testing.T) {
	tail := strings.Repeat("filler text ", 1<<20)
	for prompt, want := range map[string]string{
		"what is here?\n" + tail:  `ls{"path":"."}`,
		"run: true\n" + tail:      `bash{"command":"true"}`,
		"write big.txt:\n" + tail: `write{"path":"big.txt","content":"` + tail + `"}`,
	} {
		r := demo.Respond(asking(prompt))
		if got := r.Calls[0].Name + r.Calls[0].Arguments.String(); got != want {
			t.Errorf("%.20q: got %.60s", prompt, got)
		}
	}
}

func TestARefusalIsReportedAndNotRepeated(t *testing.T) {
	refuse := func(message.ToolCall) (string, bool) { return "not allowed here", true }
	for _, prompt := range []string{"what is here?", "read main.go", "find x1", "run: ls", "write a.txt: b"} {
		calls, final := converse(t, asking(prompt), refuse)
		if len(calls) != 1 || !strings.Contains(final, "not allowed here") {
			t.Errorf("%q: %v\n%s", prompt, calls, final)
		}
	}
}

func TestAToolThatIsNotOfferedIsNotCalled(t *testing.T) {
	for prompt, tool := range map[string]string{"what is here?": "ls", "read main.go": "read", "find x1": "grep", "run: ls": "bash", "write a.txt: b": "write"} {
		req := asking(prompt)
		req.Tools = tools("other")
		calls, final := converse(t, req, world)
		if len(calls) != 0 || !strings.Contains(final, `"`+tool+`"`) {
			t.Errorf("%q: %v\n%s", prompt, calls, final)
		}
	}
	req := asking("what is here?")
	req.Tools = tools("ls")
	if calls, _ := converse(t, req, world); len(calls) != 1 {
		t.Errorf("ls alone: %v", calls)
	}
}

func TestArgumentsGoByTheNamesOfTheSchema(t *testing.T) {
	schema, err := jsonv.ParseString(`{"type":"object","properties":{"file_path":{"type":"string"}}}`)
	if err != nil {
		t.Fatal(err)
	}
	req := asking("read main.go")
	req.Tools = []provider.Tool{{Name: "read", Schema: schema}}
	if got := demo.Respond(req).Calls[0].Arguments.String(); got != `{"file_path":"main.go"}` {
		t.Errorf("got %s", got)
	}
}

func TestTheLastPromptCounts(t *testing.T) {
	req := asking("read main.go")
	first := demo.Respond(req).Calls[0]
	req.Messages = append(req.Messages,
		&message.Assistant{Content: []message.AssistantBlock{first}},
		&message.ToolResult{ToolCallID: first.ID, ToolName: "read", Content: []message.ResultBlock{message.Text{Text: "package main"}}},
		&message.Assistant{Content: []message.AssistantBlock{message.Text{Text: "done"}}},
		&message.User{Content: []message.UserBlock{message.Text{Text: "read main.go"}}},
	)
	again := demo.Respond(req)
	if len(again.Calls) != 1 || again.Calls[0].ID == first.ID {
		t.Errorf("the same prompt later: %+v, first id %s", again.Calls, first.ID)
	}
}

func TestItCostsNothingAndSaysSo(t *testing.T) {
	m, err := demo.New(func() int64 { return clockAt }).Stream(t.Context(), asking("hi"), func(provider.Delta) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, remote := m.Usage.Evidence.Billing(); remote || m.Usage != usage.Zero() {
		t.Errorf("usage %+v", m.Usage)
	}
}

func TestTextComesWordByWord(t *testing.T) {
	var words int
	req := asking("hi")
	req.Tools = nil
	m, err := demo.New(func() int64 { return clockAt }).Stream(t.Context(), req, func(d provider.Delta) {
		if text := d.(provider.TextDelta).Text; strings.Count(strings.TrimSpace(text), " ") > 0 {
			t.Errorf("two words at once: %q", text)
		}
		words++
	})
	if err != nil || words < 20 {
		t.Errorf("%d pieces of %q, %v", words, message.TextOf(m.Content), err)
	}
}

func TestAnyConversationEndsSoonAndTheSameWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prompt := rapid.OneOf(rapid.String(), rapid.StringMatching(`(run:|write [a-z.]+:|find|read|where is) [a-zA-Z_.\n"]{0,20}`)).Draw(t, "prompt")
		output := rapid.OneOf(rapid.String(), rapid.Just("README.md\nMakefile\nreadme.txt")).Draw(t, "output")
		broken := rapid.Bool().Draw(t, "broken")
		req := asking(prompt)
		answer := func(message.ToolCall) (string, bool) { return output, broken }
		calls, final := converse(t, req, answer)
		againCalls, again := converse(t, req, answer)
		if final != again || fmt.Sprint(calls) != fmt.Sprint(againCalls) {
			t.Fatal("the same request got another response")
		}
		if !strings.HasPrefix(strings.TrimSpace(strings.ToLower(prompt)), "run:") && strings.Contains(fmt.Sprint(calls), "bash{") {
			t.Fatalf("a command ran unasked: %v", calls)
		}
		if !strings.HasPrefix(strings.TrimSpace(strings.ToLower(prompt)), "write") && strings.Contains(fmt.Sprint(calls), "write{") {
			t.Fatalf("a file was written unasked: %v", calls)
		}
	})
}
