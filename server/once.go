package server

import (
	"context"
	"crypto/sha256"
	"slices"
	"sync"

	"github.com/loom-run/loom/wire"
)

// rememberedKeys is how many idempotency keys are remembered, the newest.
const rememberedKeys = 4096

// once carries out a request with an idempotency key once, for as long as this
// process lives and the key is among the newest. What was refused changed nothing
// and is forgotten, so that it can be tried again.
type once struct {
	mu    sync.Mutex
	known map[string]*outcome
	order []string // of the keys in known, oldest first
}

// outcome is a request that was carried out, or is being.
type outcome struct {
	request [sha256.Size]byte
	done    chan struct{} // closed when answer and err are set
	answer  []byte
	err     error
}

// do runs act, unless a request with that key was carried out: then its answer is
// given again. Without a key it just runs.
func (o *once) do(ctx context.Context, key, path string, body []byte, act func() ([]byte, error)) ([]byte, error) {
	if key == "" {
		return act()
	}
	digest := digestOf(path, body)
	o.mu.Lock()
	if earlier, ok := o.known[key]; ok {
		o.mu.Unlock()
		if earlier.request != digest {
			return nil, Refuse(wire.KeyReused, "the idempotency key was used for another request; nothing was changed, use a new key")
		}
		select {
		case <-earlier.done:
			return earlier.answer, earlier.err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	mine := &outcome{request: digest, done: make(chan struct{})}
	o.remember(key, mine)
	o.mu.Unlock()
	defer close(mine.done)
	defer func() { // also when act panics: the key must not hang
		if mine.answer == nil {
			o.forget(key, mine)
		}
	}()
	mine.err = errUnfinished
	answer, err := act()
	mine.err = err
	if err == nil {
		mine.answer = answer
	}
	return answer, err
}

// digestOf tells requests apart.
func digestOf(path string, body []byte) (sum [sha256.Size]byte) {
	h := sha256.New()
	h.Write([]byte(path + "\x00"))
	h.Write(body)
	h.Sum(sum[:0])
	return sum
}

// errUnfinished answers who waits for a request that did not come to an end.
var errUnfinished = Refuse(wire.Internal, "the same request failed with a defect of the server; look at the session before trying again")

// remember adds a key and lets the oldest go whose request is over: one that is being
// carried out must be found by who asks again. The caller holds mu.
func (o *once) remember(key string, x *outcome) {
	if o.known == nil {
		o.known = map[string]*outcome{}
	}
	o.known[key] = x
	o.order = append(o.order, key)
	for i := 0; len(o.order) > rememberedKeys && i < len(o.order); {
		if oldest := o.order[i]; o.known[oldest].over() {
			delete(o.known, oldest)
			o.order = slices.Delete(o.order, i, i+1)
			continue
		}
		i++
	}
}

// over reports that the request has come to its end.
func (x *outcome) over() bool {
	select {
	case <-x.done:
		return true
	default:
		return false
	}
}

func (o *once) forget(key string, x *outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known[key] == x {
		delete(o.known, key)
		o.order = slices.DeleteFunc(o.order, func(k string) bool { return k == key })
	}
}
