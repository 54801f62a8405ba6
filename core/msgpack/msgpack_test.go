package msgpack_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/msgpack"
	"github.com/loom-run/loom/internal/cases"
)

func str(s string) msgpack.Value {
	v, _ := msgpack.Str(s)
	return v
}

func double(f float64) msgpack.Value {
	v, _ := msgpack.Double(f)
	return v
}

func encode(t testing.TB, v msgpack.Value) []byte {
	t.Helper()
	b, err := v.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// values draws any value, keys of any kind included, without a repeated key.
func values(depth int) *rapid.Generator[msgpack.Value] {
	return rapid.Custom(func(t *rapid.T) msgpack.Value {
		kinds := 6
		if depth > 0 {
			kinds = 8
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return msgpack.Value{}
		case 1:
			return msgpack.Boolean(rapid.Bool().Draw(t, "bool"))
		case 2:
			return msgpack.Signed(rapid.Int64().Draw(t, "signed"))
		case 3:
			return msgpack.Unsigned(rapid.Uint64().Draw(t, "unsigned"))
		case 4:
			return double(rapid.Float64().Draw(t, "float"))
		case 5:
			if rapid.Bool().Draw(t, "binary") {
				return msgpack.Bin(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
			}
			return str(rapid.String().Draw(t, "text"))
		case 6:
			return msgpack.Arr(rapid.SliceOfN(values(depth-1), 0, 5).Draw(t, "elems")...)
		}
		var pairs []msgpack.Pair
		for _, k := range rapid.SliceOfNDistinct(values(depth-1), 0, 5, func(v msgpack.Value) string {
			b, _ := v.Append(nil)
			return string(b)
		}).Draw(t, "keys") {
			pairs = append(pairs, msgpack.Pair{Key: k, Value: values(depth-1).Draw(t, "value")})
		}
		return msgpack.Dict(pairs...)
	})
}

func TestDecodingIsTheInverseOfEncodingInBothModes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := values(3).Draw(t, "v")
		b, err := v.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []msgpack.Mode{msgpack.Lenient, msgpack.Strict} {
			got, err := msgpack.Decode(b, m)
			if err != nil || !got.Equal(v) {
				t.Fatalf("mode %d of %x: %v, %v", m, b, got, err)
			}
		}
	})
}

func TestEveryTruncationAndEveryTrailingByteIsRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, _ := values(2).Draw(t, "v").Append(nil)
		for n := range b {
			if v, err := msgpack.Decode(b[:n], msgpack.Lenient); err == nil {
				t.Fatalf("%x of %x was read as %v", b[:n], b, v)
			}
		}
		if _, err := msgpack.Decode(append(b, 0xc0), msgpack.Lenient); err == nil {
			t.Fatalf("a trailing byte after %x was accepted", b)
		}
	})
}

func TestGoldenBytes(t *testing.T) {
	for want, v := range map[string]msgpack.Value{
		"c0": {}, "c2": msgpack.Boolean(false), "c3": msgpack.Boolean(true),
		"00": msgpack.Signed(0), "7f": msgpack.Signed(127), "ff": msgpack.Signed(-1), "e0": msgpack.Signed(-32),
		"cc80": msgpack.Signed(128), "cd0100": msgpack.Signed(256), "ce00010000": msgpack.Signed(65536),
		"cfffffffffffffffff": msgpack.Unsigned(math.MaxUint64),
		"d0df":               msgpack.Signed(-33), "d1ff7f": msgpack.Signed(-129), "d2ffff7fff": msgpack.Signed(-32769),
		"d38000000000000000": msgpack.Signed(math.MinInt64),
		"cb3ff8000000000000": double(1.5), "cbc000000000000000": double(-2),
		"a0": str(""), "a568656c6c6f": str("hello"),
		"d920" + strings.Repeat("61", 32): str(strings.Repeat("a", 32)),
		"c400":                            msgpack.Bin(nil), "c403010203": msgpack.Bin([]byte{1, 2, 3}),
		"90": msgpack.Arr(), "93010203": msgpack.Arr(msgpack.Signed(1), msgpack.Signed(2), msgpack.Signed(3)),
		"dc0010" + strings.Repeat("c0", 16): msgpack.Arr(make([]msgpack.Value, 16)...),
		"80":                                msgpack.Dict(), "81a16101": msgpack.Dict(msgpack.Pair{Key: str("a"), Value: msgpack.Signed(1)}),
	} {
		if got := hex.EncodeToString(encode(t, v)); got != want {
			t.Errorf("%v: got %s, want %s", v, got, want)
		}
	}
}

