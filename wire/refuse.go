package wire

import (
	"github.com/loom-run/loom/core/jsonv"
)

// Code says why a request was refused. The set is closed; a client that meets
// another word keeps it verbatim.
type Code string

// The codes of this build.
const (
	BadRequest      Code = "bad_request"      // the body or the query is not what the route takes
	TooLarge        Code = "too_large"        // the body is beyond the route's bound
	BadCwd          Code = "bad_cwd"          // the directory is not there or cannot be entered
	UnknownModel    Code = "unknown_model"    // no such model, or no provider for it
	MissingKey      Code = "missing_key"      // the provider has no key configured
	UnknownSession  Code = "unknown_session"  // no such session
	UnknownStrand   Code = "unknown_strand"   // the session has no such strand
	NoRoute         Code = "no_route"         // no such path
	SessionHeld     Code = "session_held"     // another process holds the session
	Conflict        Code = "conflict"         // the session is not in a state for this
	StaleCursor     Code = "stale_cursor"     // the cursor is of an older generation: read afresh
	StoreUnreadable Code = "store_unreadable" // the session cannot be read; its bytes were kept
	NewerFormat     Code = "newer_format"     // a newer build wrote the session
	StoreFull       Code = "store_full"       // no room to commit; nothing of the request was kept
	Unavailable     Code = "unavailable"      // shutting down or overloaded
	Internal        Code = "internal"         // a defect of the server
)

// codeSpec is one row of the codes' table: a code and its HTTP status. The
// numbers stand here because a pure package does not import net/http.
type codeSpec struct {
	Code   Code
	Status int
}

var codes = [...]codeSpec{
	{BadRequest, 400},
	{TooLarge, 413},
	{BadCwd, 422},
	{UnknownModel, 422},
	{MissingKey, 422},
	{UnknownSession, 404},
	{UnknownStrand, 404},
	{NoRoute, 404},
	{SessionHeld, 423},
	{Conflict, 409},
	{StaleCursor, 410},
	{StoreUnreadable, 500},
	{NewerFormat, 500},
	{StoreFull, 507},
	{Unavailable, 503},
	{Internal, 500},
}

// Codes returns the closed set.
func Codes() []Code {
	out := make([]Code, len(codes))
	for i, c := range codes {
		out[i] = c.Code
	}
	return out
}

// Known reports whether the code is in the closed set.
func (c Code) Known() bool { return c.Status() != 0 }

// Status is the HTTP status of a known code, 0 of another.
func (c Code) Status() int {
	for _, spec := range codes {
		if spec.Code == c {
			return spec.Status
		}
	}
	return 0
}

// ErrorBody is the body of every answer that is not a success. Message is one
// sentence for a person: what happened, what was kept, what to do.
type ErrorBody struct {
	Code    Code
	Message string
}

// Append appends the JSON.
func (e ErrorBody) Append(dst []byte) []byte {
	return appendObject(dst, func(w *jsonv.Writer) {
		w.Str("code", string(e.Code))
		w.Str("message", e.Message)
	})
}

// DecodeErrorBody reads an error body.
func DecodeErrorBody(data []byte) (ErrorBody, error) {
	v, err := jsonv.Parse(data)
	if err != nil {
		return ErrorBody{}, err
	}
	r := jsonv.Read(v, "wire.ErrorBody")
	e := ErrorBody{Code: Code(word(r, "code", r.Str("code"))), Message: r.Str("message")}
	return e, r.Err()
}
