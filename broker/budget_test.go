package broker

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever is taken and given back in whatever order, no more commands run than may, no
// more time is set aside than is left, and what is asked for is refused for good only
// when nothing that is given back would help.
func TestAPoolIsNeverExceeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := Budget{Commands: rapid.IntRange(0, 3).Draw(t, "commands"), Wall: time.Duration(rapid.IntRange(0, 20).Draw(t, "wall"))}
		p := &pool{limit: limit}
		var out []share
		var used time.Duration
		held := func() (sum time.Duration) {
			for _, s := range out {
				sum += s.timeout
			}
			return sum
		}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				want := time.Duration(rapid.IntRange(0, 9).Draw(t, "want"))
				s, ok, err := p.take(want)
				full := limit.Commands > 0 && len(out) == limit.Commands
				dry := limit.Wall > 0 && used+held() >= limit.Wall
				_, spent := errors.AsType[*Spent](err)
				switch {
				case ok != (!full && !dry), spent != (!full && dry && len(out) == 0), err != nil && !spent:
					t.Fatalf("%v, %v with %d out, %v held and %v used of %+v", ok, err, len(out), held(), used, limit)
				case ok && want > 0 && (s.timeout > want || s.timeout == 0), ok && limit.Wall == 0 && s.timeout != want:
					t.Fatalf("%v of %v", s.timeout, want)
				case ok:
					out = append(out, s)
				}
			},
			"give": func(t *rapid.T) {
				if len(out) == 0 {
					t.Skip("nothing is out")
				}
				i := rapid.IntRange(0, len(out)-1).Draw(t, "which")
				s, took := out[i], time.Duration(rapid.IntRange(0, 30).Draw(t, "took"))
				changed := p.changed()
				p.give(s, took)
				out = slices.Delete(out, i, i+1)
				select {
				case <-changed:
				default:
					t.Fatal("nobody is told that there is room")
				}
				if limit.Wall > 0 {
					used += min(took, s.timeout)
				}
			},
			"": func(t *rapid.T) {
				if limit.Commands > 0 && len(out) > limit.Commands || limit.Wall > 0 && used+held() > limit.Wall || p.out != len(out) || limit.Wall > 0 && p.held != held() {
					t.Fatalf("%d out, %v held and %v used of %+v; the pool has %+v", len(out), held(), used, limit, p)
				}
			},
		})
	})
}
