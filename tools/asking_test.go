package tools

import (
	"strings"
	"testing"

	"github.com/loom-run/loom/core/jsonv"
)

func TestWhatIsNoQuestionAsksNobody(t *testing.T) {
	long := strings.Repeat("x", maxQuestionText+1)
	for name, text := range map[string]string{
		"no questions":       `{}`,
		"none":               `{"questions":[]}`,
		"too many":           `{"questions":[{"question":"a"},{"question":"b"},{"question":"c"},{"question":"d"},{"question":"e"}]}`,
		"no text":            `{"questions":[{"question":" "}]}`,
		"a long one":         `{"questions":[{"question":"` + long + `"}]}`,
		"a number":           `{"questions":[{"question":1}]}`,
		"an unknown option":  `{"questions":[{"question":"a","maybe":true}]}`,
		"a nameless option":  `{"questions":[{"question":"a","options":[{"description":"x"}]}]}`,
		"too many options":   `{"questions":[{"question":"a","options":[` + strings.Repeat(`{"label":"x"},`, maxOptions) + `{"label":"x"}]}]}`,
		"options of a text":  `{"questions":[{"question":"a","options":"x"}]}`,
		"questions as text":  `{"questions":"a"}`,
		"multiple in a word": `{"questions":[{"question":"a","multiple":"yes"}]}`,
	} {
		v, err := jsonv.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if asked, err := askUser(v); err == nil {
			t.Errorf("%s asks %+v", name, asked)
		}
	}
	for _, text := range []string{`{}`, `{"plan":" "}`, `{"plan":1}`, `{"plan":"` + strings.Repeat("x", maxPlan+1) + `"}`} {
		v, _ := jsonv.Parse([]byte(text))
		if asked, err := handInPlan(v); err == nil {
			t.Errorf("%.40s hands in %+v", text, asked)
		}
	}
}

// FuzzAsking: what is asked is within its bounds, whatever a model writes.
func FuzzAsking(f *testing.F) {
	f.Add(`{"questions":[{"question":"a?","header":"h","options":[{"label":"x","description":"y"}],"multiple":true}]}`)
	f.Add(`{"plan":"do it"}`)
	f.Fuzz(func(t *testing.T, text string) {
		v, err := jsonv.Parse([]byte(text))
		if err != nil {
			return
		}
		if asked, err := askUser(v); err == nil {
			if n := len(asked.Questions); n < 1 || n > maxQuestions || asked.Plan != "" {
				t.Fatalf("%+v", asked)
			}
			for _, q := range asked.Questions {
				if q.Text == "" || len(q.Text) > maxQuestionText || len(q.Options) > maxOptions || len(q.Header) > maxLabel {
					t.Fatalf("%+v", q)
				}
			}
		}
		if asked, err := handInPlan(v); err == nil && (asked.Plan == "" || len(asked.Plan) > maxPlan || len(asked.Questions) > 0) {
			t.Fatalf("%+v", asked)
		}
	})
}
