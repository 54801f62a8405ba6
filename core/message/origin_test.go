package message_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"pgregory.net/rapid"
)

func storedOrigin(o *message.Origin) jsonv.Value {
	var w jsonv.Writer
	message.AppendOrigin(&w, o)
	return w.Tree()
}

func TestOriginsReadBackAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := coretest.Origin().Draw(t, "origin")
		got, err := message.DecodeOrigin(storedOrigin(&want))
		if err != nil || got != want {
			t.Fatalf("%s reads as %+v, %v", storedOrigin(&want), got, err)
		}
	})
	if got := storedOrigin(nil).String(); got != "null" {
		t.Errorf("nobody is %s", got)
	}
}

func TestBoundsOfOrigins(t *testing.T) {
	x := strings.Repeat
	human, peer := message.Human, message.Peer
	strand := func(s, _ string) (message.Origin, error) { return message.Strand(s) }
	for _, c := range []struct {
		name string
		make func(a, b string) (message.Origin, error)
		a, b string
		ok   bool
	}{
		{"a person", human, "ada", "Ada", true},
		{"every character of a principal", human, "azAZ09_.-", "Ada", true},
		{"no principal", human, "", "Ada", false},
		{"a principal of 128 bytes", human, x("a", 128), "Ada", true},
		{"a principal of 129 bytes", human, x("a", 129), "Ada", false},
		{"a colon in a principal", human, "strand:a", "Ada", false},
		{"a space in a principal", human, "a da", "Ada", false},
		{"a letter beyond ASCII", human, "é", "Ada", false},
		{"a slash in a principal", human, "a/b", "Ada", false},
		{"no name", human, "ada", "", false},
		{"a blank name", human, "ada", " \u00a0\u2003", false},
		{"a name with space around it", human, "ada", " Ada ", true},
		{"a name of 256 bytes", human, "ada", x("é", 128), true},
		{"a name of 257 bytes", human, "ada", x("é", 128) + "x", false},
		{"a tab in a name", human, "ada", "A\tda", false},
		{"a line end in a name", human, "ada", "A\nda", false},
		{"escape in a name", human, "ada", "A\x1b[31mda", false},
		{"delete in a name", human, "ada", "A\x7fda", false},
		{"C1 in a name", human, "ada", "A\u009bda", false},
		{"the first code point after C1", human, "ada", "A\u00a0da", true},
		{"bytes that are not UTF-8", human, "ada", x("\xff", 100), false},
		{"a peer", peer, "session", "main", true},
		{"a peer's session of 256 bytes", peer, x("s", 256), "main", true},
		{"a peer's session of 257 bytes", peer, x("s", 257), "main", false},
		{"a peer's strand of 512 bytes", peer, "s", x("m", 512), true},
		{"a peer's strand of 513 bytes", peer, "s", x("m", 513), false},
		{"a peer without session", peer, "", "main", false},
		{"a peer without strand", peer, "s", "", false},
		{"a session with space before it", peer, " s", "main", false},
		{"a strand with space behind it", peer, "s", "main\u2003", false},
		{"space inside", peer, "s s", "main main", true},
		{"a control in a session", peer, "s\x00s", "main", false},
		{"broken UTF-8 in a session", peer, "s\xffs", "main", false},
		{"a strand", strand, "review", "", true},
		{"a strand of 512 bytes", strand, x("é", 256), "", true},
		{"a strand of 513 bytes", strand, x("é", 256) + "x", "", false},
		{"no strand", strand, "", "", false},
		{"a blank strand", strand, " ", "", false},
		{"a control in a strand", strand, "a\u0085b", "", false},
	} {
		o, err := c.make(c.a, c.b)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
		if err != nil {
			if _, ok := corrupt.As(err); !ok || o != (message.Origin{}) {
				t.Errorf("%s: %T with %+v", c.name, err, o)
			}
			continue
		}
		if got, err := message.DecodeOrigin(storedOrigin(&o)); err != nil || got != o {
			t.Errorf("%s: reads back as %+v, %v", c.name, got, err)
		}
	}
}

