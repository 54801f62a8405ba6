//go:build !unix

package admin

// syncFolderOf has nothing to do: folders cannot be flushed here.
func syncFolderOf(string) error { return nil }
