package repo_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/needle"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/session/repo"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/memory"
)

func eraser(t testing.TB, text string) needle.Eraser {
	t.Helper()
	n, err := needle.New(text)
	if err != nil {
		t.Fatal(err)
	}
	return n.Marked()
}

func keepEntry(e entry.Entry) (entry.Entry, bool, error) { return e, false, nil }

func keepValue(_ register.Address, v jsonv.Value) (jsonv.Value, bool, error) { return v, false, nil }

func TestARewriteThatKeepsAllKeepsAll(t *testing.T) {
	src, _, _ := told(t, plain)
	to, err := repo.RewriteMemory(src, at(later), keepEntry, keepValue)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(dump(t, src), dump(t, to)); d != "" {
		t.Error(d)
	}
	before, _ := src.Stats()
	after, err := to.Stats()
	if d := coretest.Diff(before, after); err != nil || d != "" {
		t.Errorf("counters: %v, %s", err, d)
	}
	sound(t, to)
}

// In every place of a session where a text of somebody's can stand, and however it is spelt there.
func TestANeedleInEveryPlaceGoes(t *testing.T) {
	for _, secret := range []string{"sk-secret-0123", `pa"ss\word`, "zwei\nZeilen 🔑", "q", "ключ от дома", strings.Repeat("long ", 100_000)} {
		places := 0
		src, _, _ := told(t, func(place string) string {
			places++
			return place + " <" + secret + ">"
		})
		e := eraser(t, secret)
		source := dump(t, src)
		to, err := repo.RewriteMemory(src, at(later), repo.EraseText(e), repo.EraseValue(e))
		if err != nil {
			t.Errorf("%.20q: %v", secret, err)
			continue
		}
		got := dump(t, to)
		all := strings.Join(got.Entries, "\n") + strings.Join(got.Cells, "\n") + strings.Join(got.Ledger, "\n")
		if found, err := e.Needle().InBytes(strings.NewReader(all)); (found || err != nil) && len(secret) > 1 { // q is in names of fields
			t.Errorf("%.20q is left: %v", secret, err)
		}
		for _, row := range slices.Concat(got.Entries, got.Ledger, got.Cells) {
			v, err := jsonv.ParseString(row[strings.IndexByte(row, ' ')+1:])
			if row[0] == '{' {
				v, err = jsonv.ParseString(row)
			}
			if err != nil || holds(e.Needle(), v) {
				t.Errorf("%.20q is left in %.200s, %v", secret, row, err)
			}
		}
		if n := strings.Count(all, "<"+e.Replacement()+">"); places < 50 || n < places/2 {
			t.Errorf("%.20q: %d marks for %d places", secret, n, places)
		}
		if d := cmp.Diff(source, dump(t, src)); d != "" {
			t.Errorf("the source changed: %.1000s", d)
		}
		sound(t, to)
	}
}

func TestWhatHoldsNoNeedleStaysByteForByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := coretest.Entry().Draw(t, "entry")
		n, err := needle.New("a text that no generator makes")
		if err != nil {
			t.Fatal(err)
		}
		got, changed, err := repo.EraseText(n.Marked()).Apply(e)
		if err != nil || changed || string(entry.Encode(got)) != string(entry.Encode(e)) {
			t.Fatalf("changed %v, %v", changed, err)
		}
	})
}

// Whatever is erased from whatever entry: it is an entry of that place and kind without the needle in its values, or the rewrite is refused.
func TestAnErasedEntryReadsBackOrIsRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := coretest.Entry().Draw(t, "entry")
		text := string(entry.Encode(e))
		from := rapid.IntRange(0, len(text)-1).Draw(t, "from")
		n, err := needle.New(strings.ToValidUTF8(text[from:min(len(text), from+rapid.IntRange(1, 12).Draw(t, "length"))], "?"))
		if err != nil {
			t.Skip(err)
		}
		got, changed, err := repo.EraseText(n.Marked()).Apply(e)
		if err != nil {
			if _, ok := errors.AsType[*repo.EntryFailed](err); !ok {
				t.Fatalf("refused by %T", err)
			}
			return
		}
		if got.ID != e.ID || got.Parent != e.Parent || got.Seq != e.Seq || got.Timestamp != e.Timestamp || got.Body.Kind() != e.Body.Kind() {
			t.Fatal("it moved")
		}
		back, err := entry.Parse(entry.Encode(got))
		if err != nil {
			t.Fatal(err)
		}
		v, _ := jsonv.Parse(entry.Encode(back))
		if holds(n, v) {
			t.Fatalf("left in %s (changed: %v)", v, changed)
		}
	})
}

