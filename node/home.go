package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/loom-run/loom/core/id"
)

// Home is the state root: one folder of sessions, each a file with its blobs and
// its fence beside it.
type Home struct{ dir string }

// FindHome chooses the state root: LOOM_HOME, else loom under the XDG data home,
// else .local/share/loom under the user's home. A relative path is refused: it
// would be another root in every directory.
func FindHome(env func(string) string) (Home, error) {
	for _, try := range []struct{ name, below string }{
		{"LOOM_HOME", ""}, {"XDG_DATA_HOME", "loom"}, {"HOME", filepath.Join(".local", "share", "loom")},
	} {
		dir := env(try.name)
		if dir == "" {
			continue
		}
		if !filepath.IsAbs(dir) {
			if try.name == "XDG_DATA_HOME" {
				continue // the specification says to ignore it
			}
			return Home{}, fmt.Errorf("%s is %q, which is not an absolute path; nothing was changed, set it to one", try.name, dir)
		}
		return Home{filepath.Join(dir, try.below)}, nil
	}
	return Home{}, errors.New("there is no place for sessions: LOOM_HOME, XDG_DATA_HOME and HOME are all unset; set LOOM_HOME to an absolute path")
}

// Dir is the state root.
func (h Home) Dir() string { return h.dir }

const fileSuffix = ".db"

func (h Home) sessions() string            { return filepath.Join(h.dir, "sessions") }
func (h Home) file(s id.SessionID) string  { return filepath.Join(h.sessions(), s.String()+fileSuffix) }
func (h Home) blobs(s id.SessionID) string { return filepath.Join(h.sessions(), s.String()+".blobs") }
func (h Home) fence(s id.SessionID) string { return filepath.Join(h.sessions(), s.String()+".tools") }

// has reports whether there is a session. A file without bytes is none: whoever
// was making it was killed, or is not done.
func (h Home) has(s id.SessionID) (bool, error) {
	st, err := os.Stat(h.file(s))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && st.Size() > 0, err
}

// ErrHome is a state root that cannot be used.
type ErrHome struct {
	Reason string // a sentence
	Err    error
}

func (e *ErrHome) Error() string { return e.Reason }
func (e *ErrHome) Unwrap() error { return e.Err }

// create makes the folders. Only their owner may look into them.
func (h Home) create() error {
	if err := os.MkdirAll(h.sessions(), 0o700); err != nil {
		return &ErrHome{fmt.Sprintf("the place for sessions cannot be made: %v; nothing was changed, set LOOM_HOME to one that can be written", err), err}
	}
	return nil
}

// list returns the sessions that have a file, in no order.
func (h Home) list() ([]id.SessionID, error) {
	files, err := os.ReadDir(h.sessions())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &ErrHome{fmt.Sprintf("the sessions cannot be listed: %v; nothing was changed", err), err}
	}
	var all []id.SessionID
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), fileSuffix)
		if !ok {
			continue
		}
		if s, err := id.ParseSessionID(name); err == nil && s.String() == name {
			all = append(all, s)
		}
	}
	return all, nil
}
