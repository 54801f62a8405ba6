package gemini

import (
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/provider/dialect"
)

// readUsage normalises a usage report to disjoint buckets; ok is false for one without counts, as it comes with every piece of some streams. Cached tokens
// are part of the prompt; what tools of the provider added to the prompt, and what was thought, are beside the other counts. Zero counts are left out by
// the provider, so a report with a prompt is whole once the answer is; before that it is what was spent so far.
func readUsage(v jsonv.Value, finished bool) (usage.Usage, bool) {
	prompt, hasPrompt := dialect.Count(v, "promptTokenCount")
	answer, hasAnswer := dialect.Count(v, "candidatesTokenCount")
	thoughts, hasThoughts := dialect.Count(v, "thoughtsTokenCount")
	if !hasPrompt && !hasAnswer && !hasThoughts {
		return usage.Usage{}, false
	}
	tools, _ := dialect.Count(v, "toolUsePromptTokenCount")
	u := usage.Usage{Output: min(answer+thoughts, dialect.MaxCount), Evidence: usage.Reported(usage.API, usage.Partial)}
	if hasPrompt && finished {
		u.Evidence = usage.Reported(usage.API, usage.Complete)
	}
	u.CacheRead, _ = dialect.Count(v, "cachedContentTokenCount")
	u.Input = min(max(0, prompt-u.CacheRead)+tools, dialect.MaxCount)
	if hasThoughts {
		u.Reasoning = &thoughts
	}
	var hasTotal bool
	if u.TotalTokens, hasTotal = dialect.Count(v, "totalTokenCount"); !hasTotal {
		u.TotalTokens = min(u.Input+u.CacheRead+u.Output, dialect.MaxCount)
	}
	return u, true
}
