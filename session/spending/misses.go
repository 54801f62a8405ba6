package spending

import (
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/storage"
)

// Cause is why a cache probably did not serve a request. The provider does not say; these are what the rows show.
type Cause uint8

// The causes, in the order in which they are looked for.
const (
	// OtherModel is a request to another model than the one before: caches are of one model.
	OtherModel Cause = iota + 1
	// Compacted is a conversation whose beginning was replaced by a summary in between.
	Compacted
	// Expired is a request so long after the one before that the entry of the cache was gone.
	Expired
	// Unexplained is none of these: the tools or the system prompt changed, or the provider let the entry go.
	Unexplained
)

// Miss is a request that a cache served less of than the request before it had left there.
type Miss struct {
	Item
	// Again is how many tokens were sent again at more than the price of a read.
	Again int64
	// Idle is how long ago the request before was answered, in milliseconds.
	Idle  int64
	Cause Cause
}

// Bounds of what is told.
const (
	// worthTelling is the smallest miss, in tokens: caches work in blocks, and serve no prompt that is shorter than a thousand.
	worthTelling = 1024
	// shortLife and longLife are how long an entry lives after it was last used, in milliseconds.
	shortLife, longLife = 5 * 60 * 1000, 60 * 60 * 1000
)

// Misses finds the requests of a session that a cache could have served and did not, by seq.
func Misses(rows storage.Reader) ([]Miss, error) {
	asked := map[id.EntryID]Item{}
	for item, err := range Items(rows) {
		if err != nil {
			return nil, err
		}
		if _, observed := item.Usage.Observed(); observed && !item.Entry.IsZero() && item.Model != "" {
			asked[item.Entry] = item // of several requests of an attempt, the last
		}
	}
	var found []Miss
	seen := map[id.EntryID]before{}
	from := int64(0)
	for {
		list, err := rows.ScanEntries(storage.EntryQuery{FromSeq: &from, Limit: new(page), Bytes: 4 << 20})
		if err != nil {
			return nil, err
		}
		if len(list) == 0 {
			return found, nil
		}
		for _, e := range list {
			was := seen[e.Parent]
			if _, compacted := e.Body.(entry.Compaction); compacted {
				was.compacted = true
			}
			if item, ok := asked[e.ID]; ok {
				if m, missed := was.missed(item); missed {
					found = append(found, m)
				}
				was = before{item: item, answered: item.At}
				if m := response(e); m != nil {
					was.answered = max(was.answered, m.Timestamp)
				}
			}
			seen[e.ID] = was
		}
		from = list[len(list)-1].Seq + 1
	}
}

// before is the last request on the way to an entry; its item has no model where there was none.
type before struct {
	item      Item
	answered  int64 // Unix ms
	compacted bool  // since then
}

// missed judges a request by the one before it. What that one read from the cache or left there could be read again.
func (b before) missed(i Item) (Miss, bool) {
	could := b.item.Usage.CacheRead + b.item.Usage.CacheWrite
	m := Miss{Item: i, Again: could - i.Usage.CacheRead, Idle: max(0, i.At-b.answered), Cause: Unexplained}
	if could <= 0 || m.Again < worthTelling {
		return Miss{}, false
	}
	life := int64(shortLife)
	if long := b.item.Usage.CacheWrite1h; long != nil && *long > 0 {
		life = longLife
	}
	switch {
	case b.item.Provider != i.Provider || b.item.Model != i.Model:
		m.Cause = OtherModel
	case b.compacted:
		m.Cause = Compacted
	case m.Idle > life:
		m.Cause = Expired
	}
	return m, true
}
