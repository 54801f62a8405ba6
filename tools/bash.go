package tools

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/loom-run/loom/broker"
	"github.com/loom-run/loom/broker/jail"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/policy"
)

//go:embed bash.md
var bashDescription string

// Timeouts of bash in ms.
const (
	bashTimeout    = 120_000
	bashMaxTimeout = 600_000
)

func (k toolkit) bash() Tool {
	return Tool{
		Name: "bash", Description: bashDescription, Class: policy.Exec, Replay: Never, Scheduling: Exclusive,
		Schema: schema(`{"type":"object","properties":{
			"command":{"type":"string","description":"The command line."},
			"timeout_ms":{"type":"integer","minimum":1,"maximum":600000,"description":"Time limit in milliseconds. Default 120000."}},
			"required":["command"],"additionalProperties":false}`),
		Run: k.runBash,
	}
}

type bashArguments struct {
	command string
	timeout time.Duration
}

func bashArgumentsOf(v jsonv.Value) (bashArguments, *arguments) {
	a := argumentsOf(v, "command", "timeout_ms")
	args := bashArguments{command: a.str("command"), timeout: time.Duration(a.optInt("timeout_ms", bashTimeout, 1, bashMaxTimeout)) * time.Millisecond}
	switch {
	case strings.TrimSpace(args.command) == "":
		a.fail("\"command\" is empty")
	case strings.ContainsRune(args.command, 0):
		a.fail("\"command\" holds a NUL byte, which no command line can carry")
	}
	return args, a
}

func (k toolkit) runBash(ctx context.Context, in Invocation) Outcome {
	args, a := bashArgumentsOf(in.Arguments)
	if out, bad := a.err(); bad {
		return out
	}
	c, ok := k.shell(args.command)
	if !ok {
		return failed("neither bash nor sh is in the PATH; nothing was run")
	}
	c.Timeout = args.timeout
	exit, err := in.Exec(ctx, c)
	if err != nil {
		return k.notRun(exit, err)
	}
	return k.report(exit, args.timeout)
}

func (k toolkit) shell(command string) (jail.Command, bool) {
	if path, ok := k.broker.Program("bash"); ok {
		return jail.Command{Path: path, Args: []string{"bash", "-o", "pipefail", "-c", command}}, true
	}
	if path, ok := k.broker.Program("sh"); ok {
		return jail.Command{Path: path, Args: []string{"sh", "-c", command}}, true
	}
	return jail.Command{}, false
}

// notRun is the outcome of a command that did not run, or of which nobody knows.
func (k toolkit) notRun(exit jail.Exit, err error) Outcome {
	if errors.Is(err, broker.ErrAborted) {
		return failed("the operation was aborted; the command was not run")
	}
	if _, lost := errors.AsType[*jail.LostError](err); !lost {
		return failed(err.Error())
	}
	text, refs := k.render(k.output("stdout", exit.Stdout), k.output("stderr", exit.Stderr))
	out := failed(err.Error() + "\n" + text)
	return out.with(append([]jsonv.Member{jsonv.F("lost", jsonv.Boolean(true))}, blobDetails(refs)...)...)
}

func (k toolkit) report(exit jail.Exit, timeout time.Duration) Outcome {
	stdout, stderr := k.output("stdout", exit.Stdout), k.output("stderr", exit.Stderr)
	var b strings.Builder
	fmt.Fprintf(&b, "exit code %d", exit.Code)
	if exit.Signal != "" {
		fmt.Fprintf(&b, " (%s)", exit.Signal)
	}
	for _, flag := range flags(exit, timeout) {
		b.WriteString("\n[" + flag + "]")
	}
	text, refs := k.render(stdout, stderr)
	if text == "" {
		text = "(no output)"
	}
	out := said(b.String() + "\n" + text)
	out.IsError = exit.Code != 0 || exit.TimedOut || exit.Cancelled
	return out.with(append([]jsonv.Member{
		jsonv.F("exit_code", jsonv.Num(int64(exit.Code))),
		jsonv.F("signal", optional(exit.Signal)),
		jsonv.F("timed_out", jsonv.Boolean(exit.TimedOut)),
		jsonv.F("cancelled", jsonv.Boolean(exit.Cancelled)),
		jsonv.F("truncated", jsonv.Boolean(exit.Truncated())),
		jsonv.F("swept", jsonv.Num(int64(exit.Swept))),
		jsonv.F("stdout_bytes", jsonv.Num(exit.Stdout.Total())),
		jsonv.F("stderr_bytes", jsonv.Num(exit.Stderr.Total())),
		jsonv.F("replaced_bytes", jsonv.Num(int64(stdout.replaced+stderr.replaced))),
	}, blobDetails(refs)...)...)
}

func optional(s string) jsonv.Value {
	if s == "" {
		return jsonv.Value{}
	}
	return jsonv.Str(s)
}

// flags words what is unusual about an exit.
func flags(exit jail.Exit, timeout time.Duration) (out []string) {
	if exit.TimedOut {
		out = append(out, fmt.Sprintf("timed_out: ended after %d ms", cmp.Or(exit.Limit, timeout).Milliseconds()))
	}
	if exit.Cancelled {
		out = append(out, "cancelled: ended because the operation was aborted")
	}
	if exit.Truncated() {
		out = append(out, "truncated: the middle of the output was not kept")
	}
	if exit.Swept > 0 {
		out = append(out, fmt.Sprintf("%s left running, ended with the command", count(exit.Swept, "process")))
	}
	if exit.Left > 0 {
		out = append(out, fmt.Sprintf("%s could not be ended and may still run", count(exit.Left, "process")))
	}
	if exit.OutputHeld {
		out = append(out, "a process outside this command holds its output open; what it writes is not shown")
	}
	return out
}
