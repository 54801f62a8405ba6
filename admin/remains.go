package admin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/loom-run/loom/blob"
	"github.com/loom-run/loom/core/id"
)

// remains is whatever else lies in the root: what this build makes beside sessions,
// what is left of sessions that are gone, and what others put there. It is searched,
// and left alone but for outputs whose session is gone.
type remains struct{}

// Erase implements [Store].
func (remains) Erase(w *Work) (all []Account) {
	places, err := w.root.Sessions()
	if err != nil {
		return []Account{{Store: OtherStore, Subject: w.root.Dir, Outcome: NotSearched, Reason: plainly(err)}}
	}
	sessions := make(map[string]bool, len(places))
	for _, p := range places {
		sessions[p.Session.String()] = true
	}
	clean := 0
	err = filepath.WalkDir(w.root.Dir, func(path string, d fs.DirEntry, err error) error {
		within, _ := filepath.Rel(w.root.Dir, path)
		if err != nil {
			all = append(all, Account{Store: OtherStore, Subject: within, Outcome: NotSearched, Reason: plainly(err)})
			return nil
		}
		if !d.IsDir() && w.kept(within) {
			return nil
		}
		switch kind := kindOf(within, d, sessions); kind {
		case folder, ofSession:
			if d.IsDir() && kind == ofSession {
				return fs.SkipDir
			}
		case foreignDatabase:
			all = append(all, Account{Store: OtherStore, Subject: within, Outcome: NotSearched, Reason: "it is a database of another build of loom"})
		case special:
			all = append(all, Account{Store: OtherStore, Subject: within, Outcome: NotSearched, Reason: "it is no file"})
		case orphan:
			all = append(all, w.orphan(path, within))
		case file:
			if a, tell := w.file(path, within); tell && a.Outcome == Clean {
				clean++
			} else if tell {
				all = append(all, a)
			}
		}
		return nil
	})
	if clean > 0 {
		all = append(all, Account{Store: OtherStore, Subject: fmt.Sprintf("%d further files", clean), Outcome: Clean})
	}
	if err != nil {
		all = append(all, Account{Store: OtherStore, Subject: w.root.Dir, Outcome: NotSearched, Reason: plainly(err)})
	}
	return all
}

// kept reports whether a further store keeps a file.
func (w *Work) kept(within string) bool {
	return slices.ContainsFunc(w.root.Stores, func(s Store) bool {
		k, ok := s.(Keeper)
		return ok && k.Keeps(within)
	})
}

// kind is what a path in the root is.
type kind uint8

const (
	folder          kind = iota
	ofSession            // a session, or a part of one: accounted for with it
	orphan               // an output of a session that is gone
	foreignDatabase      // opening it as a file could drop the locks of whoever has it open
	special              // a link, a socket
	file
)

// parts are the endings of what belongs to a session file.
var parts = []string{"", "-wal", "-shm", "-journal", ".rewrite", ".rewrite-wal", ".rewrite-shm", ".rewrite-journal"}

func kindOf(within string, d fs.DirEntry, sessions map[string]bool) kind {
	top, rest, below := strings.Cut(filepath.ToSlash(within), "/")
	if top == "sessions" && below {
		if k, ok := ofSessions(rest, d, sessions); ok {
			return k
		}
	}
	switch name := d.Name(); {
	case d.IsDir():
		return folder
	case !d.Type().IsRegular():
		return special
	case slices.ContainsFunc(parts[:4], func(p string) bool { return strings.HasSuffix(name, ".db"+p) }):
		return foreignDatabase
	}
	return file
}

// ofSessions tells the paths below the folder of sessions that are named after one.
func ofSessions(rest string, d fs.DirEntry, sessions map[string]bool) (kind, bool) {
	name, inside, below := strings.Cut(rest, "/")
	text, ending, _ := strings.Cut(name, ".")
	if s, err := id.ParseSessionID(text); err != nil || s.String() != text {
		return 0, false
	}
	if ending == "blobs" && !sessions[text] && d.Type().IsRegular() && below {
		ref := blob.Ref{SHA256: inside}
		_, err := blob.ParseRef(ref.Value())
		return orphan, err == nil
	}
	own := ending == "tools" || ending == "blobs" || strings.HasPrefix(ending, "db") && slices.Contains(parts, ending[2:])
	return ofSession, own && sessions[text] && (!below || ending == "blobs")
}

// Reasons why the text is left in a file that no store keeps.
const (
	notOurs = "no part of loom keeps this file; look at it and remove it"
	halfway = "an export, an import or an erasure left it that was killed, or is at work; remove its folder when none is"
)

// file searches a file that no store knows.
func (w *Work) file(path, within string) (a Account, tell bool) {
	a = Account{Store: OtherStore, Subject: within, Outcome: Clean}
	found, err := w.inFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return a, false
	case err != nil:
		a.Outcome, a.Reason = NotSearched, plainly(err)
	case found:
		a.Found = Found{Bytes: true}
		a.Outcome, a.Reason = Unreachable, notOurs
		if strings.HasPrefix(within, stageName) {
			a.Reason = halfway
		}
	}
	return a, true
}

func (w *Work) inFile(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return w.Needle.InBytes(f)
}

// orphan removes an output that holds the text and whose session is gone: nobody
// refers to it.
func (w *Work) orphan(path, within string) Account {
	a, _ := w.file(path, within)
	a.Store = OutputStore
	if !a.Found.Bytes {
		return a
	}
	a.Found.Texts = 1
	if w.DryRun {
		a.Outcome, a.Reason = Present, ""
		return a
	}
	if err := os.Remove(path); err != nil {
		a.Reason = plainly(err)
		return a
	}
	a.Outcome, a.Reason, a.Erased = Clean, "", 1
	return a
}
