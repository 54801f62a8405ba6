package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/wireclient"
)

func TestARequestWithAKeyIsCarriedOutOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o once
		release := make(chan struct{})
		runs := 0
		act := func() ([]byte, error) {
			runs++
			<-release
			return []byte("answer"), nil
		}
		var wg sync.WaitGroup
		for range 32 { // all at the same time
			wg.Go(func() {
				if got, err := o.do(t.Context(), "k", "/p", []byte("body"), act); err != nil || string(got) != "answer" {
					t.Errorf("%s %v", got, err)
				}
			})
		}
		synctest.Wait()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := o.do(gone, "k", "/p", []byte("body"), act); !errors.Is(err, context.Canceled) {
			t.Errorf("who went away was told %v", err)
		}
		close(release)
		wg.Wait()
		if got, err := o.do(t.Context(), "k", "/p", []byte("body"), act); runs != 1 || string(got) != "answer" || err != nil {
			t.Errorf("it ran %d times; later %s %v", runs, got, err)
		}
	})
}

func TestAKeyIsForOneRequest(t *testing.T) {
	var o once
	yes := func() ([]byte, error) { return []byte("yes"), nil }
	if _, err := o.do(t.Context(), "k", "/p", []byte("body"), yes); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ path, body string }{
		"another body": {"/p", "other"}, "another path": {"/q", "body"}, "a boundary that moved": {"/pb", "ody"},
	} {
		_, err := o.do(t.Context(), "k", c.path, []byte(c.body), yes)
		if r, ok := errors.AsType[*Refusal](err); !ok || r.Code != wire.KeyReused {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What was refused changed nothing, so it can be tried again.
	refused := Refuse(wire.Conflict, "not now")
	if _, err := o.do(t.Context(), "r", "/p", nil, func() ([]byte, error) { return nil, refused }); !errors.Is(err, refused) {
		t.Error(err)
	}
	if got, err := o.do(t.Context(), "r", "/p", nil, yes); err != nil || string(got) != "yes" {
		t.Errorf("after a refusal: %s %v", got, err)
	}
	// A defect does not leave the key hanging.
	func() {
		defer func() { _ = recover() }()
		_, _ = o.do(t.Context(), "d", "/p", nil, func() ([]byte, error) { panic("a defect") })
	}()
	if got, err := o.do(t.Context(), "d", "/p", nil, yes); err != nil || string(got) != "yes" {
		t.Errorf("after a defect: %s %v", got, err)
	}
}

func TestTheNewestKeysAreRemembered(t *testing.T) {
	var o once
	runs := map[string]int{}
	do := func(key string) {
		if _, err := o.do(t.Context(), key, "/p", nil, func() ([]byte, error) { runs[key]++; return []byte{}, nil }); err != nil {
			t.Fatal(err)
		}
	}
	for i := range rememberedKeys + 1 {
		do(fmt.Sprint(i))
	}
	do("1")
	do("0")
	if runs["1"] != 1 || runs["0"] != 2 || len(o.known) != rememberedKeys || len(o.order) != rememberedKeys {
		t.Errorf("ran %d and %d times, %d keys in %d places", runs["1"], runs["0"], len(o.known), len(o.order))
	}
}

func TestAKeyWhoseRequestIsUnderWayIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o once
		runs := 0
		release := make(chan struct{})
		slow := func() ([]byte, error) {
			runs++
			<-release
			return []byte("answer"), nil
		}
		var wg sync.WaitGroup
		ask := func() {
			if got, err := o.do(t.Context(), "slow", "/p", nil, slow); err != nil || string(got) != "answer" {
				t.Errorf("%s %v", got, err)
			}
		}
		wg.Go(ask)
		synctest.Wait()
		for i := range rememberedKeys + 1 {
			if _, err := o.do(t.Context(), fmt.Sprint(i), "/p", nil, func() ([]byte, error) { return []byte{}, nil }); err != nil {
				t.Fatal(err)
			}
		}
		wg.Go(ask)
		synctest.Wait()
		close(release)
		wg.Wait()
		if runs != 1 || len(o.known) != rememberedKeys || len(o.order) != rememberedKeys {
			t.Errorf("it ran %d times; %d keys in %d places", runs, len(o.known), len(o.order))
		}
	})
}

func TestAPromptThatIsSentTwiceRunsOnce(t *testing.T) {
	f := newFakeSession(t, 1)
	_, rt := serve(t, hostOf(f))
	c := wireclient.New(rt, "http://loom")
	q := wire.Prompt{Input: wire.Input{Mutation: wire.Mutation{Key: "mine"}, Text: "hello"}}
	first, err := c.Prompt(t.Context(), f.self, q)
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.Prompt(t.Context(), f.self, q)
	if err != nil || again != first || len(f.prompts) != 1 {
		t.Errorf("%+v %v after %+v, %d prompts", again, err, first, len(f.prompts))
	}
	q.Text = "something else"
	_, err = c.Prompt(t.Context(), f.self, q)
	if refused, ok := errors.AsType[*wireclient.Refused](err); !ok || refused.Code != wire.KeyReused || refused.Status != 409 {
		t.Error(err)
	}
}

func TestCapabilitiesSayWhatThereIsAndWhatIsNot(t *testing.T) {
	s, rt := serve(t, hostOf())
	c := wireclient.New(rt, "http://loom")
	got, err := c.Capabilities(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	probe, err := c.Probe(t.Context())
	if err != nil || probe != got.Probe || probe.Generation != 7 || probe.Health != "ready" || probe.Floor != wire.SupportFloor {
		t.Errorf("%+v %v", probe, err)
	}
	if got.Approvals.State() != wire.StatedNone || got.MCPProbe.State() != wire.StatedNone || got.Background.State() != wire.StatedNone {
		t.Error("what there is none of is not said")
	}
	store, ok := got.Store.Get()
	if !ok || store.Kind != "memory" || store.SQL.State() != wire.StatedNone {
		t.Errorf("the store is %s", got.Store)
	}
	for _, k := range got.Frames {
		if !k.Known() {
			t.Errorf("it mints %s, which is not in the contract", k)
		}
	}
	// Each route is carried out or said to be missing, and never both.
	for _, route := range wire.Routes() {
		if slices.Contains(got.Requests, route.Name) != slices.Contains(s.handled, route.Name) {
			t.Errorf("%s is told wrongly", route.Name)
		}
	}
	if !slices.Contains(got.Requests, "prompt") || slices.Contains(got.Requests, "session_archive") {
		t.Errorf("it carries out %q", got.Requests)
	}
}
