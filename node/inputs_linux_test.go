package node

import (
	"errors"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/policy"
	"github.com/loom-run/loom/server"
	"github.com/loom-run/loom/server/memlisten"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/wireclient"
)

// closeWait bounds the wait for requests that are being answered.
const closeWait = 10 * time.Second

// serving lets a client speak to a node.
func serving(t *testing.T, n *Node) *wireclient.Client {
	t.Helper()
	listener, s, ended := memlisten.New(), server.New(n.Host()), make(chan error, 1)
	go func() { ended <- s.Serve(listener) }()
	trans := &http.Transport{DialContext: listener.DialContext, DisableCompression: true}
	t.Cleanup(func() {
		trans.CloseIdleConnections()
		if err := errors.Join(s.Close(closeWait), <-ended); err != nil {
			t.Error(err)
		}
	})
	return wireclient.New(trans, "http://loom")
}

// What a person says to a strand that works is steered, follows up, is changed and taken out, each as it was seen, and each client knows what waits.
func TestInputOfAPersonWaitsIsChangedAndTakenOverTheWire(t *testing.T) {
	p := newPlay(t, txtar.Parse([]byte("-- part boss --\ncall bash {\"command\":\"while [ ! -e go ]; do sleep 0.02; done\"}\n==\ntext steered\n==\ntext followed\n")))
	t.Cleanup(func() {
		if err := p.node.Close(); err != nil {
			t.Error(err)
		}
	})
	c, s := serving(t, p.node), p.slot.ID()
	stream, err := c.Attach(t.Context(), s, wire.FromStart())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	pull, stop := iter.Pull2(stream.Frames(t.Context()))
	defer stop()
	next := func() wire.Frame {
		t.Helper()
		f, err, ok := pull()
		if err != nil || !ok {
			t.Fatalf("the stream ended: %v", err)
		}
		return f
	}
	level := func(want ...string) []wire.QueuedItem {
		t.Helper()
		for {
			f := next()
			if q, ok := f.Body.(wire.Queue); ok {
				var got []string
				for _, i := range q.Items {
					got = append(got, string(i.Lane)+" "+i.Text)
				}
				if slices.Equal(got, want) {
					return q.Items
				}
			}
		}
	}
	if _, err := c.Prompt(t.Context(), s, wire.Prompt{Input: wire.Input{Text: "part:boss"}}); err != nil {
		t.Fatal(err)
	}
	p.await("calls while")
	later, err := c.FollowUp(t.Context(), s, wire.FollowUp{Input: wire.Input{Text: "then this"}})
	if err != nil || later.Status != wire.Queued || later.Item == nil {
		t.Fatal(later, err)
	}
	level("follow_up then this")
	if _, err := c.FollowUp(t.Context(), s, wire.FollowUp{Input: wire.Input{Text: "not this"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Steer(t.Context(), s, wire.Steer{Input: wire.Input{Text: "look here"}}); err != nil {
		t.Fatal(err)
	}
	items := level("steer look here", "follow_up then this", "follow_up not this")

	edit := wire.QueueEdit{Item: items[1].ID, Revision: items[1].Revision, Text: "then that"}
	edited, err := c.EditQueued(t.Context(), s, edit)
	if err != nil || edited.Revision <= items[1].Revision {
		t.Fatal(edited, err)
	}
	refusedWith(t, wire.RevisionChanged, func() error { _, err := c.EditQueued(t.Context(), s, edit); return err })
	cancel := wire.QueueCancel{Item: items[2].ID, Revision: &items[2].Revision}
	if _, err := c.CancelQueued(t.Context(), s, cancel); err != nil {
		t.Fatal(err)
	}
	refusedWith(t, wire.UnknownRow, func() error { _, err := c.CancelQueued(t.Context(), s, cancel); return err })
	refusedWith(t, wire.UnknownRow, func() error {
		_, err := c.CancelQueued(t.Context(), s, wire.QueueCancel{Item: "nothing"})
		return err
	})
	level("steer look here", "follow_up then that")

	if err := os.WriteFile(filepath.Join(p.cwd, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var told []string
	for ended := false; !ended; {
		f := next()
		switch b := f.Body.(type) {
		case wire.UserMessage:
			told = append(told, "said "+b.Text)
		case wire.TextEnd:
			told = append(told, "answered "+b.Content)
		case wire.InputTaken:
			told = append(told, "taken "+string(b.Lane))
			if b.Lane == words.LaneFollowUp && (b.Item != items[1].ID || b.Entry.String() != b.Item) {
				t.Errorf("taken is %+v", b)
			}
		case wire.Queue:
			told = append(told, "wait "+texts(b))
		}
		ended = f.Kind() == wire.KindRunEnd
	}
	all := strings.Join(told, ", ")
	for _, want := range []string{"said look here, ", "answered steered, ", "said then that, ", "answered followed"} {
		_, rest, ok := strings.Cut(all, want)
		if !ok {
			t.Fatalf("%q does not come where it should in %v", want, told)
		}
		all = rest
	}
	for _, want := range []string{"taken steer", "taken follow_up", "wait "} {
		if !slices.Contains(told, want) {
			t.Errorf("nobody was told %q: %v", want, told)
		}
	}
}

func texts(q wire.Queue) string {
	var all []string
	for _, i := range q.Items {
		all = append(all, i.Text)
	}
	return strings.Join(all, "; ")
}

func refusedWith(t *testing.T, code wire.Code, f func() error) {
	t.Helper()
	err := f()
	if r, ok := errors.AsType[*wireclient.Refused](err); !ok || r.Code != code {
		t.Errorf("got %v, want a refusal with %s", err, code)
	}
}

// What a strand uses is changed from its next request on, and what there is not is refused.
func TestWhatAStrandUsesIsChangedOverTheWire(t *testing.T) {
	p := newPlay(t, txtar.Parse([]byte("-- part boss --\ncall bash {\"command\":\"true\"}\n==\ntext done\n")))
	t.Cleanup(func() {
		if err := p.node.Close(); err != nil {
			t.Error(err)
		}
	})
	c, s := serving(t, p.node), p.slot.ID()
	high := words.ThinkingHigh
	now, err := c.Configure(t.Context(), s, wire.Configure{ThinkingLevel: &high, ActiveTools: []string{"read", "ls", "read"}})
	if err != nil || *now.Settings.ThinkingLevel != high || !slices.Equal(now.Settings.ActiveTools, []string{"ls", "read"}) || now.Settings.Mode != words.ModeBypassPermissions {
		t.Fatalf("%+v, %v", now, err)
	}
	again, err := c.SetModel(t.Context(), s, wire.SetModel{Model: "cast/m"})
	if err != nil || again.Settings.Model.Provider != "cast" || *again.Settings.ThinkingLevel != high || again.Seq < now.Seq {
		t.Errorf("%+v, %v", again, err)
	}
	refusedWith(t, wire.BadRequest, func() error {
		_, err := c.Configure(t.Context(), s, wire.Configure{ActiveTools: []string{"telepathy"}})
		return err
	})
	refusedWith(t, wire.BadRequest, func() error {
		_, err := c.Configure(t.Context(), s, wire.Configure{Strand: new("side"), ThinkingLevel: &high})
		return err
	})
	plan, err := c.SetMode(t.Context(), s, wire.SetMode{PermissionMode: words.ModePlan})
	if err != nil || plan.Settings.Mode != words.ModePlan || p.slot.resident().broker.Mode() != policy.Plan {
		t.Errorf("%+v, %v", plan, err)
	}
	refusedWith(t, wire.BadRequest, func() error {
		_, err := c.SetMode(t.Context(), s, wire.SetMode{PermissionMode: words.ModeAuto})
		return err
	})
	p.do("prompt part:boss go") // bash is not one of its tools any more
	p.awaitEnd()
	if !strings.Contains(p.print(), "the tool bash is not one of yours") {
		t.Error("a tool that was taken away ran:\n" + p.print())
	}
}
