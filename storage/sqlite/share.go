package sqlite

import (
	"encoding/binary"
	"fmt"
	"iter"
	"unsafe"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/register"
)

// A compaction keeps the messages of its tail, and so does the frozen input of a
// summary. These messages are entries already, so the file does not store their
// bytes again: the payload has a gap, and its shares say which bytes of which
// entry's stored payload belong there. A share never leads into a gap, so reading
// one is one step.

// stored is a payload as it lies in its row.
type stored struct {
	text   []byte
	shares []byte // nil for none
}

// share is one gap: length bytes from from on of the payload stored at seq belong at
// at in the text as it is stored here.
type share struct{ at, seq, from, length int64 }

const shareSize = 4 * 8

// Only what is long enough is shared: a message of fewer bytes than shareFloor costs
// about as much as a look for it, and a payload of fewer than shareWorth is one page.
const (
	shareFloor = 256
	shareWorth = 2048
)

func readStored(c *columns) stored {
	shares := c.optBlob()
	return stored{c.blob(), shares}
}

// digest is the digest of an entry's payload.
func (s stored) digest() int64 {
	d := digestOf('p')
	d.optBlob(s.shares)
	d.blob(s.text)
	return d.sum()
}

// gaps decodes the shares.
func (s stored) gaps() ([]share, error) {
	if len(s.shares)%shareSize != 0 {
		return nil, corrupt.New("sqlite.shares", "shares", "records of 32 bytes", fmt.Sprintf("%d bytes", len(s.shares)))
	}
	list := make([]share, len(s.shares)/shareSize)
	for i := range list {
		num := func(k int) int64 { return int64(binary.BigEndian.Uint64(s.shares[i*shareSize+8*k:])) }
		list[i] = share{num(0), num(1), num(2), num(3)}
	}
	return list, nil
}

// whole is the payload with its gaps filled. before is the seq of its row.
func (s stored) whole(c *conn, before int64) ([]byte, error) {
	if s.shares == nil {
		return s.text, nil
	}
	gaps, err := s.gaps()
	if err != nil {
		return nil, err
	}
	text, done := make([]byte, 0, 2*len(s.text)), int64(0)
	for _, g := range gaps {
		if g.at < done || g.at > int64(len(s.text)) || g.seq >= before {
			return nil, corrupt.New("sqlite.shares", "share", "a gap of the text and an earlier entry", fmt.Sprintf("%+v", g))
		}
		text = append(text, s.text[done:g.at]...)
		source, err := c.source(g.seq)
		if err != nil {
			return nil, err
		}
		part, ok := cutOut(source.text, g)
		if !ok {
			return nil, corrupt.New("sqlite.shares", "share", fmt.Sprintf("a part of the %d bytes at seq %d", len(source.text), g.seq), fmt.Sprintf("%+v", g))
		}
		text, done = append(text, part...), g.at
	}
	return append(text, s.text[done:]...), nil
}

func cutOut(b []byte, g share) ([]byte, bool) {
	n := int64(len(b))
	if g.from < 0 || g.length < 0 || g.from > n || g.length > n-g.from {
		return nil, false
	}
	return b[g.from : g.from+g.length], true
}

// sourceAt is [rowAt] in other words: a statement that is read from cannot be begun
// again, and shares are followed while rows are read.
const sourceAt = "SELECT " + entryColumns + " FROM entries e WHERE e.seq = +?"

// source reads the stored payload of the entry at seq.
func (c *conn) source(seq int64) (stored, error) {
	r, ok, err := c.One(sourceAt, seq)
	if err != nil {
		return stored{}, err
	}
	if !ok {
		return stored{}, corrupt.New("sqlite.shares", "share", fmt.Sprintf("an entry at seq %d", seq), "none")
	}
	cols := read(r, "entry")
	return payloadOf(readHead(cols), cols)
}

// shareable reports whether a cell may hold messages of the session.
func shareable(ns register.Namespace) bool { return ns == register.OpPreparation }

// search for the messages of one payload among the entries.
type sharing struct {
	text   []byte
	wanted map[string][]int64 // bytes of a message, and where in text they are
	found  map[int64]share    // by at
	left   int                // messages not found yet
}

// wants lists the messages of a payload: the objects in arrays that are members of
// the outermost object. nil when there is nothing to look for.
func wants(payload []byte) *sharing {
	if len(payload) < shareWorth {
		return nil
	}
	s := &sharing{text: payload, wanted: map[string][]int64{}, found: map[int64]share{}}
	for _, v := range members(payload) {
		for at, object := range elements(payload, v) {
			if len(object) >= shareFloor {
				s.wanted[view(object)] = append(s.wanted[view(object)], at)
			}
		}
	}
	if s.left = len(s.wanted); s.left == 0 {
		return nil
	}
	return s
}

// view is b as a string; nobody changes b meanwhile.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// offer compares one row with what is still wanted. It reports whether anything is.
func (s *sharing) offer(c *conn, h *head, row stored) (more bool, err error) {
	switch h.kind {
	case entry.KindMessage:
		if at, ok := members(row.text)["message"]; ok {
			s.take(row.text[at.from:at.to], h.seq, at.from)
		}
	case entry.KindCompaction:
		for _, v := range members(row.text) {
			for at, object := range elements(row.text, v) {
				s.take(object, h.seq, at)
			}
		}
		gaps, err := row.gaps()
		if err != nil {
			return false, err
		}
		for _, g := range gaps {
			if s.left == 0 {
				break
			}
			source, err := c.source(g.seq)
			if err != nil {
				return false, err
			}
			if part, ok := cutOut(source.text, g); ok {
				s.take(part, g.seq, g.from)
			}
		}
	case entry.KindBranchSummary, entry.KindCustom:
	}
	return s.left > 0, nil
}

