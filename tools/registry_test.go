package tools

import (
	"context"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/loom-run/loom/broker"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/policy"
	"pgregory.net/rapid"
)

// tool is a further tool for tests.
func tool(name string, run func(context.Context, Invocation) Outcome) Tool {
	return Tool{Name: name, Description: "for tests", Class: policy.Read, Schema: jsonv.Obj(), Run: run}
}

func TestTheBuiltInTools(t *testing.T) {
	r := newRig(t)
	want := []struct {
		name       string
		class      policy.Class
		replay     Replay
		scheduling Scheduling
	}{
		{"bash", policy.Exec, Never, Exclusive},
		{"edit", policy.Write, Never, Exclusive},
		{"grep", policy.Read, Safe, Concurrent},
		{"ls", policy.Read, Safe, Concurrent},
		{"read", policy.Read, Safe, Concurrent},
		{"write", policy.Write, Never, Exclusive},
	}
	defs := r.registry.Definitions()
	if len(defs) != len(want) {
		t.Fatalf("%d tools", len(defs))
	}
	for i, w := range want {
		got, ok := r.registry.Lookup(w.name)
		if !ok || got.Class != w.class || got.Replay != w.replay || got.Scheduling != w.scheduling {
			t.Errorf("%s is %v, %v, %v", w.name, got.Class, got.Replay, got.Scheduling)
		}
		if d := defs[i]; d.Name != w.name || d.Description != got.Description || !d.Schema.Equal(got.Schema) {
			t.Errorf("definition %d is of %s", i, d.Name)
		}
	}
}

// TestSchemasAndDecodersAgree: what the schema offers is decoded, what it
// requires is demanded, and nothing else is taken.
func TestSchemasAndDecodersAgree(t *testing.T) {
	r := newRig(t)
	for _, d := range r.registry.Definitions() {
		t.Run(d.Name, func(t *testing.T) {
			properties, _ := d.Schema.Get("properties")
			if extra, ok := d.Schema.Get("additionalProperties"); !ok || extra.String() != "false" {
				t.Error("the schema does not exclude further arguments")
			}
			full := jsonv.Obj()
			for name, p := range properties.Fields() {
				if _, ok := p.Get("description"); !ok {
					t.Errorf("%s is not described", name)
				}
				kind, _ := p.Get("type")
				full = full.With(name, map[string]jsonv.Value{`"string"`: jsonv.Str("valid-" + name), `"integer"`: jsonv.Num(1), `"boolean"`: jsonv.Boolean(true)}[kind.String()])
			}
			if text := textOf(r.run(t, d.Name, full)); strings.HasPrefix(text, "invalid arguments") {
				t.Errorf("all that the schema offers: %s", text)
			}
			if text := r.refused(t, d.Name, str("surprise", "x")); !strings.HasPrefix(text, `invalid arguments: there is no argument "surprise"`) {
				t.Errorf("an argument it does not offer: %s", text)
			}
			required, _ := d.Schema.Get("required")
			for name := range properties.Fields() {
				without := jsonv.Obj()
				for n, v := range full.Fields() {
					if n != name {
						without = without.With(n, v)
					}
				}
				isRequired := false
				for _, req := range required.Elems() {
					n, _ := req.Text()
					isRequired = isRequired || n == name
				}
				text := textOf(r.run(t, d.Name, without))
				if missing := strings.HasPrefix(text, `invalid arguments: "`+name+`" is missing`); missing != isRequired {
					t.Errorf("without %s (required %v): %s", name, isRequired, text)
				}
				wrong := textOf(r.run(t, d.Name, full.With(name, jsonv.Arr())))
				if !strings.HasPrefix(wrong, `invalid arguments: "`+name+`" is an array`) {
					t.Errorf("%s as an array: %s", name, wrong)
				}
			}
		})
	}
}

