package coretest

import (
	"github.com/loom-run/loom/core/usage"
	"pgregory.net/rapid"
)

// Amount generates amounts as rows hold them: in plain and scientific notation, as integers, unsigned. Signed ones belong to adjustments.
func Amount() *rapid.Generator[usage.Amount] {
	return rapid.OneOf(
		rapid.Just(usage.Amount{}),
		rapid.Map(rapid.Int64Range(0, 1<<40), usage.Micros),
		rapid.Map(rapid.OneOf(
			rapid.SampledFrom([]string{"0", "0.0", "3", "0.00125", "1.0e-5", "2.5E-7", "12.50", "1e2", "0.1", "3.0000000000000004e-6"}),
			rapid.StringMatching(`(0|[1-9][0-9]{0,6})\.[0-9]{1,12}`),
			rapid.StringMatching(`[1-9](\.[0-9]{1,4})?e-[0-9]{1,2}`),
		), amount),
	)
}

// SignedAmount generates amounts of either sign.
func SignedAmount() *rapid.Generator[usage.Amount] {
	return rapid.OneOf(Amount(), rapid.Map(rapid.StringMatching(`-(0|[1-9][0-9]{0,6})\.[0-9]{1,12}`), amount))
}

func amount(literal string) usage.Amount {
	a, ok := usage.ParseAmount(number(literal))
	if !ok {
		panic("coretest: no amount: " + literal)
	}
	return a
}

// Billing generates the arrangements.
func Billing() *rapid.Generator[usage.Billing] {
	return rapid.SampledFrom([]usage.Billing{usage.API, usage.ChatGPTPlan, usage.Other})
}

// Evidence generates every evidence that the type expresses.
func Evidence() *rapid.Generator[usage.Evidence] {
	return rapid.OneOf(rapid.Just(usage.NoProvider()), RemoteEvidence())
}

// RemoteEvidence generates the evidence of calls that reached a provider.
func RemoteEvidence() *rapid.Generator[usage.Evidence] {
	return rapid.Custom(func(t *rapid.T) usage.Evidence {
		b := Billing().Draw(t, "billing")
		basis := rapid.SampledFrom([]usage.Basis{usage.APIRates, usage.ChatGPTReferenceRates, usage.MixedRates}).Draw(t, "basis")
		complete, partial := usage.Reported(b, usage.Complete), usage.Reported(b, usage.Partial)
		return rapid.SampledFrom([]usage.Evidence{
			usage.Unreported(b), complete, partial,
			complete.WithPrice(basis), partial.WithPrice(basis),
			complete.Add(complete.WithPrice(basis)), // all tokens known, some of them priced
		}).Draw(t, "evidence")
	})
}

// Usage generates the records of remote calls and the local identity.
func Usage() *rapid.Generator[usage.Usage] {
	return rapid.OneOf(rapid.Just(usage.Zero()), record(rapid.Int64Range(0, 1<<50), Amount()))
}

// SignedUsage generates records as adjustments have them.
func SignedUsage() *rapid.Generator[usage.Usage] {
	return rapid.OneOf(Usage(), record(rapid.Int64Range(-1<<50, 1<<50), SignedAmount()))
}

func record(count *rapid.Generator[int64], dollars *rapid.Generator[usage.Amount]) *rapid.Generator[usage.Usage] {
	return rapid.Custom(func(t *rapid.T) usage.Usage {
		return usage.Usage{
			Input: count.Draw(t, "input"), Output: count.Draw(t, "output"),
			CacheRead: count.Draw(t, "cacheRead"), CacheWrite: count.Draw(t, "cacheWrite"),
			CacheWrite1h: maybe(count).Draw(t, "cacheWrite1h"), Reasoning: maybe(count).Draw(t, "reasoning"),
			TotalTokens: count.Draw(t, "totalTokens"),
			Cost: usage.Cost{
				Input: dollars.Draw(t, "cost.input"), Output: dollars.Draw(t, "cost.output"),
				CacheRead: dollars.Draw(t, "cost.cacheRead"), CacheWrite: dollars.Draw(t, "cost.cacheWrite"),
				Total: dollars.Draw(t, "cost.total"),
			},
			Evidence: RemoteEvidence().Draw(t, "evidence"),
		}
	})
}
