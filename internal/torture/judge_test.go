//go:build linux

package torture

import (
	"fmt"
	"slices"
	"strings"
)

// rule is one thing that no death may break.
type rule string

const (
	keepsCommits  rule = "keeps-commits"   // what was durable before a death is there after it
	keepsRows     rule = "keeps-rows"      // what one look saw, the next one sees
	wholeAtCommit rule = "whole-at-commit" // after a death at a commit the store is what it was at that commit
	keepsPrompts  rule = "keeps-prompts"   // an acknowledged prompt is there, once
	runsOnce      rule = "runs-once"       // no unsafe tool runs twice
	answersOnce   rule = "answers-once"    // a call has one result, at the end exactly one
	tellsTruth    rule = "tells-truth"     // a result says what happened, or that it is not known
	keepsOutputs  rule = "keeps-outputs"   // the large output that a result refers to is there, whole
	keepsOrder    rule = "keeps-order"     // the branch is the beginning of the play, at the end all of it
	sound         rule = "sound"           // the check finds nothing
	goesOn        rule = "goes-on"         // a life that is not killed ends the work
	endsAsWritten rule = "ends-as-written" // operations have the outcome of the play
	leavesNothing rule = "leaves-nothing"  // nothing of an earlier life runs once the session is open again
	opensAtOnce   rule = "opens-at-once"   // the lease of a dead process is not waited for
)

// rules are all of them.
var rules = []rule{
	keepsCommits, keepsRows, wholeAtCommit, keepsPrompts, runsOnce, answersOnce, tellsTruth, keepsOutputs, keepsOrder, sound, goesOn, endsAsWritten, leavesNothing,
	opensAtOnce,
}

// fault is a broken rule.
type fault struct {
	rule   rule
	detail string
}

func (f fault) String() string { return string(f.rule) + ": " + f.detail }

// judge compares what lives said with what was found after the last of them. reference is the results of the calls where nobody was killed; over says
// that the last life was let live.
func judge(p play, reference map[string]string, acts []act, over bool) []fault {
	j := &judgement{play: p, reference: reference, acts: acts, last: acts[len(acts)-1].look, over: over}
	j.store()
	j.prompts()
	j.effects()
	j.results()
	j.outputs()
	j.branch()
	j.endings()
	j.processes()
	for _, f := range j.last.Findings {
		j.find(sound, "%s", f)
	}
	if len(j.last.Made) > 1 || !slices.Equal(j.last.Made, j.last.Listed) {
		j.find(sound, "the sessions %v were made, and %v are listed", j.last.Made, j.last.Listed)
	}
	return j.faults
}

type judgement struct {
	play
	reference map[string]string
	acts      []act
	last      look
	over      bool
	faults    []fault
}

func (j *judgement) find(r rule, format string, args ...any) {
	j.faults = append(j.faults, fault{r, fmt.Sprintf(format, args...)})
}

// store looks for commits and rows that are gone.
func (j *judgement) store() {
	for _, a := range j.acts {
		for _, e := range a.life.Events {
			if e.Kind == committed {
				j.commit(a.life.Number, e)
			}
		}
	}
	if n := len(j.acts); n > 1 {
		for name, before := range j.acts[n-2].look.Stores {
			after := j.last.Stores[name]
			for seq, row := range before.Rows {
				if after.Rows[seq] != row {
					j.find(keepsRows, "session %s, seq %d: %q was %q", name, seq, after.Rows[seq], row)
				}
			}
			if after.NextSeq < before.NextSeq {
				j.find(keepsRows, "session %s: the next seq was %d and is %d", name, before.NextSeq, after.NextSeq)
			}
		}
	}
	end := j.acts[len(j.acts)-1].life
	if n := len(end.Events); n > 0 && end.Events[n-1].Whole != "" {
		e := end.Events[n-1]
		if is := j.last.Stores[e.Session].whole(); is != e.Whole {
			j.find(wholeAtCommit, "session %s was %s and is %s", e.Session, e.Whole, is)
		}
	}
}

func (j *judgement) commit(life int, e event) {
	s, ok := j.last.Stores[e.Session]
	if !ok {
		j.find(keepsCommits, "session %s, to which life %d committed, is gone", e.Session, life)
		return
	}
	if s.NextSeq <= e.Last {
		j.find(keepsCommits, "life %d committed seqs %d to %d, and the next one is %d", life, e.First, e.Last, s.NextSeq)
	}
	for seq, row := range e.Rows {
		if s.Rows[seq] != row {
			j.find(keepsCommits, "life %d committed %q as seq %d, which is %q", life, row, seq, s.Rows[seq])
		}
	}
}

