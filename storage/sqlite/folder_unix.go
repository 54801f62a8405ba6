//go:build unix

package sqlite

import "os"

func syncDir(f *os.File) error { return f.Sync() }
