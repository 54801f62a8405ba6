package admin

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/needle"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/session/repo"
)

// RecordingStore is what recordings of provider traffic are called in accounts.
const RecordingStore = "recording"

// recordingFolder is where the root remembers recordings.
const recordingFolder = "recordings"

// RememberRecording writes down where a recording of provider traffic is, so that an
// erasure finds it. It does not say of which sessions it is.
func RememberRecording(root Root, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	var w jsonv.Writer
	w.Begin()
	w.Str("format", "loom-known-recording")
	w.Num("version", 1)
	w.Str("path", path)
	w.Num("at", root.Clock())
	w.End()
	name := sha256.Sum256([]byte(path))
	return writeRecord(filepath.Join(root.Dir, recordingFolder), hex.EncodeToString(name[:16])+".json", w.Bytes())
}

// recordings is the recordings that the root remembers. None says which sessions it
// is of, so every erasure goes through all of them.
type recordings struct{}

// Erase implements [Store].
func (recordings) Erase(w *Work) (all []Account) {
	dir := filepath.Join(w.root.Dir, recordingFolder)
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return []Account{{Store: RecordingStore, Subject: recordingFolder, Outcome: NotSearched, Reason: plainly(err)}}
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".json") {
			continue
		}
		record := filepath.Join(dir, f.Name())
		path, err := recordedPath(record)
		if err != nil {
			all = append(all, Account{Store: RecordingStore, Subject: filepath.Join(recordingFolder, f.Name()), Outcome: NotSearched,
				Reason: "what the root remembers of a recording cannot be read"})
			continue
		}
		all = append(all, w.recording(path, record))
	}
	return all
}

func recordedPath(record string) (string, error) {
	text, err := os.ReadFile(record)
	if err != nil {
		return "", err
	}
	v, err := jsonv.Parse(text)
	if err != nil {
		return "", err
	}
	r := jsonv.Read(v, "admin.recording")
	path, version := r.Str("path"), r.Num("version")
	if r.Err() == nil && version != 1 {
		return "", corrupt.New("admin.recording", "version", "1", fmt.Sprint(version))
	}
	return path, r.Err()
}

// recording erases from one recording.
func (w *Work) recording(path, record string) Account {
	a := Account{Store: RecordingStore, Subject: path, Outcome: Clean}
	if w.absent(path, record, &a) {
		return a
	}
	if err := w.inRecording(path, &a); err != nil {
		a.Outcome, a.Reason = NotSearched, recordingFault(err)
	}
	return a
}

func recordingFault(err error) string {
	if is[*corrupt.Report](err) {
		return "it is no recording that this build reads, or another file is in its place"
	}
	return plainly(err)
}

// absent accounts for a file that is not where it was written to any more.
func (w *Work) absent(path, record string, a *Account) bool {
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		a.Outcome, a.Reason = NotSearched, "it is not where it was written to; if it was moved, erase there by hand"
		if !w.DryRun {
			if err := os.Remove(record); err == nil {
				a.Reason += "; it is not asked about again"
			}
		}
	case err != nil:
		a.Outcome, a.Reason = NotSearched, plainly(err)
	case !st.Mode().IsRegular():
		a.Outcome, a.Reason = NotSearched, "another thing is in its place"
	default:
		return false
	}
	return true
}

func (w *Work) inRecording(path string, a *Account) error {
	before, err := os.Stat(path)
	if err != nil {
		return err
	}
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	out := io.Discard
	var temp *os.File
	if !w.DryRun {
		if temp, err = os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-"); err != nil { // mode 0600
			return err
		}
		defer func() { _ = os.Remove(temp.Name()) }() // unless it has its name
		out = temp
	}
	x := &exchanges{eraser: w.eraser}
	err = x.copy(out, in)
	a.Found = x.found
	switch {
	case temp == nil:
		if a.Found.any() {
			a.Outcome = Present
		}
	case err == nil && x.changed:
		if err = w.renew(temp, path, before); err == nil {
			a.Erased = x.found.Texts
		}
	}
	if temp != nil {
		err = errors.Join(err, temp.Close())
	}
	if err != nil {
		return err
	}
	left := x.found
	if left.Texts = 0; !w.DryRun {
		if left.Bytes, err = w.inFile(path); err != nil {
			return err
		}
	}
	if left.any() {
		a.Outcome, a.Reason = Unreachable, beyond(left)
	}
	return nil
}

