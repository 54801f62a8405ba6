package dialect_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/dialect"
)

// FuzzRefusedBody reads any body of a refused request: it becomes one sentence of a known class, without the key, whatever a server says.
func FuzzRefusedBody(f *testing.F) {
	const key = "sk-0123456789abcdef"
	for _, body := range []string{
		`{"error":{"message":"no","type":"invalid_request_error","code":"model_not_found"}}`, `{"error":"no"}`, `"no"`, `[{"error":{"code":503,"status":"UNAVAILABLE"}}]`,
		`{"error":{"code":429,"details":[{"@type":"RetryInfo","retryDelay":"34.5s"}]}}`, `{"error":{"details":[{"retryDelay":"1e400s"}]}}`, `{"message":"` + key + `"}`, "<html>", "",
	} {
		f.Add([]byte(body), 400, "application/json")
		f.Add([]byte(body), 0, "text/plain")
	}
	f.Fuzz(func(t *testing.T, body []byte, status int, mediaType string) {
		stated := dialect.RefusedBody(body, mediaType)
		e := dialect.Peer{Name: "host", Key: provider.NewSecret(key)}.Refused("m", status, stated)
		if !e.Class.Known() || e.Message == "" || !utf8.ValidString(e.Message) || strings.ContainsAny(e.Message+e.Detail, "\r\n\x1b") {
			t.Errorf("%s: %q, %q", e.Class, e.Message, e.Detail)
		}
		whole := strings.Count(string(body), key[:12]) == strings.Count(string(body), key) // a part of it is no key
		if whole && !strings.Contains(string(body), `\`) && strings.Contains(e.Message+e.Detail, key[:12]) {
			t.Errorf("the key is told: %q, %q", e.Message, e.Detail)
		}
		if hint := e.RetryAfterMs; hint != nil && (*hint < 0 || *hint > 24*60*60*1000) {
			t.Errorf("a wait of %d ms", *hint)
		}
	})
}

// FuzzParseJSON checks that what strict JSON takes is taken as it is, and that what is mended is strict JSON.
func FuzzParseJSON(f *testing.F) {
	for _, text := range []string{`{"a":"\ud83d\ude00"}`, `"\ud83d"`, "\"a\xffb\"", `{"a":1,"a":2}`, `"\\ud83d"`, `"\ud83d\ud83d\ude00"`, "[", ""} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, replaced, err := dialect.ParseJSON(text)
		want, strict := jsonv.Parse(text)
		if strict == nil && (err != nil || replaced != 0 || got.String() != want.String()) {
			t.Errorf("strict JSON is read as %s, %d replaced, %v", got, replaced, err)
		}
		if err != nil {
			return
		}
		if replaced == 0 && strict != nil {
			t.Errorf("nothing is replaced in what is not strict: %v", strict)
		}
		if again, err := jsonv.ParseString(got.String()); err != nil || again.String() != got.String() {
			t.Errorf("%s is not strict: %v", got, err)
		}
	})
}

// FuzzUnseal opens any signature: only what was sealed opens, for the dialect that sealed it.
func FuzzUnseal(f *testing.F) {
	f.Add(`{"$loom/opaque":1,"api":"a","block":{"type":"x"}}`)
	f.Add(`{"$loom/opaque":1,"api":"b","block":1}`)
	f.Add(`{"$loom/opaque":1,`)
	f.Fuzz(func(t *testing.T, signature string) {
		b := message.Thinking{Redacted: true, Signature: &signature}
		v, ok := dialect.Unseal("a", b)
		if !ok {
			return
		}
		if _, other := dialect.Unseal("b", b); other || !dialect.IsSealed(b) {
			t.Errorf("%s opens for another dialect", signature)
		}
		if _, err := jsonv.ParseString(v.String()); err != nil {
			t.Error(err)
		}
	})
}
