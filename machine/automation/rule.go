package automation

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/machine"
)

// Bounds of rules.
const (
	MaxRules    = 64
	MaxTriggers = 32
	MaxTrigger  = 256  // characters
	MaxBody     = 8192 // bytes, of rules and of schedules
	MaxName     = 64   // bytes, of rules and of schedules
)

// Rule is a text that a strand is told once, when it says one of the triggers.
type Rule struct {
	Name     string
	Triggers []string // substrings, as they are written
	Body     string
}

// Check says in half a sentence what is wrong with a rule; nil: nothing.
func (r Rule) Check() error {
	if err := checkName(r.Name); err != nil {
		return err
	}
	if n := len(r.Triggers); n == 0 || n > MaxTriggers {
		return fmt.Errorf("it has %d triggers; it has 1 to %d", n, MaxTriggers)
	}
	for _, t := range r.Triggers {
		if n := utf8.RuneCountInString(t); n == 0 || n > MaxTrigger {
			return fmt.Errorf("a trigger has %d characters; it has 1 to %d", n, MaxTrigger)
		}
	}
	return checkBody(r.Body)
}

func checkName(name string) error {
	bad := strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
	})
	if name == "" || len(name) > MaxName || bad {
		return fmt.Errorf("a name has 1 to %d of a-z, A-Z, 0-9, '-', '_' and '.'", MaxName)
	}
	return nil
}

func checkBody(body string) error {
	if n := len(body); strings.TrimSpace(body) == "" || n > MaxBody {
		return fmt.Errorf("its text has %d bytes; it has 1 to %d, and not only space", n, MaxBody)
	}
	return nil
}

// Hears reports whether a text has one of the triggers in it.
func (r Rule) Hears(text string) bool {
	return slices.ContainsFunc(r.Triggers, func(t string) bool { return strings.Contains(text, t) })
}

// firedPrefix begins the keys of marks.
const firedPrefix = "rule/fired/"

// FiredKey is the mark that a rule was told to a strand.
func FiredKey(rule, strand string) string { return firedPrefix + rule + "/" + strand }

// Fire plans that a strand is told a rule because of what it said in a response: before
// the next request of its open run, or with its next run, which the rule does not start.
func (r Rule) Fire(to machine.Standing, response id.EntryID, now int64, ids id.Generator) tx.Tx {
	text := fmt.Sprintf("[A rule of the project, %s, which something that you said calls for:]\n%s", r.Name, r.Body)
	i, t := to.Reach(told(text, now), nil, ids)
	var w jsonv.Writer
	w.Begin()
	w.Str("entry", i.String())
	w.Str("response", response.String())
	w.End()
	key := FiredKey(r.Name, to.Strand)
	t.Writes = append(t.Writes, tx.Set(register.FactCustom, key, w.Tree()))
	t.Expected = append(t.Expected, tx.ExpectAbsent(register.FactCustom, key))
	return t
}

func told(text string, now int64) machine.PendingEntry {
	return machine.PendingMessage(&message.User{Content: []message.UserBlock{message.Text{Text: text}}, Timestamp: now})
}

// decodeFired checks a mark.
func decodeFired(v jsonv.Value) error {
	r := jsonv.Read(v, "automation.decodeFired")
	jsonv.One(r, "entry", entryID)
	jsonv.One(r, "response", entryID)
	return r.Err()
}

func entryID(v jsonv.Value) (id.EntryID, error) {
	text, _ := v.Text()
	return id.ParseEntryID(text)
}
