package telemetry

import (
	"net/netip"
	"slices"
	"strings"
)

// metric is one of those that there are.
type metric uint8

// The metrics.
const (
	tokenUsage metric = iota
	operationDuration
	commitDuration
	metricCount
)

// series is a metric with its histograms.
type series struct {
	instrument
	points map[string]*histogram
	order  []string
}

// newMetrics makes the metrics, with the bounds that the conventions advise.
func newMetrics() (all [metricCount]*series) {
	seconds := []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	for m, i := range [metricCount]instrument{
		tokenUsage: {"gen_ai.client.token.usage", "{token}", "Tokens of a request, by their kind.",
			[]float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}},
		operationDuration: {"gen_ai.client.operation.duration", "s", "How long a request or a tool took.", seconds},
		commitDuration: {"loom.commit.duration", "s", "How long a commit took until it was durable.",
			[]float64{0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1}},
	} {
		all[m] = &series{instrument: i, points: map[string]*histogram{}}
	}
	return all
}

// record adds a value.
func (m *Meter) record(which metric, v float64, attributes ...attribute) {
	var key strings.Builder
	for _, a := range attributes {
		key.WriteString(a.name + "\x00" + a.text + "\x00")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.metrics[which]
	h, ok := s.points[key.String()]
	if !ok {
		if len(s.points) >= maxPoints {
			m.dropped++
			return
		}
		h = &histogram{attributes: attributes}
		s.points[key.String()], s.order = h, append(s.order, key.String())
	}
	h.record(s.bounds, v)
	m.changed = true
}

// resource describes the process.
func resource(c Config) []attribute {
	service := c.Service
	if service == "" {
		service = "loom"
	}
	all := []attribute{str("service.name", service), str("service.version", c.Version), str("service.instance.id", c.Instance)}
	for name, value := range c.Resource {
		if !slices.ContainsFunc(all, func(a attribute) bool { return a.name == name }) {
			all = append(all, str(name, value))
		}
	}
	slices.SortFunc(all, func(a, b attribute) int { return strings.Compare(a.name, b.name) })
	return all
}

// loopback reports whether a host is this machine.
func loopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}
