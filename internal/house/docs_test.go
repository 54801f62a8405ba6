package house

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// markdownLink is an inline link to a file; anchors and addresses are cut off or skipped by the caller.
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)

	makeTarget = regexp.MustCompile(`(?m)^([a-z]+):`)
	makeCall   = regexp.MustCompile("`make ([a-z]+)[^`]*`")
)

// outsideCode returns a document without its fenced blocks, in which brackets mean other things.
func outsideCode(doc string) string {
	var out []string
	fenced := false
	for _, line := range strings.Split(doc, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			line = ""
		}
		if fenced {
			line = ""
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// docFaults checks one document: its links lead to files, and the make targets it names exist.
func docFaults(name, doc string, files []string, makefile string) (faults []string) {
	exists := func(p string) bool {
		return slices.ContainsFunc(files, func(f string) bool { return f == p || strings.HasPrefix(f, p+"/") })
	}
	doc = outsideCode(doc)
	for _, m := range markdownLink.FindAllStringSubmatch(doc, -1) {
		to, _, _ := strings.Cut(m[1], "#")
		if to == "" || strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
			continue
		}
		if p := path.Join(path.Dir(name), to); !exists(p) {
			faults = append(faults, fmt.Sprintf("%s links to %s, which does not exist", name, to))
		}
	}
	var targets []string
	for _, m := range makeTarget.FindAllStringSubmatch(makefile, -1) {
		targets = append(targets, m[1])
	}
	for _, m := range makeCall.FindAllStringSubmatch(doc, -1) {
		if !slices.Contains(targets, m[1]) {
			faults = append(faults, fmt.Sprintf("%s names `make %s`, which the Makefile does not have", name, m[1]))
		}
	}
	return faults
}

// indexFaults checks that a folder of documents that has a README.md lists every page of it there.
func indexFaults(files []string, read func(string) string) (faults []string) {
	for _, index := range files {
		if path.Base(index) != "README.md" || !strings.HasPrefix(index, "docs/") {
			continue
		}
		text := read(index)
		for _, page := range files {
			if path.Dir(page) == path.Dir(index) && page != index && path.Ext(page) == ".md" && !strings.Contains(text, "("+path.Base(page)+")") {
				faults = append(faults, fmt.Sprintf("%s does not list %s", index, path.Base(page)))
			}
		}
	}
	return faults
}

func TestDocumentsPointAtWhatExists(t *testing.T) {
	files := trackedFiles(t)
	makefile := string(readTracked(t, "Makefile"))
	for _, f := range files {
		if path.Ext(f) == ".md" && !strings.Contains(f, "testdata/") {
			report(t, docFaults(f, string(readTracked(t, f)), files, makefile))
		}
	}
	report(t, indexFaults(files, func(f string) string { return string(readTracked(t, f)) }))
}

func TestDocumentsCanFail(t *testing.T) {
	files := []string{"README.md", "docs/formats/README.md", "docs/formats/row.md", "core/id/id.go"}
	makefile := "check: fmt\n\techo\nfmt:\n"
	fine := "[a](docs/formats/row.md#x) [b](core/id) [c](https://example.com/x) [d](#top) `make check`\n```\n[x](gone.md)\n```\n"
	wantFaults(t, docFaults("README.md", fine, files, makefile))
	wantFaults(t, docFaults("README.md", "[a](gone.md)", files, makefile), "links to gone.md")
	wantFaults(t, docFaults("docs/formats/row.md", "[a](../../core/id/id.go) [b](core/id)", files, makefile), "links to core/id")
	wantFaults(t, docFaults("README.md", "run `make love`", files, makefile), "make love")
	wantFaults(t, indexFaults(files, func(string) string { return "- [the row](row.md)" }))
	wantFaults(t, indexFaults(files, func(string) string { return "nothing" }), "does not list row.md")
}
