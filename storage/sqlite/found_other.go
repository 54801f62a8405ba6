//go:build !linux

package sqlite

import "errors"

// placeBlank says that this system has no files without names.
func placeBlank(string) error { return errors.ErrUnsupported }
