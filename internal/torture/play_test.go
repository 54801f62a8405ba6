//go:build linux

package torture

import (
	"fmt"
	"slices"
	"strings"
)

// play is a scripted run and what must come of it, whatever happens on the way.
type play struct {
	name    string
	turns   []turn
	prompts []string // the first starts a run; the others are sent at once and follow it
	abortOn string   // the call whose first output makes the child abort the run; "" for none
	end     string   // the outcome of its operations

	leastCommits int // that it takes; the exact number depends on which results come together
}

// turn is one answer of the model.
type turn struct {
	text  string
	calls []call
	fail  string // the failure as JSON; "" for none
}

// call is one call of a tool. Its id stands for it everywhere: in the script, in the file of effects and in the results.
type call struct {
	id, tool, args string
	effect         bool   // a run of it leaves a line with its id in the file of effects
	says           string // its result when it succeeds; "" for what it says where nobody is killed
	loose          bool   // what it prints when it succeeds differs from run to run, but for the first line
}

// The files of a stage, relative to its workspace.
const (
	effectsFile = "effects"
	counterFile = "counter.txt" // the call edit lengthens it by one x at each run
	outputFile  = "out.txt"     // written by the call write, then lengthened by a command
)

func bash(id, more string) call {
	command := "echo " + id + " >> " + effectsFile
	if more != "" {
		command += "; " + more
	}
	return call{id: id, tool: "bash", args: fmt.Sprintf(`{"command":%q}`, command), effect: true}
}

// lingering leaves processes behind that no kill of a process group reaches: they have sessions of their own, one has lost its parent, and one has no
// environment by which it could be known.
func lingering(id string) call {
	c := bash(id, "echo begun; "+bare+"setsid sleep 60 & (setsid sh -c 'setsid sleep 60 & sleep 60' &); sleep 0.08; echo over")
	c.loose = true
	return c
}

// bare takes the environment from a command.
const bare = "env -i "

// known is the play in which every process keeps its environment. Where the supervisors die with the harness, nothing else is left to know it by.
func (p play) known() play {
	p.turns = slices.Clone(p.turns)
	for i, t := range p.turns {
		p.turns[i].calls = slices.Clone(t.calls)
		for n, c := range t.calls {
			p.turns[i].calls[n].args = strings.ReplaceAll(c.args, bare, "")
		}
	}
	return p
}

// work is the main play: reads side by side, commands and writes one after the other, a failure that another attempt cures, a command that outlives its
// parents, and a second prompt that waits for the first run's end.
var work = play{
	name:    "work",
	prompts: []string{"Do the first part.", "Do the second part."},
	end:     "completed",

	leastCommits: 50,
	turns: []turn{
		{text: "I look around.", calls: []call{
			{id: "read-1", tool: "read", args: `{"path":"static/hello.txt"}`},
			{id: "grep-1", tool: "grep", args: `{"pattern":"needle","path":"static"}`},
			{id: "ls-1", tool: "ls", args: `{"path":"static"}`},
			{id: "read-2", tool: "read", args: `{"path":"static/absent.txt"}`},
		}},
		{text: "I change things.", fail: `{"class":"overloaded","status":503,"times":1}`, calls: []call{
			{id: "write-1", tool: "write", args: `{"path":"out.txt","content":"written\n"}`},
			bash("bash-1", "echo bash-1 >> "+outputFile),
			{id: "edit-1", tool: "edit", args: `{"path":"counter.txt","old_text":"end","new_text":"xend"}`},
			{id: "read-3", tool: "read", args: `{"path":"static/hello.txt"}`},
			bash("bash-2", "seq 20000; false"), // more than enters a conversation
		}},
		{calls: []call{lingering("long-1")}},
		{text: "The first part is done."},
		{calls: []call{bash("bash-3", ""), {id: "read-4", tool: "read", args: `{"path":"static/hello.txt"}`}}},
		{text: "The second part is done."},
	},
}

// stopped is a play that its user aborts while a command runs.
var stopped = play{
	name:    "stopped",
	prompts: []string{"Do something long."},
	abortOn: "long-1",
	end:     "aborted",

	leastCommits: 12,
	turns: []turn{
		{calls: []call{
			{id: "read-1", tool: "read", args: `{"path":"static/hello.txt"}`},
			{
				id: "long-1", tool: "bash", effect: true, loose: true,
				args: `{"command":"echo long-1 >> effects; echo begun; env -i setsid sleep 60 & sleep 60"}`,
			},
			{id: "bash-1", tool: "bash", args: `{"command":"echo bash-1 >> effects"}`, effect: true, says: "exit code 0\n(no output)"},
		}},
		{text: "Nobody stopped me."},
	},
}

// refused is a play whose provider refuses in the end.
var refused = play{
	name:    "refused",
	prompts: []string{"Do what cannot be done."},
	end:     "failed",

	leastCommits: 12,
	turns: []turn{
		{calls: []call{bash("bash-1", ""), {id: "read-1", tool: "read", args: `{"path":"static/hello.txt"}`}}},
		{fail: `{"class":"auth","status":401}`},
	},
}

// plays are all of them, the main one first.
var plays = [...]play{work, stopped, refused}

// script is the play as provider/scripted reads it.
func (p play) script() string {
	turns := make([]string, len(p.turns))
	for i, t := range p.turns {
		var steps []string
		if t.text != "" {
			steps = append(steps, fmt.Sprintf(`{"text":%q}`, t.text))
		}
		for _, c := range t.calls {
			steps = append(steps, fmt.Sprintf(`{"call":%q,"id":%q,"args":%s}`, c.tool, c.id, c.args))
		}
		turns[i] = `{"chunk":5,"usage":{"input":7,"output":3},"steps":[` + strings.Join(steps, ",") + `]`
		if t.fail != "" {
			turns[i] += `,"fail":` + t.fail
		}
		turns[i] += "}"
	}
	return `{"turns":[` + strings.Join(turns, ",\n") + `]}`
}

// call finds a call by its id.
func (p play) call(id string) (call, bool) {
	for _, t := range p.turns {
		for _, c := range t.calls {
			if c.id == id {
				return c, true
			}
		}
	}
	return call{}, false
}

// safe reports whether the call may be run again after a crash.
func (c call) safe() bool { return c.tool == "read" || c.tool == "grep" || c.tool == "ls" }
