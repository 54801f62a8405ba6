package oracle_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/jsonv"
	"pgregory.net/rapid"
)

// standard reads a document with the toolchain's decoder, keeping order and literals.
func standard(text []byte) (jsonv.Value, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := value(d)
	if err != nil {
		return v, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return v, errors.New("more than one document")
	}
	return v, nil
}

func value(d *json.Decoder) (jsonv.Value, error) {
	t, err := d.Token()
	if err != nil {
		return jsonv.Value{}, err
	}
	switch t := t.(type) {
	case nil:
		return jsonv.Value{}, nil
	case bool:
		return jsonv.Boolean(t), nil
	case string:
		return jsonv.Str(t), nil
	case json.Number:
		return jsonv.ParseString(t.String())
	case json.Delim:
		return container(d, t)
	}
	return jsonv.Value{}, errors.New("a token of no kind")
}

func container(d *json.Decoder, open json.Delim) (jsonv.Value, error) {
	var elems []jsonv.Value
	var fields []jsonv.Member
	for d.More() {
		var name string
		if open == '{' {
			t, err := d.Token()
			if err != nil {
				return jsonv.Value{}, err
			}
			name, _ = t.(string)
		}
		v, err := value(d)
		if err != nil {
			return v, err
		}
		elems, fields = append(elems, v), append(fields, jsonv.F(name, v))
	}
	if _, err := d.Token(); err != nil {
		return jsonv.Value{}, err
	}
	if open == '{' {
		return jsonv.Obj(fields...), nil
	}
	return jsonv.Arr(elems...), nil
}

func TestWhatWeWriteTheStandardLibraryReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := coretest.Value().Draw(t, "value")
		text := v.Append(nil)
		if got, err := standard(text); err != nil || !got.Equal(v) {
			t.Fatalf("%.200q reads as %.200s, %v", text, got, err)
		}
	})
}

// The standard decoder takes more: repeated names, bytes that are not UTF-8. What ours takes, it must take, and as the same value.
func TestWhatWeReadTheStandardLibraryReadsAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := coretest.Value().Draw(t, "value").Append(nil)
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			i := rapid.IntRange(0, len(text)-1).Draw(t, "where")
			text[i] = rapid.SampledFrom([]byte("{}[]\",:\\u0019-+.eE \n\x00\xffntf")).Draw(t, "what")
		}
		ours, err := jsonv.Parse(text)
		if err != nil {
			return
		}
		theirs, err := standard(text)
		if err != nil || !theirs.Equal(ours) {
			t.Fatalf("%.200q: ours %.200s, theirs %.200s, %v", text, ours, theirs, err)
		}
	})
}

func TestWhatTheStandardLibraryWritesWeRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "text")
		f := rapid.Float64().Draw(t, "number")
		text, err := json.Marshal(map[string]any{"a": s, "b": f, "c": []any{nil, true, s}})
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonv.Parse(text)
		if err != nil {
			t.Fatalf("%.200q: %v", text, err)
		}
		a, _ := v.Get("a")
		b, _ := v.Get("b")
		if got, _ := a.Text(); got != s {
			t.Fatalf("%q reads as %q", s, got)
		}
		n, isFloat := b.Float64()
		if !isFloat { // a float without a fraction is written as an integer
			i, ok := b.BigInt()
			if !ok {
				t.Fatalf("%v reads as %s", f, b)
			}
			n, _ = i.Float64()
		}
		if n != f {
			t.Fatalf("%v reads as %v", f, n)
		}
	})
}
