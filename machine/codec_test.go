package machine_test

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/machine"
	"pgregory.net/rapid"
)

// parseText is the value of a text that is known to be well formed.
func parseText(text string) jsonv.Value {
	v, err := jsonv.ParseString(text)
	if err != nil {
		panic(err)
	}
	return v
}

// roundTrip fails unless value, as a text, is read as made and written again as it stood.
func roundTrip(t rapid.TB, c codec, made any, value jsonv.Value) {
	stored, err := jsonv.ParseString(value.String())
	if err != nil {
		t.Fatalf("written text does not parse: %v", err)
	}
	again, read, err := c.decode(stored)
	if err != nil {
		t.Fatalf("%s\n%v", value, err)
	}
	if d := coretest.Diff(made, read); d != "" {
		t.Fatalf("read back as another value (-made +read):\n%s", d)
	}
	if again.String() != value.String() {
		t.Fatalf("written again as another text:\n was %s\n now %s", value, again)
	}
}

func TestStoredTexts(t *testing.T) {
	for _, c := range codecs() {
		t.Run(string(c.namespace), func(t *testing.T) {
			var golden bytes.Buffer
			for _, s := range c.samples {
				roundTrip(t, c, s.made, s.value)
				fmt.Fprintf(&golden, "# %s\n%s\n", s.name, s.value)
			}
			coretest.Golden(t, "codec/"+string(c.namespace)+".txt", golden.Bytes(), *update)
		})
	}
}

func TestEveryValueIsReadBack(t *testing.T) {
	check := func(name string, prop func(*rapid.T)) {
		t.Run(name, func(t *testing.T) { rapid.Check(t, prop) })
	}
	all := codecs()
	for _, g := range phases() {
		check("op.state/run/"+g.name, func(t *rapid.T) {
			s := genState(g.gen).Draw(t, "state")
			roundTrip(t, all[0], s, s.Value())
		})
	}
	check("op.state/structural", func(t *rapid.T) {
		s := genStructuralState(rapid.Bool().Draw(t, "navigation")).Draw(t, "state")
		roundTrip(t, all[0], s, s.Value())
	})
	check("op.meta", func(t *rapid.T) {
		op := genOperation().Draw(t, "operation")
		roundTrip(t, all[1], op, op.Value())
	})
	check("op.preparation", func(t *rapid.T) {
		p := genPreparation().Draw(t, "preparation")
		roundTrip(t, all[2], p, machine.PreparationValue(p))
	})
	check("strand.config", func(t *rapid.T) {
		c := genConfiguration().Draw(t, "configuration")
		roundTrip(t, all[3], c, c.Value())
	})
	check("strand.state", func(t *rapid.T) {
		s := genStrandState().Draw(t, "strand")
		roundTrip(t, all[4], s, s.Value())
	})
	check("strand.last_result", func(t *rapid.T) {
		r := genLastResult().Draw(t, "result")
		roundTrip(t, all[5], r, r.Value())
	})
	check("pending.entry", func(t *rapid.T) {
		p := genPending().Draw(t, "pending")
		roundTrip(t, all[6], p, p.Value())
	})
}

