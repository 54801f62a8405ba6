package remote_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/loom-run/loom/provider"
)

// raw is a server that reads one request and answers with bytes of its own. What it writes may go on for as long as somebody reads.
func raw(t *testing.T, answer func(io.Writer) error) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.Copy(io.Discard, r.Body)
				_ = answer(conn) // it fails when the client has had enough
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-served
	})
	return "http://" + l.Addr().String()
}

func says(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

// forever begins with a text and repeats another until nobody reads it any more.
func forever(begin, again string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, begin)
		for block := strings.Repeat(again, 1+4096/len(again)); err == nil; {
			_, err = io.WriteString(w, block)
		}
		return err
	}
}

// TestBytesThatAreNoHTTPAreOneSentence is about servers that do not keep to the protocol.
func TestBytesThatAreNoHTTPAreOneSentence(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	begun := "data: " + textDelta("a") + "\n\n"
	for name, c := range map[string]struct {
		answer  func(io.Writer) error
		class   provider.Class
		partial string
	}{
		"another protocol":                {says("SSH-2.0-OpenSSH_9.9\r\n"), provider.MalformedStream, ""},
		"nothing":                         {says(""), provider.Transport, ""},
		"half a status line":              {says("HTTP/1."), provider.MalformedStream, ""},
		"a status line with escapes":      {says("HTTP/1.1 404 \x1b[31mred\x1b[0m\r\nContent-Length: 0\r\n\r\n"), provider.NotFound, ""},
		"a status beyond all":             {says("HTTP/1.1 999 Beyond\r\nContent-Length: 0\r\n\r\n"), provider.Server, ""},
		"a status that repeats the key":   {says("HTTP/1.1 2xx " + testKey + "\r\n\r\n"), provider.MalformedStream, ""},
		"headers without end":             {forever("HTTP/1.1 200 OK\r\n", "X-More: yes\r\n"), provider.MalformedStream, ""},
		"a header of one endless line":    {forever("HTTP/1.1 200 OK\r\nX-More: ", "y"), provider.MalformedStream, ""},
		"early hints without end":         {forever("", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"), provider.MalformedStream, ""},
		"another protocol, upgraded to":   {says("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\nhello"), provider.MalformedStream, ""},
		"two lengths":                     {says("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), provider.MalformedStream, ""},
		"less than it promised":           {says(ok + "Content-Length: 100000\r\n\r\n" + begun), provider.Disconnect, "a"},
		"a broken chunk":                  {says(ok + "Transfer-Encoding: chunked\r\n\r\nzz\r\n"), provider.Disconnect, ""},
		"a chunk beyond all":              {says(ok + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n" + begun), provider.Disconnect, "a"},
		"a stream of zero bytes":          {forever(ok+"\r\n", "\x00"), provider.MalformedStream, ""},
		"events of zero bytes":            {forever(ok+"\r\n", "data: \x00\n\n"), provider.MalformedStream, ""},
		"events of no data":               {forever(ok+"\r\n", "data\n\n"), provider.MalformedStream, ""},
		"ids without end":                 {forever(ok+"\r\n", "id: 1\nretry: 1\nevent: x\n\n"), provider.MalformedStream, ""},
		"JSON that is nested without end": {says("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + strings.Repeat("[", 1<<20)), provider.MalformedStream, ""},
		"deltas without end":              {forever(ok+"\r\n", begun), provider.MalformedStream, "a"},
		"a type that is none":             {says("HTTP/1.1 200 OK\r\nContent-Type: ;;;\x01\r\n\r\nhello"), provider.MalformedStream, ""},
		"a length that is none":           {says("HTTP/1.1 500 No\r\nContent-Length: -5\r\n\r\n"), provider.MalformedStream, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cl := client(t, raw(t, c.answer))
			_, err := cl.Stream(t.Context(), asking("hi"), func(provider.Delta) {})
			e, isError := errors.AsType[*provider.Error](err)
			if !isError {
				t.Fatalf("settled, or %v", err)
			}
			if e.Class != c.class {
				t.Errorf("%s: %s", e.Class, e.Message)
			}
			if strings.ContainsAny(e.Message, "\r\n\x1b\x00") || len(e.Message) > 1000 || strings.Contains(e.Message, testKey[:8]) || !strings.Contains(e.Message, "127.0.0.1") {
				t.Errorf("it is no sentence: %q", e.Message)
			}
			if kept := e.Partial != nil && len(e.Partial.Content) > 0; kept != (c.partial != "") {
				t.Errorf("kept: %+v", e.Partial)
			}
		})
	}
}
