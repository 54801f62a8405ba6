package openaichat

import (
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/usage"
)

// maxCount is the largest token count believed; more is a broken report.
const maxCount = 1_000_000_000_000

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
	prompt, hasPrompt := count(v, "prompt_tokens")
	completion, hasCompletion := count(v, "completion_tokens")
	total, hasTotal := count(v, "total_tokens")
	if !hasPrompt && !hasCompletion {
		return usage.Unknown(usage.API)
	}
	u := usage.Usage{Output: completion, Evidence: usage.Reported(usage.API, usage.Complete)}
	if !hasPrompt || !hasCompletion {
		u.Evidence = usage.Reported(usage.API, usage.Partial)
	}

	inPrompt, _ := v.Get("prompt_tokens_details")
	var ok bool
	if u.CacheRead, ok = count(inPrompt, "cached_tokens"); !ok {
		if u.CacheRead, ok = count(v, "prompt_cache_hit_tokens"); !ok {
			u.CacheRead, _ = count(v, "cached_tokens")
		}
	}
	u.CacheWrite, _ = count(inPrompt, "cache_write_tokens")
	u.Input = max(0, prompt-u.CacheRead-u.CacheWrite)

	inCompletion, _ := v.Get("completion_tokens_details")
	if reasoning, ok := count(inCompletion, "reasoning_tokens"); ok {
		if hasTotal && reasoning > 0 && prompt+completion+reasoning == total {
			u.Output += reasoning
		}
		u.Reasoning = new(min(reasoning, u.Output))
	}
	u.TotalTokens = total
	if !hasTotal {
		u.TotalTokens = min(prompt+completion, maxCount)
	}
	return u
}

// count reads a token count, clamped to what is believable.
func count(v jsonv.Value, name string) (int64, bool) {
	field, ok := v.Get(name)
	if !ok || field.Kind() != jsonv.Int {
		return 0, false
	}
	n, fits := field.Int64()
	if !fits {
		// Only the sign is left to know of an integer beyond 64 bits.
		if lit, _ := field.Literal(); lit[0] == '-' {
			return 0, true
		}
		return maxCount, true
	}
	return min(max(n, 0), maxCount), true
}
