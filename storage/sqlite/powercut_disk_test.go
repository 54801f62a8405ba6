package sqlite

import (
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The model of a disk that loses its power. What was flushed is there afterwards.
// Of what was not, each 512 bytes of each write, each new size and each change of the
// folder may be there or not, whatever the order in which they were made.

// recording is what was done to the files of one folder.
type recording struct {
	folder string
	base   map[string][]byte // the files at the beginning, durable

	mu    sync.Mutex // guards what follows
	known map[string]bool
	calls []ioCall
}

// record records what is done to the folder from now on.
func record(t testing.TB, folder string) *recording {
	t.Helper()
	r := &recording{folder: folder, base: contents(t, folder), known: map[string]bool{}}
	for name := range r.base {
		r.known[name] = true
	}
	watch(t, folder, r.see)
	return r
}

func (r *recording) see(c ioCall) answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch c.kind {
	case ioRead, ioIndex:
		return answer{}
	case ioOpen:
		if r.known[c.name] {
			return answer{}
		}
		// By us, past SQLite: found and createFile flush what they write.
		c.kind = ioCreate
		c.data, _ = os.ReadFile(filepath.Join(r.folder, c.name))
	case ioCreate, ioWrite, ioTruncate, ioSync, ioDelete, ioRename:
	}
	r.note(c)
	return answer{instead: c.kind == ioSync} // the model is the disk
}

// note adds a call; the lock is held.
func (r *recording) note(c ioCall) {
	switch r.known[c.name] = c.kind != ioDelete && c.kind != ioRename; c.kind {
	case ioRename:
		r.known[c.to] = true
	case ioOpen, ioCreate, ioRead, ioWrite, ioTruncate, ioSync, ioDelete, ioIndex:
	}
	r.calls = append(r.calls, c)
}

// did notes what we did ourselves, past SQLite.
func (r *recording) did(c ioCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(c)
}

// swept notes which files we have removed, past SQLite.
func (r *recording) swept() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(r.known)) {
		if _, err := os.Lstat(filepath.Join(r.folder, name)); r.known[name] && errors.Is(err, fs.ErrNotExist) {
			r.note(ioCall{kind: ioDelete, name: name})
		}
	}
}

// now is how many calls there were.
func (r *recording) now() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.calls)
}

// contents are the files of a folder but the index of a log.
func contents(t testing.TB, folder string) map[string][]byte {
	t.Helper()
	list, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, f := range list {
		if strings.HasSuffix(f.Name(), "-shm") {
			continue
		}
		if files[f.Name()], err = os.ReadFile(filepath.Join(folder, f.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

const sectorSize = 512

// disk is the state of a disk after some calls.
type disk struct {
	lies    bool // it says that it has flushed, and has not
	durable map[string]*content
	pending []folderChange // not durable yet
	live    map[string]*content
}

// content is what a name leads to.
type content struct {
	durable []byte
	pending []ioCall // writes and sizes, not durable yet
}

// folderChange gives a name to a file and takes one away; either may be missing.
type folderChange struct {
	name string
	to   *content
	gone string
}

func (c folderChange) apply(names map[string]*content) {
	if c.to != nil {
		names[c.name] = c.to
	}
	if c.gone != "" {
		delete(names, c.gone)
	}
}

func newDisk(base map[string][]byte) *disk {
	d := &disk{durable: map[string]*content{}}
	for name, bytes := range base {
		d.durable[name] = &content{durable: bytes}
	}
	d.live = maps.Clone(d.durable)
	return d
}

func (d *disk) apply(c ioCall) {
	file := d.live[c.name]
	switch c.kind {
	case ioCreate:
		d.change(folderChange{name: c.name, to: &content{durable: c.data}})
	case ioDelete:
		d.change(folderChange{gone: c.name})
		if c.folder {
			d.flushFolder()
		}
	case ioRename:
		d.change(folderChange{name: c.to, to: file, gone: c.name})
	case ioWrite, ioTruncate:
		file.pending = append(file.pending, c)
	case ioSync:
		if file != nil && !d.lies {
			file.durable, file.pending = file.after(allOfIt{}), nil
		}
		if c.folder {
			d.flushFolder()
		}
	case ioOpen, ioRead, ioIndex:
	}
}

func (d *disk) change(c folderChange) {
	c.apply(d.live)
	d.pending = append(d.pending, c)
}

func (d *disk) flushFolder() {
	if !d.lies {
		d.durable, d.pending = maps.Clone(d.live), nil
	}
}

// fate says what of the unflushed survives.
type fate interface {
	change() bool                            // of the folder, or of a size
	sector() bool                            // of a write
	beyond(n int64) (garbage []byte, _ bool) // a lost sector behind the end of the file may still have grown it
}

// allOfIt survives, as after a kill, or nothingOfIt, or anyOfIt.
type (
	allOfIt     struct{}
	nothingOfIt struct{}
	anyOfIt     struct {
		*rand.Rand
		keep float64 // the share that survives
	}
)

func (allOfIt) change() bool                    { return true }
func (allOfIt) sector() bool                    { return true }
func (allOfIt) beyond(int64) ([]byte, bool)     { return nil, false }
func (nothingOfIt) change() bool                { return false }
func (nothingOfIt) sector() bool                { return false }
func (nothingOfIt) beyond(int64) ([]byte, bool) { return nil, false }

func (f anyOfIt) change() bool { return f.Float64() < f.keep }
func (f anyOfIt) sector() bool { return f.Float64() < f.keep }

func (f anyOfIt) beyond(n int64) ([]byte, bool) {
	garbage := make([]byte, n)
	if f.IntN(2) == 0 {
		for i := range garbage {
			garbage[i] = byte(f.Uint32())
		}
	}
	return garbage, f.IntN(2) == 0
}

// image is what is found when the power is back.
func (d *disk) image(f fate) map[string][]byte {
	names := maps.Clone(d.durable)
	for _, c := range d.pending {
		if f.change() {
			c.apply(names)
		}
	}
	files := map[string][]byte{}
	for _, name := range slices.Sorted(maps.Keys(names)) { // in one order, so that a seed repeats
		files[name] = names[name].after(f)
	}
	return files
}

// after is the content of a file once f has decided on what is pending.
func (c *content) after(f fate) []byte {
	file := slices.Clone(c.durable)
	for _, p := range c.pending {
		if p.kind == ioTruncate {
			if f.change() {
				file = resized(file, p.at)
			}
			continue
		}
		for at, end := p.at, p.at+int64(len(p.data)); at < end; {
			next := min(end, at/sectorSize*sectorSize+sectorSize)
			part := p.data[at-p.at : next-p.at]
			if f.sector() {
				file = resized(file, max(next, int64(len(file))))
				copy(file[at:], part)
			} else if at >= int64(len(file)) {
				if garbage, grown := f.beyond(next - at); grown {
					file = append(resized(file, at), garbage...)
				}
			}
			at = next
		}
	}
	return file
}

// resized cuts a file or fills it up with zeros.
func resized(file []byte, size int64) []byte {
	if size <= int64(len(file)) {
		return file[:size]
	}
	return append(file, make([]byte, size-int64(len(file)))...)
}
