package admin

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/loom-run/loom/blob"
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/storage/sqlite"
)

// ExportStore is what exports are called in accounts.
const ExportStore = "export"

// exportFolder is where the root remembers exports.
const exportFolder = "exports"

// known is an export that this root remembers.
type known struct {
	Session  id.SessionID
	Path     string
	Manifest string // digest
	At       int64

	record string // the file that it is remembered in
}

// write remembers an export.
func (k known) write(root Root) error {
	var w jsonv.Writer
	w.Begin()
	w.Str("format", "loom-known-export")
	w.Num("version", 1)
	w.Str("session", k.Session.String())
	w.Str("path", k.Path)
	w.Str("manifest", k.Manifest)
	w.Num("at", k.At)
	w.End()
	return writeRecord(filepath.Join(root.Dir, exportFolder), k.name(), w.Bytes())
}

// name is the file that an export is remembered in.
func (k known) name() string { return digestOf([]byte(k.Manifest + " " + k.Path))[:32] + ".json" }

func (k known) forget(root Root) error {
	return os.Remove(filepath.Join(root.Dir, exportFolder, k.name()))
}

// writeRecord keeps one small file whole or not at all.
func writeRecord(dir, name string, text []byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(dir, ".new-") // mode 0600
	if err != nil {
		return err
	}
	_, err = temp.Write(append(text, '\n'))
	err = errors.Join(err, temp.Sync(), temp.Close())
	if err == nil {
		err = replace(temp.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		_ = os.Remove(temp.Name()) // the error is told
	}
	return err
}

// readKnown lists the exports that the root remembers. Records that cannot be read are
// named in the second list.
func readKnown(root Root) (all []known, unread []string, err error) {
	files, err := os.ReadDir(filepath.Join(root.Dir, exportFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".json") {
			continue
		}
		path := filepath.Join(root.Dir, exportFolder, f.Name())
		k, err := readRecord(path)
		if err != nil {
			unread = append(unread, filepath.Join(exportFolder, f.Name()))
			continue
		}
		all = append(all, k)
	}
	return all, unread, err
}

func readRecord(path string) (known, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return known{}, err
	}
	v, err := jsonv.Parse(text)
	if err != nil {
		return known{}, err
	}
	r := jsonv.Read(v, exportBoundary)
	k := known{Path: r.Str("path"), Manifest: r.Str("manifest"), At: r.Num("at"), record: path}
	session, version := r.Str("session"), r.Num("version")
	if err := r.Err(); err != nil {
		return known{}, err
	}
	if version != 1 {
		return known{}, corrupt.New(exportBoundary, "version", "1", fmt.Sprint(version))
	}
	k.Session, err = id.ParseSessionID(session)
	return k, err
}

// exports is the exports that the root remembers.
type exports struct{}

// Erase implements [Store]. It comes after the sessions: what they reached it reaches.
func (exports) Erase(w *Work) (all []Account) {
	list, unread, err := readKnown(w.root)
	if err != nil {
		return []Account{{Store: ExportStore, Subject: exportFolder, Outcome: NotSearched, Reason: plainly(err)}}
	}
	for _, name := range unread {
		all = append(all, Account{Store: ExportStore, Subject: name, Outcome: NotSearched, Reason: "what the root remembers of an export cannot be read"})
	}
	told := make(map[string]bool) // a path may be remembered under two digests
	for _, k := range list {
		if w.Reaches(k.Session) && !told[k.Path] {
			told[k.Path] = true
			all = append(all, w.export(k))
		}
	}
	return all
}

// export erases from one export: it is unpacked, gone through like a session, and
// written anew.
func (w *Work) export(k known) Account {
	a := Account{Store: ExportStore, Subject: k.Path, Outcome: NotSearched}
	if w.absent(k.Path, k.record, &a) {
		return a
	}
	if err := w.inExport(k, &a); err != nil {
		a.Outcome, a.Reason = NotSearched, exportFault(err)
	}
	return a
}

func exportFault(err error) string {
	if newer, ok := errors.AsType[*NewerExport](err); ok {
		return newer.Error()
	}
	if is[*corrupt.Report](err) {
		return "it is damaged, or another file is in its place"
	}
	return plainly(err)
}

func (w *Work) inExport(k known, a *Account) (err error) {
	dir, clear, err := w.root.stage()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clear()) }()
	f, err := os.Open(k.Path)
	if err != nil {
		return err
	}
	m, _, err := unpack(bufio.NewReaderSize(f, 1<<16), dir)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if m.Session != k.Session { // another digest is one of an erasure that did not come to its end
		return corrupt.New(exportBoundary, "manifest", k.Session.String(), m.Session.String())
	}
	// In the stage nobody else has the session, so that there is nothing to borrow.
	inside := &Work{Erasure: w.Erasure, root: w.root, eraser: w.eraser, reach: map[id.SessionID]bool{}, erased: map[id.SessionID]bool{}}
	inside.root.Borrow = func(id.SessionID) (func(), error) { return func() {}, nil }
	staged := stagedPlace(dir, m.Session)
	a.Outcome = Clean
	for _, part := range inside.session(staged) {
		a.Found.add(part.Found)
		a.Erased += part.Erased
		if worse(part.Outcome, a.Outcome) {
			a.Outcome, a.Reason = part.Outcome, part.Reason
		}
	}
	if a.Erased == 0 && (w.DryRun || !a.Found.any() || a.Outcome != Clean) {
		return nil
	}
	return w.repack(k, staged)
}

// repack writes an export anew, in its place, and remembers its new digest.
func (w *Work) repack(k known, staged Place) error {
	e := sqlite.Export{Path: staged.File, To: staged.File + "-copy", Op: w.root.Owner(), Clock: w.root.Clock}
	digest, err := sqlite.ExportClosed(e)
	if err != nil {
		return err
	}
	if _, err := pack(w.root, packing{k.Session, e.To, digest, blob.Open(staged.Outputs)}, k.Path, replace); err != nil {
		return err
	}
	if err := os.Remove(k.record); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// byDigest lists references in the order of their digests.
func byDigest(refs map[string]blob.Ref) []blob.Ref {
	list := make([]blob.Ref, 0, len(refs))
	for _, r := range refs {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b blob.Ref) int { return strings.Compare(a.SHA256, b.SHA256) })
	return list
}
