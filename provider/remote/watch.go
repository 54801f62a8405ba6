package remote

import (
	"context"
	"fmt"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/loom-run/loom/provider"
)

// The limits that follow a complete answer; they are never reported.
const (
	limitTail  = "tail"
	limitDrain = "drain"
)

// limitPassed is the cause of a context that a limit ended.
type limitPassed struct {
	limit string
	after time.Duration
}

func (l *limitPassed) Error() string { return fmt.Sprintf("%s limit of %s passed", l.limit, l.after) }

type phase int

const (
	waiting   phase = iota // no byte of the answer yet
	streaming              // the answer comes
	finishing              // the answer is complete, what follows it may come
	over
)

// watch ends the context of an attempt when the limit of its current phase passes. Its methods may be called from the goroutines of net/http.
type watch struct {
	limits Limits
	cancel context.CancelCauseFunc
	total  context.CancelFunc

	mu        sync.Mutex // guards the rest
	phase     phase
	timer     *time.Timer // nil while no limit but the total one runs
	connected bool
}

func newWatch(parent context.Context, limits Limits) (context.Context, *watch) {
	ctx, cancel := context.WithCancelCause(parent)
	ctx, total := context.WithTimeoutCause(ctx, limits.Total, &limitPassed{provider.LimitTotal, limits.Total})
	return ctx, &watch{limits: limits, cancel: cancel, total: total}
}

// trace follows the connection of the request.
func (w *watch) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.connected = true
		},
		WroteRequest: func(httptrace.WroteRequestInfo) {
			w.mu.Lock()
			defer w.mu.Unlock()
			// A server may answer before it has read the request.
			if w.phase == waiting {
				w.arm(provider.LimitFirstByte, w.limits.FirstByte)
			}
		},
	}
}

func (w *watch) isConnected() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.connected
}

// isWaiting reports whether no byte of the answer came.
func (w *watch) isWaiting() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.phase == waiting
}

// progress notes that bytes of the answer came.
func (w *watch) progress() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.phase > streaming {
		return
	}
	if w.phase == streaming && w.timer != nil {
		w.timer.Reset(w.limits.Idle)
		return
	}
	w.phase = streaming
	w.arm(provider.LimitIdle, w.limits.Idle)
}

// finishing notes that the answer is complete but for what may follow it.
func (w *watch) finishing() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.phase < finishing {
		w.phase = finishing
		w.arm(limitTail, tailWait)
	}
}

// refused notes that the server said no: why may come, and is not awaited for long.
func (w *watch) refused() { w.finishing() }

// draining notes that only the end of the body is awaited.
func (w *watch) draining() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.phase = finishing
	w.arm(limitDrain, drainWait)
}

// stop ends the attempt; no limit passes any more.
func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.phase = over
	w.arm("", 0)
	w.total()
	w.cancel(nil)
}

// arm replaces the running limit; a limit of zero is none. The caller holds mu.
func (w *watch) arm(limit string, after time.Duration) {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	if after > 0 {
		w.timer = time.AfterFunc(after, func() { w.cancel(&limitPassed{limit, after}) })
	}
}
