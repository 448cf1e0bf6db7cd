// Package expiry shows as a metric until when the certificates of a program are valid.
package expiry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Names of the metrics. Their label certificate says which one: hub, with which an agent dials its hub, or webhook,
// which a program serves. With both ends an alert can tell what is late for certificates of any life.
const (
	End   = "flotilla_certificate_expiry_timestamp_seconds"
	Begin = "flotilla_certificate_begin_timestamp_seconds"
)

// Valid returns when a certificate begins and ends, false while there is none.
type Valid func() (begin, end time.Time, ok bool)

// Gauge shows begin and end of one certificate in a registry. It is a Runnable of every replica, for each has its own
// copy of the certificate.
type Gauge struct {
	registry   prometheus.Registerer
	valid      Valid
	begin, end *prometheus.Desc
}

// New returns a gauge of the certificate of this name.
func New(registry prometheus.Registerer, certificate string, valid Valid) *Gauge {
	labels := prometheus.Labels{"certificate": certificate}
	return &Gauge{
		registry: registry, valid: valid,
		begin: prometheus.NewDesc(Begin, "When the life of the certificate began, in seconds since 1970.", nil, labels),
		end: prometheus.NewDesc(
			End,
			"When the certificate ends, in seconds since 1970. It is renewed long before.",
			nil,
			labels,
		),
	}
}

// NeedLeaderElection is a Runnable's.
func (g *Gauge) NeedLeaderElection() bool { return false }

// Start shows the gauge until ctx ends. A second one of the same certificate in this process, in a test, is not shown.
func (g *Gauge) Start(ctx context.Context) error {
	err := g.registry.Register(g)
	var already prometheus.AlreadyRegisteredError
	switch {
	case errors.As(err, &already):
	case err != nil:
		return fmt.Errorf("register the metric %s: %w", End, err)
	default:
		defer g.registry.Unregister(g)
	}
	<-ctx.Done()
	return nil
}

// Describe is a collector's.
func (g *Gauge) Describe(out chan<- *prometheus.Desc) {
	out <- g.begin
	out <- g.end
}

// Collect is a collector's.
func (g *Gauge) Collect(out chan<- prometheus.Metric) {
	if begin, end, ok := g.valid(); ok {
		out <- prometheus.MustNewConstMetric(g.begin, prometheus.GaugeValue, float64(begin.Unix()))
		out <- prometheus.MustNewConstMetric(g.end, prometheus.GaugeValue, float64(end.Unix()))
	}
}
