package node

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/loom-run/loom/config"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/machine/job"
	"github.com/loom-run/loom/policy"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
)

var update = flag.Bool("update", false, "rewrite what the scripts in testdata want")

// cast is a model that plays the parts of a script.
type cast struct {
	parts map[string][]string // the answers of each
	hangs chan struct{}       // told of each hang

	mu   sync.Mutex
	once map[string]bool // hangs that were hung
}

func (c *cast) Choose(string) (Chosen, error) {
	return Chosen{Ref: machine.ModelRef{Provider: "cast", ModelID: "m"}}, nil
}

func (c *cast) Keys() []string { return nil }

func (c *cast) Role(config.Role) (Chosen, bool) { return Chosen{}, false }

func (c *cast) Resolve(machine.ModelRef) (provider.Model, provider.Provider, error) {
	return provider.Model{API: "cast", Identity: provider.Identity{Provider: "cast", ModelID: "m"}}, c, nil
}

var placeholders = map[string]*regexp.Regexp{
	"$handle": regexp.MustCompile(`sub:\S+#[0-9a-f-]{36}`), "$strand": regexp.MustCompile(`sub:[^\s#]+`), "$job": regexp.MustCompile(`job-[0-9a-f]+`),
}

// Stream gives the next answer of the part that the first message names.
func (c *cast) Stream(ctx context.Context, req provider.Request, _ func(provider.Delta)) (*message.Assistant, error) {
	var first string
	newest := map[string]string{}
	turn := 0
	for i, m := range req.Messages {
		switch m := m.(type) {
		case *message.User:
			if i == 0 {
				first = message.TextOf(m.Content)
			}
		case *message.Assistant:
			turn++
		case *message.ToolResult:
			for name, re := range placeholders {
				if all := re.FindAllString(message.TextOf(m.Content), -1); len(all) > 0 {
					newest[name] = all[len(all)-1]
				}
			}
		}
	}
	for part, answers := range c.parts {
		if strings.Contains(first, "part:"+part) {
			if turn >= len(answers) {
				return nil, &provider.Error{Class: provider.InvalidRequest, Message: fmt.Sprintf("the part of %s has %d answers", part, len(answers))}
			}
			return c.answer(ctx, fmt.Sprintf("%s-%d", part, turn), answers[turn], newest)
		}
	}
	return nil, &provider.Error{Class: provider.InvalidRequest, Message: "nobody plays " + first}
}

func (c *cast) answer(ctx context.Context, name, steps string, newest map[string]string) (*message.Assistant, error) {
	m := &message.Assistant{API: "cast", Provider: "cast", Model: "m", StopReason: message.Stop, Usage: usage.Zero()}
	for line := range strings.Lines(steps) {
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if verb == "once" {
			c.mu.Lock()
			again := c.once[name]
			c.once[name] = true
			c.mu.Unlock()
			if again {
				continue
			}
			verb = rest
		}
		switch verb {
		case "":
		case "text":
			m.Content = append(m.Content, message.Text{Text: rest})
		case "call":
			tool, args, _ := strings.Cut(rest, " ")
			for placeholder, value := range newest {
				args = strings.ReplaceAll(args, placeholder, value)
			}
			m.StopReason = message.ToolUse
			m.Content = append(m.Content, message.ToolCall{ID: fmt.Sprintf("%s-%d", name, len(m.Content)), Name: tool, Arguments: message.ParseArguments(args)})
		case "hang":
			c.hangs <- struct{}{}
			<-ctx.Done()
			return nil, &provider.Error{Class: provider.Cancelled, Message: "the request was cancelled"}
		default:
			return nil, &provider.Error{Class: provider.InvalidRequest, Message: "an unknown step " + verb}
		}
	}
	return m, nil
}

// play is one script on its way.
type play struct {
	t         *testing.T
	cast      *cast
	models    Models // who speaks for the cast; nil: itself
	home      Home
	cwd       string
	mode      policy.Mode
	node      *Node
	slot      *Slot
	config    func(*Config) // nil: as it is
	ended     chan string   // strands whose run ended
	committed chan struct{} // something was committed
	stop      func()
}

func newPlay(t *testing.T, a *txtar.Archive) *play {
	p := &play{t: t, home: Home{filepath.Join(t.TempDir(), "home")}, cwd: t.TempDir(), mode: policy.BypassPermissions}
	p.cast = castOf(a)
	p.open()
	return p
}

