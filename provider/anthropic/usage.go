package anthropic

import (
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/provider/dialect"
)

// report is the usage of one answer as far as it was stated; a count that never was is nil. The dialect's buckets are disjoint as they come.
type report struct {
	input, output         *int64
	cacheRead, cacheWrite *int64
	cacheWrite1h          *int64
	final                 bool // the closing report came: before it, the output is what was there when the answer began
}

// read takes over what a report states. Fields that it leaves out keep their value.
func (r *report) read(v jsonv.Value, final bool) {
	take := func(dst **int64, v jsonv.Value, name string) {
		if n, ok := dialect.Count(v, name); ok {
			*dst = &n
		}
	}
	take(&r.input, v, "input_tokens")
	take(&r.output, v, "output_tokens")
	take(&r.cacheRead, v, "cache_read_input_tokens")
	take(&r.cacheWrite, v, "cache_creation_input_tokens")
	lifetimes, _ := v.Get("cache_creation")
	take(&r.cacheWrite1h, lifetimes, "ephemeral_1h_input_tokens")
	r.final = r.final || final && r.output != nil
}

// usage is the report in neutral buckets; nil when it states nothing.
func (r *report) usage() *usage.Usage {
	if r.input == nil && r.output == nil {
		return nil
	}
	count := func(n *int64) int64 {
		if n == nil {
			return 0
		}
		return *n
	}
	u := usage.Usage{
		Input: count(r.input), Output: count(r.output), CacheRead: count(r.cacheRead), CacheWrite: count(r.cacheWrite),
		Evidence: usage.Reported(usage.API, usage.Partial),
	}
	if r.input != nil && r.output != nil && r.final {
		u.Evidence = usage.Reported(usage.API, usage.Complete)
	}
	if r.cacheWrite1h != nil {
		u.CacheWrite1h = new(min(*r.cacheWrite1h, u.CacheWrite))
	}
	u.TotalTokens = min(u.Input+u.Output+u.CacheRead+u.CacheWrite, dialect.MaxCount)
	return &u
}
