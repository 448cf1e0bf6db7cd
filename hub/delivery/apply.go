package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/tracing"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/hub/wire/karmada"
)

// apply writes what differs, in parallel over the members; a member that fails holds no other up.
func (r *Reconciler) apply(ctx context.Context, s *state, want []*work.Work) (ctrl.Result, error) {
	if err := store.SetNames(ctx, r.client, s.key, want, s.works); err != nil {
		return ctrl.Result{}, err
	}
	have := make(map[types.NamespacedName]*work.Work, len(s.works))
	for i := range s.works {
		have[client.ObjectKeyFromObject(&s.works[i])] = &s.works[i]
	}
	old, making := make([]*work.Work, len(want)), false
	for i, w := range want {
		old[i] = have[client.ObjectKeyFromObject(w)]
		making = making || old[i] == nil
		delete(have, client.ObjectKeyFromObject(w))
	}
	if making || len(have) > 0 {
		if stands, err := r.decisionIsCurrent(ctx, s, making); err != nil {
			return ctrl.Result{}, err
		} else if !stands {
			return ctrl.Result{RequeueAfter: staleRetry}, nil
		}
	}
	later := make([]bool, len(want))
	if s.placement != nil && s.placement.Spec.Ordinals != nil {
		later = takeOver(old, want)
	}
	for i, w := range want {
		later[i] = later[i] || startsAlone(s.placement, w)
	}
	var first, second []func() error
	for i, w := range want {
		write := func() error { return r.write(ctx, s, old[i], w) }
		if later[i] {
			second = append(second, write)
		} else {
			first = append(first, write)
		}
	}
	for _, gone := range have {
		first = append(first, func() error { return r.remove(ctx, gone) })
	}
	leaving, err := together(first)
	if err == nil {
		var more bool
		more, err = together(second)
		leaving = leaving || more
	}
	var result ctrl.Result
	if leaving {
		result.RequeueAfter = leavingRetry
	}
	if errors.Is(err, errStale) {
		return ctrl.Result{RequeueAfter: staleRetry}, nil
	}
	return result, err
}

// startsAlone reports whether a Work lets its member start the jobs of a workload that runs in one member. It is written
// after those that end the other members: one that is back would otherwise read an order by which it starts them too.
func startsAlone(p *topology.WorkloadPlacement, w *work.Work) bool {
	if p == nil {
		return false
	}
	cluster, _ := wire.MemberOf(w.Namespace)
	return slices.ContainsFunc(p.Spec.Cells, func(c topology.Cell) bool {
		return c.Cluster == cluster && c.Ticks != nil && c.Ticks.Alone && c.Replicas > 0
	})
}

// together makes writes in parallel, and returns their errors. leaving reports whether a member that leaves took none.
func together(writes []func() error) (leaving bool, err error) {
	var group errgroup.Group
	group.SetLimit(parallel)
	errs := make([]error, len(writes))
	for i, write := range writes {
		group.Go(func() error { errs[i] = write(); return nil })
	}
	_ = group.Wait() // the errors are in errs
	for i := range errs {
		if errors.Is(errs[i], errLeaving) {
			errs[i], leaving = nil, true
		}
	}
	return leaving, errors.Join(errs...)
}

// mark gives the manifests what agents of Karmada ask for; uid is that of the hub's object.
func (r *Reconciler) mark(works []*work.Work, uid types.UID) error {
	if !r.marks {
		return nil
	}
	for _, w := range works {
		if err := karmada.Mark(w, uid); err != nil {
			return err
		}
	}
	return nil
}

// traced begins the span of a write of a Work, which carries it to the agent.
func (r *Reconciler) traced(ctx context.Context, s *state, w *work.Work) (context.Context, func(error)) {
	if s.placement == nil {
		return ctx, func(error) {}
	}
	ctx, end := r.tracer.Start(
		ctx,
		tracing.ChangeOf(s.key, &s.placement.Spec),
		"deliver",
		attribute.String(
			"flotilla.work",
			w.Namespace+"/"+w.Name,
		),
		attribute.String("flotilla.sequence", w.Annotations[topology.AnnotationSequence]),
	)
	if parent := tracing.Traceparent(ctx); parent != "" {
		w.Annotations[topology.AnnotationTraceparent] = parent
	}
	return ctx, end
}

// errStale: the cache has not seen what was written last; its event brings the next reconcile.
var errStale = errors.New("the cache has not seen the last write")

// errLeaving: the member's namespace is being deleted or gone, because the member leaves, and takes no new Work. The
// event of the MemberCluster brings the next reconcile.
var errLeaving = errors.New("the member's namespace takes no new Work")

// noNamespace reports whether an error says that the namespace of an object does not exist. The agent has the same for
// one namespace (apply.namespaceMissing): the hub imports no part of the agent that may hold it.
func noNamespace(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Kind == "namespaces"
}

// write creates or patches one Work where it differs.
func (r *Reconciler) write(ctx context.Context, s *state, old, want *work.Work) error {
	name := client.ObjectKeyFromObject(want)
	version := ""
	if old != nil {
		version = old.ResourceVersion
	}
	if !r.written.Seen(name, version) {
		return errStale
	}
	if old == nil {
		ctx, end := r.traced(ctx, s, want)
		err := r.client.Create(ctx, want, store.ManagerDelivery)
		end(err)
		if apierrors.IsAlreadyExists(err) {
			r.written.Wrote(name, "1") // any version is newer: wait for the cache to have the object at all
			return errStale
		}
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || noNamespace(err) {
			return errLeaving
		}
		if err != nil {
			return fmt.Errorf("create Work %s: %w", name, err)
		}
		r.written.Wrote(name, want.ResourceVersion)
		return nil
	}
	if old.DeletionTimestamp != nil {
		return nil // an earlier one is still being removed from the member; its end is an event
	}
	merged, changed := merge(old, want)
	if !changed {
		return nil
	}
	ctx, end := r.traced(ctx, s, merged)
	err := r.client.Patch(ctx, merged, client.MergeFrom(old), store.ManagerDelivery)
	end(err)
	if err != nil {
		if apierrors.IsNotFound(err) {
			return errStale
		}
		return fmt.Errorf("patch Work %s: %w", name, err)
	}
	r.written.Wrote(name, merged.ResourceVersion)
	return nil
}