func castOf(a *txtar.Archive) *cast {
	c := &cast{parts: map[string][]string{}, hangs: make(chan struct{}, 64), once: map[string]bool{}}
	for _, f := range a.Files {
		if part, ok := strings.CutPrefix(f.Name, "part "); ok {
			c.parts[part] = strings.Split(string(f.Data), "\n==\n")
		}
	}
	return c
}

// openSession opens a session that another process made.
func (p *play) openSession(text string) {
	s, err := id.ParseSessionID(text)
	if err != nil {
		p.t.Fatal(err)
	}
	p.slot = &Slot{id: s}
	p.open()
}

func (p *play) open() {
	if p.models == nil {
		p.models = p.cast
	}
	c := Config{
		Home: p.home, Models: p.models, Environ: []string{"PATH=/usr/bin:/bin"}, Now: func() int64 { return time.Now().UnixMilli() },
		Retry: machine.RetryPolicy{MaxAttempts: new(int64(3)), BaseDelayMs: 1, MaxDelayMs: 1},
	}
	if p.config != nil {
		p.config(&c)
	}
	p.node = New(c)
	var err error
	if p.slot == nil {
		p.slot, err = p.node.Create(p.cwd, p.mode, nil)
	} else {
		p.slot, err = p.node.Slot(p.slot.ID())
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.ended, p.committed = make(chan string, 256), make(chan struct{}, 1)
	p.stop = p.slot.Watch(func(f engine.Fact) {
		switch f := f.(type) {
		case engine.Committed:
			select {
			case p.committed <- struct{}{}:
			default:
			}
		case engine.RunFinished:
			p.ended <- f.Strand
		case engine.StrandStopped:
			p.ended <- f.Strand + " stopped: " + f.Err.Error()
		}
	})
}

func (p *play) do(line string) {
	verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	switch verb {
	case "":
	case "prompt":
		if _, err := p.slot.Prompt(Opening{}, session.MainStrand, engine.Prompt{Content: []message.UserBlock{message.Text{Text: rest}}}); err != nil {
			p.t.Fatal(err)
		}
	case "await": // hang, job (all are over), calls WORDS (in arguments of calls that are on at the same time), output TEXT (of a job), or rest (of the main strand)
		p.await(rest)
	case "touch":
		if err := os.WriteFile(filepath.Join(p.cwd, rest), nil, 0o600); err != nil {
			p.t.Fatal(err)
		}
	case "restart":
		p.stop()
		if err := p.node.Close(); err != nil {
			p.t.Fatal(err)
		}
		p.open()
		mode := p.mode
		if _, _, err := p.slot.Resume(Opening{Mode: &mode}, session.MainStrand); err != nil {
			p.t.Fatal(err)
		}
	case "open": // without anything to resume
		if _, err := p.slot.open(Opening{Mode: &p.mode}); err != nil {
			p.t.Fatal(err)
		}
	default:
		p.t.Fatalf("a script does not know %q", line)
	}
}

func (p *play) await(what string) {
	if words, ok := strings.CutPrefix(what, "calls "); ok {
		p.awaitCalls(strings.Fields(words))
		return
	}
	if text, ok := strings.CutPrefix(what, "output "); ok {
		p.awaitOutput(text)
		return
	}
	switch what {
	case "hang":
		select {
		case <-p.cast.hangs:
		case <-time.After(20 * time.Second):
			p.t.Fatal("nobody hangs")
		}
	case "job":
		for !p.jobsAreOver() {
			select {
			case <-p.committed:
			case <-time.After(20 * time.Second):
				p.t.Fatal("the jobs do not end")
			}
		}
	case "rest":
		p.awaitEnd()
	default:
		p.t.Fatalf("a script does not await %q", what)
	}
}

// awaitCalls waits until calls are on at the same time whose arguments hold the words.
func (p *play) awaitCalls(words []string) {
	on := func() bool {
		found := 0
		if err := p.slot.Read(func(v *session.View) error {
			cells, err := v.Rows().Registers(register.OpToolArgs, "")
			for _, w := range words {
				if slices.ContainsFunc(cells, func(c storage.KeyedCell) bool { return strings.Contains(c.Value.String(), w) }) {
					found++
				}
			}
			return err
		}); err != nil {
			p.t.Fatal(err)
		}
		return found == len(words)
	}
	for !on() {
		select {
		case <-p.committed:
		case <-time.After(20 * time.Second):
			p.t.Fatalf("no calls with %q are on at the same time", words)
		}
	}
}

// awaitOutput waits until a job printed something.
func (p *play) awaitOutput(text string) {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		r := p.slot.resident()
		all, err := r.engine.Jobs(session.MainStrand)
		if err != nil {
			p.t.Fatal(err)
		}
		for _, j := range all {
			if _, live, err := r.engine.PollJob(p.t.Context(), j.Strand, j.ID, 0); err == nil && strings.Contains(live.Stdout.Text, text) {
				return
			}
		}
	}
	p.t.Fatalf("no job prints %q", text)
}

