package uniteddeployment

import (
	"context"
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/waits"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// Add adds the controller of UnitedDeployments to the manager.
func Add(ctx context.Context, env *workload.Env) error {
	indexer := env.Manager.GetFieldIndexer()
	if err := errors.Join(indexChildren(ctx, indexer), indexPods(ctx, indexer)); err != nil {
		return err
	}
	r := &reconciler{cluster: env.ClusterName}
	b := workload.For(env, r.kind()).OwnsRevisions(ctx)
	r.Controller = b.Controller
	// Events of its own status pass too: a pass that saw an old status in the cache is followed by one that sees the new.
	b.Owns(&kruise.CloneSet{}).
		Owns(&appsv1.Deployment{}).
		Owns(&appsv1.StatefulSet{}).
		Owns(&kruise.StatefulSet{}).
		Watches(&corev1.Pod{}, podEvents{client: env.Manager.GetClient()})
	return b.Complete()
}

func (r *reconciler) kind() workload.Kind[*kruise.UnitedDeployment, memory] {
	return workload.Kind[*kruise.UnitedDeployment, memory]{
		GVK:     kruise.UnitedDeploymentKind,
		New:     func() *kruise.UnitedDeployment { return &kruise.UnitedDeployment{} },
		NewList: func() client.ObjectList { return &kruise.UnitedDeploymentList{} },
		// A pass costs a few reads from the cache and one request per child that changes, so a few keep an API server busy.
		Workers: 4,
		Phases:  r.phases,
	}
}

// gatherEvents is how long events of pods are gathered before a pass: those of one scale-out come within moments.
const gatherEvents = 50 * time.Millisecond

// podEvents puts the UnitedDeployment of a pod into the queue when something changes that the strategy Adaptive asks
// for.
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
		unschedulable: podstate.Unschedulable(pod), leaving: !podstate.Active(pod),
		reserved: reserved, ready: reserved && podstate.Ready(pod),
		failing: waits.Failing(pod) != "", started: hasReadyContainers(pod),
	}
}

func hasReadyContainers(pod *corev1.Pod) bool {
	c := podstate.Condition(pod, corev1.ContainersReady)
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
