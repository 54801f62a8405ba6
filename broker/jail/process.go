package jail

import (
	"bytes"
	"errors"
	"strconv"
)

// process is one line of the process table.
type process struct {
	pid, parent int
	start       uint64 // clock ticks since boot; with pid it names one process for ever
	dead        bool   // ended, but not reaped
}

var errStat = errors.New("jail: malformed process state")

// parseStat reads /proc/<pid>/stat. The name of the program stands in
// parentheses and may itself hold any byte, so fields are counted from the last
// closing one.
func parseStat(text []byte) (process, error) {
	open, closing := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 1 || closing < open {
		return process{}, errStat
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text[:open])))
	if err != nil || pid <= 0 {
		return process{}, errStat
	}
	// After the name: state, parent, … ; the start time is the 20th of them.
	fields := bytes.Fields(text[closing+1:])
	if len(fields) < 20 || len(fields[0]) != 1 {
		return process{}, errStat
	}
	parent, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		return process{}, errStat
	}
	start, err := strconv.ParseUint(string(fields[19]), 10, 64)
	if err != nil {
		return process{}, errStat
	}
	state := fields[0][0]
	return process{pid: pid, parent: parent, start: start, dead: state == 'Z' || state == 'X'}, nil
}

// descendants returns the living processes under root, parents before their
// children. Dead ones are walked through: their children are already moved to
// the subreaper, but a table read while that happens may not show it.
func descendants(table []process, root int) []process {
	children := make(map[int][]process, len(table))
	for _, p := range table {
		children[p.parent] = append(children[p.parent], p)
	}
	var out []process
	seen := map[int]bool{root: true}
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		for _, p := range children[queue[0]] {
			if seen[p.pid] {
				continue // a number reused while the table was read
			}
			seen[p.pid] = true
			queue = append(queue, p.pid)
			if !p.dead {
				out = append(out, p)
			}
		}
	}
	return out
}
