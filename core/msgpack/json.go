package msgpack

import (
	"math/big"
	"strconv"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
)

// FromJSON converts a JSON value. Integers beyond 64 bits have no form here and are
// refused; all else converts.
func FromJSON(v jsonv.Value) (Value, error) {
	switch v.Kind() {
	case jsonv.Null:
		return Value{}, nil
	case jsonv.Bool:
		b, _ := v.Bool()
		return Boolean(b), nil
	case jsonv.Int:
		if n, ok := v.Int64(); ok {
			return Signed(n), nil
		}
		lit, _ := v.Literal()
		if len(lit) <= len("18446744073709551615") { // converting a longer one takes more than linear time
			if n, err := strconv.ParseUint(lit, 10, 64); err == nil {
				return Unsigned(n), nil
			}
		}
		return Value{}, corrupt.New("msgpack.FromJSON", "integer", "an integer from -2^63 to 2^64-1", corrupt.Clip(lit, corrupt.MaxContext))
	case jsonv.Float:
		f, _ := v.Float64()
		if d, ok := Double(f); ok {
			return d, nil
		}
		return Value{}, corrupt.New("msgpack.FromJSON", "number", "a finite number", v.String())
	case jsonv.String:
		s, _ := v.Text()
		if t, ok := Str(s); ok {
			return t, nil
		}
		return Value{}, corrupt.New("msgpack.FromJSON", "string", "valid UTF-8", "other bytes")
	case jsonv.Array:
		out := Value{kind: Array}
		for _, e := range v.Elems() {
			x, err := FromJSON(e)
			if err != nil {
				return Value{}, err
			}
			out.elems = append(out.elems, x)
		}
		return out, nil
	case jsonv.Object:
		out := Value{kind: Map}
		for name, e := range v.Fields() {
			key, ok := Str(name)
			if !ok {
				return Value{}, corrupt.New("msgpack.FromJSON", "field name", "valid UTF-8", "other bytes")
			}
			x, err := FromJSON(e)
			if err != nil {
				return Value{}, err
			}
			out.pairs = append(out.pairs, Pair{key, x})
		}
		return out, nil
	}
	return Value{}, corrupt.New("msgpack.FromJSON", "value", "a JSON value", v.Kind().String())
}

// ToJSON converts to JSON, refusing what JSON cannot say: binary data, keys that
// are not text, a key twice, and nesting beyond its limit.
func ToJSON(v Value) (jsonv.Value, error) { return toJSON(v, 0) }

func toJSON(v Value, depth int) (jsonv.Value, error) {
	refuse := func(subject, expected, seen string) (jsonv.Value, error) {
		return jsonv.Value{}, corrupt.New("msgpack.ToJSON", subject, expected, seen)
	}
	if (v.kind == Array || v.kind == Map) && depth >= jsonv.MaxDepth {
		return refuse("value", "at most "+strconv.Itoa(jsonv.MaxDepth)+" nested containers", "more")
	}
	switch v.kind {
	case Nil:
		return jsonv.Value{}, nil
	case Bool:
		return jsonv.Boolean(v.bits == 1), nil
	case Int:
		if n, ok := v.Int64(); ok {
			return jsonv.Num(n), nil
		}
		return jsonv.BigNum(new(big.Int).SetUint64(v.bits)), nil
	case Float:
		f, _ := v.Float64()
		return jsonv.FloatNum(f), nil
	case String:
		return jsonv.Str(v.text), nil
	case Binary:
		return refuse("value", "no binary data", strconv.Itoa(len(v.text))+" bytes of it")
	case Array:
		elems := make([]jsonv.Value, 0, len(v.elems))
		for _, e := range v.elems {
			x, err := toJSON(e, depth+1)
			if err != nil {
				return jsonv.Value{}, err
			}
			elems = append(elems, x)
		}
		return jsonv.Arr(elems...), nil
	case Map:
		return objectOf(v, depth, refuse)
	}
	return refuse("value", "a known kind", v.kind.String())
}

func objectOf(v Value, depth int, refuse func(subject, expected, seen string) (jsonv.Value, error)) (jsonv.Value, error) {
	fields := make([]jsonv.Member, 0, len(v.pairs))
	seen := make(map[string]bool, len(v.pairs))
	for _, p := range v.pairs {
		name, ok := p.Key.Text()
		if !ok {
			return refuse("key", "text", p.Key.kind.String())
		}
		if seen[name] {
			return refuse("key", "each key once", name)
		}
		seen[name] = true
		x, err := toJSON(p.Value, depth+1)
		if err != nil {
			return jsonv.Value{}, err
		}
		fields = append(fields, jsonv.F(name, x))
	}
	return jsonv.Obj(fields...), nil
}