func (s *sharing) take(message []byte, seq, from int64) {
	places, ok := s.wanted[view(message)]
	if !ok {
		return
	}
	delete(s.wanted, view(message))
	s.left--
	for _, at := range places {
		s.found[at] = share{at, seq, from, int64(len(message))}
	}
}

// stored is the payload with what was found taken out.
func (s *sharing) stored() stored {
	if len(s.found) == 0 {
		return stored{text: s.text}
	}
	var out stored
	done := int64(0)
	for at := range positions(s.text) {
		g, ok := s.found[at]
		if !ok || at < done {
			continue
		}
		out.text = append(out.text, s.text[done:at]...)
		done = at + g.length
		for _, n := range []int64{int64(len(out.text)), g.seq, g.from, g.length} {
			out.shares = binary.BigEndian.AppendUint64(out.shares, uint64(n))
		}
	}
	out.text = append(out.text, s.text[done:]...)
	return out
}

// positions are those of the objects that [wants] looks at, in order.
func positions(payload []byte) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for _, v := range inOrder(payload) {
			for at := range elements(payload, v) {
				if !yield(at) {
					return
				}
			}
		}
	}
}

// storeEntry takes out of a compaction what lies on its path: messages from its
// parent down to the compaction before, and what that one has in its tail.
func (a *application) storeEntry(h *head, payload []byte) (stored, error) {
	if h.kind != entry.KindCompaction || h.parent == nil {
		return stored{text: payload}, nil
	}
	s := wants(payload)
	if s == nil {
		return stored{text: payload}, nil
	}
	from, err := a.heads.at(a.w, *h.parent)
	if err != nil {
		return stored{}, err
	}
	scan := branchScan{c: a.w}
	err = scan.walk(from, func(at *head, rest *columns) (bool, error) {
		row, err := payloadOf(at, rest)
		if err != nil {
			return false, err
		}
		more, err := s.offer(a.w, at, row)
		return more && at.kind != entry.KindCompaction, err
	})
	return s.stored(), err
}

// storeCell does the same for the frozen input of a summary. A cell has no path, so
// the newest entries of the session are looked at, and not more of them than would
// hold the cell a few times over.
func (a *application) storeCell(ns register.Namespace, value []byte) (stored, error) {
	if !shareable(ns) {
		return stored{text: value}, nil
	}
	s := wants(value)
	if s == nil {
		return stored{text: value}, nil
	}
	budget := 4 * len(value)
	err := a.w.Each("SELECT "+entryColumns+" FROM entries e ORDER BY e.seq DESC", func(r row) (bool, error) {
		cols := read(r, "entry")
		h := readHead(cols)
		row, err := payloadOf(h, cols)
		if err != nil {
			return false, err
		}
		budget -= len(row.text)
		more, err := s.offer(a.w, h, row)
		return more && budget > 0, err
	})
	return s.stored(), err
}

// payloadOf reads the columns of the payload, which follow the head, and verifies them by it.
func payloadOf(h *head, rest *columns) (stored, error) {
	s := readStored(rest)
	rest.verify(h.payload, s.digest())
	return s, rest.damaged()
}

// span is where a value lies.
type span struct{ from, to int64 }

// members lists the members of a JSON object as the codecs write them: compact and
// valid. Of anything else it lists nothing or something useless, which costs a
// chance to share and no more.
func members(b []byte) map[string]span {
	m := make(map[string]span)
	for name, v := range inOrder(b) {
		m[name] = v
	}
	return m
}

func inOrder(b []byte) iter.Seq2[string, span] {
	return func(yield func(string, span) bool) {
		if len(b) == 0 || b[0] != '{' {
			return
		}
		for i := 1; i < len(b) && b[i] == '"'; {
			name := i
			i = pastValue(b, i)
			if i >= len(b) || b[i] != ':' {
				return
			}
			from := i + 1
			i = pastValue(b, from)
			if !yield(string(b[name+1:max(name+1, from-2)]), span{int64(from), int64(i)}) {
				return
			}
			if i < len(b) && b[i] == ',' {
				i++
			}
		}
	}
}

// elements lists the objects of an array, and where each begins.
func elements(b []byte, v span) iter.Seq2[int64, []byte] {
	return func(yield func(int64, []byte) bool) {
		if v.to-v.from < 2 || b[v.from] != '[' {
			return
		}
		for i := int(v.from) + 1; i < int(v.to)-1; {
			from := i
			if i = pastValue(b, i); b[from] == '{' && !yield(int64(from), b[from:i]) {
				return
			}
			if i == from || i < len(b) && b[i] == ',' {
				i++
			}
		}
	}
}

// pastValue is the index behind the value at i.
func pastValue(b []byte, i int) int {
	depth := 0
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return min(i+1, len(b))
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			} else if depth < 0 {
				return i
			}
		case ',', ':':
			if depth == 0 {
				return i
			}
		}
	}
	return len(b)
}
