package sqlite

import (
	"fmt"
	"strings"
	"testing"
)

func TestStatIsReadBehindTheCommandName(t *testing.T) {
	tail := " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20"
	for stat, want := range map[string]string{
		"12 (loom)" + tail:                               "4242 true true",
		"12 (a) b (c) Z 1)" + tail:                       "4242 true true",
		"12 (loom)" + strings.Replace(tail, "S", "Z", 1): "4242 false true",
		"12 (loom) S 1":                                  " false false",
		"":                                               " false false",
	} {
		started, alive, known := parseStat(stat)
		if got := fmt.Sprint(started, " ", alive, " ", known); got != want {
			t.Errorf("%q: %q, want %q", stat, got, want)
		}
	}
}

func FuzzStat(f *testing.F) {
	f.Add("12 (loom) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20")
	f.Add("12 (a) b) Z")
	f.Fuzz(func(t *testing.T, stat string) {
		if started, alive, known := parseStat(stat); !known && (alive || started != "") {
			t.Errorf("%q, %v of a line that was not understood", started, alive)
		}
	})
}
