package scripted

import (
	"fmt"
	"os"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/provider"
)

// Load reads a script from a file; see [Parse].
func Load(path string) (Script, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return Script{}, fmt.Errorf("load script: %w", err)
	}
	s, err := Parse(raw)
	if err != nil {
		return Script{}, fmt.Errorf("load script %s: %w", path, err)
	}
	return s, nil
}

// Parse reads the JSON form of a script. Fields that are not known are refused.
//
//	{
//	  "sequential": false,
//	  "turns": [
//	    {"say": "text"},
//	    {
//	      "steps": [{"thinking": "t"}, {"text": "t"}, {"call": "read", "args": {"path": "f"}, "id": "c1"}, {"call": "x", "args": "no JSON"}, {"stall": true}],
//	      "chunk": 4,
//	      "stop": "length",
//	      "usage": {"input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4},
//	      "fail": {"class": "overloaded", "message": "m", "status": 503, "retryAfterMs": 5, "times": 1}
//	    }
//	  ]
//	}
//
// Everything but "turns" may be left out; "say" stands for one text step.
func Parse(raw []byte) (Script, error) {
	v, err := jsonv.Parse(raw)
	if err != nil {
		return Script{}, err
	}
	r := jsonv.Read(v, boundary)
	r.Exact("sequential", "turns")
	s := Script{Sequential: r.OptFlag("sequential"), Turns: jsonv.Each(r, "turns", parseTurn)}
	return s, r.Err()
}

const boundary = "scripted.Parse"

func parseTurn(v jsonv.Value) (Turn, error) {
	r := jsonv.Read(v, boundary)
	r.Exact("say", "steps", "chunk", "stop", "usage", "fail")
	var t Turn
	if say := r.OptStr("say"); say != nil {
		t.Steps = append(t.Steps, Text(*say))
	}
	if _, ok := v.Get("steps"); ok {
		t.Steps = append(t.Steps, jsonv.Each(r, "steps", parseStep)...)
	}
	if chunk := r.OptNum("chunk"); chunk != nil {
		t.Chunk = int(*chunk)
	}
	if stop := r.OptStr("stop"); stop != nil {
		reason, ok := message.ParseStopReason(*stop)
		if !ok || reason == message.Pending || reason == message.Deferred {
			r.Fail("stop", "a stop reason that an answer can end with", jsonv.Str(*stop))
		}
		t.Stop = reason
	}
	t.Usage = jsonv.OptOne(r, "usage", parseUsage)
	t.Fail = jsonv.OptOne(r, "fail", parseFailure)
	return t, r.Err()
}

func parseStep(v jsonv.Value) (Step, error) {
	r := jsonv.Read(v, boundary)
	has := func(name string) bool { _, ok := v.Get(name); return ok }
	var s Step
	switch {
	case has("text"):
		r.Exact("text")
		s = Text(r.Str("text"))
	case has("thinking"):
		r.Exact("thinking")
		s = Thinking(r.Str("thinking"))
	case has("call"):
		r.Exact("call", "args", "id")
		call := Call{Name: r.Str("call")}
		if id := r.OptStr("id"); id != nil {
			call.ID = *id
		}
		if args := r.Maybe("args"); args != nil {
			raw, isText := args.Text()
			if call.Args = raw; !isText {
				call.Args = args.String()
			}
		}
		s = call
	case has("stall"):
		r.Exact("stall")
		if !r.Flag("stall") {
			r.Fail("stall", "true", jsonv.Boolean(false))
		}
		s = Stall{}
	default:
		r.Fail("step", "text, thinking, call or stall", v)
	}
	return s, r.Err()
}

func parseUsage(v jsonv.Value) (usage.Usage, error) {
	r := jsonv.Read(v, boundary)
	r.Exact("input", "output", "cacheRead", "cacheWrite")
	count := func(name string) int64 {
		n := r.OptNum(name)
		switch {
		case n == nil:
			return 0
		case *n < 0:
			r.Fail(name, "no negative count", jsonv.Num(*n))
		}
		return *n
	}
	u := usage.Usage{
		Input: count("input"), Output: count("output"), CacheRead: count("cacheRead"), CacheWrite: count("cacheWrite"),
		Evidence: usage.Reported(usage.API, usage.Complete),
	}
	u.TotalTokens = u.Input + u.Output + u.CacheRead + u.CacheWrite
	return u, r.Err()
}

func parseFailure(v jsonv.Value) (Failure, error) {
	r := jsonv.Read(v, boundary)
	r.Exact("class", "message", "status", "retryAfterMs", "times")
	f := Failure{Class: provider.Class(r.Str("class")), RetryAfterMs: r.OptNum("retryAfterMs")}
	if !f.Class.Known() {
		r.Fail("class", "a class of provider errors", jsonv.Str(string(f.Class)))
	}
	if text := r.OptStr("message"); text != nil {
		f.Message = *text
	}
	if status := r.OptNum("status"); status != nil {
		f.Status = int(*status)
	}
	if times := r.OptNum("times"); times != nil {
		f.Times = int(*times)
	}
	return f, r.Err()
}
