// Command print reads a recording and prints what [portable.Results] makes of it.
//
// # Purpose
//
// The program that tests build for js/wasm and run under Node.
//
// # Key types
//
// None.
//
// # Relationships
//
// Imports internal/portable.
//
// # Traffic
//
// Reads standard input, writes standard output: a line for each result, its name
// and its text with a tab between them.
//
// # Invariants
//
// Decides nothing itself.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"

	"github.com/loom-run/loom/internal/portable"
)

func main() {
	if err := results(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "print:", err)
		os.Exit(1)
	}
}

func results(in io.Reader, out io.Writer) error {
	recording, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(out)
	for _, l := range portable.Results(string(recording)) {
		if _, err := fmt.Fprintf(w, "%s\t%s\n", l.Name, l.Text); err != nil {
			return err
		}
	}
	return w.Flush()
}
