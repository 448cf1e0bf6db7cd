package podprobemarker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/freshness"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/marks"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

const (
	// gatherEvents is how long events are gathered before a node is looked at: pods of a rollout come in numbers.
	gatherEvents = 50 * time.Millisecond
	// nodeWorkers is how many nodes are worked on at the same time.
	nodeWorkers = 8
	// labelType marks nodes without a kubelet of their own, as published: nothing is probed there.
	labelType, virtualKubelet = "type", "virtual-kubelet"
)

// nodes writes the NodePodProbe of each node, and marks the pods of the node with the results.
type nodes struct {
	client client.Client
	clock  clock.PassiveClock
	gate   workload.Gate
	pods   *podset.Source
	// fresh has the writes to pods that the cache has not shown, by the UID of the pod.
	fresh *freshness.Store
	// refused are the writes that were refused.
	refused *refusals
}

// addNodes adds the controller of nodes to the manager.
func addNodes(env *workload.Env, refused *refusals) error {
	mgr := env.Manager
	n := &nodes{client: mgr.GetClient(), clock: env.Clock, gate: env.Gate, pods: env.Pods,
		fresh: freshness.NewStore(env.Clock), refused: refused}
	pods := gathering(n.ofPod)
	pods.DeleteFunc = func(ctx context.Context, e event.DeleteEvent, q workload.Queue) {
		n.forget(e.Object.GetUID())
		gathering(n.ofPod).Delete(ctx, e, q)
	}
	err := ctrl.NewControllerManagedBy(mgr).Named("nodepodprobe").
		Watches(&v1alpha1.NodePodProbe{}, &handler.EnqueueRequestForObject{}).
		Watches(&v1alpha1.PodProbeMarker{}, gathering(n.ofMarker),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})). // not the status, which follows from the nodes
		Watches(&corev1.Pod{}, pods).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: nodeWorkers,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](workload.FirstBackoff,
				workload.LastBackoff),
		}).Complete(n)
	if err != nil {
		return fmt.Errorf("set up the controller of NodePodProbes: %w", err)
	}
	return nil
}

// gathering enqueues the nodes that names returns, a little later.
func gathering(names func(context.Context, client.Object) []string) handler.Funcs {
	add := func(ctx context.Context, object client.Object, q workload.Queue) {
		for _, name := range names(ctx, object) {
			q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}, gatherEvents)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q workload.Queue) { add(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workload.Queue) {
			add(ctx, e.ObjectOld, q)
			add(ctx, e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q workload.Queue) { add(ctx, e.Object, q) },
	}
}

// ofPod returns the node of a pod that is probed or marked.
func (n *nodes) ofPod(ctx context.Context, object client.Object) []string {
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return nil
	}
	if _, marked := pod.Annotations[v1alpha1.AnnotationProbeMarks]; marked {
		return []string{pod.Spec.NodeName}
	}
	markers, err := n.markers(ctx, pod.Namespace)
	selected := slices.ContainsFunc(markers, func(m *v1alpha1.PodProbeMarker) bool { return selects(m, pod.Labels) })
	if err != nil || selected {
		return []string{pod.Spec.NodeName}
	}
	return nil
}

// ofMarker returns the nodes whose pods a marker selects, and those that have probes or marks of it.
func (n *nodes) ofMarker(ctx context.Context, object client.Object) (out []string) {
	marker, ok := object.(*v1alpha1.PodProbeMarker)
	if !ok {
		return nil
	}
	found := map[string]bool{}
	var pods corev1.PodList
	// An error is not retried: the cache always lists.
	_ = n.client.List(ctx, &pods, client.InNamespace(marker.Namespace), client.UnsafeDisableDeepCopy)
	for i := range pods.Items {
		pod := &pods.Items[i]
		if _, marked := pod.Annotations[v1alpha1.AnnotationProbeMarks]; marked || selects(marker, pod.Labels) {
			found[pod.Spec.NodeName] = true
		}
	}
	var list v1alpha1.NodePodProbeList
	_ = n.client.List(ctx, &list, client.UnsafeDisableDeepCopy)
	for i := range list.Items {
		if hasProbes(&list.Items[i], marker.Namespace, marker.Name) {
			found[list.Items[i].Name] = true
		}
	}
	delete(found, "")
	for name := range found {
		out = append(out, name)
	}
	return out
}

// hasProbes reports whether a NodePodProbe has probes of the marker.
func hasProbes(object *v1alpha1.NodePodProbe, namespace, marker string) bool {
	return slices.ContainsFunc(object.Spec.PodProbes, func(p v1alpha1.PodProbe) bool {
		return p.Namespace == namespace && slices.ContainsFunc(p.Probes,
			func(c v1alpha1.ContainerProbe) bool { return markerOf(c.Name) == marker })
	})
}

// markers returns the markers of a namespace that are carried out here, the oldest first. They are the cache's.
func (n *nodes) markers(ctx context.Context, namespace string) ([]*v1alpha1.PodProbeMarker, error) {
	var list v1alpha1.PodProbeMarkerList
	if err := n.client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the PodProbeMarkers of %s: %w", namespace, err)
	}
	var out []*v1alpha1.PodProbeMarker
	for i := range list.Items {
		federated := false
		if n.gate != nil {
			var err error
			if federated, err = n.gate.Federated(ctx, &list.Items[i]); err != nil {
				return nil, fmt.Errorf("ask whether a hub places PodProbeMarker %s: %w", list.Items[i].Name, err)
			}
		}
		if !federated {
			out = append(out, &list.Items[i])
		}
	}
	sortByAge(out)
	return out, nil
}

