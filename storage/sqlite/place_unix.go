//go:build unix

package sqlite

import "golang.org/x/sys/unix"

// unwritable reports that this process cannot make files in a folder.
func unwritable(dir string) bool { return unix.Access(dir, unix.W_OK|unix.X_OK) != nil }
