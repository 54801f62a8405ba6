package admin

import (
	"errors"
	"io"
	"strings"

	"github.com/loom-run/loom/blob"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/needle"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/session/check"
	"github.com/loom-run/loom/session/repo"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlite"
)

// sight is what was seen of one session.
type sight struct {
	own, parent id.SessionID // as its registers say; may be absent
	held        *storage.LeaseHeld
	next        int64 // seq of the next write
	found       Found
	refs        map[string]blob.Ref // outputs that its rows refer to, by digest
	refused     error               // why a transform would refuse a row
	damaged     bool                // a row cannot be read
}

// look searches a session, as rows and as bytes, without touching it.
func (w *Work) look(p Place) (s sight, err error) {
	r, err := sqlite.OpenReader(p.File)
	if err != nil {
		return sight{}, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if s, err = w.rows(r); err != nil {
		return sight{}, err
	}
	if s.held, err = r.Held(w.root.Clock()); err != nil {
		return sight{}, err
	}
	err = r.Bytes(func(_ string, content io.Reader) error {
		found, err := w.Needle.InBytes(content)
		s.found.Bytes = s.found.Bytes || found
		return err
	})
	return s, err
}

// rows searches the rows of a session.
func (w *Work) rows(r check.Store) (sight, error) {
	v := session.NewView(r)
	snap, err := r.Snapshot()
	if err != nil {
		return sight{}, err
	}
	s := &searcher{needle: w.Needle, entries: repo.EraseText(w.eraser), values: checked(repo.EraseValue(w.eraser))}
	s.refs, s.next = make(map[string]blob.Ref), snap.Next
	if err := r.Walk(s); err != nil {
		return sight{}, err
	}
	if s.damaged {
		return s.sight, nil
	}
	if s.own, _, err = v.ID(); err == nil {
		s.parent, _, err = v.ParentID()
	}
	return s.sight, err
}

// checked is a transform whose result the codec of its register accepts.
func checked(f repo.ValueRewrite) repo.ValueRewrite {
	return func(a register.Address, v jsonv.Value) (jsonv.Value, bool, error) {
		out, changed, err := f(a, v)
		if err == nil && changed && a != (register.Address{}) {
			err = check.Cell(a, register.Cell{Value: out})
		}
		return out, changed, err
	}
}

// searcher counts while a session is walked.
type searcher struct {
	sight
	needle  needle.Needle
	entries repo.EntryRewrite
	values  repo.ValueRewrite
}

var _ storage.Visitor = (*searcher)(nil)

// Session implements storage.Visitor.
func (s *searcher) Session(storage.Stats, int64) {}

// Damage implements storage.Visitor.
func (s *searcher) Damage(storage.Damage) { s.damaged = true }

// Entry implements storage.Visitor.
func (s *searcher) Entry(e entry.Entry) {
	v, err := jsonv.Parse(entry.Encode(e))
	if err != nil {
		s.damaged = true
		return
	}
	var f Found
	for name, field := range v.Fields() {
		switch name {
		case "id", "parentId":
			f.IDs += s.id(field)
		default:
			f.add(s.value(field))
		}
	}
	s.found.add(f)
	if f.Texts+f.IDs > 0 {
		s.ask(second(s.entries.Apply(e)))
	}
}

// Usage implements storage.Visitor.
func (s *searcher) Usage(row entry.UsageRow) {
	var w jsonv.Writer
	entry.AppendUsageRow(&w, row)
	v, err := jsonv.Parse(w.Bytes())
	if err != nil {
		s.damaged = true
		return
	}
	for name, field := range v.Fields() {
		switch name {
		case "id", "entryId":
			s.found.IDs += s.id(field)
		case "details":
			s.found.add(s.value(field))
		default:
			f := s.value(field)
			f.Names += f.Texts // words of the format, which are not written anew
			f.Texts = 0
			s.found.add(f)
		}
	}
}

// Register implements storage.Visitor.
func (s *searcher) Register(ns, key string, c register.Cell) {
	if s.needle.In(key) {
		s.found.Keys++
	}
	f := s.value(c.Value)
	s.found.add(f)
	if f.Texts > 0 {
		s.ask(second(s.values.Apply(register.Address{NS: register.Namespace(ns), Key: key}, c.Value)))
	}
}

func second[A, B any](_ A, _ B, err error) error { return err }

func (s *searcher) ask(err error) {
	if s.refused == nil {
		s.refused = err
	}
}

func (s *searcher) id(v jsonv.Value) int64 {
	if text, _ := v.Text(); s.needle.In(text) {
		return 1
	}
	return 0
}

// value counts in one value, and notes what it refers to.
func (s *searcher) value(v jsonv.Value) (f Found) {
	switch v.Kind() {
	case jsonv.String:
		text, _ := v.Text()
		f.Texts = int64(s.needle.Count(text))
	case jsonv.Int, jsonv.Float:
		if literal, _ := v.Literal(); s.needle.In(literal) {
			f.Numbers = 1
		}
	case jsonv.Array:
		for _, e := range v.Elems() {
			f.add(s.value(e))
		}
	case jsonv.Object:
		if _, ok := v.Get(blob.DetailsKey); ok {
			s.refer(v)
		}
		for name, field := range v.Fields() {
			if s.needle.In(name) {
				f.Names++
			}
			f.add(s.value(field))
		}
	default: // null and booleans
		if s.needle.In(v.String()) {
			f.Numbers = 1
		}
	}
	return f
}

// refer notes the outputs of one object that lists some.
func (s *searcher) refer(v jsonv.Value) {
	refs, err := blob.InDetails(&v)
	if err != nil {
		return // a check tells of it
	}
	for _, r := range refs {
		s.refs[r.SHA256] = r
	}
}

// renamed is a text in which digests of outputs are replaced by others.
type renamed struct {
	replacer *strings.Replacer
	refs     map[string]blob.Ref // by the old digest
	fresh    map[string]blob.Ref // by the new one
}

func newRenamed(refs map[string]blob.Ref) *renamed {
	r := &renamed{refs: refs, fresh: make(map[string]blob.Ref)}
	var pairs []string
	for old, to := range refs {
		pairs = append(pairs, old, to.SHA256)
		r.fresh[to.SHA256] = to
	}
	r.replacer = strings.NewReplacer(pairs...)
	return r
}

// edit replaces digests in one text. Digests have one length and no case, so that
// one is never a part of another.
func (r *renamed) edit(text string) (string, int) {
	out := r.replacer.Replace(text)
	if out == text {
		return text, 0
	}
	return out, 1
}

// sized gives references to new outputs the size of those.
func (r *renamed) sized(v jsonv.Value) (jsonv.Value, bool) {
	switch v.Kind() {
	case jsonv.Array:
		elems, changed := make([]jsonv.Value, 0, v.Len()), false
		for _, e := range v.Elems() {
			out, differs := r.sized(e)
			elems, changed = append(elems, out), changed || differs
		}
		if changed {
			return jsonv.Arr(elems...), true
		}
	case jsonv.Object:
		changed := false
		for name, field := range v.Fields() {
			out, differs := r.sized(field)
			if name == blob.DetailsKey && field.Kind() == jsonv.Array {
				out, differs = r.list(field)
			}
			if differs {
				v, changed = v.With(name, out), true
			}
		}
		return v, changed
	default: // nothing refers
	}
	return v, false
}

func (r *renamed) list(v jsonv.Value) (jsonv.Value, bool) {
	elems, changed := make([]jsonv.Value, 0, v.Len()), false
	for _, e := range v.Elems() {
		digest, _ := e.Get("sha256")
		text, _ := digest.Text()
		if ref, ok := r.fresh[text]; ok {
			e, changed = e.With("size", jsonv.Num(ref.Size)), true
		}
		elems = append(elems, e)
	}
	return jsonv.Arr(elems...), changed
}
