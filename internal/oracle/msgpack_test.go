package oracle_test

import (
	"encoding/binary"
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/loom-run/loom/core/msgpack"
	"github.com/ugorji/go/codec"
	"pgregory.net/rapid"
)

// handle makes the other codec speak the present format, with the smallest form of each number.
func handle() *codec.MsgpackHandle {
	h := &codec.MsgpackHandle{WriteExt: true, PositiveIntUnsigned: true}
	h.MapType = reflect.TypeFor[map[string]any]()
	h.ValidateUnicode = true
	return h
}

// ordered is written as a map in the order of its elements, which are keys and values in turn.
type ordered []any

// MapBySlice marks it for the other codec.
func (ordered) MapBySlice() {}

// both is one value in both libraries, and an encoding of it that need not be the smallest.
type both struct {
	ours   msgpack.Value
	theirs any
	wide   []byte
}

// values draws values whose maps have text keys, in ascending order: the other codec forgets the order.
func values(depth int) *rapid.Generator[both] {
	return rapid.Custom(func(t *rapid.T) both {
		kinds := 7
		if depth > 0 {
			kinds = 9
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 1:
			b := rapid.Bool().Draw(t, "bool")
			return both{msgpack.Boolean(b), b, []byte{map[bool]byte{false: 0xc2, true: 0xc3}[b]}}
		case 2:
			n := rapid.Int64().Draw(t, "signed")
			return both{msgpack.Signed(n), n, binary.BigEndian.AppendUint64([]byte{0xd3}, uint64(n))}
		case 3:
			n := rapid.Uint64().Draw(t, "unsigned")
			return both{msgpack.Unsigned(n), n, binary.BigEndian.AppendUint64([]byte{0xcf}, n)}
		case 4:
			f := rapid.Float64().Draw(t, "float")
			v, _ := msgpack.Double(f)
			return both{v, f, binary.BigEndian.AppendUint64([]byte{0xcb}, math.Float64bits(f))}
		case 5:
			p := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "binary")
			return both{msgpack.Bin(p), p, append(header(t, len(p), 0xc4, 0xc5, 0xc6), p...)}
		case 6:
			s := rapid.StringN(0, 300, -1).Draw(t, "text")
			v, _ := msgpack.Str(s)
			return both{v, s, append(header(t, len(s), 0xd9, 0xda, 0xdb), s...)}
		case 7:
			return array(t, rapid.SliceOfN(values(depth-1), 0, 20).Draw(t, "elems"))
		case 8:
			return dict(t, rapid.MapOfN(rapid.String(), values(depth-1), 0, 20).Draw(t, "fields"))
		}
		return both{msgpack.Value{}, nil, []byte{0xc0}}
	})
}

// header is one of the forms that hold n; form8 is 0 where there is none of one byte.
func header(t *rapid.T, n int, form8, form16, form32 byte) []byte {
	width := rapid.IntRange(0, 2).Draw(t, "width")
	switch {
	case width == 0 && form8 != 0 && n < 1<<8:
		return []byte{form8, byte(n)}
	case width <= 1 && n < 1<<16:
		return binary.BigEndian.AppendUint16([]byte{form16}, uint16(n))
	}
	return binary.BigEndian.AppendUint32([]byte{form32}, uint32(n))
}

func array(t *rapid.T, elems []both) both {
	b := both{wide: header(t, len(elems), 0, 0xdc, 0xdd)}
	ours, theirs := []msgpack.Value{}, []any{}
	for _, e := range elems {
		ours, theirs, b.wide = append(ours, e.ours), append(theirs, e.theirs), append(b.wide, e.wide...)
	}
	b.ours, b.theirs = msgpack.Arr(ours...), theirs
	return b
}

func dict(t *rapid.T, fields map[string]both) both {
	b := both{wide: header(t, len(fields), 0, 0xde, 0xdf)}
	var pairs []msgpack.Pair
	theirs := ordered{}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		k, _ := msgpack.Str(name)
		f := fields[name]
		pairs, theirs = append(pairs, msgpack.Pair{Key: k, Value: f.ours}), append(theirs, name, f.theirs)
		b.wide = append(append(append(b.wide, header(t, len(name), 0xd9, 0xda, 0xdb)...), name...), f.wide...)
	}
	b.ours, b.theirs = msgpack.Dict(pairs...), theirs
	return b
}

// translate makes ours out of what the other codec read.
func translate(t *rapid.T, v any) msgpack.Value {
	switch v := v.(type) {
	case nil:
		return msgpack.Value{}
	case bool:
		return msgpack.Boolean(v)
	case int64:
		return msgpack.Signed(v)
	case uint64:
		return msgpack.Unsigned(v)
	case float64:
		d, _ := msgpack.Double(v)
		return d
	case string:
		s, _ := msgpack.Str(v)
		return s
	case []byte:
		return msgpack.Bin(v)
	case []any:
		var elems []msgpack.Value
		for _, e := range v {
			elems = append(elems, translate(t, e))
		}
		return msgpack.Arr(elems...)
	case map[string]any:
		var pairs []msgpack.Pair
		for _, name := range slices.Sorted(maps.Keys(v)) {
			k, _ := msgpack.Str(name)
			pairs = append(pairs, msgpack.Pair{Key: k, Value: translate(t, v[name])})
		}
		return msgpack.Dict(pairs...)
	}
	t.Fatalf("the other codec read a %T", v)
	return msgpack.Value{}
}

func read(t *rapid.T, data []byte) msgpack.Value {
	var v any
	d := codec.NewDecoderBytes(data, handle())
	if err := d.Decode(&v); err != nil {
		t.Fatalf("the other codec refuses %x: %v", data, err)
	}
	if n := d.NumBytesRead(); n != len(data) {
		t.Fatalf("the other codec read %d bytes of %x", n, data)
	}
	return translate(t, v)
}

func TestBothWriteTheSameBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := values(3).Draw(t, "value")
		ours, err := v.ours.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		var theirs []byte
		if err := codec.NewEncoderBytes(&theirs, handle()).Encode(v.theirs); err != nil {
			t.Fatal(err)
		}
		if string(ours) != string(theirs) {
			t.Fatalf("ours %x, theirs %x", ours, theirs)
		}
		if !read(t, ours).Equal(v.ours) {
			t.Fatalf("the other codec reads %x as another value", ours)
		}
	})
}

func TestBothReadTheWiderFormsAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := values(3).Draw(t, "value")
		got, err := msgpack.Decode(v.wide, msgpack.Lenient)
		if err != nil || !got.Equal(v.ours) {
			t.Fatalf("%x reads as %v, %v", v.wide, got, err)
		}
		if !read(t, v.wide).Equal(v.ours) {
			t.Fatalf("the other codec reads %x as another value", v.wide)
		}
		canonical, err := v.ours.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := msgpack.Decode(v.wide, msgpack.Strict); (err == nil) != (string(canonical) == string(v.wide)) {
			t.Fatalf("strict decoding of %x, whose smallest form is %x: %v", v.wide, canonical, err)
		}
	})
}
