package policy

import (
	"path"
	"strings"
	"unicode"

	"github.com/loom-run/loom/core/words"
)

// Action is what a call would do, as far as rules can speak of it.
type Action struct {
	Tool    string
	Class   Class
	Subject Subject
	Command string   // of a tool about commands
	Paths   []string // of a tool about paths: as it was named and, if that differs, where it leads; absolute and clean
	Asks    Asks
	// Beyond is the directory that would have to be granted, where what would be read lies
	// outside of what may be; empty where it does not.
	Beyond string
}

// Asks says whether a tool asks a person by itself. The zero Asks does not.
type Asks uint8

// What a tool asks about.
const (
	AsksQuestion Asks = iota + 1 // something that only a person can tell
	AsksPlan                     // the way out of the mode plan
)

// Guarded are the places of the harness's own. A call that writes below one is asked
// about each time: no rule and no mode retires the question.
type Guarded []string

// Judge answers a call by rules and mode. The first of these that speaks decides:
//
//  1. a deny rule that matches refuses, in every mode;
//  2. reading outside of what may be read is refused, in every mode;
//  3. a tool that asks a person asks, in every mode but dontAsk; the review of a plan
//     belongs to the mode plan;
//  4. writing to what is guarded, an ask rule that matches, and a deny rule that may
//     match what cannot be known before it runs, ask a person, in every mode that
//     asks or allows;
//  5. the modes plan and dontAsk refuse where 4 asks, and plan refuses what it does
//     not allow;
//  6. allow rules that cover everything of the call let it run;
//  7. the mode decides, as [Decide] says.
//
// So the order of rules means nothing, and a rule never allows what another refuses.
func Judge(m Mode, rules Rules, guarded Guarded, a Action) Decision {
	if !m.known() || !a.Class.known() {
		return Decide(m, a.Class)
	}
	c := newCase(a)
	best, strongest := Rule{}, misses
	for _, r := range rules.list {
		if f := c.fit(r); r.behavior == words.RuleDeny && f > strongest {
			best, strongest = r, f
		}
	}
	if strongest == fits {
		return Decision{by: words.DeniedByRule, rule: best, sentence: "This call was refused by the rule that denies " + best.shown() + "; nothing was done."}
	}
	if a.Class == Read && a.Beyond != "" {
		return Decision{
			by: words.DeniedByReadBoundary,
			sentence: "This call was refused: what it wants to read is outside of what may be read. The directory " + (Rule{text: a.Beyond}).shown() +
				" would have to be granted, and nothing granted it; nothing was read.",
		}
	}
	if a.Asks != 0 {
		return asksItself(m, a.Asks)
	}
	if c.writesBelow(guarded) {
		d := asked(m, a.Class, words.AskedBySafety, "Changing the files that Loom itself is configured with must be allowed each time by a person")
		d.mandate = words.MandatedState
		return d
	}
	for _, r := range rules.list {
		if r.behavior == words.RuleAsk && c.fit(r) != misses {
			d := asked(m, a.Class, words.AskedByRule, "A person must be asked about this call by the rule "+r.shown())
			d.rule = r
			return d
		}
	}
	if strongest == mayFit {
		d := asked(m, a.Class, words.AskedBySubcommand, "What this call runs cannot be known before, and the rule that denies "+best.shown()+" may mean it")
		d.rule = best
		return d
	}
	d := Decide(m, a.Class)
	if d.Allowed() || m == Plan {
		return d
	}
	rule, gap, covered := c.covered(rules)
	switch {
	case covered:
		return Decision{behavior: Allow, rule: rule}
	case gap != "" && d.behavior == Ask:
		d.origin = words.AskedBySubcommand
		d.sentence = "No rule allows " + gap + ". " + d.sentence
	}
	return d
}

// asksItself is the answer to a tool that asks a person.
func asksItself(m Mode, a Asks) Decision {
	switch {
	case m == DontAsk:
		return Decision{by: words.DeniedByMode, sentence: "Permission mode " + m.String() + " asks nobody, so this was not asked. Decide yourself, and say what you assumed."}
	case a == AsksPlan && m != Plan:
		return Decision{by: words.DeniedByMode, sentence: "A plan is handed in in permission mode plan, and this is " + m.String() + ": nobody was asked. Do what you were asked to do."}
	case a == AsksPlan:
		return Decision{
			behavior: Ask, origin: words.AskedByTool, mandate: words.MandatedPlan,
			sentence: "Nobody is there to review the plan. End your turn, with the plan as your answer.",
		}
	}
	return Decision{behavior: Ask, origin: words.AskedByTool, sentence: "Nobody is there to answer. Decide yourself, and say what you assumed."}
}

