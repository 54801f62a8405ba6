package project

import (
	"crypto/sha256"
	"strings"
	"unicode/utf8"

	"github.com/loom-run/loom/client/plane"
)

// Surface says what a host can do with text it has shown.
type Surface uint8

const (
	// Redraws is a host that can replace and take back what it showed.
	Redraws Surface = iota
	// Appends is a host whose text has left: a pipe, a log, a scrolled terminal.
	Appends
)

// Decide says what a host does when the authoritative text of a segment comes
// after shown has left. Both surfaces ask here and nowhere else.
//
// What counts is whether the final text still starts with the bytes that left,
// not whether something was flushed. Lengths are bytes, and a cut inside a
// character is no prefix: the rest would be unreadable.
//
//   - nothing was shown: [plane.Send] the final text, or [plane.Nothing] when
//     that is empty too
//   - the final text is what was shown: [plane.Nothing]
//   - it goes on where what was shown stops: the [plane.Rest]
//   - it is empty: [plane.Retract]
//   - it is another text: [plane.Replace] where the surface can, and
//     [plane.Withhold] where it cannot
func Decide(shown, final string, s Surface) plane.Verdict {
	switch {
	case shown == final:
		return plane.Nothing{}
	case shown == "":
		return plane.Send{Text: final}
	case final == "":
		return plane.Retract{}
	case strings.HasPrefix(final, shown) && utf8.RuneStart(final[len(shown)]):
		return plane.Rest{Text: final[len(shown):]}
	case s == Redraws:
		return plane.Replace{Text: final}
	default:
		return plane.Withhold{Text: final}
	}
}

// Ledger remembers the texts that were withheld. It compares whole texts, with
// white space made equal, and never parts: a short marker quoted in a later
// answer must not hide that answer. It keeps the newest 64.
type Ledger struct {
	keys []key
}

type key = [sha256.Size]byte

const ledgerSize = 64

func textKey(text string) key {
	return sha256.Sum256([]byte(strings.Join(strings.Fields(text), " ")))
}

// Add records a withheld text.
func (l *Ledger) Add(text string) {
	if len(l.keys) == ledgerSize {
		l.keys = append(l.keys[:0], l.keys[1:]...)
	}
	l.keys = append(l.keys, textKey(text))
}

// Holds reports whether that very text was withheld.
func (l *Ledger) Holds(text string) bool {
	k := textKey(text)
	for _, have := range l.keys {
		if have == k {
			return true
		}
	}
	return false
}
