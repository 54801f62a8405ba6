// Package recording keeps what passes between Loom and the servers of models, and answers from it.
//
// # Purpose
//
// A run that went to a server once becomes one that needs none: a test that is the same every time, an evaluation of what else does with the same answers,
// a report of what a server really said. The bytes are kept, so that a replay goes through the same dialect again.
//
// # Key types
//
// [Recorder] writes exchanges; [Player] is a provider that answers from them. docs/formats/recording.md has the format.
//
// # Relationships
//
// Imports provider, provider/remote and the dialects, core/jsonv and core/message. Imported by provider/catalogue and node.
//
// # Traffic
//
// None of its own: a recorder stands in front of a client's connections, and a player in their place.
//
// # Invariants
//
//   - No key is in a recording: requests pass the recorder before they get theirs, and one that a server repeats is replaced.
//   - An exchange is written once it is over, whole, on a line of its own.
//   - A recorder changes nothing of what passes, and a recording that cannot be written does not fail the request.
//   - A player uses each exchange once.
package recording

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/provider"
)

// version is the number of the format.
const version = 1

// header is the first line of a recording.
var header = jsonv.Obj(jsonv.F("loom_recording", jsonv.Num(version))).String()

// exchange is one request with what came of it.
type exchange struct {
	model   provider.Model
	request jsonv.Value
	status  int
	headers [len(keptHeaders)]string
	body    []byte
	cuts    []int // where pieces of the body ended; nil for unknown
	broke   bool
	failed  string
}

// keptHeaders are the headers of a response that matter to a dialect, with the fields that hold them.
var keptHeaders = [...]struct{ header, field string }{
	{"Content-Type", "content_type"}, {"Retry-After", "retry_after"}, {"Retry-After-Ms", "retry_after_ms"}, {"Content-Encoding", "content_encoding"},
}

// append writes an exchange as a line.
func (x *exchange) append(dst []byte) []byte {
	w := jsonv.NewWriter(dst)
	w.Begin()
	w.Str("provider", x.model.Provider)
	w.Str("model", x.model.ModelID)
	w.Str("api", x.model.API)
	w.Num("context_window", x.model.ContextWindow)
	w.Num("max_output_tokens", x.model.MaxOutput)
	w.Name("request")
	w.Value(x.request)
	w.Num("status", int64(x.status))
	for i, h := range keptHeaders {
		if x.headers[i] != "" {
			w.Str(h.field, x.headers[i])
		}
	}
	if utf8.Valid(x.body) {
		w.Str("body", string(x.body))
	} else {
		w.Str("body", base64.StdEncoding.EncodeToString(x.body))
		w.Flag("base64", true)
	}
	if x.cuts != nil {
		w.Name("cuts")
		w.BeginArray()
		for _, c := range x.cuts {
			w.Int(int64(c))
		}
		w.EndArray()
	}
	if x.broke {
		w.Flag("broke", true)
	}
	if x.failed != "" {
		w.Str("failed", x.failed)
	}
	w.End()
	return append(w.Bytes(), '\n')
}

// readExchange reads a line.
func readExchange(v jsonv.Value) (exchange, error) {
	r := jsonv.Read(v, "recording.readExchange")
	x := exchange{
		model: provider.Model{
			Identity: provider.Identity{Provider: r.Str("provider"), ModelID: r.Str("model")}, API: r.Str("api"),
			ContextWindow: r.Num("context_window"), MaxOutput: r.Num("max_output_tokens"),
		},
		request: r.Value("request"), status: int(r.Num("status")), body: []byte(r.Str("body")), broke: r.OptFlag("broke"),
	}
	for i, h := range keptHeaders {
		if s := r.OptStr(h.field); s != nil {
			x.headers[i] = *s
		}
	}
	if s := r.OptStr("failed"); s != nil {
		x.failed = *s
	}
	if r.OptFlag("base64") {
		raw, err := base64.StdEncoding.DecodeString(string(x.body))
		if err != nil {
			r.Fail("body", "base64", jsonv.Str("other text"))
		}
		x.body = raw
	}
	if list := r.Maybe("cuts"); list != nil {
		x.cuts = readCuts(r, *list, len(x.body))
	}
	return x, r.Err()
}

// readCuts reads ascending places in a body.
func readCuts(r *jsonv.Reader, list jsonv.Value, length int) []int {
	cuts, last := make([]int, 0, list.Len()), 0
	for _, c := range list.Elems() {
		n, ok := c.Int64()
		if !ok || n < int64(last) || n > int64(length) {
			r.Fail("cuts", "ascending places in the body", c)
			return nil
		}
		last = int(n)
		cuts = append(cuts, last)
	}
	return cuts
}

// read reads a recording.
func read(text string) ([]exchange, error) {
	first, rest, _ := strings.Cut(text, "\n")
	head, err := jsonv.ParseString(first)
	if n, _ := head.Get("loom_recording"); err != nil || n.Kind() != jsonv.Int {
		return nil, errors.New("it is no recording")
	} else if n, _ := n.Int64(); n != version {
		return nil, fmt.Errorf("it is a recording of version %d and this program reads version %d", n, version)
	}
	var all []exchange
	line := 1
	for text := range strings.SplitSeq(rest, "\n") {
		line++
		if strings.TrimSpace(text) == "" {
			continue
		}
		v, err := jsonv.ParseString(text)
		var x exchange
		if err == nil {
			x, err = readExchange(v)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		all = append(all, x)
	}
	return all, nil
}

// told is the conversation in the body of a request: what it is recognised by.
func told(body jsonv.Value) jsonv.Value {
	for _, name := range []string{"messages", "input", "contents"} {
		if v, ok := body.Get(name); ok {
			return v
		}
	}
	return body
}
