package sqlitedb

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

// Defaults of [Options].
const (
	DefaultBusyTimeout = 5 * time.Second
	DefaultCacheKiB    = 4096
)

// Options say how a database of one package's own is opened.
type Options struct {
	// Create makes an empty file, readable by its owner alone, where there is none.
	Create bool
	// ReadOnly makes every statement that writes fail. It excludes Create.
	ReadOnly bool

	BusyTimeout time.Duration // wait for other processes' locks; 0 for the default
	Synchronous Synchronous
	CacheKiB    int // a limit, not a reservation; 0 for the default
	// More PRAGMAs, each a name and the value that it reads back as. They are set
	// before the file is switched to a log, which is where the layout of pages is
	// settled.
	More [][2]string
}

// Open opens a database with every PRAGMA set and read back. Its errors are
// *Unopenable, and what [Classify] judges; then no connection stays open.
func Open(path string, o Options) (*Conn, error) {
	if o.BusyTimeout == 0 {
		o.BusyTimeout = DefaultBusyTimeout
	}
	if o.CacheKiB == 0 {
		o.CacheKiB = DefaultCacheKiB
	}
	create := o.Create && !o.ReadOnly
	if err := CheckPath(path, create); err != nil {
		return nil, err
	}
	a := ReadTidy
	if !o.ReadOnly {
		a = ReadWrite
	}
	if create {
		if err := makeFile(path); err != nil {
			return nil, err
		}
	}
	c, err := Dial(path, a)
	if err != nil {
		return nil, err
	}
	if err := c.set(o); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Conn) set(o Options) error {
	if err := c.Tune(o.BusyTimeout, o.Synchronous, o.CacheKiB); err != nil {
		return err
	}
	if o.ReadOnly {
		return errors.Join(c.Pragmas(o.More), c.ReadOnly())
	}
	if err := c.Pragmas(o.More); err != nil {
		return err
	}
	return c.Steady()
}

// makeFile makes an empty file, which SQLite takes for a database without tables.
// SQLite would make it readable for others. An existing file is not opened: closing
// it could drop the locks of this process.
func makeFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return err
	}
	return f.Close()
}
