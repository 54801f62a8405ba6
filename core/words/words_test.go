package words_test

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/words"
)

// shape is what a word looks like: it stands in JSON, in event fields and in
// command lines.
var shape = regexp.MustCompile(`^[a-z][a-zA-Z0-9]*(_[a-z0-9]+)*$`)

// tableFaults checks the words of one table.
func tableFaults(list []string) (faults []string) {
	if len(list) == 0 {
		faults = append(faults, "no word")
	}
	for i, w := range list {
		switch {
		case w == "":
			faults = append(faults, "an empty word")
		case !shape.MatchString(w):
			faults = append(faults, "a malformed word: "+w)
		case slices.Contains(list[:i], w):
			faults = append(faults, "twice: "+w)
		}
	}
	return faults
}

func wordsOf(s words.Set) (list []string) {
	for w := range s.Rows() {
		list = append(list, w)
	}
	return list
}

func TestNoTableHasAnEmptyOrRepeatedWord(t *testing.T) {
	names := map[string]bool{}
	for _, s := range words.Tables() {
		for _, fault := range tableFaults(wordsOf(s)) {
			t.Errorf("%s: %s", s.Name(), fault)
		}
		if s.Name() == "" || names[s.Name()] {
			t.Errorf("the name %q of a table is empty or another's", s.Name())
		}
		names[s.Name()] = true
	}
}

func TestTableFaultsAreFound(t *testing.T) {
	for want, list := range map[string][]string{
		"no word":        {},
		"an empty word":  {"a", ""},
		"twice: a":       {"a", "b", "a"},
		"malformed word": {"a b"},
	} {
		if faults := tableFaults(list); len(faults) != 1 || !strings.Contains(faults[0], want) {
			t.Errorf("%q: %v", list, faults)
		}
	}
}

// declared are the constants of this package by type, as the source has them.
func declared(t *testing.T) map[string][]string {
	t.Helper()
	fset := token.NewFileSet()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	conf := types.Config{Error: func(error) {}} // what is imported has no word types
	pkg, _ := conf.Check("words", fset, files, nil)
	found := map[string][]string{}
	for _, name := range pkg.Scope().Names() {
		c, ok := pkg.Scope().Lookup(name).(*types.Const)
		if !ok || c.Val().Kind() != constant.String {
			continue
		}
		if named, ok := c.Type().(*types.Named); ok {
			found[named.Obj().Name()] = append(found[named.Obj().Name()], constant.StringVal(c.Val()))
		}
	}
	return found
}

func TestEveryConstantStandsInTheTableOfItsType(t *testing.T) {
	found := declared(t)
	if len(found) < 40 {
		t.Fatalf("only %d types of words were found in the source", len(found))
	}
	for _, s := range words.Tables() {
		name := s.Type().Name()
		want := found[name]
		slices.Sort(want)
		got := wordsOf(s)
		slices.Sort(got)
		if !slices.Equal(got, slices.Compact(want)) {
			t.Errorf("%s: the table has %q, the constants are %q", name, got, want)
		}
		delete(found, name)
	}
	for name, list := range found {
		t.Errorf("the type %s has words and no table: %q", name, list)
	}
}

func TestCountsThatTheContractNames(t *testing.T) {
	for name, c := range map[string]struct{ have, want int }{
		"settlements":                {words.Settlements.Len(), 13},
		"who denied":                 {words.DeniedBys.Len(), 10},
		"who asked":                  {words.AskOrigins.Len(), 11},
		"permission modes":           {words.PermissionModes.Len(), 6},
		"mandates":                   {words.Mandates.Len(), 6},
		"expiries":                   {words.Expiries.Len(), 3},
		"liveness":                   {words.RuleLivenesses.Len(), 3},
		"why an approval hangs":      {words.UnsettledCauses.Len(), 3},
		"what a memory wish can say": {words.MemoryCaptures.Len(), 1},
	} {
		if c.have != c.want {
			t.Errorf("%s: %d words, want %d", name, c.have, c.want)
		}
	}
	if !words.Settlements.Has("policy_refused") || !words.DeniedBys.Has("read_boundary") {
		t.Error("a word that the contract names is not in its table")
	}
}

