package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"sync"

	"github.com/loom-run/loom/blob"
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
)

// Bounds of what is kept of files before they are changed, in bytes.
const (
	keptFile    = fileLimit // of one file
	keptSession = 512 << 20 // of a session, the outputs that are kept for other reasons included
)

// Content identifies what a file holds. The zero Content is that there is no file.
//
// It is half of a SHA-256: enough to tell contents apart, and no name of a blob, so
// that an erasure which gives a blob another name leaves it alone and what was erased
// from is told from what was there.
type Content struct{ sum string }

func contentOf(p []byte) Content { return contentOfSum(sha256.Sum256(p)) }

func contentOfSum(sum [sha256.Size]byte) Content {
	return Content{hex.EncodeToString(sum[:sha256.Size/2])}
}

func contentIn(r *jsonv.Reader, name string) Content {
	if sum := r.OptStr(name); sum != nil {
		return Content{*sum}
	}
	return Content{}
}

func (c Content) value() jsonv.Value { return optional(c.sum) }

// Unkept is why what a file held is not kept. A word that is not known stays itself.
type Unkept string

// The reasons.
const (
	UnkeptSecret Unkept = "secret" // it holds a secret, and no secret is stored
	UnkeptLarge  Unkept = "large"
	UnkeptFull   Unkept = "full" // the session keeps as much as it may
	UnkeptFailed Unkept = "failed"
	UnkeptOff    Unkept = "off" // the session keeps nothing
)

// Change is what one call did to one file.
type Change struct {
	File          string // relative to the workspace, slash-separated; no link was on the way
	Before, After Content
	// Kept is what the file held before. It is nil when there was no file, and when that
	// is not kept; Why then says why.
	Kept *blob.Ref
	Why  Unkept
}

// The fields of details that hold a change. What was kept is one of the blobs of the
// result, so that all who copy, check and erase those find it.
const (
	changeKey = "change"
	beforeKey = "before"
)

// details are the fields of a result that tell of the change.
func (c Change) details() []jsonv.Member {
	fields := []jsonv.Member{
		jsonv.F("file", jsonv.Str(c.File)), jsonv.F("before", c.Before.value()), jsonv.F("after", c.After.value()),
	}
	if c.Why != "" {
		fields = append(fields, jsonv.F("unkept", jsonv.Str(string(c.Why))))
	}
	out := []jsonv.Member{jsonv.F(changeKey, jsonv.Obj(fields...))}
	if c.Kept != nil {
		out = append(out, blobDetails([]jsonv.Value{c.Kept.Value().With(beforeKey, jsonv.Boolean(true))})...)
	}
	return out
}

// ChangeIn reads what the details of a result say of a change. ok is false when they
// tell of none; one that cannot be read is a [*corrupt.Report].
func ChangeIn(details *jsonv.Value) (c Change, ok bool, err error) {
	if details == nil {
		return Change{}, false, nil
	}
	v, ok := details.Get(changeKey)
	if !ok {
		return Change{}, false, nil
	}
	const boundary = "tools.ChangeIn"
	r := jsonv.Read(v, boundary)
	c.File = r.Str("file")
	c.Before, c.After = contentIn(r, "before"), contentIn(r, "after")
	if why := r.OptStr("unkept"); why != nil {
		c.Why = Unkept(*why)
	}
	if err := r.Err(); err != nil {
		return Change{}, false, err
	}
	if c.File == "" {
		return Change{}, false, corrupt.New(boundary, "file", "a path", "an empty text")
	}
	if list, there := details.Get(blob.DetailsKey); there && list.Kind() == jsonv.Array {
		for _, e := range list.Elems() {
			if _, of := e.Get(beforeKey); !of {
				continue
			}
			ref, err := blob.ParseRef(e)
			if err != nil {
				return Change{}, false, err
			}
			c.Kept = &ref
		}
	}
	return c, true, nil
}

// keeper keeps what files held before they are changed, within bounds.
type keeper struct {
	mu    sync.Mutex
	known bool  // guarded by mu: used was read
	used  int64 // guarded by mu: bytes that the session keeps
}

// room takes n bytes of what the session may keep.
func (k *keeper) room(s *blob.Store, n int64) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.known {
		refs, err := s.List()
		if err != nil {
			return false, err
		}
		for _, r := range refs {
			k.used += r.Size
		}
		k.known = true
	}
	if k.used+n > keptSession {
		return false, nil
	}
	k.used += n
	return true, nil
}

// changing keeps what a file holds that is about to be changed. It never keeps a call
// from running: what cannot be kept cannot be taken back, and that is noted.
func (k toolkit) changing(at place, before holding, after []byte) Change {
	c := Change{File: at.rel, Before: before.content, After: contentOf(after)}
	if before.content != (Content{}) {
		c.Kept, c.Why = k.keepFile(before)
	}
	return c
}

func (k toolkit) keepFile(h holding) (*blob.Ref, Unkept) {
	if k.blobs == nil {
		return nil, UnkeptOff
	}
	if h.size > keptFile {
		return nil, UnkeptLarge
	}
	if _, found := k.secrets.Bytes(h.bytes); found > 0 {
		return nil, UnkeptSecret
	}
	room, err := k.kept.room(k.blobs, h.size)
	if err != nil {
		return nil, UnkeptFailed
	}
	if !room {
		return nil, UnkeptFull
	}
	ref, err := k.blobs.PutBytes(h.bytes)
	if err != nil {
		return nil, UnkeptFailed
	}
	return &ref, ""
}

// holding is what a file holds; the zero holding is no file.
type holding struct {
	content Content
	size    int64
	lines   int
	bytes   []byte // nil for more than fileLimit
}

// held holds bytes that were read whole.
func held(p []byte) holding {
	return holding{contentOf(p), int64(len(p)), countLines(p), p}
}

// holds reads what a file holds, which may be more than memory should.
func (w *workspace) holds(at place) (h holding, err error) {
	f, info, err := w.openRegular(at)
	if err != nil {
		return h, err
	}
	defer func() { _ = f.Close() }() // it was only read
	if info.Size() <= fileLimit {
		p, err := io.ReadAll(io.LimitReader(f, fileLimit+1))
		if err != nil {
			return h, w.failure(at.shown, err)
		}
		if len(p) <= fileLimit {
			return held(p), nil
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return h, w.failure(at.shown, err)
		}
	}
	var lines lineCounter
	sum := sha256.New()
	if h.size, err = io.Copy(io.MultiWriter(sum, &lines), f); err != nil {
		return h, w.failure(at.shown, err)
	}
	h.content, h.lines = contentOfSum([sha256.Size]byte(sum.Sum(nil))), lines.count()
	return h, nil
}
