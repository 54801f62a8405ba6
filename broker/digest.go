package broker

import (
	"cmp"
	"crypto/sha256"
	"slices"

	"github.com/loom-run/loom/core/jsonv"
)

// Digest is the identity of arguments: the SHA-256 of their compact JSON with
// the fields of every object sorted by name. The order in which a model writes
// fields does not matter; everything else does, number literals included.
func Digest(arguments jsonv.Value) [sha256.Size]byte {
	return sha256.Sum256(canonical(arguments).Append(nil))
}

func canonical(v jsonv.Value) jsonv.Value {
	switch v.Kind() {
	case jsonv.Array:
		elems := make([]jsonv.Value, 0, v.Len())
		for _, e := range v.Elems() {
			elems = append(elems, canonical(e))
		}
		return jsonv.Arr(elems...)
	case jsonv.Object:
		fields := make([]jsonv.Member, 0, v.Len())
		for name, f := range v.Fields() {
			fields = append(fields, jsonv.F(name, canonical(f)))
		}
		slices.SortStableFunc(fields, func(a, b jsonv.Member) int { return cmp.Compare(a.Name, b.Name) })
		return jsonv.Obj(fields...)
	case jsonv.Null, jsonv.Bool, jsonv.Int, jsonv.Float, jsonv.String:
	}
	return v
}
