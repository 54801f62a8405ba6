package client_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/loom-run/loom/client"
	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/wiretest"
)

var wiretestOp2 = wiretest.Op(2)

// maps marks a field that reaches an output. Any other text is the reason why
// it does not.
const mapped = ""

// disposition says of every field of every body what becomes of it. A field that
// is new on the wire is missing here, and the test is red until somebody decides.
var disposition = map[string]string{
	"Frame.ID":        mapped,
	"Frame.Cursor":    "it orders frames and is kept in the state; no output needs it",
	"Frame.Delivery":  "what it promises is in the plane that an output is on",
	"Frame.Session":   mapped,
	"Frame.Strand":    "it decides the lane; outputs of other strands do not exist",
	"Frame.Operation": mapped,
	"Frame.Body":      "its fields are listed one by one",

	"RunStart.Model.Provider": mapped, "RunStart.Model.ModelID": mapped,
	"RunStart.Mode": mapped, "RunStart.Cwd": mapped, "RunStart.Tools": mapped,

	"UserMessage.Entry": mapped, "UserMessage.Text": mapped, "UserMessage.Bytes": mapped, "UserMessage.Images": mapped,

	"TextDelta.Segment.Entry": mapped, "TextDelta.Segment.Block": mapped, "TextDelta.Text": mapped,
	"TextDelta.Offset":      "it tells whether a piece is missing; what is shown has no gaps",
	"TextEnd.Segment.Entry": mapped, "TextEnd.Segment.Block": mapped, "TextEnd.Content": mapped,

	"ReasoningDelta.Segment.Entry": mapped, "ReasoningDelta.Segment.Block": mapped, "ReasoningDelta.Text": mapped,
	"ReasoningDelta.Offset":      "it tells whether a piece is missing; what is shown has no gaps",
	"ReasoningEnd.Segment.Entry": mapped, "ReasoningEnd.Segment.Block": mapped, "ReasoningEnd.Content": mapped, "ReasoningEnd.Redacted": mapped,

	"ToolCall.Segment.Entry": mapped, "ToolCall.Segment.Block": mapped,
	"ToolCall.CallID": mapped, "ToolCall.Name": mapped, "ToolCall.Arguments": mapped,

	"ToolProgress.CallID": mapped, "ToolProgress.Stream": mapped, "ToolProgress.Tail": mapped, "ToolProgress.TotalBytes": mapped,

	"ToolResult.Entry": mapped, "ToolResult.CallID": mapped, "ToolResult.Name": mapped,
	"ToolResult.Text.Text": mapped, "ToolResult.Text.Bytes": mapped, "ToolResult.Images": mapped, "ToolResult.IsError": mapped,
	"ToolResult.Gate.Disposition": mapped, "ToolResult.Gate.Settlement": mapped, "ToolResult.Gate.DeniedBy": mapped, "ToolResult.Gate.Origin": mapped,

	"TurnEnd.Entry": mapped, "TurnEnd.StopReason": mapped, "TurnEnd.ErrorMessage": mapped,
	"TurnEnd.Model.Provider": mapped, "TurnEnd.Model.ModelID": mapped,
	"TurnEnd.Usage.Input": mapped, "TurnEnd.Usage.Output": mapped, "TurnEnd.Usage.CacheRead": mapped, "TurnEnd.Usage.CacheWrite": mapped,
	"TurnEnd.Usage.CostMicroUSD": mapped, "TurnEnd.Usage.Measured": mapped, "TurnEnd.Usage.LowerBound": mapped, "TurnEnd.Usage.CostLowerBound": mapped,

	"Retry.Attempt": mapped, "Retry.UntilMs": mapped, "Retry.Error": mapped,

	"RunEnd.Cause":       mapped,
	"RunEnd.Usage.Input": mapped, "RunEnd.Usage.Output": mapped, "RunEnd.Usage.CacheRead": mapped, "RunEnd.Usage.CacheWrite": mapped,
	"RunEnd.Usage.CostMicroUSD": mapped, "RunEnd.Usage.Measured": mapped, "RunEnd.Usage.LowerBound": mapped, "RunEnd.Usage.CostLowerBound": mapped,

	"RunStopped.Code": mapped, "RunStopped.Message": mapped,

	"Notice.Code": mapped, "Notice.Facts.Name": mapped, "Notice.Facts.Text": mapped,
	"Notice.Audience": "the catalogue decides; a code cannot promote itself",
}

// bodies is one filled body of each kind. Fields of it are changed one at a time.
func bodies() map[wire.Kind]wire.Body {
	usage := wire.Usage{Input: 11, Output: 12, CacheRead: 13, CacheWrite: 14, Measured: true, CostMicroUSD: new(int64(15))}
	return map[wire.Kind]wire.Body{
		wire.KindRunStart:       wire.RunStart{Model: model, Mode: "default", Cwd: "/w", Tools: 3},
		wire.KindUserMessage:    wire.UserMessage{Entry: wiretest.Entry(1), Text: "t", Bytes: 1, Images: 2},
		wire.KindTextDelta:      wire.TextDelta{Segment: seg(1, 0), Text: "t"},
		wire.KindTextEnd:        wire.TextEnd{Segment: seg(1, 0), Content: "t"},
		wire.KindReasoningDelta: wire.ReasoningDelta{Segment: seg(1, 0), Text: "t"},
		wire.KindReasoningEnd:   wire.ReasoningEnd{Segment: seg(1, 0), Content: "t"},
		wire.KindToolCall:       wire.ToolCall{Segment: seg(1, 0), CallID: "c", Name: "n", Arguments: jsonv.Obj()},
		wire.KindToolProgress:   wire.ToolProgress{CallID: "c", Stream: "s", Tail: "t", TotalBytes: 1},
		wire.KindToolResult: wire.ToolResult{
			Entry: wiretest.Entry(1), CallID: "c", Name: "n", Text: []wire.TextBlock{{Text: "t", Bytes: 1}},
			Gate: &wire.Gate{Disposition: "allowed", Settlement: new(words.Settlement("s")), DeniedBy: new(words.DeniedBy("d")), Origin: new(words.AskOrigin("o"))},
		},
		wire.KindTurnEnd:    wire.TurnEnd{Entry: wiretest.Entry(1), Usage: usage, StopReason: "stop", Model: model, ErrorMessage: new("e")},
		wire.KindRetry:      wire.Retry{Attempt: 1, UntilMs: 2, Error: "e"},
		wire.KindRunEnd:     wire.RunEnd{Cause: wire.Completed{}, Usage: usage},
		wire.KindRunStopped: wire.RunStopped{Code: wire.StoreFull, Message: "m"},
		wire.KindNotice:     wire.Notice{Code: "c", Audience: words.ForUser, Facts: []wire.Fact{{Name: "n", Text: "t"}}},
	}
}

