package sdkmsg_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/sdkmsg"
	"github.com/loom-run/loom/wire/shape"
)

func line(t *testing.T, text string) sdkmsg.Line {
	t.Helper()
	l, err := sdkmsg.DecodeLine([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return l
}

// lines are one of each type, as somebody else writes them.
var lines = []string{
	`{"type":"assistant","message":{"id":"m1","type":"message","role":"assistant","model":"x","content":[{"type":"text","text":"a"},{"type":"thinking","thinking":"b","signature":"s"},{"type":"tool_use","id":"c","name":"n","input":{"k":1}},{"type":"redacted_thinking","data":"d"}],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1}},"parent_tool_use_id":null,"uuid":"u1","session_id":"s"}`,
	`{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"r"},{"type":"image","source":{"k":2}}],"is_error":true}]},"parent_tool_use_id":"p","tool_use_result":{"x":[1]},"origin":{"kind":"human"},"uuid":"u2","session_id":"s"}`,
	`{"type":"result","subtype":"success","is_error":true,"duration_ms":5,"num_turns":2,"result":"","stop_reason":null,"total_cost_usd":0.0347,"permission_denials":[{"tool_name":"n","tool_use_id":"c","tool_input":{}}],"uuid":"u3","session_id":"s"}`,
	`{"type":"system","subtype":"init","cwd":"/w","tools":["a","b"],"mcp_servers":[{"name":"g","status":"connected"}],"model":"x","permissionMode":"default","uuid":"u4","session_id":"s"}`,
	`{"type":"system","subtype":"compact_boundary","compact_metadata":{"trigger":"auto","pre_tokens":9},"uuid":"u5","session_id":"s"}`,
	`{"type":"system","subtype":"informational","content":"c","level":"info","uuid":"u6","session_id":"s"}`,
	`{"type":"system","subtype":"permission_denied","tool_name":"n","tool_use_id":"c","message":"m","uuid":"u7","session_id":"s"}`,
	`{"type":"system","subtype":"task_notification","task_id":"t","status":"stopped","summary":"s","usage":{"total_tokens":1},"uuid":"u8","session_id":"s"}`,
	`{"type":"hologram","subtype":"new","deep":[{"a":null}],"uuid":"u9"}`,
	`{"type":"system","subtype":"word_to_come","uuid":"u10","x":1}`,
}

func TestALineReadsBackAsItWasWritten(t *testing.T) {
	kinds := map[reflect.Type]bool{}
	for _, text := range lines {
		l := line(t, text)
		kinds[reflect.TypeOf(l.Message)] = true
		if got := string(l.Append(nil)); got != text {
			t.Errorf("it became\n%s\nfrom\n%s", got, text)
		}
	}
	if len(kinds) != 9 {
		t.Errorf("%d types of messages are shown, not all nine", len(kinds))
	}
}

func TestWhatIsMissingIsAbsentAndNotZero(t *testing.T) {
	r := line(t, `{"type":"result"}`).Message.(sdkmsg.Result)
	if r.TotalCostUSD != nil || r.NumTurns != nil || r.Usage != nil || r.Result != nil {
		t.Errorf("%+v", r)
	}
	a := line(t, `{"type":"assistant","message":{"content":"said"}}`).Message.(sdkmsg.Assistant)
	if _, ok := a.Message.StopReason.Get(); ok || a.Message.Content.Texts() != "said" {
		t.Errorf("%+v", a)
	}
	if got := string(sdkmsg.Line{Message: a}.Append(nil)); strings.Contains(got, "stop_reason") || strings.Contains(got, "uuid") {
		t.Errorf("what was not there is written: %s", got)
	}
	a.Message.StopReason = sdkmsg.Null()
	if got := string(sdkmsg.Line{Message: a}.Append(nil)); !strings.Contains(got, `"stop_reason":null`) {
		t.Errorf("the explicit null is not written: %s", got)
	}
}

func TestAFieldOfAWrongTypeIsAReport(t *testing.T) {
	for _, text := range []string{
		`[]`, `{}`, `{"type":7}`, `nonsense`, `{"type":"assistant"}`, `{"type":"assistant","message":{"content":7}}`, `{"type":"user","message":{"content":[7]}}`,
		`{"type":"result","errors":{}}`, `{"type":"system","subtype":"init","tools":[{}]}`, `{"type":"user","message":{},"uuid":[]}`,
	} {
		if l, err := sdkmsg.DecodeLine([]byte(text)); err == nil && text != `{"type":"assistant"}` {
			t.Errorf("%s is %+v", text, l)
		}
	}
}

// TestNoKeyOfOursIsInABlock holds that what goes back to a model is the vocabulary's
// own: the blocks, and all that they are made of.
func TestNoKeyOfOursIsInABlock(t *testing.T) {
	known := map[string]string{
		"text": "text", "thinking": "thinking signature", "redacted_thinking": "data", "tool_use": "id name input",
		"tool_result": "tool_use_id content is_error", "image": "source",
	}
	desc := shape.Of[sdkmsg.Block]()
	for _, v := range desc.Variants {
		var names []string
		for _, f := range v.Desc.Fields {
			names = append(names, f.Name)
		}
		if got := strings.Join(names, " "); got != known[v.Tag] {
			t.Errorf("a block %s has the fields %s", v.Tag, got)
		}
	}
	if len(desc.Variants) != len(known) {
		t.Errorf("%d kinds of blocks", len(desc.Variants))
	}
}

func FuzzLine(f *testing.F) {
	for _, text := range lines {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := sdkmsg.DecodeLine(data)
		if err != nil {
			return
		}
		first := l.Append(nil)
		again, err := sdkmsg.DecodeLine(first)
		if err != nil {
			t.Fatalf("%s: %v", first, err)
		}
		if second := again.Append(nil); !bytes.Equal(first, second) {
			t.Fatalf("%s became %s", first, second)
		}
		if _, err := jsonv.Parse(first); err != nil {
			t.Fatal(err)
		}
	})
}