// lax lists, for each field that is not simply required, what else it may be
// than what the samples hold: "missing", "null", "text" (any string) or "any"
// (any value at all). A path is the field's names joined by dots, an element of
// an array is [], and * stands for what comes before.
var lax = map[string]string{
	"*.customInstructions": "missing null text", "customInstructions": "missing null text",
	"*.label":  "missing null text",
	"*.taskId": "text", "*.stepId": "text", "*.turnId": "text", "*.requestApi": "text",
	"*.provider": "text", "*.modelId": "text", "*.activeToolNames.[]": "text",
	"activeToolNames.[]": "text",
	"*.errorMessage":     "text", "*.error.code": "text", "*.error.message": "text", "error.code": "text", "error.message": "text",
	"*.error.details": "missing null text any", "error.details": "missing null text any",
	"*.streamOptions": "null text any", "*.streamOptions.temperature": "missing null text any",
	"*.retryPolicy.maxDelayMs": "missing null", "settings.maxTurns": "missing null", "turns": "missing null",
	"*.thresholdCheckedTriggerEntryId": "missing null", "*.generation.request": "missing null",
	"latestAssistantEntryId": "null", "navigation.targetId": "null", "sourceLeafId": "null", "intent.targetId": "null",
	"*.maxAttempts": "integer", // beside the word unbounded
	"leafId":        "null", "oldLeafId": "null", "currentOperationId": "null", "start": "missing null object", "start.maxTurns": "missing null",
	"finalAssistantEntryId": "missing null", "summaryEntryId": "missing null",
	"strand": "text", "compactions": "missing null", "*.deferred.notBefore": "missing null",
	"*.progress": "missing null", "*.progress.summary": "text",
	"*.ends": "missing null", "*.ends.code": "text", "*.ends.message": "text", "*.pause.gate": "text", "*.pause.subject": "null text any", "*.pause.subject.command": "missing null text any",
	"*.pause.answerBy": "missing null", "*.pause.parkUntil": "missing null", "*.decidedBy": "core",
	"*.decision.arguments": "missing null text any", "*.decision.note": "missing null text", "*.decision.content": "core",
	// A message is core's to refuse.
	"payload": "core", "payload.*": "core", "messages.*": "core", "turnPrefixMessages.*": "core", "messagesToSummarize.*": "core", "retainedTail.*": "core",
	"customType": "text", "data": "missing null text any", "previousSummary": "missing null text",
	"fileOps*.[]": "text",
}

// laxity is what the longest pattern that fits a path allows.
func laxity(path string) (allowed string) {
	longest := -1
	for pattern, a := range lax {
		pre, post, star := strings.Cut(pattern, "*")
		fits := path == pattern || star && len(path) >= len(pre)+len(post) && strings.HasPrefix(path, pre) && strings.HasSuffix(path, post)
		if fits && len(pattern) > longest {
			longest, allowed = len(pattern), a
		}
	}
	return allowed
}

// tolerated reports whether a field may be changed so.
func (c change) tolerated() bool {
	allowed := laxity(c.path)
	return strings.Contains(allowed, c.what) || strings.Contains(allowed, "any") && c.what != "missing"
}

// change is one value in place of another.
type change struct {
	path, what string
	value      jsonv.Value
}

// changes yields v with one field somewhere below it missing or of another kind.
func changes(v jsonv.Value, path string, put func(jsonv.Value) jsonv.Value) (all []change) {
	below := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	switch v.Kind() {
	case jsonv.Object:
		for name, field := range v.Fields() {
			if laxity(below(name)) == "core" {
				continue
			}
			var rest []jsonv.Member
			for other, x := range v.Fields() {
				if other != name {
					rest = append(rest, jsonv.F(other, x))
				}
			}
			all = append(all, change{below(name), "missing", put(jsonv.Obj(rest...))})
			all = append(all, changes(field, below(name), func(x jsonv.Value) jsonv.Value { return put(v.With(name, x)) })...)
		}
	case jsonv.Array:
		for i := range v.Len() {
			all = append(all, changes(v.At(i), below("[]"), func(x jsonv.Value) jsonv.Value {
				elems := make([]jsonv.Value, 0, v.Len())
				for j, e := range v.Elems() {
					if j == i {
						e = x
					}
					elems = append(elems, e)
				}
				return put(jsonv.Arr(elems...))
			})...)
		}
	default:
	}
	for what, other := range map[string]jsonv.Value{
		"null": {}, "text": jsonv.Str("no such word"), "integer": jsonv.Num(7), "float": jsonv.FloatNum(0.5), "too large": parseText("9223372036854775808"),
		"boolean": jsonv.Boolean(true), "array": jsonv.Arr(), "array of array": jsonv.Arr(jsonv.Arr()), "object": jsonv.Obj(),
	} {
		same := other.Kind() == v.Kind() && what != "text" && what != "too large" && what != "array of array"
		if !same && path != "" {
			all = append(all, change{path, what, put(other)})
		}
	}
	return all
}

