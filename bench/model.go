package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
)

// scripted is a model: a request without a tool result gets one call of read, any
// other the final text.
func scripted(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if resultsIn(body) > 0 {
		answerWithText(w)
	} else {
		answerWithCalls(w, 1, 0)
	}
}

// resultsIn counts the results of tools in a request.
func resultsIn(body []byte) int { return bytes.Count(body, []byte(`"role":"tool"`)) }

// answerWithCalls is a response that calls read n times. The ids of its calls differ from those of another round.
func answerWithCalls(w http.ResponseWriter, n, round int) {
	w.Header().Set("Content-Type", "text/event-stream")
	for i := range n {
		chunk(w, fmt.Sprintf(`{"role":"assistant","tool_calls":[{"index":%d,"id":"call_%d_%d","type":"function","function":{"name":"read","arguments":"{\"path\":\"hello.txt\"}"}}]}`, i, round, i), "null")
	}
	finish(w, `"tool_calls"`)
}

func answerWithText(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, piece := range []string{"The file ", "says: ", "hello."} {
		chunk(w, fmt.Sprintf(`{"content":%q}`, piece), "null")
	}
	finish(w, `"stop"`)
}

func chunk(w io.Writer, delta, finish string) {
	_, _ = fmt.Fprintf(w, `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"scripted","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`+"\n\n", delta, finish)
}

func finish(w io.Writer, reason string) {
	chunk(w, "{}", reason)
	_, _ = fmt.Fprint(w, `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"scripted","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110}}`+"\n\ndata: [DONE]\n\n")
}

// bare is the least that a client must do: two requests, read to their ends.
func bare(base string) {
	for _, body := range []string{
		`{"model":"scripted","stream":true,"messages":[{"role":"user","content":"what does hello.txt say?"}]}`,
		`{"model":"scripted","stream":true,"messages":[{"role":"user","content":"what does hello.txt say?"},{"role":"tool","tool_call_id":"call_1","content":"hello"}]}`,
	} {
		res, err := http.Post(base+"/v1/chat/completions", "application/json", bytes.NewReader([]byte(body)))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		_, err = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
