// Package job decides what becomes of commands that work in the background.
//
// # Purpose
//
// A job outlives the call that started it, and may end while nobody looks, or with
// the process that ran it. What it is at any moment is one durable record, and each
// change of it is one guarded transaction, so that its end is told exactly once and
// one that got lost says so.
//
// # Key types
//
// [Record] is a job; [Exit] how its command ended.
//
// # Relationships
//
// Imports core, machine, and machine/agency for where a call stands. The engine
// keeps records and runs jobs; tools word them for models.
//
// # Traffic
//
// Plans transactions over fact.custom job/{id} and the queues of the owner; commits
// none.
//
// # Invariants
//
// The id of a job is a function of the call that started it, so a call that is made
// again finds the job of the first time and starts none. A record only moves
// forward: starting, running, draining, then one of exited, killed and lost. The
// move to one of these and the notice of it are one transaction.
package job

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/machine/agency"
)

// Limits of jobs.
const (
	MaxLive    = 4         // of one strand
	MaxWallMs  = 3_600_000 // and what a job has unless it is given less
	MaxTail    = 8 << 10   // bytes of each stream that a record keeps
	MaxCommand = 16 << 10
	MaxInput   = 64 << 10 // bytes that wait to be read by a job
	MaxWaitMs  = 30_000   // the longest single wait for a job
)

// Status says how far a job is.
type Status string

// The statuses. The last three are ends.
const (
	Starting Status = "starting"
	Running  Status = "running"
	Draining Status = "draining" // told to end, and not over
	Exited   Status = "exited"
	Killed   Status = "killed"
	Lost     Status = "lost"
)

// Ended reports whether a status is a last one.
func (s Status) Ended() bool { return s == Exited || s == Killed || s == Lost }

// next says where a status may go from here.
func (s Status) next(to Status) bool {
	switch s {
	case Starting:
		return to == Running || to == Draining || to.Ended()
	case Running:
		return to == Draining || to.Ended()
	case Draining:
		return to.Ended()
	case Exited, Killed, Lost:
	}
	return false
}

// Cause is why a job was killed.
type Cause string

// The causes.
const (
	ByOwner  Cause = "owner"      // the agent that started it asked for it
	ByPerson Cause = "person"     // a person did
	ByLimit  Cause = "wall_limit" // its time was used up
)

// Record is a job (fact.custom job/{id}).
type Record struct {
	ID          string
	Strand      string // its owner
	Op          id.OpID
	Call        string // the provider's id of the call that started it
	Command     string
	Description string
	Status      Status
	StartedAt   int64 // Unix ms
	Deadline    int64 // Unix ms

	Cause   Cause  // of one that drains or was killed
	Reason  string // of one that is lost
	EndedAt int64  // Unix ms, of one that ended
	Exit    *Exit  // of one whose end was seen
}

// Exit is how a command ended.
type Exit struct {
	Code           int64
	Signal         string // that ended it; empty for none
	Failure        string // why it never ran; empty when it did
	Interrupted    bool   // it was ended from outside
	Stdout, Stderr Tail
}

// Tail is the end of what a command wrote to a stream.
type Tail struct {
	Text  string // at most [MaxTail] bytes of valid UTF-8
	Total int64  // bytes written
}

// Tails are the live ends of both streams.
type Tails struct{ Stdout, Stderr Tail }

// Prefix lists all records.
const Prefix = "job/"

// Key is the cell of a job.
func Key(id string) string { return Prefix + id }

// IDOf names the job that a call starts.
func IDOf(c agency.Caller) string {
	sum := sha256.Sum256([]byte(c.Op.String() + ":" + c.Step + ":" + strconv.Itoa(c.SourceIndex)))
	return "job-" + hex.EncodeToString(sum[:8])
}

// Value returns the register payload.
func (r Record) Value() jsonv.Value {
	var w jsonv.Writer
	w.Begin()
	w.Str("id", r.ID)
	w.Str("strand", r.Strand)
	w.Str("operation", r.Op.String())
	w.Str("call", r.Call)
	w.Str("command", r.Command)
	w.Str("description", r.Description)
	w.Str("status", string(r.Status))
	w.Num("startedAt", r.StartedAt)
	w.Num("deadline", r.Deadline)
	text := func(name, s string) {
		if s != "" {
			w.Str(name, s)
		}
	}
	text("cause", string(r.Cause))
	text("reason", r.Reason)
	if r.Status.Ended() {
		w.Num("endedAt", r.EndedAt)
	}
	if e := r.Exit; e != nil {
		w.Name("exit")
		w.Begin()
		w.Num("code", e.Code)
		text("signal", e.Signal)
		text("failure", e.Failure)
		w.Flag("interrupted", e.Interrupted)
		writeTail(&w, "stdout", e.Stdout)
		writeTail(&w, "stderr", e.Stderr)
		w.End()
	}
	w.End()
	return w.Tree()
}

