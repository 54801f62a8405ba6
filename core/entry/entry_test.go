package entry_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

// roundTrip demands that e is written as JSON and read back the same, text for text.
func roundTrip(t fataler, e entry.Entry) {
	t.Helper()
	text := entry.Encode(e)
	if !jsontext.Value(text).IsValid() {
		t.Fatalf("%s is not JSON", text)
	}
	got, err := entry.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if d := coretest.Diff(e, got); d != "" || string(entry.Encode(got)) != string(text) {
		t.Fatalf("%s is written again as %s\n%s", text, entry.Encode(got), d)
	}
}

func encodeRow(row entry.UsageRow) string {
	var w jsonv.Writer
	entry.AppendUsageRow(&w, row)
	return string(w.Bytes())
}

func parseRow(text string) (entry.UsageRow, error) {
	v, err := jsonv.ParseString(text)
	if err != nil {
		return entry.UsageRow{}, err
	}
	return entry.DecodeUsageRow(v)
}

func rowRoundTrip(t fataler, row entry.UsageRow) {
	t.Helper()
	text := encodeRow(row)
	if !jsontext.Value(text).IsValid() {
		t.Fatalf("%s is not JSON", text)
	}
	got, err := parseRow(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if d := coretest.Diff(row, got); d != "" || encodeRow(got) != text {
		t.Fatalf("%s is written again as %s\n%s", text, encodeRow(got), d)
	}
}

func TestEveryEntryReadsBackAsItWasWritten(t *testing.T) {
	kinds := map[entry.Kind]int{}
	rapid.Check(t, func(t *rapid.T) {
		e := coretest.Entry().Draw(t, "entry")
		kinds[e.Body.Kind()]++
		roundTrip(t, e)
	})
	if len(kinds) != 4 {
		t.Errorf("only these kinds were generated: %v", kinds)
	}
}

func TestEveryLedgerRowReadsBackAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { rowRoundTrip(t, coretest.UsageRow().Draw(t, "row")) })
}

func TestTranscriptsReadBackAndRepeat(t *testing.T) {
	rows := coretest.Transcript(7, 20_000)
	for _, e := range rows {
		roundTrip(t, e)
	}
	again := coretest.Transcript(7, 20_000)
	if d := coretest.Diff(rows, again); d != "" {
		t.Errorf("the same seed makes another transcript: %s", d)
	}
	if d := coretest.Diff(rows, coretest.Transcript(8, 20_000)); d == "" {
		t.Error("another seed makes the same transcript")
	}
}

const (
	rowID  = "019b76da-a800-7cc1-beeb-8da1658eec67"
	parent = "019b76da-a800-755e-b1c1-8690ee42c90b"
	stamp  = `"id":"` + rowID + `","parentId":"` + parent + `","seq":3,"timestamp":5,`

	noUsage = `{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,"cost":{"input":0.0,"output":0.0,"cacheRead":0.0,"cacheWrite":0.0,"total":0.0},` +
		`"evidence":{"version":1,"tokens":"complete","billing":"no-provider","cost":{"kind":"no-expense"}}}`
	hi      = `{"role":"user","content":[],"timestamp":5,"origin":null}`
	pending = `{"role":"assistant","content":[],"api":"a","provider":"p","model":"m","usage":` + noUsage + `,"stopReason":"pending","timestamp":5}`

	said       = `{` + stamp + `"type":"message","message":` + hi + `}`
	compaction = `{` + stamp + `"type":"compaction","summary":"s","retainedTail":[` + hi + `],"tokensBefore":9,"fromHook":false}`
	branch     = `{` + stamp + `"type":"branch_summary","fromId":null,"summary":"s","fromHook":true,"usage":` + noUsage + `}`
	custom     = `{` + stamp + `"type":"custom","customType":"t","data":null}`
	ledger     = `{"id":"` + rowID + `","seq":4,"entryId":"` + parent + `","adjustment":false,"usage":` + noUsage + `,"details":{}}`
)

// with replaces a piece of a text that has it once.
func with(t *testing.T, text, old, new string) string {
	t.Helper()
	if strings.Count(text, old) != 1 {
		t.Fatalf("%q is not once in %s", old, text)
	}
	return strings.Replace(text, old, new, 1)
}

