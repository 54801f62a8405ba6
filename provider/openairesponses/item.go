package openairesponses

import (
	"strings"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/provider/dialect"
)

// itemKind tells the items of an output apart.
type itemKind uint8

const (
	unknownItem itemKind = iota // not begun
	messageItem
	reasoningItem
	callItem
	opaqueItem
)

// item is one item of the output being assembled.
type item struct {
	fold  *fold
	kind  itemKind
	ended bool

	parts map[int64]*dialect.Block // of a message, by content index
	block *dialect.Block           // of reasoning and of a call
	part  int64                    // of reasoning: the part that came last
}

// outputIndex is the index of the item that an event is about.
func outputIndex(v jsonv.Value) int64 {
	field, _ := v.Get("output_index")
	n, _ := field.Int64()
	return n
}

func (f *fold) item(v jsonv.Value) *item { return f.itemAt(outputIndex(v)) }

func (f *fold) itemAt(index int64) *item {
	it := f.items[index]
	if it == nil {
		it = &item{fold: f, part: -1}
		f.items[index] = it
	}
	return it
}

// begin opens an item. One that is opened again is a repetition.
func (it *item) begin(v jsonv.Value) {
	inner, _ := v.Get("item")
	it.become(kindOf(inner))
	if it.kind == callItem && it.block.ID() == "" {
		it.block.Take(dialect.Text(inner, "call_id"), dialect.Text(inner, "name"), "")
	}
}

func kindOf(v jsonv.Value) itemKind {
	switch dialect.Text(v, "type") {
	case "message":
		return messageItem
	case "reasoning":
		return reasoningItem
	case "function_call":
		return callItem
	}
	return opaqueItem
}

// become gives the item its kind, once.
func (it *item) become(kind itemKind) {
	if it.kind != unknownItem {
		return
	}
	it.kind = kind
	switch kind {
	case messageItem:
		it.parts = map[int64]*dialect.Block{}
	case reasoningItem:
		it.block = it.fold.answer.OpenThinking()
	case callItem:
		it.block = it.fold.answer.OpenCall()
	case unknownItem, opaqueItem:
	}
}

// is reports whether content of a kind may go into the item, which it may open.
func (it *item) is(kind itemKind) bool {
	it.become(kind)
	if it.kind != kind && it.kind != opaqueItem {
		it.fold.malformed("it sent content that does not belong to its item")
	}
	return it.kind == kind && !it.ended
}

func index(v jsonv.Value, name string) int64 {
	field, _ := v.Get(name)
	n, _ := field.Int64()
	return n
}

func (it *item) textPart(v jsonv.Value) *dialect.Block {
	at := index(v, "content_index")
	if it.parts[at] == nil {
		it.parts[at] = it.fold.answer.OpenText()
	}
	return it.parts[at]
}

func (it *item) text(v jsonv.Value, s string) {
	if it.is(messageItem) {
		it.textPart(v).Add(s)
	}
}

// textDone takes the text that the provider declares to be all of a part.
func (it *item) textDone(v jsonv.Value, all string) {
	if it.is(messageItem) {
		it.complete(it.textPart(v), all)
	}
}

func (it *item) complete(b *dialect.Block, all string) {
	if !b.Complete(all) {
		it.fold.answer.Note("text_disagrees", jsonv.Boolean(true))
	}
}

// reason continues reasoning. Its parts are paragraphs of one block.
func (it *item) reason(v jsonv.Value, name string) {
	if !it.is(reasoningItem) {
		return
	}
	if at := index(v, name); at != it.part && dialect.Text(v, "delta") != "" {
		if it.part = at; it.block.Shown() != "" {
			it.block.Add(paragraph)
		}
	}
	it.block.Add(dialect.Text(v, "delta"))
}

const paragraph = "\n\n"

func (it *item) arguments(s string) {
	if it.is(callItem) {
		it.block.Add(s)
	}
}

// argumentsDone takes the arguments that the provider declares to be all of them. A call that contradicts itself does not run.
func (it *item) argumentsDone(all string) {
	if it.is(callItem) {
		it.agree(all)
	}
}

// agree compares a call with the arguments that the provider states once more.
func (it *item) agree(all string) {
	if all != "" && !it.block.Complete(all) {
		it.block.Doubt("the provider sent two versions of the arguments")
	}
}

// done closes an item with all that belongs to it.
func (it *item) done(v jsonv.Value) {
	inner, _ := v.Get("item")
	kind := kindOf(inner)
	if !it.is(kind) {
		return
	}
	switch kind {
	case messageItem:
		it.messageDone(inner)
	case reasoningItem:
		it.reasoningDone(inner)
	case callItem:
		if name := dialect.Text(inner, "name"); it.block.ID() == "" || it.block.Name() != name {
			it.block.Take(dialect.Text(inner, "call_id"), name, "")
		}
		it.argumentsDone(dialect.ArgumentText(inner, "arguments"))
		if dialect.Text(inner, "status") != "incomplete" {
			it.block.End()
		}
	case opaqueItem:
		it.fold.answer.Opaque(dialect.First(dialect.Text(inner, "type"), "unknown item"), inner)
	case unknownItem:
	}
	it.ended = true
}

// messageDone completes the parts of a message. Each is signed with what the provider may want to be told back: which item it was, and its phase.
func (it *item) messageDone(inner jsonv.Value) {
	content, _ := inner.Get("content")
	for i, part := range content.Elems() {
		at := jsonv.Obj(jsonv.F("content_index", jsonv.Num(int64(i))))
		switch dialect.Text(part, "type") {
		case "output_text", "text":
			it.complete(it.textPart(at), dialect.Text(part, "text"))
		case "refusal": // what the model has to say
			it.complete(it.textPart(at), dialect.Text(part, "refusal"))
		default:
			it.fold.answer.Opaque(dialect.First(dialect.Text(part, "type"), "unknown part"), part)
		}
	}
	signature := signatureOf(inner)
	for _, b := range it.parts {
		if b.Shown() != "" && !b.Signed() {
			b.Sign(signature)
		}
	}
}

// maxMetadata bounds what is kept of an item beside its content, in bytes.
const maxMetadata = 1024

// signatureOf is what is kept of a message item beside its text; empty for nothing.
func signatureOf(inner jsonv.Value) string {
	var fields []jsonv.Member
	for _, name := range []string{"id", "phase"} {
		if s := dialect.Text(inner, name); s != "" && len(s) <= maxMetadata/4 {
			fields = append(fields, jsonv.F(name, jsonv.Str(s)))
		}
	}
	if fields == nil {
		return ""
	}
	return jsonv.Obj(fields...).String()
}

// reasoningDone completes reasoning with the text that the item has, and signs it with its encrypted content.
func (it *item) reasoningDone(inner jsonv.Value) {
	var paragraphs []string
	for _, name := range []string{"summary", "content"} {
		list, _ := inner.Get(name)
		for _, part := range list.Elems() {
			if s := dialect.Text(part, "text"); s != "" {
				paragraphs = append(paragraphs, s)
			}
		}
	}
	if all := strings.Join(paragraphs, paragraph); strings.HasPrefix(all, it.block.Shown()) {
		it.block.Add(all[len(it.block.Shown()):])
	}
	it.block.Sign(dialect.Text(inner, "encrypted_content"))
}
