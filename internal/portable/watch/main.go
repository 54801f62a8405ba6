// Command watch is the client runtime by itself: it reads the frames of a session and prints
// the transcript that they come to.
//
// # Purpose
//
// The program that is built for js/wasm, to show that a page has the same conversation as a
// terminal, how large the runtime is there, and how fast it starts.
//
// # Key types
//
// None.
//
// # Relationships
//
// Imports client, client/plane, client/project and wire.
//
// # Traffic
//
// Reads standard input, a frame on each line; writes standard output, a message on each.
//
// # Invariants
//
// Decides nothing itself. Watches the main strand of the session of the first frame.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"

	"github.com/loom-run/loom/client"
	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/client/project"
	"github.com/loom-run/loom/wire"
)

func main() {
	if err := watch(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "watch:", err)
		os.Exit(1)
	}
}

// maxLine is longer than any frame.
const maxLine = 64 << 20

func watch(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	w := bufio.NewWriter(out)
	var state *client.State
	for lines.Scan() {
		f, err := wire.DecodeFrame(lines.Bytes())
		if err != nil {
			return err
		}
		if state == nil {
			state = client.New(plane.Watch{Session: f.Session, Strand: "main"}, project.Appends)
		}
		for _, o := range state.Step(f) {
			if t, ok := o.(plane.Transcript); ok {
				if _, err := fmt.Fprintf(w, "%s\n", t.Line().Append(nil)); err != nil {
					return err
				}
			}
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return w.Flush()
}
