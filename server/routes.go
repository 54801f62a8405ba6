package server

import (
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/wire"
)

// routes is the table of what can be asked.
func (s *Server) routes() {
	v := "/v" + strconv.Itoa(wire.Version)
	for pattern, handle := range map[string]func(http.ResponseWriter, *http.Request) error{
		"POST " + v + "/sessions":             s.postSession,
		"GET " + v + "/sessions":              s.getSessions,
		"GET " + v + "/sessions/{id}":         s.getPage,
		"GET " + v + "/sessions/{id}/frames":  s.frames,
		"POST " + v + "/sessions/{id}/prompt": s.postPrompt,
		"POST " + v + "/sessions/{id}/resume": s.postResume,
		"POST " + v + "/sessions/{id}/abort":  s.postAbort,
		"POST " + v + "/sessions/{id}/check":  s.postCheck,
		"/": func(_ http.ResponseWriter, r *http.Request) error {
			return Refuse(wire.NoRoute, fmt.Sprintf("there is nothing at %s %s in version %d", r.Method, r.URL.Path, wire.Version))
		},
	} {
		s.mux.HandleFunc(pattern, answering(handle))
	}
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
	send(w, status, e.Append(nil))
}

func send(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone has nothing to be told
}

// read reads a request body of bounded size.
func read[T any](w http.ResponseWriter, r *http.Request, limit int64, decode func([]byte) (T, error)) (T, error) {
	var none T
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		return none, badRequest(err)
	}
	v, err := decode(data)
	if err != nil {
		return none, badRequest(err)
	}
	return v, nil
}

func sessionID(r *http.Request) (id.SessionID, error) {
	sid, err := id.ParseSessionID(r.PathValue("id"))
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

func (s *Server) postSession(w http.ResponseWriter, r *http.Request) error {
	q, err := read(w, r, wire.MaxBody, wire.DecodeCreateSession)
	if err != nil {
		return err
	}
	h, err := s.create(r.Context(), NewSession{Cwd: q.Cwd, Model: q.Model, Mode: string(q.PermissionMode), MaxTurns: q.MaxTurns})
	if err != nil {
		return err
	}
	m, err := h.minted()
	if err != nil {
		return err
	}
	cursor, err := m.head()
	if err != nil {
		return err
	}
	send(w, http.StatusCreated, wire.Created{Session: h.session, Cursor: cursor}.Append(nil))
	return nil
}

func (s *Server) getSessions(w http.ResponseWriter, r *http.Request) error {
	infos, err := s.host.List(r.Context())
	if err != nil {
		return err
	}
	list := wire.SessionList{Sessions: make([]wire.SessionInfo, len(infos))}
	for i, info := range infos {
		list.Sessions[i] = s.info(info)
	}
	send(w, http.StatusOK, list.Append(nil))
	return nil
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

func (s *Server) getPage(w http.ResponseWriter, r *http.Request) error {
	sid, err := sessionID(r)
	if err != nil {
		return err
	}
	from, err := wire.ParseFrom(r.URL.Query().Get("after"))
	if err != nil {
		return badRequest(err)
	}
	limit := defaultPage
	if text := r.URL.Query().Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > wire.MaxPage {
			return badRequest(fmt.Errorf("limit is 1 to %d", wire.MaxPage))
		}
	}
	reader, done, err := s.reader(r.Context(), sid)
	if err != nil {
		return err
	}
	defer done()
	page, err := s.page(reader, sid, from, limit)
	if err != nil {
		return err
	}
	send(w, http.StatusOK, page.Append(nil))
	return nil
}

// pageBytes is how large a page may grow before it ends early.
const pageBytes = 32 << 20

func (s *Server) page(reader Reader, sid id.SessionID, from wire.From, limit int) (wire.SessionPage, error) {
	info, err := reader.Info()
	if err != nil {
		return wire.SessionPage{}, err
	}
	generation, err := reader.Source().Generation()
	if err != nil {
		return wire.SessionPage{}, err
	}
	m := minted{session: sid, generation: generation, source: reader.Source()}
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

func (s *Server) postPrompt(w http.ResponseWriter, r *http.Request) error {
	q, err := read(w, r, wire.MaxPromptBody, wire.DecodePrompt)
	if err != nil {
		return err
	}
	h, err := s.session(r)
	if err != nil {
		return err
	}
	got, err := h.resident.Prompt(r.Context(), Prompt{
		Strand: strandOf(q.Strand), Text: q.Text, MaxTurns: q.MaxTurns, Model: q.Model, Mode: (*string)(q.PermissionMode),
	})
	if err != nil {
		return err
	}
	receipt := wire.Prompted{Status: wire.Admitted, Operation: got.Op, Seq: got.Seq}
	if got.Queued {
		receipt.Status = wire.Queued
	}
	send(w, http.StatusAccepted, receipt.Append(nil))
	return nil
}

func (s *Server) postResume(w http.ResponseWriter, r *http.Request) error {
	q, err := read(w, r, wire.MaxBody, wire.DecodeResume)
	if err != nil {
		return err
	}
	h, err := s.session(r)
	if err != nil {
		return err
	}
	op, ok, err := h.resident.Resume(r.Context(), Resume{Strand: strandOf(q.Strand), MaxTurns: q.MaxTurns, Mode: (*string)(q.PermissionMode)})
	if err != nil {
		return err
	}
	if !ok {
		op = id.OpID{}
	}
	send(w, http.StatusAccepted, wire.Resumed{Operation: op}.Append(nil))
	return nil
}

func (s *Server) postAbort(w http.ResponseWriter, r *http.Request) error {
	q, err := read(w, r, wire.MaxBody, wire.DecodeAbort)
	if err != nil {
		return err
	}
	h, err := s.session(r)
	if err != nil {
		return err
	}
	_, ok, err := h.resident.Abort(strandOf(q.Strand))
	if err != nil {
		return err
	}
	receipt := wire.AbortReceipt{Status: wire.NothingRunning}
	if ok {
		receipt.Status = wire.Aborting
	}
	send(w, http.StatusAccepted, receipt.Append(nil))
	return nil
}

func (s *Server) postCheck(w http.ResponseWriter, r *http.Request) error {
	if _, err := read(w, r, wire.MaxBody, wire.DecodeEmpty); err != nil {
		return err
	}
	sid, err := sessionID(r)
	if err != nil {
		return err
	}
	reader, done, err := s.reader(r.Context(), sid)
	if err != nil {
		return err
	}
	defer done()
	got, err := reader.Check(r.Context())
	if err != nil {
		return err
	}
	report := wire.CheckReport{Rows: got.Rows}
	for _, f := range got.Findings {
		report.Findings = append(report.Findings, wire.Finding(f))
	}
	send(w, http.StatusOK, report.Append(nil))
	return nil
}
