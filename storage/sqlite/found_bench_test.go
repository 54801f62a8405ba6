package sqlite

import (
	"fmt"
	"path/filepath"
	"testing"
)

// BenchmarkFound makes a session file and closes it.
func BenchmarkFound(b *testing.B) {
	dir := b.TempDir()
	n := 0
	for b.Loop() {
		n++
		s, err := Open(Config{Path: filepath.Join(dir, fmt.Sprint(n, ".db")), Owner: "bench", Clock: wallClock, Create: true})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
