package server

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"strconv"
	"syscall"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/wire"
)

// refusal words any error for a client. The texts of the engine side are
// sentences already; what is decided here is the code.
func refusal(err error) wire.ErrorBody {
	body := func(c wire.Code) wire.ErrorBody { return wire.ErrorBody{Code: c, Message: err.Error()} }
	if r, ok := errors.AsType[*Refusal](err); ok {
		return wire.ErrorBody{Code: r.Code, Message: r.Message}
	}
	if r, ok := errors.AsType[*RuleRefused](err); ok {
		return wire.ErrorBody{Code: wire.RuleRefused, Message: err.Error(), Issues: ruleProblems(r.Issues)}
	}
	if m, ok := errors.AsType[*Mismatch](err); ok {
		return wire.ErrorBody{Code: wire.BindingMismatch, Message: err.Error(), Pending: wire.FactOf(wire.Row{Frame: m.Row})}
	}
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return wire.ErrorBody{Code: wire.TooLarge, Message: "the request is larger than it may be (" + size(large.Limit) + "); nothing was changed"}
	}
	if full(err) { // whatever it kept from happening, and whoever met it
		return body(wire.StoreFull)
	}
	if v, ok := errors.AsType[*storage.UnsupportedVersion](err); ok && v.Found > v.Supported {
		return body(wire.NewerFormat)
	}
	switch {
	case is[*storage.LeaseHeld](err), is[*tx.LeaseLost](err):
		return body(wire.SessionHeld)
	case is[*storage.OpenFailed](err) && errors.Is(err, fs.ErrNotExist):
		return body(wire.UnknownSession)
	case is[*storage.UnsupportedVersion](err), is[*storage.OpenFailed](err), is[*storage.CorruptRow](err),
		is[*session.Corrupt](err), is[*tx.Corruption](err), is[*tx.Faulted](err), is[*storage.BackendFault](err), is[*corrupt.Report](err):
		return body(wire.StoreUnreadable)
	case errors.Is(err, engine.ErrClosed), errors.Is(err, storage.ErrClosed), errors.Is(err, context.Canceled):
		return body(wire.Unavailable)
	}
	return body(wire.Internal)
}

// Explain gives an error of the engine side the code and the sentence that a client
// of this server gets for it.
func Explain(err error) wire.ErrorBody { return refusal(err) }

// full reports that there was no room, in a session file or in what lies beside it.
func full(err error) bool {
	return errors.Is(err, storage.ErrFull) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// badRequest is a body or a query that is not what the route takes.
func badRequest(err error) error {
	if is[*http.MaxBytesError](err) {
		return err
	}
	return &Refusal{Code: wire.BadRequest, Message: "the request cannot be read: " + err.Error() + "; nothing was changed", Err: err}
}

func size(n int64) string {
	if n >= 1<<20 {
		return strconv.FormatInt(n>>20, 10) + " MiB"
	}
	return strconv.FormatInt(n>>10, 10) + " KiB"
}
