package node

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/loom-run/loom/config"
	"github.com/loom-run/loom/telemetry"
)

// Measuring makes the meter that loom.toml asks for, or else the variables of
// OpenTelemetry do; nil where neither names a collector. The error is a sentence.
func Measuring(c config.Telemetry, env func(string) string, version string, warn func(string)) (*telemetry.Meter, error) {
	if strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") {
		return nil, nil
	}
	endpoint := c.Endpoint
	if endpoint == "" && env("OTEL_EXPORTER_OTLP_PROTOCOL") != "grpc" { // that address is not for us
		endpoint = env("OTEL_EXPORTER_OTLP_ENDPOINT")
	}
	if endpoint == "" {
		return nil, nil
	}
	headers, err := pairs("OTEL_EXPORTER_OTLP_HEADERS", env)
	if err != nil {
		return nil, err
	}
	about, err := pairs("OTEL_RESOURCE_ATTRIBUTES", env)
	if err != nil {
		return nil, err
	}
	service := env("OTEL_SERVICE_NAME")
	if service == "" {
		service = about["service.name"]
	}
	var instance [16]byte
	_, _ = rand.Read(instance[:]) // it never fails
	return telemetry.New(telemetry.Config{
		Endpoint: endpoint, Headers: headers, Resource: about, Service: service, Version: version, Instance: hex.EncodeToString(instance[:]),
		Now: time.Now, Proxy: http.ProxyFromEnvironment, Warn: warn,
	})
}

// pairs reads a variable of names and values: a=b,c=d, with percent escapes. What it
// holds is not repeated, since it may be a token.
func pairs(name string, env func(string) string) (map[string]string, error) {
	all := map[string]string{}
	for field := range strings.SplitSeq(env(name), ",") {
		if strings.TrimSpace(field) == "" {
			continue
		}
		key, value, ok := strings.Cut(field, "=")
		key = strings.TrimSpace(key)
		unescaped, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || key == "" || err != nil || name == "OTEL_EXPORTER_OTLP_HEADERS" && !fitsHeader(key, unescaped) {
			return nil, fmt.Errorf("%s is no list of name=value with commas in between; nothing was started, correct it or leave it out", name)
		}
		all[key] = unescaped
	}
	return all, nil
}

// fitsHeader reports whether a header can be made of a name and a value.
func fitsHeader(name, value string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	}) && !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}
