//go:build !linux

package sqlite

import "os"

// thisProcess identifies the running process. Its start is not known here, so a
// holder is never provably dead and its lease has to expire.
func thisProcess() Process {
	host, _ := os.Hostname()
	return Process{PID: os.Getpid(), Host: host}
}

func running(int) (started string, alive, known bool) { return "", false, false }
