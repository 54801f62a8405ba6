// Package torture kills real processes of Loom and looks at what is left.
//
// # Purpose
//
// A session that survives kill -9 is the promise of this repository, so it is shown with kill -9: a child process runs a session with the real store,
// the real broker and the real tools, dies at a commit or at any moment, and is started again until its work is done. After each death the store is
// compared with what the dead process had made durable. It is all in test files. LOOM_TORTURE is the number of kills, LOOM_TORTURE_SEED repeats the
// draws of another run; when the deaths come to pass is up to the machine.
//
// # Key types
//
// In the test files: play, a scripted run with what must come of it; stage, the files of one run on disk; life, what one process said before it ended;
// look, what is found after it; judge, the pure function from lives and looks to faults.
//
// # Relationships
//
// The tests import node and what lies below it, and run cmd/loom as a binary. Nobody imports this package.
//
// # Traffic
//
// A life writes one JSON line for each event to descriptor 3: opened, commit, prompt, abort, done. A line is written before the event goes on, so that
// what was said before a death is a lower bound of what was durable.
//
// # Invariants
//
// The judge reads nothing but its arguments, and each of its checks has been seen to fail: see the planted faults.
package torture
