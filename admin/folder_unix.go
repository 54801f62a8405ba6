//go:build unix

package admin

import (
	"errors"
	"os"
	"path/filepath"
)

// syncFolderOf makes a rename in the folder of path durable.
func syncFolderOf(path string) error {
	f, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
