package job

import (
	"fmt"
	"strings"

	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/machine/agency"
)

// Create plans the record of a new job. One that is there already makes it stale.
func (r Record) Create() tx.Tx { return r.set(0) }

// Move plans the next state of a record that was read at a seq. ok is false where
// the job is past that.
func (r Record) Move(to Record, seq int64) (t tx.Tx, ok bool) {
	if !r.Status.next(to.Status) {
		return tx.Tx{}, false
	}
	return to.set(seq), true
}

func (r Record) set(seen int64) tx.Tx {
	return tx.Tx{
		Writes:   []tx.Write{tx.Set(register.FactCustom, Key(r.ID), r.Value())},
		Expected: []tx.Expectation{tx.Expect(register.FactCustom, Key(r.ID), seen)},
	}
}

// Run is a job that runs.
func (r Record) Run() Record { r.Status = Running; return r }

// Drain is a job that was told to end. The first one to ask is the cause.
func (r Record) Drain(by Cause) Record { r.Status, r.Cause = Draining, by; return r }

// End is a job whose command ended. One that ended by itself was not killed,
// whoever asked for it.
func (r Record) End(e Exit, now int64) Record {
	r.EndedAt, r.Exit = now, &e
	switch {
	case !e.Interrupted:
		r.Status, r.Cause = Exited, ""
	case r.Cause == "":
		r.Status, r.Cause = Killed, ByLimit // nobody asked, so it was its time
	default:
		r.Status = Killed
	}
	return r
}

// Lose is a job of which nobody saw the end.
func (r Record) Lose(reason string, now int64) Record {
	r.Status, r.Reason, r.EndedAt = Lost, reason, now
	return r
}

// Told decides whether the owner is told of an end: not when it asked for it, nor
// when it is looking.
func (r Record) Told(attended bool) bool {
	return !attended && (r.Status != Killed || r.Cause == ByLimit)
}

// Notice adds what the owner is told of an end to the transaction that ends the job:
// before the next request of its open run, or else with the next run, which a strand
// that is woken starts at once.
func (r Record) Notice(t tx.Tx, owner machine.Standing, wake bool, in machine.AcceptInputs) tx.Tx {
	var start *machine.Start
	if wake {
		start = &machine.Start{}
	}
	_, told := owner.Reach(machine.PendingMessage(&message.User{
		Content: []message.UserBlock{message.Text{Text: r.Words()}}, Timestamp: in.Now,
	}), start, in.IDs)
	t.Writes = append(t.Writes, told.Writes...)
	t.Expected = append(t.Expected, told.Expected...)
	return t
}

// noticeTail is in bytes, of each stream.
const noticeTail = 2 << 10

// Words are what the owner of a job is told of its end.
func (r Record) Words() string {
	var b strings.Builder
	fmt.Fprintf(&b, "[%s]\n", r.Sentence())
	if r.Exit != nil {
		writeStream(&b, "stdout", r.Exit.Stdout, noticeTail)
		writeStream(&b, "stderr", r.Exit.Stderr, noticeTail)
	}
	return b.String()
}

// writeStream shows the end of a stream, of at most some bytes.
func writeStream(b *strings.Builder, name string, t Tail, most int) {
	if t.Total == 0 {
		return
	}
	text := t.Text
	if over := len(text) - most; over > 0 {
		for over < len(text) && text[over]&0xC0 == 0x80 { // between characters
			over++
		}
		text = text[over:]
	}
	which := "all"
	if int64(len(text)) < t.Total {
		which = "the end"
	}
	fmt.Fprintf(b, "%s, %s of %d bytes:\n%s", name, which, t.Total, text)
	if !strings.HasSuffix(text, "\n") {
		b.WriteByte('\n')
	}
}

// Shown is a job as its owner sees it when it looks.
func (r Record) Shown(live Tails) string {
	var b strings.Builder
	b.WriteString(r.Sentence() + "\n")
	if r.Exit != nil {
		live = Tails{r.Exit.Stdout, r.Exit.Stderr}
	}
	writeStream(&b, "stdout", live.Stdout, MaxTail)
	writeStream(&b, "stderr", live.Stderr, MaxTail)
	return b.String()
}

// Refusals of what is asked of jobs.
var (
	ErrLimit   = &agency.Refusal{Sentence: fmt.Sprintf("%d background jobs of yours are running, which is the limit; nothing was started, end one of them first", MaxLive)}
	ErrUnknown = &agency.Refusal{Sentence: "you have no such background job; job_start returns their names, and job_poll without one lists them"}
	ErrOver    = &agency.Refusal{Sentence: "this background job is over; nothing was done, job_poll tells how it ended"}
	ErrFull    = &agency.Refusal{Sentence: "the job has not read what it was sent before; nothing was sent, try again later"}
)

// LostError says that nobody knows how a command ended.
type LostError struct{ Why string }

func (e *LostError) Error() string { return e.Why }
