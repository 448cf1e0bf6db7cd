package mutator

import (
	"context"
	"fmt"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
)

// Options of the mutator.
type Options struct {
	// Clock is the time; nil is the real one.
	Clock clock.PassiveClock
	// Federated reports whether a hub owns the workloads of a namespace; nothing is spread there. Nil: nowhere.
	Federated func(ctx context.Context, namespace string) (bool, error)
}

// New returns the mutator, and has the manager fill the caches that it reads, on every replica. The manager's scheme
// must know apps.kruise.io/v1beta1 and Kubernetes' own types.
func New(ctx context.Context, mgr ctrl.Manager, options Options) (admission.Mutator, error) {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	admissions, err := newAdmissions(metrics.Registry)
	if err != nil {
		return admission.Mutator{}, err
	}
	known, err := newCaches(ctx, mgr.GetCache(), options.Federated != nil, options.Clock)
	if err == nil {
		err = mgr.Add(known)
	}
	if err == nil {
		err = mgr.AddReadyzCheck("pod-admission", known.ready)
	}
	if err != nil {
		return admission.Mutator{}, fmt.Errorf("set up WorkloadSpreads at admission: %w", err)
	}
	m := &mutator{
		reader: mgr.GetClient(), workloads: workloads{mgr.GetClient()}, placements: known.placements, synced: known.synced,
		federated: options.Federated, clock: options.Clock, admissions: admissions,
		log: mgr.GetLogger().WithName("pod-admission"),
	}
	watches := []admission.Watch{{Object: &v1beta1.WorkloadSpread{}, Events: predicate.GenerationChangedPredicate{}}}
	if options.Federated != nil {
		watches = append(watches, admission.Watch{Object: namespaceMetadata(), Events: predicate.LabelChangedPredicate{}})
	}
	return admission.Mutator{
		Name:    v1beta1.WorkloadSpreadKind.Kind,
		Scope:   m.scope,
		Watches: watches,
		Mutate:  m.mutate,
	}, nil
}
