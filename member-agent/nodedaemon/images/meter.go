package images

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// meter counts pulls.
type meter struct {
	attempts *prometheus.CounterVec
	pulling  prometheus.Gauge
	seconds  prometheus.Histogram
}

// The outcomes of an attempt.
const (
	outcomePulled  = "pulled"
	outcomeFailed  = "failed"
	outcomeStopped = "stopped"
)

// Metrics returns the metrics of pulls, for what describes them. Nothing counts in them.
func Metrics() []prometheus.Collector { return newMeter().all() }

func (m *meter) all() []prometheus.Collector {
	return []prometheus.Collector{m.attempts, m.pulling, m.seconds}
}

func newMeter() *meter {
	const first, factor, count = 1, 3, 7 // seconds, up to 12 minutes
	return &meter{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "flotilla_node_image_pulls_total",
			Help: "Attempts to pull an image, by how they ended: pulled, failed or stopped.",
		}, []string{"outcome"}),
		pulling: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "flotilla_node_image_pulls_running", Help: "Images that are being pulled.",
		}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "flotilla_node_image_pull_seconds", Help: "How long successful attempts took.",
			Buckets: prometheus.ExponentialBuckets(first, factor, count),
		}),
	}
}

// show shows the meter in a registry.
func (m *meter) show(registry prometheus.Registerer) error {
	for _, c := range m.all() {
		if err := registry.Register(c); err != nil {
			return fmt.Errorf("show the metrics of pulls: %w", err)
		}
	}
	return nil
}
