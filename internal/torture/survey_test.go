//go:build linux

package torture

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/storage"
)

// survey is everything that a store holds, each row as a fingerprint of its stored text.
type survey struct {
	NextSeq   int64
	Rows      map[int64]string  // entries and ledger rows by seq
	Registers map[string]string // by address
	Damage    []string
}

// newSurvey walks a whole store.
func newSurvey(w storage.Walker) (survey, error) {
	s := survey{Rows: map[int64]string{}, Registers: map[string]string{}}
	err := w.Walk(surveyor{&s})
	return s, err
}

// whole names the state: two stores that hold the same have the same.
func (s survey) whole() string {
	var lines []string
	for seq, row := range s.Rows {
		lines = append(lines, fmt.Sprint(seq, " ", row))
	}
	for address, cell := range s.Registers {
		lines = append(lines, address+" "+cell)
	}
	slices.Sort(lines)
	return fmt.Sprint(s.NextSeq, " ", digest([]byte(strings.Join(lines, "\n"))))
}

func entryRow(e entry.Entry) string { return "entry " + e.ID.String() + " " + digest(entry.Encode(e)) }

func usageRow(u entry.UsageRow) string {
	w := jsonv.NewWriter(nil)
	entry.AppendUsageRow(w, u)
	return "usage " + u.ID.String() + " " + digest(w.Bytes())
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

type surveyor struct{ s *survey }

func (v surveyor) Session(_ storage.Stats, nextSeq int64) { v.s.NextSeq = nextSeq }

func (v surveyor) Entry(e entry.Entry) { v.s.Rows[e.Seq] = entryRow(e) }

func (v surveyor) Usage(u entry.UsageRow) { v.s.Rows[u.Seq] = usageRow(u) }

func (v surveyor) Register(ns, key string, c register.Cell) {
	v.s.Registers[ns+"/"+key] = fmt.Sprint(c.Seq, " ", digest([]byte(c.Value.String())))
}

func (v surveyor) Damage(d storage.Damage) { v.s.Damage = append(v.s.Damage, d.String()) }
