package server

import (
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/wire"
)

// stopped is a refusal as the state of a run.
func stopped(e wire.ErrorBody) wire.RunStopped {
	return wire.RunStopped{Code: e.Code, Message: e.Message}
}

// manifest says what a run is put together from.
func manifest(l Level) wire.RunStart {
	rows := make([]wire.ToolRow, len(l.Tools))
	hands := []string{}
	for i, t := range l.Tools {
		rows[i] = wire.ToolRow{Name: t.Name, Mount: t.Mount, Face: &wire.ToolFace{
			Class: t.Class, PathField: t.Path, Exclusive: t.Exclusive, Repeats: t.Repeats,
		}}
		if t.Mount == words.MountedHands {
			hands = append(hands, t.Name)
		}
	}
	return wire.RunStart{
		Model: wire.ModelRef{Provider: l.Provider, ModelID: l.ModelID}, Mode: words.PermissionMode(l.Mode), Cwd: l.Cwd,
		Roster: wire.FactOf(wire.RosterOf(rows)),
		Hands:  wire.FactOf(wire.Hands{Tools: hands}),
		MCP:    wire.None[[]wire.MCPServer](), // this engine asks no external tool server
	}
}

// maxTarget bounds the target of a call in its disclosure, in bytes.
const maxTarget = 1024

// disclose says what a call is, as far as the offered tools tell. A tool that is not
// offered has nothing but its name.
func disclose(tools []Tool, c wire.ToolCall) wire.ToolDisclosure {
	d := wire.ToolDisclosure{CallID: c.CallID, Name: c.Name}
	for _, t := range tools {
		if t.Name != c.Name {
			continue
		}
		d.Class, d.Mount = t.Class, &t.Mount
		if t.Path == nil {
			break
		}
		if v, ok := c.Arguments.Get(*t.Path); ok {
			if target, ok := v.Text(); ok {
				d.Target = new(cut(target, maxTarget))
			}
		}
		break
	}
	return d
}

// newestRows is how far back the newest response of a session is looked for.
const newestRows = 64

// lastTurn is what the newest response consumed; ok is false when there is none
// among the newest rows.
func lastTurn(rows []entry.Entry) (u wire.LastTurnUsage, ok bool) {
	for _, e := range rows {
		msg, is := e.Body.(entry.Message)
		if !is {
			continue
		}
		if a, is := msg.Message.(*message.Assistant); is {
			return turnUsage(wire.TurnEnd{
				Entry: e.ID, Usage: usageOf(a.Usage), Model: wire.ModelRef{Provider: a.Provider, ModelID: a.Model},
			}), true
		}
	}
	return wire.LastTurnUsage{}, false
}

// turnUsage is the level behind a turn's end. What was sent and what was answered
// is what the next request begins with; a part of it is no size of a context.
func turnUsage(t wire.TurnEnd) wire.LastTurnUsage {
	u := wire.LastTurnUsage{Entry: t.Entry, Usage: t.Usage, Model: t.Model}
	if t.Usage.Measured && !t.Usage.LowerBound {
		u.ContextTokens = new(count(t.Usage.Input + t.Usage.CacheRead + t.Usage.CacheWrite + t.Usage.Output))
	}
	return u
}
