package node

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/loom-run/loom/config"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/provider/catalogue"
)

// configName is the file's name in a folder of configurations.
const configName = "loom.toml"

// Settings reads loom.toml; see [SettingsAt].
func Settings(env func(string) string) (config.File, error) {
	f, _, err := SettingsAt(env)
	return f, err
}

// SettingsAt reads loom.toml and says where it is, or would be: the file that LOOM_CONFIG names, else the one under the
// XDG configuration home, else the one under the user's home. Without a file the
// settings are empty. The error is a sentence.
func SettingsAt(env func(string) string) (f config.File, path string, err error) {
	path, named, err := configPath(env)
	if err != nil {
		return config.File{}, "", err
	}
	if path == "" {
		f, err = config.Decode(nil, catalogue.Builtin)
		return f, "", err
	}
	text, err := readBounded(path)
	if errors.Is(err, os.ErrNotExist) && !named {
		text, err = nil, nil
	}
	if err != nil {
		return config.File{}, path, fmt.Errorf("%s cannot be read (%w); nothing was started", path, err)
	}
	f, err = config.Decode(text, catalogue.Builtin)
	if err != nil {
		return config.File{}, path, fmt.Errorf("%w; nothing was started, the file is %s", err, path)
	}
	return f, path, nil
}

// configPath finds the place of the file; named says that a person named it.
func configPath(env func(string) string) (path string, named bool, err error) {
	if path := env("LOOM_CONFIG"); path != "" {
		if !filepath.IsAbs(path) {
			return "", false, fmt.Errorf("LOOM_CONFIG is %q, which is not an absolute path; nothing was started, set it to one", path)
		}
		return path, true, nil
	}
	if dir := env("XDG_CONFIG_HOME"); filepath.IsAbs(dir) { // a relative one is ignored, as the specification says
		return filepath.Join(dir, "loom", configName), false, nil
	}
	if dir := env("HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, ".config", "loom", configName), false, nil
	}
	return "", false, nil
}

// readBounded reads a file that may be anything, up to more than is taken.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	const more = 2 << 20
	return io.ReadAll(io.LimitReader(f, more))
}

// Retry is the ladder that a file asks for, on top of the default one.
func Retry(r config.Retry) machine.RetryPolicy {
	p := DefaultRetry()
	if r.Attempts != nil {
		p.MaxAttempts = r.Attempts
	}
	if r.Unbounded {
		p.MaxAttempts = nil
	}
	if r.BaseDelayMs != nil {
		p.BaseDelayMs = *r.BaseDelayMs
	}
	if r.MaxDelayMs != nil {
		p.MaxDelayMs = *r.MaxDelayMs
	}
	return p
}
