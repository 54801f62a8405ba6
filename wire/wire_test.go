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
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/shape"
	"github.com/loom-run/loom/wire/wiretest"
)

var same = []cmp.Option{
	cmpopts.EquateEmpty(),
	cmp.Exporter(func(reflect.Type) bool { return true }),
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
		ID: "k", Cursor: wire.Cursor{Seq: 7}, Delivery: wire.Replay, Session: wiretest.Session(1), Lane: wire.LaneMain,
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

const envelope = `{"id":"k","cursor":"0:1:0","kind":"turn_end","delivery":"replay","session":"01920000-0000-7000-8000-000000000000","lane":"main","body":`

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
	body := `{"terminal":{"kind":"evaporated","why":"heat"},"usage":{"input":1,"output":0,"cacheRead":0,"cacheWrite":0,"measured":true}}}`
	f, err := wire.DecodeFrame([]byte(strings.Replace(envelope, "turn_end", "run_end", 1) + body))
	if err != nil {
		t.Fatal(err)
	}
	cause := f.Body.(wire.RunEnd).Terminal
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
	if f, err := wire.DecodeFrame([]byte(text)); err != nil || f.Body.(wire.RunEnd).Terminal != (wire.Blocked{}) {
		t.Errorf("malformed detail: %#v %v", f.Body, err)
	}
}

// message is a request or an answer of the contract.
type message struct {
	name    string
	desc    *shape.Desc
	request bool
	decode  func([]byte) (any, error)
	encode  func(any) []byte
}

// messages is every request and every answer of every route, and the error body.
func messages() (out []message) {
	add := func(t reflect.Type, request bool) {
		if t == nil || slices.ContainsFunc(out, func(m message) bool { return m.name == t.Name() }) {
			return
		}
		out = append(out, message{
			name: t.Name(), desc: shape.OfType(t), request: request,
			decode: func(data []byte) (any, error) { return shape.DecodeType(t, data, request) },
			encode: func(v any) []byte { var w jsonv.Writer; shape.AppendAny(&w, v); return w.Bytes() },
		})
	}
	for _, r := range wire.Routes() {
		add(r.Request, true)
		add(r.Answer, false)
	}
	add(reflect.TypeFor[wire.ErrorBody](), false)
	return out
}

func messageCalled(name string) message {
	all := messages()
	return all[slices.IndexFunc(all, func(m message) bool { return m.name == name })]
}

func TestMessagesReadBack(t *testing.T) {
	for _, m := range messages() {
		t.Run(m.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				sent := wiretest.JSON(m.desc, m.request).Draw(t, "sent")
				v, err := m.decode(sent.Append(nil))
				if err != nil {
					t.Fatalf("%s: %v", sent, err)
				}
				text := m.encode(v)
				again, err := m.decode(text)
				if err != nil {
					t.Fatalf("what was read does not read back: %v", err)
				}
				if !reflect.DeepEqual(v, again) && !bytes.Equal(m.encode(again), text) {
					t.Fatalf("%s reads back as %s", text, m.encode(again))
				}
			})
		})
	}
}

