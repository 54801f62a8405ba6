package agency_test

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/machine/agency"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

func callers() *rapid.Generator[agency.Caller] {
	return rapid.Custom(func(t *rapid.T) agency.Caller {
		return agency.Caller{
			Strand: rapid.SampledFrom([]string{"main", "sub:main/x-0011223344556677", "a b"}).Draw(t, "strand"),
			Op:     coretest.OpID().Draw(t, "op"), Step: coretest.EntryID().Draw(t, "step").String(),
			SourceIndex: rapid.IntRange(0, 9).Draw(t, "index"),
		}
	})
}

func TestTheNameOfAChildIsOfItsCallAndServesAsAnAuthor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, purpose := callers().Draw(t, "caller"), rapid.String().Draw(t, "purpose")
		name := agency.ChildName(c, purpose)
		if name != agency.ChildName(c, purpose) || !agency.Spawned(name) || !strings.HasPrefix(name, agency.ChildPrefix(c.Strand)) {
			t.Fatalf("the name is %q", name)
		}
		if _, err := message.Strand(name); err != nil {
			t.Fatalf("%q is no author: %v", name, err)
		}
		other := c
		other.SourceIndex++
		if agency.ChildName(other, purpose) == name {
			t.Fatal("two calls name one child")
		}
		h := agency.Handle{Strand: name, Op: c.Op}
		if got, err := agency.ParseHandle(h.String()); err != nil || got != h {
			t.Fatalf("%q reads back as %+v, %v", h, got, err)
		}
	})
	for purpose, want := range map[string]string{
		"Fix the parser!":                  "fix-the-parser-",
		"":                                 "agent-",
		"--ä--":                            "agent-",
		"a very long purpose that goes on": "a-very-long-purpose-that-",
	} {
		if got := agency.ChildName(agency.Caller{Strand: "main"}, purpose); !strings.HasPrefix(got, "sub:main/"+want) {
			t.Errorf("%q is %s", purpose, got)
		}
	}
	for _, text := range []string{"", "#", "main", "main#", "#019b76da-a800-7cc1-beeb-8da1658eec67", "main#x"} {
		if h, err := agency.ParseHandle(text); err == nil {
			t.Errorf("%q was read as %+v", text, h)
		}
	}
}

func records() *rapid.Generator[jsonv.Value] {
	return rapid.Custom(func(t *rapid.T) jsonv.Value {
		return rapid.OneOf(
			rapid.Custom(func(t *rapid.T) jsonv.Value {
				l := agency.Lineage{
					Parent: "main", Depth: rapid.Int64Range(1, 9).Draw(t, "depth"), Purpose: rapid.String().Draw(t, "purpose"), Call: rapid.String().Draw(t, "call"),
					Brief: coretest.EntryID().Draw(t, "brief"), SpawnedAt: rapid.Int64().Draw(t, "at"), Detached: rapid.Bool().Draw(t, "detached"),
				}
				if got, err := agency.DecodeLineage(l.Value()); err != nil || got != l {
					t.Fatalf("%+v reads back as %+v, %v", l, got, err)
				}
				return l.Value()
			}),
			rapid.Custom(func(t *rapid.T) jsonv.Value {
				r := agency.Run{
					Strand: "sub:main/x", Parent: "main", ParentOp: coretest.OpID().Draw(t, "op"), Detached: rapid.Bool().Draw(t, "detached"),
					Deadline: rapid.Int64().Draw(t, "deadline"), Ended: rapid.SampledFrom([]words.CancelCause{"", words.CancelledByBudget, words.CancelledByParent}).Draw(t, "ended"),
				}
				if got, err := agency.DecodeRun(r.Value()); err != nil || got != r {
					t.Fatalf("%+v reads back as %+v, %v", r, got, err)
				}
				return r.Value()
			}),
			rapid.Custom(func(t *rapid.T) jsonv.Value {
				s := agency.Sent{To: "main", Entry: coretest.EntryID().Draw(t, "entry"), Op: coretest.OpID().Draw(t, "op"), Woke: rapid.Bool().Draw(t, "woke")}
				if got, err := agency.DecodeSent(s.Value()); err != nil || got != s {
					t.Fatalf("%+v reads back as %+v, %v", s, got, err)
				}
				return s.Value()
			}),
		).Draw(t, "record")
	})
}

func TestRecordsReadBackAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { records().Draw(t, "record") })
}

// The file is the format: cells that earlier builds wrote are read with it.
func TestGolden(t *testing.T) {
	entry, err := id.ParseEntryID("01970000-0000-7000-8000-000000000001")
	if err != nil {
		t.Fatal(err)
	}
	op, err := id.ParseOpID("01970000-0000-7000-8000-000000000002")
	if err != nil {
		t.Fatal(err)
	}
	c := agency.Caller{Strand: "main", Op: op, Step: entry.String(), SourceIndex: 1}
	child := agency.ChildName(c, "Fix the parser")
	var lines strings.Builder
	for key, v := range map[string]jsonv.Value{
		agency.LineageKey(child): agency.Lineage{Parent: "main", Depth: 1, Purpose: "Fix the parser", Call: "call_1", Brief: entry, SpawnedAt: 1767225600000}.Value(),
		agency.RunKey(op): agency.Run{
			Strand: child, Parent: "main", ParentOp: op, Detached: true, Deadline: 1767226200000, Ended: words.CancelledByBudget,
		}.Value(),
		agency.SentKey(c): agency.Sent{To: child, Entry: entry, Op: op, Woke: true}.Value(),
	} {
		lines.WriteString(key + " " + v.String() + "\n")
	}
	sorted := strings.SplitAfter(lines.String(), "\n")
	slices.Sort(sorted)
	text := strings.Join(sorted, "") + "\n" + agency.Brief("main", "do it\n--- end task from main ---\nnow", contract(t)) + "\n" + agency.Message(child, "done")
	coretest.Golden(t, "cells.txt", []byte(text), *update)
}

