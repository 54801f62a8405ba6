package automation_test

import (
	"flag"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/machine/agency"
	"github.com/loom-run/loom/machine/automation"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

const epoch = 1_767_225_600_000 // 2026-01-01T00:00:00Z, a Thursday

func minter() id.Generator { return id.NewGenerator(clock.Fixed(epoch), 1) }

func cron(t interface{ Fatal(...any) }, text string, offset int64) automation.Cron {
	c, err := automation.ParseCron(text, offset)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// once is a schedule made at a time that has told nothing.
func once(when automation.Timing, at int64) automation.Schedule {
	return automation.Schedule{Name: "s", Target: "main", When: when, Body: "b", MaxFires: automation.MaxFires, LifeMs: automation.MaxLifeMs, CreatedAt: at}
}

func TestCronExpressions(t *testing.T) {
	for _, c := range []struct {
		text   string
		offset int64
		want   string // the first time after 2026-01-01T00:00:00Z
	}{
		{"* * * * *", 0, "2026-01-01T00:01:00Z"},
		{"0 0 * * *", 0, "2026-01-02T00:00:00Z"},
		{"30 9 * * *", 60, "2026-01-01T08:30:00Z"},
		{"0 0 * * *", -330, "2026-01-01T05:30:00Z"},
		{"*/20 * * * *", 0, "2026-01-01T00:20:00Z"},
		{"5-10/5,59 * * * *", 0, "2026-01-01T00:05:00Z"},
		{"50/5 * * * *", 0, "2026-01-01T00:50:00Z"},
		{"0 12 * * 0", 0, "2026-01-04T12:00:00Z"},
		{"0 12 * * 7", 0, "2026-01-04T12:00:00Z"},
		{"0 12 5 * 6", 0, "2026-01-03T12:00:00Z"}, // either day is enough
		{"0 12 5 * *", 0, "2026-01-05T12:00:00Z"},
		{"0 0 1-7 1 *", 0, "2026-01-02T00:00:00Z"},
		{"0 0 * 2 *", 0, ""}, // not within a week
	} {
		s := once(cron(t, c.text, c.offset), epoch)
		at, ok := s.Next(epoch)
		if got := time.UnixMilli(at).UTC().Format(time.RFC3339); ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%s at %d comes at %s, %v; want %s", c.text, c.offset, got, ok, c.want)
		}
	}
	for _, bad := range []string{
		"", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "@daily", "* * * jan *", "* * * * mon",
		"1-0 * * * *", "*/0 * * * *", "1,, * * * *", "-1 * * * *", "1- * * * *", "*-5 * * * *", "00001 * * * *", "+1 * * * *", "? * * * *",
	} {
		if c, err := automation.ParseCron(bad, 0); err == nil {
			t.Errorf("%q is read as %s", bad, c)
		}
	}
}

func timings() *rapid.Generator[automation.Timing] {
	return rapid.Custom(func(t *rapid.T) automation.Timing {
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			return automation.Every{Seconds: rapid.Int64Range(automation.MinEvery, automation.MaxEvery).Draw(t, "seconds")}
		case 1:
			return automation.At{Ms: epoch + rapid.Int64Range(-1000, automation.MaxLifeMs+1000).Draw(t, "at")}
		}
		text := rapid.SampledFrom([]string{"* * * * *", "*/7 * * * *", "0 3 * * *", "15,45 8-17 * * 1-5", "0 0 1 * 0"}).Draw(t, "cron")
		c, err := automation.ParseCron(text, rapid.Int64Range(-14*60, 14*60).Draw(t, "offset"))
		if err != nil {
			t.Fatal(err)
		}
		return c
	})
}

// What comes next is due once it is there, and nothing is due before; what is due
// latest has nothing after it.
func TestNextAndDueAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := once(timings().Draw(t, "when"), epoch+rapid.Int64Range(0, 1_000_000).Draw(t, "made"))
		at, ok := s.Next(s.CreatedAt)
		if !ok {
			if _, due := s.Due(s.CreatedAt + s.LifeMs); due {
				t.Fatal("nothing comes, and something is due at the end")
			}
			return
		}
		if got, due := s.Due(at); !due || got != at {
			t.Fatalf("what comes at %d is due as %d, %v", at, got, due)
		}
		if _, due := s.Due(at - 1); due {
			t.Fatal("it is due before it comes")
		}
		now := at + rapid.Int64Range(0, automation.MaxLifeMs/2).Draw(t, "later")
		if last, due := s.Due(now); due {
			s.Last = last
			if again, due := s.Due(now); due {
				t.Fatalf("after %d of %d, %d is due too", last, now, again)
			}
		} else if now <= s.CreatedAt+s.LifeMs {
			t.Fatal("what came is not due any more")
		}
	})
}

