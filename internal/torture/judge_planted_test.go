//go:build linux

package torture

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// history is a finished run of the main play that died twice, as a judge is shown it: in the first life after the call bash-1 had run and before its
// result was kept, in the second one at its end.
func history() (reference map[string]string, acts []act) {
	reference = map[string]string{}
	branch := work.expected()
	results := map[string][]item{}
	calls := map[string]int{}
	effects := map[string]int{}
	for n, i := range branch {
		for _, c := range i.Calls {
			calls[c]++
		}
		if i.Kind != itemResult {
			continue
		}
		reference[i.ID] = "result of " + i.ID + "\nand more"
		branch[n].Text = reference[i.ID]
		if i.ID == "bash-1" {
			branch[n].Text = "the process ended; whether it had an effect, and which, is unknown."
		}
		results[i.ID] = append(results[i.ID], branch[n])
		if c, _ := work.call(i.ID); c.effect {
			effects[i.ID]++
		}
	}
	early := look{
		Made: []string{"s"}, Listed: []string{"s"}, Phases: []string{phaseUnsafe, phaseQueued}, Flying: map[string]string{"bash-1": "never", "read-3": "safe"},
		Branch: branch[:5], Calls: map[string]int{"bash-1": 1}, Effects: map[string]int{"bash-1": 1}, Counter: counterStart,
		Placed: map[string]string{"e1": work.prompts[0], "e2": work.prompts[1]},
		Stores: map[string]survey{"s": {NextSeq: 9, Rows: map[int64]string{4: "entry e1"}, Registers: map[string]string{"a": "3 x"}}},
	}
	late := look{
		Made: []string{"s"}, Listed: []string{"s"}, Phases: []string{phaseOver}, Endings: []string{"completed"},
		Branch: branch, Calls: calls, Results: results, Effects: effects, Counter: "count xend\n", Output: "written\nbash-1\n",
		Placed: maps.Clone(early.Placed),
		Stores: map[string]survey{"s": {NextSeq: 30, Rows: map[int64]string{4: "entry e1", 12: "usage u1"}, Registers: map[string]string{"a": "28 y"}}},
	}
	return reference, []act{
		{life{Number: 1, Killed: true, Started: 1000, Events: []event{
			{Kind: opened, At: 1050},
			{Kind: committed, Session: "s", First: 3, Last: 5, Rows: map[int64]string{4: "entry e1"}},
			{Kind: prompted, Prompt: &acknowledged{Text: work.prompts[0], Entry: "e1", Seq: 5}},
			{Kind: committed, Session: "s", First: 6, Last: 8, Whole: early.Stores["s"].whole()},
		}}, early},
		{life{Number: 2, Killed: true, Started: 2000, Events: []event{
			{Kind: opened, At: 2050},
			{Kind: committed, Session: "s", First: 9, Last: 20, Rows: map[int64]string{12: "usage u1"}},
		}}, late},
		{life{Number: 3, Started: 3000, Events: []event{{Kind: opened, At: 3050}, {Kind: done}}}, late},
	}
}

