package admin_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/loom-run/loom/admin"
	"github.com/loom-run/loom/blob"
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlite"
)

// exported is a root with a session of everything, two outputs, and its export.
func exported(t testing.TB, text string) (w *world, s id.SessionID, path string) {
	t.Helper()
	w = newWorld(t)
	s = w.story(func(place string) string { return place + " " + text }).Self
	w.kept(s, "one output "+text)
	w.kept(s, "another output")
	path = filepath.Join(t.TempDir(), "s.loom")
	done, err := admin.Export(w.root, s, path)
	if err != nil {
		t.Fatal(err)
	}
	if st := must(os.Stat(path)); done.Path != path || done.Outputs != 2 || done.Lost != 0 || done.Size != st.Size() || st.Mode().Perm() != 0o600 {
		t.Errorf("%+v, mode %v", done, st.Mode())
	}
	return w, s, path
}

func importing(t testing.TB, w *world, content io.Reader) (admin.Imported, error) {
	t.Helper()
	return admin.Import(w.root, content, w.place)
}

func TestASessionMovesAsOneFile(t *testing.T) {
	w, s, path := exported(t, "text")
	before := w.rows(s)
	content := must(os.ReadFile(path))
	to := newWorld(t)
	done, err := importing(t, to, iotest.OneByteReader(bytes.NewReader(content[:len(content):len(content)])))
	if err != nil || done.Session != s || done.Outputs != 2 || done.Lost != 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	if d := cmp.Diff(before, to.rows(s)); d != "" {
		t.Error(d)
	}
	to.sound()
	if files := must(os.ReadDir(to.dir)); len(files) != 1 {
		t.Errorf("left are %v", files)
	}
	// It goes on there, and here.
	for _, x := range []*world{w, to} {
		store := x.open(s)
		x.commit(store, tx.Set(register.FactName, "a", jsonv.Num(1)))
		x.close(store)
	}
	// A session is here once.
	for _, x := range []*world{w, to} {
		before := x.digest()
		if _, err := importing(t, x, bytes.NewReader(content)); !is[*admin.ErrSessionExists](err) {
			t.Errorf("%T %v", err, err)
		}
		if d := cmp.Diff(before, x.digest()); d != "" {
			t.Errorf("a refused import changed %s", d)
		}
	}
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func TestAnExportOverwritesNothing(t *testing.T) {
	w, s, path := exported(t, "text")
	before := must(os.ReadFile(path))
	_, err := admin.Export(w.root, s, path)
	if !is[*admin.ErrExists](err) || !bytes.Equal(before, must(os.ReadFile(path))) {
		t.Errorf("%v", err)
	}
	if files := must(os.ReadDir(filepath.Dir(path))); len(files) != 1 {
		t.Errorf("left are %v", files)
	}
}

func TestASessionThatSomebodyHoldsOrThatIsBrokenIsNotExported(t *testing.T) {
	w := newWorld(t)
	s := w.plain("prompt")
	path := filepath.Join(t.TempDir(), "x")
	store := w.open(s)
	if _, err := admin.Export(w.root, s, path); !is[*storage.LeaseHeld](err) {
		t.Errorf("held: %v", err)
	}
	w.commit(store, tx.Set(register.StrandLeaf, "half", jsonv.Value{}))
	w.close(store)
	if _, err := admin.Export(w.root, s, path); !is[*admin.ErrUnsoundSession](err) {
		t.Errorf("unsound: %v", err)
	}
	w.borrow = func(id.SessionID) error { return errRunning }
	if _, err := admin.Export(w.root, s, path); !errors.Is(err, errRunning) {
		t.Errorf("running: %v", err)
	}
	w.borrow = nil
	var other id.SessionID
	other, w.ids = w.ids.Session()
	if _, err := admin.Export(w.root, other, path); !is[*admin.ErrUnknownSession](err) {
		t.Errorf("unknown: %v", err)
	}
	if files := must(os.ReadDir(filepath.Dir(path))); len(files) != 0 {
		t.Errorf("left are %v", files)
	}
	if files := must(os.ReadDir(w.dir)); len(files) != 1 {
		t.Errorf("left are %v", files)
	}
	w.close(w.open(s)) // and it is held by nobody
}

func TestLostOutputsAreCountedAndDoNotHoldUpAMove(t *testing.T) {
	w := newWorld(t)
	s := w.plain("prompt")
	lost, damaged, sound := w.kept(s, "lost"), w.kept(s, "damaged"), w.kept(s, "sound")
	if err := blob.Open(w.place(s).Outputs).Remove(lost); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.place(s).Outputs, damaged.SHA256), []byte("damagee"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x")
	done, err := admin.Export(w.root, s, path)
	if err != nil || done.Lost != 2 || done.Outputs != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	to := newWorld(t)
	in, err := importing(t, to, bytes.NewReader(must(os.ReadFile(path))))
	if err != nil || in.Lost != 2 || in.Outputs != 1 {
		t.Errorf("%+v, %v", in, err)
	}
	if list := must(blob.Open(to.place(s).Outputs).List()); len(list) != 1 || list[0] != sound {
		t.Errorf("%v", list)
	}
}

// Whatever is done to an export, it is refused, and nothing is left of it.
func TestAnExportThatIsNotWholeIsRefused(t *testing.T) {
	_, _, path := exported(t, "text")
	content := must(os.ReadFile(path))
	to := newWorld(t)
	refused := func(name string, content []byte) {
		t.Helper()
		if _, err := importing(t, to, bytes.NewReader(content)); err == nil {
			t.Errorf("%s is imported", name)
		} else if r, ok := corrupt.As(err); !ok && !is[*admin.NewerExport](err) {
			t.Errorf("%s: %T %v, %v", name, err, err, r)
		}
		if files := must(filepath.Glob(filepath.Join(to.dir, "*", "*"))); files != nil {
			t.Errorf("%s leaves %v", name, files)
		}
		if files := must(os.ReadDir(to.dir)); len(files) != 1 {
			t.Errorf("%s leaves %v", name, files)
		}
	}
	step := max(1, len(content)/150)
	for at := 0; at < len(content); at += step {
		refused(fmt.Sprint("cut at ", at), content[:at])
		flipped := bytes.Clone(content)
		flipped[at] ^= 0x40
		refused(fmt.Sprint("flipped at ", at), flipped)
	}
	for at := range bytes.IndexByte(content, '\n') + 40 {
		flipped := bytes.Clone(content)
		flipped[at] ^= 1
		refused(fmt.Sprint("flipped at ", at), flipped)
	}
	refused("more at the end", append(bytes.Clone(content), 'x'))
	refused("nothing", nil)
	refused("a newer format", bytes.Replace(content, []byte("loom-export 1 "), []byte("loom-export 2 "), 1))
	refused("another file", []byte(strings.Repeat("no export\n", 1000)))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// resealed is an export whose session file, or whose manifest, was changed, with all digests made right again.
func resealed(t *testing.T, path string, change func(db string), manifest func(string) string) []byte {
	t.Helper()
	content := must(os.ReadFile(path))
	line, rest, _ := bytes.Cut(content, []byte("\n"))
	var size int
	var digest string
	if _, err := fmt.Sscanf(string(line), "loom-export 1 %s %d", &digest, &size); err != nil {
		t.Fatal(err)
	}
	text, files := string(rest[:size]), rest[size+1:]
	v := must(jsonv.ParseString(text))
	list, _ := v.Get("files")
	first := list.At(0)
	length, _ := first.Get("size")
	n, _ := length.Int64()
	db := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(db, files[:n], 0o600); err != nil {
		t.Fatal(err)
	}
	change(db)
	changed := must(os.ReadFile(db))
	old, _ := first.Get("sha256")
	oldText, _ := old.Text()
	text = strings.Replace(text, oldText, sha(changed), 1)
	text = strings.Replace(text, fmt.Sprintf(`"size":%d`, n), fmt.Sprintf(`"size":%d`, len(changed)), 1)
	text = manifest(text)
	return append(fmt.Appendf(nil, "loom-export 1 %s %d\n%s\n%s", sha([]byte(text)), len(text), text, changed), files[n:]...)
}

// leftOut is an export without its last output, which is not said to be lost.
func leftOut(t *testing.T, path string) []byte {
	t.Helper()
	size := 0
	content := resealed(t, path, func(string) {}, func(m string) string {
		at := strings.LastIndex(m, `,{"name":"blobs/`)
		must(fmt.Sscanf(m[strings.LastIndex(m, `"size":`):], `"size":%d`, &size))
		return m[:at] + "]}"
	})
	return content[:len(content)-size]
}

// stranger is an export with an output that no row refers to.
func stranger(t *testing.T) []byte {
	t.Helper()
	w := newWorld(t)
	path := filepath.Join(t.TempDir(), "s.loom")
	must(admin.Export(w.root, w.plain("prompt"), path))
	const output = "an output"
	content := resealed(t, path, func(string) {}, func(m string) string {
		return strings.TrimSuffix(m, "]}") + fmt.Sprintf(`,{"name":"blobs/%[1]s","size":%[2]d,"sha256":"%[1]s"}]}`, sha([]byte(output)), len(output))
	})
	return append(content, output...)
}

// A log belongs to a file by its name alone: an import beside one would be another
// session than the one that was verified.
func TestNothingIsImportedBesideWhatIsLeftOfASession(t *testing.T) {
	w, s, path := exported(t, "text")
	store := w.open(s)
	w.commit(store, tx.Set(register.FactName, "a", jsonv.Num(1)))
	log := must(os.ReadFile(w.place(s).File + "-wal"))
	w.close(store)
	content := must(os.ReadFile(path))
	for _, suffix := range []string{"-wal", "-shm", "-journal"} {
		to := newWorld(t)
		at := to.place(s).File
		write(t, at+suffix, string(log))
		before := to.digest()
		_, err := importing(t, to, bytes.NewReader(content))
		if !is[*storage.OpenFailed](err) || !strings.Contains(err.Error(), filepath.Base(at)+suffix) {
			t.Errorf("beside %s: %v", suffix, err)
		}
		if d := cmp.Diff(before, to.digest()); d != "" {
			t.Errorf("a refused import changed %s", d)
		}
		if err := os.Remove(at + suffix); err != nil {
			t.Fatal(err)
		}
		if _, err := importing(t, to, bytes.NewReader(content)); err != nil {
			t.Errorf("after %s was moved away: %v", suffix, err)
		}
		if d := cmp.Diff(must(os.ReadFile(at)), content[sessionAt(content):][:len(must(os.ReadFile(at)))]); d != "" {
			t.Error("the session is not that of the export")
		}
	}
}

// sessionAt is where the session file begins in an export.
func sessionAt(content []byte) int {
	var digest string
	var size int
	line := bytes.IndexByte(content, '\n')
	must(fmt.Sscanf(string(content[:line]), "loom-export 1 %s %d", &digest, &size))
	return line + size + 2
}

func TestAnExportWithRightDigestsAndAWrongSessionIsRefused(t *testing.T) {
	_, s, path := exported(t, "text")
	same := func(m string) string { return m }
	nothing := func(string) {}
	commit := func(writes ...tx.Write) func(string) {
		return func(db string) {
			store := must(sqlite.Open(sqlite.Config{Path: db, Owner: "x", Clock: now}))
			must(store.Commit(tx.Tx{Writes: writes}))
			store.Close()
		}
	}
	other := "019b76da-a800-7cc1-beeb-8da1658eec67"
	for name, content := range map[string][]byte{
		"another id":         resealed(t, path, commit(tx.Set(register.FactCustom, session.IDKey, jsonv.Str(other))), same),
		"another name":       resealed(t, path, nothing, func(m string) string { return strings.Replace(m, s.String(), other, 1) }),
		"a broken invariant": resealed(t, path, commit(tx.Set(register.StrandLeaf, "half", jsonv.Value{})), same),
		"another generation": resealed(t, path, nothing, func(m string) string { return strings.Replace(m, `"generation":0`, `"generation":1`, 1) }),
		"no database":        resealed(t, path, func(db string) { write(t, db, "nothing") }, same),
		"no session":         resealed(t, path, func(db string) { write(t, db, "") }, same),
		"a path":             resealed(t, path, nothing, func(m string) string { return strings.Replace(m, `"blobs/`, `"../blobs/`, 1) }),
		"no session first":   resealed(t, path, nothing, func(m string) string { return strings.Replace(m, "session.db", "blobs/"+sha(nil), 1) }),
		"a session that is held": resealed(t, path, func(db string) {
			must(sqlite.ExportClosed(sqlite.Export{Path: db, To: db + "-copy", Op: "x", Clock: now}))
		}, same),
		"another storage version":   resealed(t, path, nothing, func(m string) string { return strings.Replace(m, `"storage":1`, `"storage":2`, 1) }),
		"outputs that are not lost": resealed(t, path, nothing, func(m string) string { return strings.Replace(m, `"lost":0`, `"lost":1`, 1) }),
		"an output left out":        leftOut(t, path),
		"an output of nobody":       stranger(t),
		"no files":                  resealed(t, path, nothing, func(m string) string { return m[:strings.Index(m, `"files":`)] + `"files":[]}` }),
		"a field twice":             resealed(t, path, nothing, func(m string) string { return `{"at":1,` + m[1:] }),
	} {
		to := newWorld(t)
		if _, err := importing(t, to, bytes.NewReader(content)); err == nil {
			t.Errorf("%s is imported", name)
		} else if strings.Contains(err.Error(), "stage-") {
			t.Errorf("%s: the refusal tells of the stage: %v", name, err)
		}
		if files := must(filepath.Glob(filepath.Join(to.dir, "sessions", "*"))); files != nil {
			t.Errorf("%s leaves %v", name, files)
		}
	}
	to := newWorld(t)
	unknown := resealed(t, path, nothing, func(m string) string { return `{"later":true,` + m[1:] })
	if _, err := importing(t, to, bytes.NewReader(unknown)); err != nil {
		t.Errorf("a field that nobody knows: %v", err)
	}
}

func TestAnErasureFindsTheExportsThatItKnows(t *testing.T) {
	w, s, path := exported(t, secret)
	before := w.rows(s)
	dry := w.erase(admin.Erasure{Needle: needleOf(t, secret), Session: s, DryRun: true})
	content := must(os.ReadFile(path))
	if a := exportAccount(t, dry, path); a.Outcome != admin.Present || a.Found.Texts < 50 {
		t.Errorf("%+v", a)
	}
	r := w.erase(admin.Erasure{Needle: needleOf(t, secret), Session: s})
	if a := exportAccount(t, r, path); a.Outcome != admin.Clean || a.Erased < 50 || r.Worst() != admin.Clean {
		t.Errorf("%s", r.Append(nil))
	}
	after := must(os.ReadFile(path))
	if found := must(needleOf(t, secret).InBytes(bytes.NewReader(after))); found || bytes.Equal(content, after) {
		t.Error("the export still holds the text")
	}
	if left := w.raw(needleOf(t, secret)); left != nil {
		t.Errorf("left in %v", left)
	}
	to := newWorld(t)
	if done, err := importing(t, to, bytes.NewReader(after)); err != nil || done.Outputs != 2 {
		t.Fatalf("%+v, %v", done, err)
	}
	if d := cmp.Diff(w.rows(s), to.rows(s)); d != "" || len(before) != len(to.rows(s)) {
		t.Errorf("the export and the session differ: %s", d)
	}
	to.sound()
	// And again, under its new digest.
	again := w.erase(admin.Erasure{Needle: needleOf(t, secret), All: true})
	if a := exportAccount(t, again, path); a.Outcome != admin.Clean || a.Erased != 0 || !bytes.Equal(after, must(os.ReadFile(path))) {
		t.Errorf("%+v", a)
	}
}

func exportAccount(t testing.TB, r admin.Receipt, path string) admin.Account {
	t.Helper()
	for _, a := range r.Accounts {
		if a.Store == admin.ExportStore && a.Subject == path {
			return a
		}
	}
	t.Fatalf("there is no account of %s: %s", path, r.Append(nil))
	return admin.Account{}
}

func TestAnExportThatIsNotThereAnyMoreIsNotCalledClean(t *testing.T) {
	w, s, path := exported(t, secret)
	other := w.plain(secret)
	for name, c := range map[string]struct {
		spoil func() error
		says  string
	}{
		"another file": {func() error { return os.WriteFile(path, []byte("mine"), 0o600) }, "another file is in its place"},
		"a folder":     {func() error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }, "another thing is in its place"},
		"gone":         {func() error { return os.Remove(path) }, "not where it was written to"},
	} {
		must(os.Create(path)).Close()
		if err := c.spoil(); err != nil {
			t.Fatal(err)
		}
		a := exportAccount(t, w.erase(admin.Erasure{Needle: needleOf(t, secret), Session: s, DryRun: true}), path)
		if a.Outcome != admin.NotSearched || !strings.Contains(a.Reason, c.says) {
			t.Errorf("%s: %+v", name, a)
		}
		if name == "another file" && string(must(os.ReadFile(path))) != "mine" {
			t.Error("a file of somebody else was written")
		}
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	// One of a session that was not asked for is left alone; one that is gone is told once.
	for n, want := range []int{0, 1, 0} {
		e := admin.Erasure{Needle: needleOf(t, secret), Session: s}
		if n == 0 {
			e.Session = other
		}
		count := 0
		for _, a := range w.erase(e).Accounts {
			if a.Store == admin.ExportStore {
				count++
			}
		}
		if count != want {
			t.Errorf("erasure %d tells of %d exports", n, count)
		}
	}
}

func TestAnImportedSessionWorksWhereItIsTold(t *testing.T) {
	_, s, path := exported(t, "text")
	to := newWorld(t)
	if _, err := importing(t, to, bytes.NewReader(must(os.ReadFile(path)))); err != nil {
		t.Fatal(err)
	}
	if err := admin.Rehome(to.root, to.place(s), "/elsewhere"); err != nil {
		t.Fatal(err)
	}
	r := must(sqlite.OpenReader(to.place(s).File))
	defer r.Close()
	if dir, _, err := session.NewView(r).Workspace(); err != nil || dir != "/elsewhere" {
		t.Errorf("it works in %q, %v", dir, err)
	}
}

// TestWhatAKilledMoveLeftIsSwept kills a process that moves a session, and erases. The
// stage of one that is at work stays.
func TestWhatAKilledMoveLeftIsSwept(t *testing.T) {
	w := newWorld(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), stagingEnv+"="+w.dir), os.Stderr
	out := must(cmd.StdoutPipe())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("it said nothing")
	}
	busy, left := lines.Text(), filepath.Join(w.dir, "stage-1")
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(left, "session"), secret)
	erase := func(dry bool) admin.Receipt {
		return w.erase(admin.Erasure{Needle: needleOf(t, secret), All: true, DryRun: dry})
	}
	there := func() (names []string) {
		for _, d := range must(os.ReadDir(w.dir)) {
			if strings.HasPrefix(d.Name(), "stage-") {
				names = append(names, filepath.Join(w.dir, d.Name()))
			}
		}
		return names
	}
	if r := erase(true); r.Worst() != admin.Unreachable || len(there()) != 2 {
		t.Errorf("a dry run left %v: %s", there(), r.Append(nil))
	}
	if r := erase(false); r.Worst() != admin.Clean || !slices.Equal(there(), []string{busy}) {
		t.Errorf("beside one at work, there are %v: %s", there(), r.Append(nil))
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if r := erase(false); r.Worst() != admin.Clean || there() != nil {
		t.Errorf("after the kill there are %v: %s", there(), r.Append(nil))
	}
}

// An import must not fail otherwise than by a refusal, and leave nothing then.
func FuzzImport(f *testing.F) {
	w := newWorld(f)
	s := w.plain("prompt")
	w.kept(s, "output")
	path := filepath.Join(f.TempDir(), "x")
	if _, err := admin.Export(w.root, s, path); err != nil {
		f.Fatal(err)
	}
	content := must(os.ReadFile(path))
	f.Add(content)
	f.Add(content[:200])
	f.Add([]byte("loom-export 1 " + sha([]byte("{}")) + " 2\n{}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		to := newWorld(t)
		_, err := importing(t, to, bytes.NewReader(b))
		if err == nil && !bytes.Equal(b, content) {
			t.Error("something else than the export was imported")
		}
		if files := must(os.ReadDir(to.dir)); len(files) != 1 {
			t.Errorf("left are %v", files)
		}
	})
}
