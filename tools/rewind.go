package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"

	"github.com/loom-run/loom/blob"
	"github.com/loom-run/loom/core/message"
)

// History is what calls did to files, in the order in which they did it. The zero
// History is empty.
type History struct {
	changes map[string][]Change // by file
	cut     []string            // paths that calls named whose outcome is unknown, as they named them
}

// Add notes a result. One that changed no file is passed over.
func (h *History) Add(r *message.ToolResult) error {
	c, ok, err := ChangeIn(r.Details)
	if err != nil || !ok {
		return err
	}
	if h.changes == nil {
		h.changes = make(map[string][]Change)
	}
	h.changes[c.File] = append(h.changes[c.File], c)
	return nil
}

// Cut notes paths that calls were going to change of which nobody knows whether they did.
func (h *History) Cut(paths ...string) { h.cut = append(h.cut, paths...) }

// TargetOf is the file that a call is going to change; ok is false for a call of a tool
// that changes none, or changes what it does not name.
func TargetOf(c message.ToolCall) (path string, ok bool) {
	if c.Name != writeName && c.Name != editName {
		return "", false
	}
	v, _ := c.Arguments.Get("path")
	return v.Text()
}

// Rewinding is what is taken back.
type Rewinding struct {
	Workspace string // as in [Deps]
	Closed    []string
	Blobs     *blob.Store
	History   History
	DryRun    bool // only look
}

// Rewound says what was taken back, or would be.
type Rewound struct {
	Changed    []string // files, sorted
	Refused    []RefusedFile
	Insertions int64 // lines
	Deletions  int64
}

// RefusedFile is a file that was left as it is.
type RefusedFile struct {
	Path string
	Why  string // one sentence
}

// Rewind brings the files of a history back to what they held before it, each whole or
// not at all, in the order of their names. What it has done already it finds done, so
// that one which was cut off is completed by another.
//
// A file is taken back when it holds now what the tools of the session found in it or
// wrote into it since, for all of that is known. Anything else in it, now or between
// two calls, is somebody's work: it is refused, and so is a file whose way leads
// through a link now, and one of which nothing was kept.
func Rewind(q Rewinding) (out Rewound, err error) {
	room, err := openWorkspace(q.Workspace, q.Closed)
	if err != nil {
		return Rewound{}, err
	}
	defer func() { err = errors.Join(err, room.close()) }()
	r := rewinder{room, q.Blobs, q.DryRun}
	for _, file := range slices.Sorted(maps.Keys(q.History.changes)) {
		delta, changed, err := r.file(file, q.History.changes[file])
		if err != nil {
			out.Refused = append(out.Refused, RefusedFile{file, err.Error()})
			continue
		}
		if changed {
			out.Changed = append(out.Changed, file)
			out.Insertions += int64(delta.inserted)
			out.Deletions += int64(delta.deleted)
		}
	}
	for _, file := range r.unaccounted(q.History) {
		out.Refused = append(out.Refused, RefusedFile{file, "a call that was cut off may have changed it, and what it was before is not known"})
	}
	return out, nil
}

type rewinder struct {
	room   *workspace
	blobs  *blob.Store
	dryRun bool
}

// unaccounted are the files that calls of unknown outcome named and no other call
// changed: of these nothing is known.
func (r rewinder) unaccounted(h History) (files []string) {
	for _, arg := range h.cut {
		at, err := r.room.resolve(arg)
		if err != nil {
			at.rel = clip(arg, 200) // that it cannot be reached does not say that nothing was done
		}
		if _, known := h.changes[at.rel]; !known && !slices.Contains(files, at.rel) {
			files = append(files, at.rel)
		}
	}
	slices.Sort(files)
	return files
}

// file takes one file back. The error is a sentence about it.
func (r rewinder) file(file string, changes []Change) (d lineDelta, changed bool, err error) {
	at, err := r.room.resolveForWriting(file)
	if err != nil {
		return d, false, err
	}
	if at.rel != file {
		return d, false, refusePath("a link is on the way to it that was not there")
	}
	info, err := r.room.existing(at)
	if err != nil {
		return d, false, err
	}
	var now holding
	if info != nil {
		if now, err = r.room.holds(at); err != nil {
			return d, false, err
		}
	}
	switch v := judge(changes, now.content).(type) {
	case standsAlready:
		return d, false, nil
	case leaveAlone:
		return d, false, refusePath("%s", v.why)
	case takeBack:
		then, err := r.then(v.to)
		if err != nil {
			return d, false, err
		}
		if !r.dryRun {
			err = r.put(at, v.to.Before, then, info)
		}
		return deltaOf(now, held(then)), err == nil, err
	}
	panic("tools: a verdict of another kind")
}

// then reads what a file held before a change, which is checked to be that: an erasure
// may have taken a part out of it.
func (r rewinder) then(c Change) ([]byte, error) {
	if c.Before == (Content{}) {
		return nil, nil
	}
	f, err := r.blobs.Open(*c.Kept)
	if err != nil {
		return nil, refusePath("what it was before is not there any more")
	}
	defer func() { _ = f.Close() }() // it was only read
	p, err := io.ReadAll(io.LimitReader(f, keptFile+1))
	if err != nil {
		return nil, refusePath("what it was before cannot be read: %v", err)
	}
	if contentOf(p) != c.Before {
		return nil, refusePath("what it was before is not whole any more, as after an erasure")
	}
	return p, nil
}

// put makes a file what it was. The name beside it follows from its own, so that what a
// killed process left there is used up by the next attempt.
func (r rewinder) put(at place, before Content, then []byte, info fs.FileInfo) error {
	sum := sha256.Sum256([]byte(at.rel))
	temp := filepath.FromSlash(path.Join(path.Dir(at.rel), ".loom-rewind-"+hex.EncodeToString(sum[:8])+".tmp"))
	if err := r.room.root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r.room.failure(at.shown, err)
	}
	if before != (Content{}) {
		return r.room.replaceThrough(temp, at, then, info)
	}
	if err := r.room.root.Remove(filepath.FromSlash(at.rel)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r.room.failure(at.shown, err)
	}
	return nil
}

// verdict is what becomes of a file.
type verdict interface{ verdict() }

type (
	standsAlready struct{}
	takeBack      struct{ to Change } // to what was before it
	leaveAlone    struct{ why string }
)

func (standsAlready) verdict() {}
func (takeBack) verdict()      {}
func (leaveAlone) verdict()    {}

// judge decides about a file from what was done to it and what it holds now. There is
// at least one change.
func judge(changes []Change, now Content) verdict {
	first := changes[0]
	known := map[Content]bool{first.Before: true, first.After: true}
	for _, c := range changes[1:] {
		if !known[c.Before] {
			return leaveAlone{"something other than the tools of this session changed it between two calls, and that would be lost"}
		}
		known[c.After] = true
	}
	switch {
	case now == first.Before:
		return standsAlready{}
	case !known[now] && now == (Content{}):
		return leaveAlone{"it was removed since"}
	case !known[now]:
		return leaveAlone{"it was changed since by something other than the tools of this session"}
	case first.Before != (Content{}) && first.Kept == nil:
		return leaveAlone{unkeptSentence(first.Why)}
	}
	return takeBack{first}
}

func unkeptSentence(why Unkept) string {
	switch why {
	case UnkeptSecret:
		return "what it was before held a secret, and no secret is kept"
	case UnkeptLarge:
		return "what it was before was too large to be kept"
	case UnkeptFull:
		return "what it was before was not kept: the session keeps as much as it may"
	case UnkeptFailed, UnkeptOff:
	}
	return "what it was before was not kept"
}
