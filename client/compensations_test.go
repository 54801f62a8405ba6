package client_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/loom-run/loom/wire"
)

// compensation is something that the runtime does only because the other side does not
// tell what would make it needless.
type compensation struct {
	why  string
	code string // file#name, where our half sits
	host string // the event that carries the host's half; empty where there is none
	// retire reports that the other side tells it now: the code has to go.
	retire func(t *testing.T) bool
}

var compensations = map[string]compensation{
	"a prompt opens the account of a run": {
		why: "a run start is a level: history has none", code: "arms.go#userMessage", host: "RunClosed",
		retire: func(*testing.T) bool { return wire.KindRunStart.Delivers(wire.Replay) },
	},
	"an attempt that failed is no turn": {
		why: "the end of a turn does not say which attempt of its step it was", code: "arms.go#failedAttempt", host: "LastTurn",
		retire: func(*testing.T) bool { return has[wire.TurnEnd]("Attempt") },
	},
	"a boundary without a trigger": {
		why: "the rows of a compaction do not hold who asked for it", code: "project/messages.go#Compacted",
		retire: func(*testing.T) bool { return !optional[wire.CompactionBoundary]("Trigger") },
	},
	"a history that does not pair is known by a provider's words": {
		why: "a failure has a code for all errors of providers", code: "project/history.go#Mismatched",
		retire: func(*testing.T) bool { return reflect.TypeFor[wire.Failed]().NumField() > 2 },
	},
	"nothing is owed where it is not said that the model was told": {
		why: "an older server leaves it out", code: "beside.go#taskNotification", host: "CompletionDue",
		retire: func(*testing.T) bool { return !optional[wire.TaskNotification]("Injected") },
	},
	"an image has a place and no bytes": {
		why: "frames count the images of a message and hold none", code: "project/messages.go#places",
		retire: func(*testing.T) bool {
			f, _ := reflect.TypeFor[wire.UserMessage]().FieldByName("Images")
			return f.Type.Kind() == reflect.Slice
		},
	},
	"what an agent reports is read from its text": {
		why: "the tool that waits for agents says nothing to programs", code: "project/output.go#ReadAgentReport",
		retire: func(t *testing.T) bool {
			for _, s := range recorded(t) {
				for _, f := range s.frames {
					if b, ok := f.Body.(wire.ToolResult); ok && b.Name == "agent_wait" && b.Structured != nil {
						return true
					}
				}
			}
			return false
		},
	},
}

func has[B any](field string) bool {
	_, ok := reflect.TypeFor[B]().FieldByName(field)
	return ok
}

func optional[B any](field string) bool {
	f, ok := reflect.TypeFor[B]().FieldByName(field)
	return ok && f.Type.Kind() == reflect.Pointer
}

// fault says what is wrong with a row of the ledger; empty when nothing is.
func (c compensation) fault(t *testing.T) string {
	file, name, _ := strings.Cut(c.code, "#")
	switch {
	case c.why == "":
		return "it has no reason"
	case !declares(t, file, name):
		return fmt.Sprintf("its code is not in %s", c.code)
	case c.host != "" && !declares(t, "plane/event.go", c.host) && !declares(t, "plane/beside.go", c.host):
		return fmt.Sprintf("there is no event %s", c.host)
	case c.retire(t):
		return "what it makes up for is told now: take it out"
	}
	return ""
}

// declares reports whether a file declares a function, a method, a type or a constant.
func declares(t *testing.T, file, name string) (found bool) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.FromSlash(file), nil, parser.SkipObjectResolution)
	if err != nil {
		return false
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			found = found || n.Name.Name == name
		case *ast.TypeSpec:
			found = found || n.Name.Name == name
		case *ast.ValueSpec:
			for _, id := range n.Names {
				found = found || id.Name == name
			}
		}
		return true
	})
	return found
}

func TestEachCompensationIsStillNeeded(t *testing.T) {
	for name, c := range compensations {
		if fault := c.fault(t); fault != "" {
			t.Errorf("%s: %s", name, fault)
		}
	}
}

func TestTheLedgerOfCompensationsCanFail(t *testing.T) {
	never := func(*testing.T) bool { return false }
	for want, c := range map[string]compensation{
		"no reason": {code: "arms.go#userMessage", retire: never},
		"its code":  {why: "w", code: "arms.go#gone", retire: never},
		"no event":  {why: "w", code: "arms.go#userMessage", host: "Gone", retire: never},
		"told now":  {why: "w", code: "arms.go#userMessage", retire: func(*testing.T) bool { return has[wire.TurnEnd]("Usage") }},
	} {
		if fault := c.fault(t); !strings.Contains(fault, want) {
			t.Errorf("a planted row is %q and not %q", fault, want)
		}
	}
}
