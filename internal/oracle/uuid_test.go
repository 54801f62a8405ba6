package oracle_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/id"
	"pgregory.net/rapid"
)

func TestMintedIdsAreVersion7ForOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(0, 1<<48-1).Draw(t, "ms")
		g := id.NewGenerator(clock.Fixed(ms), rapid.Uint64().Draw(t, "seed"))
		leader, g := g.Entry()
		follower, _ := g.Follower(leader)
		for _, i := range []id.EntryID{leader, follower} {
			u, err := uuid.FromString(i.String())
			if err != nil || u.Version() != uuid.V7 || u.Variant() != uuid.VariantRFC9562 || u.String() != i.String() {
				t.Fatalf("%s is version %d, variant %d, %v", i, u.Version(), u.Variant(), err)
			}
			// The library counts 100 ns steps of the Gregorian calendar.
			stamp, err := uuid.TimestampFromV7(u)
			if err != nil {
				t.Fatal(err)
			}
			at, err := stamp.Time()
			if err != nil || at.UnixMilli() != ms || i.Time() != ms {
				t.Fatalf("%s is of %d, and of %d for the other, want %d, %v", i, i.Time(), at.UnixMilli(), ms, err)
			}
		}
	})
}

func TestIdsOfOthersAreRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(0, 1<<47).Draw(t, "ms")
		noise := rapid.SliceOfN(rapid.Byte(), 64, 64).Draw(t, "noise")
		u, err := uuid.NewGenWithOptions(uuid.WithRandomReader(bytes.NewReader(noise))).NewV7AtTime(time.UnixMilli(ms))
		if err != nil {
			t.Fatal(err)
		}
		if i, err := id.ParseOpID(u.String()); err != nil || i.String() != u.String() || i.Time() != ms {
			t.Fatalf("%s of %d reads as %s of %d, %v", u, ms, i, i.Time(), err)
		}
	})
}

func TestOnlyVersion7IsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u, err := uuid.FromBytes(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "bytes"))
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "version 7?") {
			u.SetVersion(uuid.V7)
		}
		if rapid.Bool().Draw(t, "variant?") {
			u.SetVariant(uuid.VariantRFC9562)
		}
		_, err = id.ParseSessionID(u.String())
		if want := u.Version() == uuid.V7 && u.Variant() == uuid.VariantRFC9562; (err == nil) != want {
			t.Fatalf("%s: %v; the other says version %d, variant %d", u, err, u.Version(), u.Variant())
		}
	})
}
