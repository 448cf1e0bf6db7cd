package mutator

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// outcome is what became of an admission, as the metric flotilla_pod_admissions_total counts it.
type outcome string

const (
	// outcomeSpread: the pod got a subset.
	outcomeSpread outcome = "spread"
	// outcomeNoRoom: no subset is open and has room; the pod starts in none, and says so by its deletion cost.
	outcomeNoRoom outcome = "no-room"
	// outcomeAssigned: the pod came with a subset.
	outcomeAssigned outcome = "assigned"
	// outcomeForeign: no WorkloadSpread is for this pod.
	outcomeForeign outcome = "foreign"
	// outcomeNotSynced: this replica has just started and does not know the cluster yet.
	outcomeNotSynced outcome = "not-synced"
	// outcomeUnknownTarget: the workload is not in the cache yet, and percentages need its replicas. Also where those are
	// to be found by targetFilter.replicasPathList: the cache does not hold whole workloads.
	outcomeUnknownTarget outcome = "unknown-target"
	// outcomeInvalid: the WorkloadSpread cannot be carried out.
	outcomeInvalid outcome = "invalid-spread"
	// outcomeFailed: something that should not happen.
	outcomeFailed outcome = "failed"
)

// outcomes are all of them, so that each is seen from the start, with a zero.
func outcomes() []outcome {
	return []outcome{
		outcomeSpread, outcomeNoRoom, outcomeAssigned, outcomeForeign,
		outcomeNotSynced, outcomeUnknownTarget, outcomeInvalid, outcomeFailed,
	}
}

// newAdmissions registers the counter of admissions by outcome. A second replica in the same process, in a test, shares
// it.
func newAdmissions(registry prometheus.Registerer) (*prometheus.CounterVec, error) {
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "flotilla_pod_admissions_total",
		Help: "Pods that were asked about at their creation, by what became of it. All of them were admitted.",
	}, []string{"outcome"})
	if err := registry.Register(counter); err != nil {
		var already prometheus.AlreadyRegisteredError
		if !errors.As(err, &already) {
			return nil, fmt.Errorf("register the counter of admissions: %w", err)
		}
		existing, ok := already.ExistingCollector.(*prometheus.CounterVec)
		if !ok {
			return nil, fmt.Errorf("register the counter of admissions: the name belongs to a %T", already.ExistingCollector)
		}
		counter = existing
	}
	for _, o := range outcomes() {
		counter.WithLabelValues(string(o))
	}
	return counter, nil
}
