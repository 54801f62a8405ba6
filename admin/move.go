package admin

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/loom-run/loom/blob"
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/session/check"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlite"
)

// Exported is what an export wrote.
type Exported struct {
	Path    string // absolute
	Digest  string // of the manifest, which has those of all files
	Size    int64  // bytes
	Outputs int
	Lost    int64 // outputs that rows refer to and that could not be read
}

// ErrExists is a place that holds something already.
type ErrExists struct{ Path string }

func (e *ErrExists) Error() string {
	return fmt.Sprintf("there is something at %s already; nothing was written, choose another name", e.Path)
}

// ErrUnsoundSession is a session that breaks invariants.
type ErrUnsoundSession struct {
	Session id.SessionID
	Broken  int
}

func (e *ErrUnsoundSession) Error() string {
	return fmt.Sprintf("the session %s breaks %d invariants; nothing was changed; `loom check` names them", e.Session, e.Broken)
}

// Export writes a session with its outputs to a file that does not exist yet, and
// remembers where. The session is held meanwhile, and stays as it is.
func Export(root Root, s id.SessionID, path string) (Exported, error) {
	p, err := find(root, s)
	if err != nil {
		return Exported{}, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return Exported{}, err
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return Exported{}, &ErrExists{path}
	}
	giveBack, err := root.Borrow(s)
	if err != nil {
		return Exported{}, err
	}
	defer giveBack()
	root.sweep()
	return exportTo(root, p, path)
}

func find(root Root, s id.SessionID) (Place, error) {
	places, err := root.Sessions()
	if err != nil {
		return Place{}, err
	}
	for _, p := range places {
		if p.Session == s {
			return p, nil
		}
	}
	return Place{}, &ErrUnknownSession{s}
}

func exportTo(root Root, p Place, path string) (done Exported, err error) {
	dir, clear, err := root.stage()
	if err != nil {
		return Exported{}, err
	}
	defer func() { err = errors.Join(err, clear()) }()
	e := sqlite.Export{Path: p.File, To: filepath.Join(dir, "session"), Op: root.Owner(), Clock: root.Clock}
	digest, err := sqlite.ExportClosed(e)
	if err != nil {
		return Exported{}, err
	}
	defer func() { err = errors.Join(err, sqlite.ReleaseExport(e)) }()
	return pack(root, packing{session: p.Session, file: e.To, digest: digest, outputs: blob.Open(p.Outputs)}, path, place)
}

// brought gives a file that lies in the stage to put, which gives it its name in the
// folder of path: itself, or where that is another file system, a copy.
func brought(staged, path string, put func(temp, path string) error) error {
	err := put(staged, path)
	if err == nil || is[*ErrExists](err) {
		return err
	}
	in, err := os.Open(staged)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()                                           // it was only read
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-") // mode 0600
	if err != nil {
		return err
	}
	_, err = io.Copy(temp, in)
	if err = errors.Join(err, temp.Sync(), temp.Close()); err == nil {
		err = put(temp.Name(), path)
	}
	if gone := os.Remove(temp.Name()); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}

// packing is a closed session file that nobody else knows, and its outputs.
type packing struct {
	session id.SessionID
	file    string
	digest  string
	outputs *blob.Store
}

// pack writes an export beside the staged session, remembers where it will be, and
// lets put give it its name: one that is there is known.
func pack(root Root, k packing, path string, put func(temp, path string) error) (Exported, error) {
	m, err := k.manifest(root)
	if err != nil {
		return Exported{}, err
	}
	f, err := os.OpenFile(k.file+"-packed", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return Exported{}, err
	}
	digest, size, err := k.write(f, m)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return Exported{}, err
	}
	known := known{Session: k.session, Path: path, Manifest: digest, At: root.Clock()}
	if err := known.write(root); err != nil {
		return Exported{}, fmt.Errorf("where the export is cannot be kept, so that an erasure would not find it; nothing was written: %w", err)
	}
	if err := brought(f.Name(), path, put); err != nil {
		return Exported{}, errors.Join(err, known.forget(root))
	}
	return Exported{Path: path, Digest: digest, Size: size, Outputs: len(m.Files) - 1, Lost: m.Lost}, nil
}