// TestEveryRuleFindsItsPlantedFault spoils a history in each way that a rule is there for. A guard that was never red guards nothing.
func TestEveryRuleFindsItsPlantedFault(t *testing.T) {
	reference, acts := history()
	for n := 1; n <= len(acts); n++ {
		if faults := judge(work, reference, acts[:n], n == len(acts)); len(faults) > 0 {
			t.Fatalf("the sound history has faults after life %d: %v", n, faults)
		}
	}
	setResult := func(k *look, id, text string) {
		k.Results = maps.Clone(k.Results)
		k.Results[id] = []item{{Kind: itemResult, ID: id, Text: text}}
	}
	red := map[rule]bool{wholeAtCommit: true} // planted below
	for name, c := range map[string]struct {
		rule  rule
		spoil func(acts []act, end *look)
	}{
		"a row is gone":                                   {keepsCommits, func(_ []act, k *look) { delete(k.Stores["s"].Rows, 12) }},
		"a row is another":                                {keepsCommits, func(_ []act, k *look) { k.Stores["s"].Rows[12] = "usage u2" }},
		"the session is gone":                             {keepsCommits, func(_ []act, k *look) { delete(k.Stores, "s") }},
		"the last commit is gone":                         {keepsCommits, func(_ []act, k *look) { set(k, func(s *survey) { s.NextSeq = 20 }) }},
		"an unreported row is gone":                       {keepsRows, func(acts []act, _ *look) { acts[1].look.Stores["s"].Rows[13] = "entry e7" }},
		"seqs went back":                                  {keepsRows, func(acts []act, _ *look) { set(&acts[1].look, func(s *survey) { s.NextSeq = 31 }) }},
		"the first prompt is gone":                        {keepsPrompts, func(_ []act, k *look) { delete(k.Placed, "e1") }},
		"the first prompt is another":                     {keepsPrompts, func(_ []act, k *look) { k.Placed["e1"] = "Do nothing." }},
		"the second prompt is gone":                       {keepsPrompts, func(_ []act, k *look) { delete(k.Placed, "e2") }},
		"a prompt is there twice":                         {keepsPrompts, func(_ []act, k *look) { k.Placed["e3"] = work.prompts[1] }},
		"a command ran twice":                             {runsOnce, func(_ []act, k *look) { k.Effects["bash-1"] = 2 }},
		"an edit ran twice":                               {runsOnce, func(_ []act, k *look) { k.Counter = "count xxend\n" }},
		"a command appended twice":                        {runsOnce, func(_ []act, k *look) { k.Output += "bash-1\n" }},
		"a write ran after what followed":                 {runsOnce, func(_ []act, k *look) { setResult(k, "bash-1", reference["bash-1"]); k.Output = "written\n" }},
		"a call has two results":                          {answersOnce, func(_ []act, k *look) { k.Results["read-1"] = append(k.Results["read-1"], k.Results["read-1"][0]) }},
		"a call has none":                                 {answersOnce, func(_ []act, k *look) { delete(k.Results, "read-1") }},
		"an answer was settled twice":                     {answersOnce, func(_ []act, k *look) { k.Calls["read-1"] = 2 }},
		"a result answers nobody":                         {answersOnce, func(_ []act, k *look) { delete(k.Calls, "ls-1") }},
		"a success had no effect":                         {tellsTruth, func(_ []act, k *look) { delete(k.Effects, "bash-3") }},
		"a successful write wrote nothing":                {tellsTruth, func(_ []act, k *look) { k.Output = "" }},
		"a successful edit edited nothing":                {tellsTruth, func(_ []act, k *look) { k.Counter = counterStart }},
		"a safe call is called unknown":                   {tellsTruth, func(_ []act, k *look) { setResult(k, "read-3", k.Results["bash-1"][0].Text) }},
		"a call that was not in flight is called unknown": {tellsTruth, func(_ []act, k *look) { setResult(k, "bash-2", k.Results["bash-1"][0].Text) }},
		"a call is said not to have run":                  {tellsTruth, func(_ []act, k *look) { setResult(k, "bash-2", "it was not executed") }},
		"a result says something else":                    {tellsTruth, func(_ []act, k *look) { setResult(k, "read-1", "result of read-2") }},
		"an effect that nobody asked for":                 {tellsTruth, func(_ []act, k *look) { k.Effects["read-1"] = 1 }},
		"an effect of no call":                            {tellsTruth, func(_ []act, k *look) { delete(k.Calls, "bash-3"); delete(k.Results, "bash-3") }},
		"an output is not there":                          {keepsOutputs, func(_ []act, k *look) { k.Kept = map[string]bool{"0a": true, "0b": false} }},
		"half an output is left":                          {keepsOutputs, func(_ []act, k *look) { k.Halves = 1 }},
		"an answer is missing":                            {keepsOrder, func(_ []act, k *look) { k.Branch = slices.Delete(k.Branch, 1, 2) }},
		"results changed places":                          {keepsOrder, func(_ []act, k *look) { k.Branch[2], k.Branch[3] = k.Branch[3], k.Branch[2] }},
		"the branch ends early":                           {keepsOrder, func(_ []act, k *look) { k.Branch = k.Branch[:len(k.Branch)-1] }},
		"the branch goes on":                              {keepsOrder, func(_ []act, k *look) { k.Branch = append(k.Branch, k.Branch[0]) }},
		"the check finds something":                       {sound, func(_ []act, k *look) { k.Findings = []string{"seq-unique: seq 4"} }},
		"a session is not listed":                         {sound, func(_ []act, k *look) { k.Listed = nil }},
		"a session that was not made is listed":           {sound, func(_ []act, k *look) { k.Listed = append(k.Listed, "t") }},
		"the last life failed":                            {goesOn, func(acts []act, _ *look) { acts[2].life.Events[1].Kind = failed }},
		"the last life said nothing":                      {goesOn, func(acts []act, _ *look) { acts[2].life.Events = nil }},
		"the run failed":                                  {endsAsWritten, func(_ []act, k *look) { k.Endings = []string{"failed"} }},
		"the run did not end":                             {endsAsWritten, func(_ []act, k *look) { k.Phases, k.Endings = []string{phaseCheckpoint}, nil }},
		"a prompt still waits":                            {endsAsWritten, func(_ []act, k *look) { k.Queued = []string{work.prompts[1]} }},
		"a process runs beside the resumed session":       {leavesNothing, func(acts []act, _ *look) { acts[2].life.Events[0].Strays = []string{"7 (sleep 60, of life 1)"} }},
		"a process outlives everything":                   {leavesNothing, func(_ []act, k *look) { k.Breathes = []process{{pid: 7, life: 2, command: "sleep 60"}} }},
		"the lease was waited for":                        {opensAtOnce, func(acts []act, _ *look) { acts[2].life.Events[0].At += 30_000 }},
	} {
		red[c.rule] = true
		t.Run(name, func(t *testing.T) {
			reference, acts := history()
			for n := range acts {
				acts[n].look = clone(acts[n].look)
			}
			c.spoil(acts, &acts[2].look)
			wantFault(t, judge(work, reference, acts, true), c.rule)
		})
	}
	t.Run("the store is not what it was at the commit", func(t *testing.T) {
		reference, acts := history()
		set(&acts[0].look, func(s *survey) { s.Registers["a"] = "2 w" })
		wantFault(t, judge(work, reference, acts[:1], false), wholeAtCommit)
	})
	for _, r := range rules {
		if !red[r] {
			t.Errorf("no fault is planted for %s", r)
		}
	}
}

