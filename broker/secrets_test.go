package broker

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/loom-run/loom/broker/jail"
	"github.com/loom-run/loom/core/jsonv"
	"pgregory.net/rapid"
)

const (
	secretValue = "sk-0123456789-never-shown"
	marker      = "[redacted THE_KEY]"
)

var known = SecretsOf([]string{"OTHER=abcdefghijkl", "THE_KEY= " + secretValue + "\n", "SHORT=1234567"}, "THE_KEY", "SHORT", "ABSENT")

func TestOnlyNamedValuesOfSomeLengthAreSecrets(t *testing.T) {
	text, found := known.Text("abcdefghijkl 1234567 " + secretValue + secretValue + "!")
	if want := "abcdefghijkl 1234567 " + marker + marker + "!"; text != want || found != 2 {
		t.Errorf("%d: %q", found, text)
	}
	if s := SecretsOf([]string{"SHORT=1234567"}, "SHORT"); !s.None() {
		t.Error("a short value counts")
	}
	if text, found := (Secrets{}).Text(secretValue); text != secretValue || found != 0 {
		t.Errorf("no secrets, and yet %q", text)
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	if got := fmt.Sprintf("%v %+v %#v %s", known, struct{ S Secrets }{known}, struct{ s Secrets }{known}, &known); strings.Contains(got, secretValue) {
		t.Error(got)
	}
}

func TestTheLongestOfTwoSecretsWins(t *testing.T) {
	s := SecretsOf([]string{"A=12345678", "B=x12345678y", "C=8yabcdefgh"}, "A", "B", "C")
	for in, want := range map[string]string{
		"12345678 x12345678y":       "[redacted A] [redacted B]",
		"x12345678yabcdefgh":        "[redacted B]abcdefgh",
		"y12345678yabcdefgh8yabcde": "y[redacted A]yabcdefgh8yabcde",
	} {
		if got, _ := s.Text(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}

// noise is text around secrets, with the characters that they consist of.
func noise() *rapid.Generator[string] {
	return rapid.StringOfN(rapid.SampledFrom([]rune("sk-01 \nnever")), 0, 60, -1)
}

func TestNoSecretIsLeftAndNothingElseIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(noise(), 1, 6).Draw(t, "around")
		in := strings.Join(parts, secretValue)
		clean, found := known.Bytes([]byte(in))
		if bytes.Contains(clean, []byte(secretValue)) {
			t.Fatalf("left in %q", clean)
		}
		if found < len(parts)-1 || string(clean) != strings.ReplaceAll(in, secretValue, marker) {
			t.Fatalf("%d: %q became %q", found, in, clean)
		}
	})
}

// TestASecretAcrossTheEndsOfACaptureIsFound: what was read in two parts is one
// stream, and where the middle is missing a part of a secret stands alone.
func TestASecretAcrossTheEndsOfACaptureIsFound(t *testing.T) {
	for cut := 0; cut <= len(secretValue); cut++ {
		stream := strings.Repeat("x", jail.HeadLimit-cut) + secretValue + "after"
		c, found := known.Capture(jail.NewCapture([]byte(stream)))
		kept := string(c.Head()) + string(c.Tail())
		if found != 1 || !strings.HasSuffix(kept, "x"+marker+"after") || c.Total() != int64(len(stream)) || c.Omitted() != 0 {
			t.Fatalf("cut at %d: %d found, %d of %d bytes missing, the end is %q", cut, found, c.Omitted(), c.Total(), kept[len(kept)-60:])
		}
	}
	c := jail.NewCapture([]byte("plain"))
	if same, found := known.Capture(c); found != 0 || &same.Head()[0] != &c.Head()[0] {
		t.Error("a capture without secrets is another one")
	}
}

func TestPartsOfASecretAtACutAreRedacted(t *testing.T) {
	for n := 1; n < len(secretValue); n++ {
		begun, rest := secretValue[:n], secretValue[n:]
		clean, _ := known.within([]byte("text "+begun), false, true)
		if want := "text " + marker; n >= minPart && string(clean) != want {
			t.Errorf("%q at the end is %q", begun, clean)
		}
		clean, _ = known.within([]byte(rest+" text"), true, false)
		if want := marker + " text"; len(rest) >= minPart && string(clean) != want {
			t.Errorf("%q at the start is %q", rest, clean)
		}
		clean, found := known.within([]byte(rest+" text "+begun), false, false)
		if found != 0 || string(clean) != rest+" text "+begun {
			t.Errorf("without a cut %q is replaced", clean)
		}
	}
}

func TestAWindowNeverShowsMoreOfASecretThanAShortPart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stream := noise().Draw(t, "before") + strings.Repeat("y", rapid.IntRange(0, 2*jail.WindowLimit).Draw(t, "long")) + secretValue + noise().Draw(t, "after")
		end := rapid.IntRange(0, len(stream)).Draw(t, "end")
		text := stream[max(0, end-jail.WindowLimit):end]
		w := known.Window(jail.Window{Text: text, Total: int64(end)})
		if len(w.Text) > jail.WindowLimit || w.Total != int64(end) {
			t.Fatalf("%d bytes of %d", len(w.Text), w.Total)
		}
		for n := 0; n+10 <= len(secretValue); n++ {
			if part := secretValue[n : n+10]; strings.Contains(w.Text, part) {
				t.Fatalf("%q shows %q", w.Text, part)
			}
		}
	})
}

func TestSecretsAreTakenOutOfDetails(t *testing.T) {
	in := jsonv.Obj(jsonv.F("n", jsonv.Num(1)), jsonv.F("list", jsonv.Arr(jsonv.Str("a "+secretValue), jsonv.Value{}, jsonv.Obj(jsonv.F(secretValue, jsonv.Boolean(true))))))
	got, found := known.Value(in)
	if want := `{"n":1,"list":["a ` + marker + `",null,{"` + marker + `":true}]}`; got.String() != want || found != 2 {
		t.Errorf("%d: %s", found, got)
	}
	if same, found := known.Value(jsonv.Str("plain")); found != 0 || same.String() != `"plain"` {
		t.Error(same)
	}
}