func TestArgumentFaultsAreNamed(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct{ tool, args, want string }{
		{"read", `{"path":"a","offset":0}`, `invalid arguments: "offset" is 0; it must be from 1 to 1099511627776`},
		{"read", `{"path":"a","offset":1.5}`, `invalid arguments: "offset" is a number; an integer is expected`},
		{"read", `{"path":"a","offset":99999999999999999999999}`, `invalid arguments: "offset" is 99999999999999999999999; it must be from 1 to 1099511627776`},
		{"read", `{"path":true}`, `invalid arguments: "path" is a boolean; a string is expected`},
		{"bash", `{"command":"true","timeout_ms":600001}`, `invalid arguments: "timeout_ms" is 600001; it must be from 1 to 600000`},
		{"bash", `{"command":" "}`, `invalid arguments: "command" is empty`},
		{"bash", `{"command":"a\u0000b"}`, `invalid arguments: "command" holds a NUL byte, which no command line can carry`},
		{"edit", `{"path":"a","old_text":"","new_text":"x"}`, `invalid arguments: "old_text" is empty; use write to create a file or to replace all of one`},
		{"edit", `{"path":"a","old_text":"x","new_text":"x"}`, `invalid arguments: "old_text" and "new_text" are equal`},
		{"grep", `{"pattern":"("}`, "invalid arguments: \"pattern\" is not a regular expression of RE2: error parsing regexp: missing closing ): `(`"},
		{"grep", `{"pattern":"a","glob":"[a"}`, `invalid arguments: "glob": "[a" has a [ without its ]`},
		{"ls", `[]`, `invalid arguments: an object is expected, not an array`},
		{"ls", `null`, `invalid arguments: an object is expected, not null`},
	} {
		v, err := jsonv.ParseString(c.args)
		if err != nil {
			t.Fatal(err)
		}
		if out := r.run(t, c.tool, v); !out.IsError || textOf(out) != c.want {
			t.Errorf("%s %s:\n got %s\nwant %s", c.tool, c.args, textOf(out), c.want)
		}
	}
	// Null stands for what is left out.
	if text := r.ok(t, "ls", jsonv.F("path", jsonv.Value{}), jsonv.F("limit", jsonv.Value{})); !strings.HasPrefix(text, ".: 0 entries") {
		t.Error(text)
	}
}

func TestTextThatIsNoJSONIsTold(t *testing.T) {
	r := newRig(t)
	text := textOf(r.run(t, "read", message.ParseArguments(`{"path": "a`)))
	if !strings.HasPrefix(text, "invalid arguments: ") || !strings.HasSuffix(text, `The text was: {"path": "a`) {
		t.Error(text)
	}
}

func TestAnUnknownToolIsToldWhichThereAre(t *testing.T) {
	out := newRig(t).registry.Run(t.Context(), Call{Tool: "erase", Arguments: jsonv.Obj()})
	if want := `there is no tool "erase"; the tools are bash, edit, grep, ls, read, write`; !out.IsError || textOf(out) != want {
		t.Errorf("got %s", textOf(out))
	}
}

func TestNothingRunsWithoutAPermitForExactlyThisCall(t *testing.T) {
	ran := 0
	r := newRig(t, tool("probe", func(context.Context, Invocation) Outcome { ran++; return said("ran") }))
	at := r.coordinates()
	args := jsonv.Obj(str("a", "1"))
	good, err := r.broker.Clear(broker.Call{Coordinates: at, Tool: "probe", Class: policy.Read, Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := at
	elsewhere.SourceIndex++
	for name, c := range map[string]Call{
		"no permit":         {Coordinates: at, Tool: "probe", Arguments: args},
		"a zero permit":     {Permit: new(broker.Permit), Coordinates: at, Tool: "probe", Arguments: args},
		"other arguments":   {Permit: good, Coordinates: at, Tool: "probe", Arguments: jsonv.Obj(str("a", "2"))},
		"other coordinates": {Permit: good, Coordinates: elsewhere, Tool: "probe", Arguments: args},
		"another tool":      {Permit: good, Coordinates: at, Tool: "ls", Arguments: args},
	} {
		if out := r.registry.Run(t.Context(), c); !out.IsError || !strings.HasPrefix(textOf(out), "the call was not run: ") {
			t.Errorf("%s: %s", name, textOf(out))
		}
	}
	if ran != 0 {
		t.Fatalf("ran %d times", ran)
	}
	if out := r.registry.Run(t.Context(), Call{Permit: good, Coordinates: at, Tool: "probe", Arguments: args}); out.IsError || ran != 1 {
		t.Errorf("the call itself: %s", textOf(out))
	}
}

func TestACrashOfAToolIsAResult(t *testing.T) {
	r := newRig(t, tool("crash", func(context.Context, Invocation) Outcome { panic("at the disco") }))
	if text := r.refused(t, "crash"); !strings.Contains(text, "the tool crash failed inside: at the disco") {
		t.Error(text)
	}
}

func TestEveryOutcomeIsPresentable(t *testing.T) {
	content := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) message.ResultBlock {
		if rapid.Bool().Draw(t, "image") {
			return message.Image{Data: "AA==", MimeType: "image/png"}
		}
		return message.Text{Text: string(rapid.SliceOf(rapid.SampledFrom([]byte{0, 'a', 0x80, 0xff, 0xc3, 0xa9})).Draw(t, "text"))}
	}), 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		in := Outcome{Content: content.Draw(t, "content")}
		given := slices.Clone(in.Content)
		out := presentable(in)
		if len(out.Content) == 0 {
			t.Fatal("no content")
		}
		for _, b := range out.Content {
			if text, ok := b.(message.Text); ok && (!utf8.ValidString(text.Text) || strings.ContainsRune(text.Text, 0)) {
				t.Fatalf("%q", text.Text)
			}
		}
		if !slices.Equal(in.Content, given) {
			t.Fatal("the content that was given is changed")
		}
	})
}