func (j *judgement) prompts() {
	times := map[string]int{}
	for _, text := range j.last.Placed {
		times[text]++
	}
	for _, text := range j.play.prompts {
		if n := times[text]; n > 1 || j.over && n != 1 {
			j.find(keepsPrompts, "%q is there %d times", text, n)
		}
	}
	for _, a := range j.acts {
		for _, e := range a.life.Events {
			if e.Kind == prompted && j.last.Placed[e.Prompt.Entry] != e.Prompt.Text {
				j.find(keepsPrompts, "%q was acknowledged to life %d as %s, which is %q", e.Prompt.Text, a.life.Number, e.Prompt.Entry, j.last.Placed[e.Prompt.Entry])
			}
		}
	}
}

// effects counts what unsafe calls did.
func (j *judgement) effects() {
	for id, n := range j.last.Effects {
		c, known := j.call(id)
		switch {
		case !known || !c.effect:
			j.find(tellsTruth, "the file of effects has the line %q", id)
		case n > 1:
			j.find(runsOnce, "%s ran %d times", id, n)
		case j.last.Calls[id] == 0:
			j.find(tellsTruth, "%s ran and nobody called it", id)
		}
	}
	if n := strings.Count(j.last.Counter, "x"); n > 1 {
		j.find(runsOnce, "edit-1 ran %d times", n)
	}
	if n := strings.Count(j.last.Output, "bash-1"); n > 1 {
		j.find(runsOnce, "bash-1 wrote %d times to %s", n, outputFile)
	}
}

func (j *judgement) results() {
	for id, n := range j.last.Calls {
		results := j.last.Results[id]
		switch {
		case n > 1:
			j.find(answersOnce, "%s was called %d times", id, n)
		case len(results) > 1, j.over && len(results) == 0:
			j.find(answersOnce, "%s has %d results", id, len(results))
		}
	}
	for id, results := range j.last.Results {
		c, known := j.call(id)
		if !known || j.last.Calls[id] == 0 {
			j.find(answersOnce, "there is a result of %s, which nobody called", id)
			continue
		}
		for _, r := range results {
			j.result(c, r.Text)
		}
	}
	if j.came("write-1") == succeeded && !strings.HasPrefix(j.last.Output, "written\n") {
		j.find(tellsTruth, "write-1 succeeded, and %s is %q", outputFile, j.last.Output)
	}
	if j.came("write-1") == succeeded && j.came("bash-1") == succeeded && j.last.Output != "written\nbash-1\n" {
		j.find(runsOnce, "write-1 and bash-1 succeeded, and %s is %q", outputFile, j.last.Output)
	}
	if j.came("edit-1") == succeeded && !strings.Contains(j.last.Counter, "x") {
		j.find(tellsTruth, "edit-1 succeeded, and %s is %q", counterFile, j.last.Counter)
	}
}

// result judges what one result says.
func (j *judgement) result(c call, text string) {
	n := j.last.Effects[c.id]
	switch outcomeOf(j.reference[c.id], c, text) {
	case succeeded:
		if c.effect && n != 1 {
			j.find(tellsTruth, "%s says %.60q and left %d effects", c.id, text, n)
		}
	case unknown:
		if c.safe() && !slices.Contains(j.last.Endings, "aborted") && !slices.Contains(j.last.Phases, phaseCancelled) { // an aborted run repeats nothing
			j.find(tellsTruth, "%s can be run again, and its outcome is called unknown", c.id)
		}
		if !j.flew(c.id) {
			j.find(tellsTruth, "%s was not in flight at any death, and its outcome is called unknown", c.id)
		}
	case notRun:
		if n != 0 {
			j.find(tellsTruth, "%s says that it was not run and left %d effects", c.id, n)
		}
		if j.abortOn == "" {
			j.find(tellsTruth, "%s was not run, and nobody aborted", c.id)
		}
	case other:
		j.find(tellsTruth, "%s says %.200q, where %.200q was expected", c.id, text, j.reference[c.id])
	}
}

func (j *judgement) outputs() {
	for name, whole := range j.last.Kept {
		if !whole {
			j.find(keepsOutputs, "the output %s is not there", name)
		}
	}
	if j.over && j.last.Halves > 0 {
		j.find(keepsOutputs, "%d halves of outputs are left", j.last.Halves)
	}
}

// flew reports whether a call was in flight when some life ended.
func (j *judgement) flew(id string) bool {
	return slices.ContainsFunc(j.acts, func(a act) bool { _, yes := a.look.Flying[id]; return yes })
}

// outcome is what a result says of its call.
type outcome int

const (
	none      outcome = iota // there is no result
	succeeded                // what it says where nobody is killed
	unknown                  // it may have run or not
	notRun                   // it did not
	other                    // something that no result of the play says
)

