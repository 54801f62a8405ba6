package print

import (
	"errors"

	"github.com/loom-run/loom/client"
	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/client/say"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/wireclient"
)

// Words of the field "cause" for what is not the cause of a run's end.
const (
	causeLost    = "lost"    // the end was not seen
	causeRefused = "refused" // there was no run
)

// result is the JSON object of a run, without a newline.
func (p *Printer) result() []byte {
	w := jsonv.NewWriter(nil)
	w.Begin()
	w.Str("type", "result")
	cause, code, message := p.cause()
	w.Flag("is_error", p.exit != Done)
	w.Str("cause", cause)
	w.Str("result", p.answer())
	if !p.session.IsZero() {
		w.Str("session_id", p.session.String())
	}
	if p.op != "" {
		w.Str("operation", p.op)
	}
	w.Num("num_turns", int64(p.run.turns))
	if p.opts.Now != nil {
		w.Num("duration_ms", max(0, p.opts.Now()-p.started))
	}
	if p.run.ending != nil {
		writeUsage(w, p.run.total)
	}
	w.Name("permission_denials")
	w.BeginArray()
	for _, d := range p.run.denials {
		w.Begin()
		w.Str("tool_name", d.tool)
		w.Str("tool_use_id", d.call)
		w.End()
	}
	w.EndArray()
	if message != "" {
		w.Name("error")
		w.Begin()
		w.Str("code", code)
		w.Str("message", message)
		w.End()
	}
	w.Num("exit_code", int64(p.exit))
	w.End()
	return say.JSON(w.Bytes())
}

// cause is how the run ended: a word, and for endings that need one an error.
func (p *Printer) cause() (word, code, message string) {
	if f := p.run.failure; f != nil {
		if f.exit == Done {
			return f.code, "", ""
		}
		return causeRefused, f.code, f.message
	}
	switch e := p.run.ending.(type) {
	case plane.Seen:
		word, code, message = e.Cause.Word(), e.Cause.Word(), p.sentence()
		if f, ok := e.Cause.(wire.Failed); ok {
			code, message = f.Code, f.Message
		}
		return word, code, message
	case plane.Lost:
		code = string(e.Why)
		if stop, ok := errors.AsType[*client.Stopped](e.Err); ok {
			code = string(stop.Code)
		}
		return causeLost, code, p.sentence()
	}
	return causeLost, string(plane.StreamClosed), p.sentence()
}

// writeUsage writes what is known. A count or a cost that nobody knows is absent.
func writeUsage(w *jsonv.Writer, t plane.Tally) {
	w.Name("usage")
	w.Begin()
	exact := true
	for _, c := range []struct {
		name  string
		count plane.Count
	}{
		{"input_tokens", t.Input}, {"output_tokens", t.Output},
		{"cache_read_tokens", t.CacheRead}, {"cache_write_tokens", t.CacheWrite},
	} {
		exact = exact && c.count.Exact
		if c.count.Known {
			w.Num(c.name, c.count.N)
		}
	}
	w.Flag("exact", exact)
	w.End()
	if t.CostMicroUSD.Known {
		w.Name("total_cost_usd")
		w.Literal(dollars(t.CostMicroUSD.N))
		w.Flag("cost_is_exact", t.CostMicroUSD.Exact)
	}
}

// codeOf is the machine's word for an error before a run.
func codeOf(err error) string {
	if refused, ok := errors.AsType[*wireclient.Refused](err); ok {
		return string(refused.Code)
	}
	if _, ok := errors.AsType[*wireclient.Garbled](err); ok {
		return "garbled_answer"
	}
	if _, ok := errors.AsType[*wireclient.Unreached](err); ok {
		return "unreached"
	}
	return string(wire.Internal)
}