func TestARegistryIsWholeOrNone(t *testing.T) {
	r := newRig(t)
	good := Deps{Workspace: r.dir, Broker: r.broker}
	run := func(context.Context, Invocation) Outcome { return said("") }
	for name, change := range map[string]func(*Deps){
		"a taken name":         func(d *Deps) { d.More = []Tool{tool("read", run)} },
		"a name twice":         func(d *Deps) { d.More = []Tool{tool("x", run), tool("x", run)} },
		"no name":              func(d *Deps) { d.More = []Tool{tool("", run)} },
		"no function":          func(d *Deps) { d.More = []Tool{tool("x", nil)} },
		"no class":             func(d *Deps) { bad := tool("x", run); bad.Class = 0; d.More = []Tool{bad} },
		"no broker":            func(d *Deps) { d.Broker = nil },
		"a relative workspace": func(d *Deps) { d.Workspace = "." },
		"no workspace":         func(d *Deps) { d.Workspace = r.dir + "-none" },
	} {
		d := good
		change(&d)
		if reg, err := New(d); err == nil {
			_ = reg.Close()
			t.Errorf("%s: no error", name)
		}
	}
}

func TestWordsOfNumbers(t *testing.T) {
	for want, got := range map[string]string{
		"1 byte": count(1, "byte"), "2 bytes": count(2, "byte"), "0 entries": count(0, "entry"), "3 processes": count(3, "process"), "2 matches": count(2, "match"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func FuzzArguments(f *testing.F) {
	f.Add([]byte(`{"path":"a","offset":1,"limit":2}`))
	f.Add([]byte(`{"path":"a","content":"x"}`))
	f.Add([]byte(`{"path":"a","old_text":"x","new_text":"y","replace_all":true}`))
	f.Add([]byte(`{"command":"true","timeout_ms":1}`))
	f.Add([]byte(`{"pattern":"a(b|c)*","glob":"!*.{go,md}","max_results":3}`))
	f.Add([]byte(`[null]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := jsonv.Parse(text)
		if err != nil {
			return
		}
		faults := make([]*arguments, 6)
		read, a := readArgumentsOf(v)
		faults[0] = a
		if a.fault == "" && (read.offset < 1 || read.limit < 1) {
			t.Errorf("read %+v", read)
		}
		_, faults[1] = writeArgumentsOf(v)
		edit, a := editArgumentsOf(v)
		faults[2] = a
		if a.fault == "" && edit.old == "" {
			t.Error("edit with nothing to replace")
		}
		bash, a := bashArgumentsOf(v)
		faults[3] = a
		if a.fault == "" && (bash.timeout <= 0 || bash.timeout.Milliseconds() > bashMaxTimeout) {
			t.Errorf("bash %+v", bash)
		}
		grep, a := grepArgumentsOf(v)
		faults[4] = a
		if a.fault == "" && (grep.re == nil || grep.maxResults < 1 || grep.maxResults > grepMaxResults) {
			t.Errorf("grep %+v", grep)
		}
		ls, a := lsArgumentsOf(v)
		faults[5] = a
		if a.fault == "" && (ls.limit < 1 || ls.limit > lsMaxEntries) {
			t.Errorf("ls %+v", ls)
		}
		for _, a := range faults {
			if out, bad := a.err(); bad && (!out.IsError || !strings.HasPrefix(textOf(out), "invalid arguments: ")) {
				t.Errorf("%s: %s", text, textOf(out))
			}
		}
	})
}
