// Package print is the headless host: a run as text for people or as one JSON
// object for programs.
//
// # Purpose
//
// A script that starts a run must learn how it ended, always: one result, also
// after an error, an interrupt or a broken stream, and an exit status that says
// which of these it was.
//
// # Key types
//
// [Printer] prints one run ([Printer.Follow]) or one failure before a run
// ([Printer.Fail]). [Exit] and [Exits] are the exit statuses.
//
// # Relationships
//
// Imports client, client/plane, client/project, client/say, sdkmsg, wire and
// wire/wireclient (whose refusals it reads). Knows nothing of the engine side.
//
// # Traffic
//
// Text: the answer goes to standard output, progress to standard error. JSON:
// one object, the last line of standard output. Both are given as writers.
//
// # Invariants
//
//   - Exactly one result per Printer.
//   - The result is made of committed frames, never of deltas. Text that streamed
//     ends like the committed text; where it cannot, that is said.
//   - Nothing untrusted reaches a screen unescaped. JSON keeps every character,
//     as an escape where a terminal would obey it.
//   - When standard output fails, writing stops and the run is followed to its
//     end all the same. The caller ignores SIGPIPE so that it gets that far.
package print

import (
	"context"
	"io"
	"strings"

	"github.com/loom-run/loom/client"
	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/client/project"
	"github.com/loom-run/loom/client/say"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/sdkmsg"
	"github.com/loom-run/loom/wire"
)

// Format is what is printed.
type Format uint8

const (
	// Text is for people: the answer, and progress beside it.
	Text Format = iota
	// JSON is for programs: one object.
	JSON
)

// Options is how a run is printed.
type Options struct {
	Format Format
	// Live streams what the model says to standard output as it comes, over all
	// turns. Without it the answer alone is printed, at the end. Text only.
	Live           bool
	Stdout, Stderr io.Writer
	// Now reads a clock, Unix ms; nil leaves durations out.
	Now func() int64
}

// Printer prints one result. It must be made by [New].
type Printer struct {
	opts    Options
	out     *sheet
	err     *sheet
	started int64
	session id.SessionID
	op      string // empty: none
	run     account
	done    bool
	exit    Exit

	open    bool // a segment is being streamed
	segment wire.Segment
	aside   string // whose text was told beside its calls
}

// New starts the clock of a run.
func New(o Options) *Printer {
	p := &Printer{opts: o, out: &sheet{w: o.Stdout}, err: &sheet{w: o.Stderr}, run: account{called: map[string]string{}}}
	if o.Now != nil {
		p.started = o.Now()
	}
	return p
}

// account is what is known of a run from committed frames.
type account struct {
	entry   string            // of the newest answer
	texts   []string          // of that entry
	calling string            // the newest response that calls tools
	called  map[string]string // by call id: what a call without a result yet is about
	last    string            // what the newest turn that ended said
	aside   bool              // and it said so beside its calls, or had not said all: it is no answer yet
	denials []denial
	turns   int
	total   plane.Tally
	ending  plane.Ending
	failure *failure // in place of a run
}

type denial struct{ tool, call string }

type failure struct {
	code    string
	message string
	exit    Exit
}

// Session tells the printer which session its result is about.
func (p *Printer) Session(s id.SessionID) { p.session = s }

// Follow drives one run to its end and prints it. It returns the exit status.
func (p *Printer) Follow(ctx context.Context, w plane.Watch, src client.Source, ports client.Ports) Exit {
	if p.done {
		return p.exit
	}
	p.session = w.Session
	if !w.Operation.IsZero() {
		p.op = w.Operation.String()
	}
	state := client.New(w, project.Appends)
	ending, err := client.Run(ctx, state, src, func(o plane.Output) error { p.put(o); return nil }, ports)
	if err != nil {
		ending = plane.Lost{Why: plane.OutputFailed, Err: err}
	}
	p.run.ending = ending
	return p.finish()
}

// Fail prints a failure that came before a run. It returns the exit status.
func (p *Printer) Fail(err error) Exit {
	if p.done {
		return p.exit
	}
	p.run.failure = &failure{code: codeOf(err), message: err.Error(), exit: ofError(err)}
	return p.finish()
}

// Refuse is [Printer.Fail] for a failure that has a status of its own, such as a
// wrong option. With the status [Done] it is no failure: there was nothing to do,
// and code says why.
func (p *Printer) Refuse(exit Exit, code, message string) Exit {
	if p.done {
		return p.exit
	}
	p.run.failure = &failure{code: code, message: message, exit: exit}
	return p.finish()
}

// put takes one output: into the account, and onto the screen where it belongs.
func (p *Printer) put(o plane.Output) {
	switch o := o.(type) {
	case plane.Transcript:
		p.keep(o.Message())
	case plane.Chrome:
		p.show(o.Event())
	}
}

