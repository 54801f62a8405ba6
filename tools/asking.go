package tools

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/policy"
)

// Asking is what a tool asks a person: questions, or the review of a plan.
type Asking struct {
	Questions []Question
	Plan      string
}

// Question is one of up to four.
type Question struct {
	Header   string // a word or two; may be empty
	Text     string
	Options  []Option // none: a free text is asked for
	Multiple bool     // several options may be chosen
}

// Option is one answer that can be chosen.
type Option struct {
	Label string
	About string // may be empty
}

// The bounds of what a person is asked.
const (
	maxQuestions    = 4
	maxOptions      = 8
	maxQuestionText = 4 << 10  // bytes
	maxLabel        = 256      // bytes
	maxPlan         = 64 << 10 // bytes
)

// PlanArgument is the argument that holds a plan.
const PlanArgument = "plan"

//go:embed ask_user.md
var askUserDescription string

//go:embed exit_plan.md
var exitPlanDescription string

const askUserArguments = `{"type":"object","properties":{
	"questions":{"type":"array","minItems":1,"maxItems":4,"items":{"type":"object","properties":{
		"question":{"type":"string","description":"The question, whole."},
		"header":{"type":"string","description":"What it is about, in a word or two."},
		"options":{"type":"array","maxItems":8,"items":{"type":"object","properties":{
			"label":{"type":"string"},"description":{"type":"string","description":"What choosing it means."}},
			"required":["label"],"additionalProperties":false}},
		"multiple":{"type":"boolean","description":"Several options may be chosen."}},
		"required":["question"],"additionalProperties":false}}},
	"required":["questions"],"additionalProperties":false}`

const exitPlanArguments = `{"type":"object","properties":{"plan":{"type":"string","description":"The whole plan."}},"required":["plan"],"additionalProperties":false}`

// askers are the tools whose calls wait for a person, whatever mode and rules say.
func askers() []Tool {
	return []Tool{
		{
			Name: "ask_user", Description: strings.TrimSpace(askUserDescription), Schema: schema(askUserArguments), Class: policy.Read, Scheduling: Concurrent,
			Asks: askUser, Run: func(context.Context, Invocation) Outcome {
				return failed("nobody answered; decide yourself, and say what you assumed")
			},
		},
		{
			Name: "exit_plan", Description: strings.TrimSpace(exitPlanDescription), Schema: schema(exitPlanArguments), Class: policy.Read,
			Asks: handInPlan, Run: leavePlan,
		},
	}
}

func askUser(arguments jsonv.Value) (Asking, error) {
	a := argumentsOf(arguments, "questions")
	list, _ := a.get("questions")
	if a.fault == "" && (list.Kind() != jsonv.Array || list.Len() < 1 || list.Len() > maxQuestions) {
		a.fail("questions is a list of one to %d", maxQuestions)
	}
	var out Asking
	if a.fault == "" {
		for _, v := range list.Elems() {
			q, err := readQuestion(v)
			if err != nil {
				return Asking{}, err
			}
			out.Questions = append(out.Questions, q)
		}
	}
	return out, a.asError()
}

func readQuestion(v jsonv.Value) (Question, error) {
	a := argumentsOf(v, "question", "header", "options", "multiple")
	q := Question{Text: a.bounded("question", maxQuestionText)}
	if a.fault == "" && q.Text == "" {
		a.fail("a question is empty")
	}
	q.Header = a.bounded("header", maxLabel)
	q.Multiple = a.optBool("multiple", false)
	list, given := a.get("options")
	if given && a.fault == "" && (list.Kind() != jsonv.Array || list.Len() > maxOptions) {
		a.fail("options is a list of at most %d", maxOptions)
	}
	if !given || a.fault != "" {
		return q, a.asError()
	}
	for _, v := range list.Elems() {
		o := argumentsOf(v, "label", "description")
		option := Option{Label: o.bounded("label", maxLabel), About: o.bounded("description", maxQuestionText)}
		if o.fault == "" && option.Label == "" {
			o.fail("an option has no label")
		}
		if err := o.asError(); err != nil {
			return q, err
		}
		q.Options = append(q.Options, option)
	}
	return q, nil
}

func handInPlan(arguments jsonv.Value) (Asking, error) {
	a := argumentsOf(arguments, PlanArgument)
	out := Asking{Plan: a.bounded(PlanArgument, maxPlan)}
	if a.fault == "" && out.Plan == "" {
		a.fail("the plan is empty")
	}
	return out, a.asError()
}

// leavePlan runs when the plan was accepted, with the plan as it was.
func leavePlan(_ context.Context, in Invocation) Outcome {
	asked, err := handInPlan(in.Arguments)
	if err != nil {
		return failed(err.Error())
	}
	now, left := in.broker.LeavePlan()
	where := "The permission mode is " + now.String() + "."
	if left {
		where = "You have left the mode plan; the permission mode is " + now.String() + "."
	}
	return said("The person accepted the plan. " + where + " Carry it out as it was accepted:\n\n" + asked.Plan)
}

// bounded is an optional string without space around it, of at most that many bytes.
func (a *arguments) bounded(name string, most int) string {
	text := strings.TrimSpace(a.optStr(name, ""))
	if len(text) > most {
		a.fail("%s is longer than %d bytes", name, most)
	}
	return text
}

func (a *arguments) asError() error {
	if a.fault == "" {
		return nil
	}
	return fmt.Errorf("invalid arguments: %s", a.fault)
}