func TestWhatIsOutsideTheSubsetIsRefused(t *testing.T) {
	deep := strings.Repeat("91", 256) // the innermost array holds what follows
	for name, input := range map[string]string{
		"the reserved byte":        "c1",
		"float32":                  "ca3f800000",
		"an extension":             "d40100",
		"an extension of 8 bits":   "c7000100",
		"NaN":                      "cb7ff8000000000000",
		"infinity":                 "cb7ff0000000000000",
		"invalid UTF-8":            "a1ff",
		"a repeated key":           "82a16101a16102",
		"a repeated key, wider":    "820102cc0103",
		"a container too deep":     deep + "90",
		"4 GiB of array, no data":  "ddffffffff",
		"4 GiB of map, no data":    "dfffffffff",
		"4 GiB of binary, no data": "c6ffffffff",
		"nothing":                  "",
	} {
		b, err := hex.DecodeString(input)
		if err != nil {
			t.Fatal(err)
		}
		v, err := msgpack.Decode(b, msgpack.Lenient)
		if _, ok := corrupt.As(err); !ok {
			t.Errorf("%s: got %v, %v", name, v, err)
		}
	}
	if b, _ := hex.DecodeString(deep + "c0"); true {
		if _, err := msgpack.Decode(b, msgpack.Strict); err != nil {
			t.Errorf("%d containers: %v", msgpack.MaxDepth, err)
		}
	}
}

func TestStrictRefusesEveryFormThatIsNotTheSmallest(t *testing.T) {
	for _, input := range []string{
		"cc00", "cd0001", "ce00000001", "cf0000000000000001", "d001", "d0ff", "d1ffff", "d2ffffffff", "d3ffffffffffffffff", "d10080",
		"d900", "da0001" + "61", "db00000001" + "61", "c50000", "c600000000", "dc0000", "dd00000000", "de0000", "df00000000",
	} {
		b, _ := hex.DecodeString(input)
		if _, err := msgpack.Decode(b, msgpack.Strict); err == nil {
			t.Errorf("strict took %s", input)
		}
		if _, err := msgpack.Decode(b, msgpack.Lenient); err != nil {
			t.Errorf("lenient refused %s: %v", input, err)
		}
	}
}

// forms are the first bytes of a length in every width: those of a fix form, where there is one, of 8, 16 and 32 bits; 0 for none.
type forms struct {
	fix, fixMax               uint64
	eight, sixteen, thirtytwo byte
	of                        func(n int) msgpack.Value
	rest                      func(n int) []byte // what follows the length
}

// head is the form of a width for a length; ok is false where it does not hold it.
func (f forms) head(width int, n uint64) (b []byte, ok bool) {
	switch {
	case width == 0:
		return []byte{byte(f.fix | n)}, f.fix != 0 && n <= f.fixMax
	case width == 1:
		return []byte{f.eight, byte(n)}, f.eight != 0 && n <= math.MaxUint8
	case width == 2:
		return binary.BigEndian.AppendUint16([]byte{f.sixteen}, uint16(n)), n <= math.MaxUint16
	}
	return binary.BigEndian.AppendUint32([]byte{f.thirtytwo}, uint32(n)), true
}

func TestTheSmallestFormChangesExactlyWhereItsLengthEnds(t *testing.T) {
	for name, f := range map[string]forms{
		"string": {0xa0, 31, 0xd9, 0xda, 0xdb, func(n int) msgpack.Value { return str(strings.Repeat("a", n)) }, func(n int) []byte { return bytes.Repeat([]byte("a"), n) }},
		"binary": {0, 0, 0xc4, 0xc5, 0xc6, func(n int) msgpack.Value { return msgpack.Bin(make([]byte, n)) }, func(n int) []byte { return make([]byte, n) }},
		"array":  {0x90, 15, 0, 0xdc, 0xdd, func(n int) msgpack.Value { return msgpack.Arr(make([]msgpack.Value, n)...) }, func(n int) []byte { return bytes.Repeat([]byte{0xc0}, n) }},
		"map": {0x80, 15, 0, 0xde, 0xdf, func(n int) msgpack.Value {
			pairs := make([]msgpack.Pair, n)
			for i := range pairs {
				pairs[i].Key = msgpack.Unsigned(uint64(i))
			}
			return msgpack.Dict(pairs...)
		}, func(n int) (b []byte) {
			for i := range n {
				b = append(append(b, encode(t, msgpack.Unsigned(uint64(i)))...), 0xc0)
			}
			return b
		}},
	} {
		for _, n := range []int{0, 1, 15, 16, 31, 32, 255, 256, 65535, 65536} {
			if name == "map" && n > 256 {
				continue // seconds of keys, for a length that is judged like an array's
			}
			smallest := encode(t, f.of(n))
			rest, first := f.rest(n), true
			for width := range 4 {
				head, ok := f.head(width, uint64(n))
				if !ok {
					continue
				}
				form := append(head, rest...)
				if first != bytes.Equal(form, smallest) {
					t.Errorf("a %s of %d is written as %.5x…; %.5x… is the smallest form: %v", name, n, smallest, form, first)
				}
				if _, err := msgpack.Decode(form, msgpack.Strict); (err == nil) != first {
					t.Errorf("a %s of %d as %.5x…, strictly: %v", name, n, form, err)
				}
				if v, err := msgpack.Decode(form, msgpack.Lenient); err != nil || !v.Equal(f.of(n)) {
					t.Errorf("a %s of %d as %.5x…, leniently: %v", name, n, form, err)
				}
				first = false
			}
		}
	}
}

