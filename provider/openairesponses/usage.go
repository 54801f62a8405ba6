package openairesponses

import (
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/provider/dialect"
)

// readUsage normalises a usage object to disjoint buckets: cached tokens are part of the input, reasoning is part of the output.
func readUsage(v jsonv.Value) usage.Usage {
	input, hasInput := dialect.Count(v, "input_tokens")
	output, hasOutput := dialect.Count(v, "output_tokens")
	if !hasInput && !hasOutput {
		return usage.Unknown(usage.API)
	}
	u := usage.Usage{Output: output, Evidence: usage.Reported(usage.API, usage.Complete)}
	if !hasInput || !hasOutput {
		u.Evidence = usage.Reported(usage.API, usage.Partial)
	}
	inInput, _ := v.Get("input_tokens_details")
	u.CacheRead, _ = dialect.Count(inInput, "cached_tokens")
	u.CacheWrite, _ = dialect.Count(inInput, "cache_write_tokens")
	u.Input = max(0, input-u.CacheRead-u.CacheWrite)
	inOutput, _ := v.Get("output_tokens_details")
	if reasoning, ok := dialect.Count(inOutput, "reasoning_tokens"); ok {
		u.Reasoning = new(min(reasoning, u.Output))
	}
	var hasTotal bool
	if u.TotalTokens, hasTotal = dialect.Count(v, "total_tokens"); !hasTotal {
		u.TotalTokens = min(input+output, dialect.MaxCount)
	}
	return u
}
