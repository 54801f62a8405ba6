package wire

import (
	"reflect"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/wire/shape"
)

// StatedState says how much of a fact was stated.
type StatedState uint8

// The four. None is folded into another: each points a reader somewhere else.
const (
	Unstated   StatedState = iota // the field is not there: an older or a smaller engine
	StatedNone                    // there is none, and that is a fact
	Unreadable                    // something is there that is no such fact
	StatedFact                    // it is there
)

// Stated is a fact that an engine may not know, may not have, or may tell in a way
// that this build cannot read. In JSON it is absent, the text "none", or the value.
// The zero Stated is [Unstated].
type Stated[T any] struct {
	state StatedState
	fact  T
	raw   jsonv.Value
}

// FactOf states v.
func FactOf[T any](v T) Stated[T] { return Stated[T]{state: StatedFact, fact: v} }

// None states that there is none.
func None[T any]() Stated[T] { return Stated[T]{state: StatedNone} }

// State tells which of the four it is.
func (s Stated[T]) State() StatedState { return s.state }

// Get returns the fact; ok is false for the other three states.
func (s Stated[T]) Get() (v T, ok bool) { return s.fact, s.state == StatedFact }

// Raw is what was sent in the state [Unreadable].
func (s Stated[T]) Raw() (jsonv.Value, bool) { return s.raw, s.state == Unreadable }

// String is the JSON of the fact, or the state in a word.
func (s Stated[T]) String() string {
	if s.state == Unstated {
		return "unstated"
	}
	var w jsonv.Writer
	s.AppendShape(&w)
	return string(w.Bytes())
}

// noneWord is how none is said.
const noneWord = "none"

// AbsentShape implements [shape.Custom].
func (s Stated[T]) AbsentShape() bool { return s.state == Unstated }

// AppendShape implements [shape.Custom].
func (s Stated[T]) AppendShape(w *jsonv.Writer) {
	switch s.state {
	case StatedFact:
		shape.Append(w, s.fact)
	case Unreadable:
		w.Value(s.raw)
	case StatedNone, Unstated:
		w.String(noneWord)
	}
}

// DecodeShape implements [shape.CustomDecoder]. A value that cannot be read is
// kept and does not make the rest unreadable; an explicit null is one. In a request
// it is refused.
func (s *Stated[T]) DecodeShape(v jsonv.Value, exact bool) error {
	if text, ok := v.Text(); ok && text == noneWord {
		*s = None[T]()
		return nil
	}
	read := shape.Decode[T]
	if exact {
		read = shape.Exact[T]
	}
	fact, err := read(v, "wire.Stated")
	switch {
	case err == nil:
		*s = FactOf(fact)
	case exact:
		return err
	default:
		*s = Stated[T]{state: Unreadable, raw: v}
	}
	return nil
}

// DescribeShape implements [shape.Custom].
func (Stated[T]) DescribeShape() *shape.Desc {
	return &shape.Desc{Kind: shape.KindStated, Go: reflect.TypeFor[Stated[T]](), Elem: shape.Of[T]()}
}
