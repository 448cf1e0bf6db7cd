package meter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// Removed is the reason under which the number of a cell that is gone is counted.
const Removed = "CellRemoved"

// Meter measures one hub. It is a Runnable that shows what it measures in the registry while this replica leads. It is
// safe for concurrent use.
type Meter struct {
	registry prometheus.Registerer
	clock    clock.PassiveClock

	planChanges *prometheus.CounterVec
	delivered   *prometheus.HistogramVec
	finished    *prometheus.HistogramVec
	fleet       *fleet

	mu    sync.Mutex
	asked map[wire.Key]change
	heard map[string]time.Time
}

// change is a generation of a workload that is on its way, since this hub saw it first.
type change struct {
	generation int64
	since      time.Time
	// delivered: every member has carried out the order. done: nothing is left to be done. told: the workload's status
	// says so.
	delivered, done, told bool
}

// New returns a meter that reads existing objects from reader, the hub's cache, and reports by table. Start shows it in
// the registry. clk must be monotonic.
func New(registry prometheus.Registerer, reader client.Reader, table kinds.Table, clk clock.PassiveClock) *Meter {
	m := &Meter{
		registry: registry, clock: clk, asked: map[wire.Key]change{}, heard: map[string]time.Time{},
		planChanges: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "flotilla_plan_changes_total",
			Help: "Numbers of cells that a decision changed, by the reason of the new number.",
		}, []string{"reason"}),
		delivered: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "flotilla_spec_to_last_member_seconds",
			Help:    "Time from when the hub saw a change of a workload until the last member had carried out the order.",
			Buckets: []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600},
		}, []string{"kind"}),
		finished: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "flotilla_rollout_seconds",
			Help:    "Time from when the hub saw a change of a workload until all its pods were as it asks.",
			Buckets: []float64{1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400},
		}, []string{"kind"}),
	}
	m.fleet = newFleet(reader, table, m.lag)
	return m
}

// Start shows the meter in the registry until ctx ends. The manager calls it where this replica leads, once the cache
// is there.
func (m *Meter) Start(ctx context.Context) error {
	shown := m.Collector(ctx)
	err := m.registry.Register(shown)
	var already prometheus.AlreadyRegisteredError
	switch {
	case errors.As(err, &already):
		log.FromContext(ctx).Info("Another hub in this process shows its metrics already; those of this one are not shown")
	case err != nil:
		return fmt.Errorf("register the metrics of the hub: %w", err)
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
	c.planChanges.Describe(out)
	c.delivered.Describe(out)
	c.finished.Describe(out)
	c.fleet.describe(out)
}

// Collect is a collector's.
func (c collector) Collect(out chan<- prometheus.Metric) {
	c.planChanges.Collect(out)
	c.delivered.Collect(out)
	c.finished.Collect(out)
	c.fleet.collect(c.ctx, out)
}

// Heard tells that a renewal of a member's Lease was seen, Gone that there is no such member any more.
func (m *Meter) Heard(member string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heard[member] = m.clock.Now()
}

// Gone is told by Heard.
func (m *Meter) Gone(member string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.heard, member)
}

// lag returns how long ago a member was heard, false if this hub has never heard it.
func (m *Meter) lag(member string) (time.Duration, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	since, ok := m.heard[member]
	return m.clock.Since(since), ok
}

// Asked tells when the hub looked at this generation of a workload, and what is placed, nil for nothing. A generation
// that was placed before this hub began is not measured: nobody knows since when it is there.
func (m *Meter) Asked(key wire.Key, generation int64, placed *topology.WorkloadPlacement, now time.Time) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	last, known := m.asked[key]
	if known && last.generation >= generation {
		return
	}
	old := !known && placed != nil && placed.Spec.Workload.Generation >= generation
	m.asked[key] = change{generation: generation, since: now, delivered: old, done: old, told: old}
}

// Forget tells that a workload is gone.
func (m *Meter) Forget(key wire.Key) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.asked, key)
}

// Answered tells how far the members are with the generation that the placement was made of: whether all of them have
// carried out the order, and whether all pods are as it asks. It returns since when the hub knows the generation, and
// false where it does not measure it, or was told of its end.
func (m *Meter) Answered(key wire.Key, generation int64, delivered, done bool) (since time.Time, underWay bool) {
	if m == nil {
		return time.Time{}, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c, known := m.asked[key]
	if !known || c.generation != generation {
		return time.Time{}, false
	}
	took := m.clock.Since(c.since).Seconds()
	if delivered && !c.delivered {
		m.delivered.WithLabelValues(key.Kind).Observe(took)
		c.delivered = true
	}
	if delivered && done && !c.done {
		m.finished.WithLabelValues(key.Kind).Observe(took)
		c.done = true
	}
	m.asked[key] = c
	return c.since, !c.told
}

// Told tells that the status of a workload says that the generation is done.
func (m *Meter) Told(key wire.Key, generation int64) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if c, known := m.asked[key]; known && c.generation == generation {
		c.told = true
		m.asked[key] = c
	}
}

// Decided counts the numbers that a decision changed. last are the cells of before, next those that were written.
func (m *Meter) Decided(last, next []topology.Cell) {
	if m == nil {
		return
	}
	type place struct{ cluster, zone, subset string }
	before := map[place]int32{}
	for i := range last {
		c := &last[i]
		before[place{c.Cluster, c.Zone, c.Subset}] += c.Replicas
	}
	for i := range next {
		c := &next[i]
		at := place{c.Cluster, c.Zone, c.Subset}
		if before[at] != c.Replicas {
			m.planChanges.WithLabelValues(c.Reason.Code).Inc()
		}
		delete(before, at)
	}
	for _, replicas := range before {
		if replicas > 0 {
			m.planChanges.WithLabelValues(Removed).Inc()
		}
	}
}