// Reconcile writes the NodePodProbe of a node and marks its pods.
func (n *nodes) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	pods, err := n.pods.OnNode(request.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	object := &v1alpha1.NodePodProbe{}
	if err := n.client.Get(ctx, request.NamespacedName, object); err != nil {
		if !apierrors.IsNotFound(err) {
			return ctrl.Result{}, fmt.Errorf("read NodePodProbe %s: %w", request.Name, err)
		}
		object = nil
	}
	byNamespace := map[string][]*v1alpha1.PodProbeMarker{}
	for _, pod := range pods {
		if _, known := byNamespace[pod.Namespace]; known {
			continue
		}
		if byNamespace[pod.Namespace], err = n.markers(ctx, pod.Namespace); err != nil {
			return ctrl.Result{}, err
		}
	}
	want, cut := specOf(pods, byNamespace)
	n.refused.wake(cut...)
	err = n.write(ctx, request.Name, object, want)
	if n.refused.node(request.Name, err) {
		for _, pod := range pods {
			n.wake(pod, byNamespace[pod.Namespace])
		}
	}
	wait, markErr := n.mark(ctx, pods, byNamespace, object)
	if err := errors.Join(err, markErr); err != nil {
		return ctrl.Result{}, fmt.Errorf("reconcile NodePodProbe %s: %w", request.Name, err)
	}
	return ctrl.Result{RequeueAfter: wait}, nil
}

// write brings the NodePodProbe to these pods. One without pods is not created, and one that exists stays, empty, until
// its node goes.
func (n *nodes) write(
	ctx context.Context, name string, have *v1alpha1.NodePodProbe, want []v1alpha1.PodProbe,
) error {
	switch {
	case have == nil && len(want) == 0:
		return nil
	case have == nil:
		return n.create(ctx, name, want)
	case equality.Semantic.DeepEqual(have.Spec.PodProbes, want):
		return nil
	}
	if want == nil {
		want = []v1alpha1.PodProbe{}
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": have.UID, "resourceVersion": have.ResourceVersion},
		"spec":     map[string]any{"podProbes": want},
	})
	if err != nil {
		return fmt.Errorf("encode its probes: %w", err)
	}
	target := &v1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: name}}
	err = n.client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), workload.FieldOwner)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write its probes: %w", err)
	}
	return nil
}

// create creates the NodePodProbe of a node that exists. The garbage collector deletes it with the node.
func (n *nodes) create(ctx context.Context, name string, want []v1alpha1.PodProbe) error {
	node := &corev1.Node{}
	if err := n.client.Get(ctx, types.NamespacedName{Name: name}, node); err != nil {
		return client.IgnoreNotFound(err)
	}
	if node.Labels[labelType] == virtualKubelet {
		return nil
	}
	object := &v1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: name,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: node.UID}}}}
	object.Spec.PodProbes = want
	if err := n.client.Create(ctx, object, workload.FieldOwner); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create it: %w", err)
	}
	return nil // one that is there comes with the next event of the cache
}

// mark marks the pods of a node. It returns when to look again at pods whose marks the cache does not show yet.
func (n *nodes) mark(
	ctx context.Context, pods []*corev1.Pod, markers map[string][]*v1alpha1.PodProbeMarker,
	object *v1alpha1.NodePodProbe,
) (wait time.Duration, err error) {
	found := resultsOf(object)
	var errs []error
	for _, pod := range pods {
		if !probed(pod) || len(markers[pod.Namespace]) == 0 && !marked(pod) {
			n.forget(pod.UID)
			continue
		}
		fresh, overdue := n.fresh.Fresh(pod.UID, n.pods.Get)
		if !fresh && len(overdue) == 0 {
			wait = freshness.RetryAfter
			continue
		}
		if len(overdue) > 0 {
			n.fresh.Forget(pod.UID) // another write says the same, and that costs nothing but the request
		}
		change, err := markOf(pod, markers[pod.Namespace], found[pod.UID], n.clock.Now())
		if err == nil && !change.empty() {
			err = n.patch(ctx, pod, &change)
		}
		if n.refused.pod(pod.UID, err) {
			n.wake(pod, markers[pod.Namespace])
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("mark pod %s: %w", client.ObjectKeyFromObject(pod), err))
		}
	}
	return wait, errors.Join(errs...)
}

// forget drops what is known of the writes to a pod that is gone, or has no marks.
func (n *nodes) forget(pod types.UID) {
	n.fresh.Forget(pod)
	n.refused.pod(pod, nil)
}

// wake makes the markers that select a pod report.
func (n *nodes) wake(pod *corev1.Pod, markers []*v1alpha1.PodProbeMarker) {
	for _, one := range markers {
		if selects(one, pod.Labels) {
			n.refused.wake(client.ObjectKeyFromObject(one))
		}
	}
}

func marked(pod *corev1.Pod) bool {
	record, err := marks.Of(pod)
	return err != nil || record != nil
}

// resultsOf returns the results of a NodePodProbe by pods.
func resultsOf(object *v1alpha1.NodePodProbe) map[types.UID]results {
	out := map[types.UID]results{}
	if object == nil {
		return out
	}
	for i := range object.Status.PodProbeStatuses {
		status := &object.Status.PodProbeStatuses[i]
		states := results{}
		for _, state := range status.ProbeStates {
			states[state.Name] = state
		}
		out[status.UID] = states
	}
	return out
}

func (n *nodes) patch(ctx context.Context, pod *corev1.Pod, change *change) error {
	body, err := change.patch(pod)
	if err != nil {
		return err
	}
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	raw := client.RawPatch(types.StrategicMergePatchType, body)
	if err := n.client.Status().Patch(ctx, target, raw, workload.FieldOwner); err != nil {
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil // another pod has the name
		}
		return err
	}
	n.fresh.Changed(pod.UID, client.ObjectKeyFromObject(pod), target.ResourceVersion)
	return nil
}
