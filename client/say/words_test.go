package say_test

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/client/say"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/wire"
)

// vocabulary is the sentences over one table.
type vocabulary struct {
	words []string
	say   func(string) string
}

func over[W ~string](t *words.Table[W], say func(W) string) vocabulary {
	var list []string
	for w := range t.All() {
		list = append(list, string(w))
	}
	return vocabulary{list, func(s string) string { return say(W(s)) }}
}

func vocabularies() map[string]vocabulary {
	all := map[string]vocabulary{
		"denied":     over(words.DeniedBys, say.DeniedBy),
		"asked":      over(words.AskOrigins, say.AskedBy),
		"mandate":    over(words.Mandates, say.Mandated),
		"settled":    over(words.Settlements, say.Settled),
		"cancelled":  over(words.CancelCauses, say.Cancelled),
		"rule issue": over(words.RuleIssues, func(w words.RuleIssue) string { return say.RuleIssue(w, "") }),
		"liveness":   over(words.RuleLivenesses, say.RuleLiveness),
		"no rule":    over(words.RuleOfferAbsences, say.NoRule),
		"paused":     over(words.PauseReasons, func(w words.PauseReason) string { return say.Ending(wire.Paused{Reason: &w}) }),
		"unsettled":  over(words.UnsettledCauses, func(w words.UnsettledCause) string { return say.AskUnsettled{Cause: w}.Sentence() }),
	}
	for kind, table := range map[words.BlockedKind]vocabulary{
		words.BlockedByHook:   over(words.HookBlocks, func(w words.HookBlock) string { return string(w) }),
		words.BlockedByLimit:  over(words.LimitBlocks, func(w words.LimitBlock) string { return string(w) }),
		words.BlockedByExpiry: over(words.Expiries, func(w words.Expiry) string { return string(w) }),
	} {
		all["blocked by "+string(kind)] = vocabulary{table.words, func(s string) string {
			return say.Ending(wire.Blocked{Detail: &wire.BlockedDetail{Kind: kind, Cause: s}})
		}}
	}
	refusals := vocabulary{say: func(s string) string { return say.Refusal(wire.Code(s)) }}
	for _, c := range wire.Codes() {
		refusals.words = append(refusals.words, string(c))
	}
	all["refusal"] = refusals
	return all
}

func TestEveryWordHasASentenceOfItsOwn(t *testing.T) {
	everywhere := map[string]string{}
	for name, v := range vocabularies() {
		unknown := v.say("word_to_come")
		if !strings.Contains(unknown, `"word_to_come"`) {
			t.Errorf("%s: an unknown word is told as %q", name, unknown)
		}
		for _, w := range v.words {
			s := v.say(w)
			if s == "" || s == unknown || strings.Contains(s, `"`+w+`"`) {
				t.Errorf("%s: %s has no sentence: %q", name, w, s)
			}
			if strings.Contains(w, "_") && strings.Contains(s, w) {
				t.Errorf("%s: the sentence of %s names the word: %q", name, w, s)
			}
			if other, taken := everywhere[s]; taken {
				t.Errorf("%s and %s %s share the sentence %q", other, name, w, s)
			}
			everywhere[s] = name + " " + w
		}
	}
}

func TestAnUnknownWordIsQuotedAndObeyedByNoScreen(t *testing.T) {
	for name, v := range vocabularies() {
		s := v.say("\x1b]0;title\a\u202eevil")
		if !strings.Contains(s, "evil") || strings.ContainsAny(s, "\x1b\a\u202e") {
			t.Errorf("%s: %q", name, s)
		}
		if s := v.say(strings.Repeat("x", 10<<20)); len(s) > 4000 {
			t.Errorf("%s: %d bytes for a word", name, len(s))
		}
	}
}

func TestAMandatedQuestionPointsNobodyAtRules(t *testing.T) {
	for w := range words.Mandates.All() {
		if s := say.Mandated(w); strings.Contains(s, "rule") {
			t.Errorf("%s: %q", w, s)
		}
	}
	for _, s := range []string{say.AskedBy(words.AskedBySafety), say.NoRule(words.NoRuleMandated)} {
		if strings.Contains(s, "rule") {
			t.Errorf("%q", s)
		}
	}
}

