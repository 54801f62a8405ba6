package wire

import (
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
)

// Bounds of request bodies, in bytes of JSON.
const (
	// MaxPromptBody bounds a prompt.
	MaxPromptBody = 64 << 20
	// MaxBody bounds every other request.
	MaxBody = 64 << 10
	// MaxReceipt bounds every answer but a page of history.
	MaxReceipt = 4 << 20
	// MaxPage is the most frames in one page of history.
	MaxPage = 1000
)

// Requests refuse fields that they do not know: an option that was misspelt or
// is newer than the server must not be silently off.

// CreateSession asks for a new session.
type CreateSession struct {
	Cwd            string // absolute
	Model          *string
	PermissionMode words.PermissionMode
	MaxTurns       *int64 // turns per run, from 1; nil is no limit
}

// Append appends the JSON.
func (q CreateSession) Append(dst []byte) []byte {
	return appendObject(dst, func(w *jsonv.Writer) {
		w.Str("cwd", q.Cwd)
		w.OptStr("model", q.Model)
		w.Str("permissionMode", string(q.PermissionMode))
		w.OptNum("maxTurns", q.MaxTurns)
	})
}

// DecodeCreateSession reads the request.
func DecodeCreateSession(data []byte) (CreateSession, error) {
	r, err := open(data, "wire.CreateSession", "cwd", "model", "permissionMode", "maxTurns")
	if err != nil {
		return CreateSession{}, err
	}
	q := CreateSession{Cwd: r.Str("cwd"), Model: r.OptStr("model"), MaxTurns: turns(r)}
	if r.Err() == nil && q.Cwd == "" {
		r.Fail("cwd", "an absolute path", jsonv.Str(""))
	}
	q.PermissionMode = mode(r, r.Str("permissionMode"))
	return q, r.Err()
}

// Prompt asks a strand to run with a text.
type Prompt struct {
	Text           string
	Strand         *string               // nil is the main strand
	MaxTurns       *int64                // nil is the session's setting
	Model          *string               // nil is the strand's setting
	PermissionMode *words.PermissionMode // nil is the session's setting
}

// Append appends the JSON.
func (q Prompt) Append(dst []byte) []byte {
	return appendObject(dst, func(w *jsonv.Writer) {
		w.Str("text", q.Text)
		w.OptStr("strand", q.Strand)
		w.OptNum("maxTurns", q.MaxTurns)
		w.OptStr("model", q.Model)
		w.OptStr("permissionMode", (*string)(q.PermissionMode))
	})
}

// DecodePrompt reads the request. An empty text is refused.
func DecodePrompt(data []byte) (Prompt, error) {
	r, err := open(data, "wire.Prompt", "text", "strand", "maxTurns", "model", "permissionMode")
	if err != nil {
		return Prompt{}, err
	}
	q := Prompt{Text: r.Str("text"), Strand: strand(r), MaxTurns: turns(r), Model: r.OptStr("model"), PermissionMode: optMode(r)}
	if r.Err() == nil && q.Text == "" {
		r.Fail("text", "a text that is not empty", jsonv.Str(""))
	}
	return q, r.Err()
}

// Resume asks to finish an interrupted operation.
type Resume struct {
	Strand         *string
	MaxTurns       *int64
	PermissionMode *words.PermissionMode
}

// Append appends the JSON.
func (q Resume) Append(dst []byte) []byte {
	return appendObject(dst, func(w *jsonv.Writer) {
		w.OptStr("strand", q.Strand)
		w.OptNum("maxTurns", q.MaxTurns)
		w.OptStr("permissionMode", (*string)(q.PermissionMode))
	})
}

// DecodeResume reads the request.
func DecodeResume(data []byte) (Resume, error) {
	r, err := open(data, "wire.Resume", "strand", "maxTurns", "permissionMode")
	if err != nil {
		return Resume{}, err
	}
	q := Resume{Strand: strand(r), MaxTurns: turns(r), PermissionMode: optMode(r)}
	return q, r.Err()
}

// Abort asks to stop the running operation of a strand.
type Abort struct{ Strand *string }

// Append appends the JSON.
func (q Abort) Append(dst []byte) []byte {
	return appendObject(dst, func(w *jsonv.Writer) { w.OptStr("strand", q.Strand) })
}

// DecodeAbort reads the request.
func DecodeAbort(data []byte) (Abort, error) {
	r, err := open(data, "wire.Abort", "strand")
	if err != nil {
		return Abort{}, err
	}
	q := Abort{Strand: strand(r)}
	return q, r.Err()
}

// open starts reading a request: fields other than the named ones are refused.
func open(data []byte, boundary string, names ...string) (*jsonv.Reader, error) {
	v, err := jsonv.Parse(data)
	if err != nil {
		return nil, err
	}
	r := jsonv.Read(v, boundary)
	r.Exact(names...)
	return r, r.Err()
}

func turns(r *jsonv.Reader) *int64 {
	n := r.OptNum("maxTurns")
	if n != nil && (*n < 1 || *n > maxCount) {
		r.Fail("maxTurns", "1 or more", jsonv.Num(*n))
	}
	return n
}

func strand(r *jsonv.Reader) *string {
	s := r.OptStr("strand")
	if s != nil {
		word(r, "strand", *s)
	}
	return s
}

func mode(r *jsonv.Reader, s string) words.PermissionMode {
	m, ok := words.PermissionModes.Parse(s)
	if !ok {
		r.Fail("permissionMode", "a permission mode", jsonv.Str(s))
	}
	return m
}

func optMode(r *jsonv.Reader) *words.PermissionMode {
	s := r.OptStr("permissionMode")
	if s == nil {
		return nil
	}
	return new(mode(r, *s))
}

// DecodeEmpty reads the body of a request without options.
func DecodeEmpty(data []byte) (struct{}, error) {
	_, err := open(data, "wire.Empty")
	return struct{}{}, err
}
