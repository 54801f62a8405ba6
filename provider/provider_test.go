package provider_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/provider"
)

func TestOverflowIsKnownByItsWords(t *testing.T) {
	for text, want := range map[string]bool{
		"Prompt is too long: 210000 tokens > 200000 maximum": true,
		"request_too_large": true,
		"Your input exceeds the context window of this model.":  true,
		"This model's maximum context length is 128000 tokens.": true,
		"CONTEXT_LENGTH_EXCEEDED":                               true,
		"Context length exceeded":                               true,
		"the context window exceeds limit":                      true,
		"Please reduce the length of the messages":              true,
		"Input is too long for requested model":                 true,
		"Too many tokens":                                       true,
		"token limit exceeded":                                  true,
		"Rate limit reached: too many tokens per minute":        false,
		"Too many requests, token limit exceeded":               false,
		"throttling: too many tokens":                           false,
		"Token limit reached":                                   false,
		"max_tokens is too large":                               false,
		"":                                                      false,
		"rate_limit_exceeded: Request too large for gpt-4 on tokens per min, maximum context length..": false,
	} {
		if got := provider.IsOverflow(text); got != want {
			t.Errorf("IsOverflow(%q) = %t", text, got)
		}
	}
}

func TestRefusalsAreClassifiedByStatusThenWords(t *testing.T) {
	for _, c := range []struct {
		status int
		text   string
		words  []string
		want   provider.Class
	}{
		{400, "bad", nil, provider.InvalidRequest},
		{400, "maximum context length is 5", nil, provider.Overflow},
		{400, "x", []string{"context_length_exceeded"}, provider.Overflow},
		{401, "x", nil, provider.Auth},
		{402, "x", nil, provider.Quota},
		{403, "x", nil, provider.Auth},
		{404, "x", nil, provider.NotFound},
		{408, "x", nil, provider.Server},
		{413, "x", nil, provider.Overflow},
		{422, "x", nil, provider.InvalidRequest},
		{429, "x", nil, provider.RateLimit},
		{429, "maximum context length", []string{"context_length_exceeded"}, provider.RateLimit},
		{429, "x", []string{"Insufficient_Quota"}, provider.Quota},
		{500, "x", nil, provider.Server},
		{503, "x", nil, provider.Overloaded},
		{529, "x", nil, provider.Overloaded},
		{599, "x", nil, provider.Server},
		{302, "x", nil, provider.InvalidRequest},
		{0, "x", []string{"overloaded_error"}, provider.Overloaded},
		{0, "x", []string{"rate_limit_error"}, provider.RateLimit},
		{0, "x", []string{"api_error"}, provider.Server},
		{0, "x", []string{"timeout_error"}, provider.Server},
		{0, "x", []string{"server_error"}, provider.Server},
		{0, "x", []string{"internal_server_error"}, provider.Server},
		{0, "ThrottlingException: Throttling", nil, provider.RateLimit},
		{0, "x", []string{"authentication_error"}, provider.Auth},
		{0, "x", []string{"model_not_found"}, provider.NotFound},
		{0, "x", []string{"content_filter"}, provider.Refused},
		{0, "x", nil, provider.InvalidRequest},
	} {
		if got := provider.Classify(c.status, c.text, c.words...); got != c.want {
			t.Errorf("Classify(%d, %q, %q) = %s, want %s", c.status, c.text, c.words, got, c.want)
		}
	}
}

func TestClassifyIsTotalAndLeavesItsWordsAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.String()).Draw(t, "words")
		kept := fmt.Sprintf("%q", words)
		class := provider.Classify(rapid.Int().Draw(t, "status"), rapid.String().Draw(t, "text"), words...)
		if class == "" {
			t.Fatal("no class")
		}
		if got := fmt.Sprintf("%q", words); got != kept {
			t.Fatalf("the words became %s, were %s", got, kept)
		}
	})
}

func TestOnlyFailuresOfTheMomentAreRetried(t *testing.T) {
	retried := map[provider.Class]bool{
		provider.Transport: true, provider.Disconnect: true, provider.RateLimit: true, provider.Overloaded: true, provider.Server: true,
		provider.Deadline: true, provider.Unreachable: false, provider.Overflow: false, provider.Quota: false, provider.Auth: false, provider.NotFound: false,
		provider.InvalidRequest: false, provider.Refused: false, provider.MalformedStream: false, provider.UnmappedStopReason: false,
		provider.MissingKey: false, provider.Cancelled: false, "unheard of": false,
	}
	for _, class := range provider.Classes() {
		if _, judged := retried[class]; !judged || !class.Known() {
			t.Errorf("%s is not in the table, or not known", class)
		}
	}
	for class, want := range retried {
		if got := (&provider.Error{Class: class}).Retryable(); got != want {
			t.Errorf("%s: retryable %t", class, got)
		}
	}
}

func TestErrorsMatchTheContextsErrors(t *testing.T) {
	var cancelled, late, other error = &provider.Error{Class: provider.Cancelled}, &provider.Error{Class: provider.Deadline}, &provider.Error{Class: provider.Server}
	if !errors.Is(cancelled, context.Canceled) || errors.Is(cancelled, context.DeadlineExceeded) {
		t.Error("cancelled")
	}
	if !errors.Is(late, context.DeadlineExceeded) || errors.Is(late, context.Canceled) {
		t.Error("deadline")
	}
	if errors.Is(other, context.Canceled) || errors.Is(other, context.DeadlineExceeded) {
		t.Error("server")
	}
}

func TestASecretIsNeverPrinted(t *testing.T) {
	const key = "sk-very-secret"
	type holder struct {
		Public  provider.Secret
		private provider.Secret
	}
	s := provider.NewSecret("  " + key + "\n")
	if s.Reveal() != key {
		t.Fatalf("revealed %q", s.Reveal())
	}
	h := holder{s, s}
	inJSON, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	for _, printed := range []string{
		fmt.Sprint(s), fmt.Sprintf("%v %+v %#v %s %q %x %d", s, s, s, s, s, s, s), fmt.Sprintf("%v %+v %#v", h, &h, h), string(inJSON),
		s.Scrub("Incorrect key " + key + " given (" + key + ")"),
	} {
		if strings.Contains(printed, key) || strings.Contains(printed, fmt.Sprintf("%x", key)) {
			t.Errorf("printed: %s", printed)
		}
	}
	if empty := provider.NewSecret(" \n"); empty.Present() || empty.Reveal() != "" || empty.Scrub("text") != "text" {
		t.Error("an absent key is not absent")
	}
}
