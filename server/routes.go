package server

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/wire"
)

// routes is the table of what can be asked.
func (s *Server) routes() {
	handle(s, wire.GetProbe, func(*http.Request, struct{}) (wire.Probe, error) { return s.probe(), nil })
	handle(s, wire.GetCapabilities, func(*http.Request, struct{}) (wire.Capabilities, error) { return s.capabilities(), nil })
	handle(s, wire.PostSession, s.postSession)
	handle(s, wire.GetSessions, s.getSessions)
	handle(s, wire.GetPage, s.getPage)
	handle(s, wire.PostPrompt, s.postPrompt)
	handle(s, wire.PostSteer, s.postSteer)
	handle(s, wire.PostFollowUp, s.postFollowUp)
	handle(s, wire.PostQueueEdit, s.postQueueEdit)
	handle(s, wire.PostQueueCancel, s.postQueueCancel)
	handle(s, wire.PostConfig, s.postConfig)
	handle(s, wire.PostModel, s.postModel)
	handle(s, wire.PostMode, s.postMode)
	handle(s, wire.PostResume, s.postResume)
	handle(s, wire.PostAbort, s.postAbort)
	handle(s, wire.PostCheck, s.postCheck)
	handle(s, wire.GetBackground, s.getBackground)
	handle(s, wire.PostStopTask, s.postStopTask)
	handle(s, wire.PostFork, s.postFork)
	handle(s, wire.PostNavigate, s.postNavigate)
	handle(s, wire.PostCompact, s.postCompact)
	handle(s, wire.PostRewind, s.postRewind)
	handle(s, wire.GetPending, s.getPending)
	handle(s, wire.PostDecide, s.postDecide)
	handle(s, wire.PostAnswer, s.postAnswer)
	handle(s, wire.PostPlan, s.postPlan)
	handle(s, wire.GetGrants, s.getGrants)
	handle(s, wire.PostForget, s.postForget)
	handle(s, wire.GetRules, s.getRules)
	handle(s, wire.PostRuleWrite, func(r *http.Request, q wire.WriteRule) (wire.RuleReceipt, error) {
		return s.changeRule(r, q.RuleChoice, false)
	})
	handle(s, wire.PostRuleRemove, func(r *http.Request, q wire.RemoveRule) (wire.RuleReceipt, error) {
		return s.changeRule(r, q.RuleChoice, true)
	})
	handle(s, wire.PostSearch, s.postSearch)
	s.mount(wire.GetFrames, s.frames)

	// What the contract has beyond that is answered as such, and not as a path that
	// does not exist.
	for _, route := range wire.Routes() {
		if !slices.Contains(s.handled, route.Name) {
			s.mux.HandleFunc(pattern(route), answering(func(http.ResponseWriter, *http.Request) error {
				return Refuse(wire.Unsupported, "this engine has no "+route.Name+"; nothing was changed")
			}))
		}
	}
	s.mux.HandleFunc("/", answering(func(_ http.ResponseWriter, r *http.Request) error {
		return Refuse(wire.NoRoute, fmt.Sprintf("there is nothing at %s %s in version %d", r.Method, r.URL.Path, wire.Version))
	}))
}

func pattern(route *wire.Spec) string { return route.Method + " " + wire.Prefix() + route.Path }

// mount serves a route and counts it among those that are carried out.
func (s *Server) mount(route *wire.Spec, h func(http.ResponseWriter, *http.Request) error) {
	s.handled = append(s.handled, route.Name)
	s.mux.HandleFunc(pattern(route), answering(func(w http.ResponseWriter, r *http.Request) error {
		if err := queried(route, r.URL.Query()); err != nil {
			return err
		}
		if looks, _ := r.Context().Value(observing{}).(bool); looks && route.Mutates() {
			return Refuse(wire.Forbidden, "who only looks at a session changes and decides nothing in it; nothing was changed")
		}
		return h(w, r)
	}))
}

// queried refuses a query that the route does not take: one that was misspelt must
// not be silently off.
func queried(route *wire.Spec, query url.Values) error {
	for name, values := range query {
		if !slices.Contains(route.Query, name) || len(values) > 1 {
			return badRequest(fmt.Errorf("%q is not a query of this route, or stands there twice", name))
		}
	}
	return nil
}

