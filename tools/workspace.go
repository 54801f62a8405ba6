package tools

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// workspace is the folder that the file tools are confined to.
type workspace struct {
	path   string // as it was given
	real   string // without links
	root   *os.Root
	closed []string // folders inside that no tool opens, relative and slash-separated
}

// maxLinks is how many links a path may lead through.
const maxLinks = 40

// maxPath bounds a path argument, as systems do.
const maxPath = 4096

func openWorkspace(dir string, closed []string) (*workspace, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("tools: the workspace %q is not an absolute path", dir)
	}
	actual, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, fmt.Errorf("tools: open the workspace: %w", err)
	}
	root, err := os.OpenRoot(actual)
	if err != nil {
		return nil, fmt.Errorf("tools: open the workspace: %w", err)
	}
	w := &workspace{path: filepath.Clean(dir), real: actual, root: root}
	for _, c := range closed {
		if resolved, err := filepath.EvalSymlinks(c); err == nil {
			c = resolved
		}
		if rel, ok := w.inside(c); ok {
			w.closed = append(w.closed, path.Clean(rel))
		}
	}
	return w, nil
}

func (w *workspace) close() error { return w.root.Close() }

// place is a path in the workspace.
type place struct {
	rel   string // slash-separated, without links when it was resolved; "." is the workspace
	shown string // as it is told to the model
}

// refusedPath says, in one sentence, why a path cannot be used.
type refusedPath struct{ sentence string }

func (e *refusedPath) Error() string { return e.sentence }

func refusePath(format string, args ...any) error { return &refusedPath{fmt.Sprintf(format, args...)} }

// inside returns the part of an absolute path below the workspace. It may hold
// "..", which means the folder above and not the name before: after a link the
// two differ.
func (w *workspace) inside(abs string) (rel string, ok bool) {
	for _, form := range []string{abs, filepath.Clean(abs)} {
		for _, base := range []string{w.path, w.real} {
			if form == base {
				return ".", true
			}
			rest, ok := strings.CutPrefix(form, strings.TrimSuffix(base, string(filepath.Separator))+string(filepath.Separator))
			if rest = strings.TrimLeft(rest, string(filepath.Separator)); ok && filepath.IsLocal(filepath.Clean(rest)) {
				return filepath.ToSlash(rest), true
			}
		}
	}
	return "", false
}

// lexical judges a path argument by its text alone.
func (w *workspace) lexical(arg string) (rel string, err error) {
	switch {
	case arg == "":
		return "", refusePath("the path is empty")
	case len(arg) > maxPath:
		return "", refusePath("the path has %d bytes; at most %d are possible", len(arg), maxPath)
	case strings.ContainsRune(arg, 0):
		return "", refusePath("the path %q holds a NUL byte", arg)
	case arg == "~" || strings.HasPrefix(arg, "~/"):
		return "", refusePath("%q: ~ is not expanded; use a path in the workspace %s", arg, w.path)
	}
	if scheme, _, ok := strings.Cut(arg, "://"); ok && !strings.ContainsAny(scheme, "/.") {
		return "", refusePath("%q: there is no scheme %q; use a path in the workspace %s", arg, scheme, w.path)
	}
	if filepath.IsAbs(arg) {
		rel, ok := w.inside(arg)
		if !ok {
			return "", refusePath("%q is outside the workspace %s; only paths in it can be used", arg, w.path)
		}
		return rel, nil
	}
	rel = filepath.ToSlash(arg)
	if !filepath.IsLocal(filepath.Clean(arg)) {
		return "", refusePath("%q leads out of the workspace %s; only paths in it can be used", arg, w.path)
	}
	return rel, nil
}

