package id

import (
	"testing"

	"github.com/loom-run/loom/core/clock"
	"pgregory.net/rapid"
)

func TestGeneratorMintsThePublishedVectors(t *testing.T) {
	for _, v := range []struct {
		seed          uint64
		ms            int64
		first, second string
	}{
		{0, 0, "00000000-0000-7daf-ae78-9e6aa1b965f4", "00000000-0000-754f-b88b-b8a8724c81ec"},
		{42, 0, "00000000-0000-7e95-a8ef-e333b266f103", "00000000-0000-7f52-981c-e1ff0e4ae394"},
		{42, 1000, "00000000-03e8-7e95-a8ef-e333b266f103", "00000000-03e8-7f52-981c-e1ff0e4ae394"},
		{1, 1767225600000, "019b76da-a800-7cc1-beeb-8da1658eec67", "019b76da-a800-755e-b1c1-8690ee42c90b"},
	} {
		g := NewGenerator(clock.Fixed(v.ms), v.seed)
		a, g := g.Entry()
		b, _ := g.Op()
		f, _ := g.Follower(a)
		if a.String() != v.first || b.String() != v.second || f.String() != v.second {
			t.Errorf("seed %d at %d: got %v, %v, follower %v", v.seed, v.ms, a, b, f)
		}
		if a.Time() != v.ms {
			t.Errorf("time of %v = %d, want %d", a, a.Time(), v.ms)
		}
	}
}

func TestSplitMixStartsAsPublished(t *testing.T) {
	g := NewGenerator(clock.Fixed(0), 0)
	for _, want := range []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f} {
		var got uint64
		if got, g = g.next(); got != want {
			t.Errorf("got %x, want %x", got, want)
		}
	}
}

func TestFollowerDoesNotReadTheClock(t *testing.T) {
	reads := 0
	g := NewGenerator(clock.Real(func() int64 { reads++; return 7 }), 1)
	leader, g := g.Entry()
	if f, _ := g.Follower(leader); f.Time() != leader.Time() || reads != 1 {
		t.Errorf("follower at %d after %d readings", f.Time(), reads)
	}
}

func TestParseIsTheInverseOfString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := NewGenerator(clock.Fixed(rapid.Int64Range(0, 1<<48-1).Draw(t, "ms")), rapid.Uint64().Draw(t, "seed"))
		want, _ := g.Session()
		got, err := ParseSessionID(want.String())
		if err != nil || got != want {
			t.Fatalf("%v: got %v, %v", want, got, err)
		}
	})
}

func TestParseRefusesOtherShapes(t *testing.T) {
	for _, s := range []string{
		"", "019b76da-a800-7cc1-beeb-8da1658eec6", "019b76da-a800-7cc1-beeb-8da1658eec677",
		"019b76da-a800-4cc1-beeb-8da1658eec67",                                         // version 4
		"019b76da-a800-7cc1-ceeb-8da1658eec67",                                         // variant
		"019b76da0a800-7cc1-beeb-8da1658eec67", "019b76da-a80007cc1-beeb-8da1658eec67", // each group ends in a dash
		"019b76da-a800-7cc10beeb-8da1658eec67", "019b76da-a800-7cc1-beeb08da1658eec67",
		"019b76da-a800-6cc1-beeb-8da1658eec67", "019b76da-a800-8cc1-beeb-8da1658eec67",
		"019b76da-a800-7cc1-7eeb-8da1658eec67", "019b76da-a800-7cc1-eeeb-8da1658eec67",
		"{19b76da-a800-7cc1-beeb-8da1658eec67", "019b76daa-800-7cc1-beeb-8da1658eec67",
		"+19b76da-a800-7cc1-beeb-8da1658eec67", "019b76da-a800-7cc1-beeb-8da1658eec6g",
	} {
		if _, err := ParseEntryID(s); err == nil {
			t.Errorf("%q was accepted", s)
		}
	}
	if got, err := ParseEntryID("019B76DA-A800-7CC1-BEEB-8DA1658EEC67"); err != nil || got.String() != "019b76da-a800-7cc1-beeb-8da1658eec67" {
		t.Errorf("upper case: %v, %v", got, err)
	}
}
