package sqlitedb

import "encoding/hex"

// UUID is the stored form of an id, the 16 bytes; nil for an absent one.
func UUID[T interface{ String() string }](i T) []byte {
	s := i.String()
	if s == "" {
		return nil
	}
	var digits [32]byte
	n := 0
	for k := range len(s) {
		if s[k] != '-' {
			digits[n] = s[k]
			n++
		}
	}
	b := make([]byte, 16)
	_, _ = hex.Decode(b, digits[:]) // the text of an id is always well formed
	return b
}

// UUIDText is the text of a stored id; of other lengths, something that no
// parser accepts.
func UUIDText(b []byte) string {
	if len(b) != 16 {
		return hex.EncodeToString(b)
	}
	var out [36]byte
	at := 0
	for i, end := range [...]int{4, 6, 8, 10, 16} {
		from := [...]int{0, 4, 6, 8, 10}[i]
		if i > 0 {
			out[at] = '-'
			at++
		}
		at += hex.Encode(out[at:], b[from:end])
	}
	return string(out[:])
}
