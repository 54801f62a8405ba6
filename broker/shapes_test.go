package broker_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loom-run/loom/broker"
	"github.com/loom-run/loom/broker/jail"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/internal/cases"
	"pgregory.net/rapid"
)

// body is text as keys are made of, of n characters, and another each time.
func body(n, from int) string {
	const set = "aB3dE5gH7jK9mN1pQ2sT4vW6yZ8"
	var b strings.Builder
	for i := range n {
		b.WriteByte(set[(i*7+from)%len(set)])
	}
	return b.String()
}

// issued are made-up secrets in the forms of their issuers. They are put together here,
// so that no file holds one.
func issued() map[string]string {
	pem := "-----BEGIN " + "RSA PRIVATE KEY-----\n" + body(64, 1) + "\n" + body(40, 2) + "==\n-----END " + "RSA PRIVATE KEY-----"
	return map[string]string{
		"sk-ant-" + "api03-" + body(80, 3): "anthropic key", "sk-proj-" + body(48, 4): "openai key", "ghp_" + body(36, 5): "github token",
		"github_pat_" + body(22, 6) + "_" + body(59, 7): "github token", "glpat-" + body(20, 8): "gitlab token",
		"xoxb-" + "123456789012-" + body(24, 9): "slack token", "AIza" + body(35, 10): "google key", "AKIA" + body(16, 11): "aws key id",
		"sk_live_" + body(24, 12): "stripe key", "npm_" + body(36, 13): "npm token", "hf_" + body(34, 14): "hugging face token",
		pem: "private key", strings.ReplaceAll(pem, "\n", `\n`): "private key",
	}
}

func shapedOnly() broker.Secrets { return broker.Secrets{}.Shaped() }

func TestKnownKindsOfSecretsAreRedactedWhereverTheyStand(t *testing.T) {
	for secret, name := range issued() {
		for _, around := range []string{"%", "key=%", `{"token":"%"}`, "Authorization: Bearer %\n", "a % b % c", `"a\n%\n"`, "https://u:%@host/", "<%>"} {
			text := strings.ReplaceAll(around, "%", secret)
			clean, found := shapedOnly().Text(text)
			if want := strings.ReplaceAll(around, "%", "[redacted "+name+"]"); clean != want || found != strings.Count(around, "%") {
				t.Errorf("%.30q in %q: %q, %d found", secret, around, clean, found)
			}
			if got, n := (broker.Secrets{}).Text(text); got != text || n != 0 {
				t.Error("shapes that are off redact")
			}
		}
		v := jsonv.Obj(jsonv.F("a", jsonv.Arr(jsonv.Str(secret))))
		if clean, found := shapedOnly().Value(v); found != 1 || strings.Contains(string(clean.Append(nil)), secret) {
			t.Errorf("%.20q in a value: %d found", secret, found)
		}
	}
}

func TestWhatOnlyLooksLikeASecretStays(t *testing.T) {
	for _, text := range []string{
		"ghp_" + strings.Repeat("x", 36), "AKIA" + strings.Repeat("EXAMPLE", 3)[:16], "sk-ant-...", "ghp_short", "AIza", "sk-ant-api03-<your key>",
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "0190c0de-7000-7000-8000-000000000000",
		"risk-ant-" + body(40, 1), "my_npm_" + body(40, 1), "XAKIA" + body(16, 1), "ssh-rsa " + body(300, 1),
		"-----BEGIN " + "CERTIFICATE-----\n" + body(64, 1), "-----BEGIN " + "PRIVATE KEY-----", "-----BEGIN " + "PUBLIC KEY-----\n" + body(64, 1),
	} {
		if clean, found := shapedOnly().Text(text); found != 0 || clean != text {
			t.Errorf("%q became %q", text, clean)
		}
	}
}

// A configured value is named by its variable, also where it has a known form.
func TestAConfiguredValueKeepsItsName(t *testing.T) {
	key := "ghp_" + body(36, 1)
	s := broker.SecretsOf([]string{"HOUSE=" + key}, "HOUSE").Shaped()
	if clean, found := s.Text("a " + key); clean != "a [redacted HOUSE]" || found != 1 {
		t.Errorf("%q, %d", clean, found)
	}
	if clean, _ := s.Text("ghp_" + body(36, 2)); clean != "[redacted github token]" {
		t.Errorf("%q", clean)
	}
}

func TestRedactingIsDoneOnceAndNeverLeavesASecret(t *testing.T) {
	var secrets []string
	for s := range issued() {
		secrets = append(secrets, s)
	}
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.OneOf(rapid.SampledFrom(secrets), rapid.StringN(0, 12, -1), rapid.SampledFrom([]string{" ", "\n", "=", "sk-ant-", "-----BEGIN "}))
		text := strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(t, "pieces"), " ")
		clean, found := shapedOnly().Text(text)
		for _, s := range secrets {
			if strings.Contains(clean, s) {
				t.Fatalf("%q is still in %q", s, clean)
			}
		}
		if again, n := shapedOnly().Text(clean); n != 0 || again != clean {
			t.Fatalf("%q is redacted again, to %q", clean, again)
		}
		if (found == 0) != (clean == text) {
			t.Fatalf("%d found, and %q became %q", found, text, clean)
		}
	})
}

// What is left of a secret at the end of what was kept counts, too.
func TestASecretThatIsCutOffIsRedacted(t *testing.T) {
	key := "ghp_" + body(36, 1)
	w := shapedOnly().Window(jail.Window{Text: "x " + key[:20], Total: 22})
	if w.Text != "x [redacted github token]" {
		t.Errorf("%q", w.Text)
	}
}

// In the results of real sessions nothing has the form of a secret: what were found
// there would be found wrongly. Their authors took real ones out.
func TestRecordedSessionsHaveNoFalseFinds(t *testing.T) {
	dir := filepath.Join(cases.Dir(t), "sessions")
	size, files := 0, 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		size, files = size+len(text), files+1
		if clean, found := shapedOnly().Bytes(text); found > 0 {
			at := 0
			for at < min(len(clean), len(text)) && clean[at] == text[at] {
				at++
			}
			t.Errorf("%s: %d found, first %.60q", filepath.Base(path), found, text[at:])
		}
		return nil
	})
	if os.IsNotExist(err) {
		t.Skip("the recorded sessions are not beside the project; the table of shapes shows the same on texts of our own")
	}
	if err != nil || files == 0 {
		t.Fatalf("%d files, %v", files, err)
	}
	t.Logf("%d files, %d bytes", files, size)
}

func FuzzShapes(f *testing.F) {
	for s := range issued() {
		f.Add([]byte("a " + s + " b"))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		before := string(p)
		clean, found := shapedOnly().Bytes(p)
		if string(p) != before {
			t.Fatal("the input changed")
		}
		if again, n := shapedOnly().Bytes(clean); n != 0 || string(again) != string(clean) {
			t.Fatalf("%d of %d are found again in %q", n, found, clean)
		}
	})
}

func BenchmarkRedact(b *testing.B) {
	line := "2026-01-02T03:04:05Z INFO request path=/v1/items/42 status=200 bytes=5120 digest=e3b0c44298fc1c149afbf4c8996fb924\n"
	p := []byte(strings.Repeat(line, 1<<20/len(line)))
	s := broker.SecretsOf([]string{"A=" + body(40, 1), "B=" + body(40, 2)}, "A", "B").Shaped()
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		s.Bytes(p)
	}
	b.ReportMetric(float64(len(p))*float64(b.N)/1e6/b.Elapsed().Seconds(), "redacted-MB/s")
}