func TestTheSmallestFormChangesExactlyWhereItsNumberEnds(t *testing.T) {
	for text, v := range map[string]msgpack.Value{
		"7f": msgpack.Signed(127), "cc80": msgpack.Signed(128), "ccff": msgpack.Signed(255), "cd0100": msgpack.Signed(256), "cdffff": msgpack.Signed(65535), "ce00010000": msgpack.Signed(65536),
		"ceffffffff": msgpack.Signed(1<<32 - 1), "cf0000000100000000": msgpack.Signed(1 << 32), "cf7fffffffffffffff": msgpack.Signed(math.MaxInt64), "cf8000000000000000": msgpack.Unsigned(1 << 63),
		"e0": msgpack.Signed(-32), "d0df": msgpack.Signed(-33), "d080": msgpack.Signed(-128), "d1ff7f": msgpack.Signed(-129), "d18000": msgpack.Signed(-32768), "d2ffff7fff": msgpack.Signed(-32769),
		"d280000000": msgpack.Signed(math.MinInt32), "d3ffffffff7fffffff": msgpack.Signed(math.MinInt32 - 1),
	} {
		b, _ := hex.DecodeString(text)
		if got := encode(t, v); !bytes.Equal(got, b) {
			t.Errorf("%s was written as %x", text, got)
		}
		if got, err := msgpack.Decode(b, msgpack.Strict); err != nil || !got.Equal(v) {
			t.Errorf("strict reads %s as %v, %v", text, got, err)
		}
	}
	// Signed forms of numbers that are not negative are as long as the unsigned ones, and not the same.
	for _, text := range []string{"d07f", "d100ff", "d10100", "d17fff", "d200010000", "d27fffffff", "d30000000100000000", "d37fffffffffffffff"} {
		b, _ := hex.DecodeString(text)
		if v, err := msgpack.Decode(b, msgpack.Strict); err == nil {
			t.Errorf("strict took %s as %v", text, v)
		}
		if v, err := msgpack.Decode(b, msgpack.Lenient); err != nil || len(encode(t, v)) > len(b) {
			t.Errorf("lenient refused %s: %v", text, err)
		}
	}
}

func TestJSONGoesThroughUnchanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := coretest.Value().Draw(t, "json")
		m, err := msgpack.FromJSON(v)
		if err != nil {
			return // an integer beyond 64 bits, which has no form
		}
		back, err := msgpack.ToJSON(m)
		if err != nil {
			t.Fatal(err)
		}
		// Literals of floats may differ; what they mean may not.
		again, err := msgpack.FromJSON(back)
		if err != nil || !again.Equal(m) {
			t.Fatalf("%s became %s (%v)", v, back, err)
		}
	})
}

