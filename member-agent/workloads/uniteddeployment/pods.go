package uniteddeployment

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/counts"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/waits"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// podIndex is the cache index of pods by their child, "<kind>/<name>". Only pods with the label of a subset are in it.
const podIndex = "uniteddeployment.child"

// gatherEvents is how long events of pods are gathered before a pass: those of one scale-out come within moments.
const gatherEvents = 50 * time.Millisecond

func indexPods(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &corev1.Pod{}, podIndex, func(pod client.Object) []string {
		if k, name, ok := childOfPod(pod); ok {
			return []string{podKey(k, name)}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("index pods by the child of a UnitedDeployment: %w", err)
	}
	return nil
}

func podKey(k kind, name string) string { return string(k) + "/" + name }

// childOfPod returns the kind and the name of the child that a pod belongs to; ok is false for pods of no subset. Pods of a
// Deployment belong to its ReplicaSets, whose names are the Deployment's and the hash that their pods have as a label.
func childOfPod(pod client.Object) (k kind, name string, ok bool) {
	labels, ref := pod.GetLabels(), metav1.GetControllerOfNoCopy(pod)
	if ref == nil || labels[kruise.LabelSubset] == "" {
		return "", "", false
	}
	own := ref.APIVersion == appsv1.SchemeGroupVersion.String()
	switch {
	case ref.Kind == "ReplicaSet" && own:
		name, ok = strings.CutSuffix(ref.Name, "-"+labels[appsv1.DefaultDeploymentUniqueLabelKey])
		return deploymentKind, name, ok
	case ref.Kind == string(statefulSetKind) && own:
		return statefulSetKind, ref.Name, true
	case ref.Kind == string(cloneSetKind):
		return cloneSetKind, ref.Name, true
	}
	return "", "", false
}

// podsOf returns the pods of a child that are neither finished nor being deleted. They are the cache's and must not be
// changed.
func (r *reconciler) podsOf(ctx context.Context, c *child) ([]*corev1.Pod, error) {
	pods, err := r.allPodsOf(ctx, c)
	return slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return !counts.Active(pod) }), err
}

// allPodsOf returns the pods of a child, also those that are finished or being deleted.
func (r *reconciler) allPodsOf(ctx context.Context, c *child) ([]*corev1.Pod, error) {
	var list corev1.PodList
	err := r.Client.List(ctx, &list, client.InNamespace(c.object.GetNamespace()),
		client.MatchingFields{podIndex: podKey(c.kind, c.object.GetName())}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list pods of %s: %w", c.name(), err)
	}
	pods := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		pod := &list.Items[i]
		if c.kind == deploymentKind || metav1.IsControlledBy(pod, c.object) {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

// gatherPods returns the pods of the children by their uid, where the strategy or what a hub lends asks for them, or an earlier
// strategy did.
func (r *reconciler) gatherPods(ctx context.Context, s *scope, children []child) (map[types.UID][]*corev1.Pod, error) {
	ud := s.ud
	if scheduleOf(ud) == nil && ud.Status.ReservedPods == 0 && !countsOrdinals(ud) {
		return nil, nil
	}
	pods := make(map[types.UID][]*corev1.Pod, len(children))
	for i := range children {
		c := &children[i]
		found, err := r.podsOf(ctx, c)
		if err != nil {
			return nil, err
		}
		pods[c.object.GetUID()] = found
	}
	s.Memory.keepMarks(pods)
	return pods, nil
}

// placing is how the pods of a child stand with the scheduler.
type placing struct {
	// stuck is how many of the pods that the child is to have have waited for a node for too long. A pod that it has beyond
	// them, as during a surge, may wait.
	stuck int32
	// holds is the most pods that the child has if none of the stuck ones is kept, at most what it is to have.
	holds int32
	// lacking is how many of the pods that the child is to have are without a node: stuck, new, or not made yet.
	lacking int32
	// unbound is how many of these wait for a node, or will: not those that something else keeps from being made.
	unbound int32
	// next is how long until another pod counts as stuck; 0 if no pod waits.
	next time.Duration
}

// place says how the pods of a child stand. A pod is stuck once it is critical old and the scheduler finds no node for it.
func place(c *child, pods []*corev1.Pod, critical time.Duration, now time.Time) placing {
	p := placing{holds: c.replicas}
	var stuck, top, bound int32
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			bound++
		}
		is, after := spread.Stuck(pod, critical, now)
		p.next = counts.Sooner(p.next, after)
		if is {
			stuck++
			continue
		}
		top = max(top, rank(c, pod)+1)
	}
	active := int32(len(pods))
	p.stuck = max(0, stuck-max(0, active-c.replicas))
	p.lacking = max(0, c.replicas-bound)
	if p.unbound = p.lacking; keptFromPods(c, pods) {
		p.unbound = min(p.lacking, active-bound)
	}
	switch {
	case p.stuck == 0:
	case c.kind == statefulSetKind:
		// A StatefulSet gives up its highest pods first: those below one that has a node cannot be taken away.
		p.holds = min(c.replicas, top)
	default:
		// A pod that an update has just deleted comes again, and keeps its place.
		p.holds = min(c.replicas, max(c.replicas, active)-stuck)
	}
	return p
}

