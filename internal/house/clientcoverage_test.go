package house

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const clientCoverage = "docs/client-coverage.md"

// contract is what the wire has, and what of it this build does, read from the sources.
type contract struct {
	bodies, routes, tables []string        // wire.TextEnd, wire.PostPrompt, core/words.Causes
	done                   map[string]bool // the bodies that are minted and the routes that are carried out
}

var (
	kindRow    = regexp.MustCompile(`(?m)^\tof\[(\w+)\]\(`)
	kindOfBody = regexp.MustCompile(`(?m)^func \((\w+)\) Kind\(\) Kind \{ return (Kind\w+) \}`)
	mintedKind = regexp.MustCompile(`wire\.(Kind\w+)`)
	routeVar   = regexp.MustCompile(`(?m)^\t((?:Get|Post)\w+) += (?:get|post|func)\b`)
	handled    = regexp.MustCompile(`(?:handle\(s, |s\.mount\()wire\.((?:Get|Post)\w+),`)
	tableVar   = regexp.MustCompile(`(?m)^var (\w+) = (?:of\(|func\(\) \*Table)`)
)

// readContract reads it; sources are by path.
func readContract(read func(string) string, wordFiles []string) contract {
	c := contract{done: map[string]bool{}}
	bodyOf := map[string]string{}
	for _, m := range kindOfBody.FindAllStringSubmatch(read("wire/kinds.go"), -1) {
		bodyOf[m[2]] = "wire." + m[1]
	}
	for _, m := range kindRow.FindAllStringSubmatch(read("wire/kinds.go"), -1) {
		c.bodies = append(c.bodies, "wire."+m[1])
	}
	for _, m := range mintedKind.FindAllStringSubmatch(read("server/capability.go"), -1) {
		c.done[bodyOf[m[1]]] = true
	}
	for _, m := range routeVar.FindAllStringSubmatch(read("wire/route.go"), -1) {
		c.routes = append(c.routes, "wire."+m[1])
	}
	for _, m := range handled.FindAllStringSubmatch(read("server/routes.go"), -1) {
		c.done["wire."+m[1]] = true
	}
	for _, f := range wordFiles {
		for _, m := range tableVar.FindAllStringSubmatch(read(f), -1) {
			c.tables = append(c.tables, "core/words."+m[1])
		}
	}
	return c
}

// phrases are how a note says that something is in the contract alone.
const (
	notMinted  = "not minted yet"
	notCarried = "not carried out yet"
)

// feedFaults checks the document against the contract: everything of it feeds a row, and a note says what is not done exactly where it is not.
func feedFaults(doc string, c contract) (faults []string) {
	named := map[string]bool{}
	for n, line := range strings.Split(doc, "\n") {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if !strings.HasPrefix(line, "| ") || len(cells) != 4 {
			continue
		}
		var bodies, routes []string
		for _, span := range codeSpan.FindAllStringSubmatch(cells[1], -1) {
			name := span[1]
			named[name] = true
			if i := strings.LastIndexByte(name, '.'); strings.Count(name, ".") == 2 { // a field speaks for its type
				named[name[:i]] = true
			}
			if slices.Contains(c.bodies, name) {
				bodies = append(bodies, name)
			}
			if slices.Contains(c.routes, name) {
				routes = append(routes, name)
			}
		}
		note := strings.ToLower(cells[3])
		for _, part := range []struct {
			what   string
			names  []string
			phrase string
		}{{"minted", bodies, notMinted}, {"carried out", routes, notCarried}} {
			missing := slices.DeleteFunc(slices.Clone(part.names), func(name string) bool { return c.done[name] })
			says := strings.Contains(note, part.phrase)
			if len(missing) > 0 && !says {
				faults = append(faults, fmt.Sprintf("%s:%d: %s: not %s, and the note does not say %q", clientCoverage, n+1, strings.Join(missing, ", "), part.what, part.phrase))
			}
			if len(part.names) > 0 && len(missing) == 0 && says {
				faults = append(faults, fmt.Sprintf("%s:%d: %s: %s, and the note says %q", clientCoverage, n+1, strings.Join(part.names, ", "), part.what, part.phrase))
			}
		}
	}
	for _, name := range slices.Concat(c.bodies, c.routes, c.tables) {
		if !named[name] {
			faults = append(faults, fmt.Sprintf("%s: %s feeds no row", clientCoverage, name))
		}
	}
	return faults
}

func TestTheContractFeedsTheClientAndSaysWhatIsDone(t *testing.T) {
	tr := theTree(t)
	i := slices.IndexFunc(tr.Packages, func(p pkg) bool { return p.Path == wordsPackage })
	var wordFiles []string
	for _, f := range tr.Packages[i].Files {
		wordFiles = append(wordFiles, wordsPackage+"/"+f)
	}
	c := readContract(func(name string) string {
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}, wordFiles)
	if len(c.bodies) < 40 || len(c.routes) < 30 || len(c.tables) < 40 || len(c.done) < 25 {
		t.Fatalf("only %d kinds, %d routes, %d tables were read, and %d that are done", len(c.bodies), len(c.routes), len(c.tables), len(c.done))
	}
	report(t, feedFaults(string(readTracked(t, clientCoverage)), c))
}

func TestTheFeedCanFail(t *testing.T) {
	files := map[string]string{
		"wire/kinds.go":        "\tof[TextEnd](Replay),\n\tof[PendingLevel](Level),\n\nfunc (TextEnd) Kind() Kind { return KindTextEnd }\nfunc (PendingLevel) Kind() Kind { return KindPending }\n",
		"wire/route.go":        "var (\n\tPostPrompt      = post[Prompt, Prompted](\"prompt\")\n\tGetFrames = func() *Spec {\n\t\ts := 1\n",
		"server/capability.go": "var mintedKinds = []wire.Kind{wire.KindTextEnd}\n",
		"server/routes.go":     "\ts.mount(wire.GetFrames, s.frames)\n",
		"core/words/a.go":      "var Causes = of(\"x\",\n",
	}
	c := readContract(func(name string) string { return files[name] }, []string{"core/words/a.go"})
	const fine = "| a | `wire.TextEnd.Content` `wire.GetFrames` `core/words.Causes` | t | |\n| b | `wire.PendingLevel` `wire.PostPrompt` | t | Not minted yet, not carried out yet |\n"
	wantFaults(t, feedFaults(fine+"| a | `wire.TextEnd` | t | |\n", c))
	for doc, want := range map[string]string{
		strings.Replace(fine, "`core/words.Causes`", "", 1):           "core/words.Causes feeds no row",
		strings.Replace(fine, "`wire.GetFrames`", "", 1):              "wire.GetFrames feeds no row",
		strings.Replace(fine, "Not minted yet", "later", 1):           "wire.PendingLevel: not minted",
		strings.Replace(fine, "not carried out yet", "", 1):           "wire.PostPrompt: not carried out",
		fine + "| c | `wire.TextEnd` | t | not minted yet |\n":        "wire.TextEnd: minted, and the note says",
		fine + "| c | `wire.GetFrames` | t | not carried out yet |\n": "wire.GetFrames: carried out, and the note says",
	} {
		wantFaults(t, feedFaults(doc, c), want)
	}
}
