package jail

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestTheLadder(t *testing.T) {
	happenings := rapid.SliceOfN(rapid.SampledFrom([]happening{mainExited, treeEmpty, endAsked, harnessGone, graceOver, sweepOver, nextRound}), 0, 30)
	rapid.Check(t, func(t *rapid.T) {
		var l ladder
		told := 0
		asked, gone, ended := false, false, false
		for _, h := range happenings.Draw(t, "happenings") {
			before := l
			var deeds []deed
			l, deeds = l.step(h)
			if l.phase < before.phase {
				t.Fatalf("%v: from phase %d back to %d", h, before.phase, l.phase)
			}
			if before.phase == over && (len(deeds) > 0 || l != before) {
				t.Fatalf("%v: does %v after the end", h, deeds)
			}
			if before.phase == over {
				continue
			}
			if gone && slices.Contains(deeds, tellExit) {
				t.Fatalf("%v: reports to a harness that is gone", h)
			}
			if h == harnessGone {
				gone = true
				if l.phase != killing || !slices.Contains(deeds, sendKill) {
					t.Fatalf("the harness is gone, but phase %d, deeds %v", l.phase, deeds)
				}
			}
			asked = asked || h == endAsked
			if (h == mainExited || h == treeEmpty) && !ended {
				ended = true
				if l.interrupted && !asked && !gone {
					t.Fatal("interrupted though nobody asked")
				}
			}
			if h == treeEmpty && (l.phase != over || !slices.Contains(deeds, leave)) {
				t.Fatalf("nothing is left, but phase %d, deeds %v", l.phase, deeds)
			}
			if slices.Contains(deeds, leave) && h != treeEmpty {
				t.Fatalf("%v: leaves while processes are alive", h)
			}
			for _, d := range deeds {
				if d == tellExit {
					told++
				}
			}
		}
		if told > 1 {
			t.Fatalf("reported %d times", told)
		}
		if l.phase == over && !gone && told != 1 {
			t.Fatalf("over, but reported %d times", told)
		}
	})
}

func TestTheLadderGivesTimeToEndAfterTerm(t *testing.T) {
	l, deeds := ladder{}.step(endAsked)
	if !slices.Equal(deeds, []deed{sendTerm, startGrace}) {
		t.Fatalf("asked to end: %v", deeds)
	}
	// The command itself is gone; its children still have their grace.
	l, deeds = l.step(mainExited)
	if len(deeds) != 0 {
		t.Fatalf("command gone within the grace: %v", deeds)
	}
	_, deeds = l.step(graceOver)
	if !slices.Equal(deeds, []deed{sendKill, startSweep}) {
		t.Fatalf("grace over: %v", deeds)
	}
}

func TestDescendantsAreExactlyThoseWhoseParentsLeadToTheRoot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "n")
		table := make([]process, 0, n)
		under := map[int]bool{1: true}
		for pid := 2; pid <= n+1; pid++ {
			p := process{pid: pid, parent: rapid.IntRange(0, pid-1).Draw(t, "parent"), start: 1, dead: rapid.Bool().Draw(t, "dead")}
			under[pid] = under[p.parent]
			table = append(table, p)
		}
		got := descendants(rapid.Permutation(table).Draw(t, "order"), 1)
		seen := map[int]bool{1: true}
		for _, p := range got {
			if seen[p.pid] || p.dead || !under[p.pid] {
				t.Fatalf("%+v must not be there (once)", p)
			}
			seen[p.pid] = true
		}
		for _, p := range table {
			if under[p.pid] && !p.dead && !seen[p.pid] {
				t.Fatalf("%+v is missing", p)
			}
		}
	})
}

func TestProcessStateWithAHostileName(t *testing.T) {
	rest := " S 7 8 9 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 12345 1000 200"
	for _, name := range []string{"sleep", "a b", ") R 1 (", "((", "\n"} {
		p, err := parseStat([]byte("42 (" + name + ")" + rest))
		if err != nil || p != (process{pid: 42, parent: 7, start: 12345}) {
			t.Errorf("name %q: %+v, %v", name, p, err)
		}
	}
}

func FuzzProcessState(f *testing.F) {
	f.Add([]byte("42 (sleep) S 7 8 9 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 12345 1000 200"))
	f.Add([]byte("1 (x) Z"))
	f.Add([]byte(")("))
	f.Fuzz(func(t *testing.T, text []byte) {
		if p, err := parseStat(text); err == nil && p.pid <= 0 {
			t.Errorf("%q names process %d", text, p.pid)
		}
	})
}
