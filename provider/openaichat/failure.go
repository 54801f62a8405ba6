package openaichat

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/provider"
)

// peer is who is spoken to, as error sentences name it.
type peer struct {
	host    string
	keyName string // what the key is configured by, empty when there is no name
}

// stated is an error in the provider's words.
type stated struct {
	message string
	words   []string // its type, code and status words
	status  int      // a status that the body states, 0 for none
}

// statedError finds the error in a chunk or in a refused request's body. Shapes in use: {"error":{message,type,code}} with a code that is a word or
// an HTTP status, {"error":"text"}, and the bare {message,type,code}, which only counts where isError or a field says that the value is an error.
func statedError(v jsonv.Value, isError bool) (stated, bool) {
	inner, has := v.Get("error")
	if !has || inner.IsNull() {
		if !isError && text(v, "object") != "error" && text(v, "type") != "error" {
			return stated{}, false
		}
		inner = v
	}
	if s, ok := inner.Text(); ok {
		return stated{message: s}, true
	}
	out := stated{message: first(text(inner, "message"), text(inner, "detail"), text(inner, "msg"))}
	for _, name := range []string{"type", "code", "status"} {
		field, _ := inner.Get(name)
		if word, ok := field.Text(); ok && word != "" {
			out.words = append(out.words, word)
			continue
		}
		if n, ok := field.Int64(); ok && n >= 300 && n < 600 && out.status == 0 {
			out.status = int(n)
		}
	}
	return out, true
}

// refusedBody reads the body of a refused request. Only JSON and plain text are repeated to people; a page of markup says nothing to them.
func refusedBody(body []byte, mediaType string) stated {
	if v, _, err := parseChunk(body); err == nil {
		if s, ok := v.Text(); ok {
			return stated{message: s}
		}
		if v.Kind() == jsonv.Array && v.Len() > 0 {
			v = v.At(0) // some gateways wrap the error in a list
		}
		if s, ok := statedError(v, true); ok {
			return s
		}
	}
	if strings.HasPrefix(mediaType, "text/plain") {
		return stated{message: string(body)}
	}
	return stated{}
}

// refused is the error for what the provider stated. status is that of the response, or 0 inside a stream.
func (p peer) refused(modelID string, status int, s stated) *provider.Error {
	if status == 0 {
		status = s.status
	}
	e := &provider.Error{
		Class:  provider.Classify(status, s.message, s.words...),
		Status: status,
		Detail: excerpt(strings.Join(s.words, " ")),
	}
	e.Message = p.sentence(e.Class, modelID)
	if status != 0 {
		e.Message += fmt.Sprintf(" (%d)", status)
	}
	if said := excerpt(s.message); said != "" {
		e.Message += ": " + said
	}
	if advice := p.advice(e.Class); advice != "" {
		e.Message += "; " + advice
	}
	return e
}

func (p peer) sentence(class provider.Class, modelID string) string {
	switch class {
	case provider.Overflow:
		return "context length exceeded: the request does not fit the context window of " + modelID
	case provider.Quota:
		return p.host + " says that the account has no credit left"
	case provider.RateLimit:
		return p.host + " asks to wait: too many requests"
	case provider.Overloaded:
		return p.host + " is overloaded"
	case provider.Server:
		return p.host + " failed on its side"
	case provider.Auth:
		return p.host + " refused the key"
	case provider.NotFound:
		return p.host + " does not have the model " + modelID + " or the address asked for"
	case provider.Refused:
		return p.host + " withheld the answer by its content rules"
	case provider.Transport, provider.Unreachable, provider.Disconnect, provider.Deadline, provider.InvalidRequest, provider.MalformedStream,
		provider.UnmappedStopReason, provider.MissingKey, provider.Cancelled:
	}
	return p.host + " refused the request"
}

func (p peer) advice(class provider.Class) string {
	switch class {
	case provider.Auth:
		if p.keyName != "" {
			return "check " + p.keyName
		}
	case provider.Overflow:
		return "start a new session or ask for less at once"
	case provider.NotFound:
		return "check the model name and the base URL"
	case provider.Transport, provider.Unreachable, provider.Disconnect, provider.RateLimit, provider.Overloaded, provider.Server,
		provider.Deadline, provider.Quota, provider.InvalidRequest, provider.Refused, provider.MalformedStream, provider.UnmappedStopReason, provider.MissingKey, provider.Cancelled:
	}
	return ""
}

func (p peer) malformed(what string) *provider.Error {
	return &provider.Error{
		Class:   provider.MalformedStream,
		Message: p.host + " does not speak the chat-completions dialect: " + what + "; check the base URL",
	}
}

func (p peer) disconnected() *provider.Error {
	return &provider.Error{
		Class:   provider.Disconnect,
		Message: "the answer from " + p.host + " broke off before it was complete; what arrived is kept and the request can be repeated",
	}
}

// maxRetryAfter bounds a hint: a longer one is no hint but a refusal, and must not overflow a sum of times.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads the hint how long to wait, in milliseconds: the retry-after-ms header, or Retry-After in seconds or as a date.
func retryAfter(h http.Header, nowMs int64) *int64 {
	bounded := func(ms float64) *int64 {
		return new(int64(min(max(ms, 0), float64(maxRetryAfter.Milliseconds()))))
	}
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms == ms {
		return bounded(ms)
	}
	hint := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(hint, 64); err == nil && s == s {
		return bounded(s * 1000)
	}
	if at, err := http.ParseTime(hint); err == nil {
		return bounded(float64(at.UnixMilli() - nowMs))
	}
	return nil
}
