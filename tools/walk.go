package tools

import (
	"context"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
)

// fileList is what a walk found.
type fileList struct {
	list   []string // in order; relative to the workspace, slash-separated
	large  int      // files left out because of their size
	unread int      // folders that could not be read
}

// files lists the files to search at a place: a file is searched whatever it is
// called, of a folder those that glob selects and no .gitignore names. Links are
// not followed, .git is not entered.
func (w *workspace) files(ctx context.Context, at place, g glob) (fileList, error) {
	info, err := w.root.Stat(filepath.FromSlash(at.rel))
	if err != nil {
		return fileList{}, w.failure(at.shown, err)
	}
	if !info.IsDir() {
		if !info.Mode().IsRegular() {
			return fileList{}, refusePath("%q is not a regular file", at.shown)
		}
		if info.Size() > fileLimit {
			return fileList{large: 1}, nil
		}
		return fileList{list: []string{at.rel}}, nil
	}
	walk := &walk{room: w, ctx: ctx, top: at.rel, glob: g}
	rules := w.rulesAbove(at.rel)
	if !w.stands() {
		return fileList{}, w.failure(at.shown, fs.ErrNotExist)
	}
	return walk.found, walk.folder(at, rules)
}

type walk struct {
	room  *workspace
	ctx   context.Context
	top   string
	glob  glob
	found fileList
}

func (k *walk) folder(at place, rules []ignoreRule) error {
	if k.ctx.Err() != nil {
		return context.Cause(k.ctx)
	}
	entries, err := k.room.list(at)
	if err != nil {
		k.found.unread++
		return nil
	}
	rules = append(rules[:len(rules):len(rules)], k.room.rulesOf(at.rel)...)
	for _, e := range entries {
		rel := path.Join(at.rel, e.Name())
		switch {
		case strings.EqualFold(e.Name(), ".git"), ignored(rules, rel, e.IsDir()):
		case e.IsDir():
			if k.room.isClosed(rel) {
				continue
			}
			if err := k.folder(place{rel: rel, shown: rel}, rules); err != nil {
				return err
			}
		case e.Type().IsRegular():
			if !k.glob.selects(k.below(rel)) {
				continue
			}
			if info, err := e.Info(); err == nil && info.Size() > fileLimit {
				k.found.large++
				continue
			}
			k.found.list = append(k.found.list, rel)
		}
	}
	return nil
}

// below is a path as seen from the searched folder.
func (k *walk) below(rel string) string {
	if k.top == "." {
		return rel
	}
	return strings.TrimPrefix(rel, k.top+"/")
}

// rulesOf reads the .gitignore of one folder.
func (w *workspace) rulesOf(dir string) []ignoreRule {
	name := path.Join(dir, ".gitignore")
	content, _, err := w.load(place{rel: name, shown: name})
	if err != nil {
		return nil
	}
	return parseIgnore(dir, string(content))
}

// rulesAbove reads the .gitignore files of the folders above dir, outermost
// first. Above the workspace nothing is read.
func (w *workspace) rulesAbove(dir string) (rules []ignoreRule) {
	if dir == "." {
		return nil
	}
	above := "."
	for name := range strings.SplitSeq(dir, "/") {
		rules = append(rules, w.rulesOf(above)...)
		above = path.Join(above, name)
	}
	return rules
}