// TestWhatIsNotExactlyRightIsRefused takes every field of every sample away and puts every other kind of value in its place.
func TestWhatIsNotExactlyRightIsRefused(t *testing.T) {
	for _, c := range codecs() {
		n := 0
		for _, s := range c.samples {
			for _, ch := range changes(s.value, "", func(v jsonv.Value) jsonv.Value { return v }) {
				n++
				_, read, err := c.decode(ch.value)
				if ch.tolerated() {
					if err != nil {
						t.Errorf("%s %s: %s %s is refused: %v", c.namespace, s.name, ch.path, ch.what, err)
					}
					continue
				}
				if err == nil {
					t.Errorf("%s %s: %s %s is accepted", c.namespace, s.name, ch.path, ch.what)
					continue
				}
				if read != nil && !reflect.ValueOf(read).IsZero() {
					t.Errorf("%s %s: %s %s: half a value came with the refusal: %+v", c.namespace, s.name, ch.path, ch.what, read)
				}
				rep, ok := corrupt.As(err)
				if !ok {
					t.Errorf("%s %s: %s %s is refused without a report: %v", c.namespace, s.name, ch.path, ch.what, err)
				} else if field := lastName(ch.path); !strings.Contains(rep.Subject, field) && rep.Subject != "outcome" {
					t.Errorf("%s %s: %s %s is reported about %s", c.namespace, s.name, ch.path, ch.what, rep.Subject)
				}
			}
		}
		if n == 0 {
			t.Errorf("%s: nothing was tried", c.namespace)
		}
	}
}

// lastName is the innermost field of a path.
func lastName(path string) string {
	names := strings.Split(path, ".")
	for len(names) > 1 && names[len(names)-1] == "[]" {
		names = names[:len(names)-1]
	}
	return names[len(names)-1]
}

func TestWhatIsNoObjectIsRefused(t *testing.T) {
	for _, c := range codecs() {
		for _, v := range []string{`null`, `true`, `7`, `"run"`, `[]`, `{}`} {
			if _, read, err := c.decode(parseText(v)); err == nil {
				t.Errorf("%s: %s is read as %+v", c.namespace, v, read)
			}
		}
	}
}

// TestIncoherentResultsAreRefused goes through every combination of the fields of a result.
func TestIncoherentResultsAreRefused(t *testing.T) {
	legal := map[string]bool{
		"run completed assistant": true, "run completed terminated_tools": true, "run failed error": true, "run aborted": true,
	}
	for _, kind := range []string{"compaction", "navigation"} {
		for _, o := range []string{"completed", "declined", "failed error", "aborted"} {
			legal[kind+" "+o] = true
		}
	}
	accepted := 0
	for _, kind := range []string{"run", "compaction", "navigation", "rebase"} {
		for _, outcome := range []string{"completed", "declined", "failed", "aborted", "paused"} {
			for _, withError := range []bool{false, true} {
				for _, completion := range []string{"", "assistant", "terminated_tools", "magic"} {
					if completion != "" && kind != "run" {
						continue // not a field of the others
					}
					name, text := kind+" "+outcome, `{"kind":"`+kind+`","operationId":"`+opID(1).String()+`","leafId":null,"outcome":"`+outcome+`"`
					if withError {
						name, text = name+" error", text+`,"error":{"code":"c","message":"m"}`
					}
					if completion != "" {
						name, text = name+" "+completion, text+`,"runCompletion":"`+completion+`"`
					}
					if kind == "navigation" {
						text += `,"oldLeafId":null`
					}
					_, err := machine.DecodeLastResult(parseText(text + "}"))
					if (err == nil) != legal[name] {
						t.Errorf("%s: legal is %t, refused with %v", name, legal[name], err)
					}
					if err == nil {
						accepted++
					}
				}
			}
		}
	}
	if accepted != len(legal) {
		t.Errorf("%d combinations were accepted, want %d", accepted, len(legal))
	}
}