// leaves walks the fields of a value that can be set, and hands out each with
// its path.
func leaves(v reflect.Value, path string, visit func(path string, field reflect.Value)) {
	switch v.Kind() {
	case reflect.Struct:
		if v.NumField() > 0 && v.Type().Field(0).IsExported() {
			for i := range v.NumField() {
				leaves(v.Field(i), path+"."+v.Type().Field(i).Name, visit)
			}
			return
		}
	case reflect.Pointer:
		if v.Elem().Kind() == reflect.Struct {
			leaves(v.Elem(), path, visit)
			return
		}
	case reflect.Slice:
		leaves(v.Index(0), path, visit)
		return
	}
	visit(path, v)
}

// change sets a field to another legal value.
func change(v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *jsonv.Value:
		*x = jsonv.Obj(jsonv.F("sentinel", jsonv.Num(1)))
		return
	case *wire.Cause:
		*x = wire.Failed{Code: "sentinel", Message: "m"}
		return
	case **int64:
		*x = new(int64(987))
		return
	}
	switch {
	case v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.String:
		v.Set(reflect.New(v.Type().Elem()))
		v.Elem().SetString("sentinel")
	case v.Type() == reflect.TypeFor[wire.Segment]().Field(0).Type:
		v.Set(reflect.ValueOf(wiretest.Entry(77)))
	case v.Kind() == reflect.String:
		v.SetString("sentinel")
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.CanInt():
		v.SetInt(v.Int() + 900)
	default:
		panic(fmt.Sprintf("no other value for %s", v.Type()))
	}
}

func frameOf(b wire.Body) wire.Frame {
	f := wire.Frame{ID: "k", Session: session, Strand: "main", Operation: op, Body: b}
	for _, d := range []wire.Delivery{wire.Replay, wire.Level, wire.Live} {
		if b.Kind().Delivers(d) {
			f.Delivery = d
		}
	}
	if f.Delivery == wire.Replay {
		f.Cursor = wire.Cursor{Seq: 1}
	}
	return f
}

func outputs(f wire.Frame) string {
	return dump(client.New(plane.Watch{Session: f.Session, Strand: f.Strand, Operation: f.Operation}, client.Redraws).Step(f))
}

func TestEveryWireFieldIsMappedOrDroppedWithAReason(t *testing.T) {
	found := map[string]bool{}
	for _, k := range wire.Kinds() {
		body, ok := bodies()[k]
		if !ok {
			t.Errorf("kind %s has no body in this test", k)
			continue
		}
		name := reflect.TypeOf(body).Name()
		before := outputs(frameOf(body))
		paths := []string{}
		scratch := reflect.New(reflect.TypeOf(body)).Elem()
		scratch.Set(reflect.ValueOf(body))
		leaves(scratch, name, func(path string, _ reflect.Value) { paths = append(paths, path) })
		for _, path := range paths {
			found[path] = true
			fresh := reflect.New(reflect.TypeOf(body)).Elem()
			fresh.Set(reflect.ValueOf(bodies()[k]))
			leaves(fresh, name, func(p string, field reflect.Value) {
				if p == path {
					change(field)
				}
			})
			after := outputs(frameOf(fresh.Interface().(wire.Body)))
			if why, ok := disposition[path]; ok && (after != before) != (why == mapped) && !strings.HasSuffix(path, ".Offset") {
				t.Errorf("%s: the table says %q, and the output changes with it: %v", path, why, after != before)
			}
		}
	}
	for i := range reflect.TypeFor[wire.Frame]().NumField() {
		found["Frame."+reflect.TypeFor[wire.Frame]().Field(i).Name] = true
	}
	for _, path := range slices.Sorted(maps.Keys(found)) {
		if _, ok := disposition[path]; !ok {
			t.Errorf("%s is new on the wire: map it, or drop it with a reason", path)
		}
	}
	for path := range disposition {
		if !found[path] {
			t.Errorf("%s is in the table and not on the wire", path)
		}
	}
}

func TestEnvelopeFieldsAreMapped(t *testing.T) {
	f := frameOf(bodies()[wire.KindRunEnd])
	before := outputs(f)
	for name, alter := range map[string]func(*wire.Frame){
		"Frame.ID":        func(f *wire.Frame) { f.ID = "other" },
		"Frame.Session":   func(f *wire.Frame) { f.Session = wiretest.Session(2) },
		"Frame.Operation": func(f *wire.Frame) { f.Operation = wiretest.Op(2) },
	} {
		other := f
		alter(&other)
		if disposition[name] != mapped || outputs(other) == before {
			t.Errorf("%s does not reach an output", name)
		}
	}
}