// holds looks for a needle in the texts of a value, its names left out.
func holds(n needle.Needle, v jsonv.Value) bool {
	switch v.Kind() {
	case jsonv.String:
		text, _ := v.Text()
		return n.In(text)
	case jsonv.Array:
		for _, e := range v.Elems() {
			if holds(n, e) {
				return true
			}
		}
	case jsonv.Object:
		for _, f := range v.Fields() {
			if holds(n, f) {
				return true
			}
		}
	}
	return false
}

func one(body entry.Body) entry.Entry {
	return entry.Entry{ID: mustEntryID("019b76da-a800-7cc1-beeb-8da1658eec67"), Seq: 3, Timestamp: 4, Body: body}
}

func TestANeedleThatIsAWordOfTheFormatIsRefused(t *testing.T) {
	user := one(entry.Message{Message: &message.User{Content: []message.UserBlock{message.Text{Text: "say user"}}}})
	for _, word := range []string{"user", "mess", "message", "text", "ext", "019b76da", "beeb", "-", "e"} {
		_, _, err := repo.EraseText(eraser(t, word)).Apply(user)
		if _, ok := corrupt.As(err); !ok || !is[*repo.EntryFailed](err) {
			t.Errorf("%q: %T %v", word, err, err)
		}
	}
	for _, name := range []string{"role", "content", "timestamp", "parentId"} { // names of fields, which are left alone
		if _, changed, err := repo.EraseText(eraser(t, name)).Apply(user); changed || err != nil {
			t.Errorf("%q: changed %v, %v", name, changed, err)
		}
	}
}

func TestNamesAndNumbersAreLeftAlone(t *testing.T) {
	data := jsonv.Obj(jsonv.F("secret", jsonv.Num(12345)), jsonv.F("x", jsonv.Arr(jsonv.Str("secret 12345"), jsonv.Num(12345))))
	for text, want := range map[string]string{
		"secret": `{"secret":12345,"x":["[erased] 12345",12345]}`,
		"12345":  `{"secret":12345,"x":["secret [erased]",12345]}`,
	} {
		got, changed, err := repo.EraseValue(eraser(t, text)).Apply(register.Address{}, data)
		if err != nil || !changed || got.String() != want {
			t.Errorf("%s: %v, %v, %s", text, changed, err, got)
		}
	}
}

func assistant(blocks ...message.AssistantBlock) entry.Entry {
	return one(entry.Message{Message: &message.Assistant{Content: blocks, StopReason: message.Stop, Usage: usage.Unknown(usage.API)}})
}

func contentOf(t *testing.T, e entry.Entry) []message.AssistantBlock {
	t.Helper()
	m, ok := e.Body.(entry.Message)
	if !ok {
		t.Fatalf("a %T", e.Body)
	}
	a, ok := m.Message.(*message.Assistant)
	if !ok {
		t.Fatalf("a %T", m.Message)
	}
	return a.Content
}

