package policy

import "strings"

// glob is a pattern of one word or one component of a path: the star stands for any
// text, also none, and everything else for itself. It is matched in time that grows
// with the product of both lengths; nothing in it can make that worse.
type glob struct {
	parts []string // what stands between the stars
}

func globOf(text string) glob { return glob{strings.Split(text, "*")} }

// exact reports whether the pattern has no star.
func (g glob) exact() bool { return len(g.parts) == 1 }

func (g glob) match(text string) bool {
	first, last := g.parts[0], g.parts[len(g.parts)-1]
	if g.exact() {
		return text == first
	}
	if len(text) < len(first)+len(last) || !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, part := range g.parts[1 : len(g.parts)-1] {
		at := strings.Index(text, part) // the leftmost place leaves the most for the rest
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return true
}

// step is one place of a pattern over words or components: any number of them, or
// one that fits.
type step struct {
	many bool
	one  glob
}

// part is one word of a command or component of a path. One that is not known
// stands for anything, also for nothing or for several.
type part struct {
	text  string
	known bool
}

// fit is how far a pattern fits: no, perhaps, surely.
type fit uint8

const (
	misses fit = iota
	mayFit
	fits
)

// matchSteps matches a pattern with parts. What is not known surely fits nothing but
// a step for many, and may fit everything.
func matchSteps(steps []step, parts []part) fit {
	if reach(steps, parts, false) {
		return fits
	}
	for _, p := range parts {
		if !p.known && reach(steps, parts, true) {
			return mayFit
		}
	}
	return misses
}

// reach reports whether both can be used up together. Row i says after how many
// parts the first i steps can have been passed.
func reach(steps []step, parts []part, lenient bool) bool {
	row := make([]bool, len(parts)+1)
	row[0] = true
	pass := func() { // parts that are nothing may be passed without a step
		for j, p := range parts {
			row[j+1] = row[j+1] || lenient && !p.known && row[j]
		}
	}
	pass()
	for _, s := range steps {
		next := make([]bool, len(parts)+1)
		for j := range next {
			switch {
			case s.many:
				next[j] = row[j] || j > 0 && next[j-1]
			case j > 0 && parts[j-1].known:
				next[j] = row[j-1] && s.one.match(parts[j-1].text)
			case j > 0 && lenient: // an unknown part is this step, and perhaps the next one too
				next[j] = row[j-1] || row[j]
			}
		}
		row = next
		pass()
	}
	return row[len(parts)]
}
