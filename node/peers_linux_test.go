package node

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine/agency"
	"github.com/loom-run/loom/policy"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage/sqlite"
)

// pair is two sessions of a node, neither of which runs.
func pair(t *testing.T, parts map[string][]string) (n *Node, ends [2]*Slot, l agency.Link) {
	t.Helper()
	n = New(Config{Home: Home{t.TempDir()}, Models: &cast{parts: parts, once: map[string]bool{}}, Now: now, Retry: DefaultRetry()})
	t.Cleanup(func() { _ = n.Close() })
	for i := range ends {
		s, err := n.Create(t.TempDir(), policy.BypassPermissions, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		ends[i] = s
	}
	return n, ends, agency.Link{
		From: agency.Peer{Session: ends[0].id, Strand: session.MainStrand}, To: agency.Peer{Session: ends[1].id, Strand: session.MainStrand}, MayWake: true,
	}
}

func waiting(t *testing.T, s *Slot) (n int) {
	t.Helper()
	if err := s.Read(func(v *session.View) error {
		st, _, err := v.StrandState(session.MainStrand)
		n = len(st.Value.PendingNextRun)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestLinksAreMadeListedAndTakenAwayWhileNobodyRunsTheSessions(t *testing.T) {
	n, ends, l := pair(t, nil)
	if err := n.LinkPeers(l); err != nil {
		t.Fatal(err)
	}
	for i, s := range ends {
		out, in, err := s.Peers()
		if err != nil || len(out) != 1-i || len(in) != i {
			t.Errorf("session %d has %v and %v, %v", i, out, in, err)
		}
	}
	if u, err := n.UnlinkPeers(l); err != nil || !u.Grant || !u.Outgoing {
		t.Errorf("unlinked %+v, %v", u, err)
	}
	if u, err := n.UnlinkPeers(l); err != nil || u.Grant || u.Outgoing {
		t.Errorf("unlinked again %+v, %v", u, err)
	}
	same := l
	same.To.Session = l.From.Session
	nowhere := l
	nowhere.To.Strand = "nobody"
	gone := l
	gone.From.Session = id.SessionID{}
	for _, bad := range []agency.Link{same, nowhere, gone} {
		if err := n.LinkPeers(bad); err == nil {
			t.Errorf("%v was made", bad)
		}
	}
}

// Only who holds the lease of a session commits to it, so a letter to one that another
// process has open is refused and says so; one to a session that nobody has open is kept.
func TestALetterToASessionOfAnotherProcessIsRefusedByName(t *testing.T) {
	n, ends, l := pair(t, nil)
	if err := n.LinkPeers(l); err != nil {
		t.Fatal(err)
	}
	letter := agency.Letter{ID: "x", From: l.From, To: l.To, Text: "hello"}
	other, err := sqlite.Open(sqlite.Config{Path: n.home.file(ends[1].id), Owner: "another", Clock: now})
	if err != nil {
		t.Fatal(err)
	}
	d := post{n}.Deliver(letter)
	if r, ok := d.(agency.Refused); !ok || !strings.Contains(r.Why, "another process has that session open") {
		t.Errorf("it is %#v", d)
	}
	if err := n.LinkPeers(l); err == nil {
		t.Error("a session of another process was linked")
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second finds the receipt of the first
		if d, ok := (post{n}).Deliver(letter).(agency.Delivered); !ok || d.Receipt.Woke {
			t.Errorf("it is %#v", d)
		}
	}
	if got := waiting(t, ends[1]); got != 1 {
		t.Errorf("%d letters wait", got)
	}
	if d, ok := (post{n}).Deliver(agency.Letter{ID: "y", From: l.From, To: agency.Peer{Session: ends[0].id, Strand: "main"}, Text: "hello"}).(agency.Refused); !ok {
		t.Errorf("without a grant it is %#v", d)
	}
}

// What a failure means follows from what is known of the session.
func TestAFailureIsUndecidedUnlessItIsKnown(t *testing.T) {
	if _, ok := undelivered(errors.New("the disk failed"), true).(agency.Undecided); !ok {
		t.Error("a failed commit is decided")
	}
	if _, ok := undelivered(errMoving, true).(agency.Refused); !ok {
		t.Error("a session that is being opened is undecided")
	}
	if _, ok := undelivered(errMoving, false).(agency.Undecided); !ok {
		t.Error("a session that cannot be read is decided")
	}
}

// Through all of it: two sessions of one node, each with a model, write to each other.
func TestAgentsOfTwoSessionsWriteToEachOther(t *testing.T) {
	parts := map[string][]string{}
	n, ends, l := pair(t, parts)
	parts["boss"] = []string{`call peer_send {"to":"` + l.To.String() + `","message":"part:peer please look"}`, "text done"}
	parts["peer"] = []string{"call peer_roster {}", "text looked"}
	if err := n.LinkPeers(l); err != nil {
		t.Fatal(err)
	}
	mode := policy.BypassPermissions
	if _, err := ends[1].open(Opening{Mode: &mode}); err != nil {
		t.Fatal(err)
	}
	r, err := ends[0].Prompt(Opening{Mode: &mode}, session.MainStrand, engine.Prompt{Content: []message.UserBlock{message.Text{Text: "part:boss"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ends[0].resident().engine.Await(t.Context(), session.MainStrand, r.Op); err != nil {
		t.Fatal(err)
	}
	e := ends[1].resident().engine
	for {
		op, busy, err := e.Current(session.MainStrand)
		if err != nil {
			t.Fatal(err)
		}
		if busy {
			if _, err := e.Await(t.Context(), session.MainStrand, op); err != nil {
				t.Fatal(err)
			}
		}
		if last, ok, err := e.Session().LastResult(session.MainStrand); err != nil || ok {
			if err != nil || last.Value.Outcome != "completed" {
				t.Errorf("it ended with %+v, %v", last.Value, err)
			}
			break
		}
		runtime.Gosched() // its driver is about to start what came
	}
}
