package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/events/search"
	"github.com/loom-run/loom/machine/agency"
	"github.com/loom-run/loom/machine/job"
	"github.com/loom-run/loom/policy"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/server"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/tools"
)

// Host returns the node as the server wants it.
func (n *Node) Host() server.Host { return host{n} }

type host struct{ n *Node }

// Create implements server.Host.
func (h host) Create(_ context.Context, q server.NewSession, observe func(engine.Fact)) (server.Resident, error) {
	mode, err := modeOf(&q.Mode)
	if err != nil {
		return nil, err
	}
	slot, err := h.n.create(q.Cwd, Opening{Mode: mode, Model: q.Model, Posture: q.Posture})
	if err != nil {
		return nil, h.n.home.refuse(err)
	}
	return &served{slot: slot, maxTurns: q.MaxTurns, stop: slot.Watch(observe)}, nil
}

// Open implements server.Host. The session's lease is taken by the first prompt or
// resume: only that says in which permission mode it is to run.
func (h host) Open(_ context.Context, s id.SessionID, observe func(engine.Fact)) (server.Resident, error) {
	slot, err := h.n.Slot(s)
	if err != nil {
		return nil, h.n.home.refuse(err)
	}
	return &served{slot: slot, stop: slot.Watch(observe)}, nil
}

// Read implements server.Host.
func (h host) Read(_ context.Context, s id.SessionID) (server.Reader, error) {
	slot, err := h.n.Slot(s)
	if err != nil {
		return nil, h.n.home.refuse(err)
	}
	return &served{slot: slot, stop: func() {}}, nil
}

// List implements server.Host.
func (h host) List(context.Context) ([]server.Info, error) {
	all, err := h.n.List()
	if err != nil {
		return nil, h.n.home.refuse(err)
	}
	infos := make([]server.Info, len(all))
	for i, s := range all {
		infos[i] = info(s)
	}
	return infos, nil
}

// Search implements server.Host.
func (h host) Search(_ context.Context, q search.Query) (search.Result, error) {
	r, _, err := h.n.Search(q, nil)
	return r, err
}

// About implements server.Host.
func (h host) About() server.About {
	about := server.About{
		Build: h.n.cfg.Build, Generation: h.n.started, Store: "sqlite",
		SQL:    &server.SQL{Backend: "sqlite", Durability: h.n.cfg.Synchronous.String(), Fence: "lease"},
		Agents: &server.Agents{MaxDepth: agency.DefaultLimits().Depth, MaxAtOnce: int64(agency.DefaultLimits().FanOut)}, Jobs: true, Rules: h.n.rulePlaces(),
		Approvals: &server.Approvals{Lifetimes: words.GrantLifetimes.Words(), WindowMs: positive(h.n.cfg.AnswerWithin)},
	}
	for _, m := range offeredModes {
		if word, ok := words.PermissionModes.Parse(m.String()); ok {
			about.Modes = append(about.Modes, word)
		}
	}
	return about
}

// served is one attachment of the server to a slot.
type served struct {
	slot     *Slot
	maxTurns *int64
	stop     func()
}

func (s *served) ID() id.SessionID { return s.slot.id }

func (s *served) Source() server.Source { return &slotSource{s.slot} }

func (s *served) Info() (server.Info, error) { return info(s.slot.Summary()), nil }

// Close ends the attachment; the node closes sessions.
func (s *served) Close() error {
	s.stop()
	return nil
}

func (s *served) Check(context.Context) (server.Report, error) {
	findings, rows, err := s.slot.Check()
	if err != nil {
		return server.Report{}, err
	}
	report := server.Report{Rows: rows}
	for _, f := range findings {
		report.Findings = append(report.Findings, server.Finding{Code: string(f.Invariant), Subject: f.Subject, Message: f.Detail})
	}
	return report, nil
}

func (s *served) Prompt(_ context.Context, q server.Prompt) (engine.Receipt, error) {
	mode, err := modeOf(q.Mode)
	if err != nil {
		return engine.Receipt{}, err
	}
	turns := q.MaxTurns
	if turns == nil {
		turns = s.maxTurns
	}
	r, err := s.slot.Prompt(Opening{Mode: mode, Model: q.Model, Posture: q.Posture}, q.Strand, engine.Prompt{
		Content: []message.UserBlock{message.Text{Text: q.Text}}, MaxTurns: turns, Delivery: q.Delivery,
	})
	return r, s.slot.node.home.refuse(err)
}

