// Package house holds the laws of this repository as tests, so that `go test ./...` is the whole gate.
//
// # Purpose
//
// A law that only a document states is broken within a month. Here each one is a pure function over a description of the tree, returning the
// faults it found as sentences, and a test that runs it over the real tree. Beside each stands a test that plants a fault and sees it found: a guard
// that was never red guards nothing.
//
// # Key types
//
// All of them live in test files: tree (what `go list` says), law (testdata/imports.txt, the import allow-lists in floor order), and one check
// function for each law.
//
// # Relationships
//
// Imports nothing of this module and is imported by nobody. It runs the Go command and git, both without network.
//
// # Traffic
//
// None. With the flag -update, the tests named Imports and Diagram rewrite testdata/imports.txt (only ever tighter) and the import diagram of
// ARCHITECTURE.md.
//
// # Invariants
//
// The tree is read once for all tests. No law has an exception that is not written down beside it with its reason.
package house
