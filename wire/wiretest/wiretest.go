// Package wiretest generates wire values for tests.
//
// # Purpose
//
// Codecs, servers and clients share one notion of "any legal value". It is made from
// the description of each type, so a type that is new is generated without a line
// here, and a generator cannot lag behind the contract.
//
// # Key types
//
// [JSON] generates the JSON of a described type, [Of] a value of it; [Frame] and
// [Body] are generators of frames. [Validate] reads a value against a JSON Schema.
//
// # Relationships
//
// Imports wire, wire/shape, core and rapid. Only tests import it.
//
// # Traffic
//
// None.
//
// # Invariants
//
// What is generated is legal: its decoder takes it. With words and fields that this
// build does not know, where a reader keeps those.
package wiretest

import (
	"fmt"
	"reflect"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/shape"
)

// uuid is a valid version 7 text for any number.
func uuid(n uint64) string {
	return fmt.Sprintf("0192%04x-%04x-7%03x-8%03x-%012x", n>>48&0xffff, n>>32&0xffff, n>>20&0xfff, n>>8&0xfff, n*0x9e3779b97f4a7c15>>16)
}

// Entry is an entry id made from a number; equal numbers give equal ids.
func Entry(n uint64) id.EntryID { return must(id.ParseEntryID(uuid(n))) }

// Session is a session id made from a number.
func Session(n uint64) id.SessionID { return must(id.ParseSessionID(uuid(n))) }

// Op is an operation id made from a number.
func Op(n uint64) id.OpID { return must(id.ParseOpID(uuid(n))) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Text is any valid UTF-8, with a liking for what terminals and JSON dislike.
func Text() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.String(),
		rapid.StringOfN(rapid.SampledFrom([]rune("aé漢😀\n\t\x00\x1b[\u009b\u202e\u2028\"\\<:")), 0, 12, -1),
	)
}

// JSON generates the JSON of a described type. A strict one has what a request may
// have; another one also what only a newer build says.
func JSON(d *shape.Desc, strict bool) *rapid.Generator[jsonv.Value] {
	return rapid.Custom(func(t *rapid.T) jsonv.Value { return maker{t: t, strict: strict}.value(d) })
}

// Of generates a value of a type, as its decoder reads it.
func Of[T any]() *rapid.Generator[T] {
	return rapid.Custom(func(t *rapid.T) T {
		return must(shape.Decode[T](maker{t: t}.value(shape.Of[T]()), "wiretest"))
	})
}

// Usage is any usage.
func Usage() *rapid.Generator[wire.Usage] { return Of[wire.Usage]() }

// Cause is any cause that this build knows, and unknown ones.
func Cause() *rapid.Generator[wire.Cause] { return Of[wire.Cause]() }

// Frame is any legal frame, of a known kind or not.
func Frame() *rapid.Generator[wire.Frame] {
	return rapid.Custom(func(t *rapid.T) wire.Frame {
		return frame(t, rapid.SampledFrom(append(wire.Kinds(), hologram)).Draw(t, "kind"))
	})
}

// hologram is a kind that no build knows.
const hologram wire.Kind = "hologram"

// Body is any body of the kind; for a kind that is not in [wire.Kinds] it is an
// unknown one.
func Body(k wire.Kind) *rapid.Generator[wire.Body] {
	return rapid.Custom(func(t *rapid.T) wire.Body { return frame(t, k).Body })
}

func frame(t *rapid.T, k wire.Kind) wire.Frame {
	v := FrameJSON(k).Draw(t, "frame")
	f := must(wire.DecodeFrame(v.Append(nil)))
	if b, broken := f.Body.(wire.Broken); broken {
		panic(fmt.Sprintf("the generator made a broken %s: %v\n%s", k, b.Report, v))
	}
	return f
}

// FrameJSON generates the JSON of a frame of a kind, as a reader takes it.
func FrameJSON(k wire.Kind) *rapid.Generator[jsonv.Value] { return frameJSON(k, false) }

// SentFrame is [FrameJSON] with nothing in it that a sender must not send.
func SentFrame(k wire.Kind) *rapid.Generator[jsonv.Value] { return frameJSON(k, true) }

// Sent is [JSON] with nothing in it that a sender must not send.
func Sent(d *shape.Desc, strict bool) *rapid.Generator[jsonv.Value] {
	return rapid.Custom(func(t *rapid.T) jsonv.Value { return maker{t: t, strict: strict, sent: true}.value(d) })
}

