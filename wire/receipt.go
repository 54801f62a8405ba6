package wire

import (
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
)

// Receipts ignore fields that they do not know, and keep words verbatim, so
// that an older client reads a newer server.

// Created answers [CreateSession].
type Created struct {
	Session id.SessionID
	Cursor  Cursor // behind all that the new session holds
}

// Append appends the JSON.
func (c Created) Append(dst []byte) []byte {
	return appendObject(dst, func(w *jsonv.Writer) {
		w.Str("session", c.Session.String())
		w.Str("cursor", c.Cursor.String())
	})
}

// DecodeCreated reads the receipt.
func DecodeCreated(data []byte) (Created, error) {
	r, err := receipt(data, "wire.Created")
	if err != nil {
		return Created{}, err
	}
	c := Created{Session: sessionID(r, "session"), Cursor: cursorOf(r, "cursor")}
	return c, r.Err()
}

// Admission says what became of a prompt.
type Admission string

const (
	// Admitted started an operation.
	Admitted Admission = "admitted"
	// Queued waits, durably, for the strand's running operation.
	Queued Admission = "queued"
)

// Prompted answers [Prompt]. Both admissions are committed when it is sent.
type Prompted struct {
	Status    Admission // verbatim
	Operation id.OpID   // the operation that will hear the prompt; absent when not known yet
	Seq       int64     // of the commit
}

// Append appends the JSON.
func (p Prompted) Append(dst []byte) []byte {
	return appendObject(dst, func(w *jsonv.Writer) {
		w.Str("status", string(p.Status))
		appendOp(w, p.Operation)
		w.Num("seq", p.Seq)
	})
}

// DecodePrompted reads the receipt.
func DecodePrompted(data []byte) (Prompted, error) {
	r, err := receipt(data, "wire.Prompted")
	if err != nil {
		return Prompted{}, err
	}
	p := Prompted{Status: Admission(r.Str("status")), Operation: opID(r), Seq: count(r, "seq")}
	return p, r.Err()
}

// Resumed answers [Resume]. An absent operation means that there was nothing to
// finish.
type Resumed struct{ Operation id.OpID }

// Append appends the JSON.
func (p Resumed) Append(dst []byte) []byte {
	return appendObject(dst, func(w *jsonv.Writer) { appendOp(w, p.Operation) })
}

// DecodeResumed reads the receipt.
func DecodeResumed(data []byte) (Resumed, error) {
	r, err := receipt(data, "wire.Resumed")
	if err != nil {
		return Resumed{}, err
	}
	p := Resumed{Operation: opID(r)}
	return p, r.Err()
}

// AbortStatus says what became of an abort.
type AbortStatus string

const (
	// Aborting means that the stop is committed and on its way; the run's end
	// follows as a frame.
	Aborting AbortStatus = "aborting"
	// NothingRunning means that there was nothing to stop.
	NothingRunning AbortStatus = "nothing_running"
)

// AbortReceipt answers [Abort].
type AbortReceipt struct{ Status AbortStatus }

// Append appends the JSON.
func (a AbortReceipt) Append(dst []byte) []byte {
	return appendObject(dst, func(w *jsonv.Writer) { w.Str("status", string(a.Status)) })
}

// DecodeAbortReceipt reads the receipt.
func DecodeAbortReceipt(data []byte) (AbortReceipt, error) {
	r, err := receipt(data, "wire.AbortReceipt")
	if err != nil {
		return AbortReceipt{}, err
	}
	a := AbortReceipt{Status: AbortStatus(r.Str("status"))}
	return a, r.Err()
}

// SessionInfo is one session in a list. What could not be read is absent.
type SessionInfo struct {
	Session   id.SessionID
	Status    words.SessionStatus
	Cwd       *string
	Model     *string
	Title     *string // the start of the first prompt
	CreatedAt *int64  // Unix ms
	UpdatedAt *int64  // Unix ms
	Note      *string // a sentence about a status that needs one
}

func (s SessionInfo) appendFields(w *jsonv.Writer) {
	w.Str("session", s.Session.String())
	w.Str("status", string(s.Status))
	w.OptStr("cwd", s.Cwd)
	w.OptStr("model", s.Model)
	w.OptStr("title", s.Title)
	w.OptNum("createdAt", s.CreatedAt)
	w.OptNum("updatedAt", s.UpdatedAt)
	w.OptStr("note", s.Note)
}

// Append appends the JSON.
func (s SessionInfo) Append(dst []byte) []byte { return appendObject(dst, s.appendFields) }

func decodeSessionInfo(v jsonv.Value) (SessionInfo, error) {
	r := jsonv.Read(v, "wire.SessionInfo")
	s := SessionInfo{
		Session: sessionID(r, "session"), Status: words.SessionStatus(r.Str("status")),
		Cwd: r.OptStr("cwd"), Model: r.OptStr("model"), Title: r.OptStr("title"),
		CreatedAt: r.OptNum("createdAt"), UpdatedAt: r.OptNum("updatedAt"), Note: r.OptStr("note"),
	}
	return s, r.Err()
}