// keptFromPods reports whether the child's controller makes no pods for another reason than that it has just deleted some: the
// API server refuses them, or a pod of a StatefulSet that has a node comes first and is not Ready.
func keptFromPods(c *child, pods []*corev1.Pod) bool {
	if c.failed != nil {
		return true
	}
	set, ok := c.object.(*appsv1.StatefulSet)
	return ok && inOrder(set) && slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		return pod.Spec.NodeName != "" && !counts.Ready(pod)
	})
}

// rank returns the place of a StatefulSet's pod in the order in which they are made, from 0; 0 for pods of other kinds.
func rank(c *child, pod *corev1.Pod) int32 {
	set, ok := c.object.(*appsv1.StatefulSet)
	if !ok {
		return 0
	}
	return max(0, int32(position(set, pod)))
}

// podEvents puts the UnitedDeployment of a pod into the queue when something changes that the strategy Adaptive asks for.
type podEvents struct{ client client.Reader }

var _ handler.EventHandler = podEvents{}

// Create handles a pod that came.
func (h podEvents) Create(ctx context.Context, e event.CreateEvent, q workload.Queue) {
	if facetsOf(e.Object).unschedulable {
		h.add(ctx, e.Object, q)
	}
}

// Update handles a pod that changed.
func (h podEvents) Update(ctx context.Context, e event.UpdateEvent, q workload.Queue) {
	if facetsOf(e.ObjectOld) != facetsOf(e.ObjectNew) {
		h.add(ctx, e.ObjectNew, q)
	}
}

// Delete handles a pod that is gone.
func (h podEvents) Delete(ctx context.Context, e event.DeleteEvent, q workload.Queue) {
	if f := facetsOf(e.Object); f.unschedulable || f.reserved {
		h.add(ctx, e.Object, q)
	}
}

// Generic is not used.
func (podEvents) Generic(context.Context, event.GenericEvent, workload.Queue) {}

// facets are what of a pod decides the state of its subset, and what its child waits for.
type facets struct {
	unschedulable, leaving, reserved, ready bool
	failing                                 bool // a container of it cannot start, or ends again and again
	started                                 bool // all its containers are ready
}

func facetsOf(object client.Object) facets {
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.Labels[kruise.LabelSubset] == "" {
		return facets{}
	}
	reserved := pod.Labels[LabelReservedPod] == reservedValue
	return facets{
		unschedulable: counts.Unschedulable(pod), leaving: !counts.Active(pod),
		reserved: reserved, ready: reserved && counts.Ready(pod),
		failing: waits.Failing(pod) != "", started: hasReadyContainers(pod),
	}
}

func hasReadyContainers(pod *corev1.Pod) bool {
	c := counts.Condition(pod, corev1.ContainersReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

func (h podEvents) add(ctx context.Context, pod client.Object, q workload.Queue) {
	k, name, ok := childOfPod(pod)
	if !ok {
		return
	}
	object := emptyOf(k)
	if h.client.Get(ctx, client.ObjectKey{Namespace: pod.GetNamespace(), Name: name}, object) != nil {
		return // the child's own event comes later
	}
	ref := metav1.GetControllerOfNoCopy(object)
	if ref == nil || ref.Kind != kruise.UnitedDeploymentKind.Kind {
		return
	}
	ud := &kruise.UnitedDeployment{}
	key := client.ObjectKey{Namespace: pod.GetNamespace(), Name: ref.Name}
	if h.client.Get(ctx, key, ud) != nil || scheduleOf(ud) == nil && k != statefulSetKind {
		return // gone, or Fixed, and its children tell what their pods wait for
	}
	q.AddAfter(reconcile.Request{NamespacedName: key}, gatherEvents)
}
