package coretest

import (
	"math/big"
	"unicode/utf8"

	"github.com/loom-run/loom/core/jsonv"
	"pgregory.net/rapid"
)

// edgeRunes stand at the edges of JSON's escapes and of the encodings of Unicode.
var edgeRunes = []rune{
	0, 1, '\b', '\t', '\n', '\v', '\f', '\r', 0x1b, 0x1f, ' ', '!', '"', '#', '/', '[', '\\', ']', '~', 0x7f, 0x80, 0x85, 0x9f,
	0x7ff, 0x800, 0x301, 0x200d, 0x2028, 0x2029, 0xd7ff, 0xe000, 0xfeff, 0xfffd, 0xfffe, 0xffff, 0x10000, 0x1f468, 0x10fffe, 0x10ffff,
}

// Text generates valid UTF-8 of any content.
func Text() *rapid.Generator[string] {
	ascii := rapid.RuneFrom([]rune("abcXYZ 019{}:,"))
	return rapid.StringOfN(rapid.OneOf(ascii, ascii, rapid.SampledFrom(edgeRunes), rapid.Rune()), 0, 40, -1)
}

// Bytes generates text that need not be UTF-8: pieces of [Text] with bytes between them that no encoding has there.
func Bytes() *rapid.Generator[string] {
	broken := rapid.SampledFrom([]string{"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\x80"})
	return rapid.Custom(func(t *rapid.T) string {
		var s string
		for _, part := range rapid.SliceOfN(rapid.OneOf(Text(), broken), 0, 5).Draw(t, "parts") {
			s += part
		}
		return s
	})
}

// Number generates the text of JSON numbers: integers of any size, floats in every notation, none beyond a double.
func Number() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.Map(rapid.Int64(), func(n int64) string { return big.NewInt(n).String() }),
		rapid.StringMatching(`-?[1-9][0-9]{18,60}`),
		rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})\.[0-9]{1,20}`),
		rapid.StringMatching(`-?(0|[1-9][0-9]{0,4})(\.[0-9]{1,4})?[eE][+-]?[0-9]{1,2}`),
		rapid.SampledFrom([]string{
			"0", "-0", "-0.0", "0e0", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
			"5e-324", "1e-400", "1.7976931348623157e308", "1E+2", "100000000000000000000000000000000",
		}),
	)
}

// Value generates JSON values of every kind with a few levels of nesting. Names are distinct, as parsed ones are.
func Value() *rapid.Generator[jsonv.Value] { return value(3) }

// Object generates values that are objects.
func Object() *rapid.Generator[jsonv.Value] { return object(3) }

func value(depth int) *rapid.Generator[jsonv.Value] {
	kinds := []*rapid.Generator[jsonv.Value]{
		rapid.Just(jsonv.Value{}),
		rapid.Map(rapid.Bool(), jsonv.Boolean),
		rapid.Map(rapid.Int64(), jsonv.Num),
		rapid.Map(rapid.Float64(), jsonv.FloatNum),
		rapid.Map(Number(), number),
		rapid.Map(Text(), jsonv.Str),
	}
	if depth > 0 {
		kinds = append(kinds, object(depth), rapid.Map(
			rapid.SliceOfN(rapid.Deferred(func() *rapid.Generator[jsonv.Value] { return value(depth - 1) }), 0, 4),
			func(elems []jsonv.Value) jsonv.Value { return jsonv.Arr(elems...) }))
	}
	return rapid.OneOf(kinds...)
}

func object(depth int) *rapid.Generator[jsonv.Value] {
	return rapid.Custom(func(t *rapid.T) jsonv.Value {
		names := rapid.SliceOfNDistinct(Text(), 0, 4, rapid.ID[string]).Draw(t, "names")
		fields := make([]jsonv.Member, len(names))
		for i, name := range names {
			fields[i] = jsonv.F(name, value(depth-1).Draw(t, "value"))
		}
		return jsonv.Obj(fields...)
	})
}

// number is the value of a literal, which only the parser makes.
func number(literal string) jsonv.Value {
	v, err := jsonv.ParseString(literal)
	if err != nil {
		panic("coretest: " + err.Error())
	}
	return v
}

// Zalgo is one grapheme of n combining marks on a letter: 2n+1 bytes.
func Zalgo(n int) string {
	b := make([]byte, 0, 2*n+1)
	b = append(b, 'a')
	for range n {
		b = utf8.AppendRune(b, '\u0301')
	}
	return string(b)
}