func TestMalformedOriginsAreNeverNobody(t *testing.T) {
	var wording string
	for _, text := range []string{
		`{}`, `[]`, `"ada"`, `1`, `true`, `null`, // null is nobody only as the value of the field, which its reader knows
		`{"principal":"ada"}`, `{"name":"Ada"}`, `{"principal":1,"name":"Ada"}`, `{"principal":"ada","name":null}`, `{"principal":"ada","name":["Ada"]}`,
		`{"kind":"human","principal":"ada","name":"Ada"}`, `{"kind":null,"principal":"ada","name":"Ada"}`, `{"kind":"","principal":"ada","name":"Ada"}`,
		`{"kind":"Peer","session":"s","strand":"m"}`, `{"kind":1,"session":"s","strand":"m"}`, `{"session":"s","strand":"m"}`, `{"strand":"m"}`,
		`{"kind":"peer","session":"s"}`, `{"kind":"peer","strand":"m"}`, `{"kind":"peer","session":"s","strand":5}`, `{"kind":"peer","principal":"ada","name":"Ada"}`,
		`{"kind":"strand"}`, `{"kind":"strand","strand":null}`, `{"kind":"strand","strand":""}`, `{"kind":"strand","session":"s"}`,
		`{"kind":"agent","strand":"m"}`, `{"principal":"` + strings.Repeat("a", 1_000_000) + `","name":"Ada"}`,
	} {
		v, err := jsonv.ParseString(text)
		if err != nil {
			t.Fatal(err)
		}
		o, err := message.DecodeOrigin(v)
		r, ok := corrupt.As(err)
		if !ok || o != (message.Origin{}) {
			t.Errorf("%.60s reads as %+v, %v", text, o, err)
			continue
		}
		if wording == "" {
			wording = r.Expected
		}
		if r.Expected != wording || len(r.Error()) > 20_000 {
			t.Errorf("%.60s: another wording, or a long one: %.200v", text, r)
		}
		// The field refuses the whole message.
		if text != "null" {
			if m, err := decode(with(t, user, `"origin":null`, `"origin":`+text)); err == nil {
				t.Errorf("%.60s: the message reads as %v", text, m)
			}
		}
	}
}

func TestUnknownFieldsOfAnOriginAreIgnored(t *testing.T) {
	for text, want := range map[string]*message.Origin{
		`{"principal":"ada","name":"Ada","team":1}`:      origin(t)(message.Human("ada", "Ada")),
		`{"kind":"strand","strand":"m","session":"s"}`:   origin(t)(message.Strand("m")),
		`{"strand":"m","kind":"peer","session":"s s s"}`: origin(t)(message.Peer("s s s", "m")),
	} {
		m, err := decode(with(t, user, `"origin":null`, `"origin":`+text))
		if err != nil || *m.(*message.User).Origin != *want {
			t.Errorf("%s: %+v, %v", text, m, err)
		}
	}
}

func TestHowAnAuthorIsNamed(t *testing.T) {
	content := []message.UserBlock{message.Image{Data: "AA==", MimeType: "image/png"}, message.Text{Text: "hi"}}
	for _, c := range []struct {
		origin          *message.Origin
		kind            message.OriginKind
		identity, label string
		says, note      string // what the block that a model sees first says of the sender, and its end; "" for none
	}{
		{origin(t)(message.Human("ada", `Ada "L"`)), message.HumanOrigin, "ada", `Ada "L"`, "author", `: {"principal":"ada","name":"Ada \"L\""}`},
		{origin(t)(message.Peer("s1", "main")), message.PeerOrigin, "s1", "peer s1/main", "agent of another session", `: {"kind":"peer","session":"s1","strand":"main"}`},
		{origin(t)(message.Strand("ada")), message.StrandOrigin, "strand:ada", "strand ada", "", ""},
	} {
		if c.origin.Kind() != c.kind || c.origin.Identity() != c.identity || c.origin.Label() != c.label {
			t.Errorf("%+v: %v %q %q", c.origin, c.origin.Kind(), c.origin.Identity(), c.origin.Label())
		}
		u := &message.User{Content: content, Origin: c.origin}
		before := encode(u)
		got := message.Project(u)
		if encode(u) != before {
			t.Error("what is stored was changed")
		}
		if c.note == "" {
			if d := cmp.Diff(content, got); d != "" {
				t.Error(d)
			}
			continue
		}
		if d := cmp.Diff(content, got[1:]); d != "" {
			t.Error(d)
		}
		if note := got[0].(message.Text).Text; !strings.HasSuffix(note, c.note) || !strings.Contains(note, c.says) {
			t.Errorf("%q", note)
		}
	}
	if got := message.Project(&message.User{Content: content}); len(got) != 2 {
		t.Errorf("nobody: %v", got)
	}
}

func FuzzDecodeOrigin(f *testing.F) {
	if seeds, err := os.ReadFile("testdata/message.jsonl"); err == nil {
		for line := range strings.Lines(string(seeds)) {
			if v, err := jsonv.ParseString(line); err == nil {
				o, _ := v.Get("origin")
				f.Add(o.Append(nil))
			}
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := jsonv.Parse(text)
		if err != nil {
			return
		}
		o, err := message.DecodeOrigin(v)
		if err != nil {
			return
		}
		if got, err := message.DecodeOrigin(storedOrigin(&o)); err != nil || got != o {
			t.Fatalf("%s reads back as %+v, %v", storedOrigin(&o), got, err)
		}
	})
}
