package sqlite_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/session/repo"
	"github.com/loom-run/loom/session/sessiontest"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/memory"
	"github.com/loom-run/loom/storage/sqlite"
)

// stepping notes each change of a session.
type stepping struct {
	*sqlite.Store
	cuts *sqlite.PowerCuts
}

func (s *stepping) Commit(t tx.Tx) (r tx.Result, err error) {
	s.cuts.Step("a commit of the fork", func() *sqlite.Store { r, err = s.Store.Commit(t); return s.Store })
	return r, err
}

func (s *stepping) CommitAll(txs ...tx.Tx) (outcomes []storage.Outcome) {
	s.cuts.Step("a batch of the fork", func() *sqlite.Store { outcomes = s.Store.CommitAll(txs...); return s.Store })
	return outcomes
}

func (s *stepping) RecordIdentity(own, parent id.SessionID) (err error) {
	s.cuts.Step("the identity of the fork", func() *sqlite.Store { err = s.Store.RecordIdentity(own, parent); return s.Store })
	return err
}

func (s *stepping) Close() (err error) {
	s.cuts.Step("the closing of the fork", func() *sqlite.Store { err = s.Store.Close(); return nil })
	return err
}

// A fork is there whole or not at all, whenever the power is cut.
func TestAForkSurvivesAPowerCut(t *testing.T) {
	const now = 1_767_225_600_000
	ids := id.NewGenerator(clock.Fixed(now), 5)
	say := func(place string) string { return place + strings.Repeat(" and more of it", 40) }
	for name, scope := range map[string]func(*sessiontest.Story) repo.ForkScope{
		"branch": func(s *sessiontest.Story) repo.ForkScope { return repo.Branch{Strand: session.MainStrand, At: s.Leaf} },
		"tree":   func(*sessiontest.Story) repo.ForkScope { return repo.Tree{} },
	} {
		t.Run(name, func(t *testing.T) {
			story, ids := sessiontest.Tell(ids, say)
			source := memory.New(func() int64 { return now })
			for _, x := range story.Txs {
				if _, err := source.Commit(x); err != nil {
					t.Fatal(err)
				}
			}
			cuts := sqlite.NewPowerCuts(t)
			to := repo.Into(func(id.SessionID) (storage.Store, error) {
				var s *sqlite.Store
				var err error
				cuts.Step("the founding", func() *sqlite.Store { s, err = sqlite.Open(cuts.Config()); return s })
				if err != nil {
					return nil, fmt.Errorf("open: %w", err)
				}
				return &stepping{s, cuts}, nil
			})
			forked, _, _, err := repo.Fork(repo.Plan{Source: session.NewView(source), Scope: scope(story), To: to}, ids)
			if err != nil {
				t.Fatal(err)
			}
			if err := forked.Close(); err != nil {
				t.Fatal(err)
			}
			if n := cuts.Judge(); n < 50 {
				t.Errorf("only %d outcomes were opened", n)
			}
		})
	}
}
