package print

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/client/project"
	"github.com/loom-run/loom/client/say"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/sdkmsg"
	"github.com/loom-run/loom/wire"
)

// Bounds of what progress lines show, in bytes.
const (
	maxField = 100
	maxLine  = 200
	maxSaid  = 2000 // an error's sentence
)

// sheet is a writer that stops at its first error and knows whether it stands at
// the start of a line.
type sheet struct {
	w       io.Writer
	err     error
	midLine bool
}

func (s *sheet) write(text string) {
	if text == "" || s.err != nil || s.w == nil {
		return
	}
	if _, s.err = io.WriteString(s.w, text); s.err == nil {
		s.midLine = !strings.HasSuffix(text, "\n")
	}
}

// endLine goes to the start of a line.
func (s *sheet) endLine() {
	if s.midLine {
		s.write("\n")
	}
}

// progress prints one line to standard error, in text mode. A line of the answer
// that is complete is ended first, so that the two do not share one on a screen.
func (p *Printer) progress(line string) {
	if p.opts.Format != Text || line == "" {
		return
	}
	if !p.open {
		p.out.endLine()
	}
	p.err.write(line + "\n")
}

// stream prints a piece of a segment to standard output.
func (p *Printer) stream(seg wire.Segment, text string) {
	if !p.streams() {
		return
	}
	if !p.open || p.segment != seg {
		p.out.endLine()
		p.open, p.segment = true, seg
	}
	p.out.write(say.All(text))
}

func (p *Printer) streams() bool { return p.opts.Format == Text && p.opts.Live }

// settle applies a verdict. What has left a pipe cannot be replaced, so where the
// committed text is another one, that is said.
func (p *Printer) settle(seg wire.Segment, v plane.Verdict) {
	if !p.streams() {
		return
	}
	switch v := v.(type) {
	case plane.Send:
		p.stream(seg, v.Text)
	case plane.Rest:
		p.stream(seg, v.Text)
	case plane.Nothing:
	case plane.Replace, plane.Withhold:
		p.close()
		p.progress("loom: the text above was changed when it was committed; what counts is in the session: loom sessions show " + p.session.String())
	case plane.Retract:
		p.close()
		p.progress("loom: the text above was not committed and does not count")
	}
	p.close()
}

// close ends the open segment.
func (p *Printer) close() {
	p.open = false
	p.out.endLine()
}

// finishText prints what a person still needs: the answer, and the account.
func (p *Printer) finishText() {
	p.close()
	if p.run.failure != nil {
		return
	}
	if !p.opts.Live {
		p.out.write(say.All(p.answer()))
		p.out.endLine()
	}
	p.progress(usageLine(p.run.turns, p.run.total))
}

// complain tells a person what went wrong, in both formats.
func (p *Printer) complain() {
	if p.out.err != nil {
		p.err.write("loom: standard output could not be written (" + say.Line(p.out.err.Error(), maxField) +
			"); the run was followed to its end and the session has it\n")
	}
	if sentence := p.sentence(); sentence != "" {
		p.err.write("loom: " + say.Line(sentence, maxSaid) + "\n")
	}
}

// sentence is what happened when the run did not complete.
func (p *Printer) sentence() string {
	if p.run.failure != nil {
		return p.run.failure.message
	}
	kept := ". What was committed is kept; go on with: loom run --session " + p.session.String() + " PROMPT"
	again := " Go on with: loom resume " + p.session.String()
	switch e := p.run.ending.(type) {
	case plane.Seen:
		switch said := say.Ending(e.Cause); e.Cause.(type) {
		case wire.Completed:
			return ""
		case wire.Failed, wire.Aborted, wire.Blocked:
			return said + kept
		case wire.Paused:
			id := p.session.String()
			return said + ". It waits for as long as it takes: loom approvals " + id + " shows what is asked, loom approve, loom deny and loom answer decide, and loom resume --ask wait " + id + " goes on"
		default:
			return said + "."
		}
	case plane.Lost:
		switch e.Why {
		case plane.Interrupted:
			return "interrupted before the run's end was seen. What was committed is kept." + again
		case plane.Stopped:
			return e.Err.Error()
		case plane.StreamClosed, plane.StreamBroke, plane.ContractBroke, plane.OutputFailed, plane.Earlier:
			return "the run's end was not seen" + because(e.Err) + "; it may still be going, and what was committed is kept." + again
		}
	}
	return ""
}

func because(err error) string {
	if err == nil {
		return " (the stream ended)"
	}
	return " (" + err.Error() + ")"
}

func openLine(s id.SessionID, e plane.RunOpened) string {
	return fmt.Sprintf("loom: session %s in %s with %s, mode %s", s, say.Line(e.Cwd, maxField), say.Line(e.Model.String(), maxField), say.Line(string(e.Mode), maxField))
}