func (p *Printer) keep(m sdkmsg.Message) {
	switch m := m.(type) {
	case sdkmsg.Assistant:
		for _, b := range m.Message.Content {
			p.said(m.Message.ID, b)
		}
	case sdkmsg.User:
		for _, b := range m.Message.Content {
			if r, ok := b.(sdkmsg.ToolResult); ok {
				p.answered(m, r)
			}
		}
	case sdkmsg.Result:
		if m.Loom != nil {
			p.op = m.Loom.Operation
		}
	case sdkmsg.Informational:
		if n := m.Loom; n != nil && n.Notice != nil && n.Notice.Audience != words.ForUser || n != nil && n.Branch != nil {
			return
		}
		p.progress("loom: " + say.Line(m.Content, maxSaid))
	case sdkmsg.TaskNotification:
		p.progress("loom: task " + say.Line(m.TaskID, maxField) + " " + say.Line(m.Status, maxField) + ": " + say.Line(m.Summary, maxLine))
	case sdkmsg.PermissionDenied: // the result beside it says so
	case sdkmsg.Init, sdkmsg.CompactBoundary, sdkmsg.Unknown:
	}
}

// said takes one committed block of a response.
func (p *Printer) said(response string, b sdkmsg.Block) {
	switch b := b.(type) {
	case sdkmsg.TextBlock:
		if response != p.run.entry {
			p.run.entry, p.run.texts = response, nil
		}
		if b.Text != "" {
			p.run.texts = append(p.run.texts, b.Text)
		}
	case sdkmsg.ToolUse:
		p.run.calling = response
		p.asideOf(response)
		p.run.called[b.ID] = about(b)
		p.progress(callLine(b))
	case sdkmsg.Thinking, sdkmsg.RedactedThinking, sdkmsg.ToolResult, sdkmsg.Image, sdkmsg.UnknownBlock:
	}
}

// answered takes the result of a call.
func (p *Printer) answered(m sdkmsg.User, r sdkmsg.ToolResult) {
	if project.DeniedLine(m) {
		p.run.denials = append(p.run.denials, denial{tool: m.Loom.Tool, call: r.ToolUseID})
	}
	p.progress(resultLine(m, r, p.run.called[r.ToolUseID]))
	delete(p.run.called, r.ToolUseID)
}

func (p *Printer) show(e plane.Event) {
	switch e := e.(type) {
	case plane.RunOpened:
		p.progress(openLine(p.session, e))
	case plane.LiveText:
		if !e.Reasoning {
			p.stream(e.Segment, e.Text)
		}
	case plane.Settled:
		if !e.Reasoning {
			p.settle(e.Segment, e.Verdict)
		}
	case plane.Waiting:
		p.progress(p.waitLine(e))
	case plane.LastTurn:
		entry := e.Entry.String()
		p.run.last, p.run.aside = "", entry == p.run.calling || unfinished[e.StopReason]
		if entry == p.run.entry {
			p.run.last = joined(p.run.texts)
		}
	case plane.Noticed:
		if e.Audience == words.ForUser {
			p.progress(noticeLine(e))
		}
	case plane.RunClosed:
		p.run.turns, p.run.total = e.Turns, e.Total
	case plane.ToolWindow, plane.LiveArguments, plane.CallDisclosed: // a headless run shows calls and results
	case plane.QueueUnused:
		u := e.Unused
		p.progress("loom: " + say.Unused(u.Lane, u.Count, u.Cause, u.Child != nil))
	case plane.Asked:
		if r, ok := e.Row.(wire.ApprovalRequest); ok {
			p.progress("loom: asked about: " + say.Line(project.AskedAbout(r), maxLine))
		}
	case plane.TurnOpened, plane.ContextUsed: // and no gauges
	default: // nor what happens beside the run
	}
}

// asideOf tells what a response said before its first call. It is no answer, so
// it does not go to standard output unless all text does.
func (p *Printer) asideOf(entry string) {
	if p.opts.Live || entry != p.run.entry || p.aside == entry {
		return
	}
	p.aside = entry
	p.progress(say.Line(joined(p.run.texts), maxLine))
}

// joined puts the texts of one response together as they stand on a page.
func joined(texts []string) string {
	var b strings.Builder
	for i, t := range texts {
		b.WriteString(t)
		if i < len(texts)-1 && !strings.HasSuffix(t, "\n") {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// unfinished are the stop reasons of responses that broke off.
var unfinished = map[string]bool{"error": true, "aborted": true}

// answer is what the run answered. What was said beside calls is one only where
// the run completed with it, and so is a part of an answer.
func (p *Printer) answer() string {
	if p.run.aside && p.exit != Done {
		return ""
	}
	return p.run.last
}

// finish prints the result, once.
func (p *Printer) finish() Exit {
	p.done = true
	if p.run.failure != nil {
		p.exit = p.run.failure.exit
	} else {
		p.exit = ofEnding(p.run.ending)
	}
	if p.opts.Format == JSON {
		p.out.write(string(p.result()) + "\n")
	} else {
		p.finishText()
	}
	if p.out.err != nil && p.exit != Interrupted {
		p.exit = OutputLost
	}
	p.complain()
	return p.exit
}
