package accounting_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/accounting"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/usage"
)

func rowOf(list []accounting.Request) entry.UsageRow {
	var report accounting.Report
	for _, q := range list {
		report = report.Append(q.Usage)
	}
	return entry.UsageRow{Usage: report.Total(), Details: new(report.Details(accounting.Requests(list)))}
}

func requests() *rapid.Generator[[]accounting.Request] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) accounting.Request {
		return accounting.Request{
			Provider: rapid.String().Draw(t, "provider"), Model: rapid.String().Draw(t, "model"),
			Class: rapid.SampledFrom([]string{"", "server", "later word"}).Draw(t, "class"), Usage: attempts().Draw(t, "usage"),
		}
	}), 0, 4)
}

func TestRequestsOfARowReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := requests().Draw(t, "requests")
		row := rowOf(list)
		got, ok, err := accounting.DecodeRequests(row)
		if err != nil || !ok || len(got) != len(list) {
			t.Fatalf("%v %v %v", got, ok, err)
		}
		for i, q := range got {
			want := list[i]
			if text(q.Usage) != text(want.Usage) {
				t.Fatalf("%s, not %s", text(q.Usage), text(want.Usage))
			}
			if q.Usage, want.Usage = usage.Zero(), usage.Zero(); q != want {
				t.Fatalf("%v, not %v", q, want)
			}
		}
		if report, err := accounting.DecodeRow(row); err != nil || report.Attempts() != int64(len(list)) {
			t.Fatalf("the report beside them: %v", err)
		}
	})
}

func TestRequestsThatDoNotMakeUpTheirRowAreCorruption(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		row := rowOf(append(requests().Draw(t, "requests"), accounting.Request{Usage: usage.Unknown(usage.API)}))
		row.Usage.Output++
		if _, _, err := accounting.DecodeRequests(row); err == nil {
			t.Fatal("they were read")
		}
	})
}

func FuzzDecodeRequests(f *testing.F) {
	f.Add(`{"loom.requests.v1":[{"provider":"p","model":"m","class":"server","usage":{}}]}`)
	f.Add(rowOf([]accounting.Request{{Provider: "p", Model: "m", Usage: usage.Unknown(usage.API)}}).Details.String())
	f.Fuzz(func(t *testing.T, details string) {
		v, err := jsonv.ParseString(details)
		if err != nil {
			t.Skip("rows hold JSON")
		}
		list, ok, err := accounting.DecodeRequests(entry.UsageRow{Details: &v})
		if err != nil || !ok {
			return
		}
		if again, _, err := accounting.DecodeRequests(rowOf(list)); err != nil || len(again) != len(list) {
			t.Errorf("%v is read again as %v, %v", list, again, err)
		}
	})
}

func TestWhatIsNoListOfRequests(t *testing.T) {
	for name, c := range map[string]struct {
		details string
		fails   bool
	}{
		"another field":   {`{"note":1}`, false},
		"no object":       {`[]`, false},
		"not a list":      {`{"loom.requests.v1":{}}`, true},
		"a number":        {`{"loom.requests.v1":[1]}`, true},
		"without a model": {`{"loom.requests.v1":[{"provider":"p"}]}`, true},
	} {
		v, err := jsonv.Parse([]byte(c.details))
		if err != nil {
			t.Fatal(err)
		}
		if _, ok, err := accounting.DecodeRequests(entry.UsageRow{Details: &v}); ok || (err != nil) != c.fails {
			t.Errorf("%s: %v %v", name, ok, err)
		}
	}
	if _, ok, err := accounting.DecodeRequests(entry.UsageRow{}); ok || err != nil {
		t.Errorf("no details: %v %v", ok, err)
	}
}
