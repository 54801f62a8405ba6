package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/node"
	"github.com/loom-run/loom/server"
	"github.com/loom-run/loom/server/memlisten"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/wireclient"
)

// link is a server in this process and a client of it.
type link struct {
	*wireclient.Client
	setup setup
	home  node.Home
	node  *node.Node
	http  *server.Server
	trans *http.Transport
	ended chan error
}

// connect serves the state root in this process, over a listener in memory.
func (a *app) connect(s setup) (*link, error) {
	home, err := node.FindHome(a.env)
	if err != nil {
		return nil, errors.Join(refused(wire.BadRequest, "%v", err), s.close())
	}
	n := node.New(node.Config{
		Home: home, Models: s.models, Environ: a.sys.Environ, Now: now, Retry: s.retry, Meter: s.meter, Build: userAgent(), Automation: s.cues,
		Permissions: s.rules, PermissionsFile: s.path, Redaction: s.redact,
	})
	listener := memlisten.New()
	l := &link{
		setup: s,
		home:  home,
		node:  n,
		http:  server.New(n.Host()),
		trans: &http.Transport{DialContext: listener.DialContext, DisableCompression: true},
		ended: make(chan error, 1),
	}
	go func() { l.ended <- l.http.Serve(listener) }()
	l.Client = wireclient.New(l.trans, "http://loom")
	return l, nil
}

// closeGrace bounds the wait for requests that are being answered.
const closeGrace = 2 * time.Second

// close ends the server, then the sessions.
func (l *link) close() error {
	l.trans.CloseIdleConnections()
	return errors.Join(l.http.Close(closeGrace), <-l.ended, l.node.Close(), l.setup.close())
}

// hangUp closes the sessions. What was answered stands; a lease that could not be
// given back is told. Who gave up waiting does not wait for this either: what is
// not closed is let go by the end of the process, and the next one sees that.
func (a *app) hangUp(l *link) {
	closed := make(chan error, 1)
	go func() { closed <- l.close() }()
	select {
	case err := <-closed:
		if err != nil {
			a.note("the session was not closed cleanly (" + err.Error() + "); it keeps everything that was committed")
		}
	case <-a.interrupts.givenUp.Done():
	}
}

// refused is a refusal of this side of the wire, in the words of the other.
func refused(code wire.Code, format string, args ...any) error {
	return &wireclient.Refused{Code: code, Status: code.Status(), Message: fmt.Sprintf(format, args...)}
}

// find reads a session id, or the start of one that is unique.
func (l *link) find(ctx context.Context, text string) (id.SessionID, error) {
	if s, err := id.ParseSessionID(text); err == nil {
		return s, nil
	}
	list, err := l.Sessions(ctx)
	if err != nil {
		return id.SessionID{}, err
	}
	var found []string
	for _, s := range list.Sessions {
		if strings.HasPrefix(s.Session.String(), strings.ToLower(text)) {
			found = append(found, s.Session.String())
		}
	}
	switch len(found) {
	case 1:
		return id.ParseSessionID(found[0])
	case 0:
		return id.SessionID{}, refused(wire.UnknownSession, "there is no session %q; `loom sessions` lists those there are", text)
	}
	const shown = 3
	names := strings.Join(found[:min(len(found), shown)], ", ")
	if len(found) > shown {
		names += fmt.Sprintf(" and %d more", len(found)-shown)
	}
	return id.SessionID{}, refused(wire.BadRequest, "%d sessions start with %q: %s; nothing was done, write more of the id", len(found), text, names)
}

// newest finds the session that was last used in a directory. Those that cannot be
// read may be newer or of the same place; passed is how many they are.
func (l *link) newest(ctx context.Context, cwd string) (found id.SessionID, passed int, err error) {
	list, err := l.Sessions(ctx)
	if err != nil {
		return id.SessionID{}, 0, err
	}
	for _, s := range list.Sessions {
		switch {
		case s.Cwd == nil:
			passed++
		case *s.Cwd == cwd:
			return s.Session, passed, nil
		}
	}
	besides := ""
	if passed > 0 {
		besides = fmt.Sprintf(" (%s cannot be read, see `loom sessions`)", counted(passed, "session"))
	}
	return id.SessionID{}, passed, refused(wire.UnknownSession, "there is no session of %s to continue%s; leave out --continue to start one", cwd, besides)
}
