package node

import (
	"errors"
	"io"

	"github.com/loom-run/loom/admin"
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/server"
)

// Export writes a session with its outputs to a file that does not exist yet.
func (n *Node) Export(s id.SessionID, path string) (admin.Exported, error) {
	done, err := admin.Export(n.root(), s, path)
	return done, n.home.refuse(moveRefusal(err))
}

// Import makes a session of an export. dir, when it is not empty, is the directory
// that it works in from now on.
func (n *Node) Import(from io.Reader, dir string) (admin.Imported, error) {
	if dir != "" {
		var err error
		if dir, err = absolute(dir); err != nil {
			return admin.Imported{}, n.home.refuse(err)
		}
	}
	if err := n.home.create(); err != nil {
		return admin.Imported{}, n.home.refuse(err)
	}
	done, err := admin.Import(n.root(), from, n.home.place)
	if err == nil && dir != "" {
		err = admin.Rehome(n.root(), n.home.place(done.Session), dir)
	}
	if _, ok := errors.AsType[*corrupt.Report](err); ok {
		err = &server.Refusal{Code: server.StoreUnreadable, Message: "the file is no whole export of a session, and nothing was changed: " + err.Error(), Err: err}
	}
	return done, n.home.refuse(moveRefusal(err))
}

// moveRefusal words what only moves run into.
func moveRefusal(err error) error {
	if unknown, ok := errors.AsType[*admin.ErrUnknownSession](err); ok {
		return &ErrUnknownSession{unknown.ID}
	}
	code := server.Code("")
	_, taken := errors.AsType[*admin.ErrExists](err)
	_, there := errors.AsType[*admin.ErrSessionExists](err)
	_, unsound := errors.AsType[*admin.ErrUnsoundSession](err)
	_, newer := errors.AsType[*admin.NewerExport](err)
	switch {
	case taken:
		code = server.BadRequest
	case there:
		code = server.Conflict
	case unsound, newer:
		code = server.StoreUnreadable
	}
	if code != "" {
		return &server.Refusal{Code: code, Message: err.Error(), Err: err}
	}
	return err
}