// The endings of the engine and of the server share words and are two tables.
func TestTheTwoTablesOfEndingsStayApart(t *testing.T) {
	causes, rows := wordsOf(words.Causes), wordsOf(words.RowEndings)
	var shared []string
	for _, w := range causes {
		if slices.Contains(rows, w) {
			shared = append(shared, w)
		}
	}
	if !slices.Equal(shared, []string{"completed", "failed", "blocked"}) {
		t.Errorf("they share %q", shared)
	}
	if slices.Contains(rows, "paused") || slices.Contains(causes, "cancelled") {
		t.Error("a word of one table stands in the other")
	}
}

func TestExpiriesSettleUnderTheirOwnWord(t *testing.T) {
	for e := range words.Expiries.All() {
		if !words.Settlements.Has(words.Settlement(e)) {
			t.Errorf("%s is no settlement", e)
		}
	}
}

func TestAWordOutsideItsTableIsNone(t *testing.T) {
	for _, s := range []string{"", "Default", "default ", "yolo", "default\x00", "ｄefault"} {
		if m, ok := words.PermissionModes.Parse(s); ok || m != "" {
			t.Errorf("%q reads as %q", s, m)
		}
		if words.NoticeCodes.Has(words.NoticeCode(s)) {
			t.Errorf("%q is a notice", s)
		}
	}
	for w := range words.PermissionModes.All() {
		if got, ok := words.PermissionModes.Parse(string(w)); !ok || got != w {
			t.Errorf("%q reads as %q", w, got)
		}
	}
}

func TestTheCatalogueOfNoticesIsWhole(t *testing.T) {
	for c := range words.NoticeCodes.All() {
		if !words.Audiences.Has(words.AudienceOf(c)) {
			t.Errorf("%s is for nobody", c)
		}
		if m, ok := words.MinterOf(c); !ok || !words.Minters.Has(m) {
			t.Errorf("%s is minted by nobody", c)
		}
	}
	const forged = words.NoticeCode("model_unreachable\x1b")
	if words.AudienceOf(forged) != words.ForOperator {
		t.Error("a code outside the catalogue reaches a person")
	}
	if _, ok := words.MinterOf(forged); ok {
		t.Error("a code outside the catalogue has a minter")
	}
}

func TestEveryRuleIssueHasAFamilyAndAnUnknownOneHasNone(t *testing.T) {
	seen := map[words.IssueFamily]int{}
	for i := range words.RuleIssues.All() {
		seen[words.Family(i)]++
	}
	if seen[words.UnknownFamily] != 0 || seen[words.WrongRule] == 0 || seen[words.UnsupportedRule] == 0 {
		t.Errorf("codes by family: %v", seen)
	}
	if words.Family("empty_rule ") != words.UnknownFamily {
		t.Error("a code outside the table has a family")
	}
}

func TestOnlyLastStatusesAreEnded(t *testing.T) {
	var ended []words.BackgroundStatus
	for s := range words.BackgroundStatuses.All() {
		if s.Ended() {
			ended = append(ended, s)
		}
	}
	want := []words.BackgroundStatus{words.BackgroundCompleted, words.BackgroundFailed, words.BackgroundKilled, words.BackgroundLost}
	if !slices.Equal(ended, want) || words.BackgroundStatus("finished").Ended() {
		t.Errorf("ended: %v", ended)
	}
}

func TestATableIsOneValueForBothSides(t *testing.T) {
	for i, s := range words.Tables() {
		if again := words.Tables()[i]; !reflect.DeepEqual(s, again) || s != again {
			t.Errorf("%s is another table each time", s.Name())
		}
	}
	list := words.Decisions.Words()
	list[0] = "changed"
	if words.Decisions.Has("changed") {
		t.Error("who reads a table can change it")
	}
	for _, by := range words.DeniedBys.Rows() {
		if len(by) > 0 {
			by[0] = "changed"
		}
	}
	for w, by := range words.DeniedBys.Rows() {
		if slices.Contains(by, "changed") {
			t.Errorf("the minters of %s can be changed", w)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("approved_once")
	f.Fuzz(func(t *testing.T, s string) {
		if w, ok := words.Settlements.Parse(s); ok != words.Settlements.Has(words.Settlement(s)) || ok && string(w) != s {
			t.Fatalf("%q reads as %q, %v", s, w, ok)
		}
	})
}
