package message_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"pgregory.net/rapid"
)

func TestMalformedArgumentsKeepTheTextAndTheComplaint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw, reason := coretest.Text().Draw(t, "raw"), coretest.Text().Draw(t, "reason")
		v := message.MalformedArguments(raw, reason)
		again, err := jsonv.Parse(v.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		gotRaw, gotReason, ok := message.AsMalformed(again)
		if !ok || gotRaw != raw || gotReason != reason {
			t.Fatalf("%s reads back as %q, %q, %v", v, gotRaw, gotReason, ok)
		}
	})
}

func TestMalformedArgumentsAreBounded(t *testing.T) {
	const family = "👨‍👩‍👧‍👦" // one grapheme of 25 bytes
	const most = 1024        // message.MaxMalformed
	for _, c := range []struct {
		name, raw string
		kept      int // bytes; less than all of them are followed by an ellipsis
	}{
		{"as many as fit", strings.Repeat("x", most), most},
		{"one more", strings.Repeat("x", most+1), most},
		{"ten million", strings.Repeat("x", 10_000_000), most},
		{"as many families as fit", strings.Repeat(family, most), most * len(family)},
		{"one family more", strings.Repeat(family, most+1), most * len(family)},
		{"as many line ends as fit", strings.Repeat("\r\n", most), 2 * most},
		{"one letter with a million marks", coretest.Zalgo(1_000_000), 32*most - 1}, // a letter and whole marks of two bytes
		{"marks behind text", "{" + coretest.Zalgo(1_000_000), 1},
	} {
		want := c.raw[:c.kept]
		if c.kept < len(c.raw) {
			want += "…"
		}
		raw, reason, ok := message.AsMalformed(message.MalformedArguments(c.raw, c.raw))
		if !ok || raw != want || reason != want {
			t.Errorf("%s: %d bytes kept of the text and %d of the reason, want %d; %v", c.name, len(raw), len(reason), len(want), ok)
		}
	}
	raw, _, _ := message.AsMalformed(message.MalformedArguments("a\xffb", ""))
	if raw != "a\ufffdb" || !utf8.ValidString(raw) {
		t.Errorf("broken bytes became %q", raw)
	}
}

func TestOnlyTheExactShapeIsMalformed(t *testing.T) {
	f := message.MalformedField
	for text, want := range map[string]bool{
		`{"` + f + `":{"raw":"a","reason":"b"}}`:       true,
		`{"` + f + `":{"reason":"b","raw":"a"}}`:       false,
		`{"` + f + `":{"raw":"a"}}`:                    false,
		`{"` + f + `":{"raw":"a","reason":"b","x":1}}`: false,
		`{"` + f + `":{"raw":"a","reason":null}}`:      false,
		`{"` + f + `":{"raw":1,"reason":"b"}}`:         false,
		`{"` + f + `":["a","b"]}`:                      false,
		`{"` + f + `":null}`:                           false,
		`{"` + f + `":{"raw":"a","reason":"b"},"x":1}`: false,
		`{"x":{"raw":"a","reason":"b"}}`:               false,
		`{}`:                                           false,
		`[{"` + f + `":{"raw":"a","reason":"b"}}]`:     false,
		`null`: false,
		`{"a":{"` + f + `":{"raw":"a","reason":"b"}}}`:     false,
		`{"` + f + `":{"` + f + `":"a","reason":"b"}}`:     false,
		`{"` + f + `":{"raw":"a","reason":"b"},"` + `":1}`: false,
	} {
		v, err := jsonv.ParseString(text)
		if err != nil {
			t.Fatal(err)
		}
		raw, reason, ok := message.AsMalformed(v)
		if ok != want || ok && (raw != "a" || reason != "b") || !ok && raw+reason != "" {
			t.Errorf("%s: %q, %q, %v", text, raw, reason, ok)
		}
	}
}

func TestArgumentsAreAlwaysAnObject(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`{"a":`, n-1) + "{}" + strings.Repeat("}", n-1) }
	for _, c := range []struct{ text, want string }{ // "" for what is not taken as it is
		{``, `{}`}, {`{}`, `{}`}, {` { "a" : [1.50, "x"] } `, `{"a":[1.50,"x"]}`}, {deep(message.MaxArgumentsDepth), deep(message.MaxArgumentsDepth)},
		{deep(message.MaxArgumentsDepth + 1), ""}, {deep(10_000), ""},
		{`null`, ""}, {`[]`, ""}, {`"{}"`, ""}, {`7`, ""}, {`{"a":1`, ""}, {`{"a":1}}`, ""}, {`{"a":1,"a":2}`, ""}, {"{\"a\":\"\xff\"}", ""}, {` `, ""}, {"{\"a\":\"\n\"}", ""},
	} {
		v := message.ParseArguments(c.text)
		raw, reason, malformed := message.AsMalformed(v)
		if v.Kind() != jsonv.Object || malformed != (c.want == "") || c.want != "" && v.String() != c.want {
			t.Errorf("%.60q becomes %.100s", c.text, v)
		}
		if malformed && (reason == "" || len(c.text) < 1000 && raw != strings.ToValidUTF8(c.text, "\ufffd")) {
			t.Errorf("%.60q: raw %.60q, reason %q", c.text, raw, reason)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		v := message.ParseArguments(coretest.Bytes().Draw(t, "text"))
		m := &message.Assistant{Content: []message.AssistantBlock{message.ToolCall{Arguments: v}}, StopReason: message.ToolUse}
		roundTrip(t, m)
	})
}