func (s *served) Resume(_ context.Context, q server.Resume) (id.OpID, bool, error) {
	if q.MaxTurns != nil {
		return id.OpID{}, false, server.Refuse(server.BadRequest, "the limit of turns belongs to the run that is resumed and cannot be changed; nothing was changed")
	}
	mode, err := modeOf(q.Mode)
	if err != nil {
		return id.OpID{}, false, err
	}
	op, ok, err := s.slot.Resume(Opening{Mode: mode, Posture: q.Posture}, q.Strand)
	return op, ok, s.slot.node.home.refuse(err)
}

// EditQueued implements server.Resident. Input waits in a session that nobody has open,
// too: it is changed there without anything being run.
func (s *served) EditQueued(_ context.Context, row server.QueuedRow, text string) (seq int64, err error) {
	err = s.slot.lend(func(e *engine.Engine) error {
		seq, err = e.EditQueued(row.Strand, row.ID, row.Seq, nil, []message.UserBlock{message.Text{Text: text}})
		return err
	})
	return seq, s.slot.node.home.refuse(err)
}

// Withdraw implements server.Resident.
func (s *served) Withdraw(_ context.Context, row server.QueuedRow) (seq int64, err error) {
	err = s.slot.lend(func(e *engine.Engine) error {
		seq, err = e.Withdraw(row.Strand, row.ID)
		return err
	})
	return seq, s.slot.node.home.refuse(err)
}

// Configure implements server.Resident.
func (s *served) Configure(_ context.Context, strand string, c server.Configuring) (server.Configured, error) {
	out, err := s.slot.Configure(strand, c)
	return out, s.slot.node.home.refuse(err)
}

func (s *served) Abort(strand string) (id.OpID, bool, error) { return s.slot.Abort(strand) }

// StopTask implements server.Resident. A strand is ended like any run, a job as its
// person's wish.
func (s *served) StopTask(ctx context.Context, task string) (bool, error) {
	r := s.slot.resident()
	if r == nil {
		return false, nil
	}
	if agency.Spawned(task) {
		_, ok, err := r.engine.Abort(task)
		return ok, err
	}
	all, err := r.engine.Jobs("")
	if err != nil {
		return false, err
	}
	for _, j := range all {
		if j.ID == task {
			_, err := r.engine.KillJob(ctx, j.Strand, j.ID, job.ByPerson)
			return !j.Status.Ended(), err
		}
	}
	return false, server.Refuse(server.BadRequest, "there is no such task in this session; nothing was stopped")
}

// Decide implements server.Resident. Where nothing of the session runs here it is kept
// for who resumes the run.
func (s *served) Decide(_ context.Context, q server.Decided) (op id.OpID, seq int64, err error) {
	var got engine.Answered
	runs, err := s.slot.aside(func(r *resident) (err error) {
		got, err = r.engine.Decide(q.Strand, q.Gate, q.Decision, s.slot.node.person())
		return err
	})
	if err != nil || !runs {
		return id.OpID{}, got.Seq, s.slot.node.home.refuse(err)
	}
	return got.Op, got.Seq, nil
}

// Grants implements server.Resident.
func (s *served) Grants(context.Context) (out []server.Granted, err error) {
	err = s.slot.Read(func(v *session.View) error {
		all, err := engine.GrantsOf(v)
		for key, g := range all {
			out = append(out, server.Granted{Key: key, Grant: g})
		}
		return err
	})
	slices.SortFunc(out, func(a, b server.Granted) int {
		return cmp.Or(cmp.Compare(b.Grant.At, a.Grant.At), cmp.Compare(a.Key, b.Key))
	})
	return out, err
}

// Forget implements server.Resident.
func (s *served) Forget(_ context.Context, key string) (ok bool, err error) {
	_, err = s.slot.aside(func(r *resident) (err error) {
		ok, err = r.engine.ForgetGrant(key)
		return err
	})
	return ok, s.slot.node.home.refuse(err)
}

