//go:build !unix

package admin

import "os"

const foldersLock = false

// lockFolder only opens the folder.
func lockFolder(path string) (*os.File, error) { return os.Open(path) }

// syncFolderOf has nothing to do: folders cannot be flushed here.
func syncFolderOf(string) error { return nil }
