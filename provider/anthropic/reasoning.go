package anthropic

import (
	"strconv"
	"strings"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/dialect"
)

// encodeReasoning asks for reasoning behind the messages, where it changes no prefix, and closes the body. Models from 4.6 on decide for themselves how much
// to think and are told an effort; the ones before are given a budget of tokens.
func encodeReasoning(body []byte, told dialect.Told) []byte {
	w := jsonv.NewWriter(body)
	if adaptive(told.Request.Model.ModelID) {
		if effort := effortOf(told.Request.Thinking); effort != "" {
			w.Name("thinking")
			w.Begin()
			w.Str("type", "adaptive")
			w.End()
			w.Name("output_config")
			w.Begin()
			w.Str("effort", effort)
			w.End()
		}
	} else if budget := thinkingBudget(told); budget > 0 {
		w.Name("thinking")
		w.Begin()
		w.Str("type", "enabled")
		w.Num("budget_tokens", budget)
		w.End()
	}
	if out := w.Bytes(); len(out) > len(body) {
		tail := string(out[len(body):])
		return append(append(append(body, ','), tail...), '}')
	}
	return append(body, '}')
}

// adaptive reports whether a model is of a generation that takes an effort and refuses a budget: a Claude of version 4.6 or later. The version is the first
// numbers of the id; eight digits are a date. An id without a version is taken for an older one.
func adaptive(modelID string) bool {
	if !strings.Contains(modelID, "claude") {
		return false
	}
	major, minor, found := 0, 0, 0
	for _, word := range strings.FieldsFunc(modelID, func(r rune) bool { return r == '-' || r == '.' || r == '@' || r == '/' || r == ':' }) {
		n, err := strconv.Atoi(word)
		switch {
		case err != nil && found > 0:
			return major > 4 || major == 4 && minor >= 6
		case err != nil || len(word) >= 8:
		case found == 0:
			major, found = n, 1
		case found == 1:
			minor, found = n, 2
		}
	}
	return major > 4 || major == 4 && minor >= 6
}

func effortOf(t provider.Thinking) string {
	switch t {
	case provider.ThinkMinimal, provider.ThinkLow:
		return "low"
	case provider.ThinkMedium:
		return "medium"
	case provider.ThinkHigh:
		return "high"
	case provider.ThinkXHigh, provider.ThinkMax:
		return "max"
	case provider.ThinkOff:
	}
	return ""
}

// leastBudget is the provider's own, in tokens.
const leastBudget = 1024

func budgetOf(t provider.Thinking) int64 {
	switch t {
	case provider.ThinkMinimal:
		return leastBudget
	case provider.ThinkLow:
		return 2048
	case provider.ThinkMedium:
		return 8192
	case provider.ThinkHigh:
		return 16384
	case provider.ThinkXHigh:
		return 24576
	case provider.ThinkMax:
		return 32768
	case provider.ThinkOff:
	}
	return 0
}

// thinkingBudget is the tokens to reason with; 0 for none. It leaves room for an answer below the limit of output. While a batch of calls is open the
// response that made them must begin with reasoning that the provider can verify, or it refuses the request: then none is asked for.
func thinkingBudget(told dialect.Told) int64 {
	budget := min(budgetOf(told.Request.Thinking), maxOutput(told.Request)-leastBudget)
	if budget < leastBudget {
		return 0
	}
	for i := len(told.Turns) - 1; i >= 0; i-- {
		switch t := told.Turns[i].(type) {
		case dialect.UserTurn:
			if len(dialect.Texts(message.Project(t.Message))) > 0 || len(dialect.Images(t.Message.Content)) > 0 {
				return budget
			}
		case dialect.AnswerTurn:
			if len(t.Calls) > 0 && !beginsWithReasoning(t) {
				return 0
			}
		case dialect.ResultsTurn:
		}
	}
	return budget
}

func beginsWithReasoning(t dialect.AnswerTurn) bool {
	for _, b := range t.Message.Content {
		switch b := b.(type) {
		case message.Thinking:
			if t.Own && b.Signature != nil && !dialect.IsSealed(b) {
				return true
			}
		case message.Text:
			if !dialect.Blank(b.Text) {
				return false
			}
		case message.ToolCall:
			return false
		}
	}
	return false
}
