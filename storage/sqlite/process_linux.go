package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// thisProcess identifies the running process.
func thisProcess() Process {
	p := Process{PID: os.Getpid()}
	p.Host, _ = os.Hostname()
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return p
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return p
	}
	if started, alive, known := running(p.PID); known && alive {
		p.Started = strings.TrimSpace(string(boot)) + " " + namespace + " " + started
	}
	return p
}

// running looks a pid up in /proc. A mount that hides other users' processes
// shows a live one as missing, so a missing one is asked for once more.
func running(pid int) (started string, alive, known bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH):
		return "", false, errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	case err != nil:
		return "", false, false
	}
	return parseStat(string(stat))
}

// parseStat reads the state, field 3, and the start time, field 22. The command
// name before them is in parentheses and may hold anything.
func parseStat(stat string) (started string, alive, known bool) {
	i := strings.LastIndexByte(stat, ')')
	if i < 0 {
		return "", false, false
	}
	fields := strings.Fields(stat[i+1:])
	if len(fields) < 20 {
		return "", false, false
	}
	state := fields[0]
	return fields[19], state != "Z" && state != "X", true
}
