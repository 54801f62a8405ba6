package node

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/machine/summary"
	"github.com/loom-run/loom/policy"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/server"
	"github.com/loom-run/loom/server/memlisten"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/wireclient"
)

// recordings is where clients find what an engine sent.
const recordings = "../client/testdata/runs"

// talker plays the parts of a script as [cast] does, and is heard while it speaks. An answer of
// a part is the one behind the last that was whole. It knows four more steps:
//
//	long N WORD   # the word N times
//	fail CLASS    # the attempt fails before its first word
//	cut WORDS     # and behind these
//
// A request without tools is one for a summary.
type talker struct {
	*cast
	window int64

	counting sync.Mutex
	whole    map[string]int
}

func (c *talker) Resolve(machine.ModelRef) (provider.Model, provider.Provider, error) {
	m, _, err := c.cast.Resolve(machine.ModelRef{})
	m.ContextWindow = c.window
	return m, c, err
}

func (c *talker) Stream(ctx context.Context, req provider.Request, tell func(provider.Delta)) (*message.Assistant, error) {
	if len(req.Tools) == 0 {
		return talked("What was said so far, in short."), nil
	}
	part := partOf(req)
	c.counting.Lock()
	turn := c.whole[part]
	c.counting.Unlock()
	if turn >= len(c.parts[part]) {
		return nil, &provider.Error{Class: provider.InvalidRequest, Message: fmt.Sprintf("the part of %q has %d answers", part, len(c.parts[part]))}
	}
	name := fmt.Sprintf("%s-%d", part, turn)
	steps, err := c.fates(name, c.parts[part][turn])
	if err != nil {
		if cut, ok := strings.CutPrefix(steps, "cut "); ok {
			tell(provider.TextDelta{Text: cut})
			err.Partial = talked(cut)
			err.Partial.StopReason = message.Error
		}
		return nil, err
	}
	m, failure := c.answer(ctx, name, steps, newestOf(req))
	if failure != nil {
		return nil, failure
	}
	c.counting.Lock()
	c.whole[part] = turn + 1
	c.counting.Unlock()
	read := int64(10)
	for _, m := range req.Messages {
		read += summary.Estimate(m)
	}
	m.Usage = usage.Usage{Input: read, Output: 2, Evidence: usage.Reported(usage.API, usage.Complete)}
	speak(m, tell)
	return m, nil
}

