package server

import (
	"slices"
	"testing"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/wireclient"
)

func TestARewindSaysWhatWasTakenBackAndWhatNot(t *testing.T) {
	f := newFakeSession(t, 1)
	_, rt := serve(t, hostOf(f))
	c := wireclient.New(rt, "http://loom")
	at := f.entryID()
	got, err := c.Rewind(t.Context(), f.self, wire.Rewind{Entry: at})
	if err != nil || !got.CanRewind || !slices.Equal(got.Changed, []string{at.String()}) || len(got.Refused) > 0 || got.Insertions != 2 || got.Deletions != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = c.Rewind(t.Context(), f.self, wire.Rewind{Entry: id.EntryID{}, DryRun: true})
	if err != nil || got.CanRewind || len(got.Refused) != 1 || got.Refused[0] != (wire.RefusedFile{Path: "a", Why: "somebody changed it"}) {
		t.Errorf("%+v, %v", got, err)
	}
}
