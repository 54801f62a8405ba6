package message_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"pgregory.net/rapid"
)

func count(s string) (n int) {
	for g := graphemes.FromString(s); g.Next(); n++ {
	}
	return n
}

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
	const family = "👨‍👩‍👧‍👦"
	for _, c := range []struct {
		name, raw string
		graphemes int // with the ellipsis
		cut       bool
	}{
		{"as many as fit", strings.Repeat("x", 1024), 1024, false},
		{"one more", strings.Repeat("x", 1025), 1025, true},
		{"ten million", strings.Repeat("x", 10_000_000), 1025, true},
		{"as many families as fit", strings.Repeat(family, 1024), 1024, false},
		{"one family more", strings.Repeat(family, 1025), 1025, true},
		{"as many line ends as fit", strings.Repeat("\r\n", 1024), 1024, false},
		{"one letter with a million marks", coretest.Zalgo(1_000_000), 2, true},
		{"marks behind text", "{" + coretest.Zalgo(1_000_000), 2, true},
	} {
		raw, reason, ok := message.AsMalformed(message.MalformedArguments(c.raw, c.raw))
		if !ok || raw != reason {
			t.Errorf("%s: %v", c.name, ok)
		}
		if n := count(raw); n != c.graphemes || strings.HasSuffix(raw, "…") != c.cut || len(raw) > 32*message.MaxMalformed+len("…") {
			t.Errorf("%s: %d graphemes in %d bytes, want %d; cut %v", c.name, n, len(raw), c.graphemes, !c.cut)
		}
		if !strings.HasPrefix(c.raw, strings.TrimSuffix(raw, "…")) {
			t.Errorf("%s: not the start of what the model wrote", c.name)
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