func TestTheTwoFamiliesOfRuleIssuesHaveTheirOwnNextStep(t *testing.T) {
	for w := range words.RuleIssues.All() {
		if mend := strings.HasSuffix(say.RuleIssue(w, ""), "mend the rule"); mend != (words.Family(w) == words.WrongRule) {
			t.Errorf("%s: %q", w, say.RuleIssue(w, ""))
		}
	}
	if s := say.RuleIssue(words.RuleEmpty, "x\x1b[2J"); strings.Contains(s, "\x1b") || !strings.Contains(s, "(x") {
		t.Errorf("%q", s)
	}
}

func TestACheckThatAnsweredIsNoOutage(t *testing.T) {
	if s, ok := say.Undecided(nil); ok || s != "" {
		t.Errorf("absence is %q", s)
	}
	seen := map[string]bool{}
	for w := range words.UndecidedCauses.All() {
		s, ok := say.Undecided(&w)
		if ok == (w == words.UndecidedContract) || ok && seen[s] {
			t.Errorf("%s: %q", w, s)
		}
		seen[s] = true
	}
	if s, ok := say.Undecided(new(words.UndecidedCause("power_cut"))); !ok || !strings.Contains(s, "unavailable") || !strings.Contains(s, "power_cut") {
		t.Errorf("a new cause is %q", s)
	}
}

// notices are the facts that each code needs, whole.
var notices = map[words.NoticeCode]string{
	words.NoticeLiveDropped:       `{"count":3}`,
	words.NoticeModelUnreachable:  `{"code":"ECONNREFUSED","endpoint":"api.example","remedy":"start it","session":"s","proxyVariable":"HTTPS_PROXY","taskId":"r"}`,
	words.NoticeHistoryPartRead:   `{"skipped":2,"left":0}`,
	words.NoticeToolTurnBroken:    `{"cause":"process_ended","count":2,"session":"s","runId":"r","toolCallIds":["a","b"]}`,
	words.NoticePairingRepaired:   `{"repairs":[{"form":"result_added","toolCallIds":["a"]}]}`,
	words.NoticeSteerUnused:       `{"count":1,"cause":"run_ended"}`,
	words.NoticeFollowUpUnused:    `{"count":2,"childSession":"s"}`,
	words.NoticeAskUnsettled:      `{"cause":"row_gone","remedy":"Ask again."}`,
	words.NoticeModeNotApplied:    `{"mode":"plan","reason":"not offered"}`,
	words.NoticeModeAnswered:      `{"mode":"auto","toolCallId":"c"}`,
	words.NoticeModePastReadDeny:  `{"mode":"auto","toolCallId":"c"}`,
	words.NoticeModeKeysMigrated:  `{"keys":4}`,
	words.NoticeUndecided:         `{"cause":"timed_out","destination":"person"}`,
	words.NoticeReadRootGranted:   `{"toolCallId":"c","directory":"d","spelling":"/d","scope":"exact"}`,
	words.NoticeReadRootRejected:  `{"toolCallId":"c","reason":"outside"}`,
	words.NoticeRuleStoreSkipped:  `{"store":"user","reason":"no JSON"}`,
	words.NoticeAllowListIgnored:  `{"entries":[{"source":"skill","value":"a\u001b[2J","reason":"no tool"}]}`,
	words.NoticeMCPDropped:        `{"session":"s","server":"g","reason":"timeout"}`,
	words.NoticeOutcomeUnknown:    `{"toolCallId":"c","tool":"bash"}`,
	words.NoticeSecretsRedacted:   `{"toolCallId":"c","count":1}`,
	words.NoticeMoneyLimitReached: `{"limitMicroUsd":1500000}`,
}

func facts(t interface{ Fatal(...any) }, text string) (out wire.Facts) {
	v, err := jsonv.ParseString(text)
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range v.Fields() {
		out = append(out, wire.Fact{Name: name, Value: x})
	}
	return out
}

