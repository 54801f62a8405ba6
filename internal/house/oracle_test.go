package house

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// oracleModule is the one module beside the program's: libraries that codecs are compared with.
const oracleModule = "internal/oracle"

// oracleRequires returns what the oracles' go.mod names itself: module path → version. It stands on the program's module as it lies here.
func oracleRequires(modEdit []byte, ours string) (map[string]string, error) {
	var mod struct {
		Require []struct {
			Path, Version string
			Indirect      bool
		}
		Replace []struct{ Old, New struct{ Path string } }
	}
	if err := json.Unmarshal(modEdit, &mod); err != nil {
		return nil, fmt.Errorf("read go.mod of %s: %w", oracleModule, err)
	}
	if len(mod.Replace) != 1 || mod.Replace[0].Old.Path != ours || mod.Replace[0].New.Path != "../.." {
		return nil, fmt.Errorf("go.mod of %s replaces %v, want the program's own module and nothing else", oracleModule, mod.Replace)
	}
	versions := map[string]string{}
	for _, r := range mod.Require {
		if !r.Indirect && r.Path != ours {
			versions[r.Path] = r.Version
		}
	}
	return versions, nil
}

// oracleFaults compares the document with that go.mod: a library that the program's tests use too has the version they have.
func oracleFaults(rows []dependency, oracles, ours map[string]string) (faults []string) {
	described := map[string]string{}
	for _, d := range rows {
		if d.table == "Oracles" {
			described[d.module] = d.version
			if oracles[d.module] != d.version {
				faults = append(faults, fmt.Sprintf("oracle %s %s is described, its go.mod has %q", d.module, d.version, oracles[d.module]))
			}
		}
	}
	for module, version := range oracles {
		switch {
		case described[module] != "":
		case ours[module] == "":
			faults = append(faults, fmt.Sprintf("oracle %s is not described", module))
		case ours[module] != version:
			faults = append(faults, fmt.Sprintf("%s has %s %s, go.mod has %s", oracleModule, module, version, ours[module]))
		}
	}
	slices.Sort(faults)
	return faults
}

func TestOraclesAreDescribedAndNeverLinked(t *testing.T) {
	out, err := run("go", "mod", "edit", "-json", filepath.Join(oracleModule, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	tr := theTree(t)
	oracles, err := oracleRequires(out, tr.Module)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(dependenciesFile)))
	if err != nil {
		t.Fatal(err)
	}
	rows, _ := parseDependencies(string(doc))
	report(t, oracleFaults(rows, oracles, theRequires(t)))
	for _, p := range tr.Packages {
		if p.Path == oracleModule {
			t.Errorf("%s is part of the program's module", p.Path)
		}
	}
}

func TestOraclesCanFail(t *testing.T) {
	row := []dependency{{"Oracles", "o.org/codec", "v1.0.0"}, {"Tools", "lint", "v2.0.0"}}
	oracles := map[string]string{"o.org/codec": "v1.0.0", "r.org/rapid": "v1.3.0"}
	ours := map[string]string{"r.org/rapid": "v1.3.0"}
	wantFaults(t, oracleFaults(row, oracles, ours))
	wantFaults(t, oracleFaults(row, map[string]string{"o.org/codec": "v1.1.0"}, ours), `oracle o.org/codec v1.0.0 is described, its go.mod has "v1.1.0"`)
	wantFaults(t, oracleFaults(nil, oracles, ours), "oracle o.org/codec is not described")
	wantFaults(t, oracleFaults(row, oracles, map[string]string{"r.org/rapid": "v1.4.0"}), "has r.org/rapid v1.3.0, go.mod has v1.4.0")
	good := `{"Require":[{"Path":"m.org/m"},{"Path":"o.org/codec","Version":"v1.0.0"},{"Path":"x.org/x","Indirect":true}],"Replace":[{"Old":{"Path":"m.org/m"},"New":{"Path":"../.."}}]}`
	if got, err := oracleRequires([]byte(good), "m.org/m"); err != nil || len(got) != 1 || got["o.org/codec"] != "v1.0.0" {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{`{}`, `{"Replace":[{"Old":{"Path":"o.org/codec"},"New":{"Path":"../.."}}]}`, `{"Replace":[{"Old":{"Path":"m.org/m"},"New":{"Path":"../m"}}]}`} {
		if _, err := oracleRequires([]byte(bad), "m.org/m"); err == nil {
			t.Errorf("%s passed", bad)
		}
	}
}
