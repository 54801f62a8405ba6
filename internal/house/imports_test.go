package house

import (
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

const lawFile = "testdata/imports.txt"

// law is testdata/imports.txt, which explains its own form at its top.
type law struct {
	sides    []side
	rooms    []room            // in floor order, bottom up
	testOnly map[string]string // modules for tests, with the reason
}

// side is a group of rooms and the groups whose rooms they may import beside their own.
type side struct {
	name string
	may  []string
}

// room is one package's entry.
type room struct {
	path, side, why string
	marks           []string // pure, race, planned, testkit
	imports         []allowance
}

type allowance struct{ path, why string }

var knownMarks = []string{"pure", "race", "planned", "testkit"}

func (l law) find(path string) (room, int) {
	i := slices.IndexFunc(l.rooms, func(r room) bool { return r.path == path })
	if i < 0 {
		return room{}, -1
	}
	return l.rooms[i], i
}

func (r room) is(mark string) bool { return slices.Contains(r.marks, mark) }

// forTests tells whether a module that test files may import provides the package.
func (l law) forTests(imp string) bool {
	for module := range l.testOnly {
		if imp == module || strings.HasPrefix(imp, module+"/") {
			return true
		}
	}
	return false
}

// parseLaw reads the allow-lists. Its errors name the line.
func parseLaw(text string) (law, error) {
	l := law{testOnly: map[string]string{}}
	inTests := false
	for n, line := range strings.Split(text, "\n") {
		bad := func(format string, args ...any) (law, error) {
			return law{}, fmt.Errorf("line %d: %s", n+1, fmt.Sprintf(format, args...))
		}
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		left, why, _ := strings.Cut(line, " # ")
		fields := strings.Fields(left)
		why = strings.TrimSpace(why)
		if why == "" || len(fields) == 0 {
			return bad("%q gives no reason (` # reason`)", line)
		}
		indented := strings.HasPrefix(line, "\t")
		switch {
		case !indented && fields[0] == "tests":
			inTests = true
		case !indented && fields[0] == "side":
			if len(fields) < 2 {
				return bad("a side needs a name")
			}
			inTests = false
			l.sides = append(l.sides, side{name: fields[1], may: fields[2:]})
		case !indented:
			if len(l.sides) == 0 || inTests {
				return bad("package %s stands under no side", fields[0])
			}
			if _, i := l.find(fields[0]); i >= 0 {
				return bad("package %s has two entries", fields[0])
			}
			for _, m := range fields[1:] {
				if !slices.Contains(knownMarks, m) {
					return bad("unknown mark %q", m)
				}
			}
			l.rooms = append(l.rooms, room{path: fields[0], side: l.sides[len(l.sides)-1].name, why: why, marks: fields[1:]})
		case len(fields) != 1:
			return bad("an import line holds one path")
		case inTests:
			l.testOnly[fields[0]] = why
		case len(l.rooms) == 0:
			return bad("import %s stands under no package", fields[0])
		default:
			r := &l.rooms[len(l.rooms)-1]
			r.imports = append(r.imports, allowance{fields[0], why})
		}
	}
	return l, nil
}

func theLaw(t *testing.T) law {
	t.Helper()
	text, err := os.ReadFile(lawFile)
	if err != nil {
		t.Fatal(err)
	}
	l, err := parseLaw(string(text))
	if err != nil {
		t.Fatalf("%s: %v", lawFile, err)
	}
	return l
}

// lawFaults checks the law against itself: arrows of the allow-lists point down, and across sides only where the sides allow it.
func lawFaults(l law) (faults []string) {
	may := map[string][]string{}
	for _, s := range l.sides {
		may[s.name] = append(slices.Clone(s.may), s.name)
	}
	for _, s := range l.sides {
		for _, other := range s.may {
			if may[other] == nil {
				faults = append(faults, fmt.Sprintf("side %s may import side %s, which does not exist", s.name, other))
			}
		}
	}
	for i, r := range l.rooms {
		for _, a := range r.imports {
			if !isStd(a.path) {
				continue
			}
			to, j := l.find(a.path)
			switch {
			case j < 0:
				faults = append(faults, fmt.Sprintf("%s may import %s, which has no entry", r.path, a.path))
				continue
			case j >= i:
				faults = append(faults, fmt.Sprintf("%s may import %s: an arrow up", r.path, a.path))
			case !slices.Contains(may[r.side], to.side):
				faults = append(faults, fmt.Sprintf("%s may import %s: side %s never imports side %s", r.path, a.path, r.side, to.side))
			case r.is("pure") && !to.is("pure"):
				faults = append(faults, fmt.Sprintf("%s is pure and may import %s, which is not", r.path, a.path))
			}
			if to.is("testkit") && !r.is("testkit") {
				faults = append(faults, fmt.Sprintf("%s may import %s, which is for tests", r.path, a.path))
			}
		}
	}
	return faults
}

// importFaults checks the tree against the allow-lists: nothing imported that is not allowed, nothing allowed that is not imported.
func importFaults(l law, tr tree) (faults []string) {
	for _, p := range tr.Packages {
		r, i := l.find(p.Path)
		if i < 0 {
			faults = append(faults, fmt.Sprintf("%s has no entry in %s", p.Path, lawFile))
			continue
		}
		if r.is("planned") {
			faults = append(faults, fmt.Sprintf("%s exists but is marked planned in %s: run `make docs`", p.Path, lawFile))
		}
		used := foreign(tr, p.Imports)
		for _, imp := range used {
			if r.is("testkit") && l.forTests(imp) {
				continue
			}
			if !slices.ContainsFunc(r.imports, func(a allowance) bool { return a.path == imp }) {
				faults = append(faults, fmt.Sprintf("%s imports %s, which its list in %s does not allow", p.Path, imp, lawFile))
			}
		}
		for _, a := range r.imports {
			if !r.is("planned") && !slices.Contains(used, a.path) {
				faults = append(faults, fmt.Sprintf("%s is allowed %s but does not import it: run `make docs`", p.Path, a.path))
			}
		}
	}
	for _, r := range l.rooms {
		if !r.is("planned") && !slices.ContainsFunc(tr.Packages, func(p pkg) bool { return p.Path == r.path }) {
			faults = append(faults, fmt.Sprintf("%s has an entry in %s but does not exist", r.path, lawFile))
		}
	}
	return faults
}

// testImportFaults checks what test files import. Inside the module they are free: an engine test may stand on a memory store, a server test on a
// client. Outside it they keep to the package's own list and the list for tests.
func testImportFaults(l law, tr tree) (faults []string) {
	for _, p := range tr.Packages {
		r, _ := l.find(p.Path)
		for _, imp := range foreign(tr, p.TestImports) {
			if isStd(imp) {
				continue
			}
			if !l.forTests(imp) && !slices.ContainsFunc(r.imports, func(a allowance) bool { return a.path == imp }) {
				faults = append(faults, fmt.Sprintf("tests of %s import %s, which %s allows neither to it nor to tests", p.Path, imp, lawFile))
			}
		}
	}
	return faults
}

// sessionFileFaults keeps each database file behind one door. Another open and close of a file in its writer's process drops its locks and was measured
// to lose acknowledged commits; so storage/sqlitedb alone has the driver, and only those stand on it who own a file. Tests are included; those of the
// session file reach below the driver, to fail its disk.
func sessionFileFaults(tr tree) (faults []string) {
	const driver = "storage/sqlitedb"
	owners := map[string]string{"storage/sqlite": "the session files", "events/search": "the search index", "events/projection": "the index of sessions"}
	for _, p := range tr.Packages {
		if p.Path == driver {
			continue
		}
		for _, imp := range p.Imports {
			if isDriver(imp) {
				faults = append(faults, fmt.Sprintf("%s imports %s: only %s has the driver", p.Path, imp, driver))
			}
		}
		for _, imp := range p.TestImports {
			if isDriver(imp) && p.Path != "storage/sqlite" {
				faults = append(faults, fmt.Sprintf("tests of %s import %s: only %s has the driver", p.Path, imp, driver))
			}
		}
		for _, imp := range slices.Concat(p.Imports, p.TestImports) {
			if rel, ok := tr.local(imp); ok && rel == driver && owners[p.Path] == "" {
				faults = append(faults, fmt.Sprintf("%s imports %s: it owns no database file; who does is %s", p.Path, driver, strings.Join(slices.Sorted(maps.Keys(owners)), ", ")))
			}
		}
	}
	return faults
}

func isDriver(imp string) bool {
	return imp == "database/sql" || strings.HasPrefix(imp, "database/sql/") || imp == "modernc.org/sqlite" || strings.HasPrefix(imp, "modernc.org/sqlite/")
}

// foreign returns the imports that an allow-list speaks of: this module's, relative to it, and other modules'.
func foreign(tr tree, imports []string) (out []string) {
	for _, imp := range imports {
		if rel, ok := tr.local(imp); ok {
			out = append(out, rel)
		} else if !isStd(imp) {
			out = append(out, imp)
		}
	}
	return out
}

// tighten returns the text of the law without the planned marks of packages that exist and without the allowances nobody uses. It never allows more:
// a new arrow is a person's decision, with a reason.
func tighten(text string, tr tree) string {
	var out []string
	var current *pkg
	for _, line := range strings.Split(text, "\n") {
		left, why, commented := strings.Cut(line, " # ")
		fields := strings.Fields(left)
		switch {
		case strings.HasPrefix(line, "#") || len(fields) == 0 || !commented:
		case !strings.HasPrefix(line, "\t"):
			current = nil
			if i := slices.IndexFunc(tr.Packages, func(p pkg) bool { return p.Path == fields[0] }); i >= 0 {
				current = &tr.Packages[i]
				if slices.Contains(fields, "planned") {
					kept := slices.DeleteFunc(fields, func(f string) bool { return f == "planned" })
					line = fmt.Sprintf("%-44s # %s", strings.Join(kept, " "), why)
				}
			}
		case current != nil && !slices.Contains(foreign(tr, current.Imports), fields[0]):
			continue
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

func TestImportsKeepToTheAllowLists(t *testing.T) {
	tr := theTree(t)
	if *update {
		text, err := os.ReadFile(lawFile)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(lawFile, []byte(tighten(string(text), tr)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l := theLaw(t)
	report(t, lawFaults(l))
	report(t, importFaults(l, tr))
	report(t, testImportFaults(l, tr))
}

func TestOnlyOnePackageOpensSessionFiles(t *testing.T) {
	report(t, sessionFileFaults(theTree(t)))
}

// sampleLaw and sampleTree agree with each other; each test below spoils one of them.
const sampleLaw = `# a law
side ground # the vocabulary
core/id pure # ids
core/entry pure # entries
	core/id # rows are named by ids
	j.org/json # the parser
side engine ground # what runs
storage/kit testkit # the suite
	core/id # makes rows
engine planned # the driver
	core/id # names operations
	core/entry # commits rows
side client ground # what people see
client pure # steps
	core/entry # shows rows
tests # used by test files
	r.org/rapid # properties
`

func sampleTree() tree {
	return tree{Module: "m.org/m", Packages: []pkg{
		{Path: "client", Imports: []string{"m.org/m/core/entry"}},
		{Path: "core/entry", Imports: []string{"fmt", "j.org/json", "m.org/m/core/id"}, TestImports: []string{"r.org/rapid", "testing"}},
		{Path: "core/id", Imports: []string{"errors"}},
		{Path: "storage/kit", Imports: []string{"m.org/m/core/id", "r.org/rapid/state"}},
	}}
}

func mustLaw(t *testing.T, text string) law {
	t.Helper()
	l, err := parseLaw(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestImportLawCanFail(t *testing.T) {
	good := mustLaw(t, sampleLaw)
	wantFaults(t, slices.Concat(lawFaults(good), importFaults(good, sampleTree()), testImportFaults(good, sampleTree()), sessionFileFaults(sampleTree())))

	for name, c := range map[string]struct {
		law  func(string) string
		tree func(*tree)
		want []string
	}{
		"an import that is not allowed": {
			tree: func(tr *tree) { tr.Packages[2].Imports = append(tr.Packages[2].Imports, "x.org/yaml") },
			want: []string{"core/id imports x.org/yaml"},
		},
		"an allowance nobody uses": {
			tree: func(tr *tree) { tr.Packages[1].Imports = tr.Packages[1].Imports[:2] },
			want: []string{"core/entry is allowed core/id but does not import it"},
		},
		"a package without an entry": {
			tree: func(tr *tree) { tr.Packages = append(tr.Packages, pkg{Path: "extra"}) },
			want: []string{"extra has no entry"},
		},
		"an entry without a package": {
			law:  func(s string) string { return strings.Replace(s, "engine planned", "engine", 1) },
			want: []string{"engine has an entry in testdata/imports.txt but does not exist"},
		},
		"a planned package that exists": {
			tree: func(tr *tree) {
				tr.Packages = append(tr.Packages, pkg{Path: "engine", Imports: []string{"m.org/m/core/entry", "m.org/m/core/id"}})
			},
			want: []string{"engine exists but is marked planned"},
		},
		"an arrow up": {
			law:  func(s string) string { return strings.Replace(s, "# ids\n", "# ids\n\tcore/entry # wrong\n", 1) },
			tree: func(tr *tree) { tr.Packages[2].Imports = append(tr.Packages[2].Imports, "m.org/m/core/entry") },
			want: []string{"core/id may import core/entry: an arrow up"},
		},
		"a client on the engine": {
			law: func(s string) string {
				return strings.Replace(s, "client pure # steps\n", "client # steps\n\tengine # wrong\n", 1)
			},
			tree: func(tr *tree) { tr.Packages[0].Imports = append(tr.Packages[0].Imports, "m.org/m/engine") },
			want: []string{"client may import engine: side client never imports side engine"},
		},
		"a pure package on one that is not": {
			law:  func(s string) string { return strings.Replace(s, "core/id pure", "core/id", 1) },
			want: []string{"core/entry is pure and may import core/id"},
		},
		"a product package on a test kit": {
			law: func(s string) string {
				return strings.Replace(s, "engine planned # the driver\n", "engine planned # the driver\n\tstorage/kit # wrong\n", 1)
			},
			want: []string{"engine may import storage/kit, which is for tests"},
		},
		"an allowance without an entry": {
			law:  func(s string) string { return strings.Replace(s, "\tcore/entry # commits", "\tcore/gone # commits", 1) },
			want: []string{"engine may import core/gone, which has no entry"},
		},
		"a side that does not exist": {
			law:  func(s string) string { return strings.Replace(s, "side client ground", "side client ground attic", 1) },
			want: []string{"side attic, which does not exist"},
		},
		"a product package on a module for tests": {
			tree: func(tr *tree) { tr.Packages[0].Imports = append(tr.Packages[0].Imports, "r.org/rapid") },
			want: []string{"client imports r.org/rapid"},
		},
		"a test that brings its own module": {
			tree: func(tr *tree) { tr.Packages[1].TestImports = append(tr.Packages[1].TestImports, "a.org/assert") },
			want: []string{"tests of core/entry import a.org/assert"},
		},
		"a second door to session files, in a test": {
			tree: func(tr *tree) { tr.Packages[0].TestImports = []string{"database/sql"} },
			want: []string{"tests of client import database/sql"},
		},
		"a second door to the driver": {
			law: func(s string) string {
				return strings.Replace(s, "client pure # steps\n", "client # steps\n\tmodernc.org/sqlite # wrong\n", 1)
			},
			tree: func(tr *tree) { tr.Packages[0].Imports = append(tr.Packages[0].Imports, "modernc.org/sqlite") },
			want: []string{"client imports modernc.org/sqlite: only storage/sqlitedb"},
		},
		"a database that belongs to nobody": {
			tree: func(tr *tree) { tr.Packages[0].TestImports = []string{"m.org/m/storage/sqlitedb"} },
			want: []string{"client imports storage/sqlitedb: it owns no database file"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			text, tr := sampleLaw, sampleTree()
			if c.law != nil {
				text = c.law(text)
			}
			if c.tree != nil {
				c.tree(&tr)
			}
			l := mustLaw(t, text)
			wantFaults(t, slices.Concat(lawFaults(l), importFaults(l, tr), testImportFaults(l, tr), sessionFileFaults(tr)), c.want...)
		})
	}
}

func TestImportLawRefusesWhatItCannotRead(t *testing.T) {
	for text, want := range map[string]string{
		"core/id pure # ids":                             "stands under no side",
		"side a # x\ncore/id":                            "gives no reason",
		"side a # x\ncore/id pur # ids":                  "unknown mark",
		"side a # x\ncore/id # ids\ncore/id # again":     "two entries",
		"side a # x\n\tcore/id # ids":                    "stands under no package",
		"side a # x\ncore/id # ids\n\tcore/x core/y # z": "one path",
		"side # x": "needs a name",
	} {
		if _, err := parseLaw(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parse %q: %v, want an error that says %q", text, err, want)
		}
	}
}

func TestImportLawIsOnlyEverTightened(t *testing.T) {
	tr := sampleTree()
	tr.Packages = append(tr.Packages, pkg{Path: "engine", Imports: []string{"m.org/m/core/entry", "x.org/yaml"}})
	l := mustLaw(t, tighten(sampleLaw, tr))
	wantFaults(t, importFaults(l, tr), "engine imports x.org/yaml")
	if r, _ := l.find("engine"); r.is("planned") || len(r.imports) != 1 {
		t.Errorf("engine is %+v, want its mark gone and one allowance left", r)
	}
}

// strayFaults guards the guard: a folder of Go files that `go list` leaves out would be under no law. A folder with a go.mod of its own is another
// module, with its own tests.
func strayFaults(tr tree, files []string) (faults []string) {
	known := map[string]bool{}
	for _, p := range tr.Packages {
		known[p.Path] = true
	}
	var modules []string
	for _, f := range files {
		if path.Base(f) == "go.mod" && f != "go.mod" {
			modules = append(modules, path.Dir(f)+"/")
		}
	}
	for _, f := range files {
		elsewhere := slices.ContainsFunc(modules, func(m string) bool { return strings.HasPrefix(f, m) })
		if path.Ext(f) == ".go" && !elsewhere && !strings.Contains("/"+f, "/testdata/") && !known[path.Dir(f)] {
			faults = append(faults, fmt.Sprintf("%s is in no package that go list names", f))
		}
	}
	return faults
}

func TestEveryGoFileIsUnderTheLaw(t *testing.T) {
	report(t, strayFaults(theTree(t), trackedFiles(t)))
}

func TestStrayFilesAreFound(t *testing.T) {
	files := []string{"go.mod", "core/id/id.go", "_attic/old.go", "bench/go.mod", "bench/x/x.go", "core/id/testdata/x.go"}
	wantFaults(t, strayFaults(sampleTree(), files), "_attic/old.go")
}
