package delivery

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/placement"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/tracing"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

const (
	// parallel is how many Works of one workload are written at once.
	parallel = 16
	// staleRetry is how soon a reconcile looks again when the cache has not seen its writes and no event woke it.
	staleRetry = time.Second
	// leavingRetry is how soon it looks again when the namespace of a member takes no Work; the member's event mostly
	// comes first.
	leavingRetry = 10 * time.Second
)

// Reconciler delivers placements, one workload at a time. It alone writes Works, and removes the
// placement's finalizer, which placement adds.
type Reconciler struct {
	client   client.Client
	live     client.Reader
	rules    kinds.Table
	hubID    string
	outcomes *placement.Outcomes
	written  *store.Written[types.NamespacedName]
	tracer   *tracing.Tracer // nil traces nothing
	// marks: agents of Karmada execute the Works, whose manifests carry Karmada's marks.
	marks bool
}

// NewReconciler returns a reconciler of these kinds that writes with c and reads c's cache; live reads past the cache,
// before something is orphaned.
func NewReconciler(c client.Client, live client.Reader, rules kinds.Table, clk clock.PassiveClock, hubID string,
	outcomes *placement.Outcomes) *Reconciler {
	return &Reconciler{
		client: c, live: live, rules: rules, hubID: hubID, outcomes: outcomes,
		written: store.NewWritten[types.NamespacedName](clk),
	}
}

// state is what one reconcile found.
type state struct {
	key       wire.Key
	object    client.Object // nil if it is gone
	placement *topology.WorkloadPlacement
	works     []work.Work // of the cache, not to be changed
}

// Reconcile runs gather → plan → apply for one workload.
func (r *Reconciler) Reconcile(ctx context.Context, key wire.Key) (ctrl.Result, error) {
	kind, ok := r.rules[key.GroupKind()]
	if !ok {
		return ctrl.Result{}, nil
	}
	s, err := r.gather(ctx, key)
	if err != nil {
		return ctrl.Result{}, err
	}
	switch {
	case s.placement == nil:
		r.outcomes.SetUndelivered(ctx, key, nil)
		return ctrl.Result{}, r.removeOrphans(ctx, s)
	case s.placement.DeletionTimestamp != nil:
		return r.release(ctx, s)
	case wire.Foreign(s.placement):
		return ctrl.Result{}, nil // somebody edited it; the hub's own decision comes back
	case s.object == nil, s.object.GetUID() != s.placement.Spec.Workload.UID,
		s.object.GetGeneration() != s.placement.Spec.Workload.Generation:
		return ctrl.Result{}, nil // the placement that answers this object comes, or does not (frozen)
	}
	add, same, err := inputs{r.client}.additions(ctx, kind, s.placement)
	if err != nil || !same {
		return ctrl.Result{}, err
	}
	if kind.Former != nil && kind.Former.In(s.object, s.placement.Spec.Cells) {
		if add.subsets, err = subsetsOf(kind, s.works); err != nil {
			return ctrl.Result{}, err
		}
	}
	works, refusal, err := plan(kind, key, r.hubID, placement.InForce(kind, s.object, s.placement), s.placement, add)
	if err != nil {
		return ctrl.Result{}, err
	}
	if refusal == nil {
		var jobs []*work.Work
		if jobs, refusal, err = planChecks(key, r.hubID, s.placement); err != nil {
			return ctrl.Result{}, err
		}
		works = append(works, jobs...)
	}
	r.outcomes.SetUndelivered(ctx, key, refusal)
	if refusal != nil {
		return ctrl.Result{}, nil
	}
	if err := r.mark(works, s.object.GetUID()); err != nil {
		return ctrl.Result{}, err
	}
	return r.apply(ctx, s, works)
}

func (r *Reconciler) gather(ctx context.Context, key wire.Key) (*state, error) {
	s := &state{key: key}
	var err error
	if s.placement, _, err = store.FindPlacement(ctx, r.client, key); err != nil {
		return nil, err
	}
	object := r.rules[key.GroupKind()].New()
	switch err := r.client.Get(ctx, key.Workload(), object); {
	case err == nil:
		s.object = object
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("get %s: %w", key.Sentence(), err)
	}
	works := &work.WorkList{}
	if err := r.client.List(ctx, works, client.MatchingFields{store.IndexWorkWorkload: key.String()},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Works of %s: %w", key.Sentence(), err)
	}
	s.works = works.Items
	return s, nil
}