func TestRequestsRefuseWhatTheyDoNotKnow(t *testing.T) {
	for name, c := range map[string]struct{ body, which string }{
		"misspelt option":          {`{"key":"k","text":"x","maxTurn":1}`, "Prompt"},
		"no key":                   {`{"text":"x"}`, "Prompt"},
		"an empty key":             {`{"key":"","text":"x"}`, "Prompt"},
		"a long key":               {`{"key":"` + strings.Repeat("k", wire.MaxWord+1) + `","text":"x"}`, "Prompt"},
		"empty prompt":             {`{"key":"k","text":""}`, "Prompt"},
		"no prompt":                {`{"key":"k"}`, "Prompt"},
		"null prompt":              {`{"key":"k","text":null}`, "Prompt"},
		"zero turns":               {`{"key":"k","text":"x","maxTurns":0}`, "Prompt"},
		"turns with a fraction":    {`{"key":"k","text":"x","maxTurns":1.5}`, "Prompt"},
		"turns beyond any count":   {`{"key":"k","text":"x","maxTurns":9007199254740992}`, "Prompt"},
		"unknown mode":             {`{"key":"k","text":"x","permissionMode":"yolo"}`, "Prompt"},
		"mode in capitals":         {`{"key":"k","text":"x","permissionMode":"Default"}`, "Prompt"},
		"option in an image":       {`{"key":"k","text":"x","images":[{"mediaType":"image/png","data":"AA==","alt":"a"}]}`, "Prompt"},
		"no directory":             {`{"key":"k","permissionMode":"default"}`, "CreateSession"},
		"empty directory":          {`{"key":"k","cwd":"","permissionMode":"default"}`, "CreateSession"},
		"no mode":                  {`{"key":"k","cwd":"/w"}`, "CreateSession"},
		"memory wish misspelt":     {`{"key":"k","cwd":"/w","permissionMode":"default","memoryCapture":"of"}`, "CreateSession"},
		"empty strand":             {`{"key":"k","strand":""}`, "Abort"},
		"not an object":            {`[]`, "Resume"},
		"two documents":            {`{"key":"k"}{}`, "Resume"},
		"lone surrogate":           {`{"key":"k","text":"\ud800"}`, "Prompt"},
		"invalid UTF-8":            {"{\"key\":\"k\",\"text\":\"\xff\"}", "Prompt"},
		"a field twice":            {`{"key":"k","key":"k"}`, "Resume"},
		"extra to nothing":         {`{"force":true}`, "CheckSession"},
		"allowed by the policy":    {`{"key":"k","id":"a","boundCallId":"c","boundInputHash":"h","seq":1,"decision":"allow","settledBy":"policy"}`, "Decide"},
		"allowed and stopped":      {`{"key":"k","id":"a","boundCallId":"c","boundInputHash":"h","seq":1,"decision":"allow","stop":true}`, "Decide"},
		"refused with an input":    {`{"key":"k","id":"a","boundCallId":"c","boundInputHash":"h","seq":1,"decision":"deny","input":{}}`, "Decide"},
		"a decision of no binding": {`{"key":"k","id":"a","seq":1,"decision":"deny"}`, "Decide"},
		"another decision":         {`{"key":"k","id":"a","boundCallId":"c","boundInputHash":"h","seq":1,"decision":"Allow"}`, "Decide"},
		"settled by somebody":      {`{"key":"k","id":"a","boundCallId":"c","boundInputHash":"h","seq":1,"decision":"deny","settledBy":"me"}`, "Decide"},
		"an edit without a plan":   {`{"key":"k","id":"a","boundCallId":"c","boundInputHash":"h","seq":1,"verdict":"edit"}`, "DecidePlan"},
		"a plan without an edit":   {`{"key":"k","id":"a","boundCallId":"c","boundInputHash":"h","seq":1,"verdict":"accept","plan":"p"}`, "DecidePlan"},
		"erasing without a name":   {`{"key":"k"}`, "EraseSession"},
	} {
		if v, err := messageCalled(c.which).decode([]byte(c.body)); err == nil {
			t.Errorf("%s: read as %#v", name, v)
		} else if _, ok := corrupt.As(err); !ok {
			t.Errorf("%s: %v is not a report", name, err)
		}
	}
}

func TestEveryMutationCarriesAKeyAndNoReadDoes(t *testing.T) {
	reads := []string{"Search", "CheckSession"}
	for _, r := range wire.Routes() {
		want := r.Request != nil && !slices.Contains(reads, r.Request.Name())
		if r.Mutates() != want {
			t.Errorf("%s %s: it carries a key: %v", r.Method, r.Path, r.Mutates())
		}
		if r.Mutates() {
			f := shape.OfType(r.Request).Fields[0]
			if f.Name != "key" || f.Optional {
				t.Errorf("%s: the key is %+v", r.Name, f)
			}
		}
	}
}

func TestRoutesAreToldApart(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range wire.Routes() {
		for _, key := range []string{r.Name, r.Method + " " + r.Path} {
			if seen[key] {
				t.Errorf("%q stands for two routes", key)
			}
			seen[key] = true
		}
		if r.Method == "POST" && (r.Limit < 1 || r.Request == nil) || r.Status/100 != 2 || !strings.HasPrefix(r.Path, "/") {
			t.Errorf("%+v", r)
		}
	}
	if got := wire.PostPrompt.PathOf(wiretest.Session(1)); got != "/sessions/"+wiretest.Session(1).String()+"/prompt" {
		t.Error(got)
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
	for _, k := range wire.Kinds() {
		f.Add(sampleFrame(k, true).Append(nil))
		f.Add(sampleFrame(k, false).Append(nil))
	}
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
	all := messages()
	for i, m := range all {
		f.Add(sample(m.desc, true).Append(nil), uint8(i))
		f.Add(sample(m.desc, false).Append(nil), uint8(i))
	}
	f.Fuzz(func(t *testing.T, data []byte, which uint8) {
		m := all[int(which)%len(all)]
		v, err := m.decode(data)
		if err != nil {
			if _, ok := corrupt.As(err); !ok {
				t.Fatalf("%v is not a report", err)
			}
			return
		}
		text := m.encode(v)
		again, err := m.decode(text)
		if err != nil {
			t.Fatalf("what was read does not read back: %v", err)
		}
		if !bytes.Equal(m.encode(again), text) {
			t.Fatal("encoding is not stable")
		}
	})
}

func BenchmarkDecodeDelta(b *testing.B) {
	frame := wire.Frame{
		ID: "l/0/0/0", Delivery: wire.Live, Session: wiretest.Session(1), Lane: wire.LaneMain, Strand: "main", Operation: wiretest.Op(1),
		Body: wire.TextDelta{Segment: wire.Segment{Entry: wiretest.Entry(1)}, Text: "twelve bytes"},
	}.Append(nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.DecodeFrame(frame); err != nil {
			b.Fatal(err)
		}
	}
}
