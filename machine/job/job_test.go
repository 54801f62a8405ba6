package job_test

import (
	"flag"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/machine/agency"
	"github.com/loom-run/loom/machine/job"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

func tails() *rapid.Generator[job.Tail] {
	return rapid.Custom(func(t *rapid.T) job.Tail {
		return job.Tail{Text: rapid.String().Draw(t, "text"), Total: rapid.Int64Range(0, 1<<40).Draw(t, "total")}
	})
}

func exits() *rapid.Generator[job.Exit] {
	return rapid.Custom(func(t *rapid.T) job.Exit {
		return job.Exit{
			Code: rapid.Int64Range(-1, 255).Draw(t, "code"), Signal: rapid.SampledFrom([]string{"", "SIGKILL"}).Draw(t, "signal"),
			Failure: rapid.SampledFrom([]string{"", "no program"}).Draw(t, "failure"), Interrupted: rapid.Bool().Draw(t, "interrupted"),
			Stdout: tails().Draw(t, "stdout"), Stderr: tails().Draw(t, "stderr"),
		}
	})
}

// fresh is a job that is about to run.
func fresh(t *rapid.T) job.Record {
	c := agency.Caller{Strand: "main", Op: coretest.OpID().Draw(t, "op"), Step: "s"}
	return job.Record{
		ID: job.IDOf(c), Strand: "main", Op: c.Op, Call: rapid.String().Draw(t, "call"), Command: rapid.String().Draw(t, "command"),
		Description: rapid.String().Draw(t, "description"), Status: job.Starting, StartedAt: rapid.Int64().Draw(t, "at"), Deadline: rapid.Int64().Draw(t, "deadline"),
	}
}

// Whatever happens to a job in whichever order, its record reads back, never moves back, and ends at most once.
func TestARecordOnlyMovesForward(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := fresh(t)
		ends, notices := 0, 0
		for range rapid.IntRange(0, 6).Draw(t, "moves") {
			now := rapid.Int64().Draw(t, "now")
			var next job.Record
			switch rapid.IntRange(0, 3).Draw(t, "move") {
			case 0:
				next = r.Run()
			case 1:
				next = r.Drain(rapid.SampledFrom([]job.Cause{job.ByOwner, job.ByPerson}).Draw(t, "by"))
			case 2:
				next = r.End(exits().Draw(t, "exit"), now)
			case 3:
				next = r.Lose("gone", now)
			}
			if _, ok := r.Move(next, 1); !ok {
				continue
			}
			if r.Status.Ended() {
				t.Fatalf("%s went on to %s", r.Status, next.Status)
			}
			r = next
			if r.Status.Ended() {
				ends++
				if r.Told(false) {
					notices++
				}
				if r.Told(true) {
					t.Fatal("who looks is told once more")
				}
			}
			if got, err := job.Decode(r.Value()); err != nil || !got.Value().Equal(r.Value()) {
				t.Fatalf("%s reads back as %+v, %v", r.Value(), got, err)
			}
			if r.Sentence() == "" || strings.Contains(r.Sentence(), "\n") && !strings.Contains(r.Reason, "\n") {
				t.Fatalf("the sentence is %q", r.Sentence())
			}
		}
		if ends > 1 || notices > ends || r.Status == job.Lost && notices != 1 {
			t.Fatalf("%d ends and %d notices of %s", ends, notices, r.Status)
		}
	})
}