func outcomeOf(reference string, c call, text string) outcome {
	switch {
	case strings.Contains(text, "whether it had an effect, and which, is unknown"), strings.Contains(text, "the outcome of the command is unknown"):
		return unknown
	case strings.Contains(text, "it was not executed"), strings.Contains(text, "the command was not run"):
		return notRun
	case text == reference, c.loose && firstLine(text) == firstLine(reference):
		return succeeded
	}
	return other
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// came is what the one result of a call says.
func (j *judgement) came(id string) outcome {
	results := j.last.Results[id]
	c, known := j.call(id)
	if !known || len(results) != 1 {
		return none
	}
	return outcomeOf(j.reference[id], c, results[0].Text)
}

// branch compares the branch with the play, without attempts that failed.
func (j *judgement) branch() {
	want := j.expected()
	n := 0
	for _, i := range j.last.Branch {
		if i.Kind == itemFailure {
			continue
		}
		if n == len(want) || !matches(i, want[n]) {
			j.find(keepsOrder, "%d messages in, %v follows where the play has %v", n, i, want[min(n, len(want)):min(n+1, len(want))])
			return
		}
		n++
	}
	if j.over && n < j.least() {
		j.find(keepsOrder, "the branch has %d messages and ends before the play does", n)
	}
}

// matches compares an item of a branch with one that a play expects. What a result says is judged elsewhere.
func matches(is, want item) bool {
	if is.Kind != want.Kind || !slices.Equal(is.Calls, want.Calls) {
		return false
	}
	if is.Kind == itemResult {
		return is.ID == want.ID
	}
	return is.Text == want.Text
}

// expected is the branch of the play: each further prompt follows the next answer without calls.
func (p play) expected() []item {
	out := []item{{Kind: itemUser, Text: p.prompts[0]}}
	next := 1
	for _, t := range p.turns {
		answer := item{Kind: itemAnswer, Text: t.text}
		for _, c := range t.calls {
			answer.Calls = append(answer.Calls, c.id)
		}
		out = append(out, answer)
		for _, c := range t.calls {
			out = append(out, item{Kind: itemResult, ID: c.id})
		}
		if len(t.calls) == 0 && next < len(p.prompts) {
			out = append(out, item{Kind: itemUser, Text: p.prompts[next]})
			next++
		}
	}
	return out
}

// least is how many messages a finished branch has: all of them, unless the play ends some other way.
func (j *judgement) least() int {
	all := len(j.expected())
	switch {
	case j.end == "failed":
		return all - 1 // the last turn is refused
	case slices.Contains(j.last.Endings, "aborted"):
		return 1
	}
	return all
}

func (j *judgement) endings() {
	allowed := []string{j.end}
	if j.abortOn != "" && !j.said(aborted) {
		allowed = append(allowed, "completed") // it died before it could abort
	}
	for _, e := range j.last.Endings {
		if !slices.Contains(allowed, e) {
			j.find(endsAsWritten, "an operation ended as %s, not as %v", e, allowed)
		}
	}
	if !j.over {
		return
	}
	if len(j.last.Endings) == 0 || len(j.last.Queued) > 0 || !slices.Equal(j.last.Phases, []string{phaseOver}) {
		j.find(endsAsWritten, "the strand is left at %q, with outcomes %v and %d prompts queued", j.last.Phases, j.last.Endings, len(j.last.Queued))
	}
}

func (j *judgement) said(k kind) bool {
	return slices.ContainsFunc(j.acts, func(a act) bool {
		return slices.ContainsFunc(a.life.Events, func(e event) bool { return e.Kind == k })
	})
}

// slowest is how long a life may take to open its session. A lease ends after half a minute.
const slowest = 10_000 // ms

// processes judges the last life itself.
func (j *judgement) processes() {
	l := j.acts[len(j.acts)-1].life
	for _, e := range l.Events {
		if e.Kind != opened {
			continue
		}
		for _, s := range e.Strays {
			j.find(leavesNothing, "life %d opened the session beside process %s", l.Number, s)
		}
		if took := e.At - l.Started; took > slowest {
			j.find(opensAtOnce, "life %d opened the session after %d ms", l.Number, took)
		}
	}
	for _, p := range j.last.Breathes {
		j.find(leavesNothing, "after life %d process %v runs", l.Number, p)
	}
	if l.Killed && !j.over {
		return
	}
	if n := len(l.Events); n == 0 || l.Events[n-1].Kind != done {
		j.find(goesOn, "life %d, to end %s, ended early: %+v %s", l.Number, l.Orders, l.Events[max(0, n-1):], l.Said)
	}
}
