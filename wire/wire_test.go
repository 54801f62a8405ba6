package wire_test

import (
	"bytes"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/wiretest"
)

var same = []cmp.Option{
	cmpopts.EquateEmpty(),
	cmp.Comparer(func(a, b jsonv.Value) bool { return a.Equal(b) }),
	cmp.Comparer(func(a, b id.EntryID) bool { return a == b }),
	cmp.Comparer(func(a, b id.SessionID) bool { return a == b }),
	cmp.Comparer(func(a, b id.OpID) bool { return a == b }),
}

func TestFrameReadsBackAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := wiretest.Frame().Draw(t, "frame")
		text := f.Append([]byte("x "))[2:]
		if bytes.ContainsAny(text, "\r\n") {
			t.Fatalf("a frame must be one line: %q", text)
		}
		got, err := wire.DecodeFrame(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(f, got, same...); diff != "" {
			t.Fatalf("(-sent +read)\n%s", diff)
		}
	})
}

func TestEventsReadBackInOrderWhateverTheReadsAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		frames := rapid.SliceOfN(wiretest.Frame(), 0, 5).Draw(t, "frames")
		var stream []byte
		for _, f := range frames {
			if rapid.Bool().Draw(t, "beat") {
				stream = append(stream, wire.Heartbeat...)
			}
			stream = wire.AppendEvent(stream, f)
		}
		var src io.Reader = bytes.NewReader(stream)
		if rapid.Bool().Draw(t, "slow") {
			src = iotest.OneByteReader(src)
		}
		r := wire.NewEventReader(src)
		for _, f := range frames {
			got, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(f, got, same...); diff != "" {
				t.Fatalf("(-sent +read)\n%s", diff)
			}
		}
		if _, err := r.Next(); err != io.EOF {
			t.Fatalf("after the last event: %v, want EOF", err)
		}
	})
}

