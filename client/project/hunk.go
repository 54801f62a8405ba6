package project

import "strings"

// Hunk is a place where two texts differ. Lines are counted from 1; they are those of
// the texts that were compared, which may be a part of a file.
type Hunk struct {
	OldLine, NewLine int
	Rows             []Row
}

// Row is one line of a hunk.
type Row struct {
	Mark Mark
	Text string // without its newline
	// NoNewline marks the last line of a text that does not end in a newline.
	NoNewline bool
}

// Mark says on which side a line stands.
type Mark byte

// The marks.
const (
	Same    Mark = ' '
	Removed Mark = '-'
	Added   Mark = '+'
)

// context is how many equal lines stand around a difference.
const context = 3

// maxCells bounds the work of one comparison. Past it the middle of the texts is told
// as removed and added whole, which is true and no less readable.
const maxCells = 4 << 20

// Hunks compares two texts line by line. Applying the rows marked removed and added to
// the first gives the second.
func Hunks(before, after string) []Hunk {
	if before == after {
		return nil
	}
	return group(compare(lines(before), lines(after)))
}

// lines splits a text into lines with their newlines.
func lines(text string) []string {
	out := strings.SplitAfter(text, "\n")
	if out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	return out
}

// row is a line with its mark. A missing last newline is told.
func row(m Mark, line string) Row {
	text, ended := strings.CutSuffix(line, "\n")
	return Row{Mark: m, Text: text, NoNewline: !ended}
}

// compare finds a shortest way from a to b, after what they share at both ends.
func compare(a, b []string) []Row {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var rows []Row
	for _, l := range a[:head] {
		rows = append(rows, row(Same, l))
	}
	rows = append(rows, middle(a[head:len(a)-tail], b[head:len(b)-tail])...)
	for _, l := range a[len(a)-tail:] {
		rows = append(rows, row(Same, l))
	}
	return rows
}

// middle is the longest common subsequence, by the table of its lengths.
func middle(a, b []string) (rows []Row) {
	if len(a)*len(b) > maxCells {
		for _, l := range a {
			rows = append(rows, row(Removed, l))
		}
		for _, l := range b {
			rows = append(rows, row(Added, l))
		}
		return rows
	}
	width := len(b) + 1
	longest := make([]int32, (len(a)+1)*width)
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				longest[i*width+j] = longest[(i+1)*width+j+1] + 1
			} else {
				longest[i*width+j] = max(longest[(i+1)*width+j], longest[i*width+j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			rows = append(rows, row(Same, a[i]))
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && longest[(i+1)*width+j] >= longest[i*width+j+1]:
			rows = append(rows, row(Removed, a[i]))
			i++
		default:
			rows = append(rows, row(Added, b[j]))
			j++
		}
	}
	return rows
}

// group cuts the rows to what is around a difference.
func group(rows []Row) (hunks []Hunk) {
	oldLine, newLine := 1, 1
	var open *Hunk
	quiet := 0 // equal rows at the end of the open hunk
	for i, r := range rows {
		near := r.Mark != Same
		for k := i + 1; !near && k <= i+context && k < len(rows); k++ {
			near = rows[k].Mark != Same
		}
		if open == nil && near {
			hunks = append(hunks, Hunk{OldLine: oldLine, NewLine: newLine})
			open, quiet = &hunks[len(hunks)-1], 0
		}
		if open != nil {
			open.Rows = append(open.Rows, r)
			if r.Mark == Same {
				quiet++
			} else {
				quiet = 0
			}
			if quiet >= context && !near {
				open = nil
			}
		}
		if r.Mark != Added {
			oldLine++
		}
		if r.Mark != Removed {
			newLine++
		}
	}
	return hunks
}
