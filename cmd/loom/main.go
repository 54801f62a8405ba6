// Command loom is the coding agent. It parses nothing itself: see internal/cli.
//
// # Purpose
//
// The one static binary. It is also its own supervisor of commands, which is why
// the jail is entered before anything else.
package main

import (
	"os"

	"github.com/loom-run/loom/broker/jail"
	"github.com/loom-run/loom/internal/cli"
)

func main() {
	jail.Enter()
	os.Exit(cli.Main(cli.System{
		Args: os.Args[1:], Environ: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	}))
}
