package podprobemarker

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// Reconciler reports on PodProbeMarkers.
type Reconciler struct {
	*workload.Controller[*v1alpha1.PodProbeMarker, memory]
	refused *refusals
}

type memory struct{}

type pass = workload.Pass[*v1alpha1.PodProbeMarker, memory]

// scope is one pass over one marker.
type scope struct {
	*pass
	marker *v1alpha1.PodProbeMarker
	found  findings
}

// Add adds the controllers of PodProbeMarkers and of NodePodProbes to the manager.
func Add(ctx context.Context, env *workload.Env) error {
	r := &Reconciler{refused: newRefusals()}
	b := workload.For(env, workload.Kind[*v1alpha1.PodProbeMarker, memory]{
		GVK:     v1alpha1.PodProbeMarkerKind,
		New:     func() *v1alpha1.PodProbeMarker { return &v1alpha1.PodProbeMarker{} },
		NewList: func() client.ObjectList { return &v1alpha1.PodProbeMarkerList{} },
		Workers: 4, // most passes write nothing
		Phases: func(p *pass) []workload.Phase {
			return workload.Phases(&scope{pass: p, marker: p.Object}, r.gather, r.release, r.report)
		},
	}).ReadsPods(ctx)
	r.Controller = b.Controller
	b.Watches(&v1alpha1.NodePodProbe{}, handler.EnqueueRequestsFromMapFunc(ofNode))
	b.Watches(&v1alpha1.PodProbeMarker{}, handler.EnqueueRequestsFromMapFunc(besides(env.Manager.GetClient())),
		builder.WithPredicates(predicate.GenerationChangedPredicate{}))
	b.Watches(&corev1.Pod{}, ofPods(env.Manager.GetClient()))
	b.WatchesRawSource(source.Func(func(_ context.Context, q workload.Queue) error {
		r.refused.start(q)
		return nil
	}))
	if err := b.Complete(); err != nil {
		return err
	}
	return addNodes(env, r.refused)
}

// gather finds out which pods are probed, and what is in the way.
func (r *Reconciler) gather(ctx context.Context, s *scope) (bool, error) {
	if s.Leaving != nil {
		return true, nil
	}
	if err := r.gatherInvalid(ctx, s); err != nil {
		return false, err
	}
	selector, err := metav1.LabelSelectorAsSelector(s.marker.Spec.Selector)
	if err != nil || selector.Empty() {
		s.Stalled = &conditions.Cause{Reason: reasonInvalidSelector, Message: fmt.Sprintf(
			"spec.selector selects nothing that can be read, so no pod is probed; create another PodProbeMarker: %v", err)}
		return true, nil
	}
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.InNamespace(s.marker.Namespace),
		client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list the pods that it selects: %w", err)
	}
	byNode := map[string]*v1alpha1.NodePodProbe{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !probed(pod) {
			continue
		}
		node, known := byNode[pod.Spec.NodeName]
		if !known {
			node = &v1alpha1.NodePodProbe{}
			err := r.Client.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, node)
			if client.IgnoreNotFound(err) != nil {
				return false, fmt.Errorf("read NodePodProbe %s: %w", pod.Spec.NodeName, err)
			}
			byNode[pod.Spec.NodeName] = node
		}
		s.found.add(s.marker, pod, node, r.refused.of(pod))
	}
	return true, nil
}

// gatherInvalid finds out which marks of the marker no pod gets.
func (r *Reconciler) gatherInvalid(ctx context.Context, s *scope) error {
	if keys := invalidKeys(&s.marker.Spec); len(keys) > 0 {
		s.found.invalid = append(s.found.invalid, fmt.Sprintf("markerPolicy sets %s, which is left out: it is no key of a "+
			"label or annotation, or spec.selector selects by it; use another key", listed(keys)))
	}
	if len(markedKeys(&s.marker.Spec)) == 0 {
		return nil
	}
	var list v1alpha1.PodProbeMarkerList
	if err := r.Client.List(ctx, &list, client.InNamespace(s.marker.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the PodProbeMarkers of %s: %w", s.marker.Namespace, err)
	}
	all := make([]*v1alpha1.PodProbeMarker, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	if sentence := loopsOf(all).sentence(s.marker); sentence != "" {
		s.found.invalid = append(s.found.invalid, sentence)
	}
	return nil
}

// release takes the finalizer off that an OpenKruise manager put on a marker: what it left is taken back without it.
func (r *Reconciler) release(ctx context.Context, s *scope) (bool, error) {
	taken, err := workload.TakeFinalizer(ctx, r.Client, s.marker, v1alpha1.FinalizerNodePodProbe)
	return !taken, err
}
