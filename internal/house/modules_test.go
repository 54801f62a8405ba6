package house

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

const dependenciesFile = "docs/dependencies.md"

// requires is the part of `go mod edit -json` that the laws need: module path → version.
func requires(modEdit []byte) (map[string]string, error) {
	var mod struct {
		Require []struct{ Path, Version string }
		Replace []struct{ Old struct{ Path string } }
	}
	if err := json.Unmarshal(modEdit, &mod); err != nil {
		return nil, fmt.Errorf("read go.mod: %w", err)
	}
	if len(mod.Replace) > 0 {
		return nil, fmt.Errorf("go.mod replaces %s: who embeds this module would not get the replacement", mod.Replace[0].Old.Path)
	}
	versions := map[string]string{}
	for _, r := range mod.Require {
		versions[r.Path] = r.Version
	}
	return versions, nil
}

var loadRequires = sync.OnceValues(func() (map[string]string, error) {
	out, err := run("go", "mod", "edit", "-json")
	if err != nil {
		return nil, err
	}
	return requires(out)
})

func theRequires(t *testing.T) map[string]string {
	t.Helper()
	versions, err := loadRequires()
	if err != nil {
		t.Fatal(err)
	}
	return versions
}

// pinFaults compares our version of a module with the one that another module of ours pins in its own go.mod. SQLite's translation to Go is generated
// against exactly one libc; any other, newer included, is untested ground under every session file.
func pinFaults(ours, theirs map[string]string, module string) (faults []string) {
	switch {
	case theirs[module] == "":
		faults = append(faults, module+" is not pinned there any more: this law needs a new look")
	case ours[module] == "":
		faults = append(faults, "go.mod does not require "+module)
	case ours[module] != theirs[module]:
		faults = append(faults, fmt.Sprintf("go.mod has %s %s, its user pins %s: go get %[1]s@%[3]s", module, ours[module], theirs[module]))
	}
	return faults
}

func TestLibcIsTheOneSQLitePins(t *testing.T) {
	ours := theRequires(t)
	if ours["modernc.org/sqlite"] == "" {
		t.Skip("go.mod does not require modernc.org/sqlite")
	}
	out, err := run("go", "list", "-m", "-json", "modernc.org/sqlite")
	if err != nil {
		t.Fatal(err)
	}
	var module struct{ GoMod string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	out, err = run("go", "mod", "edit", "-json", module.GoMod)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := requires(out)
	if err != nil {
		t.Fatal(err)
	}
	report(t, pinFaults(ours, theirs, "modernc.org/libc"))
}

func TestPinCanFail(t *testing.T) {
	const m = "modernc.org/libc"
	pin := func(v string) map[string]string { return map[string]string{m: v} }
	wantFaults(t, pinFaults(pin("v1.80.1"), pin("v1.80.1"), m))
	wantFaults(t, pinFaults(pin("v1.81.2"), pin("v1.80.1"), m), "its user pins v1.80.1")
	wantFaults(t, pinFaults(nil, pin("v1.80.1"), m), "does not require")
	wantFaults(t, pinFaults(pin("v1.80.1"), nil, m), "not pinned there")
	if _, err := requires([]byte(`{"Replace":[{"Old":{"Path":"a.org/a"},"New":{"Path":"../a"}}]}`)); err == nil {
		t.Error("a replaced module passed")
	}
}

// dependency is one row of docs/dependencies.md.
type dependency struct{ table, module, version string }

// dependencyRow is a table row whose first two cells are a module or tool and its version, both as code.
var dependencyRow = regexp.MustCompile("^\\| `([^`]+)` \\| `([^`]+)` \\|(.*)\\|$")

// parseDependencies reads the tables of the document; a row belongs to the heading above it.
func parseDependencies(doc string) (rows []dependency, faults []string) {
	table := ""
	for n, line := range strings.Split(doc, "\n") {
		if name, ok := strings.CutPrefix(line, "## "); ok {
			table = name
		}
		m := dependencyRow.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		rows = append(rows, dependency{table, m[1], m[2]})
		cells := strings.Split(m[3], "|")
		if len(cells) < 3 || slices.ContainsFunc(cells, func(c string) bool { return strings.TrimSpace(c) == "" }) {
			faults = append(faults, fmt.Sprintf("line %d: the row of %s leaves need, licence or reason empty", n+1, m[1]))
		}
	}
	return rows, faults
}

// moduleOf returns the required module that provides a package.
func moduleOf(versions map[string]string, imp string) (string, bool) {
	best := ""
	for module := range versions {
		if (imp == module || strings.HasPrefix(imp, module+"/")) && len(module) > len(best) {
			best = module
		}
	}
	return best, best != ""
}

// dependencyFaults compares the document with go.mod and with what the tree imports, and its tools with the Makefile's pins.
func dependencyFaults(rows []dependency, versions map[string]string, l law, tr tree, makefile string) (faults []string) {
	inTable := func(table, module string) bool {
		return slices.ContainsFunc(rows, func(d dependency) bool { return d.table == table && d.module == module })
	}
	for _, d := range rows {
		switch d.table {
		case "Linked", "Tests only":
			if versions[d.module] != d.version {
				faults = append(faults, fmt.Sprintf("%s %s is described, go.mod has %q", d.module, d.version, versions[d.module]))
			}
		case "Tools":
			if !strings.Contains(makefile, d.version) {
				faults = append(faults, fmt.Sprintf("%s %s is described, the Makefile pins another version", d.module, d.version))
			}
		case "Oracles": // oracle_test.go compares them with their own go.mod
			if versions[d.module] != "" {
				faults = append(faults, fmt.Sprintf("%s is described as an oracle, and go.mod requires it", d.module))
			}
		default:
			faults = append(faults, fmt.Sprintf("%s stands in table %q, which nobody checks", d.module, d.table))
		}
	}
	missing := map[string]bool{}
	for _, p := range tr.Packages {
		r, _ := l.find(p.Path)
		for _, imp := range foreign(tr, p.Imports) {
			m, ok := moduleOf(versions, imp)
			switch {
			case !ok || isStd(imp) || inTable("Linked", m):
			case !inTable("Tests only", m):
				missing[fmt.Sprintf("%s is imported by %s and not described", m, p.Path)] = true
			case !r.is("testkit"):
				missing[fmt.Sprintf("%s is described as for tests only and imported by %s", m, p.Path)] = true
			}
		}
		for _, imp := range foreign(tr, p.TestImports) {
			if m, ok := moduleOf(versions, imp); ok && !isStd(imp) && !inTable("Linked", m) && !inTable("Tests only", m) {
				missing[fmt.Sprintf("%s is imported by tests of %s and not described", m, p.Path)] = true
			}
		}
	}
	for m := range missing {
		faults = append(faults, m)
	}
	slices.Sort(faults)
	return faults
}

func TestDependenciesAreDescribed(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(dependenciesFile)))
	if err != nil {
		t.Fatal(err)
	}
	rows, faults := parseDependencies(string(doc))
	report(t, faults)
	if len(rows) == 0 {
		t.Fatalf("%s has no row that reads as one", dependenciesFile)
	}
	report(t, dependencyFaults(rows, theRequires(t), theLaw(t), theTree(t), string(readTracked(t, "Makefile"))))
}

