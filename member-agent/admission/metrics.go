package admission

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The names of the metrics of the chain.
const (
	// SecondsMetric is a histogram of how long answers about new pods took.
	SecondsMetric = "flotilla_pod_admission_seconds"
	// WaitsMetric counts the answers about new pods that waited for a cache.
	WaitsMetric = "flotilla_pod_admission_cache_waits_total"
)

// Metrics are how long answers take, and how often one waits. The zero value measures nothing.
type Metrics struct {
	seconds prometheus.Histogram
	waits   prometheus.Counter
}

// NewMetrics registers the metrics of the chain. A second replica in the same process, in a test, shares them.
func NewMetrics(registry prometheus.Registerer) (Metrics, error) {
	seconds, err := register(registry, SecondsMetric, prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: SecondsMetric, Help: "How long answers about new pods took, from the request to the answer.",
		Buckets: []float64{.0001, .0002, .0003, .0004, .0006, .0008, .001, .0015, .002, .003, .005, .01, .05, .25, 1},
	}))
	if err != nil {
		return Metrics{}, err
	}
	waits, err := register(registry, WaitsMetric, prometheus.NewCounter(prometheus.CounterOpts{
		Name: WaitsMetric, Help: "Answers about new pods that waited for a cache of this replica.",
	}))
	return Metrics{seconds, waits}, err
}

// register registers a collector, or returns the one that has its name.
func register[C prometheus.Collector](registry prometheus.Registerer, name string, collector C) (C, error) {
	err := registry.Register(collector)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(C); ok {
			return existing, nil
		}
	}
	if err != nil {
		return collector, fmt.Errorf("register the metric %s: %w", name, err)
	}
	return collector, nil
}

func (m Metrics) took(d time.Duration) {
	if m.seconds != nil {
		m.seconds.Observe(d.Seconds())
	}
}

func (m Metrics) waited() {
	if m.waits != nil {
		m.waits.Inc()
	}
}
