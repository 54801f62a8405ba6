package sqlite

import (
	"maps"
	"slices"
	"testing"
)

// A session is brought to a new format step by step, each of which is there whole or
// not at all; the opening after a cut goes on where the steps ended.
func TestAMigrationSurvivesAPowerCut(t *testing.T) {
	cfg, clock := newConfig(t)
	cfg.Synchronous = Full
	old := &watchedSession{TB: t, cfg: cfg, clock: clock, m: newMinter(1), rec: new(recording), small: 1000}
	old.h = history{{digest: nothing}}
	old.open("the founding")
	old.commit("a message", old.message(3000)...)
	before := old.h[len(old.h)-1].digest
	mustClose(t, old.s)

	cfg.Create, cfg.format = false, future(1, 2)
	l := newWatched(t, cfg, clock, 2, before)
	l.leaf = old.leaf
	l.open("the opening by a newer build")
	l.commit("a message after it", l.message(500)...)
	l.close()
	r := newTrial(l)
	r.format = cfg.format
	outcomes, cuts := r.open(t)
	report(t, r.judge(outcomes, true))
	t.Logf("%d cuts, %d different outcomes", cuts, len(outcomes))
}

// A cut between the switch to the log and the first flush of it may leave the journal
// of the switch beside a log. The journal must be carried out first, so even who only
// looks writes.
func TestAJournalBesideALogIsCarriedOut(t *testing.T) {
	files := journalBesideLog(t)
	for name, open := range map[string]func(Config) error{
		"open":  func(cfg Config) error { s, err := Open(cfg); return closeIf(s != nil, s, err) },
		"read":  func(cfg Config) error { r, err := OpenReader(cfg.Path); return closeIf(r != nil, r, err) },
		"peek":  func(cfg Config) error { _, err := Peek(cfg.Path); return err },
		"check": func(cfg Config) error { _, err := Check(cfg.Path); return err },
	} {
		p := newPlace(t, 1)
		if err := p.lay(files); err != nil {
			t.Fatal(err)
		}
		if err := open(p.cfg); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := p.reopen(); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
	}
}

func journalBesideLog(t *testing.T) map[string][]byte {
	t.Helper()
	l := recorded(t, Full, func(l *watchedSession) {
		writeFile(t, l.cfg.Path, "") // as a session begins where a blank file cannot be placed
		l.short()
	})
	d := newDisk(l.rec.base)
	for _, c := range l.rec.calls {
		if c.name == "session.db-wal" && c.kind == ioSync {
			break
		}
		d.apply(c)
	}
	files := d.image(&latestName{len(d.pending)})
	if len(files["session.db-journal"]) == 0 || len(files["session.db-wal"]) == 0 {
		t.Fatalf("the image has %v", slices.Sorted(maps.Keys(files)))
	}
	return files
}

// latestName is the fate that of all changes of the folder only the last is durable.
type latestName struct{ left int }

func (f *latestName) change() bool {
	f.left--
	return f.left == 0
}

func (f *latestName) sector() bool                { return true }
func (f *latestName) beyond(int64) ([]byte, bool) { return nil, false }
