package wire_test

import (
	"strings"
	"testing"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/shape"
)

func TestAStatedFactHasFourReadings(t *testing.T) {
	const head = `{"contract":1,"generation":1,"health":"ready","floor":{"contract":1,"frameSet":1},"frames":[],"requests":[]`
	for name, c := range map[string]struct {
		text string
		want wire.StatedState
	}{
		"absent":               {``, wire.Unstated},
		"none":                 {`,"webSearch":"none"`, wire.StatedNone},
		"there":                {`,"webSearch":{"backend":"a_new_one"}`, wire.StatedFact},
		"an explicit null":     {`,"webSearch":null`, wire.Unreadable},
		"another word":         {`,"webSearch":"None"`, wire.Unreadable},
		"another type":         {`,"webSearch":true`, wire.Unreadable},
		"a part is missing":    {`,"webSearch":{}`, wire.Unreadable},
		"a part is malformed":  {`,"webSearch":{"backend":7}`, wire.Unreadable},
		"a part is empty":      {`,"webSearch":{"backend":""}`, wire.Unreadable},
		"more than this knows": {`,"webSearch":{"backend":"x","zone":"eu"}`, wire.StatedFact},
	} {
		got, err := wire.DecodeAnswer[wire.Capabilities]([]byte(head + c.text + `}`))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, isFact := got.WebSearch.Get()
		_, isRaw := got.WebSearch.Raw()
		if got.WebSearch.State() != c.want || isFact != (c.want == wire.StatedFact) || isRaw != (c.want == wire.Unreadable) {
			t.Errorf("%s reads as %d, %s", name, got.WebSearch.State(), got.WebSearch)
		}
		again, err := wire.DecodeAnswer[wire.Capabilities](wire.Encode(got))
		if err != nil || again.WebSearch.State() != c.want || again.WebSearch.String() != got.WebSearch.String() {
			t.Errorf("%s does not read back: %s %v", name, again.WebSearch, err)
		}
	}
	// A fact inside a fact: no SQL under the store is another thing than a store that
	// does not say, and than one whose word for it cannot be read.
	for text, want := range map[string]wire.StatedState{
		`{"kind":"files"}`:                        wire.Unstated,
		`{"kind":"files","sql":"none"}`:           wire.StatedNone,
		`{"kind":"files","sql":{}}`:               wire.Unreadable,
		`{"kind":"f","sql":{"backend":"sqlite"}}`: wire.StatedFact,
	} {
		got, err := wire.DecodeAnswer[wire.Capabilities]([]byte(head + `,"store":` + text + `}`))
		if err != nil {
			t.Fatal(err)
		}
		store, ok := got.Store.Get()
		if !ok || store.SQL.State() != want {
			t.Errorf("%s: the SQL is %d", text, store.SQL.State())
		}
	}
	var zero wire.Stated[wire.Hands]
	if zero.State() != wire.Unstated || zero.String() != "unstated" || wire.None[wire.Hands]().String() != `"none"` {
		t.Error("a fact that was never stated says something")
	}
}

