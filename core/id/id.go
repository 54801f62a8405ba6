// Package id mints and reads the four kinds of identity: UUIDv7 values that sort
// by the time they were minted.
//
// # Purpose
//
// An entry, a ledger row, an operation and a session each have an id of its own
// type, so that one can never stand where another belongs.
//
// # Key types
//
// [EntryID], [UsageID], [OpID], [SessionID]; [Generator] mints them from an
// injected clock and a seeded SplitMix64 state.
//
// # Relationships
//
// Imports core/clock and core/corrupt.
//
// # Traffic
//
// None.
//
// # Invariants
//
// The zero value of each type means "absent" and is never minted or parsed.
// Minting is pure: the same generator value always mints the same ids, and
// returns the successor to use next. A generator whose ids were committed must
// not be used again: production seeds come from the system's entropy, once for
// each opening of a session.
package id

import (
	"encoding/binary"

	"github.com/loom-run/loom/core/corrupt"
)

// uuid is the shared shape: 48 bits of Unix ms, version 7, 12 random bits,
// variant 10, 62 random bits.
type uuid [16]byte

// EntryID names a row of the conversation tree. Step ids and task ids are the
// text of an EntryID that never becomes an entry.
type EntryID struct{ u uuid }

// UsageID names a row of the usage ledger; it shares one namespace with EntryID.
type UsageID struct{ u uuid }

// OpID names one operation.
type OpID struct{ u uuid }

// SessionID names a whole session.
type SessionID struct{ u uuid }

// String returns the lower-case text 8-4-4-4-12, or "" for an absent id.
func (i EntryID) String() string   { return i.u.text() }
func (i UsageID) String() string   { return i.u.text() }
func (i OpID) String() string      { return i.u.text() }
func (i SessionID) String() string { return i.u.text() }

// IsZero reports whether the id is absent.
func (i EntryID) IsZero() bool   { return i.u == uuid{} }
func (i UsageID) IsZero() bool   { return i.u == uuid{} }
func (i OpID) IsZero() bool      { return i.u == uuid{} }
func (i SessionID) IsZero() bool { return i.u == uuid{} }

// Time returns the 48-bit Unix ms that the id was minted at.
func (i EntryID) Time() int64   { return i.u.time() }
func (i UsageID) Time() int64   { return i.u.time() }
func (i OpID) Time() int64      { return i.u.time() }
func (i SessionID) Time() int64 { return i.u.time() }

// ParseEntryID reads the text form. Upper case is accepted; any other version,
// variant, grouping or length is a [*corrupt.Report].
func ParseEntryID(s string) (EntryID, error) {
	u, err := parse("id.ParseEntryID", s)
	return EntryID{u}, err
}

// ParseUsageID is [ParseEntryID] for usage ids.
func ParseUsageID(s string) (UsageID, error) {
	u, err := parse("id.ParseUsageID", s)
	return UsageID{u}, err
}

// ParseOpID is [ParseEntryID] for operation ids.
func ParseOpID(s string) (OpID, error) {
	u, err := parse("id.ParseOpID", s)
	return OpID{u}, err
}

// ParseSessionID is [ParseEntryID] for session ids.
func ParseSessionID(s string) (SessionID, error) {
	u, err := parse("id.ParseSessionID", s)
	return SessionID{u}, err
}

const hexDigits = "0123456789abcdef"

func (u uuid) text() string {
	if u == (uuid{}) {
		return ""
	}
	var b [36]byte
	n := 0
	for i, c := range u {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			b[n] = '-'
			n++
		}
		b[n], b[n+1] = hexDigits[c>>4], hexDigits[c&15]
		n += 2
	}
	return string(b[:])
}

func (u uuid) time() int64 { return int64(binary.BigEndian.Uint64(u[:8]) >> 16) }

func parse(boundary, s string) (uuid, error) {
	var u uuid
	bad := func() (uuid, error) {
		return uuid{}, corrupt.New(boundary, "id", "a UUID of version 7 as 8-4-4-4-12 hexadecimal digits", s)
	}
	if len(s) != 36 {
		return bad()
	}
	n := 0
	for i := 0; i < len(s); {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if s[i] != '-' {
				return bad()
			}
			i++
			continue
		}
		hi, lo := nibble(s[i]), nibble(s[i+1])
		if hi > 15 || lo > 15 {
			return bad()
		}
		u[n] = hi<<4 | lo
		n++
		i += 2
	}
	if u[6]>>4 != 7 || u[8]>>6 != 2 {
		return bad()
	}
	return u, nil
}

func nibble(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	}
	return 0xff
}