// SessionList answers the list of sessions, newest first.
type SessionList struct{ Sessions []SessionInfo }

// Append appends the JSON.
func (l SessionList) Append(dst []byte) []byte {
	return appendObject(dst, func(w *jsonv.Writer) {
		w.Name("sessions")
		w.BeginArray()
		for _, s := range l.Sessions {
			w.Begin()
			s.appendFields(w)
			w.End()
		}
		w.EndArray()
	})
}

// DecodeSessionList reads the answer.
func DecodeSessionList(data []byte) (SessionList, error) {
	r, err := receipt(data, "wire.SessionList")
	if err != nil {
		return SessionList{}, err
	}
	l := SessionList{Sessions: jsonv.Each(r, "sessions", decodeSessionInfo)}
	return l, r.Err()
}

// SessionPage is one page of a session's history: the same replay frames that a
// subscription sends.
type SessionPage struct {
	Info   SessionInfo
	Frames []Frame
	Next   Cursor // where the next page, or a subscription, goes on
	More   bool   // there is more behind Next
}

// Append appends the JSON.
func (p SessionPage) Append(dst []byte) []byte {
	return appendObject(dst, func(w *jsonv.Writer) {
		w.Name("info")
		w.Begin()
		p.Info.appendFields(w)
		w.End()
		w.Name("frames")
		w.BeginArray()
		for _, f := range p.Frames {
			w.Begin()
			f.appendFields(w)
			w.End()
		}
		w.EndArray()
		w.Str("next", p.Next.String())
		w.Flag("more", p.More)
	})
}

// DecodeSessionPage reads the page.
func DecodeSessionPage(data []byte) (SessionPage, error) {
	r, err := receipt(data, "wire.SessionPage")
	if err != nil {
		return SessionPage{}, err
	}
	p := SessionPage{
		Info: jsonv.One(r, "info", decodeSessionInfo), Frames: jsonv.Each(r, "frames", frameOf),
		Next: cursorOf(r, "next"), More: r.Flag("more"),
	}
	return p, r.Err()
}

// Finding is one broken invariant of a session.
type Finding struct {
	Code    string // verbatim
	Subject string // the row, register or file
	Message string // one sentence
}

// CheckReport answers a check. No findings means that the session is whole.
type CheckReport struct {
	Findings []Finding
	Rows     int64 // how many rows were read
}

// Append appends the JSON.
func (c CheckReport) Append(dst []byte) []byte {
	return appendObject(dst, func(w *jsonv.Writer) {
		w.Name("findings")
		w.BeginArray()
		for _, f := range c.Findings {
			w.Begin()
			w.Str("code", f.Code)
			w.Str("subject", f.Subject)
			w.Str("message", f.Message)
			w.End()
		}
		w.EndArray()
		w.Num("rows", c.Rows)
	})
}

// DecodeCheckReport reads the answer.
func DecodeCheckReport(data []byte) (CheckReport, error) {
	r, err := receipt(data, "wire.CheckReport")
	if err != nil {
		return CheckReport{}, err
	}
	c := CheckReport{Findings: jsonv.Each(r, "findings", decodeFinding), Rows: count(r, "rows")}
	return c, r.Err()
}

func decodeFinding(v jsonv.Value) (Finding, error) {
	r := jsonv.Read(v, "wire.Finding")
	f := Finding{Code: r.Str("code"), Subject: r.Str("subject"), Message: r.Str("message")}
	return f, r.Err()
}

func receipt(data []byte, boundary string) (*jsonv.Reader, error) {
	v, err := jsonv.Parse(data)
	if err != nil {
		return nil, err
	}
	r := jsonv.Read(v, boundary)
	return r, r.Err()
}

func sessionID(r *jsonv.Reader, field string) id.SessionID {
	s := r.Str(field)
	if r.Err() != nil {
		return id.SessionID{}
	}
	parsed, err := id.ParseSessionID(s)
	r.Adopt(field, err)
	return parsed
}

func opID(r *jsonv.Reader) id.OpID {
	s := r.OptStr("operation")
	if s == nil {
		return id.OpID{}
	}
	parsed, err := id.ParseOpID(*s)
	r.Adopt("operation", err)
	return parsed
}

func appendOp(w *jsonv.Writer, op id.OpID) {
	if !op.IsZero() {
		w.Str("operation", op.String())
	}
}

func cursorOf(r *jsonv.Reader, field string) Cursor {
	s := r.Str(field)
	if r.Err() != nil {
		return Cursor{}
	}
	c, err := ParseCursor(s)
	r.Adopt(field, err)
	return c
}
