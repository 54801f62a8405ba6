package wire

// Code says why a request was refused. The set is closed; a client that meets
// another word keeps it verbatim.
type Code string

// The codes of this build.
const (
	BadRequest       Code = "bad_request"         // the body or the query is not what the route takes
	TooLarge         Code = "too_large"           // the body is beyond the route's bound
	BadCwd           Code = "bad_cwd"             // the directory is not there or cannot be entered
	UnknownModel     Code = "unknown_model"       // no such model, or no provider for it
	MissingKey       Code = "missing_key"         // the provider has no key configured
	Unauthorized     Code = "unauthorized"        // nobody is known by what was sent
	Forbidden        Code = "forbidden"           // who asks may not do this
	UnknownSession   Code = "unknown_session"     // no such session
	UnknownStrand    Code = "unknown_strand"      // the session has no such strand
	UnknownRow       Code = "unknown_row"         // nothing of that id waits, is queued or runs
	NoRoute          Code = "no_route"            // no such path
	Unsupported      Code = "unsupported"         // the contract has it and this engine does not: see the capabilities
	SessionHeld      Code = "session_held"        // another process holds the session
	Conflict         Code = "conflict"            // the session is not in a state for this
	BindingMismatch  Code = "binding_mismatch"    // the call or the input is not the one that was shown; a stop for safety, never tried again
	AlreadySettled   Code = "already_settled"     // somebody answered first
	RevisionChanged  Code = "revision_changed"    // it was edited meanwhile
	KeyReused        Code = "key_reused"          // the idempotency key was used for another request
	AttributionTaken Code = "attribution_refused" // this deployment takes no attribution; the decision may be sent again without it
	RuleRefused      Code = "rule_refused"        // no rule was written: the issues say why
	StaleCursor      Code = "stale_cursor"        // the cursor is of an older generation: read afresh
	StoreUnreadable  Code = "store_unreadable"    // the session cannot be read; its bytes were kept
	NewerFormat      Code = "newer_format"        // a newer build wrote the session
	StoreFull        Code = "store_full"          // no room to commit; nothing of the request was kept
	Unavailable      Code = "unavailable"         // shutting down or overloaded
	Internal         Code = "internal"            // a defect of the server
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
	{Unauthorized, 401},
	{Forbidden, 403},
	{UnknownSession, 404},
	{UnknownStrand, 404},
	{UnknownRow, 404},
	{NoRoute, 404},
	{Unsupported, 501},
	{SessionHeld, 423},
	{Conflict, 409},
	{BindingMismatch, 409},
	{AlreadySettled, 409},
	{RevisionChanged, 409},
	{KeyReused, 409},
	{AttributionTaken, 422},
	{RuleRefused, 422},
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

// Words returns the closed set.
func (Code) Words() []string {
	out := make([]string, len(codes))
	for i, c := range codes {
		out[i] = string(c.Code)
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

// CoarseCode is what an HTTP status alone says, for an answer whose body is not of
// this contract: a proxy's, say. It is no [Code], and nothing is decided by it but
// what a person is told.
type CoarseCode string

// The coarse codes.
const (
	CoarseBadRequest   CoarseCode = "bad_request"
	CoarseUnauthorized CoarseCode = "unauthorized"
	CoarseForbidden    CoarseCode = "forbidden"
	CoarseNotFound     CoarseCode = "not_found"
	CoarseConflict     CoarseCode = "conflict"
	CoarseTooLarge     CoarseCode = "too_large"
	CoarseRateLimited  CoarseCode = "rate_limited"
	CoarseUnavailable  CoarseCode = "unavailable"
	CoarseClientError  CoarseCode = "client_error"
	CoarseServerError  CoarseCode = "server_error"
	CoarseOther        CoarseCode = "unexpected_status"
)

// CoarseOf reads a status. It is total.
func CoarseOf(status int) CoarseCode {
	switch status {
	case 400, 422:
		return CoarseBadRequest
	case 401, 407:
		return CoarseUnauthorized
	case 403:
		return CoarseForbidden
	case 404, 410:
		return CoarseNotFound
	case 409, 412, 423:
		return CoarseConflict
	case 413, 414, 431:
		return CoarseTooLarge
	case 429:
		return CoarseRateLimited
	case 502, 503, 504:
		return CoarseUnavailable
	}
	switch status / 100 {
	case 4:
		return CoarseClientError
	case 5:
		return CoarseServerError
	}
	return CoarseOther
}

// ErrorBody is the body of every answer that is not a success. Message is one
// sentence for a person: what happened, what was kept, what to do.
type ErrorBody struct {
	Code    Code          `wire:"code,word"`
	Message string        `wire:"message"`
	Pending Stated[Row]   `wire:"pending"`    // with already_settled and binding_mismatch: the row as it is now
	Issues  []RuleProblem `wire:"issues,opt"` // with rule_refused
}

// Row is a pending row in an answer.
type Row struct {
	Frame Pending `wire:"frame"`
}
