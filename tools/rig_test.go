package tools

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loom-run/loom/blob"
	"github.com/loom-run/loom/broker"
	"github.com/loom-run/loom/broker/jail"
	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/policy"
)

func TestMain(m *testing.M) {
	jail.Enter()
	if order := os.Getenv(rewinderEnv); order != "" {
		os.Exit(rewindUntilKilled(order))
	}
	os.Exit(m.Run())
}

// rig is a session's tools over a workspace of its own.
type rig struct {
	dir      string // the workspace
	beside   string // a folder beside it, which nothing may reach
	registry *Registry
	broker   *broker.Broker
	blobs    *blob.Store
	calls    int
	observe  func(Progress)
}

func newRig(t testing.TB, more ...Tool) *rig {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{dir: filepath.Join(base, "ws"), beside: filepath.Join(base, "beside"), blobs: blob.Open(filepath.Join(base, "s.blobs"))}
	for _, dir := range []string{r.dir, r.beside} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r.open(t, os.Environ(), more...)
	return r
}

// open makes the broker and the registry; environ decides whether ripgrep is
// found.
func (r *rig) open(t testing.TB, environ []string, more ...Tool) {
	t.Helper()
	var err error
	r.broker, err = broker.New(broker.Config{Mode: policy.BypassPermissions, Workspace: r.dir, Environ: environ, Secrets: broker.SecretsOf([]string{"THE_KEY=" + theKey}, "THE_KEY")})
	if err != nil {
		t.Fatal(err)
	}
	r.registry, err = New(Deps{Workspace: r.dir, Broker: r.broker, Blobs: r.blobs, More: more, Closed: []string{filepath.Join(r.dir, "closed")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.registry.Close() })
}

// theKey is the secret of every rig.
const theKey = "sk-0123456789-never-shown"

func (r *rig) coordinates() broker.Coordinates {
	op, _ := id.NewGenerator(clock.Fixed(1_700_000_000_000), 7).Op()
	r.calls++
	return broker.Coordinates{Op: op, Strand: "main", Step: "step", SourceIndex: r.calls, CallID: "call"}
}

// run clears, runs and settles one call.
func (r *rig) run(t testing.TB, tool string, args jsonv.Value) Outcome {
	t.Helper()
	known, ok := r.registry.Lookup(tool)
	if !ok {
		t.Fatalf("no tool %s", tool)
	}
	at := r.coordinates()
	permit, err := r.broker.Clear(broker.Call{Coordinates: at, Tool: tool, Class: known.Class, Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	out := r.registry.Run(t.Context(), Call{Permit: permit, Coordinates: at, Tool: tool, Arguments: args, Observe: r.observe})
	if err := r.broker.Settle(permit); err != nil {
		t.Error(err)
	}
	return out
}

// ok runs a call that must succeed and returns its text.
func (r *rig) ok(t testing.TB, tool string, fields ...jsonv.Member) string {
	t.Helper()
	out := r.run(t, tool, jsonv.Obj(fields...))
	if out.IsError {
		t.Fatalf("%s: %s", tool, textOf(out))
	}
	return textOf(out)
}

// refused runs a call that must fail in band and returns its text.
func (r *rig) refused(t testing.TB, tool string, fields ...jsonv.Member) string {
	t.Helper()
	out := r.run(t, tool, jsonv.Obj(fields...))
	if !out.IsError {
		t.Fatalf("%s %v succeeded: %s", tool, jsonv.Obj(fields...), textOf(out))
	}
	return textOf(out)
}

func textOf(o Outcome) string { return message.TextOf(o.Content) }

func str(name, s string) jsonv.Member { return jsonv.F(name, jsonv.Str(s)) }
func num(name string, n int64) jsonv.Member {
	return jsonv.F(name, jsonv.Num(n))
}

// put writes a file of the workspace; a name that ends in a slash is a folder.
func (r *rig) put(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(r.dir, name)
	if strings.HasSuffix(name, "/") {
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (r *rig) link(t testing.TB, target, name string) {
	t.Helper()
	if err := os.Symlink(target, filepath.Join(r.dir, name)); err != nil {
		t.Fatal(err)
	}
}

func content(t testing.TB, path string) string {
	t.Helper()
	p, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(p)
}

// tree lists all that is below dir, with the content of files.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.Type().IsRegular() {
			p, err := os.ReadFile(path)
			out[rel] = string(p)
			return err
		}
		out[rel] = d.Type().String()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
