package machine

import (
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
)

// Small pieces that the codecs of this package share.

// whole is what a decoder of a register returns: all of a value or nothing of it.
func whole[T any](v T, r *jsonv.Reader) (T, error) {
	if err := r.Err(); err != nil {
		var none T
		return none, err
	}
	return v, nil
}

func tree(write func(*jsonv.Writer)) jsonv.Value {
	var w jsonv.Writer
	write(&w)
	return w.Tree()
}

func optEntry(w *jsonv.Writer, name string, i id.EntryID) {
	w.Name(name)
	if i.IsZero() {
		w.Null()
		return
	}
	w.String(i.String())
}

// entryIfAny omits an absent id, where the format has an optional field rather
// than a null.
func entryIfAny(w *jsonv.Writer, name string, i id.EntryID) {
	if !i.IsZero() {
		w.Str(name, i.String())
	}
}

func entryList(w *jsonv.Writer, name string, list []id.EntryID) {
	w.Name(name)
	w.BeginArray()
	for _, i := range list {
		w.String(i.String())
	}
	w.EndArray()
}

func usageList(w *jsonv.Writer, name string, list []id.UsageID) {
	w.Name(name)
	w.BeginArray()
	for _, i := range list {
		w.String(i.String())
	}
	w.EndArray()
}

func decodeUsageID(v jsonv.Value) (id.UsageID, error) {
	s, ok := v.Text()
	if !ok {
		return id.UsageID{}, corrupt.New("machine.decodeUsageID", "id", "the text of a usage id", v.Kind().String())
	}
	return id.ParseUsageID(s)
}

func decodeOpID(v jsonv.Value) (id.OpID, error) {
	s, ok := v.Text()
	if !ok {
		return id.OpID{}, corrupt.New("machine.decodeOpID", "id", "the text of an operation id", v.Kind().String())
	}
	return id.ParseOpID(s)
}

// nullableEntry reads a required field that may be null.
func nullableEntry(r *jsonv.Reader, name string) id.EntryID {
	r.Value(name)
	return optionalEntry(r, name)
}

// optionalEntry reads a field that may be absent.
func optionalEntry(r *jsonv.Reader, name string) id.EntryID {
	if i := jsonv.OptOne(r, name, entry.DecodeID); i != nil {
		return *i
	}
	return id.EntryID{}
}
