// Package meter is what an agent tells about its link to the hub as metrics, by the questions that people ask of them:
// docs/tasks/look-after-it.md has the table. All is read when somebody asks. Without a hub there is nothing to tell.
package meter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Sources say what stands.
type Sources struct {
	// Contact returns how long ago a request was sent that the hub answered, false if none was.
	Contact func() (time.Duration, bool)
	// MayExecuteNew tells whether new orders are carried out.
	MayExecuteNew func(ctx context.Context) bool
	// Orders counts the Works by the reason of their last outcome.
	Orders func() map[string]int
	// Corrections counts the changes of member objects that were not ordered and were corrected, by kind.
	Corrections func() map[string]int64
	// Orphans counts the objects that carry the label of the hub and have no order.
	Orphans func() int
}

// Meter shows an agent's metrics in a registry while this replica leads.
type Meter struct {
	registry prometheus.Registerer
	sources  Sources

	contact, session, orders, corrections, orphan *prometheus.Desc
}

// New returns a meter. Start shows it.
func New(registry prometheus.Registerer, sources Sources) *Meter {
	return &Meter{
		registry: registry, sources: sources,
		contact: prometheus.NewDesc(
			"flotilla_hub_contact_seconds",
			"Time since the agent sent the last request that the hub answered.",
			nil,
			nil,
		),
		session: prometheus.NewDesc(
			"flotilla_hub_session_open",
			"1 while new orders of the hub are carried out, else 0.",
			nil,
			nil,
		),
		orders: prometheus.NewDesc(
			"flotilla_orders",
			"Orders of the hub, by the reason of their last outcome.",
			[]string{"reason"},
			nil,
		),
		corrections: prometheus.NewDesc(
			"flotilla_corrections_total",
			"Changes of member objects that were not ordered and were corrected.",
			[]string{"kind"},
			nil,
		),
		orphan: prometheus.NewDesc(
			"flotilla_orphans",
			"Objects that carry the label of the hub and have no order.",
			nil,
			nil,
		),
	}
}

// Start shows the meter in the registry until ctx ends. The manager calls it where this replica leads.
func (m *Meter) Start(ctx context.Context) error {
	shown := m.Collector(ctx)
	err := m.registry.Register(shown)
	var already prometheus.AlreadyRegisteredError
	switch {
	case errors.As(err, &already):
		log.FromContext(ctx).Info("Another agent in this process shows its metrics already; those of this one are not shown")
	case err != nil:
		return fmt.Errorf("register the metrics of the agent: %w", err)
	default:
		defer m.registry.Unregister(shown)
	}
	<-ctx.Done()
	return nil
}

// Collector returns what the registry asks. ctx ends the reading.
func (m *Meter) Collector(ctx context.Context) prometheus.Collector { return collector{m, ctx} }

type collector struct {
	*Meter
	ctx context.Context // a collector is given none
}

// Describe is a collector's.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.contact, c.session, c.orders, c.corrections, c.orphan} {
		out <- d
	}
}

// Collect is a collector's.
func (c collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	if ago, heard := c.sources.Contact(); heard {
		gauge(c.contact, ago.Seconds())
	}
	open := 0.0
	if c.sources.MayExecuteNew(c.ctx) {
		open = 1
	}
	gauge(c.session, open)
	for reason, works := range c.sources.Orders() {
		gauge(c.orders, float64(works), reason)
	}
	for kind, corrections := range c.sources.Corrections() {
		out <- prometheus.MustNewConstMetric(c.corrections, prometheus.CounterValue, float64(corrections), kind)
	}
	gauge(c.orphan, float64(c.sources.Orphans()))
}