// Rules implements server.Resident.
func (s *served) Rules(context.Context) ([]server.Rule, error) {
	rows, err := s.slot.Rules()
	out := make([]server.Rule, len(rows))
	for i, r := range rows {
		out[i] = server.Rule{Text: r.Rule, Behavior: r.Behavior, Place: r.Place, InEffect: r.InEffect}
	}
	return out, err
}

// WriteRule implements server.Resident.
func (s *served) WriteRule(_ context.Context, q server.Rule, remove bool) (server.Ruled, error) {
	done, err := s.slot.ChangeRule(RuleChange{Rule: q.Text, Behavior: q.Behavior, Place: q.Place, Remove: remove})
	return server.Ruled{Rule: server.Rule{Text: done.Row.Rule, Behavior: done.Row.Behavior, Place: done.Row.Place, InEffect: done.Row.InEffect}, Live: done.Live}, err
}

// Rewind implements server.Resident.
func (s *served) Rewind(_ context.Context, at id.EntryID, dryRun bool) (server.Rewound, error) {
	got, err := s.slot.Rewind(at, dryRun)
	out := server.Rewound{Changed: got.Changed, Insertions: got.Insertions, Deletions: got.Deletions}
	for _, f := range got.Refused {
		out.Refused = append(out.Refused, server.RefusedFile(f))
	}
	return out, err
}

func (s *served) Current(strand string) (id.OpID, bool, error) {
	if s.slot.resident() == nil {
		return id.OpID{}, false, nil // nothing of it runs here
	}
	op, _, err := s.slot.current(strand)
	return op, !op.IsZero(), err
}

func (s *served) Level(strand string) (server.Level, error) {
	with, _ := s.slot.With()
	l := server.Level{Mode: with.Mode.String(), Cwd: with.Cwd}
	err := s.slot.Read(func(v *session.View) error {
		c, _, err := v.StrandConfig(strand)
		l.Provider, l.ModelID = c.Value.Model.Provider, c.Value.Model.ModelID
		for _, t := range with.Tools {
			if slices.Contains(c.Value.ActiveToolNames, t.Name) {
				l.Tools = append(l.Tools, offered(t))
			}
		}
		return err
	})
	return l, err
}

// offered is what a person is told of a tool.
func offered(t tools.Tool) server.Tool {
	o := server.Tool{
		Name: t.Name, Mount: words.MountedHands,
		Exclusive: new(t.Scheduling == tools.Exclusive), Repeats: new(t.Replay == tools.Safe),
	}
	if class, ok := words.ToolClasses.Parse(t.Class.String()); ok {
		o.Class = &class
	}
	if properties, ok := t.Schema.Get("properties"); ok {
		if _, ok := properties.Get(pathArgument); ok {
			o.Path = new(pathArgument)
		}
	}
	return o
}

// pathArgument is what every tool that works on one path calls it.
const pathArgument = "path"

// slotSource reads through the slot, so that a subscription goes on when the
// session is opened or closed under it.
type slotSource struct{ slot *Slot }

// through runs one read of the session's source.
func through[T any](s *slotSource, read func(server.Source) (T, error)) (out T, err error) {
	err = s.slot.Read(func(v *session.View) error {
		out, err = read(server.FromSession(v))
		return err
	})
	return out, err
}

func (s *slotSource) Generation() (int64, error) { return through(s, server.Source.Generation) }

func (s *slotSource) Head() (int64, error) { return through(s, server.Source.Head) }

func (s *slotSource) Entries(from, to int64, limit int) ([]entry.Entry, error) {
	return through(s, func(src server.Source) ([]entry.Entry, error) { return src.Entries(from, to, limit) })
}

func (s *slotSource) Children() ([]server.Child, error) {
	return through(s, server.Source.Children)
}

func (s *slotSource) Path(from, to id.EntryID, known func(id.EntryID) bool) ([]id.EntryID, error) {
	return through(s, func(src server.Source) ([]id.EntryID, error) { return src.Path(from, to, known) })
}

func (s *slotSource) Jobs() ([]server.JobRow, error) { return through(s, server.Source.Jobs) }

func (s *slotSource) Queued() ([]server.QueuedRow, error) { return through(s, server.Source.Queued) }