func frameJSON(k wire.Kind, sent bool) *rapid.Generator[jsonv.Value] {
	return rapid.Custom(func(t *rapid.T) jsonv.Value {
		m := maker{t: t, sent: sent}
		d := rapid.SampledFrom([]wire.Delivery{wire.Replay, wire.Level, wire.Live}).
			Filter(func(d wire.Delivery) bool { return !k.Known() || k.Delivers(d) }).Draw(t, "delivery")
		body := jsonv.Arr(jsonv.Str(Text().Draw(t, "raw")), jsonv.Value{})
		if typ := k.Body(); typ != nil {
			body = m.value(shape.OfType(typ))
		}
		v := jsonv.Obj(m.members(shape.Of[wire.Frame]())...)
		v = v.With("kind", jsonv.Str(string(k))).With("delivery", jsonv.Str(string(d))).With("body", body)
		if d == wire.Replay {
			return v.With("cursor", jsonv.Str(m.cursor(1)))
		}
		return without(v, "cursor")
	})
}

func without(v jsonv.Value, name string) jsonv.Value {
	var rest []jsonv.Member
	for n, x := range v.Fields() {
		if n != name {
			rest = append(rest, jsonv.F(n, x))
		}
	}
	return jsonv.Obj(rest...)
}

// Spoilt generates a value with one part replaced by something else, or taken out.
func Spoilt(v jsonv.Value) *rapid.Generator[jsonv.Value] {
	return rapid.Custom(func(t *rapid.T) jsonv.Value { return spoil(t, v) })
}

func spoil(t *rapid.T, v jsonv.Value) jsonv.Value {
	if v.Len() == 0 || rapid.IntRange(0, 5).Draw(t, "here") == 0 {
		return rapid.SampledFrom([]jsonv.Value{
			{}, jsonv.Num(-1), jsonv.Num(1 << 60), jsonv.FloatNum(0.5), jsonv.Str(""), jsonv.Str("odd"), jsonv.Boolean(true), jsonv.Arr(), jsonv.Obj(),
		}).Draw(t, "odd")
	}
	at := rapid.IntRange(0, v.Len()-1).Draw(t, "at")
	if v.Kind() == jsonv.Array {
		var list []jsonv.Value
		for i, x := range v.Elems() {
			if i == at {
				x = spoil(t, x)
			}
			list = append(list, x)
		}
		return jsonv.Arr(list...)
	}
	i := 0
	for name, x := range v.Fields() {
		if i == at {
			if rapid.IntRange(0, 3).Draw(t, "gone") == 0 {
				return without(v, name)
			}
			return v.With(name, spoil(t, x))
		}
		i++
	}
	return v
}

// maker draws values.
type maker struct {
	t      *rapid.T
	strict bool
	sent   bool // only what a sender may send, though a reader would take more
}

func (m maker) number(least, most int64) int64 {
	return rapid.OneOf(rapid.Int64Range(least, min(most, least+20)), rapid.Int64Range(least, most)).Draw(m.t, "number")
}

func (m maker) chance(of int) bool { return rapid.IntRange(0, of-1).Draw(m.t, "chance") == 0 }

func (m maker) cursor(leastSeq int64) string {
	return wire.Cursor{Generation: m.number(0, 1<<53), Seq: m.number(leastSeq, 1<<60), Ordinal: int(m.number(0, 1<<31-1))}.String()
}

func (m maker) value(d *shape.Desc) jsonv.Value {
	switch d.Kind {
	case shape.KindObject:
		if d.Name == "Frame" {
			return frameJSON(rapid.SampledFrom(wire.Kinds()).Draw(m.t, "kind"), m.sent).Draw(m.t, "frame")
		}
		return jsonv.Obj(m.members(d)...)
	case shape.KindArray:
		list := make([]jsonv.Value, rapid.IntRange(0, 3).Draw(m.t, "length"))
		for i := range list {
			list[i] = m.value(d.Elem)
		}
		return jsonv.Arr(list...)
	case shape.KindText:
		return jsonv.Str(m.text(d))
	case shape.KindFlag:
		return jsonv.Boolean(rapid.Bool().Draw(m.t, "flag"))
	case shape.KindCount:
		return jsonv.Num(m.number(d.Min, d.Max))
	case shape.KindSum:
		return m.sum(d)
	case shape.KindStated:
		switch {
		case m.chance(4):
			return jsonv.Str("none")
		case !m.strict && !m.sent && m.chance(6):
			return rapid.SampledFrom([]jsonv.Value{jsonv.Str("garbage"), {}, jsonv.Num(-1)}).Draw(m.t, "unreadable")
		}
		return m.value(d.Elem)
	case shape.KindAny:
		return m.any(d)
	}
	panic(fmt.Sprintf("no values for the kind %d", d.Kind))
}

