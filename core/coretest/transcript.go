package coretest

import (
	"fmt"
	"strings"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
)

// Transcript makes a conversation of about size bytes of stored text: prompts, responses that think, speak and call a tool, and results full of
// source code. The same seed and size make the same rows.
func Transcript(seed uint64, size int) []entry.Entry {
	s := script{ids: id.NewGenerator(clock.Stepping(1767225600000, 750), seed)}
	for s.size < size {
		s.add(entry.Message{Message: &message.User{Content: []message.UserBlock{message.Text{Text: s.prose(30)}}, Timestamp: s.now()}})
		for range 1 + s.draw(4) {
			call := fmt.Sprintf("call_%016x", s.next())
			s.add(entry.Message{Message: s.response(call)})
			s.add(entry.Message{Message: &message.ToolResult{
				ToolCallID: call, ToolName: "read", Content: []message.ResultBlock{message.Text{Text: s.source(20)}},
				Details:   new(jsonv.Obj(jsonv.F("lines", jsonv.Num(20)), jsonv.F("truncated", jsonv.Boolean(false)))),
				Timestamp: s.now(),
			}})
		}
	}
	return s.rows
}

type script struct {
	ids  id.Generator
	rows []entry.Entry
	size int
	leaf id.EntryID
}

func (s *script) add(b entry.Body) {
	e := entry.Entry{Parent: s.leaf, Seq: int64(len(s.rows) + 1), Timestamp: s.now(), Body: b}
	e.ID, s.ids = s.ids.Entry()
	s.leaf, s.rows, s.size = e.ID, append(s.rows, e), s.size+len(entry.Encode(e))
}

func (s *script) now() int64 { return 1767225600000 + int64(len(s.rows))*750 }

func (s *script) next() (n uint64) {
	n, s.ids = s.ids.Draw()
	return n
}

func (s *script) draw(n int) int { return int(s.next() % uint64(n)) }

func (s *script) response(call string) *message.Assistant {
	in, out := int64(1000+s.draw(90000)), int64(20+s.draw(900))
	return &message.Assistant{
		Content: []message.AssistantBlock{
			message.Thinking{Thinking: s.prose(60), Signature: new(fmt.Sprintf("%064x", s.next()))},
			message.Text{Text: s.prose(20)},
			message.ToolCall{ID: call, Name: "read", Arguments: jsonv.Obj(
				jsonv.F("path", jsonv.Str("core/"+s.word()+"/"+s.word()+".go")),
				jsonv.F("offset", jsonv.Num(int64(s.draw(4000)))), jsonv.F("limit", jsonv.Num(20)))},
		},
		API: "openai-completions", Provider: "openai", Model: "gpt-5-codex", ResponseID: new("chatcmpl-" + call),
		Usage: usage.Usage{
			Input: in, Output: out, CacheRead: in / 2, TotalTokens: in + in/2 + out,
			Cost: usage.Cost{
				Input: usage.Micros(in * 2), Output: usage.Micros(out * 8), CacheRead: usage.Micros(in / 8), Total: usage.Micros(in*2 + out*8 + in/8),
			},
			Evidence: usage.Reported(usage.API, usage.Complete).WithPrice(usage.APIRates),
		},
		StopReason: message.ToolUse, RawStopReason: new("tool_calls"), Timestamp: s.now(),
	}
}

var words = strings.Fields(`the a session store commit reader writer leaf parent entry digest seq when before after every never must keeps holds
	reads returns table index byte text naïve façade 世界 “quoted” isn't "plain" and/or error nil ok`)

func (s *script) word() string { return words[s.draw(12)] }

func (s *script) prose(n int) string {
	var b strings.Builder
	for i := range n/2 + s.draw(n) {
		if i > 0 {
			b.WriteString([]string{" ", " ", " ", " ", " ", ", ", ".\n"}[s.draw(7)])
		}
		b.WriteString(words[s.draw(len(words))])
	}
	return b.String()
}

func (s *script) source(lines int) string {
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, "%5d\t\tif %s, err := %s.%s(%d, \"%s\"); err != nil { // %s\n", i+1, s.word(), s.word(), s.word(), s.draw(1000), s.word(), s.prose(6))
	}
	return b.String()
}
