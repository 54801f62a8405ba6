package demo

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
)

// MaxCalls is the most calls that the demo makes for one prompt.
const MaxCalls = 4

// Response is what the demo says and asks for. It ends the turn when there are no calls.
type Response struct {
	Text  string
	Calls []message.ToolCall
}

const (
	whoIAm = "I am Loom's built-in demo. I follow a few fixed rules and am no language model, so I can only report what I looked at."
	howTo  = "For a model that thinks, set OPENAI_API_KEY and run again, or choose one with --model openai/ID. " +
		"OPENAI_BASE_URL points Loom at any server that speaks the same dialect."
	whatICan = "I can also do this much: \"read FILE\", \"find NAME\", \"run: COMMAND\", \"write FILE: TEXT\"."
)

// Respond is the model.
func Respond(req provider.Request) Response {
	t := readTurn(req)
	switch i := understand(t.prompt).(type) {
	case reading:
		return t.reading(i)
	case search:
		return t.search(i)
	case command:
		return t.once("bash", "Running the command.", args{"command", i.line}, "The command printed:")
	case writing:
		return t.once("write", "Writing the file.", args{"path", i.path, "content", i.text}, "The tool says:")
	case overview:
	}
	return t.overview()
}

// turn is the part of a request that decides: the last prompt and what was done for it since.
type turn struct {
	prompt string
	done   []exchange
	tools  map[string]provider.Tool
	seed   string // makes call ids of this request its own
}

// exchange is a call with its result; result is nil while it has none.
type exchange struct {
	call   message.ToolCall
	result *message.ToolResult
}

func readTurn(req provider.Request) turn {
	t := turn{tools: map[string]provider.Tool{}, seed: strconv.Itoa(len(req.Messages))}
	for _, tool := range req.Tools {
		t.tools[tool.Name] = tool
	}
	for _, m := range req.Messages {
		switch m := m.(type) {
		case *message.User:
			if text := message.TextOf(m.Content); strings.TrimSpace(text) != "" {
				t.prompt, t.done = text, nil
			}
		case *message.Assistant:
			calls, _ := m.ToolCalls()
			for _, c := range calls {
				t.done = append(t.done, exchange{call: c})
			}
		case *message.ToolResult:
			for i := range t.done {
				if t.done[i].call.ID == m.ToolCallID {
					t.done[i].result = m
				}
			}
		case *message.Custom:
		}
	}
	return t
}

// args are the arguments of a call as name, value, name, value.
type args []string

// aliases are other names under which a tool may want an argument.
var aliases = map[string][]string{
	"path": {"file_path", "filePath", "file"}, "command": {"cmd"}, "content": {"contents", "text"}, "pattern": {"query", "regex"},
}

// call makes a call of an offered tool, under the argument names of its schema.
func (t turn) call(name string, a args) message.ToolCall {
	properties, _ := t.tools[name].Schema.Get("properties")
	var fields []jsonv.Member
	for i := 0; i < len(a); i += 2 {
		field := a[i]
		if _, known := properties.Get(field); !known {
			for _, other := range aliases[field] {
				if _, known := properties.Get(other); known {
					field = other
					break
				}
			}
		}
		fields = append(fields, jsonv.F(field, jsonv.Str(a[i+1])))
	}
	c := message.ToolCall{Name: name, Arguments: jsonv.Obj(fields...)}
	prompt := t.prompt[:min(len(t.prompt), maxPrompt)]
	sum := sha256.Sum256([]byte(strings.Join([]string{t.seed, prompt, name, c.Arguments.String()}, "\x00")))
	c.ID = "demo_" + hex.EncodeToString(sum[:8])
	return c
}

func (t turn) offered(name string) bool { _, ok := t.tools[name]; return ok }

// did returns the result of the first call of a tool; ok is false when it was not called for this prompt.
func (t turn) did(name string) (e exchange, ok bool) {
	for _, e := range t.done {
		if e.call.Name == name {
			return e, true
		}
	}
	return exchange{}, false
}

// text is the text of a result; refused tells that the call did not work.
func (e exchange) text() (text string, refused bool) {
	if e.result == nil {
		return "it has no result", true
	}
	return strings.TrimRight(message.TextOf(e.result.Content), "\n"), e.result.IsError
}

// answer ends the turn with what was looked at, the findings, and who speaks.
func (t turn) answer(findings ...string) Response {
	parts := []string{whoIAm}
	if len(t.done) > 0 {
		var looked []string
		for _, e := range t.done {
			looked = append(looked, "- "+describe(e))
		}
		parts = append(parts, "I used:\n"+strings.Join(looked, "\n"))
	}
	parts = append(parts, findings...)
	return Response{Text: strings.Join(append(parts, howTo), "\n\n") + "\n"}
}

// maxReason bounds the reason in the list of what was used.
const maxReason = 200

// describe names a call and how it went, in one line.
func describe(e exchange) string {
	what := e.call.Name
	for _, v := range e.call.Arguments.Fields() {
		if s, ok := v.Text(); ok {
			line, _ := firstLines(s, 1, 60)
			what += " " + strings.Join(line, "")
		}
		break // the first argument says what the call is about
	}
	if text, refused := e.text(); refused {
		why, _ := firstLines(text, 1, maxReason)
		return what + " (did not work: " + strings.Join(why, "") + ")"
	}
	return what
}

