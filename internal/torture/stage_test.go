//go:build linux

package torture

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// stage is one run of a play on disk: a state root, a workspace and a script. Lives enter it one after the other.
type stage struct {
	play
	dir  string
	acts []act
}

// act is one life and what was found after it.
type act struct {
	life life
	look look
}

// life is what one process said, and how it ended.
type life struct {
	Number  int
	Started int64 // Unix ms
	Events  []event
	Killed  bool   // it ended by SIGKILL
	Said    string // on standard error
	Orders  string // how it was to die, for people
}

// newStage makes the files of a play below dir, which exists.
func newStage(p play, dir string) (*stage, error) {
	s := &stage{play: p, dir: dir}
	for name, text := range map[string]string{
		"script.json":                      p.script(),
		"workspace/static/hello.txt":       "hello\nthe needle is here\n",
		"workspace/static/deep/needle.txt": "another needle\n",
		"workspace/" + counterFile:         counterStart,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	return s, os.Mkdir(s.home(), 0o700)
}

// counterStart is what the call edit-1 finds; each run of it puts an x before the end.
const counterStart = "count end\n"

func (s *stage) home() string      { return filepath.Join(s.dir, "home") }
func (s *stage) workspace() string { return filepath.Join(s.dir, "workspace") }

// lifeLimit is how long a life may take before it is taken to hang. It is far beyond what a loaded machine needs.
const lifeLimit = 60 * time.Second

// death says how a life is to end.
type death struct {
	atCommit int           // it kills itself after that commit; 0: it does not
	after    time.Duration // the parent kills it that long after it was started, or
	opened   bool          // after it said that it had opened; 0: it does not
	orphans  bool          // its supervisors are killed with it
}

func (d death) String() string {
	switch {
	case d.atCommit > 0:
		return fmt.Sprintf("at commit %d", d.atCommit)
	case d.after > 0:
		s := fmt.Sprintf("%v after its start", d.after)
		if d.opened {
			s = fmt.Sprintf("%v after it opened", d.after)
		}
		if d.orphans {
			s += ", with its supervisors"
		}
		return s
	}
	return "by itself"
}

// enter starts a life, ends it as it is to die, and looks at what is left.
func (s *stage) enter(d death) (act, error) {
	l, err := s.live(len(s.acts)+1, d)
	if err != nil {
		return act{}, err
	}
	found, err := newLook(s, !l.Killed)
	if err != nil {
		return act{}, err
	}
	a := act{l, found}
	s.acts = append(s.acts, a)
	return a, nil
}

func (s *stage) live(number int, d death) (life, error) {
	l := life{Number: number, Started: now(), Orders: d.String()}
	cmd, reports, err := s.start(l.Number, d.atCommit)
	if err != nil {
		return l, err
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return l, err
	}
	shut(cmd.ExtraFiles[0])

	executed := make(chan error, 1)
	execute := func() { executed <- kill(cmd.Process.Pid, d.orphans) }
	var timer *time.Timer
	if d.after > 0 && !d.opened {
		timer = time.AfterFunc(d.after, execute)
	}
	limit := time.AfterFunc(lifeLimit, func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(reports)
	lines.Buffer(nil, 1<<20)
	for err == nil && lines.Scan() {
		var e event
		err = json.Unmarshal(lines.Bytes(), &e)
		l.Events = append(l.Events, e)
		if e.Kind == opened && d.after > 0 && d.opened {
			timer = time.AfterFunc(d.after, execute)
		}
	}
	// The process is over or about to be, and its number is not free before Wait.
	if timer != nil && !timer.Stop() {
		err = errors.Join(err, <-executed)
	}
	hung := !limit.Stop()
	_ = cmd.Wait() // how it ended is read below
	shut(reports)
	if err := errors.Join(err, lines.Err()); err != nil {
		return l, fmt.Errorf("life %d: %w", l.Number, err)
	}
	if hung {
		return l, fmt.Errorf("life %d did not end in %v", l.Number, lifeLimit)
	}
	l.Said = said.String()
	l.Killed = killed(cmd.ProcessState)
	return l, nil
}

// killed reports whether a process ended by SIGKILL.
func killed(p *os.ProcessState) bool {
	ws, ok := p.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL
}

// start prepares the process of a life; reports is where it speaks.
func (s *stage) start(number, dieAt int) (cmd *exec.Cmd, reports *os.File, err error) {
	text, err := json.Marshal(orders{
		Home: s.home(), Workspace: s.workspace(), Script: filepath.Join(s.dir, "script.json"),
		Number: number, Prompts: s.prompts, AbortOn: s.abortOn, DieAt: dieAt,
	})
	if err != nil {
		return nil, nil, err
	}
	reports, given, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	cmd = exec.Command("/proc/self/exe")
	cmd.Dir = s.dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool {
		return strings.HasPrefix(e, markVariable+"=") || strings.HasPrefix(e, "GOCOVERDIR=")
	})
	cmd.Env = append(cmd.Env, lifeVariable+"="+string(text), markVariable+"="+mark(s.home(), number))
	cmd.ExtraFiles = []*os.File{given}
	return cmd, reports, nil
}

func shut(f *os.File) { _ = f.Close() }
