package server

import (
	"net/http"

	"github.com/loom-run/loom/wire"
)

func (s *Server) postRewind(r *http.Request, q wire.Rewind) (none wire.Rewound, err error) {
	h, err := s.session(r)
	if err != nil {
		return none, err
	}
	got, err := h.resident.Rewind(r.Context(), q.Entry, q.DryRun)
	if err != nil {
		return none, err
	}
	out := wire.Rewound{
		CanRewind: len(got.Changed) > 0 || len(got.Refused) == 0, Changed: make([]string, len(got.Changed)),
		Refused: make([]wire.RefusedFile, len(got.Refused)), Insertions: got.Insertions, Deletions: got.Deletions,
	}
	for i, path := range got.Changed {
		out.Changed[i] = shownWord(path)
	}
	for i, f := range got.Refused {
		out.Refused[i] = wire.RefusedFile{Path: shownWord(f.Path), Why: shown(f.Why)}
	}
	return out, nil
}
