package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// The file system under SQLite, seen and disturbed by tests. It is SQLite's own one
// with a look at each call that changes something; files in folders that nobody
// watches go to it directly.

// ioKind is what SQLite asks of its file system.
type ioKind uint8

const (
	ioOpen   ioKind = iota // of a file that exists
	ioCreate               // of a file that does not exist yet
	ioRead
	ioWrite
	ioTruncate
	ioSync
	ioDelete
	ioIndex  // the index of the log, which is mapped memory, gets a part more
	ioRename // by us, past SQLite
)

func (k ioKind) String() string {
	return [...]string{"open", "create", "read", "write", "truncate", "sync", "delete", "index", "rename"}[k]
}

// ioCall is one call, about to happen.
type ioCall struct {
	kind   ioKind
	name   string // of the file in its folder
	at     int64  // read and write: the offset; truncate: the new size
	data   []byte // write: a copy; create, past SQLite: what the file begins with, durable
	folder bool   // sync and delete: the folder is flushed, too
	to     string // rename
}

func (c ioCall) String() string {
	return fmt.Sprintf("%s of %s at %d, %d bytes", c.kind, c.name, c.at, len(c.data))
}

// watcher sees a call before it happens. It may be called from several goroutines.
type watcher func(ioCall) answer

// answer says what becomes of a call. The zero answer lets it happen.
type answer struct {
	instead bool  // it does not happen, and
	code    int32 // that is the result, SQLITE_OK included
	part    int   // of a write: so many bytes are written all the same
}

// watched is the state of the wrapped file system of this process.
var watched struct {
	wrap sync.Once
	vfs  uintptr // SQLite's own

	mu      sync.RWMutex // guards what follows
	folders map[string]watcher
	open    map[uintptr]*watchedFile // by sqlite3_file
	tables  map[uintptr]uintptr      // SQLite's table of methods, and ours in its place
}

type watchedFile struct {
	watch   watcher
	name    string
	methods *lib.Tsqlite3_io_methods // SQLite's own
	folder  bool                     // the next flush flushes the folder as well
}

// watch shows f every call for a file in a folder that is opened from now on.
func watch(t testing.TB, folder string, f watcher) {
	t.Helper()
	real, err := filepath.EvalSymlinks(folder) // SQLite resolves names
	if err != nil {
		t.Fatal(err)
	}
	watched.wrap.Do(wrapFileSystem)
	watched.mu.Lock()
	defer watched.mu.Unlock()
	watched.folders[real] = f
	t.Cleanup(func() {
		watched.mu.Lock()
		defer watched.mu.Unlock()
		delete(watched.folders, real)
	})
}

// wrapFileSystem makes the wrapped file system the one that is used by default. It
// stays that for the rest of the process.
func wrapFileSystem() {
	tls := libc.NewTLS()
	defer tls.Close()
	watched.folders, watched.open, watched.tables = map[string]watcher{}, map[uintptr]*watchedFile{}, map[uintptr]uintptr{}
	watched.vfs = lib.Xsqlite3_vfs_find(tls, 0)
	name, err := libc.CString("watched")
	if err != nil {
		panic(err)
	}
	ours := libc.Xcalloc(tls, 1, libc.Tsize_t(unsafe.Sizeof(lib.Tsqlite3_vfs{})))
	v := pointed[lib.Tsqlite3_vfs](ours)
	*v = *pointed[lib.Tsqlite3_vfs](watched.vfs)
	v.FzName, v.FpNext = name, 0
	v.FxOpen, v.FxDelete = address(watchedOpen), address(watchedDelete)
	if code := lib.Xsqlite3_vfs_register(tls, ours, 1); code != lib.SQLITE_OK {
		panic(fmt.Sprint("the wrapped file system is refused with ", code))
	}
}

