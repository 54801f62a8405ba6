package client_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/loom-run/loom/wire"
)

// shared are the words that both vocabularies have, each with what it is on the wire. A
// word that one of them does not have any more is red.
var shared = map[string]string{
	"tool_result":       "the kind of a call's result",
	"task_notification": "the kind of a task's end",
}

var (
	fieldTag = regexp.MustCompile(`wire:"([^",]*)`)
	snake    = regexp.MustCompile(`^[a-z]+(_[a-z]+)+$`)
)

// vocabulary are the words that only a transcript has: the names of its fields, its
// types, its subtypes and its reasons, as far as they are words of their own.
func vocabulary(t *testing.T) map[string]bool {
	words := map[string]bool{"SDKMessage": true, "stream_event": true, "control_request": true}
	for text := range literals(t, "../sdkmsg") {
		if snake.MatchString(text) {
			words[text] = true
		}
	}
	return words
}

// literals are the strings of the package's sources, of a tag the name of its field,
// each with its file.
func literals(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", dir, len(files), err)
	}
	out := map[string]string{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				if m := fieldTag.FindStringSubmatch(text); m != nil {
					text = m[1]
				}
				out[text] = file
			}
			return true
		})
	}
	return out
}

func TestNoWordOfATranscriptIsOnTheWire(t *testing.T) {
	words := vocabulary(t)
	for _, need := range []string{"tool_use", "parent_tool_use_id", "compact_boundary", "error_during_execution", "is_error", "permission_denials"} {
		if !words[need] {
			t.Fatalf("the vocabulary lacks %s: %q", need, slices.Sorted(maps.Keys(words)))
		}
	}
	found := map[string]bool{}
	for _, dir := range []string{"../wire", "../wire/shape", "../core/words", "../server"} {
		for text, file := range literals(t, dir) {
			found[text] = found[text] || words[text]
			if words[text] && shared[text] == "" {
				t.Errorf("%s: %q is a word of transcripts", file, text)
			}
		}
	}
	for word := range shared {
		if !found[word] {
			t.Errorf("%q is not in both vocabularies", word)
		}
	}
}

// TestFieldsOfTheWireHaveTheirOwnSpelling: a transcript writes its names with
// underscores, the wire does not, so that a name cannot wander unseen.
func TestFieldsOfTheWireHaveTheirOwnSpelling(t *testing.T) {
	var walk func(reflect.Type, map[reflect.Type]bool)
	walk = func(typ reflect.Type, seen map[reflect.Type]bool) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || seen[typ] {
			return
		}
		seen[typ] = true
		for i := range typ.NumField() {
			f := typ.Field(i)
			if name, _, _ := strings.Cut(f.Tag.Get("wire"), ","); strings.Contains(name, "_") {
				t.Errorf("%s.%s is %q on the wire", typ, f.Name, name)
			}
			walk(f.Type, seen)
		}
	}
	seen := map[reflect.Type]bool{}
	for _, b := range bodies() {
		walk(reflect.TypeOf(b), seen)
	}
	walk(reflect.TypeFor[wire.Capabilities](), seen)
	if len(seen) < 40 {
		t.Errorf("only %d types were looked at", len(seen))
	}
}
