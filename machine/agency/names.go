package agency

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/loom-run/loom/core/id"
)

// Caller is where in a session a call of a tool stands. It comes from the driver,
// never from arguments.
type Caller struct {
	Strand      string
	Op          id.OpID
	Step        string
	SourceIndex int
}

// key names the call among all of the session's.
func (c Caller) key() string {
	return c.Op.String() + ":" + c.Step + ":" + strconv.Itoa(c.SourceIndex)
}

// prefix begins the names of spawned strands, and of no other.
const prefix = "sub:"

// Spawned reports whether a name is one that only a spawn gives.
func Spawned(strand string) bool { return strings.HasPrefix(strand, prefix) }

// ChildPrefix begins the names of a strand's children.
func ChildPrefix(parent string) string { return prefix + parent + "/" }

// maxSlug is in bytes.
const maxSlug = 24

// ChildName names the child that a call asks for: sub:{parent}/{slug}-{16 hex}. The
// slug is for people. What makes the name unique is the call, so that a call which
// is made again names the same child, and no text of a model can name another one.
func ChildName(c Caller, purpose string) string {
	sum := sha256.Sum256([]byte(c.key()))
	return ChildPrefix(c.Strand) + slug(purpose) + "-" + hex.EncodeToString(sum[:8])
}

// slug keeps letters, digits and single hyphens.
func slug(purpose string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(purpose) {
		if b.Len() == maxSlug {
			break
		}
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	if s := strings.Trim(b.String(), "-"); s != "" {
		return s
	}
	return "agent"
}

// Handle names one run of a strand: {strand}#{operation}. A handle keeps naming
// that run when the strand has moved on.
type Handle struct {
	Strand string
	Op     id.OpID
}

// String is what models are given.
func (h Handle) String() string { return h.Strand + "#" + h.Op.String() }

// ParseHandle reads a handle as [Handle.String] writes it.
func ParseHandle(text string) (Handle, error) {
	if n := strings.LastIndexByte(text, '#'); n > 0 {
		if op, err := id.ParseOpID(text[n+1:]); err == nil {
			return Handle{text[:n], op}, nil
		}
	}
	return Handle{}, refuse("%.200q is no handle; agent_spawn and agent_send return them", text)
}

// Refusal is a no, in one sentence for the model that asked. Nothing was changed.
type Refusal struct{ Sentence string }

func (r *Refusal) Error() string { return r.Sentence }

func refuse(format string, args ...any) *Refusal { return &Refusal{fmt.Sprintf(format, args...)} }