func TestEventStreamFaultsAreToldApart(t *testing.T) {
	f := wire.Frame{
		ID: "k", Cursor: wire.Cursor{Seq: 7}, Delivery: wire.Replay, Session: wiretest.Session(1),
		Body: wire.TextEnd{Segment: wire.Segment{Entry: wiretest.Entry(1)}, Content: "hi"},
	}
	event := string(wire.AppendEvent(nil, f))
	report := func(err error) bool { _, ok := corrupt.As(err); return ok }
	for name, c := range map[string]struct {
		stream string
		want   func(error) bool
	}{
		"end between events":    {": beat\n\n", func(err error) bool { return err == io.EOF }},
		"end inside a line":     {event[:20], func(err error) bool { return err == io.ErrUnexpectedEOF }},
		"end inside an event":   {event[:len(event)-1], func(err error) bool { return err == io.ErrUnexpectedEOF }},
		"event is another kind": {strings.Replace(event, "event: text_end", "event: run_end", 1), report},
		"id is another cursor":  {strings.Replace(event, "id: 0:7:0", "id: 0:8:0", 1), report},
		"data is not a frame":   {"event: text_end\ndata: {}\n\n", report},
		"data is not JSON":      {"data: hello\n\n", report},
	} {
		if _, err := wire.NewEventReader(strings.NewReader(c.stream)).Next(); !c.want(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := wire.NewEventReader(strings.NewReader(strings.ReplaceAll(event, "\n", "\r\n"))).Next(); err != nil || got.ID != "k" {
		t.Errorf("CRLF: %v %v", got, err)
	}
}

func TestCursorsOrderAndReadBack(t *testing.T) {
	cursor := rapid.Custom(func(t *rapid.T) wire.Cursor {
		return wire.Cursor{
			Generation: rapid.Int64Range(0, 3).Draw(t, "g"),
			Seq:        rapid.Int64Range(0, 12).Draw(t, "s"),
			Ordinal:    rapid.IntRange(0, 12).Draw(t, "o"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := cursor.Draw(t, "a"), cursor.Draw(t, "b"), cursor.Draw(t, "c")
		if got, err := wire.ParseCursor(a.String()); err != nil || got != a {
			t.Fatalf("%v reads as %v, %v", a, got, err)
		}
		if got, err := wire.ParseFrom(wire.FromCursor(a).String()); err != nil || got != wire.FromCursor(a) {
			t.Fatalf("from %v reads as %v, %v", a, got, err)
		}
		if a.Compare(b) != -b.Compare(a) || (a.Compare(b) == 0) != (a == b) {
			t.Fatalf("%v and %v are not ordered", a, b)
		}
		if a.Compare(b) <= 0 && b.Compare(c) <= 0 && a.Compare(c) > 0 {
			t.Fatalf("%v, %v, %v are not ordered", a, b, c)
		}
	})
	for _, s := range []string{"", "1", "1:2", "1:2:3:4", "-1:2:3", "+1:2:3", "01:2:3", "1:2:", "1:2:2147483648", "9223372036854775808:1:1", "1:2:3 ", "a:b:c"} {
		if c, err := wire.ParseCursor(s); err == nil {
			t.Errorf("%q reads as %v", s, c)
		}
	}
	for _, f := range []wire.From{wire.FromHead(), wire.FromStart()} {
		if got, err := wire.ParseFrom(f.String()); err != nil || got != f {
			t.Errorf("%v reads as %v, %v", f, got, err)
		}
	}
}

const envelope = `{"id":"k","cursor":"0:1:0","kind":"turn_end","delivery":"replay","session":"01920000-0000-7000-8000-000000000000","body":`

func TestKnownKindThatBreaksTheContractIsNotAnUnknownKind(t *testing.T) {
	const turn = `{"entryId":"01920000-0000-7000-8000-000000000000","stopReason":"stop","model":{"provider":"p","modelId":"m"}`
	cases := map[string]string{
		"usage is missing":        envelope + turn + `}}`,
		"usage is null":           envelope + turn + `,"usage":null}}`,
		"measured is missing":     envelope + turn + `,"usage":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0}}}`,
		"a count is negative":     envelope + turn + `,"usage":{"input":-1,"output":0,"cacheRead":0,"cacheWrite":0,"measured":true}}}`,
		"body is not an object":   envelope + `[]}`,
		"delivery is not allowed": strings.NewReplacer(`"cursor":"0:1:0",`, "", `"replay"`, `"live"`).Replace(envelope) + turn + `,"usage":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"measured":true}}}`,
	}
	for name, text := range cases {
		f, err := wire.DecodeFrame([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		b, ok := f.Body.(wire.Broken)
		if !ok || b.Of != wire.KindTurnEnd || b.Report == nil {
			t.Errorf("%s: %#v", name, f.Body)
			continue
		}
		if again, err := wire.DecodeFrame(f.Append(nil)); err != nil || !again.Body.(wire.Broken).Raw.Equal(b.Raw) {
			t.Errorf("%s: the raw body was not kept: %v", name, err)
		}
	}
	f, err := wire.DecodeFrame([]byte(strings.Replace(envelope, "turn_end", "turn_ended", 1) + `{"x":1.50}}`))
	if err != nil || f.Body.(wire.Unknown).Word != "turn_ended" || f.Body.(wire.Unknown).Raw.String() != `{"x":1.50}` {
		t.Errorf("unknown kind: %#v %v", f.Body, err)
	}
}

func TestUnreadableEnvelopeIsAnError(t *testing.T) {
	whole := envelope + `{}}`
	for name, change := range map[string][2]string{
		"no id":               {`"id":"k",`, ``},
		"empty id":            {`"id":"k"`, `"id":""`},
		"long id":             {`"id":"k"`, `"id":"` + strings.Repeat("k", wire.MaxWord+1) + `"`},
		"replay, no cursor":   {`"cursor":"0:1:0",`, ``},
		"live with a cursor":  {`"replay"`, `"live"`},
		"unknown delivery":    {`"replay"`, `"gossip"`},
		"cursor before rows":  {`0:1:0`, `0:0:0`},
		"kind with a newline": {`"turn_end"`, `"turn\nend"`},
		"session of version 4": {
			`01920000-0000-7000-8000-000000000000`, `01920000-0000-4000-8000-000000000000`,
		},
		"field twice": {`"id":"k"`, `"id":"k","id":"k"`},
		"no body":     {`,"body":{}`, ``},
	} {
		text := strings.Replace(whole, change[0], change[1], 1)
		if text == whole {
			t.Fatalf("%s: nothing was changed", name)
		}
		if _, err := wire.DecodeFrame([]byte(text)); err == nil {
			t.Errorf("%s: accepted", name)
		} else if _, ok := corrupt.As(err); !ok {
			t.Errorf("%s: %v is not a report", name, err)
		}
	}
}

func TestUnknownCauseKeepsItsWord(t *testing.T) {
	body := `{"cause":{"kind":"evaporated","why":"heat"},"usage":{"input":1,"output":0,"cacheRead":0,"cacheWrite":0,"measured":true}}}`
	f, err := wire.DecodeFrame([]byte(strings.Replace(envelope, "turn_end", "run_end", 1) + body))
	if err != nil {
		t.Fatal(err)
	}
	cause := f.Body.(wire.RunEnd).Cause
	if u, ok := cause.(wire.UnknownCause); !ok || u.Tag != "evaporated" || cause.Word() != "evaporated" {
		t.Fatalf("%#v", cause)
	}
	for name, cause := range map[string]string{
		"no cause": `null`, "no word": `{}`, "failed without code": `{"kind":"failed","message":"m"}`,
	} {
		text := strings.Replace(envelope, "turn_end", "run_end", 1) + strings.Replace(body, `{"kind":"evaporated","why":"heat"}`, cause, 1)
		if f, err := wire.DecodeFrame([]byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if _, ok := f.Body.(wire.Broken); !ok {
			t.Errorf("%s: %#v", name, f.Body)
		}
	}
	// A malformed detail explains nothing and changes nothing.
	text := strings.Replace(envelope, "turn_end", "run_end", 1) + strings.Replace(body, `{"kind":"evaporated","why":"heat"}`, `{"kind":"blocked","detail":{"kind":7}}`, 1)
	if f, err := wire.DecodeFrame([]byte(text)); err != nil || f.Body.(wire.RunEnd).Cause != (wire.Blocked{}) {
		t.Errorf("malformed detail: %#v %v", f.Body, err)
	}
}

type message interface{ Append([]byte) []byte }

func decoded[T message](decode func([]byte) (T, error)) func([]byte) (message, error) {
	return func(b []byte) (message, error) { return decode(b) }
}

// messages is every request and answer: one full value and its decoder.
var messages = map[string]struct {
	full   message
	decode func([]byte) (message, error)
}{
	"create": {
		wire.CreateSession{Cwd: "/w", Model: new("demo"), PermissionMode: words.ModePlan, MaxTurns: new(int64(3))},
		decoded(wire.DecodeCreateSession),
	},
	"prompt": {
		wire.Prompt{Text: "hé", Strand: new("main"), MaxTurns: new(int64(1)), Model: new("m"), PermissionMode: new(words.ModeAcceptEdits)},
		decoded(wire.DecodePrompt),
	},
	"resume":  {wire.Resume{Strand: new("s"), MaxTurns: new(int64(9)), PermissionMode: new(words.ModeDefault)}, decoded(wire.DecodeResume)},
	"abort":   {wire.Abort{Strand: new("s")}, decoded(wire.DecodeAbort)},
	"created": {wire.Created{Session: wiretest.Session(1), Cursor: wire.Cursor{Generation: 1, Seq: 4}}, decoded(wire.DecodeCreated)},
	"prompted": {
		wire.Prompted{Status: wire.Admitted, Operation: wiretest.Op(2), Seq: 9}, decoded(wire.DecodePrompted),
	},
	"resumed": {wire.Resumed{Operation: wiretest.Op(2)}, decoded(wire.DecodeResumed)},
	"aborted": {wire.AbortReceipt{Status: wire.Aborting}, decoded(wire.DecodeAbortReceipt)},
	"list": {wire.SessionList{Sessions: []wire.SessionInfo{{
		Session: wiretest.Session(3), Status: words.SessionIdle, Cwd: new("/w"), Model: new("m"), Title: new("t"),
		CreatedAt: new(int64(1)), UpdatedAt: new(int64(2)), Note: new("n"),
	}}}, decoded(wire.DecodeSessionList)},
	"page": {wire.SessionPage{
		Info: wire.SessionInfo{Session: wiretest.Session(3), Status: "new_word"},
		Frames: []wire.Frame{{
			ID: "k", Cursor: wire.Cursor{Seq: 7}, Delivery: wire.Replay, Session: wiretest.Session(1),
			Body: wire.UserMessage{Entry: wiretest.Entry(1), Text: "hi", Bytes: 2},
		}},
		Next: wire.Cursor{Seq: 7}, More: true,
	}, decoded(wire.DecodeSessionPage)},
	"check": {
		wire.CheckReport{Findings: []wire.Finding{{Code: "c", Subject: "s", Message: "m"}}, Rows: 12}, decoded(wire.DecodeCheckReport),
	},
	"error": {wire.ErrorBody{Code: wire.SessionHeld, Message: "held"}, decoded(wire.DecodeErrorBody)},
}

func TestMessagesReadBack(t *testing.T) {
	for name, m := range messages {
		got, err := m.decode(m.full.Append(nil))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(m.full, got, same...); diff != "" {
			t.Errorf("%s (-sent +read)\n%s", name, diff)
		}
		if v := reflect.ValueOf(m.full); v.Kind() == reflect.Struct {
			for i := range v.NumField() {
				if v.Field(i).IsZero() {
					t.Errorf("%s: %s is not filled, so its codec is not tested", name, v.Type().Field(i).Name)
				}
			}
		}
	}
}

func TestRequestsRefuseWhatTheyDoNotKnow(t *testing.T) {
	for name, c := range map[string]struct{ body, which string }{
		"misspelt option":  {`{"text":"x","maxTurn":1}`, "prompt"},
		"empty prompt":     {`{"text":""}`, "prompt"},
		"no prompt":        {`{}`, "prompt"},
		"zero turns":       {`{"text":"x","maxTurns":0}`, "prompt"},
		"unknown mode":     {`{"text":"x","permissionMode":"yolo"}`, "prompt"},
		"no directory":     {`{"permissionMode":"default"}`, "create"},
		"empty directory":  {`{"cwd":"","permissionMode":"default"}`, "create"},
		"no mode":          {`{"cwd":"/w"}`, "create"},
		"empty strand":     {`{"strand":""}`, "abort"},
		"not an object":    {`[]`, "resume"},
		"two documents":    {`{}{}`, "resume"},
		"lone surrogate":   {`{"text":"\ud800"}`, "prompt"},
		"invalid UTF-8":    {"{\"text\":\"\xff\"}", "prompt"},
		"extra to nothing": {`{"force":true}`, "resume"},
	} {
		if v, err := messages[c.which].decode([]byte(c.body)); err == nil {
			t.Errorf("%s: read as %#v", name, v)
		} else if _, ok := corrupt.As(err); !ok {
			t.Errorf("%s: %v is not a report", name, err)
		}
	}
}

func TestEachCodeHasOneStatus(t *testing.T) {
	all := wire.Codes()
	for i, c := range all {
		if !c.Known() || c.Status() < 400 || c.Status() > 599 {
			t.Errorf("%s has status %d", c, c.Status())
		}
		if slices.Contains(all[:i], c) {
			t.Errorf("%s is in the table twice", c)
		}
	}
	if wire.Code("no_such").Known() {
		t.Error("a word outside the table is known")
	}
}

func FuzzDecodeFrame(f *testing.F) {
	f.Add([]byte(envelope + `{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, err := wire.DecodeFrame(data)
		if err != nil {
			if _, ok := corrupt.As(err); !ok {
				t.Fatalf("%v is not a report", err)
			}
			return
		}
		again, err := wire.DecodeFrame(frame.Append(nil))
		if err != nil {
			t.Fatalf("what was read does not read back: %v", err)
		}
		if !bytes.Equal(again.Append(nil), frame.Append(nil)) {
			t.Fatal("encoding is not stable")
		}
	})
}

func FuzzEventReader(f *testing.F) {
	f.Add([]byte("event: x\nid: 1:2:3\ndata: {}\n\n"))
	f.Add([]byte(":\n\n\r\n\ndata\n\n"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		r := wire.NewEventReader(bytes.NewReader(data))
		for {
			if _, err := r.Next(); err != nil {
				return
			}
		}
	})
}

func FuzzParseCursor(f *testing.F) {
	f.Add("1:2:3")
	f.Fuzz(func(t *testing.T, s string) {
		if c, err := wire.ParseCursor(s); err == nil && c.String() != s {
			t.Fatalf("%q reads as %v", s, c)
		}
	})
}

func FuzzDecodeMessages(f *testing.F) {
	names := []string{}
	for name, m := range messages {
		names = append(names, name)
		f.Add(m.full.Append(nil), name)
	}
	slices.Sort(names)
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		m, ok := messages[name]
		if !ok {
			return
		}
		v, err := m.decode(data)
		if err != nil {
			if _, ok := corrupt.As(err); !ok {
				t.Fatalf("%v is not a report", err)
			}
			return
		}
		if _, err := m.decode(v.Append(nil)); err != nil {
			t.Fatalf("what was read does not read back: %v", err)
		}
	})
}

func BenchmarkDecodeDelta(b *testing.B) {
	frame := wire.Frame{
		ID: "l/0/0/0", Delivery: wire.Live, Session: wiretest.Session(1), Strand: "main", Operation: wiretest.Op(1),
		Body: wire.TextDelta{Segment: wire.Segment{Entry: wiretest.Entry(1)}, Text: "twelve bytes"},
	}.Append(nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.DecodeFrame(frame); err != nil {
			b.Fatal(err)
		}
	}
}