func (s *slotSource) Has(i id.EntryID) (bool, error) {
	return through(s, func(src server.Source) (bool, error) { return src.Has(i) })
}

func (s *slotSource) Waiting() ([]server.Waiting, error) { return through(s, server.Source.Waiting) }

func (s *slotSource) Settled(gate string) (record jsonv.Value, seq int64, ok bool, err error) {
	err = s.slot.Read(func(v *session.View) error {
		record, seq, ok, err = server.FromSession(v).Settled(gate)
		return err
	})
	return record, seq, ok, err
}

func (s *slotSource) Newest(limit int) ([]entry.Entry, error) {
	return through(s, func(src server.Source) ([]entry.Entry, error) { return src.Newest(limit) })
}

func (s *slotSource) Results(from, to int64) ([]server.Result, error) {
	return through(s, func(src server.Source) ([]server.Result, error) { return src.Results(from, to) })
}

// offeredModes are those that a session can be opened in. Auto is decided as well; it
// becomes of use with a classifier.
var offeredModes = []policy.Mode{policy.Default, policy.AcceptEdits, policy.BypassPermissions, policy.Plan, policy.DontAsk}

// modeOf reads a mode word that this build offers.
func modeOf(word *string) (*policy.Mode, error) {
	if word == nil {
		return nil, nil
	}
	m, ok := policy.ParseMode(*word)
	if !ok || !slices.Contains(offeredModes, m) {
		return nil, server.Refuse(server.BadRequest, fmt.Sprintf("the permission mode %q is not offered by this version; nothing was changed", *word))
	}
	return &m, nil
}

// refuse gives the errors of this package their codes; others the server knows.
func (h Home) refuse(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, storage.ErrReadOnly) {
		return &server.Refusal{Code: server.StoreUnreadable, Err: err,
			Message: "the place for sessions, " + h.dir + ", cannot be written; nothing was changed; set LOOM_HOME to one that can be"}
	}
	code := server.Code("")
	if _, ok := errors.AsType[*ErrUnknownSession](err); ok {
		code = server.UnknownSession
	}
	if _, ok := errors.AsType[*ErrWorkspace](err); ok {
		code = server.BadCwd
	}
	if _, ok := errors.AsType[*ErrHome](err); ok && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		code = server.StoreUnreadable
	}
	if _, ok := errors.AsType[*ErrRules](err); ok {
		code = server.BadRequest
	}
	if _, ok := errors.AsType[*agency.Refusal](err); ok {
		code = server.BadRequest
	}
	if errors.Is(err, errMoving) {
		code = server.Conflict
	}
	if _, ok := errors.AsType[*ErrMode](err); ok {
		code = server.Conflict
	}
	if p, ok := errors.AsType[*provider.Error](err); ok {
		code = server.UnknownModel
		if p.Class == provider.MissingKey {
			code = server.MissingKey
		}
	}
	if code == "" {
		return err
	}
	return &server.Refusal{Code: code, Message: err.Error(), Err: err}
}

// info says what a list shows; what is not known is absent.
func info(s Summary) server.Info {
	text := func(v string) *string {
		if v == "" {
			return nil
		}
		return &v
	}
	number := func(v int64) *int64 {
		if v == 0 {
			return nil
		}
		return &v
	}
	i := server.Info{
		Session: s.ID, Cwd: text(s.Cwd), Model: text(s.Model), Title: text(s.Title),
		CreatedAt: number(s.CreatedAt), UpdatedAt: number(s.UpdatedAt),
	}
	if s.Waits > 0 {
		i.Note = text("it waits for a decision, see `loom approvals " + s.ID.String() + "`")
	}
	switch s.Status {
	case Idle:
		i.Status = server.Idle
	case Running:
		i.Status = server.Idle // the server knows what runs and says so itself
	case Interrupted:
		i.Status = server.Interrupted
	case Held:
		i.Status = server.HeldByOther
		i.Note = text(fmt.Sprintf("it runs in another process, pid %d on %s", s.Holder.PID, s.Holder.Host))
	case Unreadable:
		i.Status = server.Unreadable
		i.Note = text(s.Err.Error())
	}
	return i
}
