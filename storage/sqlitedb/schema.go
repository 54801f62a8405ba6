package sqlitedb

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
)

// ErrVersion is a database that has tables of another version than the caller's.
var ErrVersion = errors.New("it is of another version")

// Prepare makes the tables of a file that its owner can make anew, unless they are there, in
// one transaction. version is raised when they change, and is at least 1; a file with tables
// of another one is [ErrVersion].
func (c *Conn) Prepare(version int64, tables []string) error {
	return c.Within("BEGIN IMMEDIATE", func() error {
		now, _, err := c.One("PRAGMA user_version")
		if err != nil || now[0] == version {
			return err
		}
		there, _, err := c.One("SELECT count(*) FROM sqlite_schema")
		if err != nil {
			return err
		}
		if there[0] != int64(0) {
			return ErrVersion
		}
		for _, statement := range append(tables[:len(tables):len(tables)], "PRAGMA user_version = "+strconv.FormatInt(version, 10)) {
			if _, err := c.Exec(statement); err != nil {
				return err
			}
		}
		return nil
	})
}

// Spoilt reports whether an error of [Open], of [Conn.Prepare] or of a statement means that the file has
// to be made anew: it is damaged, no database, or of another version.
func Spoilt(err error) bool {
	kind := Classify(err)
	return kind == FaultDamaged || kind == FaultForeign || errors.Is(err, ErrNoDatabase) || errors.Is(err, ErrVersion)
}

// Delete deletes a database with the files that are kept beside it. A process that has it open
// goes on with it.
func Delete(path string) error {
	for _, suffix := range append([]string{""}, Besides[:]...) {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
