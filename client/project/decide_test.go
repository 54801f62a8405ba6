package project_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/client/project"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/wiretest"
)

func TestSixFormsOfAnAuthoritativeText(t *testing.T) {
	for name, c := range map[string]struct {
		shown, final string
		redraws      plane.Verdict
		appends      plane.Verdict
	}{
		"nothing was shown":            {"", "final", plane.Send{Text: "final"}, plane.Send{Text: "final"}},
		"nothing was shown or said":    {"", "", plane.Nothing{}, plane.Nothing{}},
		"all was shown":                {"final", "final", plane.Nothing{}, plane.Nothing{}},
		"the start was shown":          {"fin", "final", plane.Rest{Text: "al"}, plane.Rest{Text: "al"}},
		"lengths are bytes":            {"né", "née", plane.Rest{Text: "e"}, plane.Rest{Text: "e"}},
		"a cut character is no prefix": {"n\xc3", "né", plane.Replace{Text: "né"}, plane.Withhold{Text: "né"}},
		"another text was shown":       {"the key is abc", "the key is [redacted]", plane.Replace{Text: "the key is [redacted]"}, plane.Withhold{Text: "the key is [redacted]"}},
		"more was shown than is left":  {"final word", "final", plane.Replace{Text: "final"}, plane.Withhold{Text: "final"}},
		"it was taken back":            {"fin", "", plane.Retract{}, plane.Retract{}},
	} {
		if got := project.Decide(c.shown, c.final, project.Redraws); got != c.redraws {
			t.Errorf("%s, redraws: %#v", name, got)
		}
		if got := project.Decide(c.shown, c.final, project.Appends); got != c.appends {
			t.Errorf("%s, appends: %#v", name, got)
		}
	}
}

func TestTheVerdictMakesTheTextTheFinalOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		final := wiretest.Text().Draw(t, "final")
		shown := rapid.OneOf(wiretest.Text(), rapid.Map(rapid.IntRange(0, len(final)), func(n int) string { return final[:n] })).Draw(t, "shown")
		for _, s := range []project.Surface{project.Redraws, project.Appends} {
			after, honest := shown, true
			switch v := project.Decide(shown, final, s).(type) {
			case plane.Send:
				after += v.Text
			case plane.Rest:
				after += v.Text
			case plane.Nothing:
			case plane.Replace:
				after, honest = v.Text, s == project.Redraws
			case plane.Retract:
				honest = final == ""
				after = ""
			case plane.Withhold:
				honest = s == project.Appends && v.Text == final
				after = final // the ledger has it
			}
			if after != final || !honest {
				t.Fatalf("shown %q, final %q: %q", shown, final, after)
			}
		}
	})
}

func TestTheLedgerComparesWholeTexts(t *testing.T) {
	var l project.Ledger
	l.Add("[redacted]\n")
	for text, want := range map[string]bool{
		"[redacted]":                    true,
		"  [redacted] ":                 true,
		"The marker is [redacted], ok?": false,
		"[redact":                       false,
		"":                              false,
	} {
		if l.Holds(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
	for i := range 1000 {
		l.Add(strings.Repeat("x", i+1))
	}
	if l.Holds("[redacted]") || !l.Holds(strings.Repeat("x", 1000)) {
		t.Error("the ledger does not keep the newest")
	}
}

func TestUsageIsNeverMadeUp(t *testing.T) {
	for name, c := range map[string]struct {
		in         wire.Usage
		input, out plane.Count
		cost       plane.Count
	}{
		"measured":             {wire.Usage{Input: 5, Measured: true, CostMicroUSD: new(int64(7))}, plane.Exactly(5), plane.Exactly(0), plane.Exactly(7)},
		"measured, free":       {wire.Usage{Measured: true, CostMicroUSD: new(int64(0))}, plane.Exactly(0), plane.Exactly(0), plane.Exactly(0)},
		"measured, no price":   {wire.Usage{Input: 5, Measured: true}, plane.Exactly(5), plane.Exactly(0), plane.Count{}},
		"a placeholder":        {wire.Usage{}, plane.Count{}, plane.Count{}, plane.Count{}},
		"unmeasured, non-zero": {wire.Usage{Input: 5}, plane.AtLeast(5), plane.Count{}, plane.Count{}},
		"a part":               {wire.Usage{Input: 5, Measured: true, LowerBound: true, CostMicroUSD: new(int64(7)), CostLowerBound: true}, plane.AtLeast(5), plane.Count{}, plane.AtLeast(7)},
	} {
		got := project.Measure(c.in)
		if got.Input != c.input || got.Output != c.out || got.CostMicroUSD != c.cost {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
