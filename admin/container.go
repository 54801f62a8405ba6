package admin

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/loom-run/loom/blob"
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
)

// An export is a first line, a manifest, and the files that the manifest names: see
// the format page.

// manifest says what an export holds.
type manifest struct {
	Session    id.SessionID
	Storage    int64
	Generation int64
	At         int64 // Unix ms
	Lost       int64
	Files      []part
}

// part is one file of an export.
type part struct {
	Name   string
	Size   int64
	SHA256 string
}

const (
	exportMagic    = "loom-export"
	exportVersion  = 1
	maxManifest    = 16 << 20
	sessionPart    = "session.db"
	outputPrefix   = "blobs/"
	maxFirstLine   = 128
	exportBoundary = "admin.export"
)

func (p part) ref() (blob.Ref, bool) {
	digest, ok := strings.CutPrefix(p.Name, outputPrefix)
	return blob.Ref{SHA256: digest, Size: p.Size}, ok
}

// encode is the text of a manifest and its digest.
func (m manifest) encode() (text []byte, digest string) {
	var w jsonv.Writer
	w.Begin()
	w.Str("session", m.Session.String())
	w.Num("storage", m.Storage)
	w.Num("generation", m.Generation)
	w.Num("at", m.At)
	w.Num("lost", m.Lost)
	w.Name("files")
	w.BeginArray()
	for _, p := range m.Files {
		w.Begin()
		w.Str("name", p.Name)
		w.Num("size", p.Size)
		w.Str("sha256", p.SHA256)
		w.End()
	}
	w.EndArray()
	w.End()
	return w.Bytes(), digestOf(w.Bytes())
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// writeHead writes what stands before the files.
func (m manifest) writeHead(w io.Writer) (digest string, err error) {
	text, digest := m.encode()
	_, err = fmt.Fprintf(w, "%s %d %s %d\n%s\n", exportMagic, exportVersion, digest, len(text), text)
	return digest, err
}

// NewerExport is an export in a version of the format that this build does not read.
type NewerExport struct{ Found int64 }

func (e *NewerExport) Error() string {
	return fmt.Sprintf("the export is in format %d and this build reads format %d; nothing was changed; use a newer loom", e.Found, exportVersion)
}

// readHead reads and verifies what stands before the files. The error is a
// [*corrupt.Report], a [*NewerExport] or that of r.
func readHead(r *bufio.Reader) (m manifest, digest string, err error) {
	line, err := firstLine(r)
	if err != nil {
		return manifest{}, "", err
	}
	bad := func(expected string) (manifest, string, error) {
		return manifest{}, "", corrupt.New(exportBoundary, "first line", expected, line)
	}
	words := strings.Split(line, " ")
	if len(words) < 2 || words[0] != exportMagic {
		return bad("an export of loom")
	}
	if v, err := strconv.ParseInt(words[1], 10, 64); err == nil && v > exportVersion {
		return manifest{}, "", &NewerExport{v}
	}
	size, err := strconv.ParseInt(words[len(words)-1], 10, 64)
	if len(words) != 4 || words[1] != strconv.Itoa(exportVersion) || err != nil || size < 0 || size > maxManifest || words[3] != strconv.FormatInt(size, 10) {
		return bad("a version, a digest and a size")
	}
	text := make([]byte, size+1)
	if _, err := io.ReadFull(r, text); err != nil {
		return manifest{}, "", cut("manifest", err)
	}
	if text[size] != '\n' || digestOf(text[:size]) != words[2] {
		return manifest{}, "", corrupt.New(exportBoundary, "manifest", "bytes of the digest "+words[2], "others")
	}
	v, err := jsonv.Parse(text[:size])
	if err != nil {
		return manifest{}, "", err
	}
	m, err = decodeManifest(v)
	return m, words[2], err
}

func firstLine(r *bufio.Reader) (string, error) {
	var line []byte
	for len(line) < maxFirstLine {
		c, err := r.ReadByte()
		if err != nil {
			return "", cut("first line", err)
		}
		if c == '\n' {
			break
		}
		line = append(line, c)
	}
	return string(line), nil
}

// cut is an export that ends too early, or an error of the reader.
func cut(what string, err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF { //nolint:errorlint // of io itself
		return corrupt.New(exportBoundary, what, "all of it", "the end of the file")
	}
	return err
}

func decodeManifest(v jsonv.Value) (manifest, error) {
	r := jsonv.Read(v, exportBoundary)
	m := manifest{
		Session: jsonv.One(r, "session", func(v jsonv.Value) (id.SessionID, error) {
			text, _ := v.Text()
			return id.ParseSessionID(text)
		}),
		Storage: r.Num("storage"), Generation: r.Num("generation"), At: r.Num("at"), Lost: r.Num("lost"),
		Files: jsonv.Each(r, "files", decodePart),
	}
	if err := r.Err(); err != nil {
		return manifest{}, err
	}
	for i, p := range m.Files {
		_, output := p.ref()
		if (i == 0) != (p.Name == sessionPart) || i > 0 && !output || i > 1 && p.Name <= m.Files[i-1].Name {
			return manifest{}, corrupt.New(exportBoundary, "files", "a session, then outputs by ascending name", p.Name)
		}
	}
	if len(m.Files) == 0 {
		return manifest{}, corrupt.New(exportBoundary, "files", "a session", "none")
	}
	return m, nil
}

func decodePart(v jsonv.Value) (part, error) {
	r := jsonv.Read(v, exportBoundary)
	p := part{Name: r.Str("name"), Size: r.Num("size"), SHA256: r.Str("sha256")}
	if err := r.Err(); err != nil {
		return part{}, err
	}
	same := blob.Ref{SHA256: p.SHA256, Size: p.Size}
	if _, err := blob.ParseRef(same.Value()); err != nil {
		return part{}, err
	}
	if ref, ok := p.ref(); ok && ref != same {
		return part{}, corrupt.New(exportBoundary, "files", "an output named by its digest", p.Name)
	}
	return p, nil
}

// contents verifies the files of an export while it hands each to take, which must
// read it to its end.
func (m manifest) contents(r *bufio.Reader, take func(part, io.Reader) error) error {
	for _, p := range m.Files {
		h := sha256.New()
		limited := &io.LimitedReader{R: r, N: p.Size}
		if err := take(p, io.TeeReader(limited, h)); err != nil {
			return err
		}
		if limited.N > 0 {
			return corrupt.New(exportBoundary, p.Name, fmt.Sprintf("%d bytes", p.Size), fmt.Sprintf("%d fewer", limited.N))
		}
		if got := hex.EncodeToString(h.Sum(nil)); got != p.SHA256 {
			return corrupt.New(exportBoundary, p.Name, "bytes of the digest "+p.SHA256, "of "+got)
		}
	}
	if _, err := r.ReadByte(); err != io.EOF { //nolint:errorlint // of bufio itself
		if err != nil {
			return err
		}
		return corrupt.New(exportBoundary, "end", "nothing after the last file", "more bytes")
	}
	return nil
}