// wantFault wants the rule among what was found.
func wantFault(t *testing.T, faults []fault, want rule) {
	t.Helper()
	if !slices.ContainsFunc(faults, func(f fault) bool { return f.rule == want }) {
		t.Errorf("%s is not found, only %v", want, faults)
	}
}

func set(k *look, change func(*survey)) {
	s := k.Stores["s"]
	change(&s)
	k.Stores["s"] = s
}

// clone copies what the planted faults change.
func clone(k look) look {
	stores := map[string]survey{}
	for name, s := range k.Stores {
		s.Rows, s.Registers = maps.Clone(s.Rows), maps.Clone(s.Registers)
		stores[name] = s
	}
	k.Stores = stores
	k.Branch, k.Listed = slices.Clone(k.Branch), slices.Clone(k.Listed)
	k.Results, k.Calls, k.Effects, k.Placed = maps.Clone(k.Results), maps.Clone(k.Calls), maps.Clone(k.Effects), maps.Clone(k.Placed)
	return k
}

// TestRealFaultsAreSeen kills a real life, does to its stage what a defect would have done, and lets the next life end the work.
func TestRealFaultsAreSeen(t *testing.T) {
	for name, c := range map[string]struct {
		rule  rule
		spoil func(t *testing.T, s *stage)
	}{
		"a command ran again": {runsOnce, func(t *testing.T, s *stage) {
			appendTo(t, filepath.Join(s.workspace(), effectsFile), "bash-1\n")
		}},
		"a process lives on": {leavesNothing, func(t *testing.T, s *stage) {
			cmd := exec.Command("sleep", "60")
			cmd.Env = []string{markVariable + "=" + mark(s.home(), 1)}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			})
		}},
		"the session is lost": {keepsCommits, func(t *testing.T, s *stage) {
			files, err := sessionFiles(s.home())
			if err != nil || len(files) != 1 {
				t.Fatal(files, err)
			}
			for _, suffix := range []string{"", "-wal", "-shm"} {
				if err := os.Remove(files[0] + suffix); err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := newStage(refused, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			a, err := s.enter(death{atCommit: 16}) // when the one command has run
			if err != nil || !a.life.Killed || a.look.Effects["bash-1"] != 1 {
				t.Fatalf("the first life did not die as it was told: %v\n%s", err, s.story())
			}
			if faults := judge(refused, refused.reference(a.look), s.acts, false); len(faults) > 0 {
				t.Fatalf("faults before one was planted: %v", faults)
			}
			c.spoil(t, s)
			if a, err = s.enter(death{}); err != nil {
				t.Fatal(err)
			}
			wantFault(t, judge(refused, refused.reference(a.look), s.acts, true), c.rule)
		})
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}
