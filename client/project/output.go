package project

import "strings"

// AgentReport is what the tool agent_wait says of one agent, by the place of its lines:
// a head, right behind it why the agent failed, and then what the agent itself said and
// recorded. Only the first two have slots: a line inside the agent's own words is never
// one, whatever it looks like.
type AgentReport struct {
	Handle  string
	Status  string  // working, paused, stopped or over, or a newer word
	Outcome string  // once it is over; empty before
	EndedBy string  // why the host ended it; empty when it did not
	Failure *string // of one that failed or stopped
	Words   string  // the rest, as it is
}

const (
	endedMark   = " (ended by the host: "
	failureMark = "failure: "
)

// ReadAgentReport reads the text of a wait for one agent. ok is false when it has not
// that shape; nothing is guessed then. A text about several agents is not told apart
// from one whose agent forges a second: it is read by who knows that one was waited
// for.
func ReadAgentReport(text string) (r AgentReport, ok bool) {
	head, rest, ok := strings.Cut(text, "\n")
	if !ok {
		return AgentReport{}, false
	}
	r.Handle, head, ok = strings.Cut(head, ": ")
	if !ok || !strings.Contains(r.Handle, "#") {
		return AgentReport{}, false
	}
	if before, why, ended := strings.Cut(head, endedMark); ended {
		if r.EndedBy, ended = strings.CutSuffix(why, ")"); !ended || r.EndedBy == "" {
			return AgentReport{}, false
		}
		head = before
	}
	r.Status, r.Outcome, ok = strings.Cut(head, ", ")
	if r.Status == "" || ok && r.Outcome == "" {
		return AgentReport{}, false
	}
	// Only one that failed or stopped has a failure; of any other the line is its own.
	if r.Status == "stopped" || r.Outcome == "failed" {
		if line, behind, ended := strings.Cut(rest, "\n"); ended {
			if why, is := strings.CutPrefix(line, failureMark); is {
				r.Failure, rest = &why, behind
			}
		}
	}
	r.Words = rest
	return r, true
}

// String puts the text together again, byte for byte.
func (r AgentReport) String() string {
	parts := []string{r.Handle, ": ", r.Status}
	if r.Outcome != "" {
		parts = append(parts, ", ", r.Outcome)
	}
	if r.EndedBy != "" {
		parts = append(parts, endedMark, r.EndedBy, ")")
	}
	parts = append(parts, "\n")
	if r.Failure != nil {
		parts = append(parts, failureMark, *r.Failure, "\n")
	}
	return strings.Join(append(parts, r.Words), "")
}
