package jsonv

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Append appends the compact JSON text of v.
func (v Value) Append(dst []byte) []byte {
	switch v.kind {
	case Null:
		return append(dst, "null"...)
	case Bool:
		return strconv.AppendBool(dst, v.text != "")
	case Int, Float:
		return append(dst, v.text...)
	case String:
		return AppendString(dst, v.text)
	case Array:
		dst = append(dst, '[')
		for i := range v.Len() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = v.At(i).Append(dst)
		}
		return append(dst, ']')
	case Object:
		dst = append(dst, '{')
		for i := range v.Len() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(AppendString(dst, v.name(i)), ':')
			dst = v.At(i).Append(dst)
		}
		return append(dst, '}')
	}
	return dst
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string: quote, backslash and C0 controls are
// escaped (short forms where JSON has them, lower-case \u00xx otherwise) and
// nothing else. Bytes that are not UTF-8 become U+FFFD, since a durable text
// must parse again; callers that must not lose them check first.
func AppendString(dst []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = repaired(s)
	}
	dst = append(dst, '"')
	for {
		i := skipPlain(s, 0)
		dst = append(dst, s[:i]...)
		if i == len(s) {
			return append(dst, '"')
		}
		switch c := s[i]; c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		s = s[i+1:]
	}
}

// repaired returns s with one U+FFFD for each byte that is not UTF-8.
func repaired(s string) string {
	b := make([]byte, 0, len(s)+16)
	for _, r := range s {
		b = utf8.AppendRune(b, r)
	}
	return string(b)
}

// Writer appends compact JSON and places the commas. The zero Writer is ready.
// It does not check that brackets match: its callers are encoders with a fixed
// shape, whose tests read back what they wrote.
type Writer struct {
	buf  []byte
	from int // what stood before belongs to the caller
}

// NewWriter continues after dst, which may hold anything: the first value is
// written without a comma.
func NewWriter(dst []byte) *Writer { return &Writer{buf: dst, from: len(dst)} }

// Bytes returns what the writer continued and all that was written.
func (w *Writer) Bytes() []byte { return w.buf }

// Tree returns the one value that was written. The text is the writer's own, so
// it is trusted: no depth limit applies here (a commit refuses what nests too
// deep) and malformed text is a fault of the encoder.
func (w *Writer) Tree() Value {
	p := parser{s: string(w.buf[w.from:]), trusted: true}
	v, err := p.document()
	if err != nil {
		panic(fmt.Sprintf("jsonv: an encoder wrote malformed JSON: %v", err))
	}
	return v
}

// comma separates values: a value just ended unless the last byte opens
// something.
func (w *Writer) comma() {
	if n := len(w.buf); n > w.from {
		switch w.buf[n-1] {
		case '{', '[', ':':
		default:
			w.buf = append(w.buf, ',')
		}
	}
}

// Begin opens an object as the next value.
func (w *Writer) Begin() { w.comma(); w.buf = append(w.buf, '{') }

// End closes it.
func (w *Writer) End() { w.buf = append(w.buf, '}') }

// BeginArray opens an array as the next value.
func (w *Writer) BeginArray() { w.comma(); w.buf = append(w.buf, '[') }

// EndArray closes it.
func (w *Writer) EndArray() { w.buf = append(w.buf, ']') }

// Name starts a field; its value must follow.
func (w *Writer) Name(name string) {
	w.comma()
	w.buf = append(AppendString(w.buf, name), ':')
}

// Value writes any value.
func (w *Writer) Value(v Value) { w.comma(); w.buf = v.Append(w.buf) }

// String writes a string.
func (w *Writer) String(s string) { w.comma(); w.buf = AppendString(w.buf, s) }

// Int writes an integer.
func (w *Writer) Int(n int64) { w.comma(); w.buf = strconv.AppendInt(w.buf, n, 10) }

// Bool writes a boolean.
func (w *Writer) Bool(b bool) { w.comma(); w.buf = strconv.AppendBool(w.buf, b) }

// Null writes null.
func (w *Writer) Null() { w.comma(); w.buf = append(w.buf, "null"...) }

// Literal writes a number literal that the caller knows to be well formed.
func (w *Writer) Literal(lit string) { w.comma(); w.buf = append(w.buf, lit...) }

// Field writers: a name and its value.

// Str writes a string field.
func (w *Writer) Str(name, s string) { w.Name(name); w.String(s) }

// OptStr writes a string field when it is present.
func (w *Writer) OptStr(name string, s *string) {
	if s != nil {
		w.Str(name, *s)
	}
}

// Num writes an integer field.
func (w *Writer) Num(name string, n int64) { w.Name(name); w.Int(n) }

// OptNum writes an integer field when it is present.
func (w *Writer) OptNum(name string, n *int64) {
	if n != nil {
		w.Num(name, *n)
	}
}

// Flag writes a boolean field.
func (w *Writer) Flag(name string, b bool) { w.Name(name); w.Bool(b) }

// Opaque writes any value as a field when it is present.
func (w *Writer) Opaque(name string, v *Value) {
	if v != nil {
		w.Name(name)
		w.Value(*v)
	}
}

// Strs writes an array of strings as a field.
func (w *Writer) Strs(name string, list []string) {
	w.Name(name)
	w.BeginArray()
	for _, s := range list {
		w.String(s)
	}
	w.EndArray()
}
