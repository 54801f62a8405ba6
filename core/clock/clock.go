// Package clock is time as a value.
//
// # Purpose
//
// Pure code must not read the machine's clock. A [Clock] is handed in; reading
// it returns the time and the clock to read next, so that a test can script
// time and a replay sees the same times again.
//
// # Key types
//
// [Clock].
//
// # Relationships
//
// A leaf: imports nothing. Whoever owns the real clock (the composition root)
// wraps it with [Real].
//
// # Traffic
//
// None.
//
// # Invariants
//
// The zero Clock stands at 0 ms.
package clock

// Clock yields Unix milliseconds.
type Clock struct {
	read func() (int64, Clock)
}

// Now returns the current Unix time in milliseconds and the clock to use for
// the next reading.
func (c Clock) Now() (ms int64, next Clock) {
	if c.read == nil {
		return 0, c
	}
	return c.read()
}

// Real wraps a source of Unix milliseconds.
func Real(now func() int64) Clock {
	var c Clock
	c.read = func() (int64, Clock) { return now(), c }
	return c
}

// Fixed always stands at ms.
func Fixed(ms int64) Clock {
	var c Clock
	c.read = func() (int64, Clock) { return ms, c }
	return c
}

// Stepping starts at from and moves by step at each reading.
func Stepping(from, step int64) Clock {
	return Clock{read: func() (int64, Clock) { return from, Stepping(from+step, step) }}
}