// A provider refuses what it signed and finds changed. So a signature is there as it was, or what it is over is gone.
func TestSignaturesStayIntactOrGoWithWhatTheySign(t *testing.T) {
	const secret = "sk-secret-0123"
	in64 := new(base64.StdEncoding.EncodeToString([]byte("xx" + secret + "yy")))
	sig := new("opaque")
	clean := message.Text{Text: "clean"}
	args := jsonv.Obj(jsonv.F("a", jsonv.Str(secret)))
	gone := jsonv.Obj(jsonv.F("a", jsonv.Str("[erased]")))
	for name, c := range map[string]struct{ before, after []message.AssistantBlock }{
		"signed reasoning that is clean stays": {
			[]message.AssistantBlock{message.Thinking{Thinking: "t", Signature: sig}, message.Text{Text: secret}},
			[]message.AssistantBlock{message.Thinking{Thinking: "t", Signature: sig}, message.Text{Text: "[erased]"}},
		},
		"signed reasoning that holds it goes whole": {[]message.AssistantBlock{message.Thinking{Thinking: "t " + secret, Signature: sig}, clean}, []message.AssistantBlock{clean}},
		"reasoning whose signature holds it too":    {[]message.AssistantBlock{message.Thinking{Thinking: "t", Signature: in64}, clean}, []message.AssistantBlock{clean}},
		"hidden reasoning":                          {[]message.AssistantBlock{message.Thinking{Signature: new(secret), Redacted: true}, clean}, []message.AssistantBlock{clean}},
		"unsigned reasoning is edited": {
			[]message.AssistantBlock{message.Thinking{Thinking: "t " + secret}}, []message.AssistantBlock{message.Thinking{Thinking: "t [erased]"}},
		},
		"a text keeps its signature": {[]message.AssistantBlock{message.Text{Text: secret, Signature: sig}}, []message.AssistantBlock{message.Text{Text: "[erased]", Signature: sig}}},
		"a text whose signature holds it loses that": {
			[]message.AssistantBlock{message.Text{Text: "t", Signature: in64}}, []message.AssistantBlock{message.Text{Text: "t"}},
		},
		"a call keeps its signature": {
			[]message.AssistantBlock{message.ToolCall{ID: "c", Name: "n", Arguments: args, ThoughtSignature: sig}},
			[]message.AssistantBlock{message.ToolCall{ID: "c", Name: "n", Arguments: gone, ThoughtSignature: sig}},
		},
		"a call whose signature holds it loses that, and stays answered": {
			[]message.AssistantBlock{message.ToolCall{ID: "c", Name: "n", Arguments: args, ThoughtSignature: in64}},
			[]message.AssistantBlock{message.ToolCall{ID: "c", Name: "n", Arguments: gone}},
		},
		"a response of which nothing is left says so": {[]message.AssistantBlock{message.Thinking{Thinking: secret, Signature: sig}}, []message.AssistantBlock{message.Text{Text: "[erased]"}}},
	} {
		got, changed, err := repo.EraseText(eraser(t, secret)).Apply(assistant(c.before...))
		if err != nil || !changed {
			t.Errorf("%s: changed %v, %v", name, changed, err)
			continue
		}
		if d := coretest.Diff(c.after, contentOf(t, got)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestATransformThatMovesAnEntryIsRefused(t *testing.T) {
	src, story, _ := told(t, plain)
	source := dump(t, src)
	other := mustEntryID("019b76da-a800-7cc1-beeb-8da1658eec67")
	for name, f := range map[string]repo.EntryRewrite{
		"another id":     func(e entry.Entry) (entry.Entry, bool, error) { e.ID = other; return e, true, nil },
		"another parent": func(e entry.Entry) (entry.Entry, bool, error) { e.Parent = story.Leaf; return e, true, nil },
		"no parent": func(e entry.Entry) (entry.Entry, bool, error) {
			e.Parent = id.EntryID{}
			return e, e.ID == story.Leaf, nil
		},
		"another kind": func(e entry.Entry) (entry.Entry, bool, error) { e.Body = entry.Custom{Type: "x"}; return e, true, nil },
		"no body":      func(e entry.Entry) (entry.Entry, bool, error) { e.Body = nil; return e, true, nil },
		"what does not read back": func(e entry.Entry) (entry.Entry, bool, error) {
			e.Body = entry.Message{Message: &message.Assistant{StopReason: message.Pending}}
			return e, true, nil
		},
		"an error": func(e entry.Entry) (entry.Entry, bool, error) { return e, false, errors.New("no") },
	} {
		if _, err := repo.RewriteMemory(src, at(later), f, keepValue); !is[*repo.EntryFailed](err) {
			t.Errorf("%s: %T %v", name, err, err)
		}
	}
	stamped := func(e entry.Entry) (entry.Entry, bool, error) { e.Seq, e.Timestamp = 1000, 1; return e, true, nil }
	to, err := repo.RewriteMemory(src, at(later), stamped, keepValue)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(source, dump(t, to)); d != "" {
		t.Errorf("a transform stamps entries: %s", d)
	}
	if d := cmp.Diff(source, dump(t, src)); d != "" {
		t.Errorf("the source changed: %s", d)
	}
}

func TestAValueThatIsRefusedEndsTheRewrite(t *testing.T) {
	src, _, _ := told(t, plain)
	for _, ns := range append([]register.Namespace{""}, register.Namespaces[:]...) {
		asked := 0
		f := func(a register.Address, v jsonv.Value) (jsonv.Value, bool, error) {
			if a.NS == ns {
				asked++
				return v, false, errors.New("no")
			}
			return v, false, nil
		}
		_, err := repo.RewriteMemory(src, at(later), keepEntry, f)
		if !is[*repo.ValueFailed](err) || asked != 1 {
			t.Errorf("%q: asked %d times, %T %v", ns, asked, err, err)
		}
	}
}

func TestASourceThatFailsAtAnyReadIsNotRewritten(t *testing.T) {
	broken := errors.New("broken")
	store, _, _ := told(t, plain)
	for n := 0; ; n++ {
		_, err := repo.RewriteMemory(&source{Reader: store, left: n, broken: broken}, at(later), keepEntry, keepValue)
		if err == nil {
			if n < 2+len(register.Namespaces) {
				t.Errorf("only %d reads", n)
			}
			return
		}
		if !is[*repo.SourceRead](err) {
			t.Errorf("read %d: %T %v", n, err, err)
		}
	}
}

// The value of a register is rewritten at its address, and the ledger's at none.
func TestAValueIsToldWhereItStands(t *testing.T) {
	src, _, _ := told(t, plain)
	seen := map[string]int{}
	_, err := repo.RewriteMemory(src, at(later), keepEntry, func(a register.Address, v jsonv.Value) (jsonv.Value, bool, error) {
		seen[string(a.NS)]++
		if a.NS != "" {
			if c, ok, err := src.Register(a.NS, a.Key); err != nil || !ok || !c.Value.Equal(v) {
				t.Errorf("%s has another value", a)
			}
		}
		return v, false, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, ns := range register.Namespaces {
		if seen[string(ns)] == 0 {
			t.Errorf("%s was not asked about", ns)
		}
	}
	if seen[""] != 2 {
		t.Errorf("%d details were asked about", seen[""])
	}
}

func TestErrorsOfARewriteSayWhatWasKept(t *testing.T) {
	for _, err := range []error{
		&repo.EntryFailed{ID: mustEntryID("019b76da-a800-7cc1-beeb-8da1658eec67"), Err: errors.New("x")}, &repo.ValueFailed{At: "a", Err: errors.New("x")},
	} {
		if !strings.Contains(err.Error(), "nothing was changed") {
			t.Error(err)
		}
	}
	for _, err := range []error{&repo.SourceRead{errors.New("x")}, &repo.PointUnknown{}, &repo.DestinationRead{errors.New("x")}, &repo.DestinationNotEmpty{}, &repo.CopyFailed{errors.New("x")}} {
		if !strings.Contains(err.Error(), "nothing") {
			t.Error(err)
		}
	}
}

// Seqs of a rewritten session in memory are its own: readers must not rely on the old ones.
func TestAMemoryRewriteNumbersAnew(t *testing.T) {
	src := memory.New(at(epoch))
	i := mustEntryID("019b76da-a800-7cc1-beeb-8da1658eec67")
	commit(t, src, tx.Set(register.FactName, "a", jsonv.Num(1)), tx.Set(register.FactName, "a", jsonv.Num(2)), tx.InsertEntry{Entry: entry.Entry{ID: i, Body: entry.Custom{Type: "x"}}})
	to, err := repo.RewriteMemory(src, at(later), keepEntry, keepValue)
	if err != nil {
		t.Fatal(err)
	}
	all, err := to.ScanEntries(storage.EntryQuery{})
	if err != nil || len(all) != 1 || all[0].Seq != 1 || all[0].Timestamp != later {
		t.Errorf("%s", fmt.Sprint(all, err))
	}
}
