package jail

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Timings of the ladder that ends a command.
const (
	// DefaultGrace is the time between SIGTERM and SIGKILL.
	DefaultGrace = 2 * time.Second
	// sweepLimit bounds how long killed processes may take to disappear before
	// the supervisor reports them as left over.
	sweepLimit = 5 * time.Second
	// supervisorGrace is how much longer than its own limits the harness waits
	// for a supervisor before it calls the command lost.
	supervisorGrace = 5 * time.Second
	// drainGrace is how long an output pipe is read after the last process of
	// the command is gone: longer only happens when a process outside holds it.
	drainGrace = 500 * time.Millisecond
)

// Command says what to run. Strings hold no NUL byte.
type Command struct {
	Path    string        // the program, absolute
	Args    []string      // the argument vector, the name first
	Dir     string        // the working directory, absolute
	Env     []string      // the whole environment as NAME=value; see [Environment]
	Timeout time.Duration // after which the command is ended; 0 is never
	Grace   time.Duration // between SIGTERM and SIGKILL; 0 is [DefaultGrace]
	Fence   Fence         // held while a process of the command lives; zero is none
	// Input is what the command reads; nil is nothing. It is read from another
	// goroutine, which may still wait in a Read when Run returns: whoever gave it then
	// lets that end.
	Input io.Reader
}

func (c Command) check() error {
	if !strings.HasPrefix(c.Path, "/") || !strings.HasPrefix(c.Dir, "/") {
		return errors.New("jail: program and directory must be absolute paths")
	}
	if len(c.Args) == 0 {
		return errors.New("jail: the argument vector is empty")
	}
	for _, list := range [][]string{{c.Path, c.Dir}, c.Args, c.Env} {
		for _, s := range list {
			if strings.IndexByte(s, 0) >= 0 {
				return &StartError{Reason: NulByte, Path: c.Path, Dir: c.Dir}
			}
		}
	}
	return nil
}

// Exit says how a command ended.
type Exit struct {
	// Code is the exit status; 128 plus the number of the signal when one ended
	// the command, as shells count.
	Code int
	// Signal names the signal that ended the command ("SIGKILL"), "" for none.
	Signal string
	// TimedOut and Cancelled say that the command was ended from outside; a
	// command that ended by itself at the same moment has neither.
	TimedOut, Cancelled bool
	// Limit is the timeout that ended the command, where whoever ran it says so.
	Limit time.Duration
	// Swept counts processes that the command had left running and that were
	// killed when it ended.
	Swept int
	// Left counts processes that could not be killed within the limit.
	Left int
	// OutputHeld says that a process outside the command still held an output
	// pipe, so that the output may lack what that process writes.
	OutputHeld bool
	// Stdout and Stderr are what was kept of the two streams.
	Stdout, Stderr Capture
}

// Truncated reports whether a stream was longer than what is kept.
func (e Exit) Truncated() bool { return e.Stdout.Omitted() > 0 || e.Stderr.Omitted() > 0 }

// Reason says why a command did not start.
type Reason string

// The reasons.
const (
	NoDirectory  Reason = "no-directory"  // the working directory is gone or is none
	NoProgram    Reason = "no-program"    // the program or its interpreter is gone
	NotPermitted Reason = "not-permitted" // the system refuses to execute the program or to enter the directory
	TooLong      Reason = "too-long"      // arguments and environment exceed the limit of the system
	NulByte      Reason = "nul-byte"      // a string holds a NUL byte, which no argument can carry
	Ended        Reason = "ended"         // the caller's context was done before the start
	OtherReason  Reason = "other"         // Err says
)

// StartError says that nothing was run.
type StartError struct {
	Reason    Reason
	Path, Dir string
	Err       error // what the system said, if it said something
}

// Error is one sentence.
func (e *StartError) Error() string {
	what := fmt.Sprintf("%q could not be started", e.Path)
	switch e.Reason {
	case NoDirectory:
		what = fmt.Sprintf("the working directory %q does not exist any more", e.Dir)
	case NoProgram:
		what = fmt.Sprintf("there is no program at %q", e.Path)
	case NotPermitted:
		what = fmt.Sprintf("the system does not permit to execute %q in %q", e.Path, e.Dir)
	case TooLong:
		what = "the command line is longer than the system accepts"
	case NulByte:
		what = "the command line holds a NUL byte"
	case Ended:
		what = "the call was ended before its command started"
	case OtherReason:
	}
	if e.Err != nil && e.Reason != NoDirectory {
		what += " (" + e.Err.Error() + ")"
	}
	return what + "; nothing was run"
}

// Unwrap returns what the system said.
func (e *StartError) Unwrap() error { return e.Err }

// LostError says that a command may have run, in part or whole, and that its
// end is not known.
type LostError struct {
	Why string
}

func (e *LostError) Error() string {
	return "the outcome of the command is unknown: " + e.Why
}

// ErrNotEntered says that the program does not call [Enter] first thing in main.
// Running anything would start the whole program again in place of a supervisor.
var ErrNotEntered = errors.New("jail: the program must call jail.Enter first in main")

// ErrUnsupported says that this system has no processes that a command could
// run in.
var ErrUnsupported = errors.New("jail: this system cannot run commands")
