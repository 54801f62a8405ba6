package id

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/internal/cases"
	"pgregory.net/rapid"
)

// vectors are those of RFC 9562 and the validity tests of another implementation.
type vectors struct {
	RFC struct {
		UUID  string `json:"uuid"`
		Lower string `json:"lower"`
		MS    int64  `json:"unix_ts_ms"`
		RandA string `json:"rand_a"`
		RandB string `json:"rand_b"`
	} `json:"rfc_v7"`
	Tests []struct {
		Value   any  `json:"value"`
		Valid   bool `json:"expectedValidate"`
		Version int  `json:"expectedVersion"`
	} `json:"uuidjs_tests"`
}

func readVectors(t *testing.T) (v vectors) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(cases.Dir(t), "uuid", "vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestTheVectorOfTheStandard(t *testing.T) {
	v := readVectors(t).RFC
	bits := func(s string) uint64 {
		n, err := strconv.ParseUint(s, 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	want, err := ParseSessionID(v.UUID)
	if err != nil {
		t.Fatal(err)
	}
	if want.String() != v.Lower || want.Time() != v.MS {
		t.Errorf("%s reads as %s at %d", v.UUID, want, want.Time())
	}
	if got := layout(v.MS, bits(v.RandA), bits(v.RandB)); got != want.u {
		t.Errorf("these bits make %s, want %s", got.text(), v.Lower)
	}
	// What a draw has beyond the bits that an id holds does not show, nor does time beyond 48 bits.
	if got := layout(v.MS|1<<48, bits(v.RandA)|(1<<64-1<<12), bits(v.RandB)|3<<62); got != want.u {
		t.Errorf("higher bits make %s, want %s", got.text(), v.Lower)
	}
	leader := EntryID(want)
	follower, _ := NewGenerator(clock.Fixed(0), 9).Follower(leader)
	if f := follower.String(); f[:14] != v.Lower[:14] || f == v.Lower || !strings.ContainsAny(f[19:20], "89ab") {
		t.Errorf("a follower of %s is %s", leader, f)
	}
}

func TestValidityAgreesWithAnotherImplementation(t *testing.T) {
	tests := readVectors(t).Tests
	sevens := 0
	for _, c := range tests {
		text, ok := c.Value.(string)
		if !ok {
			continue // values of other types have no counterpart here
		}
		want := c.Valid && c.Version == 7
		_, err := ParseEntryID(text)
		if (err == nil) != want {
			t.Errorf("%s: %v, want valid %v", text, err, want)
		}
		if _, ok := corrupt.As(err); err != nil && !ok {
			t.Errorf("%s: %T", text, err)
		}
		if want {
			sevens++
		}
	}
	if len(tests) < 100 || sevens == 0 {
		t.Errorf("%d tests, %d of version 7", len(tests), sevens)
	}
}

func TestTextsSortByTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		early := rapid.Int64Range(0, 1<<48-2).Draw(t, "early")
		late := rapid.Int64Range(early+1, 1<<48-1).Draw(t, "late")
		a, _ := NewGenerator(clock.Fixed(early), rapid.Uint64().Draw(t, "seed")).Op()
		b, _ := NewGenerator(clock.Fixed(late), rapid.Uint64().Draw(t, "seed")).Op()
		if a.String() >= b.String() {
			t.Fatalf("%s of %d does not sort before %s of %d", a, early, b, late)
		}
	})
}

func TestAGeneratorIsAValue(t *testing.T) {
	g := NewGenerator(clock.Stepping(5, 10), 3)
	a, next := g.Entry()
	again, _ := g.Entry()
	if a != again {
		t.Errorf("the same generator minted %s and %s", a, again)
	}
	b, next := next.Usage()
	c, next := next.Session()
	d, _ := next.Op()
	if b.Time() != 15 || c.Time() != 25 || d.Time() != 35 {
		t.Errorf("times %d, %d, %d", b.Time(), c.Time(), d.Time())
	}
	seen := map[string]bool{a.String(): true, b.String(): true, c.String(): true, d.String(): true}
	if len(seen) != 4 {
		t.Errorf("repeated ids: %v", seen)
	}
}

func TestAbsentIDs(t *testing.T) {
	if (EntryID{}).String()+(UsageID{}).String()+(OpID{}).String()+(SessionID{}).String() != "" {
		t.Error("an absent id has a text")
	}
	if !(EntryID{}).IsZero() || !(UsageID{}).IsZero() || !(OpID{}).IsZero() || !(SessionID{}).IsZero() {
		t.Error("an absent id is present")
	}
	g := NewGenerator(clock.Fixed(0), 0)
	if i, _ := g.Entry(); i.IsZero() {
		t.Error("a minted id is absent")
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "019b76da-a800-7cc1-beeb-8da1658eec67", "019B76DA-A800-7CC1-BEEB-8DA1658EEC67", "019b76da-a800-4cc1-beeb-8da1658eec67"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		i, err := ParseEntryID(s)
		u, err2 := ParseUsageID(s)
		o, err3 := ParseOpID(s)
		n, err4 := ParseSessionID(s)
		if (err == nil) != (err2 == nil) || (err == nil) != (err3 == nil) || (err == nil) != (err4 == nil) {
			t.Fatalf("%q: %v, %v, %v, %v", s, err, err2, err3, err4)
		}
		if err != nil {
			if r, ok := corrupt.As(err); !ok || len(r.Error()) > 20_000 || !i.IsZero() {
				t.Fatalf("%q: %v with %s", s, err, i)
			}
			return
		}
		if want := strings.ToLower(s); i.String() != want || u.String() != want || o.String() != want || n.String() != want || i.Time() < 0 || i.Time() >= 1<<48 {
			t.Fatalf("%q became %s", s, i)
		}
	})
}