func writeTail(w *jsonv.Writer, name string, t Tail) {
	w.Name(name)
	w.Begin()
	w.Str("tail", t.Text)
	w.Num("bytes", t.Total)
	w.End()
}

// Decode reads a record.
func Decode(v jsonv.Value) (Record, error) {
	r := jsonv.Read(v, "job.Decode")
	text := func(name string) string {
		if s := r.OptStr(name); s != nil {
			return *s
		}
		return ""
	}
	out := Record{
		ID: r.Str("id"), Strand: r.Str("strand"), Op: jsonv.One(r, "operation", opID), Call: r.Str("call"), Command: r.Str("command"),
		Description: r.Str("description"), Status: Status(r.Str("status")), StartedAt: r.Num("startedAt"), Deadline: r.Num("deadline"),
		Cause: Cause(text("cause")), Reason: text("reason"), Exit: jsonv.OptOne(r, "exit", decodeExit),
	}
	if out.Status.Ended() {
		out.EndedAt = r.Num("endedAt")
	}
	if r.Err() == nil && !out.coherent() {
		r.Fail("status", "a status with what belongs to it", v)
	}
	return out, r.Err()
}

// coherent reports whether a record has exactly what its status goes with.
func (r Record) coherent() bool {
	cause := r.Cause == ByOwner || r.Cause == ByPerson || r.Cause == ByLimit
	switch r.Status {
	case Starting, Running:
		return r.Cause == "" && r.Reason == "" && r.Exit == nil
	case Draining:
		return cause && r.Reason == "" && r.Exit == nil
	case Exited:
		return r.Cause == "" && r.Reason == "" && r.Exit != nil
	case Killed:
		return cause && r.Reason == "" && r.Exit != nil
	case Lost:
		return (cause || r.Cause == "") && r.Reason != "" && r.Exit == nil
	}
	return false
}

func decodeExit(v jsonv.Value) (Exit, error) {
	r := jsonv.Read(v, "job.decodeExit")
	e := Exit{
		Code: r.Num("code"), Interrupted: r.Flag("interrupted"),
		Stdout: jsonv.One(r, "stdout", decodeTail), Stderr: jsonv.One(r, "stderr", decodeTail),
	}
	if s := r.OptStr("signal"); s != nil {
		e.Signal = *s
	}
	if s := r.OptStr("failure"); s != nil {
		e.Failure = *s
	}
	return e, r.Err()
}

func decodeTail(v jsonv.Value) (Tail, error) {
	r := jsonv.Read(v, "job.decodeTail")
	return Tail{r.Str("tail"), r.Num("bytes")}, r.Err()
}

func opID(v jsonv.Value) (id.OpID, error) {
	text, _ := v.Text()
	return id.ParseOpID(text)
}

// Sentence says how a job stands.
func (r Record) Sentence() string {
	s := "background job " + r.ID + " (" + r.Label() + ") "
	switch r.Status {
	case Starting, Running:
		return s + "is running"
	case Draining:
		return s + "was told to end and is not over"
	case Exited:
		switch {
		case r.Exit.Failure != "":
			return s + "did not start: " + r.Exit.Failure
		case r.Exit.Signal != "":
			return s + "was ended by " + r.Exit.Signal
		}
		return s + fmt.Sprintf("ended with exit code %d", r.Exit.Code)
	case Killed:
		return s + "was killed " + map[Cause]string{ByOwner: "as you asked", ByPerson: "by a person", ByLimit: "because its time was used up"}[r.Cause]
	case Lost:
		return s + "is lost: " + r.Reason
	}
	return s + string(r.Status)
}

// Label is what people call a job: its description, or the start of its command.
func (r Record) Label() string {
	label := r.Description
	if label == "" {
		label = r.Command
	}
	label = strings.Join(strings.Fields(label), " ")
	const most = 80
	if len(label) <= most {
		return label
	}
	n := most
	for n > 0 && label[n]&0xC0 == 0x80 { // between characters
		n--
	}
	return label[:n] + "…"
}