func TestEveryNoticeOfTheCatalogueHasAReader(t *testing.T) {
	sentences := map[string]words.NoticeCode{}
	for code := range words.NoticeCodes.All() {
		n, audience, ok := say.ReadNotice(code, facts(t, notices[code]))
		if !ok || n.Code() != code || audience != words.AudienceOf(code) {
			t.Errorf("%s reads as %#v for %s", code, n, audience)
			continue
		}
		s := n.Sentence()
		if s == "" || strings.ContainsRune(s, '\x1b') || sentences[s] != "" {
			t.Errorf("%s: %q", code, s)
		}
		sentences[s] = code
	}
	for code := range notices {
		if !words.NoticeCodes.Has(code) {
			t.Errorf("%s has facts here and is not in the catalogue", code)
		}
	}
	for _, code := range []words.NoticeCode{"", "you_won", words.NoticeLiveDropped + "\u200b"} {
		if n, audience, ok := say.ReadNotice(code, facts(t, `{"count":3}`)); ok || audience != words.ForOperator {
			t.Errorf("%q reads as %#v for %s", code, n, audience)
		}
	}
}

// TestAMalformedNoticeReadsAsAbsent takes each fact away, or gives it another type:
// the reading is gone, or the fact in it is, and nothing is made up.
func TestAMalformedNoticeReadsAsAbsent(t *testing.T) {
	for code, text := range notices {
		whole := facts(t, text)
		good, _, _ := say.ReadNotice(code, whole)
		for i := range whole {
			for _, other := range []string{`null`, `""`, `-1`, `1.5`, `{}`, `[7]`, `true`} {
				v, _ := jsonv.ParseString(other)
				bad := append(wire.Facts(nil), whole...)
				bad[i].Value = v
				n, _, ok := say.ReadNotice(code, bad)
				if ok && reflect.DeepEqual(n, good) {
					t.Errorf("%s: %s = %s reads as before", code, whole[i].Name, other)
				}
				if ok {
					n.Sentence()
				}
			}
		}
	}
	n, _, _ := say.ReadNotice(words.NoticeHistoryPartRead, facts(t, `{"skipped":-1,"left":"none"}`))
	if p := n.(say.HistoryPartRead); p.Skipped != nil || p.Left != nil || strings.Contains(p.Sentence(), "without any history") || strings.Contains(p.Sentence(), "0") {
		t.Errorf("unknown counts: %q", n.Sentence())
	}
	n, _, _ = say.ReadNotice(words.NoticeAllowListIgnored, facts(t, notices[words.NoticeAllowListIgnored]))
	if e := n.(say.AllowListIgnored).Entries[0]; e.Value != "a\x1b[2J" || e.Shown != `a\e[2J` {
		t.Errorf("%+v", e)
	}
	if _, _, ok := say.ReadNotice(words.NoticeReadRootGranted, facts(t, `{"toolCallId":"c","directory":"d","spelling":"/d","scope":"tree"}`)); ok {
		t.Error("another scope reads as a grant")
	}
	// The old field of a settlement is not read in place of the cause.
	if _, _, ok := say.ReadNotice(words.NoticeAskUnsettled, facts(t, `{"settlement":"rejected"}`)); ok {
		t.Error("a settlement reads as a cause")
	}
}

func TestInputThatMayHaveBeenReadIsNotCalledUnused(t *testing.T) {
	for _, cause := range []*words.UnusedCause{nil, new(words.UnusedUncertain), new(words.UnusedCause("new"))} {
		if s := say.Unused(words.LaneSteer, 2, cause, false); strings.Contains(s, "unused") || !strings.Contains(s, "2") {
			t.Errorf("%v: %q", cause, s)
		}
	}
}

func FuzzNotice(f *testing.F) {
	for code, text := range notices {
		f.Add(string(code), text)
	}
	f.Fuzz(func(t *testing.T, code, text string) {
		v, err := jsonv.ParseString(text)
		if err != nil {
			return
		}
		var fs wire.Facts
		for name, x := range v.Fields() {
			fs = append(fs, wire.Fact{Name: name, Value: x})
		}
		s := say.Told(words.NoticeCode(code), fs)
		if s == "" || say.All(s) != s {
			t.Fatalf("%q", s)
		}
	})
}

func TestEndingsAreToldForEveryCause(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := wire.Failed{Code: rapid.String().Draw(t, "code"), Message: rapid.String().Draw(t, "message")}
		if s := say.Ending(c); s == "" || strings.ContainsRune(s, '\x1b') {
			t.Fatalf("%q", s)
		}
	})
}