func TestDependenciesCanFail(t *testing.T) {
	doc := "## Linked\n| `j.org/json` | `v1.0.0` | JSON | MIT | strict |\n## Tests only\n| `r.org/rapid` | `v1.3.0` | properties | MPL-2.0 | shrinks |\n## Tools\n| `lint` | `v2.0.0` | lint | GPL-3.0 | one binary |\n"
	versions := map[string]string{"j.org/json": "v1.0.0", "r.org/rapid": "v1.3.0"}
	check := func(doc string, versions map[string]string, tr tree, makefile string) []string {
		rows, faults := parseDependencies(doc)
		return append(faults, dependencyFaults(rows, versions, mustLaw(t, sampleLaw), tr, makefile)...)
	}
	wantFaults(t, check(doc, versions, sampleTree(), "LINT := v2.0.0"))
	wantFaults(t, check(doc, versions, sampleTree(), "LINT := v2.1.0"), "lint v2.0.0")
	wantFaults(t, check(doc, map[string]string{"j.org/json": "v1.0.1", "r.org/rapid": "v1.3.0"}, sampleTree(), "v2.0.0"), `j.org/json v1.0.0 is described, go.mod has "v1.0.1"`)
	wantFaults(t, check(strings.Replace(doc, "| strict |", "|  |", 1), versions, sampleTree(), "v2.0.0"), "line 2")
	oracle := doc + "## Oracles\n| `o.org/codec` | `v1.0.0` | bytes | MIT | old |\n"
	wantFaults(t, check(oracle, versions, sampleTree(), "v2.0.0"))
	wantFaults(t, check(oracle, map[string]string{"j.org/json": "v1.0.0", "r.org/rapid": "v1.3.0", "o.org/codec": "v1.0.0"}, sampleTree(), "v2.0.0"), "o.org/codec is described as an oracle, and go.mod requires it")
	wantFaults(t, check(strings.Replace(doc, "## Tools", "## Toys", 1), versions, sampleTree(), "v2.0.0"), `table "Toys"`)
	swapped := strings.Replace(strings.Replace(doc, "## Linked", "## Tests only", 1), "## Tests only\n| `r.org", "| `r.org", 1)
	wantFaults(t, check(swapped, versions, sampleTree(), "v2.0.0"), "j.org/json is described as for tests only and imported by core/entry")
	undescribed := strings.Replace(strings.Replace(doc, "`j.org", "j.org", 1), "`r.org", "r.org", 1)
	wantFaults(t, check(undescribed, versions, sampleTree(), "v2.0.0"),
		"j.org/json is imported by core/entry", "r.org/rapid is imported by storage/kit", "r.org/rapid is imported by tests of core/entry")
}
