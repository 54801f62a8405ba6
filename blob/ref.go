package blob

import (
	"crypto/sha256"
	"strconv"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
)

// DetailsKey is the reserved field of tool-result details that lists the blobs
// of the result. Whoever copies, exports or erases results follows it.
const DetailsKey = "$loom/blobs"

// Ref names a blob.
type Ref struct {
	SHA256 string // 64 lower-case hexadecimal digits
	Size   int64  // bytes
}

func (r Ref) check() error {
	ok := len(r.SHA256) == 2*sha256.Size && r.Size >= 0
	for i := 0; ok && i < len(r.SHA256); i++ {
		c := r.SHA256[i]
		ok = c >= '0' && c <= '9' || c >= 'a' && c <= 'f'
	}
	if !ok {
		return corrupt.New("blob.Ref", "name", "a digest of 64 lower-case hexadecimal digits and a size", r.SHA256+", "+strconv.FormatInt(r.Size, 10))
	}
	return nil
}

// Value is the durable form of the reference: {"sha256", "size"}.
func (r Ref) Value() jsonv.Value {
	return jsonv.Obj(jsonv.F("sha256", jsonv.Str(r.SHA256)), jsonv.F("size", jsonv.Num(r.Size)))
}

// ParseRef reads what [Ref.Value] wrote; further fields are left alone. The
// error is a [*corrupt.Report].
func ParseRef(v jsonv.Value) (Ref, error) {
	r := jsonv.Read(v, "blob.ParseRef")
	ref := Ref{SHA256: r.Str("sha256"), Size: r.Num("size")}
	if err := r.Err(); err != nil {
		return Ref{}, err
	}
	if err := ref.check(); err != nil {
		return Ref{}, err
	}
	return ref, nil
}

// InDetails lists the blobs that the details of a tool result refer to. Details
// of another shape, of a foreign tool for instance, refer to none; a list under
// the reserved key that cannot be read is a [*corrupt.Report].
func InDetails(details *jsonv.Value) ([]Ref, error) {
	if details == nil {
		return nil, nil
	}
	list, ok := details.Get(DetailsKey)
	if !ok {
		return nil, nil
	}
	if list.Kind() != jsonv.Array {
		return nil, corrupt.New("blob.InDetails", DetailsKey, "an array", list.Kind().String())
	}
	refs := make([]Ref, 0, list.Len())
	for i, v := range list.Elems() {
		ref, err := ParseRef(v)
		if err != nil {
			if rep, ok := corrupt.As(err); ok {
				return nil, rep.In(DetailsKey + "[" + strconv.Itoa(i) + "]")
			}
			return nil, err
		}
		refs = append(refs, ref)
	}
	return refs, nil
}
