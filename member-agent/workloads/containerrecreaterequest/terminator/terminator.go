// Package terminator stops the sidecars of pods whose main containers have ended, so that jobs end.
//
// A container is a sidecar if its variable KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT is "true". Pods with restartPolicy
// Always have none.
//
//	restartPolicy Never      a ContainerRecreateRequest has the daemon of the node stop the sidecars. One whose variable
//	                         KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE is "true" waits for the others, and then
//	                         the pod ends by its phase. A request that ends while sidecars still run is made again
//	restartPolicy OnFailure  the pod ends by its phase: the kubelet would start a sidecar again that a signal ended
//
// A pod that ends by its phase gets the condition SidecarTerminated and the phase Succeeded or Failed. The kubelet then
// stops what still runs, with hooks and grace period, and starts nothing again.
package terminator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
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

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// The variables of a sidecar.
const (
	envTerminate = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT"
	envIgnore    = "KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE"
)

// The condition of a pod that ends by its phase.
const (
	conditionTerminated = "SidecarTerminated"
	reason              = "SidecarTerminator"
	message             = "Terminated by Sidecar Terminator"
)

// requestPrefix begins the names of the requests that stop sidecars. The UID of the pod follows.
const requestPrefix = "sidecar-termination-"

// firstRetry and lastRetry bound how long after its end a request is made again whose sidecars still run.
const (
	firstRetry = 30 * time.Second
	lastRetry  = 5 * time.Minute
)

// decision is what becomes of a pod.
type decision struct {
	// stop are the sidecars to stop by a request.
	stop []string
	// phase ends the pod; empty: it goes on.
	phase corev1.PodPhase
}

// decide returns what becomes of the pod.
func decide(pod *corev1.Pod) (d decision) {
	if !mayEnd(pod) {
		return decision{}
	}
	ended := map[string]*corev1.ContainerStateTerminated{}
	for i := range pod.Status.ContainerStatuses {
		ended[pod.Status.ContainerStatuses[i].Name] = pod.Status.ContainerStatuses[i].State.Terminated
	}
	retries := pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure
	mains, ignored, phase := 0, 0, corev1.PodSucceeded
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		state := ended[c.Name]
		switch {
		case !isTrue(c, envTerminate):
			mains++
			if state == nil || retries && state.ExitCode != 0 {
				return decision{} // a main container runs, or runs again
			}
			if state.ExitCode != 0 {
				phase = corev1.PodFailed
			}
		case state != nil && !retries:
		case retries || isTrue(c, envIgnore):
			ignored++
		default:
			d.stop = append(d.stop, c.Name)
		}
	}
	return d.of(mains, ignored, phase)
}

// of completes the decision about a pod with so many main containers, which have ended, and sidecars that are ignored.
func (d decision) of(mains, ignored int, phase corev1.PodPhase) decision {
	switch {
	case mains == 0:
		return decision{}
	case len(d.stop) == 0 && ignored > 0:
		d.phase = phase
	}
	return d
}

// endedAt returns when the last main container of the pod ended, by the clock of its node.
func endedAt(pod *corev1.Pod) (last time.Time) {
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		main := slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
			return c.Name == status.Name && !isTrue(&c, envTerminate)
		})
		if t := status.State.Terminated; main && t != nil && t.FinishedAt.After(last) {
			last = t.FinishedAt.Time
		}
	}
	return last
}

// retryIn returns how long to wait until a request that has ended is made again, because sidecars of the pod still
// run; 0: now. The wait is as long as the time from the end of the main containers to that of the request. So waits
// double without a count, which a restart of the agent would lose. The first one also lets the kubelet report what has
// stopped.
func retryIn(pod *corev1.Pod, request *v1beta1.ContainerRecreateRequest, now time.Time) time.Duration {
	end := request.CreationTimestamp.Time
	if request.Status.CompletionTime != nil {
		end = request.Status.CompletionTime.Time
	}
	wait := min(max(end.Sub(endedAt(pod)), firstRetry), lastRetry)
	return max(min(wait, wait-now.Sub(end)), 0)
}

// mayEnd reports whether the pod runs, and ends with its containers.
func mayEnd(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning &&
		pod.Spec.RestartPolicy != corev1.RestartPolicyAlways
}

// isTrue reports whether a variable of the container is "true".
func isTrue(c *corev1.Container, name string) bool {
	return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == name && e.Value == "true" })
}

// sidecars reports whether the terminator may have to do with the pod.
func sidecars(object client.Object) bool {
	pod, ok := object.(*corev1.Pod)
	return ok && pod.Spec.RestartPolicy != corev1.RestartPolicyAlways && pod.Status.Phase == corev1.PodRunning &&
		slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return isTrue(&c, envTerminate) })
}

// requestEnded passes requests of the terminator that have ended or are gone.
func requestEnded() predicate.Predicate {
	own := func(object client.Object) bool { return strings.HasPrefix(object.GetName(), requestPrefix) }
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			request, ok := e.ObjectNew.(*v1beta1.ContainerRecreateRequest)
			return ok && own(request) && request.Status.Phase == v1beta1.CRRCompleted
		},
		DeleteFunc: func(e event.DeleteEvent) bool { return own(e.Object) },
	}
}

// podOfRequest returns the pod of a request.
func podOfRequest(_ context.Context, object client.Object) []reconcile.Request {
	request, ok := object.(*v1beta1.ContainerRecreateRequest)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: request.Namespace,
		Name: request.Spec.PodName}}}
}

// terminator carries decisions out.
type terminator struct {
	client client.Client
	events events.EventRecorder
	clock  clock.PassiveClock
}

