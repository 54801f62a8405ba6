//go:build !unix

package sqlite

// unwritable reports that this process cannot make files in a folder; here the
// system does not say so without an attempt.
func unwritable(string) bool { return false }
