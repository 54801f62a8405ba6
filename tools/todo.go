package tools

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/loom-run/loom/core/board"
	"github.com/loom-run/loom/core/jsonv"
)

//go:embed todo.md
var todoDescription string

const todoArguments = `{"type":"object","properties":{
	"phases":{"type":"array","description":"The whole board. Left out: the board is shown.","items":{"type":"object","properties":{
		"name":{"type":"string"},
		"tasks":{"type":"array","items":{"type":"object","properties":{
			"text":{"type":"string"},
			"status":{"type":"string","enum":["pending","active","done","dropped","blocked"]},
			"reason":{"type":"string","description":"Why it is blocked."}},
			"required":["text","status"],"additionalProperties":false}}},
		"required":["name","tasks"],"additionalProperties":false}}},
	"additionalProperties":false}`

func (g agents) todo(_ context.Context, in Invocation) Outcome {
	a := argumentsOf(in.Arguments, "phases")
	if out, bad := a.err(); bad {
		return out
	}
	strand := in.caller().Strand
	if _, given := a.get("phases"); !given {
		b, err := g.agency().Board(strand)
		if err != nil {
			return declined(err)
		}
		return shownBoard(b)
	}
	b, err := board.Decode(in.Arguments)
	if err != nil {
		return failed("invalid arguments: " + err.Error())
	}
	b = settle(b)
	if err := b.Validate(); err != nil {
		return failed(err.Error() + "; the board is unchanged")
	}
	if err := g.agency().SetBoard(strand, b); err != nil {
		return declined(err)
	}
	return shownBoard(b)
}

// settle sees to it that one task is active while any can be worked on: of several
// the first, of none the first that is pending.
func settle(b board.Board) board.Board {
	out := board.Board{Phases: make([]board.Phase, len(b.Phases))}
	var first *board.Task
	active := false
	for i, p := range b.Phases {
		out.Phases[i] = board.Phase{Name: p.Name, Tasks: append([]board.Task{}, p.Tasks...)}
		for j := range out.Phases[i].Tasks {
			t := &out.Phases[i].Tasks[j]
			switch {
			case t.Status == board.Active && active:
				t.Status = board.Pending
			case t.Status == board.Active:
				active = true
			}
			if t.Status == board.Pending && first == nil {
				first = t
			}
		}
	}
	if !active && first != nil {
		first.Status = board.Active
	}
	return out
}

var boxes = map[board.Status]string{
	board.Pending: "[ ]", board.Active: "[>]", board.Done: "[x]", board.Dropped: "[-]", board.Blocked: "[!]",
}

func shownBoard(b board.Board) Outcome {
	closed, total := b.Count()
	var text strings.Builder
	fmt.Fprintf(&text, "%d of %s closed\n", closed, count(total, "task"))
	for _, p := range b.Phases {
		fmt.Fprintf(&text, "%s\n", p.Name)
		for _, t := range p.Tasks {
			fmt.Fprintf(&text, "  %s %s", boxes[t.Status], t.Text)
			if t.Reason != nil {
				fmt.Fprintf(&text, " (%s)", *t.Reason)
			}
			text.WriteByte('\n')
		}
	}
	return said(text.String()).with(jsonv.F("board", b.Value()))
}