// jobsAreOver reports that there are jobs and none of them works.
func (p *play) jobsAreOver() bool {
	var all []job.Record
	if err := p.slot.Read(func(v *session.View) (err error) {
		all, err = engine.JobsOf(v, "")
		return err
	}); err != nil {
		p.t.Fatal(err)
	}
	return len(all) > 0 && !slices.ContainsFunc(all, func(r job.Record) bool { return !r.Status.Ended() })
}

// awaitEnd waits until the main strand rests.
func (p *play) awaitEnd() {
	for {
		var state machine.StrandState
		if err := p.slot.Read(func(v *session.View) error {
			c, _, err := v.StrandState(session.MainStrand)
			state = c.Value
			return err
		}); err != nil {
			p.t.Fatal(err)
		}
		if state.CurrentOperation.IsZero() && state.Start == nil {
			return
		}
		select {
		case <-p.ended:
		case <-p.committed:
		case <-time.After(30 * time.Second):
			p.t.Fatalf("the main strand does not come to rest:\n%s", p.print())
		}
	}
}

var (
	uuids  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)
	hashes = regexp.MustCompile(`-[0-9a-f]{16}\b`)
	seqs   = regexp.MustCompile(`\(seq \d+\)`)
)

// print renders what every strand holds, without what differs from run to run.
func (p *play) print() string {
	var b strings.Builder
	err := p.slot.Read(func(v *session.View) error {
		strands, err := v.Strands()
		if err != nil {
			return err
		}
		slices.Sort(strands)
		for _, s := range strands {
			fmt.Fprintf(&b, "strand %s\n", s)
			leaf, _, err := v.StrandLeaf(s)
			if err != nil {
				return err
			}
			rows, err := v.Branch(leaf.Value)
			if err != nil {
				return err
			}
			slices.Reverse(rows)
			for _, e := range rows {
				if body, ok := e.Body.(entry.Message); ok {
					printMessage(&b, body.Message)
				}
			}
		}
		return nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
	text := uuids.ReplaceAllString(b.String(), "ID")
	text = hashes.ReplaceAllString(text, "-HASH")
	return seqs.ReplaceAllString(text, "(seq N)")
}

func printMessage(b *strings.Builder, m message.Message) {
	say := func(who, text string) {
		fmt.Fprintf(b, "  %s: %s\n", who, strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n      "))
	}
	switch m := m.(type) {
	case *message.User:
		who := "user"
		if m.Origin != nil {
			who += " (" + m.Origin.Identity() + ")"
		}
		say(who, message.TextOf(m.Content))
	case *message.Assistant:
		for _, block := range m.Content {
			switch block := block.(type) {
			case message.Text:
				say("assistant", block.Text)
			case message.ToolCall:
				say("call", block.Name+" "+block.Arguments.String())
			}
		}
	case *message.ToolResult:
		who := "result"
		if m.IsError {
			who = "error"
		}
		say(who, message.TextOf(m.Content))
	}
}

// TestScripts plays the scripts in testdata/agents and compares what the strands hold with what they want.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/agents/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { playScript(t, file) })
	}
}

func playScript(t *testing.T, file string) {
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p := newPlay(t, a)
	defer func() {
		if err := p.node.Close(); err != nil {
			t.Error(err)
		}
	}()
	want := -1
	for i, f := range a.Files {
		switch f.Name {
		case "do":
			for line := range strings.Lines(string(f.Data)) {
				p.do(line)
			}
		case "want":
			want = i
		}
	}
	p.awaitEnd()
	got := p.print()
	findings, _, err := p.slot.Check()
	if err != nil || len(findings) > 0 {
		t.Errorf("the session is not whole: %v, %v", findings, err)
	}
	if *update {
		if want < 0 {
			a.Files = append(a.Files, txtar.File{Name: "want"})
			want = len(a.Files) - 1
		}
		a.Files[want].Data = []byte(got)
		if err := os.WriteFile(file, txtar.Format(a), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want < 0 {
		t.Fatal("it wants nothing")
	}
	if diff := cmp.Diff(string(a.Files[want].Data), got); diff != "" {
		t.Errorf("the strands hold something else (-want +got):\n%s", diff)
	}
}