func TestFormsThatAreReadButNotWritten(t *testing.T) {
	for name, c := range map[string][2]string{
		"a message":                {said, said},
		"a compaction":             {compaction, compaction},
		"a branch summary":         {branch, branch},
		"a custom row":             {custom, custom},
		"a custom row without one": {with(t, custom, `,"data":null`, ``), with(t, custom, `,"data":null`, ``)},
		"a root":                   {with(t, said, `"`+parent+`"`, `null`), with(t, said, `"`+parent+`"`, `null`)},
		"terminate":                {with(t, said, `}}`, `},"terminate":true}`), with(t, said, `}}`, `},"terminate":true}`)},
		"terminate spelt out":      {with(t, said, `}}`, `},"terminate":false}`), said},
		"terminate of null":        {with(t, said, `}}`, `},"terminate":null}`), said},
		"a branch from nowhere":    {with(t, branch, `"fromId":null,`, ``), branch},
		"usage of null":            {with(t, compaction, `"fromHook":false`, `"fromHook":false,"usage":null`), compaction},
		"unknown fields":           {with(t, said, `"type"`, `"later":[],"type"`), said},
		"an id in capitals":        {with(t, said, rowID, strings.ToUpper(rowID)), said},
	} {
		e, err := entry.Parse([]byte(c[0]))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := string(entry.Encode(e)); got != c[1] {
			t.Errorf("%s: is written as %s, want %s", name, got, c[1])
		}
	}
	for name, c := range map[string][2]string{
		"a ledger row":      {ledger, ledger},
		"for no entry":      {with(t, ledger, `"entryId":"`+parent+`",`, ``), with(t, ledger, `"entryId":"`+parent+`",`, ``)},
		"for an entry null": {with(t, ledger, `"`+parent+`"`, `null`), with(t, ledger, `"entryId":"`+parent+`",`, ``)},
		"details of null":   {with(t, ledger, `{}}`, `null}`), with(t, ledger, `{}}`, `null}`)},
		"without details":   {with(t, ledger, `,"details":{}`, ``), with(t, ledger, `,"details":{}`, ``)},
	} {
		row, err := parseRow(c[0])
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := encodeRow(row); got != c[1] {
			t.Errorf("%s: is written as %s, want %s", name, got, c[1])
		}
	}
}

func TestEntriesThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, subject string }{
		"no JSON":                       {`{`, "offset 1"},
		"two rows":                      {said + said, fmt.Sprintf("offset %d", len(said))},
		"no object":                     {`[]`, "value"},
		"no id":                         {with(t, said, `"id":"`+rowID+`",`, ``), "id"},
		"an empty id":                   {with(t, said, rowID, ``), "id.id"},
		"an id of null":                 {with(t, said, `"id":"`+rowID+`"`, `"id":null`), "id.id"},
		"an id of another version":      {with(t, said, "7cc1", "4cc1"), "id.id"},
		"no parent field":               {with(t, said, `"parentId":"`+parent+`",`, ``), "parentId"},
		"an empty parent":               {with(t, said, parent, ``), "parentId.id"},
		"a parent of a number":          {with(t, said, `"`+parent+`"`, `7`), "parentId.id"},
		"no seq":                        {with(t, said, `"seq":3,`, ``), "seq"},
		"a seq with a fraction":         {with(t, said, `"seq":3`, `"seq":3.0`), "seq"},
		"no time":                       {with(t, said, `"timestamp":5,"type"`, `"type"`), "timestamp"},
		"no type":                       {with(t, said, `"type":"message",`, ``), "type"},
		"an unknown type":               {with(t, said, `"type":"message"`, `"type":"branch-summary"`), "type"},
		"no message":                    {with(t, said, `"message":`, `"said":`), "message"},
		"a message of null":             {with(t, said, hi, `null`), "message.value"},
		"a malformed message":           {with(t, said, `"content":[],`, ``), "message.content"},
		"terminate in words":            {with(t, said, `}}`, `},"terminate":"yes"}`), "terminate"},
		"a response that still streams": {with(t, said, hi, pending), "message.stopReason"},
		"such a one in a tail":          {with(t, compaction, hi, hi+`,`+pending), "retainedTail[1].stopReason"},
		"no summary":                    {with(t, compaction, `"summary":"s",`, ``), "summary"},
		"no tail":                       {with(t, compaction, `"retainedTail":[`+hi+`],`, ``), "retainedTail"},
		"a tail of null":                {with(t, compaction, `[`+hi+`]`, `null`), "retainedTail"},
		"no size":                       {with(t, compaction, `"tokensBefore":9,`, ``), "tokensBefore"},
		"no fromHook":                   {with(t, compaction, `,"fromHook":false`, ``), "fromHook"},
		"usage that is malformed":       {with(t, compaction, `false`, `false,"usage":{}`), "usage.input"},
		"a branch from a bad place":     {with(t, branch, `"fromId":null`, `"fromId":"main"`), "fromId.id"},
		"a branch without summary":      {with(t, branch, `"summary":"s",`, ``), "summary"},
		"a custom row without a type":   {with(t, custom, `"customType":"t",`, ``), "customType"},
		"a repeated field":              {with(t, custom, `"data":null`, `"data":null,"id":1`), fmt.Sprintf("offset %d", len(custom))},
	} {
		e, err := entry.Parse([]byte(c.text))
		r, ok := corrupt.As(err)
		if !ok {
			t.Errorf("%s: %s reads as %+v, %v", name, c.text, e, err)
		} else if r.Subject != c.subject {
			t.Errorf("%s: the report is about %q, want %q (%v)", name, r.Subject, c.subject, r)
		}
	}
	for name, c := range map[string]struct{ text, subject string }{
		"no object":             {`null`, "value"},
		"no id":                 {with(t, ledger, `"id":"`+rowID+`",`, ``), "id"},
		"an id that is none":    {with(t, ledger, rowID, `x`), "id.id"},
		"no seq":                {with(t, ledger, `"seq":4,`, ``), "seq"},
		"a bad entry":           {with(t, ledger, parent, `x`), "entryId.id"},
		"no adjustment":         {with(t, ledger, `"adjustment":false,`, ``), "adjustment"},
		"no usage":              {with(t, ledger, `"usage":`+noUsage+`,`, ``), "usage"},
		"usage of null":         {with(t, ledger, noUsage, `null`), "usage.value"},
		"counts out of nowhere": {with(t, ledger, `"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens"`, `"output":1,"cacheRead":0,"cacheWrite":0,"totalTokens"`), "usage.evidence"},
	} {
		row, err := parseRow(c.text)
		r, ok := corrupt.As(err)
		if !ok {
			t.Errorf("%s: %s reads as %+v, %v", name, c.text, row, err)
		} else if r.Subject != c.subject {
			t.Errorf("%s: the report is about %q, want %q (%v)", name, r.Subject, c.subject, r)
		}
	}
}

func TestKindsAreAClosedSet(t *testing.T) {
	for _, b := range []entry.Body{entry.Message{}, entry.Compaction{}, entry.BranchSummary{}, entry.Custom{}} {
		if k, ok := entry.ParseKind(string(b.Kind())); !ok || k != b.Kind() {
			t.Errorf("%s is %q, %v", b.Kind(), k, ok)
		}
	}
	for _, s := range []string{"", "Message", "branch-summary", "message "} {
		if k, ok := entry.ParseKind(s); ok || k != "" {
			t.Errorf("%q is %q", s, k)
		}
	}
}

// The deepest arguments that are taken as they are can be stored in every row that carries a call, and read back.
func TestTheDeepestArgumentsFitTheDeepestRow(t *testing.T) {
	deep := strings.Repeat(`{"a":`, message.MaxArgumentsDepth-1) + "{}" + strings.Repeat("}", message.MaxArgumentsDepth-1)
	args := message.ParseArguments(deep)
	if _, _, malformed := message.AsMalformed(args); malformed {
		t.Fatal("the arguments were not taken")
	}
	call := &message.Assistant{Content: []message.AssistantBlock{message.ToolCall{ID: "c", Name: "n", Arguments: args}}, StopReason: message.ToolUse}
	i, _ := id.NewGenerator(clock.Fixed(1), 1).Entry()
	roundTrip(t, entry.Entry{ID: i, Body: entry.Message{Message: call}})
	roundTrip(t, entry.Entry{ID: i, Body: entry.Compaction{RetainedTail: []message.Message{call, call}}})
}

