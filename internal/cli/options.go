package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/host/print"
)

// runOptions are the options of `loom run` and `loom -p`.
type runOptions struct {
	model, session, cwd option[string]
	mode                option[words.PermissionMode]
	maxTurns            option[int64]
	format              option[print.Format]
	asks                option[asking]
	again               bool
	askOptions
}

func (o *runOptions) flags(cmd *cobra.Command) {
	o.model = option[string]{kind: "MODEL", parse: text}
	o.session = option[string]{kind: "ID", parse: text}
	o.cwd = option[string]{kind: "DIR", parse: text}
	o.maxTurns = option[int64]{kind: "N", parse: turns}
	f := cmd.Flags()
	f.SortFlags = false
	f.VarP(&o.model, "model", "m", "a name that loom models lists, VENDOR/ID, or replay/FILE (default: the main role of loom.toml, else that of a vendor whose key is set, else demo)")
	o.shared(cmd)
	f.Var(&o.session, "session", "go on with the session of this id, or of the one id that starts like this")
	f.BoolVarP(&o.again, "continue", "c", false, "go on with the session last used in this directory")
	f.Var(&o.cwd, "cwd", "work in this directory")
	f.Var(&o.maxTurns, "max-turns", "stop the run after this many responses of the model")
}

// shared adds the options that `loom resume` has too.
func (o *runOptions) shared(cmd *cobra.Command) {
	o.mode = option[words.PermissionMode]{kind: "MODE", parse: mode}
	o.format = option[print.Format]{kind: "FORMAT", parse: format}
	f := cmd.Flags()
	f.Var(&o.mode, "permission-mode", "default: read only; acceptEdits: write files here too; bypassPermissions: commands too; plan: read only until you accept a plan; dontAsk: default, and nobody is asked")
	o.asks = option[asking]{kind: "WHAT", parse: askingWord}
	f.Var(&o.asks, "ask", "of a call that you must decide about: wait (you are asked at a terminal; elsewhere the run pauses), or refuse (default: wait at a terminal, else refuse)")
	o.askOptions.flags(cmd)
	f.Var(&o.format, "output-format", "text for people, json for programs: one object, the last line (default text)")
}

// option is the value of a flag that may be given once or not at all. A value that
// is no value is refused where it is read, so that an unset variable of a script
// is not taken for an option that was left out.
type option[T any] struct {
	kind  string
	parse func(string) (T, error)
	given *T // nil: it was not
}

// Set, String and Type make it the value of a flag.
func (o *option[T]) Set(s string) error {
	v, err := o.parse(s)
	if err == nil {
		o.given = &v
	}
	return err
}

func (o *option[T]) String() string { return "" } // there is no default to print

func (o *option[T]) Type() string { return o.kind }

// or is the value, or another one where it was not given.
func (o *option[T]) or(otherwise T) T {
	if o.given == nil {
		return otherwise
	}
	return *o.given
}

func text(s string) (string, error) {
	if strings.TrimSpace(s) == "" {
		return "", errors.New("it is empty")
	}
	return s, nil
}

func mode(s string) (words.PermissionMode, error) {
	m, ok := words.PermissionModes.Parse(s)
	if !ok {
		return "", errors.New("there are default, acceptEdits, bypassPermissions, plan and dontAsk")
	}
	return m, nil
}

func turns(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 {
		return 0, errors.New("it is a whole number from 1")
	}
	return n, nil
}

// The formats by name.
var formats = map[string]print.Format{"text": print.Text, "json": print.JSON}

func format(s string) (print.Format, error) {
	f, ok := formats[s]
	if !ok {
		return f, errors.New("there are text and json")
	}
	return f, nil
}

// askedFormat finds the format in arguments that could not be parsed: a program
// that asked for JSON gets its answer as JSON.
func askedFormat(args []string) print.Format {
	const name = "--output-format"
	asked := print.Text
	for i, arg := range args {
		switch value, joined := strings.CutPrefix(arg, name+"="); {
		case arg == "--":
			return asked
		case joined:
			asked = formats[value]
		case arg == name && i+1 < len(args):
			asked = formats[args[i+1]]
		}
	}
	return asked
}

// oneID is the arguments of a verb about one session.
func oneID(cmd *cobra.Command, args []string) error {
	if len(args) != 1 || strings.TrimSpace(args[0]) == "" {
		return fmt.Errorf("`%s` takes one session id, or the start of one; `loom sessions` lists them", cmd.CommandPath())
	}
	return nil
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("`%s` takes no argument, and was given %q", cmd.CommandPath(), args[0])
	}
	return nil
}