// handle serves a route with what carries it out: the body is read and the answer
// written here. A request that carries an idempotency key is carried out once.
func handle[Q, R any](s *Server, route wire.Route[Q, R], do func(*http.Request, Q) (R, error)) {
	s.mount(route.Spec, func(w http.ResponseWriter, r *http.Request) error {
		var q Q
		if route.Request == nil {
			answer, err := do(r, q)
			if err == nil {
				send(w, route.Status, wire.Encode(answer))
			}
			return err
		}
		data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, route.Limit))
		if err == nil {
			q, err = wire.DecodeRequest[Q](data)
		}
		if err != nil {
			return badRequest(err)
		}
		key := ""
		if m, ok := any(q).(interface{ IdempotencyKey() string }); ok {
			key = m.IdempotencyKey()
		}
		body, err := s.once.do(r.Context(), key, r.URL.Path, data, func() ([]byte, error) {
			answer, err := do(r, q)
			if err != nil {
				return nil, err
			}
			return wire.Encode(answer), nil
		})
		if err == nil {
			send(w, route.Status, body)
		}
		return err
	})
}

// answering sends the error of a handler. A defect of ours becomes an answer too:
// one request must not take the sessions of others down.
func answering(handle func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if v := recover(); v != nil {
				if v == any(http.ErrAbortHandler) {
					panic(v)
				}
				refuse(w, wire.ErrorBody{Code: wire.Internal, Message: fmt.Sprintf("the server has a defect: %v", v)})
			}
		}()
		if err := handle(w, r); err != nil {
			refuse(w, refusal(err))
		}
	}
}

func refuse(w http.ResponseWriter, e wire.ErrorBody) {
	status := e.Code.Status()
	if status == 0 {
		status = http.StatusInternalServerError
	}
	send(w, status, wire.Encode(e))
}

func send(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone has nothing to be told
}

func sessionID(r *http.Request) (id.SessionID, error) {
	sid, err := id.ParseSessionID(r.PathValue("session"))
	if err != nil {
		return id.SessionID{}, badRequest(err)
	}
	return sid, nil
}

// session is the hub of the session in the path.
func (s *Server) session(r *http.Request) (*hub, error) {
	sid, err := sessionID(r)
	if err != nil {
		return nil, err
	}
	return s.resident(r.Context(), sid)
}

func (s *Server) postSession(r *http.Request, q wire.CreateSession) (none wire.Created, err error) {
	if err := unsupported(
		option{"name", q.Name != nil}, option{"excludeAllTools", q.ExcludeAllTools},
		option{"approverPosture", q.ApproverPosture != nil && s.host.About().Approvals == nil}, option{"memoryCapture", q.MemoryCapture != nil},
	); err != nil {
		return none, err
	}
	h, err := s.create(r.Context(), NewSession{Cwd: q.Cwd, Model: q.Model, Mode: string(q.PermissionMode), MaxTurns: q.MaxTurns, Posture: q.ApproverPosture})
	if err != nil {
		return none, err
	}
	m, err := h.minted()
	if err != nil {
		return none, err
	}
	cursor, err := m.head()
	return wire.Created{Session: h.session, Cursor: cursor}, err
}

// option is a field of a request that this engine cannot carry out.
type option struct {
	name  string
	given bool
}

// unsupported refuses a request for something that would silently be off.
func unsupported(options ...option) error {
	for _, o := range options {
		if o.given {
			return Refuse(wire.Unsupported, "this engine has no "+o.name+"; nothing was changed, leave it out or use one that has it")
		}
	}
	return nil
}

func (s *Server) getSessions(r *http.Request, _ struct{}) (list wire.SessionList, err error) {
	if err := unsupported(option{"archive of sessions", r.URL.Query().Has("archived")}); err != nil {
		return list, err
	}
	infos, err := s.host.List(r.Context())
	if err != nil {
		return list, err
	}
	list.Sessions = make([]wire.SessionInfo, len(infos))
	for i, info := range infos {
		list.Sessions[i] = s.info(info)
	}
	return list, nil
}

// info completes what a host tells about a session with what is known here: one
// that runs in this process is running, whatever its file looks like.
func (s *Server) info(i Info) wire.SessionInfo {
	s.mu.Lock()
	h := s.hubs[i.Session]
	s.mu.Unlock()
	if h != nil {
		select {
		case <-h.opened:
			if h.err == nil {
				if _, running, err := h.resident.Current(session.MainStrand); err == nil && running {
					i.Status = words.SessionRunning
				}
			}
		default:
		}
	}
	return wire.SessionInfo{
		Session: i.Session, Status: i.Status, Cwd: i.Cwd, Model: i.Model, Title: i.Title,
		CreatedAt: i.CreatedAt, UpdatedAt: i.UpdatedAt, Note: i.Note,
	}
}

// defaultPage is how many frames a page has when the client does not say.
const defaultPage = 200

func (s *Server) getPage(r *http.Request, _ struct{}) (none wire.SessionPage, err error) {
	sid, err := sessionID(r)
	if err != nil {
		return none, err
	}
	from, err := wire.ParseFrom(r.URL.Query().Get("after"))
	if err != nil {
		return none, badRequest(err)
	}
	limit := defaultPage
	if text := r.URL.Query().Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > wire.MaxPage {
			return none, badRequest(fmt.Errorf("limit is 1 to %d", wire.MaxPage))
		}
	}
	reader, done, err := s.reader(r.Context(), sid)
	if err != nil {
		return none, err
	}
	defer done()
	return s.page(reader, sid, from, limit)
}

