package repo

import (
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/needle"
	"github.com/loom-run/loom/core/register"
)

// EraseText replaces the needle in every text of an entry, at any depth, and leaves
// the names of fields alone. What was replaced is read as an entry again: a needle
// that is a word of the format, or a part of an id, fails the rewrite as corruption
// and never makes a session that cannot be read.
//
// A provider signs some blocks, and refuses them changed. Reasoning that holds the
// needle, in its text or in its signature, goes as a whole. A text or a call keeps
// its signature, which is not over its words, unless the needle is in the signature
// itself: then that goes.
func EraseText(e needle.Eraser) EntryRewrite { return EditText(e.Erase, e.Replacement()) }

// EraseValue does to a value what [EraseText] does to an entry. A value has no codec
// here: that of its register is asked by whoever knows it.
func EraseValue(e needle.Eraser) ValueRewrite { return EditValue(e.Erase, e.Replacement()) }

// Edit changes a text and says in how many places.
type Edit func(text string) (edited string, times int)

// EditText is [EraseText] with any edit. mark stands for a message of which nothing
// is left.
func EditText(edit Edit, mark string) EntryRewrite {
	return func(e entry.Entry) (entry.Entry, bool, error) {
		before, err := jsonv.Parse(entry.Encode(e))
		if err != nil {
			return entry.Entry{}, false, err
		}
		after, changed := editor{edit, mark}.value(before)
		if !changed {
			return e, false, nil
		}
		out, err := entry.Decode(after)
		return out, err == nil, err
	}
}

// EditValue is [EraseValue] with any edit.
func EditValue(edit Edit, mark string) ValueRewrite {
	return func(_ register.Address, v jsonv.Value) (jsonv.Value, bool, error) {
		out, changed := editor{edit, mark}.value(v)
		return out, changed, nil
	}
}

type editor struct {
	edit Edit
	mark string
}

// value edits every text in v.
func (e editor) value(v jsonv.Value) (out jsonv.Value, changed bool) {
	switch v.Kind() {
	case jsonv.String:
		text, _ := v.Text()
		edited, times := e.edit(text)
		if times == 0 {
			return v, false
		}
		return jsonv.Str(edited), true
	case jsonv.Array:
		return e.array(v)
	case jsonv.Object:
		return e.object(v)
	default: // null, booleans and numbers hold no text
		return v, false
	}
}

// array leaves out signed reasoning that would change. A message that had nothing
// else gets a text in its place: providers refuse one without any block.
func (e editor) array(v jsonv.Value) (out jsonv.Value, changed bool) {
	elems := make([]jsonv.Value, 0, v.Len())
	for _, elem := range v.Elems() {
		edited, differs := e.value(elem)
		changed = changed || differs
		if differs && sealed(elem) {
			continue
		}
		elems = append(elems, edited)
	}
	if !changed {
		return v, false
	}
	if len(elems) == 0 && e.mark != "" {
		elems = append(elems, jsonv.Obj(jsonv.F("type", jsonv.Str("text")), jsonv.F("text", jsonv.Str(e.mark))))
	}
	return jsonv.Arr(elems...), true
}

// sealed reports whether a block is reasoning that its provider takes whole or not
// at all.
func sealed(block jsonv.Value) bool {
	kind, _ := block.Get("type")
	if word, ok := kind.Text(); !ok || word != "thinking" {
		return false
	}
	_, signed := block.Get("thinkingSignature")
	redacted, _ := block.Get("redacted")
	hidden, _ := redacted.Bool()
	return signed || hidden
}

// signatures are the fields whose value is taken whole or not at all.
var signatures = map[string]bool{"textSignature": true, "thoughtSignature": true}

func (e editor) object(v jsonv.Value) (out jsonv.Value, changed bool) {
	fields := make([]jsonv.Member, 0, v.Len())
	for name, field := range v.Fields() {
		edited, differs := e.value(field)
		changed = changed || differs
		if differs && signatures[name] && field.Kind() == jsonv.String {
			continue
		}
		fields = append(fields, jsonv.F(name, edited))
	}
	if !changed {
		return v, false
	}
	return jsonv.Obj(fields...), true
}