// TestEarlierTextsAreWrittenAgainAsTheyStand: files that were written before a state or a field was added hold these texts. They are never rewritten here.
func TestEarlierTextsAreWrittenAgainAsTheyStand(t *testing.T) {
	for _, c := range codecs() {
		texts, err := os.ReadFile("testdata/earlier/" + string(c.namespace) + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range strings.Lines(string(texts)) {
			if line = strings.TrimSuffix(line, "\n"); strings.HasPrefix(line, "#") {
				continue
			}
			n++
			again, _, err := c.decode(parseText(line))
			if err != nil {
				t.Errorf("%s: %v\n%s", c.namespace, err, line)
			} else if again.String() != line {
				t.Errorf("%s is written again as\n%s\nit was\n%s", c.namespace, again, line)
			}
		}
		if n == 0 {
			t.Errorf("%s: no earlier text", c.namespace)
		}
	}
}

// TestEarlierTextsAreRead pins rows that other versions of the format wrote.
func TestEarlierTextsAreRead(t *testing.T) {
	v := run(machine.Generating{Generation: machine.GenReady{Context: generation, NextAttempt: 1}}).Value().String()
	cut := strings.Replace(v, `,"maxDelayMs":60000`, ``, 1)
	if cut == v {
		t.Fatal("the sample names no maxDelayMs")
	}
	s, err := machine.DecodeState(parseText(cut))
	if err != nil {
		t.Fatal(err)
	}
	got := s.Work.(*machine.Run).Phase.(machine.Generating).Generation.(machine.GenReady).Context.RetryPolicy.MaxDelayMs
	if got != 1_073_741_824 {
		t.Errorf("a policy without a cap waits at most %d ms", got)
	}
	// A field that a later version adds does not keep this one from reading.
	if _, err := machine.DecodeState(parseText(strings.Replace(v, `{"kind"`, `{"later":{"a":[]},"kind"`, 1))); err != nil {
		t.Errorf("an unknown field is refused: %v", err)
	}
}

func TestAnUnsettledResponseIsNotQueued(t *testing.T) {
	v := machine.PendingMessage(text("x")).Value().String()
	response := `{"role":"assistant","content":[],"api":"a","provider":"p","model":"m","usage":` +
		`{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,"cost":{"input":0.0,"output":0.0,"cacheRead":0.0,"cacheWrite":0.0,"total":0.0}},` +
		`"stopReason":%s,"timestamp":0}`
	for reason, refused := range map[string]bool{"pending": true, "stop": false} {
		_, err := machine.DecodePendingEntry(parseText(`{"type":"message","payload":` + fmt.Sprintf(response, strconv.Quote(reason)) + `}`))
		if (err != nil) != refused {
			t.Errorf("stop reason %s: %v (beside %s)", reason, err, v)
		}
	}
}

func fuzzDecoder(f *testing.F, n int) {
	c := codecs()[n]
	for _, s := range c.samples {
		f.Add(s.value.String())
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := jsonv.ParseString(text)
		if err != nil {
			return
		}
		first, _, err := c.decode(v)
		if err != nil {
			if _, ok := corrupt.As(err); !ok {
				t.Fatalf("refused without a report: %v", err)
			}
			return
		}
		second, _, err := c.decode(first)
		if err != nil {
			t.Fatalf("%s\nwas accepted, but its encoding is not: %v\n%s", text, err, first)
		}
		if first.String() != second.String() {
			t.Fatalf("%s\nhas two encodings:\n%s\n%s", text, first, second)
		}
	})
}

func FuzzDecodeState(f *testing.F)         { fuzzDecoder(f, 0) }
func FuzzDecodeOperation(f *testing.F)     { fuzzDecoder(f, 1) }
func FuzzDecodePreparation(f *testing.F)   { fuzzDecoder(f, 2) }
func FuzzDecodeConfiguration(f *testing.F) { fuzzDecoder(f, 3) }
func FuzzDecodeStrandState(f *testing.F)   { fuzzDecoder(f, 4) }
func FuzzDecodeLastResult(f *testing.F)    { fuzzDecoder(f, 5) }
func FuzzDecodePendingEntry(f *testing.F)  { fuzzDecoder(f, 6) }