// resolve follows the links of a path, whose end need not exist. What it returns
// is used through the root, which refuses whatever has become a way out since.
func (w *workspace) resolve(arg string) (place, error) {
	rel, err := w.lexical(arg)
	if err != nil {
		return place{}, err
	}
	shown := path.Clean(rel)
	todo := strings.Split(rel, "/")
	var done []string
	for links := 0; len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		switch name {
		case ".", "":
			continue
		case "..":
			if len(done) == 0 {
				return place{}, refusePath("%q leads out of the workspace %s through a link; only paths in it can be used", arg, w.path)
			}
			done = done[:len(done)-1]
			continue
		}
		here := path.Join(append(slices.Clone(done), name)...)
		info, err := w.root.Lstat(here)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode()&fs.ModeSymlink == 0 {
			done = append(done, name)
			continue
		}
		if err != nil {
			return place{}, w.failure(arg, err)
		}
		if links++; links > maxLinks {
			return place{}, refusePath("%q leads through more than %d links", arg, maxLinks)
		}
		target, err := w.root.Readlink(here)
		if err != nil {
			return place{}, w.failure(arg, err)
		}
		if filepath.IsAbs(target) {
			inside, ok := w.inside(target)
			if !ok {
				return place{}, refusePath("%q leads out of the workspace %s through a link to %q; only paths in it can be used", arg, w.path, clip(target, 200))
			}
			target, done = inside, nil
		}
		todo = append(strings.Split(filepath.ToSlash(target), "/"), todo...)
	}
	at := place{rel: ".", shown: shown}
	if len(done) > 0 {
		at.rel = strings.Join(done, "/")
	}
	if w.isClosed(at.rel) {
		return place{}, refusePath("%q belongs to the store of sessions, which tools do not open", arg)
	}
	return at, nil
}

func (w *workspace) isClosed(rel string) bool {
	return slices.ContainsFunc(w.closed, func(c string) bool { return rel == c || c == "." || strings.HasPrefix(rel, c+"/") })
}

// resolveForWriting is resolve for files that are going to be changed. What git
// keeps is not: a hook or a setting there is a command that runs later.
func (w *workspace) resolveForWriting(arg string) (place, error) {
	at, err := w.resolve(arg)
	if err != nil {
		return place{}, err
	}
	for name := range strings.SplitSeq(at.rel, "/") {
		if strings.EqualFold(name, ".git") {
			return place{}, refusePath("%q belongs to .git, which only commands may change", arg)
		}
	}
	return at, nil
}

// failure words an error of the system about a path.
func (w *workspace) failure(arg string, err error) error {
	if refused, ok := errors.AsType[*refusedPath](err); ok {
		return refused
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if !w.stands() {
			return refusePath("the workspace %s was removed or replaced since this session was opened; nothing was done", w.path)
		}
		return refusePath("%q does not exist", arg)
	case errors.Is(err, fs.ErrPermission):
		return refusePath("%q: the system permits no access", arg)
	case errors.Is(err, syscall.ENOTDIR):
		return refusePath("%q leads through something that is no folder", arg)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return refusePath("%q has a name that is too long for this system", clip(arg, 80))
	case errors.Is(err, syscall.ENOSPC):
		return refusePath("%q: the disk is full; nothing was changed", arg)
	}
	// The rest is rare; the text of the system says most. The root says of a path
	// that has become a way out since it was resolved that it escapes.
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err
	}
	return refusePath("%q: %v", arg, err)
}

// stands reports whether the path of the workspace still leads to the folder
// that was opened.
func (w *workspace) stands() bool {
	opened, err := w.root.Stat(".")
	if err != nil {
		return false
	}
	now, err := os.Stat(w.real)
	return err == nil && os.SameFile(opened, now)
}

// openRegular opens a regular file for reading. A pipe or a device would block
// or never end, so the kind is judged before anything is read, and opening does
// not wait for a writer.
func (w *workspace) openRegular(at place) (*os.File, fs.FileInfo, error) {
	f, err := w.root.OpenFile(filepath.FromSlash(at.rel), os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return nil, nil, w.failure(at.shown, err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		err = w.failure(at.shown, err)
	case info.IsDir():
		err = refusePath("%q is a folder; list it with ls", at.shown)
	case !info.Mode().IsRegular():
		err = refusePath("%q is not a regular file", at.shown)
	default:
		return f, info, nil
	}
	_ = f.Close()
	return nil, nil, err
}