func TestWhoKilledAJob(t *testing.T) {
	r := job.Record{Status: job.Running}
	for name, c := range map[string]struct {
		end    job.Record
		status job.Status
		cause  job.Cause
		told   bool
	}{
		"nobody":                        {r.End(job.Exit{}, 1), job.Exited, "", true},
		"its time":                      {r.End(job.Exit{Interrupted: true}, 1), job.Killed, job.ByLimit, true},
		"its owner":                     {r.Drain(job.ByOwner).End(job.Exit{Interrupted: true}, 1), job.Killed, job.ByOwner, false},
		"a person":                      {r.Drain(job.ByPerson).End(job.Exit{Interrupted: true}, 1), job.Killed, job.ByPerson, false},
		"it was over when it was asked": {r.Drain(job.ByOwner).End(job.Exit{}, 1), job.Exited, "", true},
		"nobody knows":                  {r.Drain(job.ByOwner).Lose("gone", 1), job.Lost, job.ByOwner, true},
	} {
		if c.end.Status != c.status || c.end.Cause != c.cause || c.end.Told(false) != c.told {
			t.Errorf("%s: %s by %q, told %v", name, c.end.Status, c.end.Cause, c.end.Told(false))
		}
	}
}

func TestARecordThatContradictsItselfIsRefused(t *testing.T) {
	base := `"id":"job-1","strand":"main","operation":"01970000-0000-7000-8000-000000000001","call":"","command":"","description":"","startedAt":1,"deadline":2`
	exit := `"exit":{"code":0,"interrupted":false,"stdout":{"tail":"","bytes":0},"stderr":{"tail":"","bytes":0}}`
	for name, rest := range map[string]string{
		"no such status":     `"status":"sleeping"`,
		"an end without one": `"status":"exited","endedAt":3`,
		"runs and ended":     `"status":"running",` + exit,
		"killed by nobody":   `"status":"killed","endedAt":3,` + exit,
		"lost without why":   `"status":"lost","endedAt":3`,
		"no time of its end": `"status":"exited",` + exit,
	} {
		v, err := jsonv.ParseString("{" + base + "," + rest + "}")
		if err != nil {
			t.Fatal(err)
		}
		if r, err := job.Decode(v); err == nil {
			t.Errorf("%s: read as %+v", name, r)
		}
	}
}

// The file is the format, and what models are told.
func TestGolden(t *testing.T) {
	op, err := id.ParseOpID("01970000-0000-7000-8000-000000000002")
	if err != nil {
		t.Fatal(err)
	}
	c := agency.Caller{Strand: "main", Op: op, Step: "s"}
	r := job.Record{
		ID: job.IDOf(c), Strand: "main", Op: op, Call: "call_1", Command: "make  all", Description: "", Status: job.Starting,
		StartedAt: 1767225600000, Deadline: 1767229200000,
	}
	exit := job.Exit{Code: 2, Stdout: job.Tail{Text: "building\n", Total: 9}, Stderr: job.Tail{Text: strings.Repeat("é", 2000), Total: 4000}}
	killed := exit
	killed.Signal, killed.Interrupted = "SIGKILL", true
	var b strings.Builder
	for _, r := range []job.Record{
		r, r.Run(), r.Drain(job.ByPerson), r.End(exit, 1767225601000), r.Drain(job.ByOwner).End(killed, 1767225601000),
		r.End(job.Exit{Code: -1, Failure: "there is no program"}, 1767225601000), r.Lose("its process ended", 1767225601000),
	} {
		b.WriteString(job.Key(r.ID) + " " + r.Value().String() + "\n" + r.Words() + "\n")
	}
	coretest.Golden(t, "records.txt", []byte(b.String()), *update)
}

func FuzzDecode(f *testing.F) {
	f.Add(`{"id":"job-1","strand":"main","operation":"01970000-0000-7000-8000-000000000001","call":"","command":"","description":"","status":"lost","startedAt":1,"deadline":2,"reason":"x","endedAt":3}`)
	f.Fuzz(func(t *testing.T, text string) {
		v, err := jsonv.ParseString(text)
		if err != nil {
			return
		}
		r, err := job.Decode(v)
		if err != nil {
			return
		}
		if again, err := job.Decode(r.Value()); err != nil || !again.Value().Equal(r.Value()) {
			t.Fatalf("%s reads back as %+v, %v", text, again, err)
		}
		_, _ = r.Sentence(), r.Words() // total
	})
}
