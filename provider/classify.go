package provider

import (
	"slices"
	"strings"
)

// overflowPhrases are how providers say that a request is larger than the context window, in lower case.
var overflowPhrases = []string{
	"prompt is too long",
	"request_too_large",
	"exceeds the context window",
	"exceeds the maximum number of tokens",
	"maximum context length",
	"context_length_exceeded",
	"context length exceeded",
	"context window exceeds limit",
	"reduce the length of the messages",
	"input is too long for requested model",
	"too many tokens",
	"token limit exceeded",
}

// throttlePhrases mark a text about the rate of requests, which may speak of tokens too and is never about the size of one.
var throttlePhrases = []string{"rate limit", "rate_limit", "too many requests", "throttling"}

// quotaWords are error codes of an account without credit. They come with the status of a rate limit, but do not pass with time.
var quotaWords = []string{"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}

// IsOverflow reports whether an error text says that the request is larger than the context window.
func IsOverflow(text string) bool {
	text = strings.ToLower(text)
	return containsAny(text, overflowPhrases) && !containsAny(text, throttlePhrases)
}

func containsAny(text string, phrases []string) bool {
	return slices.ContainsFunc(phrases, func(p string) bool { return strings.Contains(text, p) })
}

// Classify reads a provider's refusal. status is the HTTP status, or 0 for an error inside a stream that states none; words are the
// provider's type and code; text is its message.
//
// A status of 429 is never an overflow, whatever the text says: compacting the context would not help.
func Classify(status int, text string, words ...string) Class {
	named := func(known ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(known, strings.ToLower(w)) })
	}
	switch {
	case named(quotaWords...) || status == 402:
		return Quota
	case status == 429:
		return RateLimit
	case IsOverflow(text) || slices.ContainsFunc(words, IsOverflow) || status == 413:
		return Overflow
	case status == 503 || status == 529 || named("overloaded_error", "engine_overloaded_error"):
		return Overloaded
	case status == 408 || status >= 500:
		return Server
	case status == 401 || status == 403:
		return Auth
	case status == 404:
		return NotFound
	case status >= 300:
		return InvalidRequest
	}
	return classifyWords(text, named)
}

// classifyWords reads an error that came without a telling status.
func classifyWords(text string, named func(known ...string) bool) Class {
	switch {
	case named("rate_limit_error", "rate_limit_exceeded", "too_many_requests") || containsAny(strings.ToLower(text), throttlePhrases):
		return RateLimit
	case named("api_error", "timeout_error", "server_error", "internal_server_error", "internal_error"):
		return Server
	case named("authentication_error", "permission_error", "invalid_api_key"):
		return Auth
	case named("not_found_error", "model_not_found"):
		return NotFound
	case named("content_filter", "content_policy_violation"):
		return Refused
	}
	return InvalidRequest
}
