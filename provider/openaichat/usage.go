package openaichat

import (
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/provider/dialect"
)

// readUsage normalises a usage object to disjoint buckets:
//
//	cacheRead  = the cached part of the prompt
//	cacheWrite = the part written to the cache, where a server says so
//	input      = the rest of the prompt
//	output     = the completion, reasoning included
//
// Prompt and completion counts that are both there are complete evidence, one of them is partial. Some servers count reasoning beside the
// completion instead of inside it; the total tells the two apart.
func readUsage(v jsonv.Value) usage.Usage {
	prompt, hasPrompt := dialect.Count(v, "prompt_tokens")
	completion, hasCompletion := dialect.Count(v, "completion_tokens")
	total, hasTotal := dialect.Count(v, "total_tokens")
	if !hasPrompt && !hasCompletion {
		return usage.Unknown(usage.API)
	}
	u := usage.Usage{Output: completion, Evidence: usage.Reported(usage.API, usage.Complete)}
	if !hasPrompt || !hasCompletion {
		u.Evidence = usage.Reported(usage.API, usage.Partial)
	}

	inPrompt, _ := v.Get("prompt_tokens_details")
	var ok bool
	if u.CacheRead, ok = dialect.Count(inPrompt, "cached_tokens"); !ok {
		if u.CacheRead, ok = dialect.Count(v, "prompt_cache_hit_tokens"); !ok {
			u.CacheRead, _ = dialect.Count(v, "cached_tokens")
		}
	}
	u.CacheWrite, _ = dialect.Count(inPrompt, "cache_write_tokens")
	u.Input = max(0, prompt-u.CacheRead-u.CacheWrite)

	inCompletion, _ := v.Get("completion_tokens_details")
	if reasoning, ok := dialect.Count(inCompletion, "reasoning_tokens"); ok {
		if hasTotal && reasoning > 0 && prompt+completion+reasoning == total {
			u.Output += reasoning
		}
		u.Reasoning = new(min(reasoning, u.Output))
	}
	u.TotalTokens = total
	if !hasTotal {
		u.TotalTokens = min(prompt+completion, dialect.MaxCount)
	}
	return u
}