// members draws the fields of an object, and makes those agree that its type checks.
func (m maker) members(d *shape.Desc) (list []jsonv.Member) {
	for _, f := range d.Fields {
		switch {
		case f.Optional && rapid.Bool().Draw(m.t, f.Name):
			if m.chance(5) && f.Desc.Kind != shape.KindStated && f.Desc.Kind != shape.KindAny {
				list = append(list, jsonv.F(f.Name, jsonv.Value{})) // null is absent
			}
		default:
			list = append(list, jsonv.F(f.Name, m.value(f.Desc)))
		}
	}
	if m.chance(8) && !m.strict { // asked in this order: something is drawn for an object without fields too
		list = append(list, jsonv.F("fieldToCome", jsonv.Arr(jsonv.Num(1))))
	}
	return m.agree(d.Go, list)
}

// agree repairs what [shape.Checked] asks.
func (m maker) agree(t reflect.Type, list []jsonv.Member) []jsonv.Member {
	v := jsonv.Obj(list...)
	length := func(of string) int64 {
		x, _ := v.Get(of)
		s, _ := x.Text()
		return int64(len(s))
	}
	word := func(of string) string {
		x, _ := v.Get(of)
		s, _ := x.Text()
		return s
	}
	switch t {
	case reflect.TypeFor[wire.TextBlock](), reflect.TypeFor[wire.UserMessage](), reflect.TypeFor[wire.QueuedItem]():
		v = v.With("bytes", jsonv.Num(length("text")+m.number(0, 9)))
	case reflect.TypeFor[wire.CompactionBoundary](), reflect.TypeFor[wire.BranchSummary]():
		v = v.With("bytes", jsonv.Num(length("summary")+m.number(0, 9)))
	case reflect.TypeFor[wire.Roster]():
		tools, _ := v.Get("tools")
		v = v.With("count", jsonv.Num(int64(tools.Len())))
	case reflect.TypeFor[wire.Decide]():
		drop := []string{"input", "lifetime"}
		if word("decision") == "allow" {
			drop = []string{"settledBy", "stop", "message"}
		}
		for _, name := range drop {
			v = without(v, name)
		}
	case reflect.TypeFor[wire.DecidePlan]():
		v = without(v, "plan")
		if word("verdict") == "edit" {
			v = v.With("plan", jsonv.Str("p"))
		}
	}
	list = list[:0]
	for n, x := range v.Fields() {
		list = append(list, jsonv.F(n, x))
	}
	return list
}

func (m maker) text(d *shape.Desc) string {
	n := rapid.Uint64Range(0, 50)
	switch {
	case d.Words != nil:
		if m.strict || !m.chance(5) {
			return rapid.SampledFrom(d.Words).Draw(m.t, "word")
		}
		return "word_to_come"
	case d.Format == "generation:seq:ordinal":
		return m.cursor(0)
	case d.Format != "":
		return uuid(n.Draw(m.t, "id"))
	}
	s := Text().Draw(m.t, "text")
	if d.Max > 0 && int64(len(s)) > d.Max {
		cut := int(d.Max)
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut]
	}
	if int64(len(s)) < d.Min {
		s += "x"
	}
	return s
}

func (m maker) sum(d *shape.Desc) jsonv.Value {
	if !m.strict && m.chance(6) {
		return jsonv.Obj(jsonv.F(d.Tag, jsonv.Str("evaporated")), jsonv.F("x", jsonv.Num(1)))
	}
	v := rapid.SampledFrom(d.Variants).Draw(m.t, "member")
	return jsonv.Obj(append([]jsonv.Member{jsonv.F(d.Tag, jsonv.Str(v.Tag))}, m.members(v.Desc)...)...)
}

func (m maker) any(d *shape.Desc) jsonv.Value {
	object := jsonv.Obj(jsonv.F("path", jsonv.Str(Text().Draw(m.t, "text"))), jsonv.F("n", jsonv.Num(m.number(0, 9))))
	if d.Name != "" {
		return object
	}
	return rapid.SampledFrom([]jsonv.Value{object, jsonv.Str("s"), jsonv.Arr(jsonv.Boolean(true)), jsonv.FloatNum(1.5)}).Draw(m.t, "any")
}
