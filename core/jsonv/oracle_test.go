package jsonv_test

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
	"pgregory.net/rapid"
)

// oracle reads a document with an independent decoder that is strict about duplicate names and UTF-8. Two rules of ours it does not have, and gets
// here: containers nest to a depth, and a number with a fraction or an exponent must be a finite double.
func oracle(text []byte) (jsonv.Value, error) {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	v, err := oracleValue(d)
	if err != nil {
		return jsonv.Value{}, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return jsonv.Value{}, errors.New("more than one document")
	}
	return v, nil
}

func oracleValue(d *jsontext.Decoder) (jsonv.Value, error) {
	t, err := d.ReadToken()
	if err != nil {
		return jsonv.Value{}, err
	}
	switch t.Kind() {
	case 'n':
		return jsonv.Value{}, nil
	case 't', 'f':
		return jsonv.Boolean(t.Bool()), nil
	case '"':
		return jsonv.Str(t.String()), nil
	case '0':
		return oracleNumber(t.String())
	}
	if d.StackDepth() > jsonv.MaxDepth {
		return jsonv.Value{}, errors.New("too deep")
	}
	var elems []jsonv.Value
	var fields []jsonv.Member
	for array := t.Kind() == '['; ; {
		switch d.PeekKind() {
		case ']':
			_, err := d.ReadToken()
			return jsonv.Arr(elems...), err
		case '}':
			_, err := d.ReadToken()
			return jsonv.Obj(fields...), err
		}
		var name string
		if !array {
			t, err := d.ReadToken()
			if err != nil {
				return jsonv.Value{}, err
			}
			name = t.String()
		}
		v, err := oracleValue(d)
		if err != nil {
			return jsonv.Value{}, err
		}
		elems, fields = append(elems, v), append(fields, jsonv.F(name, v))
	}
}

// oracleNumber makes the value of a literal that the other decoder found well formed. Only the parser makes numbers that keep their literal, so it is
// used here too, for the one literal; that the literal comes back as it was is asserted where the texts are compared.
func oracleNumber(literal string) (jsonv.Value, error) {
	if strings.ContainsAny(literal, ".eE") {
		if _, err := strconv.ParseFloat(literal, 64); err != nil {
			return jsonv.Value{}, err
		}
	}
	v, err := jsonv.ParseString(literal)
	if err != nil {
		return jsonv.Value{}, err
	}
	if got, _ := v.Literal(); got != literal {
		return jsonv.Value{}, errors.New("the literal changed: " + got)
	}
	return v, nil
}

// agree is the differential property: both decoders accept the text, as the same value, or both refuse it; and a refusal is a bounded report.
func agree(t interface {
	Helper()
	Fatalf(string, ...any)
}, text []byte) {
	t.Helper()
	got, err := jsonv.Parse(text)
	want, refusal := oracle(text)
	switch {
	case (err == nil) != (refusal == nil):
		t.Fatalf("%.200q\n ours: %v\nother: %v", text, err, refusal)
	case err != nil:
		refused(t, err)
		return
	case !got.Equal(want):
		t.Fatalf("%.200q\n ours: %.200s\nother: %.200s", text, got, want)
	}
	written := got.Append(nil)
	if !jsontext.Value(written).IsValid() {
		t.Fatalf("%.200q is written as %.200q, which is not JSON", text, written)
	}
	again, err := jsonv.Parse(written)
	if err != nil || !again.Equal(got) {
		t.Fatalf("%.200q is written as %.200q, which reads as %.200s, %v", text, written, again, err)
	}
}

// refused demands a report that is small whatever the input was.
func refused(t interface {
	Helper()
	Fatalf(string, ...any)
}, err error) {
	t.Helper()
	r, ok := corrupt.As(err)
	if !ok {
		t.Fatalf("%T is not a report: %v", err, err)
	}
	if !strings.HasPrefix(r.Subject, "offset ") || r.Expected == "" || r.Context == "" || len([]rune(r.Context)) > 24 {
		t.Fatalf("an unusable report: %+v", r)
	}
}

// document generates texts near JSON: valid ones with free space and escapes, and such ones with a piece removed, doubled or broken.
func document() *rapid.Generator[[]byte] {
	return rapid.Custom(func(t *rapid.T) []byte {
		text := loose(t, coretest.Value().Draw(t, "value"), nil)
		for range rapid.IntRange(0, 2).Draw(t, "faults") {
			at := rapid.IntRange(0, len(text)).Draw(t, "at")
			end := min(len(text), at+rapid.IntRange(0, 3).Draw(t, "length"))
			piece := rapid.SampledFrom([]string{
				"", "", `"`, `\`, "{", "}", "[", "]", ",", ":", "0", "-", ".", "e", "+", "null", `\ud800`, `\udc00`, `\u0000`, "\xff", "\x00", "\n", "\ufeff", "1e999", " ",
			}).Draw(t, "piece")
			text = append(append(bytes.Clone(text[:at]), piece...), text[end:]...)
		}
		return text
	})
}

// loose writes v with any space and any spelling of its strings.
func loose(t *rapid.T, v jsonv.Value, dst []byte) []byte {
	space := func() {
		dst = append(dst, rapid.SampledFrom([]string{"", "", "", " ", "\n\t", "\r "}).Draw(t, "space")...)
	}
	space()
	switch v.Kind() {
	case jsonv.Array:
		dst = append(dst, '[')
		for i, e := range v.Elems() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = loose(t, e, dst)
		}
		dst = append(dst, ']')
	case jsonv.Object:
		dst = append(dst, '{')
		sep := ""
		for name, f := range v.Fields() {
			dst = append(dst, sep...)
			space()
			dst = spell(t, dst, name)
			space()
			dst = loose(t, f, append(dst, ':'))
			sep = ","
		}
		dst = append(dst, '}')
	case jsonv.String:
		text, _ := v.Text()
		dst = spell(t, dst, text)
	default:
		dst = v.Append(dst)
	}
	space()
	return dst
}

// spell writes a string with some of its characters escaped that need not be.
func spell(t *rapid.T, dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch must := r < ' ' || r == '"' || r == '\\'; {
		case must || rapid.IntRange(0, 5).Draw(t, "escape") == 0:
			dst = escaped(dst, r, rapid.Bool().Draw(t, "upper"))
		default:
			dst = append(dst, string(r)...)
		}
	}
	return append(dst, '"')
}

func TestParseAgreesWithAnotherStrictDecoder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { agree(t, document().Draw(t, "text")) })
}

func TestParseAgreesOnAnyBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		agree(t, []byte(rapid.StringOfN(rapid.SampledFrom([]rune(`{}[]",:\0123-.eEtrufalsn `+"\n\x00é")), 0, 12, -1).Draw(t, "text")))
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		``, ` `, `null`, `true`, `-0`, `1.5e-7`, `1e999`, `"a\u00e9\ud834\udd1e"`, `"\ud834"`, "\"\xff\"", `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`,
		`[1,[2,{"x":[]}],"y"]`, `{"id":"x","list":[1,2,3],"o":{"p":null}}`, strings.Repeat("[", 257), strings.Repeat("[", 256) + strings.Repeat("]", 256),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) { agree(t, text) })
}
