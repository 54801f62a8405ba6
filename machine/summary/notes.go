package summary

import (
	"fmt"
	"slices"
	"strings"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/machine"
)

// maxNotes bounds the bytes of an agent's own notes in a checkpoint.
const maxNotes = 16_384

// Note is something that an agent wrote down for itself.
type Note struct {
	Name string
	Text string
	Seq  int64 // of its last change
}

// Checkpoint is what is known of a compaction for which no model is asked.
type Checkpoint struct {
	Ordinal      int // of the compactions of this branch, from 1
	Notes        []Note
	Previous     id.EntryID // the compaction before it; may be absent
	Instructions *string
}

// Notes is the text of a compaction that is made of the agent's own notes: newest
// first, as many as there is room for, fenced as the data that they are.
func Notes(prep *machine.CompactionPreparation, c Checkpoint) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The conversation was compacted for the %s time: %d older messages of about %d tokens were cut and %d were kept. "+
		"What you wrote down is all that you have of what was cut.\n", ordinal(c.Ordinal), len(prep.MessagesToSummarize), prep.TokensBefore, len(prep.RetainedTail))
	notes := slices.Clone(c.Notes)
	slices.SortStableFunc(notes, func(a, b Note) int { return int(max(-1, min(1, b.Seq-a.Seq))) })
	room, left := maxNotes, 0
	for _, n := range notes {
		text := fmt.Sprintf("\n### %s\n%s\n", strings.Join(strings.Fields(n.Name), " "), fenced(n.Text))
		if len(text) > room {
			left++
			continue
		}
		room -= len(text)
		b.WriteString(text)
	}
	if len(notes) == 0 {
		b.WriteString("\nThere are no notes.\n")
	}
	if left > 0 {
		fmt.Fprintf(&b, "\n(%d notes did not fit.)\n", left)
	}
	if c.Instructions != nil && strings.TrimSpace(*c.Instructions) != "" {
		fmt.Fprintf(&b, "\nThe person who asked for this adds:\n%s\n", fenced(strings.TrimSpace(*c.Instructions)))
	}
	if !c.Previous.IsZero() {
		fmt.Fprintf(&b, "\nThe checkpoint before this one is entry %s.\n", c.Previous)
	}
	return b.String()
}

func ordinal(n int) string {
	switch n {
	case 1:
		return "first"
	case 2:
		return "second"
	case 3:
		return "third"
	}
	return fmt.Sprintf("%dth", n)
}

// fenced quotes a text in a fence that is longer than any in it.
func fenced(s string) string {
	longest, run := 2, 0
	for _, c := range s {
		if c == '`' {
			run++
			longest = max(longest, run)
		} else {
			run = 0
		}
	}
	fence := strings.Repeat("`", longest+1)
	return fence + "\n" + s + "\n" + fence
}
