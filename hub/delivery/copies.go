package delivery

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/placement"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

// CopyReconciler delivers whole objects, one at a time: to each member of the object's own placement, and to each
// member that has a part of a workload which needs the object. Both give one Work, so that one member object has one
// order.
type CopyReconciler struct {
	Reconciler
	watching *store.Watching
}

// NewCopyReconciler returns a reconciler that writes with c and reads c's cache; live reads past the cache what objects
// hold, which is not cached. rules is the table of the kinds that are placed.
func NewCopyReconciler(
	c client.Client,
	live client.Reader,
	clk clock.PassiveClock,
	hubID string,
	outcomes *placement.Outcomes,
	watching *store.Watching,
	rules kinds.Table,
) *CopyReconciler {
	return &CopyReconciler{Reconciler: *NewReconciler(c, live, rules, clk, hubID, outcomes), watching: watching}
}

// Reconcile runs gather → plan → apply for one object.
func (r *CopyReconciler) Reconcile(ctx context.Context, key wire.Key) (ctrl.Result, error) {
	rule, ok := r.rules[key.GroupKind()]
	if !ok || rule.Mode != kinds.Copy {
		return ctrl.Result{}, nil
	}
	if err := r.watching.Start(rule); err != nil {
		return ctrl.Result{}, err
	}
	s, err := r.gather(ctx, key)
	if err != nil {
		return ctrl.Result{}, err
	}
	f, err := r.gatherCopy(ctx, s)
	if err != nil {
		return ctrl.Result{}, err
	}
	if edited(s.placement, f.dependents) {
		return ctrl.Result{}, nil // the hub's own decision comes back
	}
	works, refusal, err := planCopy(f)
	if err != nil {
		return ctrl.Result{}, err
	}
	r.outcomes.SetUndelivered(ctx, key, refusal)
	if refusal != nil {
		return ctrl.Result{}, nil
	}
	if err := r.preserveOrphans(ctx, s, f); err != nil {
		return ctrl.Result{}, err
	}
	works, stale, err := r.dropStaleWorks(ctx, f, works)
	if err != nil {
		return ctrl.Result{}, err
	}
	if f.object != nil {
		if err := r.mark(works, f.object.GetUID()); err != nil {
			return ctrl.Result{}, err
		}
	}
	result, err := r.apply(ctx, s, works)
	if stale && result.RequeueAfter == 0 {
		result.RequeueAfter = staleRetry
	}
	if err != nil || result.RequeueAfter > 0 || s.placement == nil || s.placement.DeletionTimestamp == nil {
		return result, err
	}
	return r.removeFinalizer(ctx, s)
}

// edited tells whether somebody else than the hub wrote one of the placements that say where a copy is to be. Those
// that go say nothing.
func edited(own *topology.WorkloadPlacement, dependents []topology.WorkloadPlacement) bool {
	return own != nil && own.DeletionTimestamp == nil && wire.Foreign(own) ||
		slices.ContainsFunc(dependents, func(p topology.WorkloadPlacement) bool { return wire.Foreign(&p) })
}

// gatherDependents completes the placements that need the object.
func (r *CopyReconciler) gatherDependents(ctx context.Context, s *state, f *copyFacts) error {
	dependents := &topology.WorkloadPlacementList{}
	if err := r.client.List(ctx, dependents, client.MatchingFields{store.IndexPlacementDependency: s.key.String()},
		client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list placements that need %s: %w", s.key.Sentence(), err)
	}
	// A Work that is to leave its object behind belongs to a workload that goes, unless another one came since. The
	// cache may know of the one before the other.
	ask := !kinds.HoldsData(s.key.GroupKind()) &&
		slices.ContainsFunc(s.works, func(w work.Work) bool { return preserves(&w) })
	for i := range dependents.Items {
		p := &dependents.Items[i]
		if ask && p.DeletionTimestamp == nil {
			live := &topology.WorkloadPlacement{}
			switch err := r.live.Get(ctx, client.ObjectKeyFromObject(p), live); {
			case apierrors.IsNotFound(err):
				continue
			case err != nil:
				return fmt.Errorf("read placement %s/%s, which needs %s: %w", p.Namespace, p.Name, s.key.Sentence(), err)
			}
			p = live
		}
		if p.DeletionTimestamp == nil {
			f.dependents = append(f.dependents, *p)
		}
	}
	return nil
}

// gatherCopy completes what the Works depend on. What the object holds is read from the API server, and only where a
// member is to have it.
func (r *CopyReconciler) gatherCopy(ctx context.Context, s *state) (*copyFacts, error) {
	f := &copyFacts{
		key:   s.key,
		kind:  r.rules[s.key.GroupKind()],
		table: r.rules,
		hubID: r.hubID,
		have:  map[string]*work.Work{},
		named: map[string]bool{},
	}
	if err := r.gatherOwn(ctx, s, f); err != nil {
		return nil, err
	}
	if err := r.gatherDependents(ctx, s, f); err != nil {
		return nil, err
	}
	for i := range s.works {
		w := &s.works[i]
		member, ok := wire.MemberOf(w.Namespace)
		if !ok {
			continue
		}
		f.have[member] = w
		names := &work.WorkList{}
		if err := r.client.List(ctx, names, client.MatchingFields{store.IndexWorkDependsOn: w.Namespace + "/" + w.Name},
			client.Limit(1), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list Works that need %s: %w", s.key.Sentence(), err)
		}
		f.named[member] = len(names.Items) > 0
	}
	if len(f.members()) == 0 && len(s.works) == 0 {
		return f, nil
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(r.rules[s.key.GroupKind()].GVK)
	switch err := r.live.Get(ctx, s.key.Workload(), object); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", s.key.Sentence(), err)
	case kinds.ClusterMade(s.key.Kind, s.key.Namespace, s.key.Name, object.GetAnnotations()):
	case object.GetDeletionTimestamp() == nil:
		f.object = object
	case conditions.HoldsDependents(object):
		// Pods on one cluster use a ConfigMap as long as the API server has it.
		if terminating, err := r.terminating(ctx, s.key.Namespace); err != nil || terminating {
			return f, err
		}
		f.object = object
	}
	return f, nil
}

