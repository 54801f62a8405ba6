package id

import (
	"encoding/binary"

	"github.com/loom-run/loom/core/clock"
)

// Generator mints ids. It is a value: each method returns the successor, which
// the caller must use from then on.
type Generator struct {
	clock clock.Clock
	state uint64
}

// NewGenerator starts at seed.
func NewGenerator(c clock.Clock, seed uint64) Generator { return Generator{clock: c, state: seed} }

// Entry mints an EntryID.
func (g Generator) Entry() (EntryID, Generator) {
	u, g := g.mint()
	return EntryID{u}, g
}

// Usage mints a UsageID.
func (g Generator) Usage() (UsageID, Generator) {
	u, g := g.mint()
	return UsageID{u}, g
}

// Op mints an OpID.
func (g Generator) Op() (OpID, Generator) {
	u, g := g.mint()
	return OpID{u}, g
}

// Session mints a SessionID.
func (g Generator) Session() (SessionID, Generator) {
	u, g := g.mint()
	return SessionID{u}, g
}

// Follower mints an EntryID with the time prefix of leader and a fresh tail;
// the clock is not read. A tool result's id follows its call's message, so that
// the group stays together in id order even when a tool runs past midnight.
func (g Generator) Follower(leader EntryID) (EntryID, Generator) {
	u, g := g.tail(leader.Time())
	return EntryID{u}, g
}

// Draw returns 64 pseudo-random bits, for seeding another generator.
func (g Generator) Draw() (uint64, Generator) { return g.next() }

func (g Generator) mint() (uuid, Generator) {
	var ms int64
	ms, g.clock = g.clock.Now()
	return g.tail(ms)
}

// tail draws rand_a, then rand_b.
func (g Generator) tail(ms int64) (uuid, Generator) {
	a, g := g.next()
	b, g := g.next()
	return layout(ms, a, b), g
}

// layout puts together 48 bits of time, 12 of a and 62 of b.
func layout(ms int64, a, b uint64) (u uuid) {
	binary.BigEndian.PutUint64(u[:8], uint64(ms)<<16|0x7000|a&0x0fff)
	binary.BigEndian.PutUint64(u[8:], b&(1<<62-1)|1<<63)
	return u
}

// next is one step of SplitMix64.
func (g Generator) next() (uint64, Generator) {
	g.state += 0x9E3779B97F4A7C15
	z := g.state
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31, g
}
