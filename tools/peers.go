package tools

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/machine/agency"
	"github.com/loom-run/loom/policy"
)

//go:embed peer_send.md
var peerSendDescription string

//go:embed peer_roster.md
var peerRosterDescription string

// Peers is what the tools of peers stand on. Errors for models are [*agency.Refusal].
type Peers interface {
	SendPeer(c agency.Caller, to agency.Peer, text string) (agency.Delivery, error)
	PeerLinks(strand string) (out, in []agency.Link, err error)
}

// correspondence are the tools over peers. A call that is made again sends the letter
// of the first time, which arrives once.
type correspondence struct {
	peers func() Peers
}

func (k correspondence) all() []Tool {
	return []Tool{
		{
			Name: "peer_send", Description: peerSendDescription, Class: policy.Read, Replay: Safe, Scheduling: Exclusive,
			Schema: schema(`{"type":"object","properties":{
				"to":{"type":"string","description":"Who of another session, as peer_roster writes it."},
				"message":{"type":"string","description":"What to say, at most 32 KiB."}},
				"required":["to","message"],"additionalProperties":false}`),
			Run: k.send,
		},
		{
			Name: "peer_roster", Description: peerRosterDescription, Class: policy.Read, Replay: Safe, Scheduling: Concurrent,
			Schema: schema(`{"type":"object","properties":{},"additionalProperties":false}`), Run: k.roster,
		},
	}
}

func (k correspondence) send(_ context.Context, in Invocation) Outcome {
	a := argumentsOf(in.Arguments, "to", "message")
	to, text := a.str("to"), a.str("message")
	if out, bad := a.err(); bad {
		return out
	}
	peer, err := agency.ParsePeer(to)
	if err != nil {
		return declined(err)
	}
	d, err := k.peers().SendPeer(in.caller(), peer, text)
	if err != nil {
		return declined(err)
	}
	out := said(agency.Sentence(peer, d))
	switch d := d.(type) {
	case agency.Delivered:
		return out.with(jsonv.F("delivery", jsonv.Str("delivered")), jsonv.F("entry", jsonv.Str(d.Receipt.Entry.String())))
	case agency.Refused:
		out.IsError = true
		return out.with(jsonv.F("delivery", jsonv.Str("refused")))
	case agency.Undecided:
		out.IsError = true
		return out.with(jsonv.F("delivery", jsonv.Str("unknown")))
	}
	return out
}

func (k correspondence) roster(_ context.Context, in Invocation) Outcome {
	if out, bad := argumentsOf(in.Arguments).err(); bad {
		return out
	}
	to, from, err := k.peers().PeerLinks(in.caller().Strand)
	if err != nil {
		return declined(err)
	}
	if len(to)+len(from) == 0 {
		return said("nobody linked you with an agent of another session")
	}
	var b strings.Builder
	for _, l := range to {
		how := "while it works"
		if l.MayWake {
			how = "at any time"
		}
		fmt.Fprintf(&b, "you may write to %s %s\n", l.To, how)
	}
	for _, l := range from {
		fmt.Fprintf(&b, "%s may write to you\n", l.From)
	}
	return said(b.String())
}