// place gives a file a name that nothing has.
func place(temp, path string) error {
	err := os.Link(temp, path)
	if errors.Is(err, fs.ErrExist) {
		return &ErrExists{path}
	}
	if err != nil && filepath.Dir(temp) == filepath.Dir(path) { // a file system without links
		if _, there := os.Lstat(path); !errors.Is(there, fs.ErrNotExist) {
			return &ErrExists{path}
		}
		err = os.Rename(temp, path)
	}
	if err != nil {
		return err
	}
	return syncFolderOf(path)
}

// replace gives a file the name of another one, which is gone then.
func replace(temp, path string) error {
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return syncFolderOf(path)
}

// manifest lists a sound session with every output that it refers to.
func (k packing) manifest(root Root) (manifest, error) {
	r, err := sqlite.OpenReader(k.file)
	if err != nil {
		return manifest{}, err
	}
	defer func() { _ = r.Close() }() // it was only read
	if err := soundly(r, k.session); err != nil {
		return manifest{}, err
	}
	snap, err := r.Snapshot()
	if err != nil {
		return manifest{}, err
	}
	st, err := os.Stat(k.file)
	if err != nil {
		return manifest{}, err
	}
	m := manifest{Session: k.session, Storage: sqlite.Version, Generation: snap.Generation, At: root.Clock(),
		Files: []part{{sessionPart, st.Size(), k.digest}}}
	w := Work{root: root}
	seen, err := w.rows(r)
	if err != nil {
		return manifest{}, err
	}
	for _, ref := range byDigest(seen.refs) {
		if k.readable(ref) {
			m.Files = append(m.Files, part{outputPrefix + ref.SHA256, ref.Size, ref.SHA256})
		} else {
			m.Lost++
		}
	}
	return m, nil
}

// soundly refuses a session that breaks an invariant, or is another one.
func soundly(r *sqlite.Reader, s id.SessionID) error {
	found, err := check.Session(r)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		return &ErrUnsoundSession{s, len(found)}
	}
	own, _, err := session.NewView(r).ID()
	if err == nil && own != s {
		err = corrupt.New(exportBoundary, "session", s.String(), own.String())
	}
	return err
}

// readable reads an output to its end, which verifies it.
func (k packing) readable(ref blob.Ref) bool {
	r, err := k.outputs.Open(ref)
	if err != nil {
		return false
	}
	defer func() { _ = r.Close() }() // it was only read
	_, err = io.Copy(io.Discard, r)
	return err == nil
}

func (k packing) write(w io.Writer, m manifest) (digest string, size int64, err error) {
	c := &counting{w: w}
	if digest, err = m.writeHead(c); err != nil {
		return "", 0, err
	}
	for _, p := range m.Files {
		var r io.ReadCloser
		if ref, ok := p.ref(); ok {
			r, err = k.outputs.Open(ref)
		} else {
			r, err = os.Open(k.file) // a copy that nobody else knows
		}
		if err != nil {
			return "", 0, err
		}
		n, err := io.Copy(c, r)
		if err = errors.Join(err, r.Close()); err == nil && n != p.Size {
			err = fmt.Errorf("%s changed while it was exported; nothing was written, try again", p.Name)
		}
		if err != nil {
			return "", 0, err
		}
	}
	return digest, c.n, nil
}

