package say

import "github.com/loom-run/loom/wire"

// Refusal says what a refused request means and what to do, where the server's own
// sentence is not at hand. A sentence answers its one code and names none.
func Refusal(c wire.Code) string {
	switch c {
	case wire.BadRequest:
		return "the server does not take the request as it is; a newer or an older client may fit it"
	case wire.TooLarge:
		return "the request is larger than the server takes; send less"
	case wire.BadCwd:
		return "the directory is not there or cannot be entered; choose another one"
	case wire.UnknownModel:
		return "no such model is configured; choose another one"
	case wire.MissingKey:
		return "the provider of that model has no key; set it and try again"
	case wire.Unauthorized:
		return "the server does not know who asks; log in and try again"
	case wire.Forbidden:
		return "who asks may not do this"
	case wire.UnknownSession:
		return "there is no such session"
	case wire.UnknownStrand:
		return "the session has no such strand"
	case wire.UnknownRow:
		return "what was named does not wait, is not queued and does not run any more"
	case wire.NoRoute:
		return "the server has no such path; it may be another program"
	case wire.Unsupported:
		return "this server cannot do that yet; nothing was changed"
	case wire.SessionHeld:
		return "another process holds the session; go on there, or end it first"
	case wire.Conflict:
		return "the session is not in a state for this; look at it and try again"
	case wire.BindingMismatch:
		return "what would run is not what was shown, so nothing ran; look at it again"
	case wire.AlreadySettled:
		return "somebody answered first; nothing was changed"
	case wire.RevisionChanged:
		return "it was edited meanwhile; look at the newer text"
	case wire.KeyReused:
		return "the request has the mark of another one and was not carried out"
	case wire.AttributionTaken:
		return "this deployment takes no note of whose decision it was; the decision may be sent without it"
	case wire.RuleRefused:
		return "no rule was written; what is wrong with it is told beside"
	case wire.StaleCursor:
		return "the history was written anew; read it from its start"
	case wire.StoreUnreadable:
		return "the session cannot be read; its bytes are kept"
	case wire.NewerFormat:
		return "a newer build wrote the session; use that one"
	case wire.StoreFull:
		return "there is no room left to write; nothing of the request was kept"
	case wire.Unavailable:
		return "the server ends or has too much to do; try again"
	case wire.Internal:
		return "the server has a defect and did not carry it out"
	}
	return "the server refused: " + quoted(string(c)) + ", a reason that this build does not know"
}