// preserveOrphans lets the copies stand that go with a placement which is deleted as an orphan, and that nobody else
// wants.
func (r *CopyReconciler) preserveOrphans(ctx context.Context, s *state, f *copyFacts) error {
	if !f.released || len(s.works) == 0 {
		return nil
	}
	orphans, err := r.orphans(ctx, s)
	if err != nil || !orphans {
		return err
	}
	wanted := f.members()
	var alone []work.Work
	for i := range s.works {
		if member, ok := wire.MemberOf(s.works[i].Namespace); ok && !slices.Contains(wanted, member) {
			alone = append(alone, s.works[i])
		}
	}
	return r.preserve(ctx, alone)
}

// gatherOwn looks at the object's own placement. One that is being deleted does not count; where it takes along what
// it placed, the API server is asked for its Works, not the cache: one that the cache has not seen yet must not stay
// behind.
func (r *CopyReconciler) gatherOwn(ctx context.Context, s *state, f *copyFacts) error {
	switch {
	case s.placement == nil:
		return nil
	case s.placement.DeletionTimestamp == nil:
		f.own = s.placement
		return nil
	}
	var err error
	if f.released, err = r.workloadIsGone(ctx, s); err != nil || !f.released {
		return err
	}
	live := &work.WorkList{}
	if err := r.live.List(ctx, live, client.MatchingLabels{topology.LabelPlacement: string(s.placement.UID)}); err != nil {
		return fmt.Errorf("list Works of %s: %w", s.key.Sentence(), err)
	}
	known := map[types.UID]bool{}
	for i := range s.works {
		known[s.works[i].UID] = true
	}
	for i := range live.Items {
		if !known[live.Items[i].UID] {
			s.works = append(s.works[:len(s.works):len(s.works)], live.Items[i])
		}
	}
	return nil
}

// setupCopies adds the controller of copied objects.
func setupCopies(
	mgr ctrl.Manager,
	rules kinds.Table,
	clk clock.PassiveClock,
	hubID string,
	outcomes *placement.Outcomes,
	watching *store.Watching,
	marks bool,
) error {
	ours := predicate.Or(
		predicate.GenerationChangedPredicate{},
		predicate.LabelChangedPredicate{},
		predicate.AnnotationChangedPredicate{},
		store.DeletionBegan(),
	)
	r := NewCopyReconciler(mgr.GetClient(), mgr.GetAPIReader(), clk, hubID, outcomes, watching, rules)
	r.marks = marks
	copies, err := builder.TypedControllerManagedBy[wire.Key](mgr).Named("copies").
		WithOptions(controller.TypedOptions[wire.Key]{MaxConcurrentReconciles: workers}).
		Watches(&topology.WorkloadPlacement{}, handler.TypedEnqueueRequestsFromMapFunc(copiesOfPlacement),
			builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, store.DeletionBegan()))).
		Watches(&work.Work{}, handler.TypedEnqueueRequestsFromMapFunc(r.copiesOfWork), builder.WithPredicates(ours)).
		Build(r)
	if err != nil {
		return fmt.Errorf("set up controller copies: %w", err)
	}
	watching.Add(copies.Watch, func(rule kinds.Kind) source.TypedSource[wire.Key] {
		toKey := func(_ context.Context, o client.Object) []wire.Key {
			return []wire.Key{wire.KeyFor(rule.GVK.GroupKind(), o)}
		}
		var changed predicate.ResourceVersionChangedPredicate
		return source.TypedKind(
			mgr.GetCache(),
			client.Object(rule.New()),
			handler.TypedEnqueueRequestsFromMapFunc(toKey),
			changed,
		)
	})
	return nil
}

// copiesOfPlacement returns the object that a placement is of, and those that go with it.
func copiesOfPlacement(_ context.Context, o client.Object) []wire.Key {
	p := o.(*topology.WorkloadPlacement)
	return append([]wire.Key{wire.KeyOfPlacement(p)}, wire.DependenciesOf(p)...)
}

// copiesOfWork returns the object that a Work carries, and those of the Works that it names.
func (r *CopyReconciler) copiesOfWork(ctx context.Context, o client.Object) []wire.Key {
	var keys []wire.Key
	if key, ok := wire.KeyOf(o); ok {
		keys = append(keys, key)
	}
	for _, name := range wire.DependsOn(o) {
		needed := &work.Work{}
		if r.client.Get(ctx, client.ObjectKey{Namespace: o.GetNamespace(), Name: name}, needed,
			client.UnsafeDisableDeepCopy) == nil {
			keys = append(keys, store.OfWork(ctx, needed)...)
		}
	}
	return keys
}
