package cli

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/loom-run/loom/config"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/machine/automation"
	"github.com/loom-run/loom/node"
	"github.com/loom-run/loom/telemetry"
	"github.com/loom-run/loom/wire"
)

// askOptions are the options of the verbs that ask models.
type askOptions struct {
	profile, record option[string]
}

func (o *askOptions) flags(cmd *cobra.Command) {
	o.profileFlag(cmd)
	o.record = option[string]{kind: "FILE", parse: text}
	cmd.Flags().Var(&o.record, "record", "keep what passes between Loom and the models in this new file, without keys; --model replay/FILE plays it")
}

func (o *askOptions) profileFlag(cmd *cobra.Command) {
	o.profile = option[string]{kind: "NAME", parse: text}
	cmd.Flags().Var(&o.profile, "profile", "choose models by this profile of loom.toml (default: LOOM_PROFILE, else none)")
}

// setup is what a node asks models with.
type setup struct {
	models node.Models
	listed *node.Catalogued // the same, where they can be listed
	retry  machine.RetryPolicy
	meter  *telemetry.Meter // nil: nothing is measured
	record *os.File         // nil: nothing is recorded
	rules  config.Permissions
	redact config.Redaction
	cues   automation.Settings
	path   string // of loom.toml
}

// asking reads loom.toml and finds the models of it.
func (a *app) asking(o askOptions) (setup, error) {
	file, path, err := node.SettingsAt(a.env)
	if err != nil {
		return setup{}, refused(wire.BadRequest, "%v", err)
	}
	s := setup{retry: a.retry(file.Retry), rules: file.Permissions, redact: file.Redaction, cues: file.Automation, path: path}
	if s.meter, err = node.Measuring(file.Telemetry, a.env, version, a.note); err != nil {
		return setup{}, refused(wire.BadRequest, "%v", err)
	}
	if s.record, err = a.recordInto(o.record.given); err != nil {
		return setup{}, errors.Join(err, s.close())
	}
	cfg := node.ModelsConfig{
		File: file, Profile: o.profile.or(a.env("LOOM_PROFILE")), Environ: a.sys.Environ, Now: now, UserAgent: userAgent(), Warn: a.note,
	}
	if s.record != nil {
		cfg.Record = s.record
	}
	if s.listed, err = node.Catalogue(cfg); err != nil {
		return setup{}, errors.Join(refused(wire.UnknownModel, "%v", err), s.close())
	}
	s.models = s.listed
	return s, nil
}

// ask connects a verb that asks models.
func (a *app) ask(o askOptions) (*link, error) {
	s, err := a.asking(o)
	if err != nil {
		return nil, err
	}
	return a.connect(s)
}

// still is the setup of a verb that asks no model, so that it also works where
// loom.toml does not.
func (a *app) still() setup {
	return setup{models: node.NoModels(refused(wire.BadRequest, "this command asks no model")), retry: a.retry(config.Retry{})}
}

func (a *app) retry(r config.Retry) machine.RetryPolicy {
	if a.sys.Retry != nil {
		return *a.sys.Retry
	}
	return node.Retry(r)
}

// close ends the recording and the measuring.
func (s setup) close() error {
	err := s.meter.Close()
	if s.record != nil {
		err = errors.Join(err, s.record.Close())
	}
	return err
}

// recordInto makes the file of a recording, and lets the state root remember where it
// is. One that exists is not written over.
func (a *app) recordInto(path *string) (*os.File, error) {
	if path == nil {
		return nil, nil
	}
	f, err := os.OpenFile(*path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil, refused(wire.BadRequest, "--record: %s exists; nothing was started, name a new file", *path)
	}
	if err != nil {
		return nil, refused(wire.BadRequest, "--record: %v; nothing was started", err)
	}
	if err := node.RememberRecording(a.env, now, *path); err != nil {
		return nil, errors.Join(refused(wire.StoreUnreadable, "--record: where the recording is cannot be kept, so that an erasure would not find it (%v); nothing was started", err),
			f.Close(), os.Remove(*path))
	}
	return f, nil
}
