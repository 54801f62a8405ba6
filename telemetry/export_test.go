package telemetry

import "net/http"

// Through sends what m would send through f.
func Through(m *Meter, f func(*http.Request) (*http.Response, error)) { m.client.Transport = trip(f) }

type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
