package memlisten_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/loom-run/loom/server/memlisten"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHTTPTravelsInsideTheProcess(t *testing.T) {
	l := memlisten.New()
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		_, _ = w.Write(data)
	})}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	transport := &http.Transport{DialContext: l.DialContext}
	body := strings.Repeat("all of it", 100_000)
	resp, err := (&http.Client{Transport: transport}).Post("http://loom/", "text/plain", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || string(got) != body {
		t.Fatalf("%d bytes came back: %v", len(got), err)
	}
	transport.CloseIdleConnections()
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		t.Fatal(err)
	}
}

func TestAClosedListenerRefuses(t *testing.T) {
	l := memlisten.New()
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept: %v", err)
	}
	if _, err := l.Dial(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("dial: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := memlisten.New().Dial(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a dial that nobody accepts: %v", err)
	}
}
