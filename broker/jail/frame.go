package jail

import (
	"encoding/binary"
	"errors"
	"io"
	"strconv"
	"time"
)

// A frame is a list of byte strings: u32 length of the rest, then for each
// string u32 length and the bytes, big endian. Paths, arguments and environment
// of Unix are bytes, so no text encoding is put on them.

// maxFrame bounds a frame; systems accept no argument list as long as this.
const maxFrame = 16 << 20

var errFrame = errors.New("jail: malformed frame")

func appendFrame(dst []byte, fields ...string) []byte {
	size := 0
	for _, f := range fields {
		size += 4 + len(f)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(size))
	for _, f := range fields {
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(f)))
		dst = append(dst, f...)
	}
	return dst
}

// readFrame returns io.EOF when the stream ends before the first byte.
func readFrame(r io.Reader) ([]string, error) {
	var prefix [4]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(prefix[:])
	if size > maxFrame {
		return nil, errFrame
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, errors.Join(errFrame, err)
	}
	return splitFrame(body)
}

func splitFrame(body []byte) ([]string, error) {
	var fields []string
	for len(body) > 0 {
		if len(body) < 4 {
			return nil, errFrame
		}
		n := binary.BigEndian.Uint32(body)
		body = body[4:]
		if uint64(n) > uint64(len(body)) {
			return nil, errFrame
		}
		fields = append(fields, string(body[:n]))
		body = body[n:]
	}
	return fields, nil
}

// order is the first frame: what the supervisor has to run.
type order struct {
	path, dir string
	grace     time.Duration
	args, env []string
}

func (o order) frame() []byte {
	fields := []string{o.path, o.dir, strconv.FormatInt(int64(o.grace), 10), strconv.Itoa(len(o.args))}
	fields = append(fields, o.args...)
	return appendFrame(nil, append(fields, o.env...)...)
}

func decodeOrder(fields []string) (order, error) {
	if len(fields) < 5 {
		return order{}, errFrame
	}
	grace, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil || grace < 0 {
		return order{}, errFrame
	}
	argc, err := strconv.Atoi(fields[3])
	rest := fields[4:]
	if err != nil || argc < 1 || argc > len(rest) {
		return order{}, errFrame
	}
	return order{path: fields[0], dir: fields[1], grace: time.Duration(grace), args: rest[:argc:argc], env: rest[argc:]}, nil
}

// report is what the supervisor says.
type report interface{ isReport() }

// started: the command runs.
type started struct{}

// failed: nothing was run.
type failed struct {
	reason Reason
	text   string
}

// exited: the command ended, and so did all its processes but those left.
type exited struct {
	code, signal int
	interrupted  bool // the ladder had begun before the command ended
	swept, left  int
}

func (*started) isReport() {}
func (*failed) isReport()  {}
func (*exited) isReport()  {}

func reportFrame(r report) []byte {
	switch r := r.(type) {
	case *started:
		return appendFrame(nil, "started")
	case *failed:
		return appendFrame(nil, "failed", string(r.reason), r.text)
	case *exited:
		return appendFrame(nil, "exited", strconv.Itoa(r.code), strconv.Itoa(r.signal),
			strconv.FormatBool(r.interrupted), strconv.Itoa(r.swept), strconv.Itoa(r.left))
	}
	panic("jail: unknown report")
}

func decodeReport(fields []string) (report, error) {
	switch {
	case len(fields) == 1 && fields[0] == "started":
		return &started{}, nil
	case len(fields) == 3 && fields[0] == "failed":
		return &failed{reason: Reason(fields[1]), text: fields[2]}, nil
	case len(fields) == 6 && fields[0] == "exited":
		var nums [4]int
		for i, at := range [4]int{1, 2, 4, 5} {
			n, err := strconv.Atoi(fields[at])
			if err != nil || n < 0 {
				return nil, errFrame
			}
			nums[i] = n
		}
		interrupted, err := strconv.ParseBool(fields[3])
		if err != nil {
			return nil, errFrame
		}
		return &exited{code: nums[0], signal: nums[1], interrupted: interrupted, swept: nums[2], left: nums[3]}, nil
	}
	return nil, errFrame
}
