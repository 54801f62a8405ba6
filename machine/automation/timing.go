package automation

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/loom-run/loom/core/jsonv"
)

// Timing says when a schedule is due: Every, Cron or At.
type Timing interface {
	timing()
	// latest is the last occurrence after one time and not after another, in Unix ms.
	latest(after, until int64) (int64, bool)
	// next is the first occurrence after one time and not after another.
	next(after, until int64) (int64, bool)
	// String is for people and models.
	String() string
}

// Bounds of [Every], in seconds.
const (
	MinEvery = 60
	MaxEvery = 604_800
)

// Every is due each time that Unix time is a multiple of so many seconds.
type Every struct{ Seconds int64 }

// At is due once.
type At struct{ Ms int64 } // Unix ms

func (Every) timing() {}
func (At) timing()    {}
func (Cron) timing()  {}

func (e Every) String() string { return fmt.Sprintf("every %d seconds", e.Seconds) }
func (a At) String() string    { return "at " + moment(a.Ms) }
func (c Cron) String() string {
	return fmt.Sprintf("at cron %q, UTC%s", c.text, Offset(c.offset))
}

// moment is a time for people, in UTC.
func moment(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

func (e Every) latest(after, until int64) (int64, bool) {
	at := floor(until, e.Seconds*1000)
	return at, at > after && at <= until
}

func (e Every) next(after, until int64) (int64, bool) {
	at := floor(after, e.Seconds*1000)
	if after > until || at > until-e.Seconds*1000 { // also keeps the sum in its range
		return 0, false
	}
	return at + e.Seconds*1000, true
}

// floor is the last multiple of n that is not after ms.
func floor(ms, n int64) int64 {
	q := ms / n
	if ms%n < 0 {
		q--
	}
	return q * n
}

func (a At) latest(after, until int64) (int64, bool) { return a.Ms, a.Ms > after && a.Ms <= until }
func (a At) next(after, until int64) (int64, bool)   { return a.Ms, a.Ms > after && a.Ms <= until }

// Cron is due in each minute that five fields fit: minute, hour, day of month, month,
// day of week, at a fixed distance from UTC. [ParseCron] makes one.
type Cron struct {
	text                              string
	offset                            int64  // minutes east of UTC
	minute, hour, day, month, weekday uint64 // bits
	anyDay, anyWeekday                bool
}

// maxOffset is in minutes; no place on earth is farther from UTC.
const maxOffset = 14 * 60

// ParseCron reads five fields of numbers, lists, ranges and steps; there are no names
// and no macros. Sunday is 0 or 7. Where both the day of the month and the day of the
// week are given, which is where neither is *, either is enough. The error is half a
// sentence.
func ParseCron(text string, offset int64) (Cron, error) {
	if offset < -maxOffset || offset > maxOffset {
		return Cron{}, fmt.Errorf("the distance from UTC is %d minutes; it is within 14 hours", offset)
	}
	fields := strings.Fields(text)
	if len(fields) != 5 {
		return Cron{}, fmt.Errorf("a cron expression has 5 fields, minute hour day month weekday, and this one has %d", len(fields))
	}
	c := Cron{text: strings.Join(fields, " "), offset: offset, anyDay: fields[2] == "*", anyWeekday: fields[4] == "*"}
	for i, f := range []struct {
		name     string
		min, max int64
		bits     *uint64
	}{{"minute", 0, 59, &c.minute}, {"hour", 0, 23, &c.hour}, {"day", 1, 31, &c.day}, {"month", 1, 12, &c.month}, {"weekday", 0, 7, &c.weekday}} {
		bits, ok := cronField(fields[i], f.min, f.max)
		if !ok {
			return Cron{}, fmt.Errorf("the field %s of a cron expression has numbers from %d to %d, ranges, lists and steps, and this one is %.40q", f.name, f.min, f.max, fields[i])
		}
		*f.bits = bits
	}
	c.weekday |= c.weekday >> 7 & 1
	return c, nil
}

// cronField is the set of the numbers that a field names.
func cronField(text string, low, high int64) (bits uint64, ok bool) {
	for part := range strings.SplitSeq(text, ",") {
		span, step, stepped := strings.Cut(part, "/")
		by := int64(1)
		if stepped {
			if by, ok = digits(step); !ok || by < 1 || by > high {
				return 0, false
			}
		}
		from, to := low, high
		if span != "*" {
			first, last, ranged := strings.Cut(span, "-")
			if from, ok = digits(first); !ok {
				return 0, false
			}
			switch {
			case ranged:
				if to, ok = digits(last); !ok {
					return 0, false
				}
			case !stepped:
				to = from
			}
		}
		if from < low || to > high || from > to {
			return 0, false
		}
		for n := from; n <= to; n += by {
			bits |= 1 << n
		}
	}
	return bits, true
}

// digits is a number of at most four digits and nothing else.
func digits(s string) (int64, bool) {
	if s == "" || len(s) > 4 || strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' }) {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

const (
	minuteMs = 60_000
	dayMs    = 24 * 60 * minuteMs
)

// fits reports whether the minute that begins at a time is due.
func (c Cron) fits(ms int64) bool {
	at := time.UnixMilli(ms + c.offset*minuteMs).UTC()
	return c.minute>>at.Minute()&1 == 1 && c.hour>>at.Hour()&1 == 1 && c.fitsDay(at)
}

func (c Cron) fitsDay(at time.Time) bool {
	if c.month>>int(at.Month())&1 == 0 {
		return false
	}
	day, weekday := c.day>>at.Day()&1 == 1, c.weekday>>int(at.Weekday())&1 == 1
	if c.anyDay || c.anyWeekday {
		return day && weekday
	}
	return day || weekday
}

// latest and next look minute by minute. Every schedule ends within a week, so that is
// some ten thousand minutes at most.
func (c Cron) latest(after, until int64) (int64, bool) {
	for at := floor(until, minuteMs); at > max(after, until-MaxLifeMs-dayMs); at -= minuteMs {
		if c.fits(at) {
			return at, true
		}
	}
	return 0, false
}

func (c Cron) next(after, until int64) (int64, bool) {
	for at := floor(after, minuteMs) + minuteMs; at <= min(until, after+MaxLifeMs+dayMs); at += minuteMs {
		if c.fits(at) {
			return at, true
		}
	}
	return 0, false
}

// Offset is a distance from UTC in minutes, written +HH:MM.
type Offset int64

func (o Offset) String() string {
	sign := '+'
	if o < 0 {
		sign, o = '-', -o
	}
	return fmt.Sprintf("%c%02d:%02d", sign, o/60, o%60)
}

// ParseOffset reads what [Offset] writes.
func ParseOffset(text string) (int64, error) {
	bad := fmt.Errorf("a distance from UTC is written +HH:MM or -HH:MM, within 14 hours, and not %.40q", text)
	if len(text) != 6 || text[0] != '+' && text[0] != '-' || text[3] != ':' {
		return 0, bad
	}
	hours, ok := digits(text[1:3])
	minutes, too := digits(text[4:])
	n := hours*60 + minutes
	if !ok || !too || minutes > 59 || n > maxOffset {
		return 0, bad
	}
	if text[0] == '-' {
		n = -n
	}
	return n, nil
}

func writeTiming(w *jsonv.Writer, t Timing) {
	w.Begin()
	switch t := t.(type) {
	case Every:
		w.Str("kind", "every")
		w.Num("seconds", t.Seconds)
	case Cron:
		w.Str("kind", "cron")
		w.Str("expression", t.text)
		w.Num("utcOffset", t.offset)
	case At:
		w.Str("kind", "at")
		w.Num("at", t.Ms)
	}
	w.End()
}

func decodeTiming(v jsonv.Value) (Timing, error) {
	r := jsonv.Read(v, "automation.decodeTiming")
	var t Timing
	switch kind := r.Str("kind"); kind {
	case "every":
		e := Every{r.Num("seconds")}
		if r.Err() == nil && (e.Seconds < MinEvery || e.Seconds > MaxEvery) {
			r.Fail("seconds", "60 to 604800 seconds", jsonv.Num(e.Seconds))
		}
		t = e
	case "cron":
		c, err := ParseCron(r.Str("expression"), r.Num("utcOffset"))
		if r.Err() == nil {
			r.Adopt("expression", err)
		}
		t = c
	case "at":
		t = At{r.Num("at")}
	default:
		r.Fail("kind", "every, cron or at", jsonv.Str(kind))
	}
	return t, r.Err()
}
