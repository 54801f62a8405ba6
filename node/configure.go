package node

import (
	"fmt"
	"slices"

	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/policy"
	"github.com/loom-run/loom/server"
	"github.com/loom-run/loom/session"
)

// Configure changes what the next step of a strand uses; what is nil stays. The session
// is opened if it must be. A tool that is not there and a model that cannot be used are
// refused, and nothing is changed.
func (s *Slot) Configure(strand string, c server.Configuring) (out server.Configured, err error) {
	if err := s.hasStrand(strand); err != nil {
		return out, err
	}
	r, err := s.open(Opening{})
	if err != nil {
		return out, err
	}
	var chosen *Chosen
	if c.Model != nil {
		found, err := s.node.cfg.Models.Choose(*c.Model)
		if err != nil {
			return out, err
		}
		chosen = &found
	}
	var mode *policy.Mode
	if c.Mode != nil {
		if mode, err = modeOf((*string)(c.Mode)); err != nil {
			return out, err
		}
	}
	for _, name := range c.ActiveTools {
		if _, ok := r.tools.Lookup(name); !ok {
			return out, server.Refuse(server.BadRequest, fmt.Sprintf("%s; nothing was changed", r.tools.Unknown(name)))
		}
	}
	if err := r.engine.Configure(strand, func(now machine.Configuration) machine.Configuration {
		if chosen != nil {
			now.Model = chosen.Ref
		}
		if c.ThinkingLevel != nil {
			now.ThinkingLevel = *c.ThinkingLevel
		}
		if c.ActiveTools != nil { // none is a choice too
			now.ActiveToolNames = slices.Compact(slices.Sorted(slices.Values(c.ActiveTools)))
		}
		return now
	}); err != nil {
		return out, err
	}
	if mode != nil {
		r.broker.SetMode(*mode)
	}
	now, _ := words.PermissionModes.Parse(r.broker.Mode().String())
	err = s.Read(func(v *session.View) error {
		cell, _, err := v.StrandConfig(strand)
		out = server.Configured{
			Provider: cell.Value.Model.Provider, ModelID: cell.Value.Model.ModelID, Mode: now, ThinkingLevel: cell.Value.ThinkingLevel,
			ActiveTools: cell.Value.ActiveToolNames, Seq: cell.Seq,
		}
		return err
	})
	return out, err
}
