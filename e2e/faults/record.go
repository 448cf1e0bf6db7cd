package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// recorder watches the API server itself and keeps every version of the pods and CloneSets of one namespace.
// The watcher of e2e/harness knows pods only, and not their order against the specs, which this one needs.
type recorder struct {
	client client.WithWatch

	mu      sync.Mutex
	history []occurrence
	// pods are the last versions, to know what a new one changed.
	pods map[types.UID]*corev1.Pod
	sets map[types.UID]string // the last version of each
	// hand are the pods that the user deleted or evicted.
	hand map[types.UID]bool
	err  error
}

func newRecorder(c client.WithWatch) *recorder {
	return &recorder{client: c, pods: map[types.UID]*corev1.Pod{}, sets: map[types.UID]string{}, hand: map[types.UID]bool{}}
}

// byHand notes that the user is about to delete or evict the pod.
func (r *recorder) byHand(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hand[uid] = true
}

// start begins to record, in a namespace that is still empty, and goes on until ctx ends.
func (r *recorder) start(ctx context.Context) error {
	for _, list := range []client.ObjectList{&corev1.PodList{}, &v1beta1.CloneSetList{}} {
		if err := r.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("record %T: %w", list, err)
		}
		events, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), watchFunc(
			func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return r.client.Watch(ctx, list, client.InNamespace(namespace), &client.ListOptions{Raw: &options})
			}))
		if err != nil {
			return fmt.Errorf("record %T: %w", list, err)
		}
		go func() {
			for event := range events.ResultChan() {
				r.record(event)
			}
		}()
	}
	return nil
}

// watchFunc is a watch of a kind, as client-go's RetryWatcher wants it.
type watchFunc func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)

// WatchWithContext calls the function.
func (f watchFunc) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return f(ctx, options)
}

func (r *recorder) record(event watch.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch object := event.Object.(type) {
	case *corev1.Pod:
		r.recordPod(object, event.Type == watch.Deleted)
	case *v1beta1.CloneSet:
		r.recordSet(object)
	default:
		r.err = fmt.Errorf("the recorder's watch broke: %w", apierrors.FromObject(event.Object))
	}
}

func (r *recorder) recordPod(pod *corev1.Pod, gone bool) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return
	}
	before := r.pods[pod.UID]
	state := podState{
		uid: pod.UID, owner: owner.UID, name: pod.Name,
		active: podstate.Active(pod) && !gone, available: serves(pod) && !gone,
	}
	o := occurrence{version: versionOf(pod), at: time.Now(), pod: &state, gone: gone}
	if before != nil && serves(before) && !state.available {
		o.cause, state.how = r.blame(pod, gone)
	}
	if gone {
		delete(r.pods, pod.UID)
	} else {
		r.pods[pod.UID] = pod
	}
	r.history = append(r.history, o)
}

// serves tells whether a pod without minReadySeconds counts as available. One that waits for a restart with another
// image does not: nobody but us changes images.
func serves(pod *corev1.Pod) bool {
	available, _ := podstate.Available(pod, 0, time.Time{})
	return available && podstate.Active(pod) && !restarts(pod)
}

func restarts(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
			return s.Name == c.Name && s.Image != c.Image
		})
	})
}

// blame says who took away a pod's availability, and how. Only the user ends pods from outside, and says so before.
func (r *recorder) blame(pod *corev1.Pod, gone bool) (who cause, how string) {
	gate := podstate.Condition(pod, v1beta1.InPlaceUpdateReady)
	switch {
	case r.hand[pod.UID]:
		return byUser, "deleted or evicted"
	case gone || pod.DeletionTimestamp != nil:
		return byUs, "deleted"
	case gate != nil && gate.Status != corev1.ConditionTrue:
		return byUs, "gate shut"
	case restarts(pod):
		return byUs, "new image with an open gate"
	default:
		return byItself, "not ready any more"
	}
}

func (r *recorder) recordSet(cs *v1beta1.CloneSet) {
	r.sets[cs.UID] = cs.ResourceVersion
	r.history = append(r.history, occurrence{version: versionOf(cs), at: time.Now(), set: &setState{
		uid: cs.UID, name: cs.Name, spec: specOf(cs), observed: cs.Status.ObservedGeneration,
	}})
}

// specOf resolves the limits of a CloneSet.
func specOf(cs *v1beta1.CloneSet) spec {
	strategy := budget.Strategy{}
	if rolling := cs.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
		strategy.MaxUnavailable, strategy.MaxSurge, strategy.Paused = rolling.MaxUnavailable, rolling.MaxSurge, rolling.Paused
	}
	replicas := ptr.Deref(cs.Spec.Replicas, 1)
	limits, err := budget.Resolve(strategy, replicas)
	if err != nil {
		panic(fmt.Sprintf("the script wrote a strategy that means nothing: %v", err))
	}
	return spec{generation: cs.Generation, replicas: replicas, maxUnavailable: limits.MaxUnavailable, maxSurge: limits.MaxSurge}
}

func versionOf(object client.Object) uint64 {
	version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		panic(fmt.Sprintf("an API server on etcd counts its versions: %v", err))
	}
	return version
}

// behind says in what the recorder's picture differs from what the API server has, or "".
func (r *recorder) behind(pods []corev1.Pod, sets []v1beta1.CloneSet) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err.Error()
	}
	var missing []string
	for i := range pods {
		if have := r.pods[pods[i].UID]; have == nil || have.ResourceVersion != pods[i].ResourceVersion {
			missing = append(missing, "pod "+pods[i].Name)
		}
	}
	for i := range sets {
		if r.sets[sets[i].UID] != sets[i].ResourceVersion {
			missing = append(missing, "CloneSet "+sets[i].Name)
		}
	}
	if len(r.pods) != len(pods) {
		missing = append(missing, fmt.Sprintf("%d of %d pods", len(r.pods), len(pods)))
	}
	return strings.Join(missing, ", ")
}

// drain returns the history since the last time, in the order of its versions. Call it when nothing is behind.
func (r *recorder) drain() []occurrence {
	r.mu.Lock()
	defer r.mu.Unlock()
	history := r.history
	r.history = nil
	slices.SortStableFunc(history, func(a, b occurrence) int { return cmp.Compare(a.version, b.version) })
	return history
}
