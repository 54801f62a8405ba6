// Package oracle compares our own codecs with libraries that others wrote.
//
// # Purpose
//
// A codec that is only read back by itself can be wrong twice, and so can a
// dialect of a provider. Here each one meets an independent implementation:
// streams are read by the vendor's own library as our fold reads them, and what
// we send is what that library can read and write. The libraries are heavy or
// unwanted in the program, so this folder is a module of its own: nothing of it
// is linked, and `make oracle` runs it.
//
// # Key types
//
// None; there are tests only.
//
// # Relationships
//
// Imports core, provider and the libraries in its go.mod. Nothing imports it.
//
// # Traffic
//
// None.
//
// # Invariants
//
// Not part of ./... of the program's module.
package oracle