// waitLine says when the next attempt comes: a provider may ask for hours, and a
// person then has something better to do than to wait.
func (p *Printer) waitLine(e plane.Waiting) string {
	next := "another one follows"
	if p.opts.Now != nil {
		left := time.Duration(max(e.UntilMs-p.opts.Now(), 0)) * time.Millisecond
		next = "the next one follows in " + (left + time.Second - 1).Truncate(time.Second).String()
	}
	return fmt.Sprintf("loom: attempt %d failed (%s); %s", e.Attempt, say.Line(e.Error, maxLine), next)
}

func noticeLine(e plane.Noticed) string { return "loom: " + say.Told(e.Code, e.Facts) }

// callLine names a call with its arguments in short: the first in full as far as
// a line allows, long ones after it by their size.
func callLine(c sdkmsg.ToolUse) string {
	var b strings.Builder
	b.WriteString("> " + say.Line(c.Name, maxField))
	first := true
	for name, v := range c.Input.Fields() {
		if b.Len() > maxLine {
			b.WriteString(" " + say.Ellipsis)
			break
		}
		text, isText := v.Text()
		if !isText {
			text = v.String()
		}
		if !first && (len(text) > maxField || strings.Contains(text, "\n")) {
			text = fmt.Sprintf("(%d bytes)", len(text))
		}
		if first && isText {
			b.WriteString(" " + say.Line(text, maxField))
		} else {
			b.WriteString(" " + say.Line(name, maxField) + "=" + say.Line(text, maxField))
		}
		first = false
	}
	if c.Input.Kind() != jsonv.Object {
		b.WriteString(" " + say.Line(c.Input.String(), maxField))
	}
	return b.String()
}

// maxAbout bounds what says which call a result belongs to, in bytes.
const maxAbout = 60

// about is what tells a call from others of its tool: its first argument, where
// that is a text.
func about(c sdkmsg.ToolUse) string {
	for _, v := range c.Input.Fields() {
		text, _ := v.Text()
		return say.Line(text, maxAbout)
	}
	return ""
}

// resultLine is the result of a call on one line: the text when it is short, and
// else its size.
func resultLine(m sdkmsg.User, r sdkmsg.ToolResult, about string) string {
	var facts sdkmsg.UserFacts
	if m.Loom != nil {
		facts = *m.Loom
	}
	var bytes int64
	for _, n := range facts.TextBytes {
		bytes += n
	}
	lines, texts, first := 0, 0, ""
	for _, b := range r.Content {
		if t, ok := b.(sdkmsg.TextBlock); ok {
			if texts == 0 {
				first = t.Text
			}
			texts++
			lines += strings.Count(strings.TrimSuffix(t.Text, "\n"), "\n") + 1
		}
	}
	name := "< " + say.Line(facts.Tool, maxField)
	if about != "" {
		name += " " + about
	}
	switch {
	case project.DeniedLine(m):
		return name + " denied: " + say.Line(first, maxLine)
	case r.IsError:
		return name + " failed: " + say.Line(first, maxLine)
	case texts == 0 && facts.Images > 0:
		return name + ": " + plural(facts.Images, "image")
	case lines <= 1 && len(first) <= maxField:
		return name + ": " + say.Line(first, maxLine)
	default:
		return name + ": " + plural(int64(lines), "line") + ", " + plural(bytes, "byte")
	}
}

func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.FormatInt(n, 10) + " " + what + "s"
}

// usageLine is the account of a run, empty where there is nothing to tell.
func usageLine(turns int, t plane.Tally) string {
	line := "loom: " + plural(int64(turns), "turn")
	counted := t.Input.Known || t.CacheRead.Known || t.Output.Known
	switch {
	case turns == 0 && (t == plane.NoTally() || !counted && !t.CostMicroUSD.Known):
		return ""
	case t == plane.NoTally():
		return line + ", no tokens"
	case counted:
		line += fmt.Sprintf(", tokens in %s, cached %s, out %s", count(t.Input), count(t.CacheRead), count(t.Output))
	default:
		line += ", tokens unknown"
	}
	if !t.CostMicroUSD.Known {
		return line + ", cost unknown"
	}
	return line + ", " + atLeast(t.CostMicroUSD, "$"+dollars(t.CostMicroUSD.N))
}

func count(c plane.Count) string {
	if !c.Known {
		return "unknown"
	}
	return atLeast(c, strconv.FormatInt(c.N, 10))
}

func atLeast(c plane.Count, text string) string {
	if c.Exact {
		return text
	}
	return "at least " + text
}

// dollars writes millionths of a dollar exactly, without trailing zeros past the
// cents.
func dollars(micro int64) string {
	text := fmt.Sprintf("%d.%06d", micro/1_000_000, micro%1_000_000)
	for strings.HasSuffix(text, "0") && len(text)-strings.IndexByte(text, '.') > 3 {
		text = text[:len(text)-1]
	}
	return text
}