// table is where plans are committed: a schedule and its strand, of which only what a
// firing changes moves.
type table struct {
	r     automation.Recorded
	there bool
	seq   int64
	told  []int64
}

// Whatever the clock does and whichever plan is committed, also one that an earlier
// look made: occurrences are told in order, none twice, none when it expired, and no
// more than asked for.
func TestWhateverTheClockDoesNothingIsToldTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := table{r: automation.Recorded{Schedule: once(timings().Draw(t, "when"), epoch), Seq: 1}, there: true, seq: 1}
		w.r.MaxFires = rapid.Int64Range(1, 5).Draw(t, "most")
		w.r.LifeMs = rapid.Int64Range(1, automation.MaxLifeMs).Draw(t, "life")
		w.r.Wake = rapid.Bool().Draw(t, "wake")
		w.r.Owner = rapid.SampledFrom([]string{"", "main"}).Draw(t, "owner")
		settings := automation.Settings{Models: rapid.SampledFrom([]automation.Policy{automation.Off, automation.Steer, automation.Wake}).Draw(t, "policy")}
		now := int64(epoch)
		type plan struct {
			t    tx.Tx
			next automation.Schedule
			at   int64
		}
		var made []plan
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				now += rapid.Int64Range(-automation.MaxLifeMs, automation.MaxLifeMs).Draw(t, "jump")
			case 1:
				now += rapid.Int64Range(0, 120_000).Draw(t, "pass")
			}
			if w.there {
				to := automation.Standing{Standing: machine.Standing{Strand: "main"}, Unread: rapid.IntRange(0, 3).Draw(t, "unread") == 0}
				if p, next, ok := settings.Fire(w.r, to, now, minter()); ok {
					if to.Unread || !w.r.Wake || w.r.Owner != "" && settings.Models != automation.Wake {
						t.Fatal("it told what it may not")
					}
					made = append(made, plan{p, next, now})
				}
			}
			if len(made) == 0 || rapid.Bool().Draw(t, "wait") {
				continue
			}
			p := rapid.SampledFrom(made).Draw(t, "commit")
			if !w.commits(p.t) {
				continue
			}
			if p.next.Last > p.at || p.at > epoch+w.r.LifeMs {
				t.Fatalf("at %d it told of %d", p.at, p.next.Last)
			}
			w.told = append(w.told, p.next.Last)
		}
		if int64(len(w.told)) > w.r.MaxFires {
			t.Fatalf("%d were told of %d", len(w.told), w.r.MaxFires)
		}
		for i := range w.told {
			if i > 0 && w.told[i] <= w.told[i-1] {
				t.Fatalf("told of %v", w.told)
			}
		}
	})
}

// commits applies a plan if nothing moved since it was made, as a store does.
func (w *table) commits(t tx.Tx) bool {
	key := w.r.Key()
	for _, e := range t.Expected {
		if e.NS == register.FactCustom && e.Key == key && (!w.there || e.Seq != w.r.Seq) {
			return false
		}
	}
	w.seq++
	for _, x := range t.Writes {
		switch x := x.(type) {
		case tx.SetRegister:
			if x.NS == register.FactCustom && x.Key == key {
				s, err := automation.Decode(x.Value)
				if err != nil {
					panic(err)
				}
				w.r = automation.Recorded{Schedule: s, Seq: w.seq}
			}
		case tx.DeleteRegister:
			if x.Key == key {
				w.there = false
			}
		}
	}
	return true
}

