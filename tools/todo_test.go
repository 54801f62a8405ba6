package tools

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/board"
	"github.com/loom-run/loom/core/jsonv"
)

func TestOneTaskIsActiveWhileAnyCanBeWorkedOn(t *testing.T) {
	statuses := []board.Status{board.Pending, board.Active, board.Done, board.Dropped, board.Blocked}
	rapid.Check(t, func(t *rapid.T) {
		var b board.Board
		workable := 0
		for range rapid.IntRange(0, 3).Draw(t, "phases") {
			var p board.Phase
			for range rapid.IntRange(0, 3).Draw(t, "tasks") {
				s := rapid.SampledFrom(statuses).Draw(t, "status")
				p.Tasks = append(p.Tasks, board.Task{Status: s})
				if s == board.Pending || s == board.Active {
					workable++
				}
			}
			b.Phases = append(b.Phases, p)
		}
		before := b.Value()
		active := 0
		for i, p := range settle(b).Phases {
			for j, task := range p.Tasks {
				was := b.Phases[i].Tasks[j].Status
				if task.Status == board.Active {
					active++
				} else if was != task.Status && was != board.Active {
					t.Fatalf("%s became %s", was, task.Status)
				}
			}
		}
		if active != min(workable, 1) {
			t.Fatalf("%d tasks are active of %d that can be worked on", active, workable)
		}
		if !b.Value().Equal(before) {
			t.Fatal("the board that was given changed")
		}
	})
}

func TestArgumentsOfAgentToolsAreChecked(t *testing.T) {
	r := newRig(t, agents{func() Agency { return nil }}.all()...) // nothing below gets as far as the agency
	for name, c := range map[string]struct {
		tool string
		args jsonv.Value
		want string
	}{
		"no task":          {"agent_spawn", jsonv.Obj(str("purpose", "x")), `invalid arguments: "task" is missing; a string is expected`},
		"a blank task":     {"agent_spawn", jsonv.Obj(str("purpose", "x"), str("task", " ")), `invalid arguments: "task" has 1 bytes; it has 1 to 65536`},
		"another context":  {"agent_spawn", jsonv.Obj(str("purpose", "x"), str("task", "y"), str("context", "all")), `invalid arguments: "context" is "all"; it is fresh or my_conversation`},
		"tools as a text":  {"agent_spawn", jsonv.Obj(str("purpose", "x"), str("task", "y"), str("tools", "read")), `invalid arguments: "tools" is a string; a list of strings is expected`},
		"too much time":    {"agent_spawn", jsonv.Obj(str("purpose", "x"), str("task", "y"), num("budget_ms", 700_000)), `invalid arguments: "budget_ms" is 700000; it must be from 1 to 600000`},
		"a contract":       {"agent_spawn", jsonv.Obj(str("purpose", "x"), str("task", "y"), str("result_schema", "x")), `invalid "result_schema": the contract is no object; nothing was started`},
		"an identity":      {"agent_note", jsonv.Obj(str("name", "x"), str("value", "y"), str("strand", "main")), `invalid arguments: there is no argument "strand"; the arguments are name, value, if_seq`},
		"nothing to await": {"agent_wait", jsonv.Obj(jsonv.F("handles", jsonv.Arr())), `invalid arguments: "handles" names 0 agents; it names 1 to 16`},
		"no handle":        {"agent_wait", jsonv.Obj(jsonv.F("handles", jsonv.Arr(jsonv.Str("x")))), `"x" is no handle; agent_spawn and agent_send return them`},
		"nothing to say":   {"agent_send", jsonv.Obj(str("to", "x"), str("message", "")), `invalid arguments: "message" has 0 bytes; it has 1 to 65536`},
		"a note of none":   {"agent_note", jsonv.Obj(str("name", "x")), `invalid arguments: "value" is missing`},
		"half a board":     {"todo", jsonv.Obj(jsonv.F("phases", jsonv.Arr(jsonv.Obj(str("name", "x"))))), ``},
	} {
		out := r.run(t, c.tool, c.args)
		if !out.IsError || c.want != "" && textOf(out) != c.want {
			t.Errorf("%s: %s", name, textOf(out))
		}
	}
}