// asked is a question that a rule demands.
func asked(m Mode, c Class, origin words.AskOrigin, why string) Decision {
	d := Decision{behavior: Ask, origin: origin, sentence: why + ", and nobody was there to be asked; nothing was done."}
	if m == Plan || m == DontAsk {
		d = Decision{by: words.DeniedByMode, sentence: why + ", and permission mode " + m.String() + " asks nobody; nothing was done."}
	}
	return d
}

// Rule is the rule that decided; ok is false where none did.
func (d Decision) Rule() (r Rule, ok bool) { return d.rule, d.rule.text != "" }

// Mandate is what a question stands on that no rule can retire; empty where one can.
func (d Decision) Mandate() words.Mandate { return d.mandate }

// shown is the rule for a sentence.
func (r Rule) shown() string {
	text := strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, r.text)
	const most = 200
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return "`" + text + "`"
}

// judged is an action that was read once for all rules.
type judged struct {
	Action
	script   script
	readable bool
	parts    [][]part
}

func newCase(a Action) judged {
	c := judged{Action: a}
	switch a.Subject {
	case Commands:
		c.script, c.readable = readScript(a.Command)
	case Paths:
		for _, p := range a.Paths {
			c.parts = append(c.parts, componentsOf(path.Clean(p)))
		}
	case NoSubject:
	}
	return c
}

// fit says whether a rule that denies or asks means this call: all of it or any part.
func (c judged) fit(r Rule) fit {
	switch {
	case r.tool != c.Tool:
		return misses
	case r.subject == NoSubject:
		return fits
	case r.subject != c.Subject:
		return mayFit
	}
	best := misses
	if c.Subject == Paths {
		for _, p := range c.parts {
			best = max(best, matchSteps(r.steps, p))
		}
		return best
	}
	if !c.readable || c.script.opaque {
		best = mayFit
	}
	for _, list := range [][]command{c.script.commands, c.script.started} {
		for _, one := range list {
			f := matchSteps(r.steps, one.words)
			if name := one.words[0]; name.known && base(name.text) != name.text {
				f = max(f, matchSteps(r.steps, append([]part{{base(name.text), true}}, one.words[1:]...)))
			}
			if !one.sure {
				f = min(f, mayFit)
			}
			best = max(best, f)
		}
	}
	return best
}

// covered says whether allow rules cover the whole call, and by which, if it is one.
// gap is the first part that none covers, for a sentence; empty where there is no rule
// that could.
func (c judged) covered(rules Rules) (rule Rule, gap string, ok bool) {
	var allow []Rule
	for _, r := range rules.list {
		if r.behavior != words.RuleAllow || r.tool != c.Tool {
			continue
		}
		if r.subject == NoSubject {
			return r, "", true
		}
		if r.subject == c.Subject {
			allow = append(allow, r)
		}
	}
	if len(allow) == 0 {
		return Rule{}, "", false
	}
	every := c.parts
	if c.Subject == Commands {
		switch {
		case !c.readable:
			return Rule{}, "a command line that cannot be read", false
		case c.script.beyond != "":
			return Rule{}, "a command line that " + c.script.beyond, false
		}
		every = nil
		for _, one := range c.script.commands {
			every = append(every, one.words)
		}
	}
	for _, parts := range every {
		found := false
		for _, r := range allow {
			if matchSteps(r.steps, parts) == fits {
				rule, found = r, true
				break
			}
		}
		if !found {
			return Rule{}, (Rule{text: texts(parts)}).shown(), false
		}
	}
	return rule, "", len(every) > 0
}

func texts(parts []part) string {
	list := make([]string, len(parts))
	for i, p := range parts {
		if list[i] = p.text; !p.known {
			list[i] = "…"
		}
	}
	return strings.Join(list, " ")
}

// writesBelow reports whether the call changes a file in a guarded place.
func (c judged) writesBelow(places Guarded) bool {
	if c.Class != Write || c.Subject != Paths {
		return false
	}
	for _, p := range c.Paths {
		for _, place := range places {
			if p == place || strings.HasPrefix(p, strings.TrimSuffix(place, "/")+"/") {
				return true
			}
		}
	}
	return false
}
