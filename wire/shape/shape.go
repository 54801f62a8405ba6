package shape

import (
	"reflect"
	"sync"

	"github.com/loom-run/loom/core/jsonv"
)

// maxCount keeps counts exact in every client language.
const maxCount = 1<<53 - 1

// MaxWord bounds a word, in bytes.
const MaxWord = 512

// Kind is what a value is in JSON.
type Kind uint8

// The kinds of a [Desc].
const (
	KindObject Kind = iota
	KindArray
	KindText
	KindFlag
	KindCount
	KindAny
	KindSum    // an object that is one of several, by its tag
	KindStated // absent, the word none, or a value
)

// Desc describes the JSON of a type.
type Desc struct {
	Kind Kind
	Go   reflect.Type
	Name string // of the Go type, "" where it has none

	Fields   []Field   // of an object
	Elem     *Desc     // of an array, or of what is stated
	Tag      string    // of a sum: the field that says which one it is
	Variants []Variant // of a sum
	Words    []string  // of a text that is a word: those of its table
	Format   string    // of a text: what it looks like, in words
	Min, Max int64     // of a text in bytes, Max 0 for no bound; of a count
}

// Field is one field of an object.
type Field struct {
	Name, Go string
	Optional bool
	Desc     *Desc
}

// Variant is one of a sum.
type Variant struct {
	Tag  string
	Desc *Desc
}

// codec is the compiled form of a type.
type codec interface {
	append(w *jsonv.Writer, v reflect.Value)
	// decode sets v, which is a settable zero value.
	decode(v jsonv.Value, into reflect.Value, m mode) error
	// absent reports whether the value is the one that an optional field leaves out.
	absent(v reflect.Value) bool
	describe() *Desc
}

// mode is how strictly a value is read.
type mode struct {
	exact    bool
	boundary string
}

var (
	mu       sync.Mutex // held while a type is compiled or registered; guards the registers
	compiled sync.Map   // reflect.Type → codec; read without the lock
)

// of returns the codec of a type, compiling it at its first use.
func of(t reflect.Type) codec {
	if c, ok := known(t); ok {
		return c
	}
	mu.Lock()
	defer mu.Unlock()
	return compile(t)
}

func known(t reflect.Type) (c codec, ok bool) {
	x, _ := compiled.Load(t)
	c, ok = x.(codec)
	return c, ok
}

// as is what a reflected value holds. Which type that is was settled when its codec
// was compiled.
func as[T any](v reflect.Value) T {
	x, ok := v.Interface().(T)
	if !ok {
		badShape(v.Type(), "it is no %s", reflect.TypeFor[T]())
	}
	return x
}

// Of describes the type T.
func Of[T any]() *Desc { return of(reflect.TypeFor[T]()).describe() }

// OfType is [Of] for a type that is known at run time only.
func OfType(t reflect.Type) *Desc { return of(t).describe() }

// Append writes a value.
func Append[T any](w *jsonv.Writer, v T) { AppendAny(w, v) }

// AppendAny is [Append] for the dynamic type of v.
func AppendAny(w *jsonv.Writer, v any) {
	rv := reflect.ValueOf(v)
	of(rv.Type()).append(w, rv)
}

// Decode reads a value. Fields and words that are not known are passed over and
// kept. The error is a [*corrupt.Report].
func Decode[T any](v jsonv.Value, boundary string) (T, error) {
	return decode[T](v, mode{boundary: boundary})
}

// Exact reads a value and refuses fields and words that are not known: an option
// that was misspelt or is newer than the reader must not be silently off.
func Exact[T any](v jsonv.Value, boundary string) (T, error) {
	return decode[T](v, mode{exact: true, boundary: boundary})
}

func decode[T any](v jsonv.Value, m mode) (T, error) {
	out := new(T)
	if err := of(reflect.TypeFor[T]()).decode(v, reflect.ValueOf(out).Elem(), m); err != nil {
		var none T
		return none, err
	}
	return *out, nil
}

// DecodeType parses text and reads a value of a type that is known at run time
// only, as [Decode] or [Exact] does.
func DecodeType(t reflect.Type, text []byte, exact bool) (any, error) {
	v, err := jsonv.Parse(text)
	if err != nil {
		return nil, err
	}
	out := reflect.New(t).Elem()
	if err := of(t).decode(v, out, mode{exact: exact, boundary: t.Name()}); err != nil {
		return nil, err
	}
	return out.Interface(), nil
}