func TestAStatedFactOfARequestIsExact(t *testing.T) {
	type asked struct {
		Face wire.Stated[wire.WebSearchFace] `wire:"face"`
	}
	for text, ok := range map[string]bool{
		`{}`: true, `{"face":"none"}`: true, `{"face":{"backend":"b"}}`: true,
		`{"face":null}`: false, `{"face":{}}`: false, `{"face":{"backend":"b","zone":1}}`: false,
	} {
		v, err := jsonv.ParseString(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := shape.Exact[asked](v, "test"); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestARosterIsWholeOrUnreadable(t *testing.T) {
	tools := []wire.ToolRow{
		{Name: "read", Mount: words.MountedHands, Face: &wire.ToolFace{Class: new(words.ClassRead), Exclusive: new(false)}},
		{Name: "plan", Mount: words.MountedBuiltin},
	}
	roster := wire.RosterOf(tools)
	text := string(wire.Encode(roster))
	if !roster.DigestAgrees() || roster.Count != 2 || wire.RosterOf(tools[:1]).Digest == roster.Digest {
		t.Fatalf("%+v", roster)
	}
	read := func(text string) wire.RunStart {
		f, err := wire.DecodeFrame([]byte(strings.NewReplacer(`"cursor":"0:1:0",`, "", `"replay"`, `"level"`, "turn_end", "run_start").Replace(envelope) +
			`{"model":{"provider":"p","modelId":"m"},"mode":"default","cwd":"/w","toolRoster":` + text + `}}`))
		if err != nil {
			t.Fatal(err)
		}
		start, ok := f.Body.(wire.RunStart)
		if !ok {
			t.Fatalf("%s makes the manifest %#v", text, f.Body)
		}
		return start
	}
	for name, c := range map[string]struct {
		from, to string
		want     wire.StatedState
		tools    int
	}{
		"as it was made":           {``, ``, wire.StatedFact, 2},
		"one row too few":          {`"count":2`, `"count":3`, wire.Unreadable, 0},
		"a row without a name":     {`"name":"plan",`, ``, wire.Unreadable, 0},
		"a row without a mount":    {`"mount":"builtin"`, `"mount":""`, wire.Unreadable, 0},
		"a row that is no row":     {`{"name":"plan","mount":"builtin"}`, `"plan"`, wire.Unreadable, 0},
		"a mount of a newer build": {`"mount":"builtin"`, `"mount":"teleport"`, wire.StatedFact, 2},
		"a face that is malformed": {`{"class":"read","exclusive":false}`, `{"class":7}`, wire.StatedFact, 2},
		"a face of a newer class":  {`"class":"read"`, `"class":"ponder"`, wire.StatedFact, 2},
		"a digest that is wrong":   {roster.Digest, "sha256:00", wire.StatedFact, 2},
		"no digest":                {`"digest":"` + roster.Digest + `",`, ``, wire.Unreadable, 0},
	} {
		changed := strings.Replace(text, c.from, c.to, 1)
		if changed == text && c.from != "" {
			t.Fatalf("%s: nothing was changed in %s", name, text)
		}
		got := read(changed).Roster
		r, _ := got.Get()
		if got.State() != c.want || len(r.Tools) != c.tools {
			t.Errorf("%s reads as %d with %d tools", name, got.State(), len(r.Tools))
		}
		if name == "a face that is malformed" && (r.Tools[0].Face != nil || r.Tools[0].Name != "read") {
			t.Errorf("%s: %+v", name, r.Tools[0])
		}
		if name == "a digest that is wrong" && r.DigestAgrees() {
			t.Error("a wrong digest agrees")
		}
	}
	empty := read(`{"count":0,"digest":"` + wire.RosterOf(nil).Digest + `","tools":[]}`).Roster
	if r, ok := empty.Get(); !ok || len(r.Tools) != 0 || !r.DigestAgrees() {
		t.Errorf("an empty roster, which is an answer, reads as %s", empty)
	}
}

func TestEveryStatusHasACoarseWord(t *testing.T) {
	for status, want := range map[int]wire.CoarseCode{
		400: wire.CoarseBadRequest, 401: wire.CoarseUnauthorized, 403: wire.CoarseForbidden, 404: wire.CoarseNotFound, 409: wire.CoarseConflict,
		413: wire.CoarseTooLarge, 418: wire.CoarseClientError, 429: wire.CoarseRateLimited, 500: wire.CoarseServerError, 502: wire.CoarseUnavailable,
		200: wire.CoarseOther, 302: wire.CoarseOther, 0: wire.CoarseOther, -5: wire.CoarseOther, 999: wire.CoarseOther,
	} {
		if got := wire.CoarseOf(status); got != want {
			t.Errorf("%d is %s, want %s", status, got, want)
		}
	}
	for _, c := range wire.Codes() { // ours say more, and never something else
		if coarse := wire.CoarseOf(c.Status()); coarse == wire.CoarseOther || coarse == "" {
			t.Errorf("%s, status %d, is %s", c, c.Status(), coarse)
		}
	}
}