// workers is how many pods are worked on at the same time.
const workers = 4

// Add adds the controller of sidecars to the manager.
func Add(env *workload.Env) error {
	t := &terminator{client: env.Manager.GetClient(), clock: env.Clock,
		events: env.Manager.GetEventRecorder("flotilla-sidecarterminator")}
	if t.clock == nil {
		t.clock = clock.RealClock{}
	}
	err := ctrl.NewControllerManagedBy(env.Manager).Named("sidecarterminator").
		Watches(&corev1.Pod{}, &handler.EnqueueRequestForObject{},
			builder.WithPredicates(predicate.NewPredicateFuncs(sidecars))).
		Watches(&v1beta1.ContainerRecreateRequest{}, handler.EnqueueRequestsFromMapFunc(podOfRequest),
			builder.WithPredicates(requestEnded())).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](workload.FirstBackoff,
				workload.LastBackoff),
		}).
		Complete(t)
	if err != nil {
		return fmt.Errorf("set up the terminator of sidecars: %w", err)
	}
	return nil
}

// Reconcile makes one pass over a pod.
func (t *terminator) Reconcile(ctx context.Context, of reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := t.client.Get(ctx, of.NamespacedName, pod); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	d := decide(pod)
	switch {
	case len(d.stop) > 0:
		return t.request(ctx, pod, d.stop)
	case d.phase != "":
		return reconcile.Result{}, t.end(ctx, pod, d.phase)
	}
	return reconcile.Result{}, nil
}

// request makes the request that stops the sidecars. It is made again when one has ended that did not stop them, as
// without the daemon.
func (t *terminator) request(ctx context.Context, pod *corev1.Pod, containers []string) (reconcile.Result, error) {
	// A request of that name in the cache spares the attempt at each event of the pod.
	made := &v1beta1.ContainerRecreateRequest{}
	key := client.ObjectKey{Namespace: pod.Namespace, Name: requestPrefix + string(pod.UID)}
	switch err := t.client.Get(ctx, key, made); {
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, t.create(ctx, pod, containers)
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("read ContainerRecreateRequest %s: %w", key.Name, err)
	case made.Status.Phase != v1beta1.CRRCompleted || made.DeletionTimestamp != nil:
		return reconcile.Result{}, nil
	}
	if wait := retryIn(pod, made, t.clock.Now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	return reconcile.Result{}, t.retry(ctx, pod, made, containers)
}

// retry deletes a request that has ended while sidecars still run. Its end leads to a pass that makes it again.
func (t *terminator) retry(ctx context.Context, pod *corev1.Pod, made *v1beta1.ContainerRecreateRequest,
	containers []string) error {
	err := t.client.Delete(ctx, made, client.Preconditions{UID: &made.UID})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case err != nil:
		return fmt.Errorf("delete ContainerRecreateRequest %s, which has ended, to make it again: %w", made.Name, err)
	}
	t.events.Eventf(pod, nil, corev1.EventTypeWarning, reason, "Terminate", "%s", workload.Note(fmt.Errorf(
		"the main containers have ended, and %v still run: ContainerRecreateRequest %s is made again, because it ended "+
			"with: %s", containers, made.Name, endOf(made))))
	return nil
}

// endOf says how a request has ended: why a container could not be stopped, or else its message.
func endOf(request *v1beta1.ContainerRecreateRequest) string {
	for i := range request.Status.ContainerRecreateStates {
		if state := &request.Status.ContainerRecreateStates[i]; state.Message != "" {
			return state.Name + ": " + state.Message
		}
	}
	return request.Status.Message
}

// create makes the request.
func (t *terminator) create(ctx context.Context, pod *corev1.Pod, containers []string) error {
	request := &v1beta1.ContainerRecreateRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: requestPrefix + string(pod.UID),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
		},
		Spec: v1beta1.ContainerRecreateRequestSpec{PodName: pod.Name, Strategy: &v1beta1.ContainerRecreateRequestStrategy{
			FailurePolicy: v1beta1.CRRIgnore, ForceRecreate: true,
		}},
	}
	for _, name := range containers {
		request.Spec.Containers = append(request.Spec.Containers,
			v1beta1.ContainerRecreateRequestContainer{Name: name})
	}
	err := t.client.Create(ctx, request, workload.FieldOwner)
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil
	case err != nil:
		t.events.Eventf(pod, nil, corev1.EventTypeWarning, reason, "Terminate", "%s", workload.Note(err))
		return fmt.Errorf("request the end of the sidecars of pod %s: %w", pod.Name, err)
	}
	t.events.Eventf(pod, nil, corev1.EventTypeNormal, reason, "Terminate",
		"The main containers have ended: ContainerRecreateRequest %s stops %v", request.Name, containers)
	return nil
}

// end ends the pod by its phase. The kubelet stops what still runs.
func (t *terminator) end(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion},
		"status": map[string]any{"phase": phase, "conditions": []any{map[string]any{
			"type": conditionTerminated, "status": corev1.ConditionTrue, "reason": reason, "message": message,
			"lastTransitionTime": t.clock.Now().UTC().Format(time.RFC3339),
		}}},
	})
	if err != nil {
		return fmt.Errorf("encode the end of pod %s: %w", pod.Name, err)
	}
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	err = t.client.Status().Patch(ctx, target, client.RawPatch(types.StrategicMergePatchType, patch), workload.FieldOwner)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("end pod %s, whose main containers have ended: %w", pod.Name, err)
	}
	t.events.Eventf(pod, nil, corev1.EventTypeNormal, reason, "Terminate",
		"The main containers have ended: the pod is %s, and its sidecars stop", phase)
	return nil
}
