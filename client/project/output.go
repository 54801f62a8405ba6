package project

import "strings"

// AgentOutput is what the output of a background agent says, by the place of its
// lines: a head of lines, an empty line, a label, and what the agent said. Only the
// head has slots: a line inside the agent's own words is never one.
type AgentOutput struct {
	Status string
	State  *string  // the line right behind the status
	Error  *string  // the line right behind that
	Head   []string // the further lines of the head, as they are
	Note   string   // in the parentheses of the label; empty for none
	Output string
}

// ReadAgentOutput reads the text. ok is false when it has not that shape; nothing is
// guessed then.
func ReadAgentOutput(text string) (o AgentOutput, ok bool) {
	head, rest, ok := strings.Cut(text, "\n\n")
	if !ok {
		return AgentOutput{}, false
	}
	lines := strings.Split(head, "\n")
	o.Status, ok = strings.CutPrefix(lines[0], "status: ")
	if !ok || o.Status == "" {
		return AgentOutput{}, false
	}
	lines = lines[1:]
	if len(lines) > 0 {
		if s, is := strings.CutPrefix(lines[0], "state: "); is {
			o.State, lines = &s, lines[1:]
		}
	}
	if len(lines) > 0 {
		if s, is := strings.CutPrefix(lines[0], "error: "); is {
			o.Error, lines = &s, lines[1:]
		}
	}
	if len(lines) > 0 {
		o.Head = lines
	}
	label, output, ok := strings.Cut(rest, "\n")
	if !ok {
		return AgentOutput{}, false
	}
	switch {
	case label == "result:":
	case strings.HasPrefix(label, "result (") && strings.HasSuffix(label, "):") && len(label) > len("result ():"):
		o.Note = label[len("result (") : len(label)-len("):")]
	default:
		return AgentOutput{}, false
	}
	o.Output = output
	return o, true
}

// String puts the text together again, byte for byte.
func (o AgentOutput) String() string {
	var b strings.Builder
	b.WriteString("status: " + o.Status)
	if o.State != nil {
		b.WriteString("\nstate: " + *o.State)
	}
	if o.Error != nil {
		b.WriteString("\nerror: " + *o.Error)
	}
	for _, l := range o.Head {
		b.WriteString("\n" + l)
	}
	b.WriteString("\n\nresult")
	if o.Note != "" {
		b.WriteString(" (" + o.Note + ")")
	}
	b.WriteString(":\n" + o.Output)
	return b.String()
}