// notOffered ends the turn for want of a tool.
func (t turn) notOffered(tool string) Response {
	return t.answer("I would need the tool \"" + tool + "\" for that, and it is not offered in this run.")
}

// once calls one tool once and reports its output.
func (t turn) once(tool, announce string, a args, heading string) Response {
	e, called := t.did(tool)
	switch {
	case !called && !t.offered(tool):
		return t.notOffered(tool)
	case !called:
		return Response{Text: announce, Calls: []message.ToolCall{t.call(tool, a)}}
	}
	text, refused := e.text()
	if refused && !strings.Contains(text, "\n") && len(text) <= maxReason {
		return t.answer("That did not work, so I stopped.") // the list above has the whole reason
	}
	if refused {
		return t.answer("That did not work, so I stopped. The tool says:\n" + quote(text, 12))
	}
	return t.answer(heading + "\n" + quote(text, 12))
}

func (t turn) reading(i reading) Response {
	e, called := t.did("read")
	switch {
	case !called && !t.offered("read"):
		return t.notOffered("read")
	case !called:
		return Response{Text: "Reading " + i.path + ".", Calls: []message.ToolCall{t.call("read", args{"path", i.path})}}
	}
	text, refused := e.text()
	if refused && i.guess {
		return t.overview()
	}
	if refused {
		return t.answer("I could not read it. The tool says:\n" + quote(text, 6))
	}
	return t.answer(i.path + " begins:\n" + quote(content(text), 12))
}

func (t turn) search(i search) Response {
	e, called := t.did("grep")
	switch {
	case !called && !t.offered("grep"):
		return t.notOffered("grep")
	case !called:
		return Response{Text: "Searching for " + i.pattern + ".", Calls: []message.ToolCall{t.call("grep", args{"pattern", regexp.QuoteMeta(i.pattern)})}}
	}
	text, refused := e.text()
	switch {
	case refused:
		return t.answer("The search did not work. The tool says:\n" + quote(text, 6))
	case !matchLine().MatchString(text):
		return t.answer("Nothing here matches "+i.pattern+".", whatICan)
	}
	return t.answer("The search for "+i.pattern+" found:\n"+quote(text, 11), whatICan)
}

// guides are files that say what a directory is, best first; manifests say what it is made of.
var (
	guides    = pattern(`(?im)(?:^|[\s/])(readme(?:\.[\w.]+)?)(?:\s|$)`)
	manifests = pattern(`(?m)(?:^|[\s/])(go\.mod|package\.json|Cargo\.toml|pyproject\.toml|pom\.xml|Makefile)(?:\s|$)`)
)

func (t turn) overview() Response {
	listed, called := t.did("ls")
	switch {
	case !called && !t.offered("ls"):
		return t.notOffered("ls")
	case !called:
		return Response{Text: "Looking at the directory.", Calls: []message.ToolCall{t.call("ls", args{"path", "."})}}
	}
	listing, refused := listed.text()
	if refused {
		return t.answer("I could not look at the directory. The tool says:\n" + quote(listing, 6))
	}
	if _, read := t.did("read"); !read && t.offered("read") {
		var calls []message.ToolCall
		for _, found := range []*regexp.Regexp{guides(), manifests()} {
			if m := found.FindStringSubmatch(listing); m != nil {
				calls = append(calls, t.call("read", args{"path", m[1]}))
			}
		}
		if calls != nil {
			return Response{Text: "Reading what describes it.", Calls: calls}
		}
	}
	return t.answer(t.summary(listing)...)
}

// summary reports the listing and the files that were read.
func (t turn) summary(listing string) []string {
	findings := []string{"The directory:\n" + quote(listing, 12)}
	for _, e := range t.done {
		if text, refused := e.text(); e.call.Name == "read" && !refused {
			findings = append(findings, strings.TrimPrefix(describe(e), "read ")+" begins:\n"+quote(content(text), 8))
		}
	}
	return append(findings, whatICan)
}

var (
	// matchLine is a line of a search result: path, line number, text.
	matchLine = pattern(`(?m)^.+:\d+:`)
	// numberedLine is a line of a file as the read tool shows it.
	numberedLine = pattern(`(?m)^[ \t]*\d+\t(.*)$`)
)

// content is the file in a result of the read tool, without line numbers and remarks; a result without numbers is taken as it is.
func content(shown string) string {
	lines := numberedLine().FindAllStringSubmatch(shown, 64)
	if lines == nil {
		return shown
	}
	var out strings.Builder
	for _, line := range lines {
		out.WriteString(line[1] + "\n")
	}
	return out.String()
}

// quote shows the first lines of an output, set in so that they are not taken for the demo's own words.
func quote(text string, lines int) string {
	kept, more := firstLines(text, lines, 160)
	if len(kept) == 0 {
		return "    (nothing)"
	}
	out := "    " + strings.Join(kept, "\n    ")
	if more {
		out += "\n    …"
	}
	return out
}