// pointed is what C has at an address.
func pointed[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

// method is the function that a table of SQLite has at an address, and address the
// reverse. f must be a function of the package, which never moves.
func method[F any](p uintptr) F  { return *(*F)(unsafe.Pointer(&p)) }
func address[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

type (
	openFunc  = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, out uintptr) int32
	dropFunc  = func(tls *libc.TLS, vfs, name uintptr, syncFolder int32) int32
	closeFunc = func(tls *libc.TLS, file uintptr) int32
	moveFunc  = func(tls *libc.TLS, file, buffer uintptr, n int32, at int64) int32
	sizeFunc  = func(tls *libc.TLS, file uintptr, size int64) int32
	syncFunc  = func(tls *libc.TLS, file uintptr, flags int32) int32
	shmFunc   = func(tls *libc.TLS, file uintptr, region, size, extend int32, out uintptr) int32
)

func watcherOf(path string) watcher {
	watched.mu.RLock()
	defer watched.mu.RUnlock()
	return watched.folders[filepath.Dir(path)]
}

func fileOf(file uintptr) *watchedFile {
	watched.mu.RLock()
	defer watched.mu.RUnlock()
	return watched.open[file]
}

func watchedOpen(tls *libc.TLS, _, name, file uintptr, flags int32, out uintptr) int32 {
	open := method[openFunc](pointed[lib.Tsqlite3_vfs](watched.vfs).FxOpen)
	if name == 0 {
		return open(tls, watched.vfs, name, file, flags, out)
	}
	path := libc.GoString(name)
	w := watcherOf(path)
	if w == nil {
		return open(tls, watched.vfs, name, file, flags, out)
	}
	call := ioCall{kind: ioOpen, name: filepath.Base(path)}
	creates := flags&lib.SQLITE_OPEN_CREATE != 0
	if _, err := os.Lstat(path); creates && errors.Is(err, fs.ErrNotExist) {
		call.kind = ioCreate
	}
	opened := pointed[lib.Tsqlite3_file](file)
	opened.FpMethods = 0
	if a := w(call); a.instead {
		return a.code
	}
	code := open(tls, watched.vfs, name, file, flags, out)
	if code != lib.SQLITE_OK || opened.FpMethods == 0 {
		return code
	}
	watched.mu.Lock()
	defer watched.mu.Unlock()
	watched.open[file] = &watchedFile{
		watch: w, name: call.name, methods: pointed[lib.Tsqlite3_io_methods](opened.FpMethods),
		// As SQLite does itself: the name of a new journal is made durable with what is in it.
		folder: creates && flags&(lib.SQLITE_OPEN_MAIN_JOURNAL|lib.SQLITE_OPEN_WAL) != 0,
	}
	opened.FpMethods = tableFor(tls, opened.FpMethods)
	return code
}

// tableFor copies a table of methods; the lock is held.
func tableFor(tls *libc.TLS, own uintptr) uintptr {
	if ours, ok := watched.tables[own]; ok {
		return ours
	}
	ours := libc.Xcalloc(tls, 1, libc.Tsize_t(unsafe.Sizeof(lib.Tsqlite3_io_methods{})))
	m := pointed[lib.Tsqlite3_io_methods](ours)
	*m = *pointed[lib.Tsqlite3_io_methods](own)
	m.FxClose, m.FxRead, m.FxWrite = address(watchedClose), address(watchedRead), address(watchedWrite)
	m.FxTruncate, m.FxSync, m.FxShmMap = address(watchedTruncate), address(watchedSync), address(watchedIndex)
	watched.tables[own] = ours
	return ours
}

func watchedDelete(tls *libc.TLS, _, name uintptr, syncFolder int32) int32 {
	path := libc.GoString(name)
	if w := watcherOf(path); w != nil {
		if a := w(ioCall{kind: ioDelete, name: filepath.Base(path), folder: syncFolder != 0}); a.instead {
			return a.code
		}
	}
	return method[dropFunc](pointed[lib.Tsqlite3_vfs](watched.vfs).FxDelete)(tls, watched.vfs, name, syncFolder)
}

func watchedClose(tls *libc.TLS, file uintptr) int32 {
	f := fileOf(file)
	watched.mu.Lock()
	delete(watched.open, file)
	watched.mu.Unlock()
	return method[closeFunc](f.methods.FxClose)(tls, file)
}

func watchedRead(tls *libc.TLS, file, buffer uintptr, n int32, at int64) int32 {
	f := fileOf(file)
	if a := f.watch(ioCall{kind: ioRead, name: f.name, at: at}); a.instead {
		return a.code
	}
	return method[moveFunc](f.methods.FxRead)(tls, file, buffer, n, at)
}

func watchedWrite(tls *libc.TLS, file, buffer uintptr, n int32, at int64) int32 {
	f := fileOf(file)
	write := method[moveFunc](f.methods.FxWrite)
	data := unsafe.Slice(pointed[byte](buffer), int(n))
	if a := f.watch(ioCall{kind: ioWrite, name: f.name, at: at, data: append([]byte(nil), data...)}); a.instead {
		if a.part > 0 {
			if code := write(tls, file, buffer, int32(a.part), at); code != lib.SQLITE_OK {
				return code
			}
		}
		return a.code
	}
	return write(tls, file, buffer, n, at)
}

func watchedTruncate(tls *libc.TLS, file uintptr, size int64) int32 {
	f := fileOf(file)
	if a := f.watch(ioCall{kind: ioTruncate, name: f.name, at: size}); a.instead {
		return a.code
	}
	return method[sizeFunc](f.methods.FxTruncate)(tls, file, size)
}

func watchedSync(tls *libc.TLS, file uintptr, flags int32) int32 {
	f := fileOf(file)
	a := f.watch(ioCall{kind: ioSync, name: f.name, folder: f.folder})
	if a.instead && a.code != lib.SQLITE_OK {
		return a.code
	}
	f.folder = false
	if a.instead {
		return a.code
	}
	return method[syncFunc](f.methods.FxSync)(tls, file, flags)
}

func watchedIndex(tls *libc.TLS, file uintptr, region, size, extend int32, out uintptr) int32 {
	f := fileOf(file)
	if extend != 0 {
		if a := f.watch(ioCall{kind: ioIndex, name: f.name, at: int64(region)}); a.instead {
			return a.code
		}
	}
	return method[shmFunc](f.methods.FxShmMap)(tls, file, region, size, extend, out)
}
