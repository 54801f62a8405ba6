package config

import (
	"bytes"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// RuleList is a list of rules, by its key.
type RuleList string

// The lists.
const (
	AllowRules RuleList = "allow"
	AskRules   RuleList = "ask"
	DenyRules  RuleList = "deny"
)

// RuleChange is one rule to be written into a list of a file, or taken out of it.
type RuleChange struct {
	List   RuleList
	Rule   string
	Remove bool
}

// Of are the rules of one list.
func (p Permissions) Of(b RuleList) []string {
	switch b {
	case AllowRules:
		return p.Allow
	case AskRules:
		return p.Ask
	case DenyRules:
		return p.Deny
	}
	return nil
}

// changed is the permissions after a change.
func (p Permissions) changed(c RuleChange) Permissions {
	list := slices.DeleteFunc(slices.Clone(p.Of(c.List)), func(r string) bool { return r == c.Rule })
	if !c.Remove {
		list = append(list, c.Rule)
	}
	switch c.List {
	case AllowRules:
		p.Allow = list
	case AskRules:
		p.Ask = list
	case DenyRules:
		p.Deny = list
	}
	return p
}

// Rewrite makes a change in loom.toml, in the list under [permissions]; builtin is as in
// [Decode]. Everything else in the text stays as it is, comments included, and a file
// that cannot be read is not changed: what was read is compared with what came out.
//
// The error is an [*Error].
func Rewrite(text []byte, builtin func(string) bool, c RuleChange) ([]byte, Permissions, error) {
	was, err := Decode(text, builtin)
	if err != nil {
		return nil, Permissions{}, err
	}
	return rewrite(text, "permissions", c, was.Permissions, func(out []byte) (Permissions, bool) {
		is, err := Decode(out, builtin)
		got := is.Permissions
		is.Permissions = was.Permissions
		return got, err == nil && reflect.DeepEqual(is, was)
	})
}

// RewriteProject is [Rewrite] for the file of a workspace. A rule that allows is refused
// as [DecodeProject] refuses it.
func RewriteProject(text []byte, c RuleChange) ([]byte, Permissions, error) {
	return rewritePlain(text, c, DecodeProject)
}

// DecodeOwn reads the rules that a person keeps for one workspace, outside of it: the
// keys allow, ask and deny.
//
// The error is an [*Error].
func DecodeOwn(text []byte) (Permissions, error) {
	t := &table{fields: map[string]any{}, fault: &fault{}}
	if len(text) > maxSize {
		t.fail("is larger than %d bytes; nothing of it was used", maxSize)
	} else if err := toml.Unmarshal(text, &t.fields); err != nil {
		return Permissions{}, malformed(err)
	}
	p := readPermissions(t)
	if t.failed() {
		return Permissions{}, t.fault.err
	}
	return p, nil
}

// RewriteOwn is [Rewrite] for a file of [DecodeOwn].
func RewriteOwn(text []byte, c RuleChange) ([]byte, Permissions, error) {
	return rewritePlain(text, c, DecodeOwn)
}

func rewritePlain(text []byte, c RuleChange, decode func([]byte) (Permissions, error)) ([]byte, Permissions, error) {
	was, err := decode(text)
	if err != nil {
		return nil, Permissions{}, err
	}
	return rewrite(text, "", c, was, func(out []byte) (Permissions, bool) {
		got, err := decode(out)
		return got, err == nil
	})
}

func rewrite(text []byte, section string, c RuleChange, was Permissions, read func([]byte) (Permissions, bool)) ([]byte, Permissions, error) {
	there := slices.Contains(was.Of(c.List), c.Rule)
	if there != c.Remove {
		return text, was, nil // it is so already
	}
	want := was.changed(c)
	var out []byte
	if c.Remove {
		out = without(text, section, c)
	} else {
		out = with(text, section, c)
	}
	got, same := read(out)
	if !same || !sameRules(got, want) {
		return nil, Permissions{}, &Error{Message: "holds its rules in a form that cannot be changed here; nothing was changed, write the rule by hand"}
	}
	return out, got, nil
}

// sameRules compares lists of which an absent one and an empty one are the same.
func sameRules(a, b Permissions) bool {
	return slices.Equal(a.Allow, b.Allow) && slices.Equal(a.Ask, b.Ask) && slices.Equal(a.Deny, b.Deny)
}

// shape is where in a text the rules of one list are.
type shape struct {
	section int      // behind the header of the section; -1: there is none
	list    int      // behind the bracket that opens the list; -1: there is none
	rules   []placed // in it
}

type placed struct {
	rule       string
	start, end int
}

// shapeOf finds the list; what it cannot find is found missing.
func shapeOf(text []byte, section string, list RuleList) shape {
	s := shape{section: -1, list: -1}
	var p unstable.Parser
	p.Reset(text)
	at := ""
	for p.NextExpression() {
		e := p.Expression()
		switch kind := e.Kind; { // the parser has many, most of them inside of these
		case kind == unstable.Table:
			at = keyOf(e)
			if at == section {
				s.section = lineEnd(text, lastKey(e))
			}
		case kind == unstable.ArrayTable:
			at = "\x00" // no section of ours
		case kind == unstable.KeyValue:
			key := keyOf(e)
			if at != "" {
				key = at + "." + key
			}
			if want := strings.TrimPrefix(section+"."+string(list), "."); key != want || e.Value().Kind != unstable.Array {
				continue
			}
			end := lastKey(e)
			s.list = end + bytes.IndexByte(text[end:], '[') + 1
			for it := e.Value().Children(); it.Next(); {
				if n := it.Node(); n.Kind == unstable.String {
					s.rules = append(s.rules, placed{string(n.Data), int(n.Raw.Offset), int(n.Raw.Offset + n.Raw.Length)})
				}
			}
		}
	}
	return s
}

func keyOf(e *unstable.Node) string {
	var parts []string
	for it := e.Key(); it.Next(); {
		parts = append(parts, string(it.Node().Data))
	}
	return strings.Join(parts, ".")
}

// lastKey is behind the last part of a key.
func lastKey(e *unstable.Node) (end int) {
	for it := e.Key(); it.Next(); {
		end = int(it.Node().Raw.Offset + it.Node().Raw.Length)
	}
	return end
}

// lineEnd is behind the line that a place is on.
func lineEnd(text []byte, at int) int {
	if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(text)
}

// with is the text with the rule at the end of its list.
func with(text []byte, section string, c RuleChange) []byte {
	s := shapeOf(text, section, c.List)
	rule := basicString(c.Rule)
	line := string(c.List) + " = [" + rule + "]\n"
	switch {
	case len(s.rules) > 0:
		return spliced(text, s.rules[len(s.rules)-1].end, 0, ", "+rule)
	case s.list >= 0:
		return spliced(text, s.list, 0, rule)
	case section == "":
		return spliced(text, len(text), 0, newLine(text)+line)
	case s.section >= 0:
		return spliced(text, s.section, 0, newLine(text[:s.section])+line)
	}
	gap := ""
	if len(text) > 0 {
		gap = "\n"
	}
	return spliced(text, len(text), 0, newLine(text)+gap+"["+section+"]\n"+line)
}

// newLine ends the last line of a text where it has no end.
func newLine(text []byte) string {
	if len(text) == 0 || text[len(text)-1] == '\n' {
		return ""
	}
	return "\n"
}

// without is the text without the rule, wherever it stands in its list. The comma behind
// it goes too; comments stay, and so do lines that hold one.
func without(text []byte, section string, c RuleChange) []byte {
	rules := shapeOf(text, section, c.List).rules
	for _, r := range slices.Backward(rules) {
		if r.rule != c.Rule {
			continue
		}
		if comma, ok := commaBehind(text, r.end); ok {
			text = spliced(text, comma, 1, "")
		}
		text = spliced(text, r.start, r.end-r.start, "")
		text = tidied(text, r.start)
	}
	return text
}

// commaBehind finds the comma after an element, past space and comments.
func commaBehind(text []byte, at int) (int, bool) {
	for at < len(text) {
		switch text[at] {
		case ',':
			return at, true
		case ' ', '\t', '\r', '\n':
			at++
		case '#':
			at = lineEnd(text, at)
		default:
			return 0, false
		}
	}
	return 0, false
}

// tidied takes out the space that an element leaves: its line, when nothing else is on
// it, or what follows on the line.
func tidied(text []byte, at int) []byte {
	start := bytes.LastIndexByte(text[:at], '\n') + 1
	end := lineEnd(text, at)
	if len(bytes.TrimSpace(text[start:end])) == 0 {
		return spliced(text, start, end-start, "")
	}
	n := 0
	for at+n < len(text) && (text[at+n] == ' ' || text[at+n] == '\t') {
		n++
	}
	if n > 0 && at+n < len(text) && text[at+n] == '#' {
		n = 0 // a comment keeps its distance
	}
	return spliced(text, at, n, "")
}

func spliced(text []byte, at, cut int, put string) []byte {
	return slices.Concat(text[:at], []byte(put), text[at+cut:])
}

// basicString writes a basic string of TOML.
func basicString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			b.WriteString(`\u` + strings.ToUpper(strconv.FormatInt(0x10000+int64(r), 16)[1:]))
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
