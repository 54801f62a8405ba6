package route

import (
	"fmt"
	"sync"

	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
)

// DefaultMaxImages is the most pictures of one request where a link does not say otherwise.
const DefaultMaxImages = 8

// blind reports whether the model is known to see no pictures.
func (l Link) blind() bool { return l.Vision != nil && !*l.Vision }

func (l Link) maxImages() int {
	if l.MaxImages > 0 {
		return l.MaxImages
	}
	return DefaultMaxImages
}

// The texts that stand where a picture was.
const (
	leftOut = "(a picture stood here; it was left out to keep to the number of pictures that the model takes)"
	unseen  = "(a picture stood here; it was left out because this model cannot see pictures)"
)

// count is the pictures of a message.
func count(m message.Message) int {
	switch m := m.(type) {
	case *message.User:
		return images(m.Content)
	case *message.ToolResult:
		return images(m.Content)
	case *message.Assistant, *message.Custom:
	}
	return 0
}

func images[B message.Block](blocks []B) (n int) {
	for _, b := range blocks {
		if _, ok := any(b).(message.Image); ok {
			n++
		}
	}
	return n
}

func pictured(messages []message.Message) bool {
	for _, m := range messages {
		if count(m) > 0 {
			return true
		}
	}
	return false
}

// pictures keeps requests within what a link can be shown. It remembers the messages that it changed in the last request, so that the same message is the
// same value in the next one.
type pictures struct {
	mu     sync.Mutex // guards copies
	copies map[change]message.Message
}

// change is a message of which the first n pictures were replaced by a text.
type change struct {
	message message.Message
	n       int
	text    string
}

// fit is the messages with as many pictures as the link takes: the oldest go first, and those since the person last spoke stay. Where these alone are too
// many the request cannot be made.
func (p *pictures) fit(messages []message.Message, link Link) ([]message.Message, *provider.Error) {
	total, recent := 0, 0
	for _, m := range messages {
		n := count(m)
		if _, person := m.(*message.User); person {
			recent = 0
		}
		total, recent = total+n, recent+n
	}
	excess, text := total-link.maxImages(), leftOut
	switch {
	case link.blind():
		excess, text = total, unseen
	case recent > link.maxImages():
		return nil, &provider.Error{
			Class: provider.InvalidRequest, Detail: "image_limit", Unsent: true,
			Message: fmt.Sprintf("the request has %d pictures and %s takes %d; nothing was sent, ask with fewer or raise max_images", recent, link.Model.Identity, link.maxImages()),
		}
	}
	if excess <= 0 {
		return messages, nil
	}
	return p.replace(messages, excess, text), nil
}

// replace puts a text in the place of the first pictures.
func (p *pictures) replace(messages []message.Message, excess int, text string) []message.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := map[change]message.Message{}
	out := make([]message.Message, len(messages))
	for i, m := range messages {
		out[i] = m
		n := min(count(m), excess)
		if n == 0 {
			continue
		}
		excess -= n
		key := change{m, n, text}
		changed, ok := p.copies[key]
		if !ok {
			changed = without(m, n, text)
		}
		kept[key], out[i] = changed, changed
	}
	p.copies = kept
	return out
}

// without is the message with its first n pictures replaced.
func without(m message.Message, n int, text string) message.Message {
	switch m := m.(type) {
	case *message.User:
		changed := *m
		changed.Content = replaced(m.Content, n, message.UserBlock(message.Text{Text: text}))
		return &changed
	case *message.ToolResult:
		changed := *m
		changed.Content = replaced(m.Content, n, message.ResultBlock(message.Text{Text: text}))
		return &changed
	case *message.Assistant, *message.Custom:
	}
	return m
}

func replaced[B message.Block](blocks []B, n int, text B) []B {
	out := make([]B, len(blocks))
	for i, b := range blocks {
		out[i] = b
		if _, ok := any(b).(message.Image); ok && n > 0 {
			out[i] = text
			n--
		}
	}
	return out
}