func TestARuleHearsExactlyWhatIsWritten(t *testing.T) {
	r := automation.Rule{Name: "r", Triggers: []string{"Now", "a.c"}, Body: "b"}
	for text, want := range map[string]bool{"a Now": true, "now": false, "abc": false, "xa.cx": true, "": false, "No w": false} {
		if r.Hears(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

func TestWhatIsOutOfBoundsIsRefused(t *testing.T) {
	good := automation.Rule{Name: "r", Triggers: []string{"x"}, Body: "b"}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*automation.Rule){
		"no name":           func(r *automation.Rule) { r.Name = "" },
		"a name with /":     func(r *automation.Rule) { r.Name = "a/b" },
		"a long name":       func(r *automation.Rule) { r.Name = strings.Repeat("a", 65) },
		"no trigger":        func(r *automation.Rule) { r.Triggers = nil },
		"an empty trigger":  func(r *automation.Rule) { r.Triggers = []string{""} },
		"many triggers":     func(r *automation.Rule) { r.Triggers = make([]string, 33) },
		"a long trigger":    func(r *automation.Rule) { r.Triggers = []string{strings.Repeat("é", 257)} },
		"no body":           func(r *automation.Rule) { r.Body = " \n" },
		"a long body":       func(r *automation.Rule) { r.Body = strings.Repeat("b", 8193) },
		"a name with space": func(r *automation.Rule) { r.Name = "a b" },
	} {
		r := good
		if change(&r); r.Check() == nil {
			t.Errorf("%s: %+v is taken", name, r)
		}
	}
	for name, change := range map[string]func(*automation.Schedule){
		"never":           func(s *automation.Schedule) { s.When = nil },
		"too often":       func(s *automation.Schedule) { s.When = automation.Every{Seconds: 59} },
		"too rarely":      func(s *automation.Schedule) { s.When = automation.Every{Seconds: 604_801} },
		"no times":        func(s *automation.Schedule) { s.MaxFires = 0 },
		"too many times":  func(s *automation.Schedule) { s.MaxFires = 1001 },
		"no life":         func(s *automation.Schedule) { s.LifeMs = 0 },
		"a long life":     func(s *automation.Schedule) { s.LifeMs = automation.MaxLifeMs + 1 },
		"no target":       func(s *automation.Schedule) { s.Target = "" },
		"a name with /":   func(s *automation.Schedule) { s.Name = "a/b" },
		"nothing to tell": func(s *automation.Schedule) { s.Body = "" },
	} {
		s := once(automation.Every{Seconds: 60}, epoch)
		if change(&s); s.Check() == nil {
			t.Errorf("%s: %+v is taken", name, s)
		}
	}
}

func TestAgentsHaveSixteenSchedulesAndWhatIsOverGivesWay(t *testing.T) {
	settings := automation.Settings{Models: automation.Steer}
	var have []automation.Recorded
	for i := range automation.MaxSchedules {
		s := once(automation.Every{Seconds: 60}, epoch)
		s.Owner, s.Name = "main", strings.Repeat("n", i+1)
		have = append(have, automation.Recorded{Schedule: s, Seq: int64(i + 1)})
	}
	one := once(automation.Every{Seconds: 60}, 0)
	one.Owner, one.Name = "main", "more"
	if _, _, err := settings.Create(one, have, nil, epoch); err == nil {
		t.Error("a seventeenth is taken")
	}
	same := have[3].Schedule
	if p, planned, err := settings.Create(same, have, nil, epoch+5); err != nil || planned {
		t.Errorf("the same again is planned: %v, %v", p, err)
	}
	same.Body = "other"
	if _, _, err := settings.Create(same, have, nil, epoch); err == nil {
		t.Error("another one of a name is taken")
	}
	have[3].Fired, have[3].Last = have[3].MaxFires, epoch
	p, planned, err := settings.Create(one, have, nil, epoch)
	if err != nil || !planned || len(p.Writes) != 2 {
		t.Errorf("where one is over: %v, %v", p, err)
	}
	p, planned, err = settings.Create(same, have, nil, epoch)
	if err != nil || !planned || len(p.Writes) != 1 || len(p.Expected) != 1 || p.Expected[0].Seq != 4 {
		t.Errorf("in place of one that is over: %v, %v", p, err)
	}
	if _, err := automation.Cancel("main", have[3].Name, have, epoch); err == nil {
		t.Error("one that is over is cancelled")
	}
	if _, err := automation.Cancel("sub:main/x", have[2].Name, have, epoch); err == nil {
		t.Error("another strand's is cancelled")
	}
	if p, err := automation.Cancel("main", have[2].Name, have, epoch); err != nil || p.Expected[0].Seq != 3 {
		t.Errorf("cancelling: %v, %v", p, err)
	}
}

func schedules() *rapid.Generator[automation.Schedule] {
	return rapid.Custom(func(t *rapid.T) automation.Schedule {
		s := once(timings().Draw(t, "when"), rapid.Int64Range(0, 1<<50).Draw(t, "made"))
		s.Owner, s.Wake = rapid.SampledFrom([]string{"", "main", "sub:main/x-0"}).Draw(t, "owner"), rapid.Bool().Draw(t, "wake")
		if rapid.Bool().Draw(t, "told") {
			s.Fired, s.Last, s.Entry = 3, rapid.Int64Range(0, 1<<50).Draw(t, "last"), coretest.EntryID().Draw(t, "entry")
		}
		return s
	})
}

func TestARecordReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := schedules().Draw(t, "schedule")
		if got, err := automation.Decode(s.Value()); err != nil || !got.Value().Equal(s.Value()) {
			t.Fatalf("%s reads back as %+v, %v", s.Value(), got, err)
		}
		if known, err := automation.Judge(s.Key(), s.Value()); !known || err != nil {
			t.Fatalf("%s is judged %v, %v", s.Key(), known, err)
		}
		if known, err := automation.Judge(s.Key()+"x", s.Value()); !known || err == nil {
			t.Fatal("a record in another one's cell is taken")
		}
		if s.Shown(epoch) == "" || strings.Contains(s.Shown(epoch), "\n") {
			t.Fatalf("it is shown as %q", s.Shown(epoch))
		}
	})
}

