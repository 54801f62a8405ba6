package agency_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/machine/agency"
)

func peers() *rapid.Generator[agency.Peer] {
	return rapid.Custom(func(t *rapid.T) agency.Peer {
		strand := rapid.SampledFrom([]string{"main", "side", "sub:main/x-0", "a/b#c"}).Draw(t, "strand")
		return agency.Peer{Session: coretest.SessionID().Draw(t, "session"), Strand: strand}
	})
}

// Links and receipts read back, and each link has a cell of its own on each side.
func TestLinksAndReceiptsReadBackAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := agency.Link{From: peers().Draw(t, "from"), To: peers().Draw(t, "to"), MayWake: rapid.Bool().Draw(t, "wake"), GrantedAt: rapid.Int64().Draw(t, "at")}
		if got, err := agency.ParsePeer(l.To.String()); err != nil || got != l.To {
			t.Fatalf("%s reads back as %s, %v", l.To, got, err)
		}
		back := agency.Link{From: l.To, To: l.From}
		if l.Key(agency.Incoming) == l.Key(agency.Outgoing) || l.From != l.To && l.Key(agency.Incoming) == back.Key(agency.Incoming) {
			t.Fatal("two links have one cell")
		}
		got, err := agency.DecodeLink(l.Value())
		if allowed := l.Check() == nil; (err == nil) != allowed || allowed && got != l {
			t.Fatalf("%+v reads back as %+v, %v", l, got, err)
		}
		if err == nil {
			if known, err := agency.Judge(l.Key(agency.Incoming), l.Value()); !known || err != nil {
				t.Fatalf("it is judged %v, %v", known, err)
			}
			if _, err := agency.Judge(string(agency.Incoming)+"x", l.Value()); err == nil {
				t.Fatal("a link in another cell is taken")
			}
		}
		r := agency.Receipt{From: l.From, To: "main", Digest: "d", Entry: coretest.EntryID().Draw(t, "entry"), Woke: rapid.Bool().Draw(t, "woke")}
		if got, err := agency.DecodeReceipt(r.Value()); err != nil || got != r {
			t.Fatalf("%+v reads back as %+v, %v", r, got, err)
		}
	})
}

// A call that is made again sends the same letter, and no other call does.
func TestALetterIsOfItsCall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := callers().Draw(t, "a"), callers().Draw(t, "b")
		self, other := coretest.SessionID().Draw(t, "self"), coretest.SessionID().Draw(t, "other")
		letter := func(c agency.Caller, s id.SessionID) agency.Letter {
			l, err := agency.LetterOf(c, s, agency.Peer{}, "x")
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		same := a.Op == b.Op && a.Step == b.Step && a.SourceIndex == b.SourceIndex
		if (letter(a, self).ID == letter(b, self).ID) != same || self != other && letter(a, self).ID == letter(a, other).ID {
			t.Fatalf("%+v and %+v", a, b)
		}
	})
	for _, text := range []string{"", " \n", strings.Repeat("x", agency.MaxLetter+1)} {
		if _, err := agency.LetterOf(agency.Caller{}, id.SessionID{}, agency.Peer{}, text); err == nil {
			t.Errorf("a letter of %d bytes is written", len(text))
		}
	}
}

// The plan of a delivery is guarded by the grant and by the absence of a receipt, and
// holds both or neither of the message and the receipt.
func TestADeliveryIsOneGuardedTransaction(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := agency.Link{From: peers().Draw(t, "from"), To: agency.Peer{Session: coretest.SessionID().Draw(t, "to"), Strand: "main"}, MayWake: rapid.Bool().Draw(t, "wake")}
		letter := agency.Letter{ID: "x", From: l.From, To: l.To, Text: "hello"}
		box := agency.Mailbox{GrantSeq: 7, Attended: rapid.Bool().Draw(t, "attended"), Standing: machine.Standing{Strand: "main", StateSeq: 3}}
		if rapid.Bool().Draw(t, "granted") {
			box.Grant = &l
		}
		r, plan, err := letter.Deliver(box, 5, id.NewGenerator(clock.Fixed(5), 1))
		if want := box.Grant != nil && l.MayWake; (err == nil) != want {
			t.Fatalf("granted %v, may wake %v: %v", box.Grant != nil, l.MayWake, err)
		}
		if err != nil {
			if len(plan.Writes) != 0 {
				t.Fatal("a refusal writes")
			}
			return
		}
		guards := map[string]int64{}
		for _, e := range plan.Expected {
			guards[e.Key] = e.Seq
		}
		if seq, ok := guards[l.Key(agency.Incoming)]; !ok || seq != 7 {
			t.Fatalf("it is not guarded by the grant: %v", guards)
		}
		if seq, ok := guards[agency.ReceiptKey("x")]; !ok || seq != 0 {
			t.Fatalf("it is not guarded by the receipt: %v", guards)
		}
		if r.Woke != box.Attended || len(plan.Writes) != 3 {
			t.Fatalf("it plans %+v", plan)
		}
	})
}
