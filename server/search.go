package server

import (
	"errors"
	"net/http"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/events/search"
	"github.com/loom-run/loom/wire"
)

// defaultHits is how many hits a page has when the client does not say.
const defaultHits = 20

func (s *Server) postSearch(r *http.Request, q wire.Search) (page wire.SearchPage, err error) {
	ask := search.Query{Text: q.Query, Newest: !q.Ranked, Limit: defaultHits}
	if q.Limit != nil {
		ask.Limit = int(min(*q.Limit, search.MaxHits))
	}
	if q.Session != nil {
		ask.Session = *q.Session
	}
	if q.Role != nil {
		ask.Role = *q.Role
	}
	if q.Kind != nil {
		ask.Kind = entry.Kind(*q.Kind)
	}
	for to, from := range map[*string]*string{&ask.Before: q.Before, &ask.Tool: q.Tool, &ask.Workspace: q.Workspace, &ask.Strand: q.Strand} {
		if from != nil {
			*to = *from
		}
	}
	for to, from := range map[*int64]*int64{&ask.Since: q.SinceMs, &ask.Until: q.UntilMs} {
		if from != nil {
			*to = max(*from, 1) // nothing is older
		}
	}
	found, err := s.host.Search(r.Context(), ask)
	if _, ok := errors.AsType[*search.QueryError](err); ok {
		return page, &Refusal{Code: wire.BadRequest, Message: err.Error(), Err: err}
	}
	if err != nil {
		return page, err
	}
	page.Hits = make([]wire.SearchHit, len(found.Hits))
	for i, h := range found.Hits {
		page.Hits[i] = searchHit(h)
	}
	if found.Next != "" {
		page.Next = &found.Next
	}
	if found.Considered > 0 {
		page.Considered = new(int64(found.Considered))
	}
	page.Unreadable = found.Unreadable
	return page, nil
}

// searchHit is a hit as a client is told it. Its cursor is that of the first frame of the
// row, in the generation that was indexed: one that was rewritten since is told as stale.
func searchHit(h search.Hit) wire.SearchHit {
	out := wire.SearchHit{
		Session: h.Session, Entry: h.Entry, Cursor: wire.Cursor{Generation: firstGeneration + h.Rewrite, Seq: h.Seq, Ordinal: 1}, Excerpt: h.Excerpt.Text,
		AtMs: new(count(h.At)), Role: h.Role, Strand: shownWord(h.Strand), Copies: int64(h.Copies),
	}
	if h.Tool != "" {
		out.Tool = new(shownWord(h.Tool))
	}
	for _, m := range h.Excerpt.Marks {
		out.Marks = append(out.Marks, wire.Mark{From: int64(m.From), To: int64(m.To)})
	}
	return out
}
