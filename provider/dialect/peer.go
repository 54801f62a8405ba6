package dialect

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/provider"
)

// Peer is who is spoken to, as error sentences name it.
type Peer struct {
	Name    string // the host, after the name of the route where it has one
	KeyName string // what the key is configured by, empty when there is no name
	Speaks  string // the dialect, as people call it

	// Key is what must not be repeated when a server repeats it.
	Key provider.Secret
}

// Excerpt makes words of the peer fit for a sentence, without the key. The key goes first: half of one, at the end of an excerpt, is one that nobody finds.
func (p Peer) Excerpt(s string) string { return Excerpt(p.Key.Scrub(s)) }

// Stated is an error in the provider's words.
type Stated struct {
	Message string
	Words   []string // its type, code and status words
	Status  int      // a status that the body states, 0 for none
	RetryMs *int64   // how long the body asks to wait, nil when it does not say
}

// StatedError finds the error in a chunk or in a refused request's body. Shapes in use: {"error":{message,type,code}} with a code that is a word or
// an HTTP status, {"error":"text"}, and the bare {message,type,code}, which only counts where isError or a field says that the value is an error.
func StatedError(v jsonv.Value, isError bool) (Stated, bool) {
	inner, has := v.Get("error")
	if !has || inner.IsNull() {
		if !isError && Text(v, "object") != "error" && Text(v, "type") != "error" {
			return Stated{}, false
		}
		inner = v
	}
	if s, ok := inner.Text(); ok {
		return Stated{Message: s}, true
	}
	out := Stated{Message: First(Text(inner, "message"), Text(inner, "detail"), Text(inner, "msg"))}
	for _, name := range []string{"type", "code", "status"} {
		field, _ := inner.Get(name)
		if word, ok := field.Text(); ok && word != "" {
			out.Words = append(out.Words, word)
			continue
		}
		if n, ok := field.Int64(); ok && n >= 300 && n < 600 && out.Status == 0 {
			out.Status = int(n)
		}
	}
	out.RetryMs = retryDelay(inner)
	return out, true
}

// retryDelay finds the wait that a Google error carries in its details: {"@type":"…RetryInfo","retryDelay":"34.5s"}.
func retryDelay(v jsonv.Value) *int64 {
	details, _ := v.Get("details")
	for _, d := range details.Elems() {
		delay, ok := strings.CutSuffix(Text(d, "retryDelay"), "s")
		if s, err := strconv.ParseFloat(delay, 64); ok && err == nil && s == s {
			return new(BoundedWait(s * 1000))
		}
	}
	return nil
}

// maxWait bounds a hint how long to wait, in milliseconds: a longer one is no hint but a refusal, and must not overflow a sum of times.
const maxWait = 24 * 60 * 60 * 1000

// BoundedWait makes a hint in milliseconds one that can be waited for: from nothing to a day.
func BoundedWait(ms float64) int64 { return int64(min(max(ms, 0), maxWait)) }

// RefusedBody reads the body of a refused request. Only JSON and plain text are repeated to people; a page of markup says nothing to them.
func RefusedBody(body []byte, mediaType string) Stated {
	if v, _, err := ParseJSON(body); err == nil {
		if s, ok := v.Text(); ok {
			return Stated{Message: s}
		}
		if v.Kind() == jsonv.Array && v.Len() > 0 {
			v = v.At(0) // some gateways wrap the error in a list
		}
		if s, ok := StatedError(v, true); ok {
			return s
		}
	}
	if strings.HasPrefix(mediaType, "text/plain") {
		return Stated{Message: string(body)}
	}
	return Stated{}
}

// Refused is the error for what the provider stated. status is that of the response, or 0 inside a stream.
func (p Peer) Refused(modelID string, status int, s Stated) *provider.Error {
	if status == 0 {
		status = s.Status
	}
	e := &provider.Error{
		Class:  provider.Classify(status, s.Message, s.Words...),
		Status: status,
		Detail: p.Excerpt(strings.Join(s.Words, " ")),

		RetryAfterMs: s.RetryMs,
	}
	e.Message = p.Sentence(e.Class, modelID)
	if status != 0 {
		e.Message += fmt.Sprintf(" (%d)", status)
	}
	if said := p.Excerpt(s.Message); said != "" {
		e.Message += ": " + said
	}
	if advice := p.Advice(e.Class); advice != "" {
		e.Message += "; " + advice
	}
	return e
}

// Sentence says what a failure of a class is, without its details.
func (p Peer) Sentence(class provider.Class, modelID string) string {
	switch class {
	case provider.Overflow:
		return "context length exceeded: the request does not fit the context window of " + modelID + ", says " + p.Name
	case provider.Quota:
		return p.Name + " says that the account has no credit left"
	case provider.RateLimit:
		return p.Name + " asks to wait: too many requests"
	case provider.Overloaded:
		return p.Name + " is overloaded"
	case provider.Server:
		return p.Name + " failed on its side"
	case provider.Auth:
		return p.Name + " refused the key"
	case provider.NotFound:
		return p.Name + " does not have the model " + modelID + " or the address asked for"
	case provider.Refused:
		return p.Name + " withheld the answer by its content rules"
	case provider.Transport, provider.Unreachable, provider.Disconnect, provider.Deadline, provider.InvalidRequest, provider.MalformedStream,
		provider.UnmappedStopReason, provider.MissingKey, provider.Cancelled:
	}
	return p.Name + " refused the request"
}

// Advice is the next step for whoever reads that it failed; empty when there is none to name.
func (p Peer) Advice(class provider.Class) string {
	switch class {
	case provider.Auth:
		if p.KeyName != "" {
			return "check " + p.KeyName
		}
	case provider.Overflow:
		return "start a new session or ask for less at once"
	case provider.NotFound:
		return "check the model name and the base URL"
	case provider.Quota:
		return "add credit, or use another key or model"
	case provider.Refused:
		return "ask in another way"
	case provider.RateLimit:
		return "if it goes on, use another key or model"
	case provider.Overloaded, provider.Server:
		return "if it goes on, use another model"
	case provider.InvalidRequest:
		return "check the model's settings"
	case provider.Transport, provider.Unreachable, provider.Disconnect, provider.Deadline, provider.MalformedStream, provider.UnmappedStopReason, provider.MissingKey, provider.Cancelled:
	}
	return ""
}

// Malformed is the error for bytes that are not what the dialect promises.
func (p Peer) Malformed(what string) *provider.Error {
	return &provider.Error{
		Class:   provider.MalformedStream,
		Message: p.Name + " does not speak the " + p.Speaks + " dialect: " + what + "; check the base URL",
	}
}

// Disconnected is the error for an answer that ended before the provider said that it was complete.
func (p Peer) Disconnected() *provider.Error {
	return &provider.Error{
		Class:   provider.Disconnect,
		Message: "the answer from " + p.Name + " broke off before it was complete; what arrived is kept and the request can be repeated",
	}
}
