package project

import (
	"strconv"
	"strings"

	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/sdkmsg"
	"github.com/loom-run/loom/wire"
)

// TaskLine is a notification of a task, with all that is known of why.
func TaskLine(b wire.TaskNotification) sdkmsg.TaskNotification {
	n := sdkmsg.TaskNotification{
		TaskID: b.Task, Status: taskStatus(b.Status), Summary: b.Summary,
		Loom: &sdkmsg.TaskFacts{
			Kind: b.TaskKind, Status: b.Status, Result: b.Result, StoppedBy: b.StoppedBy, Resumable: b.Resumable, Partial: b.Partial,
			ExitCode: b.ExitCode, Diagnostics: b.Diagnostics, Lines: b.Lines, RecentSteps: b.RecentSteps, EditedFiles: b.EditedFiles,
			Source: b.Source, Seq: b.Seq, Injected: b.Injected,
		},
	}
	if b.CallID != nil {
		n.ToolUseID = *b.CallID
	}
	if b.OutputFile != nil {
		n.OutputFile = *b.OutputFile
	}
	if s := b.Stats; s != nil {
		n.Usage = &sdkmsg.TaskUsage{TotalTokens: s.Tokens, ToolUses: s.ToolUses, DurationMs: s.DurationMs}
		n.Loom.CostMicroUSD, n.Loom.LowerBound = s.CostMicroUSD, s.LowerBound
	}
	return n
}

// taskStatus is a status in the transcript's vocabulary, where what was killed has
// stopped. A word that has no counterpart stays itself.
func taskStatus(s words.BackgroundStatus) string {
	if s == words.BackgroundKilled {
		return "stopped"
	}
	if s == words.BackgroundLost {
		return "failed"
	}
	return string(s)
}

// TaskXML is a notification as a model is told it. There is an element result only
// when there is a result.
func TaskXML(b wire.TaskNotification) string {
	var w strings.Builder
	w.WriteString("<task-notification>\n")
	element(&w, "task-id", b.Task)
	if b.CallID != nil {
		element(&w, "tool-use-id", *b.CallID)
	}
	if b.Seq != nil {
		element(&w, "seq", strconv.FormatInt(*b.Seq, 10))
	}
	element(&w, "status", string(b.Status))
	element(&w, "summary", b.Summary)
	if b.OutputFile != nil {
		element(&w, "output-file", *b.OutputFile)
	}
	if b.ExitCode != nil {
		element(&w, "exit-code", strconv.FormatInt(*b.ExitCode, 10))
	}
	if b.Result != nil {
		element(&w, "result", *b.Result)
	}
	w.WriteString("</task-notification>")
	return w.String()
}

// escapeXML keeps a text from ending its element.
var escapeXML = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

var unescapeXML = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&")

func element(w *strings.Builder, name, text string) {
	w.WriteString("<" + name + ">" + escapeXML.Replace(text) + "</" + name + ">\n")
}

// TaskKeys finds which notifications a text tells a model: one key for each element
// task-notification in it.
func TaskKeys(text string) (keys []string) {
	for {
		_, after, ok := strings.Cut(text, "<task-notification>")
		if !ok {
			return keys
		}
		inside, rest, ok := strings.Cut(after, "</task-notification>")
		if !ok {
			return keys
		}
		if id, ok := inElement(inside, "task-id"); ok {
			seq, _ := inElement(inside, "seq")
			keys = append(keys, taskKey(id, seq))
		}
		text = rest
	}
}

func inElement(text, name string) (string, bool) {
	_, after, ok := strings.Cut(text, "<"+name+">")
	inside, _, closed := strings.Cut(after, "</"+name+">")
	return unescapeXML.Replace(inside), ok && closed
}

// TaskKey names one notification of a task. Deliveries of the same one share it.
func TaskKey(b wire.TaskNotification) string {
	if b.Seq == nil {
		return taskKey(b.Task, "")
	}
	return taskKey(b.Task, strconv.FormatInt(*b.Seq, 10))
}

// LineKey is [TaskKey] of a stored line.
func LineKey(n sdkmsg.TaskNotification) string {
	if n.Loom == nil || n.Loom.Seq == nil {
		return taskKey(n.TaskID, "")
	}
	return taskKey(n.TaskID, strconv.FormatInt(*n.Loom.Seq, 10))
}

func taskKey(task, seq string) string { return strconv.Itoa(len(task)) + ":" + task + "/" + seq }

// Registered reads whether a call went on in the background: from the structure that
// says so, never from prose and never from what was asked for. ok is false as well
// when the structure says that it could not be registered, or that it is over.
//
// A call that began in the foreground says {"detached": {"taskId", "state":
// "registered", "command"?}}, one that starts a job {"job", "status", "command"}. The
// first wins where both stand: there is one registration for each result.
func Registered(b wire.ToolResult) (r plane.Registration, ok bool) {
	if b.Structured == nil || b.Structured.Kind() != jsonv.Object {
		return plane.Registration{}, false
	}
	r.CallID = b.CallID
	if d, has := b.Structured.Get("detached"); has {
		state, _ := textOf(d, "state")
		r.Task, _ = textOf(d, "taskId")
		r.Command, _ = textOf(d, "command")
		return r, r.Task != "" && words.RegistrationState(state) == words.Registered
	}
	j, isJob := jobOf(*b.Structured).(Job)
	if b.Name != jobStart || !isJob || b.IsError {
		return plane.Registration{}, false
	}
	r.Task, r.Command = j.ID, j.Command
	return r, j.Status == string(words.BackgroundStarting) || j.Status == string(words.BackgroundRunning)
}

// textOf is a member that is a text; of any other kind it is empty.
func textOf(v jsonv.Value, name string) (string, bool) {
	f, _ := v.Get(name)
	if text, ok := f.Text(); ok {
		return text, true
	}
	return "", false
}