// fates carries out the steps that fail, and spells out the long ones.
func (c *talker) fates(name, steps string) (string, *provider.Error) {
	var out []string
	for line := range strings.Lines(steps) {
		line = strings.TrimSpace(line)
		again := false
		rest, isOnce := strings.CutPrefix(line, "once ")
		verb, what, _ := strings.Cut(rest, " ")
		if isOnce && (verb == "fail" || verb == "cut") {
			c.mu.Lock()
			again, c.once[name] = c.once[name], true
			c.mu.Unlock()
		}
		switch {
		case again: // it failed once
		case verb == "fail":
			return "", &provider.Error{Class: provider.Class(what), Message: "the model is " + what}
		case verb == "cut":
			return "cut " + what, &provider.Error{Class: provider.Disconnect, Message: "the connection broke"}
		case verb == "long":
			n, word, _ := strings.Cut(what, " ")
			times, _ := strconv.Atoi(n)
			out = append(out, "text "+strings.Repeat(word+" ", times))
		default:
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n"), nil
}

func talked(text string) *message.Assistant {
	return &message.Assistant{
		Content: []message.AssistantBlock{message.Text{Text: text}}, API: "cast", Provider: "cast", Model: "m", StopReason: message.Stop,
		Usage: usage.Usage{Input: 5, Output: 1, Evidence: usage.Reported(usage.API, usage.Complete)},
	}
}

// partOf is whom the first prompt names.
func partOf(req provider.Request) string {
	for _, m := range req.Messages {
		if u, ok := m.(*message.User); ok {
			if _, name, ok := strings.Cut(message.TextOf(u.Content), "part:"); ok {
				name, _, _ = strings.Cut(name, " ")
				return name
			}
		}
	}
	return ""
}

func newestOf(req provider.Request) map[string]string {
	newest := map[string]string{}
	for _, m := range req.Messages {
		if r, ok := m.(*message.ToolResult); ok {
			for name, re := range placeholders {
				if all := re.FindAllString(message.TextOf(r.Content), -1); len(all) > 0 {
					newest[name] = all[len(all)-1]
				}
			}
		}
	}
	return newest
}

// speak tells a response in pieces.
func speak(m *message.Assistant, tell func(provider.Delta)) {
	for i, block := range m.Content {
		switch b := block.(type) {
		case message.Text:
			for piece := range strings.SplitAfterSeq(b.Text, " ") {
				if len(b.Text) > 200 { // a long text in two
					tell(provider.TextDelta{Block: i, Text: b.Text[:len(b.Text)/2]})
					tell(provider.TextDelta{Block: i, Text: b.Text[len(b.Text)/2:]})
					break
				}
				tell(provider.TextDelta{Block: i, Text: piece})
			}
		case message.ToolCall:
			args := b.Arguments.String()
			tell(provider.ToolCallDelta{Block: i, CallID: b.ID, Name: b.Name, Fragment: args[:len(args)/2]})
			tell(provider.ToolCallDelta{Block: i, Fragment: args[len(args)/2:]})
		}
	}
}

// listener hears what the server of a play sends.
type listener struct {
	t      *testing.T
	server *server.Server
	trans  *http.Transport
	stream *wireclient.Stream
	served chan error
	done   chan struct{}
	heard  chan struct{} // one more frame

	mu     sync.Mutex
	frames []wire.Frame
}

// attach serves the play's node, and hears it from a position on.
func (l *listener) attach(p *play, from wire.From) {
	in := memlisten.New()
	l.server, l.served, l.done = server.New(p.node.Host()), make(chan error, 1), make(chan struct{})
	go func() { l.served <- l.server.Serve(in) }()
	l.trans = &http.Transport{DialContext: in.DialContext, DisableCompression: true}
	var err error
	if l.stream, err = wireclient.New(l.trans, "http://loom").Attach(l.t.Context(), p.slot.ID(), from); err != nil {
		l.t.Fatal(err)
	}
	go func() {
		defer close(l.done)
		for f, err := range l.stream.Frames(l.t.Context()) {
			if err != nil {
				return
			}
			l.mu.Lock()
			l.frames = append(l.frames, f)
			l.mu.Unlock()
			select {
			case l.heard <- struct{}{}:
			default:
			}
		}
	}()
}

// catchUp waits until all that is committed was heard.
func (l *listener) catchUp(p *play) {
	client, after := wireclient.New(l.trans, "http://loom"), wire.FromStart()
	var last wire.Cursor
	for more := true; more; {
		page, err := client.Page(l.t.Context(), p.slot.ID(), after, 100)
		if err != nil {
			l.t.Fatal(err)
		}
		for _, f := range page.Frames {
			last = f.Cursor
		}
		after, more = wire.FromCursor(page.Next), page.More
	}
	for l.at().Compare(last) < 0 {
		select {
		case <-l.heard:
		case <-time.After(20 * time.Second):
			l.t.Fatalf("%v was not heard", last)
		}
	}
}

// at is the position behind the newest replayed frame.
func (l *listener) at() (c wire.Cursor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.frames {
		if f.Delivery == wire.Replay {
			c = f.Cursor
		}
	}
	return c
}

func (l *listener) detach() {
	l.stream.Close()
	<-l.done
	l.trans.CloseIdleConnections()
	if err := l.server.Close(time.Second); err != nil {
		l.t.Error(err)
	}
	<-l.served
}

// TestClientsReadWhatThisEngineSends plays the scripts in testdata/frames, and compares what is committed with the recordings that the
// tests of the client runtime read. With -update it records.
func TestClientsReadWhatThisEngineSends(t *testing.T) {
	files, err := filepath.Glob("testdata/frames/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			got := listenTo(t, file)
			recording := filepath.Join(recordings, strings.TrimSuffix(filepath.Base(file), ".txt")+".jsonl")
			if *update {
				var text bytes.Buffer
				for _, f := range got {
					text.Write(f.Append(nil))
					text.WriteByte('\n')
				}
				if err := os.WriteFile(recording, text.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			text, err := os.ReadFile(recording)
			if err != nil {
				t.Fatal(err)
			}
			var want []wire.Frame
			for line := range bytes.Lines(text) {
				f, err := wire.DecodeFrame(bytes.TrimSpace(line))
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, f)
			}
			if diff := gocmp.Diff(gist(want), gist(got)); diff != "" {
				t.Errorf("the recording is of another engine; record with -update and review the difference:\n%s", diff)
			}
		})
	}
}

func listenTo(t *testing.T, file string) []wire.Frame {
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := &talker{cast: castOf(a), whole: map[string]int{}}
	p := &play{t: t, cast: c.cast, models: c, home: Home{filepath.Join(t.TempDir(), "home")}, cwd: t.TempDir(), mode: policy.BypassPermissions}
	var do string
	for _, f := range a.Files {
		switch text := strings.TrimSpace(string(f.Data)); f.Name {
		case "do":
			do = string(f.Data)
		case "mode":
			if p.mode, _ = policy.ParseMode(text); p.mode == policy.BypassPermissions {
				t.Fatalf("the mode is %q", text)
			}
		case "window":
			if c.window, err = strconv.ParseInt(text, 10, 64); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.open()
	l := &listener{t: t, heard: make(chan struct{}, 1)}
	l.attach(p, wire.FromStart())
	for line := range strings.Lines(do) {
		switch strings.TrimSpace(line) {
		case "restart":
			l.catchUp(p)
			l.detach()
			p.do(line)
			l.attach(p, wire.FromCursor(l.at()))
		case "abort":
			if _, ok, err := p.slot.Abort(session.MainStrand); !ok || err != nil {
				t.Fatal("nothing runs that could be stopped", err)
			}
		default:
			p.do(line)
		}
	}
	p.awaitEnd()
	l.catchUp(p)
	l.detach()
	if err := p.node.Close(); err != nil {
		t.Error(err)
	}
	return elsewhere(t, l.frames, p.cwd)
}

// elsewhere gives the frames of a directory that is the same on each machine.
func elsewhere(t *testing.T, frames []wire.Frame, cwd string) (out []wire.Frame) {
	for _, f := range frames {
		moved, err := wire.DecodeFrame(bytes.ReplaceAll(f.Append(nil), []byte(cwd), []byte("/repo")))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, moved)
	}
	return out
}

var (
	fleeting = regexp.MustCompile(`"(seq|untilMs|startedAtMs|deadlineMs|durationMs|elapsedMs)":\d+`)
	ticks    = regexp.MustCompile(`job-[0-9a-f]{16}`)
)

// gist is what is committed of each lane, in order, without what differs from run to run.
func gist(frames []wire.Frame) map[string][]string {
	out := map[string][]string{}
	committed := slices.DeleteFunc(slices.Clone(frames), func(f wire.Frame) bool { return f.Delivery != wire.Replay })
	slices.SortStableFunc(committed, func(a, b wire.Frame) int { return cmp.Or(a.Cursor.Compare(b.Cursor)) })
	for _, f := range committed {
		text := func(s string) string {
			s = fleeting.ReplaceAllString(uuids.ReplaceAllString(s, "ID"), `"$1":N`)
			return hashes.ReplaceAllString(ticks.ReplaceAllString(s, "job-HASH"), "-HASH")
		}
		lane := text(fmt.Sprintf("%s %s/%s", f.Lane, f.Strand, f.Task))
		f.ID, f.Cursor = "", wire.Cursor{}
		out[lane] = append(out[lane], text(string(f.Append(nil))))
	}
	return out
}
