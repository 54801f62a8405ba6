package cli_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// model is a server that speaks OpenAI-compatible chat completions by a script. A
// script is a list of answers between lines of ==; an answer is a list of steps:
//
//	times N              # it is given N times
//	text WORDS           # a piece of the answer
//	call ID NAME JSON    # a tool call
//	usage IN OUT         # tokens, at the end
//	finish REASON        # in place of stop or tool_calls
//	status CODE BODY     # a refusal, in place of all that
//	header NAME VALUE    # before the status
//	raw WORDS            # bytes of the stream as they are
//	cut                  # the connection breaks
//	hang                 # nothing more comes until the client is gone
//
// WORDS and JSON that begin with a quote are Go strings. A request past the end of
// the script is refused as one that cannot be repeated.
type model struct {
	*httptest.Server
	mu       sync.Mutex // guards what follows
	arrived  *sync.Cond
	script   [][]step
	requests [][]byte
}

type step struct{ verb, rest string }

// parseScript reads a script; what is no step is an error.
func parseScript(text string) ([][]step, error) {
	var script [][]step
	for answer := range strings.SplitSeq(text, "\n==\n") {
		var steps []step
		times := 1
		for line := range strings.Lines(answer) {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			verb, rest, _ := strings.Cut(line, " ")
			switch verb {
			case "text", "call", "usage", "finish", "status", "header", "raw", "cut", "hang":
				steps = append(steps, step{verb, rest})
			case "times":
				n, err := strconv.Atoi(rest)
				if err != nil {
					return nil, err
				}
				times = n
			default:
				return nil, fmt.Errorf("a model does not know the step %q", line)
			}
		}
		for range times {
			script = append(script, steps)
		}
	}
	return script, nil
}

func newModel(t testing.TB, text string) *model {
	t.Helper()
	m, err := startModel(text)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.stop)
	return m
}

func startModel(text string) (*model, error) {
	script, err := parseScript(text)
	if err != nil {
		return nil, err
	}
	m := &model{script: script}
	m.arrived = sync.NewCond(&m.mu)
	m.Server = httptest.NewServer(m)
	return m, nil
}

func (m *model) stop() {
	m.CloseClientConnections()
	m.Close()
}

// base is what OPENAI_BASE_URL is set to.
func (m *model) base() string { return m.URL + "/v1" }

// await waits until n requests have arrived.
func (m *model) await(n int) error {
	late := time.AfterFunc(time.Minute, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.script = nil
		m.arrived.Broadcast()
	})
	defer late.Stop()
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.requests) < n {
		if m.script == nil {
			return fmt.Errorf("after a minute %d requests have come, not %d", len(m.requests), n)
		}
		m.arrived.Wait()
	}
	return nil
}

// asked returns the requests so far.
func (m *model) asked() [][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([][]byte(nil), m.requests...)
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	m.mu.Lock()
	n := len(m.requests)
	m.requests = append(m.requests, body)
	var steps []step
	if n < len(m.script) {
		steps = m.script[n]
	}
	m.arrived.Broadcast()
	m.mu.Unlock()
	if steps == nil {
		http.Error(w, `{"error":{"message":"the script of the model is over"}}`, http.StatusBadRequest)
		return
	}
	play(w, r, steps)
}

// play gives one answer.
func play(w http.ResponseWriter, r *http.Request, steps []step) {
	finish, tokens, calls := "stop", "", 0
	chunk := func(delta, finish string) {
		_, _ = fmt.Fprintf(w, "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]}\n\n", delta, finish)
		_ = http.NewResponseController(w).Flush()
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, s := range steps {
		switch s.verb {
		case "text":
			chunk(`{"content":`+bytesAsJSON(words(s.rest))+`}`, "null")
		case "call":
			id, rest, _ := strings.Cut(s.rest, " ")
			name, args, _ := strings.Cut(rest, " ")
			chunk(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%q,"type":"function","function":{"name":%q,"arguments":%s}}]}`, calls, id, name, bytesAsJSON(words(args))), "null")
			calls++
			finish = "tool_calls"
		case "usage":
			in, out, _ := strings.Cut(s.rest, " ")
			tokens = fmt.Sprintf(`,"usage":{"prompt_tokens":%s,"completion_tokens":%s}`, in, out)
		case "finish":
			finish = s.rest
		case "header":
			name, value, _ := strings.Cut(s.rest, " ")
			w.Header().Set(name, value)
		case "status":
			code, body, _ := strings.Cut(s.rest, " ")
			n, _ := strconv.Atoi(code)
			if strings.HasPrefix(body, "{") {
				w.Header().Set("Content-Type", "application/json")
			} else {
				w.Header().Set("Content-Type", "text/plain")
			}
			w.WriteHeader(n)
			_, _ = io.WriteString(w, body)
			return
		case "raw":
			_, _ = io.WriteString(w, words(s.rest))
			_ = http.NewResponseController(w).Flush()
			return
		case "cut":
			panic(http.ErrAbortHandler)
		case "hang":
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
	}
	chunk("{}", strconv.Quote(finish))
	_, _ = fmt.Fprintf(w, "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[]%s}\n\ndata: [DONE]\n\n", tokens)
}

// words reads a Go string, or takes the text as it is.
func words(text string) string {
	if unquoted, err := strconv.Unquote(text); err == nil {
		return unquoted
	}
	return text
}

// bytesAsJSON writes any bytes as a JSON string, those too that make it one that
// no reader should accept.
func bytesAsJSON(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < 0x20:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