// renew lets a new file take the place of a recording, unless a run has written more
// of that meanwhile.
func (w *Work) renew(temp *os.File, path string, before fs.FileInfo) error {
	if err := temp.Sync(); err != nil {
		return err
	}
	if now, err := os.Stat(path); err != nil || now.Size() != before.Size() || !now.ModTime().Equal(before.ModTime()) {
		return errors.New("it was written meanwhile; erase again when that run is over")
	}
	return replace(temp.Name(), path)
}

// exchanges goes through a recording line by line: see its format page.
type exchanges struct {
	eraser  needle.Eraser
	found   Found
	changed bool
}

func (x *exchanges) copy(w io.Writer, r io.Reader) error {
	lines := bufio.NewReaderSize(r, 1<<16)
	for n := 0; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		end := errors.Is(err, io.EOF)
		if len(bytes.TrimSpace(line)) > 0 {
			if line, err = x.line(n, line); err != nil {
				return err
			}
		}
		if _, err := w.Write(line); err != nil {
			return err
		}
		if end {
			return nil
		}
	}
}

func (x *exchanges) line(n int, line []byte) ([]byte, error) {
	v, err := jsonv.Parse(bytes.TrimSpace(line))
	if err != nil {
		return nil, err
	}
	if n == 0 {
		if version, _ := v.Get("loom_recording"); version.String() != "1" {
			return nil, corrupt.New("admin.recording", "first line", "a recording of version 1", version.String())
		}
		return line, nil
	}
	out, changed := x.exchange(v)
	if !changed {
		return line, nil
	}
	x.changed = true
	return append(out.Append(nil), '\n'), nil
}

// exchange erases from one request and its response.
func (x *exchanges) exchange(v jsonv.Value) (out jsonv.Value, changed bool) {
	s := &searcher{needle: x.eraser.Needle()}
	seen := s.value(v)
	out = v
	if seen.Texts > 0 {
		out, changed, _ = repo.EraseValue(x.eraser)(register.Address{}, v) // it has no codec to refuse it
	}
	was, binary := response(v)
	body, _ := response(out)
	body, times := x.eraser.Erase(body) // of a binary one the text above was of its base64
	seen.Texts += int64(times)
	if x.pieces(body) { // no part of it can be told from the others
		seen.Texts++
		body, out = "", out.With("broke", jsonv.Boolean(true))
	}
	x.found.add(seen)
	if body == was {
		return out, changed
	}
	if binary {
		body = base64.StdEncoding.EncodeToString([]byte(body))
	}
	return without(out.With("body", jsonv.Str(body)), "cuts"), true
}

// response is the body of a response.
func response(v jsonv.Value) (body string, binary bool) {
	text, _ := v.Get("body")
	flag, _ := v.Get("base64")
	body, _ = text.Text()
	if binary, _ = flag.Bool(); binary {
		raw, err := base64.StdEncoding.DecodeString(body)
		return string(raw), err == nil
	}
	return body, false
}

// pieces reports whether the texts that an answer was sent in spell the needle when
// they are put together, field by field: what a model says comes in pieces.
func (x *exchanges) pieces(body string) bool {
	joined := make(map[string]*strings.Builder)
	for line := range strings.Lines(body) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data:")
		if !ok {
			continue
		}
		if v, err := jsonv.ParseString(strings.TrimSpace(data)); err == nil {
			collect(joined, "", v)
		}
	}
	for _, text := range joined {
		if x.eraser.Needle().In(text.String()) {
			return true
		}
	}
	return false
}

// collect adds each text of an event to those of the same field of other events.
func collect(joined map[string]*strings.Builder, at string, v jsonv.Value) {
	switch v.Kind() {
	case jsonv.String:
		if joined[at] == nil {
			joined[at] = new(strings.Builder)
		}
		text, _ := v.Text()
		joined[at].WriteString(text)
	case jsonv.Array:
		for i, e := range v.Elems() {
			collect(joined, at+"/"+strconv.Itoa(i), e)
		}
	case jsonv.Object:
		for _, name := range []string{"index", "output_index", "content_index", "item_id"} { // which of several
			if which, ok := v.Get(name); ok {
				at += "#" + which.String()
			}
		}
		for name, field := range v.Fields() {
			collect(joined, at+"/"+name, field)
		}
	default: // holds no text
	}
}

// without is an object without a field.
func without(v jsonv.Value, name string) jsonv.Value {
	var fields []jsonv.Member
	for n, f := range v.Fields() {
		if n != name {
			fields = append(fields, jsonv.F(n, f))
		}
	}
	return jsonv.Obj(fields...)
}