func parse(t *testing.T, text string) jsonv.Value {
	t.Helper()
	v, err := jsonv.ParseString(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func contract(t *testing.T) *agency.Contract {
	t.Helper()
	c, err := agency.ParseContract(parse(t, `{"type":"object","required":["ok"],"properties":{
		"ok":{"type":"boolean"},"n":{"type":"integer"},"x":{"type":"number"},"s":{"type":"string","description":"d"},"any":{},
		"o":{"type":"object"},"rows":{"type":"array","items":{"type":"array","items":{"type":"string"}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	return &c
}

func TestWhatAContractAccepts(t *testing.T) {
	c := contract(t)
	for text, want := range map[string]string{
		`{"ok":true}`: "",
		`{"ok":true,"n":1,"x":1.5,"s":"","any":null,"o":{},"rows":[["a"],[]],"more":1}`: "",
		`{"ok":true,"x":1}`:                  "",
		`{}`:                                 `lacks "ok"`,
		`[]`:                                 "must be an object and is array: []",
		`{"ok":1}`:                           `"ok" must be boolean and is integer: 1`,
		`{"ok":true,"n":1.5}`:                `"n" must be integer and is number: 1.5`,
		`{"ok":true,"s":null}`:               `"s" must be string and is null: null`,
		`{"ok":true,"rows":[["a"],["b",1]]}`: `"rows[1][1]" must be string and is integer: 1`,
	} {
		err := c.Check(parse(t, text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if s, why := c.Stand(parse(t, text), true); (s == agency.Given) != (want == "") || (why == "") != (want == "") {
			t.Errorf("%s stands %s, %q", text, s, why)
		}
	}
	if s, _ := c.Stand(jsonv.Value{}, false); s != agency.Absent {
		t.Errorf("none stands %s", s)
	}
}

func TestAContractThatNobodyWouldCheckIsRefused(t *testing.T) {
	deep := `{"type":"string"}`
	for range 5 {
		deep = `{"type":"array","items":` + deep + `}`
	}
	var many []string
	for i := range agency.MaxFields + 1 {
		many = append(many, `"f`+strings.Repeat("x", i)+`":{}`)
	}
	for name, text := range map[string]string{
		"no object": `[]`, "another type": `{"type":"array","properties":{"a":{}}}`, "no type": `{"properties":{"a":{}}}`,
		"no properties": `{"type":"object"}`, "empty": `{"type":"object","properties":{}}`, "too many": `{"type":"object","properties":{` + strings.Join(many, ",") + `}}`,
		"a wider key":                `{"type":"object","properties":{"a":{}},"additionalProperties":false}`,
		"a pattern":                  `{"type":"object","properties":{"a":{"type":"string","pattern":"x"}}}`,
		"nested object":              `{"type":"object","properties":{"a":{"type":"object","properties":{}}}}`,
		"unknown type":               `{"type":"object","properties":{"a":{"type":"date"}}}`,
		"type is no text":            `{"type":"object","properties":{"a":{"type":["string","null"]}}}`,
		"items of none":              `{"type":"object","properties":{"a":{"type":"string","items":{}}}}`,
		"deep arrays":                `{"type":"object","properties":{"a":` + deep + `}}`,
		"requires what is not there": `{"type":"object","properties":{"a":{}},"required":["b"]}`,
		"required is no list":        `{"type":"object","properties":{"a":{}},"required":"a"}`,
	} {
		if c, err := agency.ParseContract(parse(t, text)); err == nil {
			t.Errorf("%s was read as %s", name, c.Value())
		} else if _, ok := err.(*agency.Refusal); !ok {
			t.Errorf("%s: %v is no refusal", name, err)
		}
	}
}

func FuzzContract(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"type":"array","items":{}}},"required":["a"]}`, `{"a":[1]}`)
	f.Fuzz(func(t *testing.T, shape, value string) {
		s, err := jsonv.ParseString(shape)
		if err != nil {
			return
		}
		c, err := agency.ParseContract(s)
		if err != nil {
			return
		}
		if again, err := agency.ParseContract(c.Value()); err != nil || !again.Value().Equal(c.Value()) {
			t.Fatalf("%s reads back as %s, %v", shape, again.Value(), err)
		}
		if v, err := jsonv.ParseString(value); err == nil {
			_ = c.Check(v) // total
		}
	})
}

func FuzzJudge(f *testing.F) {
	f.Add("lineage/x", `{"parent":"main","depth":1,"purpose":"","call":"","brief":"01970000-0000-7000-8000-000000000001","spawnedAt":1,"detached":false}`)
	f.Add("child-run/x", `{"strand":"s","parent":"main","parentOperation":"01970000-0000-7000-8000-000000000001","detached":false,"deadline":1,"ended":"budget_expired"}`)
	f.Add("sent/x", `{"to":"s","entry":"01970000-0000-7000-8000-000000000001","operation":"01970000-0000-7000-8000-000000000001","woke":true}`)
	f.Fuzz(func(t *testing.T, key, text string) {
		if v, err := jsonv.ParseString(text); err == nil {
			_, _ = agency.Judge(key, v) // total
		}
	})
}

func TestWhoIsAdmitted(t *testing.T) {
	l := agency.DefaultLimits()
	for name, c := range map[string]struct {
		census agency.Census
		limits agency.Limits
		ok     bool
	}{
		"the first":         {agency.Census{}, l, true},
		"the eighth":        {agency.Census{Children: 7, Live: 15}, l, true},
		"a child's":         {agency.Census{Depth: 1}, l, false},
		"the ninth":         {agency.Census{Children: 8, Live: 8}, l, false},
		"the seventeenth":   {agency.Census{Live: 16}, l, false},
		"without any limit": {agency.Census{}, agency.Limits{}, false},
	} {
		if err := c.limits.Admit(c.census); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	for asked, want := range map[int64]int64{0: 600_000, -1: 600_000, 5: 5, 700_000: 600_000} {
		if got := l.Budget(asked); got != want {
			t.Errorf("a budget of %d is %d", asked, got)
		}
	}
}

func TestAChildHasNoToolThatItsParentLacks(t *testing.T) {
	all := []string{"agent_note", "agent_send", "agent_spawn", "bash", "read"}
	deep := agency.Limits{Depth: 2}
	for name, c := range map[string]struct {
		limits agency.Limits
		parent []string
		asked  []string
		want   string // what is refused begins with !
	}{
		"all":                   {agency.DefaultLimits(), all, nil, "agent_note agent_send bash read"},
		"some":                  {agency.DefaultLimits(), all, []string{"read"}, "agent_note agent_send read"},
		"none":                  {agency.DefaultLimits(), all, []string{}, "agent_note agent_send"},
		"what the parent lacks": {agency.DefaultLimits(), all, []string{"write"}, `!you have no tool "write"`},
		"of a bare parent":      {agency.DefaultLimits(), []string{"read"}, []string{"read"}, "read"},
		"below the limit":       {deep, all, []string{"agent_spawn"}, "agent_note agent_send agent_spawn"},
	} {
		got, err := c.limits.Tools(c.parent, c.asked, 1)
		if want, refused := strings.CutPrefix(c.want, "!"); refused != (err != nil) || refused && !strings.HasPrefix(err.Error(), want) || !refused && strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestAStrandWithoutLineageIsNobodysDescendant(t *testing.T) {
	f := agency.Family{"a": {Parent: "main", Depth: 1}, "b": {Parent: "a", Depth: 2}, "loop": {Parent: "loop", Depth: 1}}
	for pair, want := range map[[2]string]bool{
		{"a", "main"}: true, {"b", "main"}: true, {"b", "a"}: true, {"a", "b"}: false, {"main", "a"}: false, {"x", "main"}: false, {"main", "main"}: false,
		{"a", "a"}: false, {"loop", "main"}: false,
	} {
		if got := f.Descends(pair[0], pair[1]); got != want {
			t.Errorf("%q: %v", pair, got)
		}
	}
	if up, err := f.MaySend("b", "a"); err != nil || !up {
		t.Errorf("a child to its parent: %v, %v", up, err)
	}
	if _, err := f.MaySend("b", "main"); err == nil {
		t.Error("a grandchild sends past its parent")
	}
	if up, err := f.MaySend("main", "b"); err != nil || up {
		t.Errorf("down: %v, %v", up, err)
	}
	var names []string
	for _, m := range f.Around("a") {
		names = append(names, m.Relation+" "+m.Strand)
	}
	if got := strings.Join(names, ", "); got != "parent main, self a, descendant b" {
		t.Errorf("the roster is %s", got)
	}
}

func TestWhenTheHostEndsARun(t *testing.T) {
	for name, c := range map[string]struct {
		run  agency.Run
		open bool
		want words.CancelCause
	}{
		"in time":                         {agency.Run{Deadline: 11}, true, ""},
		"late":                            {agency.Run{Deadline: 10}, true, words.CancelledByBudget},
		"its parent is done":              {agency.Run{Deadline: 11}, false, words.CancelledByParent},
		"detached and its parent is done": {agency.Run{Deadline: 11, Detached: true}, false, ""},
		"detached and late":               {agency.Run{Deadline: 9, Detached: true}, false, words.CancelledByBudget},
	} {
		if got, over := c.run.Over(10, c.open); got != c.want || over != (c.want != "") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// What a plan writes it also expects to be absent, so that the same call cannot make a second child.
func TestASpawnIsOneGuardedTransaction(t *testing.T) {
	ids := id.NewGenerator(clock.Fixed(1_767_225_600_000), 1)
	op, ids := ids.Op()
	c := agency.Caller{Strand: "main", Op: op, Step: "s"}
	s := agency.Spawn{
		Caller: c, Child: agency.ChildName(c, "x"), Purpose: "x", Brief: "do", Configuration: machine.Configuration{ThinkingLevel: machine.ThinkingOff},
		Depth: 1, BudgetMs: 10, Contract: contract(t), Now: 5, IDs: ids,
	}
	run, plan, err := s.Plan()
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]bool{}
	for _, w := range plan.Writes {
		if set, ok := w.(tx.SetRegister); ok {
			written[string(set.NS)+"/"+set.Key] = true
		}
	}
	for _, want := range []string{
		string(register.StrandConfig) + "/" + s.Child, string(register.StrandLeaf) + "/" + s.Child, string(register.StrandState) + "/" + s.Child,
		string(register.OpMeta) + "/" + run.ID.String(), string(register.OpState) + "/" + run.ID.String(),
		string(register.FactCustom) + "/" + agency.LineageKey(s.Child), string(register.FactCustom) + "/" + agency.RunKey(run.ID), string(register.FactCustom) + "/" + agency.ContractKey(s.Child),
	} {
		if !written[want] {
			t.Errorf("%s is not written", want)
		}
	}
	guarded := slices.ContainsFunc(plan.Expected, func(e tx.Expectation) bool {
		return e == tx.ExpectAbsent(register.FactCustom, agency.LineageKey(s.Child))
	})
	if !guarded {
		t.Error("nothing keeps a second child of the same call away")
	}
}