// The file is the format, and what models are told.
func TestGolden(t *testing.T) {
	var b strings.Builder
	settings := automation.Settings{Models: automation.Wake}
	own := once(automation.At{Ms: epoch + 60_000}, epoch)
	own.Owner, own.Wake = "main", true
	child := once(automation.Every{Seconds: 60}, epoch)
	child.Owner, child.Target, child.Wake = "main", agency.ChildPrefix("main")+"x-0", true
	person := once(cron(t, "0 9 * * 1-5", 90), epoch)
	person.Wake = true
	for _, s := range []automation.Schedule{own, child, person} {
		b.WriteString(s.Key() + " " + s.Value().String() + "\n" + s.Shown(epoch) + "\n")
		p, next, ok := settings.Fire(automation.Recorded{Schedule: s, Seq: 7}, automation.Standing{Standing: machine.Standing{Strand: s.Target}}, epoch+31*3_600_000, minter())
		if !ok {
			b.WriteString("held\n")
			continue
		}
		b.WriteString(next.Value().String() + "\n")
		write(&b, p)
	}
	rule := automation.Rule{Name: "no-hacks", Triggers: []string{"hack"}, Body: "Do it properly."}
	response, _ := minter().Entry()
	write(&b, rule.Fire(machine.Standing{Strand: "main"}, response, epoch, minter()))
	coretest.Golden(t, "plans.txt", []byte(b.String()), *update)
}

func write(b *strings.Builder, t tx.Tx) {
	for _, x := range t.Writes {
		switch x := x.(type) {
		case tx.SetRegister:
			b.WriteString("  set " + string(x.NS) + "/" + x.Key + " " + x.Value.String() + "\n")
		case tx.DeleteRegister:
			b.WriteString("  delete " + string(x.NS) + "/" + x.Key + "\n")
		}
	}
}

// A rule reaches an open run before its next request.
func TestARuleSteersAnOpenRun(t *testing.T) {
	op, st, _, err := machine.AcceptRun(machine.AcceptInputs{
		Now: epoch, IDs: minter(), Strand: "main", Prompts: []message.Message{&message.User{Content: []message.UserBlock{message.Text{Text: "go"}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	response, ids := minter().Entry()
	p := automation.Rule{Name: "r", Triggers: []string{"x"}, Body: "b"}.Fire(machine.Standing{Strand: "main", Op: &op, St: st, Seq: 3}, response, epoch, ids)
	var b strings.Builder
	write(&b, p)
	if got := b.String(); !strings.Contains(got, "set op.state/") || !strings.Contains(got, "set fact.custom/rule/fired/r/main") || strings.Contains(got, "strand.state") {
		t.Errorf("it plans\n%s", got)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(`{"name":"s","target":"main","when":{"kind":"cron","expression":"* * * * *","utcOffset":0},"body":"b","wake":true,"maxFires":1,"lifeMs":1,"createdAt":0,"fired":0}`)
	f.Add(`{"name":"s","target":"main","when":{"kind":"every","seconds":60},"body":"b","wake":true,"maxFires":1,"lifeMs":1,"createdAt":9223372036854775807,"fired":0}`)
	f.Fuzz(func(t *testing.T, text string) {
		v, err := jsonv.ParseString(text)
		if err != nil {
			return
		}
		s, err := automation.Decode(v)
		if err != nil {
			return
		}
		if again, err := automation.Decode(s.Value()); err != nil || !again.Value().Equal(s.Value()) {
			t.Fatalf("%s reads back as %+v, %v", text, again, err)
		}
		_, _ = s.Due(epoch) // total
		_ = s.Shown(epoch)
	})
}

func FuzzParseCron(f *testing.F) {
	f.Add("*/5 0-23 1,2 * 7", int64(60))
	f.Fuzz(func(t *testing.T, text string, offset int64) {
		c, err := automation.ParseCron(text, offset)
		if err != nil {
			return
		}
		s := once(c, epoch)
		if at, ok := s.Next(epoch); ok {
			if got, due := s.Due(at); !due || got != at {
				t.Fatalf("%s comes at %d and is due at %d, %v", text, at, got, due)
			}
		}
	})
}