type counting struct {
	w io.Writer
	n int64
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// Imported is what an import made.
type Imported struct {
	Session id.SessionID
	Outputs int
	Lost    int64 // outputs that were lost before the export
}

// ErrSessionExists is an import of a session that is there.
type ErrSessionExists struct{ ID id.SessionID }

func (e *ErrSessionExists) Error() string {
	return fmt.Sprintf("the session %s is here already; nothing was changed", e.ID)
}

// Import makes a session of an export, after all of it was verified. at says where a
// session of that id lies.
func Import(root Root, from io.Reader, at func(id.SessionID) Place) (done Imported, err error) {
	root.sweep()
	dir, clear, err := root.stage()
	if err != nil {
		return Imported{}, err
	}
	defer func() { err = errors.Join(err, clear()) }()
	m, _, err := unpack(bufio.NewReaderSize(from, 1<<16), dir)
	if err != nil {
		return Imported{}, err
	}
	staged := stagedPlace(dir, m.Session)
	if err := m.admissible(staged, root.Clock()); err != nil {
		return Imported{}, err
	}
	if err := settleIn(at(m.Session), staged); err != nil {
		return Imported{}, err
	}
	return Imported{m.Session, len(m.Files) - 1, m.Lost}, nil
}

// stagedPlace is where an export is unpacked to.
func stagedPlace(dir string, s id.SessionID) Place {
	return Place{Session: s, File: filepath.Join(dir, "session"), Outputs: filepath.Join(dir, "blobs")}
}

// unpack verifies an export while it writes its files into a folder.
func unpack(r *bufio.Reader, dir string) (m manifest, digest string, err error) {
	if m, digest, err = readHead(r); err != nil {
		return manifest{}, "", err
	}
	to := stagedPlace(dir, m.Session)
	outputs := blob.Open(to.Outputs)
	err = m.contents(r, func(p part, content io.Reader) error {
		if _, ok := p.ref(); ok {
			_, err := outputs.Put(content)
			return err
		}
		f, err := os.OpenFile(to.File, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, content)
		return errors.Join(err, f.Sync(), f.Close())
	})
	return m, digest, err
}

// admissible refuses what is no sound session of that id and history that nobody
// holds, with the outputs that its rows refer to but for those that were lost.
func (m manifest) admissible(p Place, now int64) error {
	r, err := sqlite.OpenReader(p.File)
	if failed, ok := errors.AsType[*storage.OpenFailed](err); ok && !is[*corrupt.Report](err) && !hindered(failed) {
		return corrupt.New(exportBoundary, sessionPart, "a session", "another file") // whose path is that of the stage
	}
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it was only read
	if err := soundly(r, p.Session); err != nil {
		return err
	}
	if m.Storage != sqlite.Version { // the reader reads no other
		return corrupt.New(exportBoundary, "storage", fmt.Sprint(sqlite.Version), fmt.Sprint(m.Storage))
	}
	snap, err := r.Snapshot()
	if err == nil && snap.Generation != m.Generation {
		err = corrupt.New(exportBoundary, "generation", fmt.Sprint(m.Generation), fmt.Sprint(snap.Generation))
	}
	if err == nil {
		err = m.complete(r)
	}
	if err != nil {
		return err
	}
	held, err := r.Held(now)
	if err == nil && held != nil {
		err = corrupt.New(exportBoundary, sessionPart, "a session that nobody holds", "a lease")
	}
	return err
}

// hindered reports whether a file could not be read for a reason that lies outside it.
func hindered(failed *storage.OpenFailed) bool {
	return errors.Is(failed, storage.ErrFull) || errors.Is(failed, storage.ErrReadOnly) || errors.Is(failed, fs.ErrPermission)
}

// complete compares the outputs of an export with those that the rows refer to.
func (m manifest) complete(r *sqlite.Reader) error {
	var w Work // without a text: it only collects references
	seen, err := w.rows(r)
	if err != nil {
		return err
	}
	lost := int64(len(seen.refs))
	for _, p := range m.Files {
		ref, output := p.ref()
		if !output {
			continue
		}
		if seen.refs[ref.SHA256] != ref {
			return corrupt.New(exportBoundary, p.Name, "an output that a row refers to", "one that none does")
		}
		lost--
	}
	if lost != m.Lost {
		return corrupt.New(exportBoundary, "lost", fmt.Sprintf("%d outputs that rows refer to and that are not here", lost), fmt.Sprint(m.Lost))
	}
	return nil
}

// settleIn gives a staged session its place: the outputs first, so that a session
// that is there has them.
func settleIn(to, staged Place) error {
	if _, err := os.Lstat(to.File); !errors.Is(err, fs.ErrNotExist) {
		return &ErrSessionExists{to.Session}
	}
	if err := sqlite.Vacant(to.File); err != nil {
		return err
	}
	from, outputs := blob.Open(staged.Outputs), blob.Open(to.Outputs)
	refs, err := from.List()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to.File), 0o700); err != nil {
		return err
	}
	for _, ref := range refs {
		if err := outputs.Adopt(ref, from); err != nil {
			return err // what was put there nobody refers to, and the next import takes it
		}
	}
	err = place(staged.File, to.File)
	if is[*ErrExists](err) {
		return &ErrSessionExists{to.Session}
	}
	return err
}

// Rehome lets an imported session work in another directory.
func Rehome(root Root, p Place, dir string) error {
	w := &Work{root: root}
	return w.holding(p, func(s *sqlite.Store) error { return session.New(s).Move(dir) })
}
