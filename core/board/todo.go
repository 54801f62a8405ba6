// Package board is what a person sees of a strand at a glance: its todo board, its
// title and activity line.
//
// # Purpose
//
// Readers on both sides of a wire need one shape and one decoder for the cells that
// a tool or a loop writes and a client draws.
//
// # Key types
//
// [Board] with [Phase] and [Task]; [Glance]; [Clip], the writers' cut for model
// text.
//
// # Relationships
//
// Imports core/corrupt, core/id, core/jsonv.
//
// # Traffic
//
// None: the todo tool writes agent/{strand}/todo, the glance loop writes
// client/glance/{strand}, both in fact.custom.
//
// # Invariants
//
// Decoding is total and does not judge bounds: a stored board was validated by its
// only writer, with [Board.Validate].
package board

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
)

// Bounds of a board, for its writer; texts in bytes.
const (
	MaxPhases    = 12
	MaxTasks     = 48 // of the whole board
	MaxTaskText  = 160
	MaxPhaseName = 48
	MaxReason    = 200
)

// TodoKey is the cell of a strand's board.
func TodoKey(strand string) string { return "agent/" + strand + "/todo" }

// Board is a strand's plan.
type Board struct{ Phases []Phase }

// Phase is a named part of it.
type Phase struct {
	Name  string
	Tasks []Task
}

// Task is one thing to do; its text is its identity across the board.
type Task struct {
	Text   string
	Status Status
	Reason *string // why it is blocked; only on a blocked task
}

// Status says how far a task is.
type Status string

// The closed set of statuses.
const (
	Pending Status = "pending"
	Active  Status = "active"
	Done    Status = "done"
	Dropped Status = "dropped"
	Blocked Status = "blocked"
)

const statuses = "pending, active, done, dropped or blocked"

func (s Status) known() bool {
	switch s {
	case Pending, Active, Done, Dropped, Blocked:
		return true
	}
	return false
}

// Open reports whether a task still wants something: pending, active or blocked.
func (s Status) Open() bool { return s == Pending || s == Active || s == Blocked }

// Value returns the stored shape.
func (b Board) Value() jsonv.Value {
	phases := make([]jsonv.Value, len(b.Phases))
	for i, p := range b.Phases {
		tasks := make([]jsonv.Value, len(p.Tasks))
		for j, t := range p.Tasks {
			fields := []jsonv.Member{jsonv.F("text", jsonv.Str(t.Text)), jsonv.F("status", jsonv.Str(string(t.Status)))}
			if t.Status == Blocked && t.Reason != nil {
				fields = append(fields, jsonv.F("reason", jsonv.Str(*t.Reason)))
			}
			tasks[j] = jsonv.Obj(fields...)
		}
		phases[i] = jsonv.Obj(jsonv.F("name", jsonv.Str(p.Name)), jsonv.F("tasks", jsonv.Arr(tasks...)))
	}
	return jsonv.Obj(jsonv.F("phases", jsonv.Arr(phases...)))
}

const boundary = "board.Decode"

// Decode reads the stored shape. The error is a [*corrupt.Report].
func Decode(v jsonv.Value) (Board, error) {
	r := jsonv.Read(v, boundary)
	b := Board{Phases: jsonv.Each(r, "phases", func(v jsonv.Value) (Phase, error) {
		r := jsonv.Read(v, boundary)
		p := Phase{Name: r.Str("name"), Tasks: jsonv.Each(r, "tasks", decodeTask)}
		return p, r.Err()
	})}
	return b, r.Err()
}

func decodeTask(v jsonv.Value) (Task, error) {
	r := jsonv.Read(v, boundary)
	t := Task{Text: r.Str("text"), Status: Status(r.Str("status")), Reason: r.OptStr("reason")}
	if err := r.Err(); err != nil {
		return Task{}, err
	}
	if !t.Status.known() {
		return Task{}, corrupt.New(boundary, "status", statuses, string(t.Status))
	}
	if t.Status != Blocked {
		t.Reason = nil // kept on a blocked task only
	}
	return t, nil
}

// Validate is the writer's check. The error names the rule, and a duplicate by its
// name.
func (b Board) Validate() error {
	if len(b.Phases) > MaxPhases {
		return fmt.Errorf("a board has at most %d phases, this one has %d", MaxPhases, len(b.Phases))
	}
	names, texts := make(map[string]bool), make(map[string]bool)
	for _, p := range b.Phases {
		if err := bounded("the name of a phase", p.Name, MaxPhaseName); err != nil {
			return err
		}
		if names[p.Name] {
			return fmt.Errorf("two phases are named %q", p.Name)
		}
		names[p.Name] = true
		for _, t := range p.Tasks {
			if err := t.validate(); err != nil {
				return err
			}
			if texts[t.Text] {
				return fmt.Errorf("two tasks read %q", t.Text)
			}
			texts[t.Text] = true
		}
	}
	if len(texts) > MaxTasks {
		return fmt.Errorf("a board has at most %d tasks, this one has %d", MaxTasks, len(texts))
	}
	return nil
}

func (t Task) validate() error {
	if err := bounded("the text of a task", t.Text, MaxTaskText); err != nil {
		return err
	}
	if !t.Status.known() {
		return fmt.Errorf("the status of a task is %s, not %q", statuses, t.Status)
	}
	if t.Reason != nil {
		return bounded("the reason of a blocked task", *t.Reason, MaxReason)
	}
	return nil
}

func bounded(what, text string, limit int) error {
	if strings.TrimSpace(text) == "" {
		return fmt.Errorf("%s is blank", what)
	}
	if !utf8.ValidString(text) { // it would be stored as another text, and a longer one
		return fmt.Errorf("%s is not UTF-8", what)
	}
	if len(text) > limit {
		return fmt.Errorf("%s has at most %d bytes, this one has %d", what, limit, len(text))
	}
	return nil
}

// Active returns the first active task and its phase.
func (b Board) Active() (phase Phase, task Task, ok bool) {
	for _, p := range b.Phases {
		for _, t := range p.Tasks {
			if t.Status == Active {
				return p, t, true
			}
		}
	}
	return Phase{}, Task{}, false
}

// Focus returns the phase to show: that of the active task, else the first with
// open work, else the last.
func (b Board) Focus() (Phase, bool) {
	if p, _, ok := b.Active(); ok {
		return p, true
	}
	for _, p := range b.Phases {
		for _, t := range p.Tasks {
			if t.Status.Open() {
				return p, true
			}
		}
	}
	if n := len(b.Phases); n > 0 {
		return b.Phases[n-1], true
	}
	return Phase{}, false
}

// Count returns how many tasks are closed, dropped ones included, and how many
// there are.
func (b Board) Count() (closed, total int) {
	for _, p := range b.Phases {
		for _, t := range p.Tasks {
			total++
			if !t.Status.Open() {
				closed++
			}
		}
	}
	return closed, total
}
