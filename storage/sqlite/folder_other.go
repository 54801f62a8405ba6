//go:build !unix

package sqlite

import "os"

// syncDir has nothing to do: folders cannot be flushed here.
func syncDir(*os.File) error { return nil }
