package config

import "github.com/pelletier/go-toml/v2"

// ProjectFile is where a workspace keeps its rules, relative to it.
const ProjectFile = ".loom/permissions.toml"

// maxRules bounds the rules of one list.
const maxRules = 1000

func readPermissions(t *table) Permissions {
	p := Permissions{Allow: t.rules("allow"), Ask: t.rules("ask"), Deny: t.rules("deny")}
	t.done()
	return p
}

// rules reads a list, which may be empty: that is how one looks from which the last rule
// was taken out.
func (t *table) rules(key string) []string {
	if v, there := t.fields[key].([]any); there && len(v) == 0 {
		t.take(key)
		return nil
	}
	list := t.texts(key)
	if len(list) > maxRules {
		t.fail("%s has more than %d rules", key, maxRules)
	}
	return list
}

// DecodeProject reads the rules of a workspace: the keys ask and deny. It has no key
// allow, since a workspace comes from others as often as not, and would say itself
// what it may do.
//
// The error is an [*Error].
func DecodeProject(text []byte) (Permissions, error) {
	t := &table{fields: map[string]any{}, fault: &fault{}}
	var p Permissions
	if len(text) > maxSize {
		t.fail("is larger than %d bytes; nothing of it was used", maxSize)
	} else if err := toml.Unmarshal(text, &t.fields); err != nil {
		t.fault.err = malformed(err)
	} else {
		if _, allows := t.fields["allow"]; allows {
			t.fail("has the key allow, and a workspace can only have calls denied or asked about: write it under [permissions] of your own loom.toml")
		}
		p = Permissions{Ask: t.rules("ask"), Deny: t.rules("deny")}
		t.done()
	}
	if t.failed() {
		t.fault.err.File = ProjectFile
		return Permissions{}, t.fault.err
	}
	return p, nil
}