func TestJSONRefusesWhatItCannotSay(t *testing.T) {
	one := msgpack.Signed(1)
	deep := one
	for range jsonv.MaxDepth + 1 {
		deep = msgpack.Arr(deep)
	}
	for name, v := range map[string]msgpack.Value{
		"binary":        msgpack.Arr(msgpack.Bin([]byte("x"))),
		"a numeric key": msgpack.Dict(msgpack.Pair{Key: one, Value: one}),
		"a key twice":   msgpack.Dict(msgpack.Pair{Key: str("a"), Value: one}, msgpack.Pair{Key: str("a"), Value: one}),
		"depth":         deep,
	} {
		if got, err := msgpack.ToJSON(v); err == nil {
			t.Errorf("%s became %s", name, got)
		}
	}
	big, err := jsonv.ParseString("18446744073709551616")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := msgpack.FromJSON(big); err == nil {
		t.Error("2^64 was converted")
	}
	for lit, want := range map[string]string{"18446744073709551615": "cfffffffffffffffff", "9223372036854775808": "cf8000000000000000", "-9223372036854775808": "d38000000000000000", "-9223372036854775809": "", "-0": "00"} {
		n, err := jsonv.ParseString(lit)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := msgpack.FromJSON(n); (err == nil) != (want != "") || err == nil && hex.EncodeToString(encode(t, v)) != want {
			t.Errorf("%s: %v, want %q", lit, err, want)
		}
	}
}

// Converting a number of a million digits takes seconds and gigabytes, so that one is refused by its length.
func TestAHugeIntegerIsRefusedByItsLength(t *testing.T) {
	huge, err := jsonv.ParseString("-" + strings.Repeat("9", 1_000_000))
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1, func() { _, err = msgpack.FromJSON(huge) }); n > 50 {
		t.Errorf("%v allocations", n)
	}
	if rep, ok := corrupt.As(err); !ok || len(rep.Error()) > 1000 {
		t.Errorf("%.200v", err)
	}
}

// TestPublicSuite: of each listed value the canonical encoding is the smallest
// listed one of its kind, and every listed encoding inside the subset reads back.
func TestPublicSuite(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(cases.Dir(t), "msgpack", "msgpack-test-suite.handed.json"))
	if err != nil {
		t.Fatal(err)
	}
	var groups map[string][]struct {
		Msgpack []string `json:"msgpack"`
	}
	if err := json.Unmarshal(raw, &groups); err != nil {
		t.Fatal(err)
	}
	read, refused := 0, 0
	for name, list := range groups {
		for _, c := range list {
			for _, text := range c.Msgpack {
				b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
				if err != nil {
					t.Fatal(err)
				}
				v, err := msgpack.Decode(b, msgpack.Lenient)
				if outside := b[0] == 0xca || b[0] >= 0xc7 && b[0] <= 0xc9 || b[0] >= 0xd4 && b[0] <= 0xd8; outside {
					refused++
					if err == nil {
						t.Errorf("%s: %s is outside the subset and was read as %v", name, text, v)
					}
					continue
				}
				read++
				if err != nil {
					t.Errorf("%s: %s: %v", name, text, err)
					continue
				}
				if canonical := encode(t, v); len(canonical) > len(b) {
					t.Errorf("%s: %s was written as the longer %x", name, text, canonical)
				}
			}
		}
	}
	if read < 100 || refused < 20 {
		t.Errorf("only %d encodings read and %d refused: the suite was not seen", read, refused)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{"c0", "93010203", "82a16101a16202", "ddffffffff", "c403010203", "cb3ff8000000000000"} {
		b, _ := hex.DecodeString(s)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := msgpack.Decode(data, msgpack.Lenient)
		if err != nil {
			return
		}
		canonical := encode(t, v)
		if len(canonical) > len(data) {
			t.Fatalf("%x was written as the longer %x", data, canonical)
		}
		again, err := msgpack.Decode(canonical, msgpack.Strict)
		if err != nil || !again.Equal(v) {
			t.Fatalf("%x reads back as %v, %v", canonical, again, err)
		}
		if _, err := msgpack.Decode(data, msgpack.Strict); (err == nil) != bytes.Equal(data, canonical) {
			t.Fatalf("strict and canonical disagree about %x", data)
		}
	})
}

func BenchmarkMsgpack(b *testing.B) {
	v, err := msgpack.FromJSON(jsonv.Obj(
		jsonv.F("v", jsonv.Num(1)), jsonv.F("id", jsonv.Num(1<<40)), jsonv.F("kind", jsonv.Str("exec_out")),
		jsonv.F("body", jsonv.Obj(jsonv.F("stream", jsonv.Str("stdout")), jsonv.F("data", jsonv.Str(strings.Repeat("x", 4096)))))))
	if err != nil {
		b.Fatal(err)
	}
	data := encode(b, v)
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		buf := make([]byte, 0, len(data))
		for b.Loop() {
			buf, _ = v.Append(buf[:0])
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := msgpack.Decode(data, msgpack.Strict); err != nil {
				b.Fatal(err)
			}
		}
	})
}
