// Package portable decides over recorded rows, and does nothing else: what it
// yields must be the same bytes on every platform and in every release.
//
// # Purpose
//
// The pure ground promises that a conversation can be replayed, validated and
// decided about away from the process that runs it. [Results] does all of that
// to one recording; tests compare what a native build, a js/wasm build under
// Node and the last release make of it.
//
// # Key types
//
// [Results], [Line].
//
// # Relationships
//
// Imports core, machine and session/projection. For tests; internal/portable/print
// is the program around it.
//
// # Traffic
//
// None.
//
// # Invariants
//
// Results never fails: what does not decode is a line with its report.
package portable

import (
	"fmt"
	"strings"

	"github.com/loom-run/loom/core/accounting"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/msgpack"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/machine"
)

// Line is one result: what was asked of which record, and the answer. Neither
// holds a line break.
type Line struct{ Name, Text string }

// Results answers for a recording: a text of lines "kind JSON", where kind is
// entry, usage_row, message, usage, or a register's namespace. Rows of kind
// entry are also replayed as one tree; pairs of an op.meta and an op.state are
// also decided about.
func Results(recording string) []Line {
	var out []Line
	var tree forest
	var desk desk
	for n, record := range records(recording) {
		name := fmt.Sprintf("%s %d", record.kind, n)
		v, err := jsonv.ParseString(record.text)
		if err != nil {
			out = append(out, Line{name, err.Error()})
			continue
		}
		again, err := rewrite(record.kind, v)
		out = append(out, Line{name, answer(again, err)}, Line{name + " as MessagePack", packed(v)})
		var verdicts []string
		for _, m := range mutants(record.text, v) {
			verdicts = append(verdicts, m.name+": "+judged(record.kind, m.text))
		}
		out = append(out, Line{name + " altered", strings.Join(verdicts, "; ")})
		tree.take(record.kind, v)
		desk.take(record.kind, v)
	}
	return append(append(out, tree.replay()...), desk.decide()...)
}

type record struct{ kind, text string }

func records(recording string) (out []record) {
	for _, line := range strings.Split(recording, "\n") {
		if kind, text, ok := strings.Cut(line, " "); ok {
			out = append(out, record{kind, text})
		}
	}
	return out
}

func answer(text string, err error) string {
	if err != nil {
		return err.Error()
	}
	return text
}

// judged is what a decoder says of a text.
func judged(kind, text string) string {
	v, err := jsonv.ParseString(text)
	if err != nil {
		return err.Error()
	}
	return answer(rewrite(kind, v))
}

// rewrite decodes a value as its kind and encodes it again.
func rewrite(kind string, v jsonv.Value) (string, error) {
	w := &jsonv.Writer{}
	var err error
	switch kind {
	case "entry":
		var e entry.Entry
		if e, err = entry.Decode(v); err == nil {
			entry.Append(w, e)
		}
	case "usage_row":
		var row entry.UsageRow
		if row, err = entry.DecodeUsageRow(v); err == nil {
			entry.AppendUsageRow(w, row)
			var r accounting.Report
			if r, err = accounting.DecodeRow(row); err == nil {
				return fmt.Sprintf("%s of %d attempts", w.Bytes(), r.Attempts()), nil
			}
		}
	case "message":
		var m message.Message
		if m, err = message.Decode(v); err == nil {
			message.Append(w, m)
		}
	case "usage":
		var u usage.Usage
		if u, err = usage.Decode(v); err == nil {
			usage.Append(w, u.Add(u))
		}
	default:
		return reregister(register.Namespace(kind), v)
	}
	return string(w.Bytes()), err
}

// reregister is rewrite for the payload of a register.
func reregister(ns register.Namespace, v jsonv.Value) (string, error) {
	switch ns {
	case register.StrandConfig:
		return again(v, machine.DecodeConfiguration, machine.Configuration.Value)
	case register.StrandState:
		return again(v, machine.DecodeStrandState, machine.StrandState.Value)
	case register.StrandLastResult:
		return again(v, machine.DecodeLastResult, machine.LastResult.Value)
	case register.OpMeta:
		return again(v, machine.DecodeOperation, machine.Operation.Value)
	case register.OpState:
		return again(v, machine.DecodeState, machine.State.Value)
	case register.OpPreparation:
		return again(v, machine.DecodePreparation, machine.PreparationValue)
	case register.PendingEntry:
		return again(v, machine.DecodePendingEntry, machine.PendingEntry.Value)
	case register.StrandLeaf:
		return again(v, register.DecodeLeaf, register.Leaf)
	case register.OpToolArgs, register.FactName, register.FactLabel, register.FactCustom:
		return v.String(), nil
	}
	_, err := register.Parse(string(ns))
	return "", err
}

func again[T any](v jsonv.Value, decode func(jsonv.Value) (T, error), encode func(T) jsonv.Value) (string, error) {
	x, err := decode(v)
	if err != nil {
		return "", err
	}
	return encode(x).String(), nil
}

// packed sends a value through the other codec and back.
func packed(v jsonv.Value) string {
	m, err := msgpack.FromJSON(v)
	if err != nil {
		return err.Error()
	}
	data, err := m.Append(nil)
	if err != nil {
		return err.Error()
	}
	if m, err = msgpack.Decode(data, msgpack.Strict); err != nil {
		return err.Error()
	}
	back, err := msgpack.ToJSON(m)
	return answer(back.String(), err)
}

type mutant struct{ name, text string }

// mutants are texts near a recorded one: cut off, followed by more, and with
// each field gone, null, of another kind, or there twice.
func mutants(text string, v jsonv.Value) []mutant {
	out := []mutant{{"cut off", text[:len(text)-1]}, {"halved", strings.ToValidUTF8(text[:len(text)/2], "")}, {"with a tail", text + "x"}}
	for name := range v.Fields() {
		var without []jsonv.Member
		for n, f := range v.Fields() {
			if n != name {
				without = append(without, jsonv.F(n, f))
			}
		}
		field, _ := v.Get(name)
		twice := v.String()
		twice = twice[:len(twice)-1] + "," + string(jsonv.AppendString(nil, name)) + ":" + field.String() + "}"
		out = append(out,
			mutant{"without " + name, jsonv.Obj(without...).String()},
			mutant{"with null as " + name, v.With(name, jsonv.Value{}).String()},
			mutant{"with true as " + name, v.With(name, jsonv.Boolean(true)).String()},
			mutant{"with -1 as " + name, v.With(name, jsonv.Num(-1)).String()},
			mutant{"with two of " + name, twice})
	}
	return out
}