// samples has each kind of row with everything and with as little as it may have.
func samples(t testing.TB) (entries []entry.Entry, rows []entry.UsageRow) {
	g := id.NewGenerator(clock.Stepping(1767225600000, 1), 1)
	next := func() (i id.EntryID) {
		i, g = g.Entry()
		return i
	}
	spent := usage.Usage{Input: 9, Output: 3, TotalTokens: 12, Evidence: usage.Reported(usage.API, usage.Complete)}
	said := &message.User{Content: []message.UserBlock{message.Text{Text: "hi"}}, Timestamp: 1767225600000}
	result := &message.ToolResult{ToolCallID: "c", ToolName: "ls", Content: []message.ResultBlock{message.Text{Text: "a\tb"}}, Timestamp: 1767225600001}
	root := next()
	entries = []entry.Entry{
		{ID: root, Body: entry.Message{Message: said}},
		{ID: next(), Parent: root, Seq: 2, Timestamp: 1767225600002, Body: entry.Message{Message: result, Terminate: true}},
		{ID: next(), Parent: root, Seq: 3, Timestamp: 1767225600003, Body: entry.Compaction{Summary: "so far", RetainedTail: []message.Message{said, result}, TokensBefore: 90000, Usage: &spent}},
		{ID: next(), Parent: root, Seq: 4, Timestamp: 1767225600004, Body: entry.Compaction{FromHook: true}},
		{ID: next(), Parent: root, Seq: 5, Timestamp: 1767225600005, Body: entry.BranchSummary{FromID: root, Summary: "left", Usage: &spent}},
		{ID: next(), Parent: root, Seq: 6, Timestamp: 1767225600006, Body: entry.BranchSummary{FromHook: true}},
		{ID: next(), Parent: root, Seq: 7, Timestamp: 1767225600007, Body: entry.Custom{Type: "note", Data: new(jsonv.Obj(jsonv.F("n", jsonv.Num(1))))}},
		{ID: next(), Parent: root, Seq: 8, Timestamp: 1767225600008, Body: entry.Custom{Type: "note", Data: new(jsonv.Value{})}},
		{ID: next(), Parent: root, Seq: 9, Timestamp: 1767225600009, Body: entry.Custom{}},
	}
	var a, b id.UsageID
	a, g = g.Usage()
	b, _ = g.Usage()
	rows = []entry.UsageRow{
		{ID: a, Seq: 10, EntryID: root, Usage: spent, Details: new(jsonv.Obj())},
		{ID: b, Adjustment: true, Usage: usage.Unknown(usage.API)},
	}
	return entries, rows
}

// The files are the format: a line that changes is a row that older builds wrote and this one would write otherwise.
func TestGolden(t *testing.T) {
	entries, rows := samples(t)
	var tree, ledger strings.Builder
	for _, e := range entries {
		roundTrip(t, e)
		tree.WriteString(string(entry.Encode(e)) + "\n")
	}
	for _, row := range rows {
		rowRoundTrip(t, row)
		ledger.WriteString(encodeRow(row) + "\n")
	}
	coretest.Golden(t, "entry.jsonl", []byte(tree.String()), *update)
	coretest.Golden(t, "usage_row.jsonl", []byte(ledger.String()), *update)
}

func seed(f *testing.F, file string) {
	if seeds, err := os.ReadFile("testdata/" + file); err == nil {
		for line := range strings.Lines(string(seeds)) {
			f.Add([]byte(line))
		}
	}
}

func FuzzParse(f *testing.F) {
	seed(f, "entry.jsonl")
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := entry.Parse(text)
		if err != nil {
			if r, ok := corrupt.As(err); !ok || len(r.Error()) > 20_000 {
				t.Fatalf("%T: %.200v", err, err)
			}
			return
		}
		roundTrip(t, e)
	})
}

func FuzzDecodeUsageRow(f *testing.F) {
	seed(f, "usage_row.jsonl")
	f.Fuzz(func(t *testing.T, text []byte) {
		row, err := parseRow(string(text))
		if err != nil {
			if r, ok := corrupt.As(err); !ok || len(r.Error()) > 20_000 {
				t.Fatalf("%T: %.200v", err, err)
			}
			return
		}
		rowRoundTrip(t, row)
	})
}
