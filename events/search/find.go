package search

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strconv"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/storage/sqlitedb"
)

// Ranked is how many of the newest matches are ordered by relevance. A person is told when
// there were more.
const Ranked = 1000

// MaxHits bounds the hits of one query.
const MaxHits = 200

// Hit is an entry that matches. It can be jumped to by its session and id whatever came
// later: rows are written once.
type Hit struct {
	Session id.SessionID
	Entry   id.EntryID
	Seq     int64
	Rewrite int64 // the generation of the session's rewrites that Seq is of
	At      int64 // Unix ms
	Role    words.SearchRole
	Tool    string // of a result
	Strand  string
	Excerpt Excerpt
	Copies  int // how many other sessions have the same row, as far as they were among the matches
}

// Result is what a query found.
type Result struct {
	Hits []Hit
	// Considered is how many of the newest matches were ordered by relevance, when there
	// were more than that; 0: all were.
	Considered int
	Next       string // of Newest: where the next page begins; empty: there is no more
	// Unreadable are sessions in which the host could not look for what is new.
	Unreadable []id.SessionID
}

type candidate struct {
	rowid int64
	score float64 // the better, the larger
}

// Find looks for entries. now is the time against which ages are taken, Unix ms. The error
// of a query that cannot be looked for is a [*QueryError].
func (x *Index) Find(q Query, now int64) (Result, error) {
	var terms []term
	var err error
	if q.recent() {
		q.Newest = true
	} else if terms, err = parse(q.Text); err != nil {
		return Result{}, err
	}
	lo, hi, err := q.span()
	if err != nil {
		return Result{}, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	var out Result
	// One transaction, so that what matches is what is read.
	err = x.c.Within("BEGIN", func() error {
		limit := min(max(q.Limit, 1), MaxHits)
		if q.Newest {
			return x.newest(&out, q, lo, hi, limit, terms)
		}
		return x.ranked(&out, q.match(terms), lo, hi, limit, now, terms)
	})
	return out, x.fault(err)
}

// span is the range of row numbers that a query asks about: lo inclusive, hi exclusive.
func (q Query) span() (lo, hi int64, err error) {
	hi = math.MaxInt64
	if q.Since > 0 {
		lo = numbered(q.Since)
	}
	if q.Until > 0 {
		hi = numbered(q.Until)
	}
	if q.Before != "" {
		before, err := strconv.ParseInt(q.Before, 10, 64)
		if err != nil || !q.Newest {
			return 0, 0, &QueryError{"the place to go on from is not one that a page of the newest ended at"}
		}
		hi = min(hi, before)
	}
	return lo, hi, nil
}

func numbered(ms int64) int64 { return min(ms, math.MaxInt64>>counterBits) << counterBits }

const matching = " FROM words WHERE words MATCH ? AND rowid >= ? AND rowid < ? ORDER BY rowid DESC LIMIT ?"

// newest takes matches by time until there are enough entries that differ.
func (x *Index) newest(out *Result, q Query, lo, hi int64, limit int, terms []term) error {
	seen := map[id.EntryID]int{}
	match, before := q.match(terms), int64(0)
	if q.Before != "" && q.Session.IsZero() && q.Workspace == "" {
		before = hi
	}
	for len(out.Hits) < limit {
		ask := limit - len(out.Hits) + 1
		var rows []int64
		if err := x.c.Each("SELECT rowid"+matching, func(r sqlitedb.Row) (bool, error) {
			rows = append(rows, number(r[0]))
			return true, nil
		}, match, lo, hi, int64(ask)); err != nil {
			return err
		}
		for i, rowid := range rows {
			if i == ask-1 { // there is one more than was wanted
				break
			}
			shown, err := x.shown(rowid, before)
			if err == nil && !shown {
				err = x.take(out, seen, rowid, terms)
			}
			if err != nil {
				return err
			}
			hi = rowid
		}
		if len(rows) < ask {
			return nil
		}
	}
	out.Next = strconv.FormatInt(hi, 10)
	return nil
}

// shown reports whether an earlier page, which ended at before, had a copy of the row. Copies
// are of one time, so they stand beside each other.
func (x *Index) shown(rowid, before int64) (bool, error) {
	if before == 0 || rowid>>counterBits != before>>counterBits {
		return false, nil
	}
	_, ok, err := x.c.One("SELECT 1 FROM row a JOIN row b ON b.entry = a.entry WHERE a.id = ? AND b.id >= ? AND b.id < ?", rowid, before, (before>>counterBits+1)<<counterBits)
	return ok, err
}

// halfLife is the age at which a match counts half as much as a new one, besides a floor:
// what is old and matches well is still found.
const halfLife = 30 * 24 * 3600 * 1000 // ms

// ranked orders the newest matches by relevance and age.
func (x *Index) ranked(out *Result, match string, lo, hi int64, limit int, now int64, terms []term) error {
	var list []candidate
	if err := x.c.Each("SELECT rowid, bm25(words, 1.0, 2.0, 0.0)"+matching, func(r sqlitedb.Row) (bool, error) {
		fit, _ := r[1].(float64) // the better, the smaller
		age := float64(max(now-number(r[0])>>counterBits, 0))
		list = append(list, candidate{number(r[0]), -fit * (0.5 + 0.5*math.Exp2(-age/halfLife))})
		return true, nil
	}, match, lo, hi, int64(Ranked+1)); err != nil {
		return err
	}
	if len(list) > Ranked {
		list = list[:Ranked]
		out.Considered = Ranked
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(b.score, a.score) })
	seen := map[id.EntryID]int{}
	for _, c := range list {
		if len(out.Hits) == limit {
			break
		}
		if err := x.take(out, seen, c.rowid, terms); err != nil {
			return err
		}
	}
	return nil
}

var errGone = errors.New("a word leads to a row that is not there")

// take adds a row to the hits, or counts it where the same entry is among them.
func (x *Index) take(out *Result, seen map[id.EntryID]int, rowid int64, terms []term) error {
	r, ok, err := x.c.One("SELECT r.session, r.entry, r.seq, r.role, r.tool, r.strand, r.text, s.generation FROM row r JOIN source s ON s.session = r.session WHERE r.id = ?", rowid)
	if err != nil {
		return err
	}
	if !ok {
		return errGone
	}
	entry, err := id.ParseEntryID(sqlitedb.UUIDText(blob(r[1])))
	if err != nil {
		return err
	}
	if at, ok := seen[entry]; ok {
		out.Hits[at].Copies++
		return nil
	}
	session, err := id.ParseSessionID(sqlitedb.UUIDText(blob(r[0])))
	if err != nil {
		return err
	}
	seen[entry] = len(out.Hits)
	out.Hits = append(out.Hits, Hit{
		Session: session, Entry: entry, Seq: number(r[2]), At: rowid >> counterBits, Role: words.SearchRole(text(r[3])), Tool: text(r[4]), Strand: text(r[5]), Rewrite: number(r[7]),
		Excerpt: excerpt(text(r[6]), terms),
	})
	return nil
}
