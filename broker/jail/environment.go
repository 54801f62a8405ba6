package jail

import (
	"path/filepath"
	"slices"
	"strings"
)

// allowed are the variables of the harness that a command may see: what a
// program needs to find its files, its language and its tools. Everything else
// stays with the harness, so that a key in its environment is out of reach
// without anybody having to recognise it as one. Variables that tell tools where
// to fetch from are left out: their values may hold passwords.
var allowed = []string{
	"CARGO_HOME", "COLORTERM", "GOCACHE", "GOMODCACHE", "GOPATH", "GOROOT", "GOTOOLCHAIN",
	"HOME", "JAVA_HOME", "LANG", "LANGUAGE",
	"LC_ADDRESS", "LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_IDENTIFICATION", "LC_MEASUREMENT", "LC_MESSAGES", "LC_MONETARY",
	"LC_NAME", "LC_NUMERIC", "LC_PAPER", "LC_TELEPHONE", "LC_TIME",
	"LOGNAME", "NO_COLOR", "PATH", "RUSTUP_HOME", "SHELL", "TEMP", "TERM", "TMP", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV",
}

// floorPath is searched when the harness has no usable PATH.
const floorPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Environment returns the environment for commands, made from that of the
// harness (as NAME=value). Only the names of the allow list pass; PATH keeps its
// absolute entries, so that no program is taken from the working directory by
// accident, and is always set. The result is sorted by name.
func Environment(harness []string) []string {
	out := make([]string, 0, len(allowed))
	path := ""
	for _, entry := range harness {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || strings.IndexByte(value, 0) >= 0 {
			continue
		}
		if _, in := slices.BinarySearch(allowed, name); !in {
			continue
		}
		if name == "PATH" {
			path = absoluteEntries(value)
			continue
		}
		out = append(out, entry)
	}
	if path == "" {
		path = floorPath
	}
	out = append(out, "PATH="+path)
	slices.Sort(out)
	return slices.CompactFunc(out, func(a, b string) bool { return nameOf(a) == nameOf(b) })
}

// Names returns the names in env, in order.
func Names(env []string) []string {
	names := make([]string, len(env))
	for i, entry := range env {
		names[i] = nameOf(entry)
	}
	return names
}

func nameOf(entry string) string {
	name, _, _ := strings.Cut(entry, "=")
	return name
}

func absoluteEntries(path string) string {
	kept := slices.DeleteFunc(filepath.SplitList(path), func(dir string) bool { return !filepath.IsAbs(dir) })
	return strings.Join(kept, string(filepath.ListSeparator))
}

// SearchPath returns the directories of PATH in env, in order.
func SearchPath(env []string) []string {
	for _, entry := range env {
		if path, ok := strings.CutPrefix(entry, "PATH="); ok {
			return filepath.SplitList(path)
		}
	}
	return nil
}
