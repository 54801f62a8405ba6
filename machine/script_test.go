package machine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/machine"
)

// TestRuns plays the scripts of testdata/run. A script is blocks of commands, each with what they led to after a line of dashes; -update rewrites that.
//
//	settings steering=MODE follow-up=MODE tools=EXECUTION max-turns=N compaction=on
//	retry attempts=N|unbounded base=MS max=MS
//	limit N                                 the output limit of the requests that follow
//	prompt "TEXT"...                        accept a run; without text, of what is queued
//	step                                    one pass
//	run                                     passes until something is awaited; questions are answered by the names of models and tools
//	says REASON ["TEXT"] [NAME]...          the response in flight settles; a NAME is a call of that tool
//	settle N ["TEXT"]                       the call at index N of the response settles
//	clear N safe|never, refuse N ["TEXT"]   the answer about a call of the tool ask
//	ask N REASON [within=MS] [window=WORD] [park=MS]   a person is to decide about the call at index N
//	answer GATE approve|deny|reply ["TEXT"] [by=NAME]  what they decided
//	compact ["TEXT"]                        accept a compaction, with instructions
//	go NAME|root [summary] [label=WORD]     accept a navigation
//	room TOKENS WINDOW [nothing]            how large the context is found to be; nothing: there is nothing that could be summarised
//	summaries write|decline|supply ["TEXT"] how those that follow come about
//	summary ["TEXT"] [part=N] [error=CODE] [retryable]     the request of a summary settles; a part covers the first N messages
//	hooks [start=TEXT] [end=TEXT]               somebody is asked at the start and the end of a run, and answers so once
//	steer, follow-up, write, next-run "TEXT" [start]; note TYPE    queue something; a note of type shown is for the model
//	withdraw NAME, edit NAME "TEXT", abort, advance MS
//	crash                                   every live effect is gone
//	fresh                                   another world
//
// What a command after a dot leads to is not written down.
//
//	show                                    the branch, the ledger and the cells
//
// The tool read is replay safe, deny is refused, ask waits for an answer, every other is never replayed. Settling as a tool that ends the run, as an
// error, or with usage takes the words terminate, error and usage=INPUT/OUTPUT.
func TestRuns(t *testing.T) {
	files, err := filepath.Glob("testdata/run/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p := newPlayer(t)
			var out strings.Builder
			for _, b := range blocks(string(src)) {
				got := ""
				for _, command := range b.commands {
					got += p.play(command)
				}
				if got != b.output && !*update {
					t.Errorf("%s\n---- got\n%s---- want\n%s", strings.Join(b.commands, "\n"), got, b.output)
				}
				fmt.Fprintf(&out, "%s%s\n----\n%s\n", b.comment, strings.Join(b.commands, "\n"), got)
			}
			if !*update {
				return
			}
			if err := os.WriteFile(file, []byte(strings.TrimSuffix(out.String(), "\n")), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// block is commands and their output.
type block struct {
	comment  string
	commands []string
	output   string
}

// blocks splits a script at its empty lines.
func blocks(src string) (all []block) {
	for _, part := range strings.Split(strings.TrimSpace(src), "\n\n") {
		var b block
		head, output, _ := strings.Cut(part+"\n", "----\n")
		b.output = output
		for line := range strings.Lines(head) {
			if strings.HasPrefix(line, "#") {
				b.comment += line
			} else {
				b.commands = append(b.commands, strings.TrimSuffix(line, "\n"))
			}
		}
		all = append(all, b)
	}
	return all
}

// player plays commands against a world and writes down what happens.
type player struct {
	*world
	settings   machine.Settings
	room       machine.Measure
	verdict    machine.SummaryChoice
	unpolled   bool     // the provider cannot be polled
	begin, end []string // what hooks add
	names      names
	out        strings.Builder
}

func newPlayer(t *testing.T) *player {
	p := &player{
		world: newWorld(t), settings: settings, names: names{known: map[string]string{}}, verdict: machine.WriteSummary{},
		room: machine.Measure{Tokens: 1000, Window: 200000, Preparation: &machine.CompactionPreparation{}},
	}
	p.settings.FollowUpMode, p.settings.Compaction = machine.DrainAll, machine.CompactionSettings{}
	p.onTx = p.committed
	return p
}

func (p *player) printf(format string, args ...any) { fmt.Fprintf(&p.out, format+"\n", args...) }

// play runs one command and returns what it led to.
func (p *player) play(command string) string {
	p.out.Reset()
	words := split(command)
	verb, quiet := strings.CutPrefix(words[0], ".")
	p.command(verb, words[1:])
	if quiet {
		return ""
	}
	return p.out.String()
}

// split cuts a command into words; a quoted text is one of them, still quoted.
func split(command string) (words []string) {
	for command = strings.TrimSpace(command); command != ""; command = strings.TrimSpace(command) {
		if q, err := strconv.QuotedPrefix(command); err == nil {
			words, command = append(words, q), command[len(q):]
			continue
		}
		word, _, _ := strings.Cut(command, " ")
		words, command = append(words, word), command[len(word):]
	}
	return words
}

func (p *player) command(verb string, args []string) {
	switch verb {
	case "settings", "retry", "limit":
		p.configure(verb, args)
	case "prompt":
		var prompts []message.Message
		for _, a := range args {
			prompts = append(prompts, text(unquoted(a)))
		}
		p.answer(p.accept(p.settings, prompts...))
	case "step":
		p.tell(p.pass())
	case "run":
		p.drive()
	case "says":
		p.report = machine.Responded{ResponseID: p.flyingResponse(), Message: p.response(args)}
		a := p.pass()
		p.tell(a)
		if wait, ok := a.(machine.AwaitEffect); ok && p.reply(wait.Key) == nil && p.measure != nil {
			p.tell(p.pass())
		}
	case "settle":
		n := number(args[0])
		delete(p.flying, p.resultID(int(n)))
		result, terminate := toolResult(args[1:])
		p.report = machine.ToolSettled{SourceIndex: int(n), Result: result, Terminate: terminate}
		p.tell(p.pass())
	case "clear":
		p.cleared(int(number(args[0])), machine.Replay(args[1]))
		p.tell(p.pass())
	case "refuse":
		result, terminate := toolResult(args[1:])
		p.report = machine.Refused{SourceIndex: int(number(args[0])), Result: result, Terminate: terminate}
		p.tell(p.pass())
	case "ask", "answer":
		p.gate(verb, args)
	case "compact", "go", "room", "summaries", "summary", "hooks":
		p.structure(verb, args)
	case "unpolled":
		p.unpolled = true
	case "edit":
		i := p.names.entry(args[0])
		cell, _ := p.cell(register.PendingEntry, i.String())
		plan, err := machine.Edit(i, p.pending()[i], cell.Seq, nil, []message.UserBlock{message.Text{Text: unquoted(args[1])}})
		if p.answer(err); err == nil {
			p.land("edit", plan)
		}
	case "unusable":
		p.report = machine.AdmissionRefused{Error: machine.OperationError{Code: "model_unavailable", Message: "there is no such model"}}
		p.tell(p.pass())
	case "steer", "follow-up", "write", "next-run", "note":
		p.queue(verb, unquoted(args[0]), args[1:])
	case "withdraw":
		p.answer(p.withdraw(p.names.entry(args[0])))
	case "abort":
		if !p.abort() {
			p.printf("nothing to abort")
		}
	case "advance":
		p.now += number(args[0])
	case "crash":
		p.crash()
	case "show":
		p.show()
	case "fresh":
		next := newPlayer(p.t.(*testing.T))
		next.out.WriteString(p.out.String())
		*p = *next
		p.onTx = p.committed
	default:
		p.t.Fatalf("no such command: %s", verb)
	}
}

func (p *player) answer(err error) {
	if err != nil {
		p.printf("refused: %v", err)
	}
}

func (p *player) configure(verb string, args []string) {
	if verb == "limit" {
		p.limit = number(args[0])
		return
	}
	for _, a := range args {
		name, value, _ := strings.Cut(a, "=")
		switch name {
		case "steering":
			p.settings.SteeringMode = machine.DrainMode(value)
		case "follow-up":
			p.settings.FollowUpMode = machine.DrainMode(value)
		case "tools":
			p.settings.ToolExecution = machine.ToolExecution(value)
		case "compaction":
			p.settings.Compaction = settings.Compaction
		case "max-turns":
			p.settings.MaxTurns = new(number(value))
		case "attempts":
			p.world.retry.MaxAttempts = nil
			if value != "unbounded" {
				p.world.retry.MaxAttempts = new(number(value))
			}
		case "base":
			p.world.retry.BaseDelayMs = number(value)
		case "max":
			p.world.retry.MaxDelayMs = number(value)
		default:
			p.t.Fatalf("no such setting: %s", a)
		}
	}
}

func (p *player) queue(verb, what string, rest []string) {
	switch verb {
	case "next-run":
		var start *machine.Start
		if len(rest) > 0 {
			start = &machine.Start{}
		}
		p.admitNextRun(machine.PendingMessage(text(what)), start)
		return
	case "note":
		_, err := p.admit(machine.QueueWrites, machine.PendingEntry{Body: entry.Custom{Type: what}})
		p.answer(err)
		return
	}
	q := map[string]machine.Queue{"steer": machine.QueueSteer, "follow-up": machine.QueueFollowUp, "write": machine.QueueWrites}[verb]
	_, err := p.admit(q, machine.PendingMessage(text(what)))
	p.answer(err)
}

// drive makes passes until one awaits what only the script can give.
func (p *player) drive() {
	for range 100 {
		a := p.pass()
		p.tell(a)
		switch a := a.(type) {
		case nil, machine.Wait, machine.Park, machine.Fault, machine.Finish:
			return
		case machine.AwaitEffect:
			if p.report = p.reply(a.Key); p.report == nil && p.measure == nil {
				return
			}
		case machine.Transition, machine.Dispatch:
		}
	}
	p.t.Fatalf("the run does not come to rest")
}

// reply answers a question, or reports an effect that nobody runs; nil waits.
func (p *player) reply(key machine.Key) machine.Observation {
	switch k := key.(type) {
	case machine.AdmissionKey:
		return machine.Admitted{OutputLimit: p.limit, ContextWindow: 200000, RequestAPI: "openai-completions"}
	case machine.ClearanceKey:
		switch k.Call.Name {
		case "ask":
			return nil
		case "deny":
			result, _ := toolResult([]string{`"denied"`, "error"})
			return machine.Refused{SourceIndex: k.SourceIndex, Result: result}
		}
		p.cleared(k.SourceIndex, p.replay[k.Call.Name])
		return p.report
	case machine.SummaryAdmissionKey:
		return machine.Admitted{ContextWindow: 200000}
	case machine.PollAdmissionKey:
		if p.unpolled {
			return machine.AdmissionRefused{Error: machine.OperationError{Code: machine.CodeDeferred, Message: "the provider cannot be asked for it"}}
		}
		return machine.Admitted{RequestAPI: k.Handle.API}
	case machine.MeasureKey:
		p.measure = new(p.room)
		p.measure.Leaf = k.Leaf
		if p.measure.Preparation != nil {
			p.measure.Preparation = p.prepared()
			if len(p.measure.Preparation.MessagesToSummarize) == 0 {
				p.measure.Preparation = nil
			}
		}
		return nil
	case machine.VerdictKey:
		return machine.Verdict{TaskID: k.TaskID, Choice: p.verdict}
	case machine.RunStartKey:
		o := machine.RunStarting{}
		for _, s := range p.begin {
			o.Entries = append(o.Entries, machine.PendingMessage(text(s)))
		}
		p.begin = nil
		return o
	case machine.RunEndKey:
		o := machine.RunEnding{}
		for _, s := range p.end {
			o.FollowUp = new(machine.PendingMessage(text(s)))
		}
		p.end = nil
		return o
	case machine.ResponseKey, machine.CallsKey, machine.SummaryKey:
	}
	o := p.orphan(key)
	switch o := o.(type) {
	case machine.OrphanedSummary:
		p.printf("the request of a summary is lost")
	case machine.OrphanedResponse:
		p.printf("%s is lost", p.e(o.ResponseID))
	case machine.OrphanedCall:
		p.printf("call %d is lost", o.SourceIndex)
	}
	return o
}

// cleared lets a call run with the arguments that a hook made of what the model wrote.
func (p *player) cleared(sourceIndex int, replay machine.Replay) {
	p.safe[p.resultID(sourceIndex)] = replay == machine.ReplaySafe
	p.report = machine.Cleared{SourceIndex: sourceIndex, Arguments: jsonv.Obj(jsonv.F("cleared", jsonv.Boolean(true))), Replay: replay}
}

func (p *player) flyingResponse() id.EntryID {
	for i := range p.flying {
		if _, isResponse := p.attempt[i]; isResponse {
			delete(p.flying, i)
			return i
		}
	}
	p.t.Fatalf("no response is in flight")
	return id.EntryID{}
}

// response reads what a model says from the words of a command.
func (p *player) response(words []string) *message.Assistant {
	m := &message.Assistant{
		API: "openai-completions", Provider: config.Model.Provider, Model: config.Model.ModelID,
		StopReason: message.StopReason(words[0]), Usage: spent("10/20"), Timestamp: p.now,
	}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		switch {
		case strings.HasPrefix(word, `"`) && m.StopReason == message.Error:
			m.ErrorMessage = new(unquoted(word))
		case strings.HasPrefix(word, `"`):
			m.Content = append(m.Content, message.Text{Text: unquoted(word)})
		case name == "usage":
			m.Usage = spent(value)
		case word == "retryable":
			m.RawStopReason = &word
		case name == "retry-after":
			m.Diagnostics = new(jsonv.Obj(jsonv.F("retry_after_ms", jsonv.Num(number(value)))))
		case name == "handle":
			m.Deferred = &message.DeferredHandle{Provider: m.Provider, ModelID: value, API: m.API, ID: "later"}
		case name == "poll-after":
			m.Deferred.PollAfterMs = new(number(value))
		case name == "expires":
			m.Deferred.ExpiresAt = new(epoch + number(value))
		default:
			args := jsonv.Obj()
			if word == "garbled" {
				args = message.MalformedArguments(`{"path": `, "it ends early")
			}
			m.Content = append(m.Content, message.ToolCall{ID: fmt.Sprintf("c%d", len(m.Content)), Name: word, Arguments: args})
		}
	}
	return m
}

// gate plays a question to a person and its answer.
func (p *player) gate(verb string, args []string) {
	o := machine.Asked{Window: words.ExpiredApproval, Subject: jsonv.Str("may I")}
	var by *message.Origin
	said := ""
	for _, a := range args[2:] {
		name, value, _ := strings.Cut(a, "=")
		switch name {
		case "within":
			o.AnswerWithin = number(value)
		case "window":
			o.Window = words.Expiry(value)
		case "park":
			o.ParkFor = number(value)
		case "by":
			by = new(must(message.Human(value, value)))
		default:
			said = unquoted(a)
		}
	}
	if verb == "ask" {
		o.SourceIndex, o.Reason = int(number(args[0])), words.PauseReason(args[1])
		p.report = o
		p.tell(p.pass())
		return
	}
	d := map[string]machine.Decision{
		"approve": machine.Approve{}, "deny": machine.Deny{Note: &said}, "reply": machine.Reply{Content: []message.UserBlock{message.Text{Text: said}}},
	}[args[1]]
	op, st, in, _ := p.operation()
	plan, err := machine.Answer(op, st, in.StateSeq, p.now, p.names.text(args[0]), d, by)
	if p.answer(err); err == nil {
		p.land("answer", plan)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// prepared splits the messages of the branch: all but the last are summarised.
func (p *player) prepared() *machine.CompactionPreparation {
	prep := &machine.CompactionPreparation{TokensBefore: p.room.Tokens, Settings: settings.Compaction}
	leaf, _ := p.leaf()
	for _, e := range p.branch(leaf) {
		if body, ok := e.Body.(entry.Message); ok && kept(body.Message) {
			prep.MessagesToSummarize = append(prep.MessagesToSummarize, body.Message)
		}
	}
	if n := len(prep.MessagesToSummarize); n > 0 {
		prep.RetainedTail, prep.MessagesToSummarize = prep.MessagesToSummarize[n-1:], prep.MessagesToSummarize[:n-1]
	}
	return prep
}

// structure plays what compactions and navigations are made of.
func (p *player) structure(verb string, args []string) {
	switch verb {
	case "compact":
		var instructions *string
		if len(args) > 0 {
			instructions = new(unquoted(args[0]))
		}
		prep := p.prepared()
		if len(prep.MessagesToSummarize) == 0 {
			prep = nil
		}
		p.answer(p.acceptCompaction(prep, instructions))
	case "go":
		to := machine.NavigationIntent{}
		if args[0] != "root" {
			to.TargetID = p.names.entry(args[0])
		}
		var prep *machine.BranchPreparation
		for _, a := range args[1:] {
			if label, ok := strings.CutPrefix(a, "label="); ok {
				to.Label = &label
				continue
			}
			to.Summarize, prep = true, &machine.BranchPreparation{Messages: p.prepared().RetainedTail, TotalTokens: 5}
		}
		p.answer(p.acceptNavigation(to, prep))
	case "room":
		p.room = machine.Measure{Tokens: number(args[0]), Window: number(args[1])}
		if len(args) == 2 {
			p.room.Preparation = &machine.CompactionPreparation{}
		}
	case "summaries":
		switch args[0] {
		case "write":
			p.verdict = machine.WriteSummary{}
		case "decline":
			p.verdict = machine.DeclineSummary{}
		case "supply":
			p.verdict = machine.SupplySummary{Summary: unquoted(args[1]), Usage: new(spent("1/2"))}
		}
	case "summary":
		p.summarised(args)
		p.tell(p.pass())
	case "hooks":
		p.hooks = machine.Hooks{RunStart: true, RunEnd: true}
		for _, a := range args {
			if s, ok := strings.CutPrefix(a, "start="); ok {
				p.begin = append(p.begin, s)
			} else if s, ok := strings.CutPrefix(a, "end="); ok {
				p.end = append(p.end, s)
			}
		}
	}
}

// summarised reports what the request of a summary that is in flight led to.
func (p *player) summarised(args []string) {
	for k := range p.writing {
		o := machine.Summarized{TaskID: k.TaskID, Attempt: k.Attempt, Index: k.Index, Usage: spent("5/5")}
		text, part, code, retryable := "", int64(0), "", false
		for _, a := range args {
			name, value, _ := strings.Cut(a, "=")
			switch name {
			case "part":
				part = number(value)
			case "error":
				code = value
			case "retryable":
				retryable = true
			default:
				text = unquoted(a)
			}
		}
		switch {
		case code != "":
			o.Result = machine.SummaryFailed{Error: machine.OperationError{Code: code, Message: text}, Retryable: retryable}
		case part > 0:
			o.Result = machine.SummaryContinues{Summary: text, Messages: part}
		default:
			o.Result = machine.SummaryProduced{Summary: text}
		}
		clear(p.writing)
		p.report = o
		return
	}
	p.t.Fatalf("no request of a summary is in flight")
}

func toolResult(words []string) (r *message.ToolResult, terminate bool) {
	r = &message.ToolResult{}
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		switch {
		case word == "error":
			r.IsError = true
		case word == "terminate":
			terminate = true
		case name == "usage":
			r.Usage = new(spent(value))
		default:
			r.Content = append(r.Content, message.Text{Text: unquoted(word)})
		}
	}
	return r, terminate
}

// spent reads INPUT/OUTPUT, the same after "partial:", or unknown.
func spent(word string) usage.Usage {
	word, partial := strings.CutPrefix(word, "partial:")
	in, out, ok := strings.Cut(word, "/")
	if !ok {
		return usage.Unknown(usage.API)
	}
	u := usage.Usage{Input: number(in), Output: number(out), Evidence: usage.Reported(usage.API, usage.Complete)}
	if partial {
		u.Evidence = usage.Reported(usage.API, usage.Partial)
	}
	u.TotalTokens = u.Input + u.Output
	return u
}

func number(word string) int64 {
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func unquoted(word string) string {
	if s, err := strconv.Unquote(word); err == nil {
		return s
	}
	return word
}