// pageBytes is how large a page may grow before it ends early.
const pageBytes = 32 << 20

func (s *Server) page(reader Reader, sid id.SessionID, from wire.From, limit int) (wire.SessionPage, error) {
	info, err := reader.Info()
	if err != nil {
		return wire.SessionPage{}, err
	}
	m, err := mint(sid, reader.Source())
	if err != nil {
		return wire.SessionPage{}, err
	}
	start, head, err := m.start(from)
	if err != nil {
		return wire.SessionPage{}, err
	}
	page := wire.SessionPage{Info: s.info(info), Next: start}
	bytes := 0
	for f, err := range m.frames(start, head) {
		if err != nil {
			return wire.SessionPage{}, err
		}
		if len(page.Frames) == limit || bytes > pageBytes {
			page.More = true
			break
		}
		page.Frames = append(page.Frames, f)
		page.Next = f.Cursor
		bytes += len(f.Append(nil))
	}
	return page, nil
}

func strandOf(s *string) string {
	if s == nil {
		return session.MainStrand
	}
	return *s
}

func (s *Server) postPrompt(r *http.Request, q wire.Prompt) (none wire.Prompted, err error) {
	if err := unsupported(option{"images", len(q.Images) > 0}, option{"approverPosture", q.ApproverPosture != nil && s.host.About().Approvals == nil}); err != nil {
		return none, err
	}
	h, err := s.session(r)
	if err != nil {
		return none, err
	}
	got, err := h.resident.Prompt(r.Context(), Prompt{
		Strand: strandOf(q.Strand), Text: q.Text, MaxTurns: q.MaxTurns, Model: q.Model, Mode: (*string)(q.PermissionMode), Posture: q.ApproverPosture,
	})
	if err != nil {
		return none, err
	}
	return prompted(got), nil
}

func (s *Server) postResume(r *http.Request, q wire.Resume) (receipt wire.Resumed, err error) {
	h, err := s.session(r)
	if err != nil {
		return receipt, err
	}
	op, ok, err := h.resident.Resume(r.Context(), Resume{
		Strand: strandOf(q.Strand), MaxTurns: q.MaxTurns, Mode: (*string)(q.PermissionMode), Posture: q.ApproverPosture,
	})
	if ok {
		receipt.Operation = op
	}
	return receipt, err
}

func (s *Server) postAbort(r *http.Request, q wire.Abort) (receipt wire.AbortReceipt, err error) {
	h, err := s.session(r)
	if err != nil {
		return receipt, err
	}
	_, ok, err := h.resident.Abort(strandOf(q.Strand))
	receipt.Status = wire.NothingRunning
	if ok {
		receipt.Status = wire.Aborting
	}
	return receipt, err
}

func (s *Server) postCheck(r *http.Request, _ wire.CheckSession) (report wire.CheckReport, err error) {
	sid, err := sessionID(r)
	if err != nil {
		return report, err
	}
	reader, done, err := s.reader(r.Context(), sid)
	if err != nil {
		return report, err
	}
	defer done()
	got, err := reader.Check(r.Context())
	report.Rows = got.Rows
	for _, f := range got.Findings {
		report.Findings = append(report.Findings, wire.Finding(f))
	}
	return report, err
}

func (s *Server) getBackground(r *http.Request, _ struct{}) (none wire.Background, err error) {
	sid, err := sessionID(r)
	if err != nil {
		return none, err
	}
	reader, done, err := s.reader(r.Context(), sid)
	if err != nil {
		return none, err
	}
	defer done()
	return listing(reader.Source())
}

func (s *Server) postStopTask(r *http.Request, q wire.StopTask) (receipt wire.StopReceipt, err error) {
	h, err := s.session(r)
	if err != nil {
		return receipt, err
	}
	task, ok, err := taskOf(h.resident.Source(), q.Task)
	if err != nil {
		return receipt, err
	}
	if !ok {
		return receipt, Refuse(wire.BadRequest, "there is no such task in this session; nothing was stopped")
	}
	stopped, err := h.resident.StopTask(r.Context(), q.Task)
	if err != nil {
		return receipt, err
	}
	// Read again: a stop may be over before it is answered, and what did not work says
	// itself how it ended.
	if now, ok, err := taskOf(h.resident.Source(), q.Task); err == nil && ok {
		task = now
	}
	receipt.Task, receipt.Status = q.Task, task.Status
	if stopped && !task.Status.Ended() {
		receipt.Status = words.BackgroundDraining
	}
	return receipt, nil
}
