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
	w.Header().Set("Content-Type", "text/event-stream")
	chunk := func(delta, finish string) {
		_, _ = fmt.Fprintf(w, `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"scripted","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`+"\n\n", delta, finish)
	}
	if bytes.Contains(body, []byte(`"role":"tool"`)) {
		for _, piece := range []string{"The file ", "says: ", "hello."} {
			chunk(fmt.Sprintf(`{"content":%q}`, piece), "null")
		}
		chunk("{}", `"stop"`)
	} else {
		chunk(`{"role":"assistant","tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"read","arguments":"{\"path\":\"hello.txt\"}"}}]}`, "null")
		chunk("{}", `"tool_calls"`)
	}
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
