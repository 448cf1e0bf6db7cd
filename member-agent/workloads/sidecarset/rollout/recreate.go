package rollout

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/marks"
)

// owners are the kinds that create a pod again which was evicted, by their groups. Jobs are not among them: they count
// it as a failure, and its work is lost.
func owners() map[string][]string {
	kinds := []string{"StatefulSet", "DaemonSet"}
	return map[string][]string{"apps": append(kinds, "ReplicaSet"), "apps.kruise.io": append(kinds, "CloneSet")}
}

// Owner returns the controller that creates the pod again if it is evicted, nil if none does.
func Owner(pod *corev1.Pod) *metav1.OwnerReference {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return nil
	}
	group := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).Group
	if !slices.Contains(owners()[group], ref.Kind) {
		return nil
	}
	return ref
}

// Workload is what decides whether one of its pods may be evicted.
type Workload struct {
	// Name is its kind and name.
	Name string
	// Desired is how many pods it is to have, Ready how many of them its controller reports as ready.
	Desired, Ready int64
	// Waits says why no pod may go now; "" if nothing speaks against it.
	Waits string
	// Labels and Annotations are those of its template. Generation counts its changes.
	Labels, Annotations map[string]string
	Generation          int64
}

// WorkloadOf returns what an object of one of the kinds, or a Deployment, says of its pods.
func WorkloadOf(object *unstructured.Unstructured) Workload {
	number := func(absent int64, path ...string) int64 {
		if value, has, err := unstructured.NestedInt64(object.Object, path...); has && err == nil {
			return value
		}
		return absent
	}
	w := Workload{Name: object.GetKind() + " " + object.GetName(), Generation: object.GetGeneration()}
	// What is not a map of strings is none: such an object cannot be stored.
	w.Labels, _, _ = unstructured.NestedStringMap(object.Object, "spec", "template", "metadata", "labels")
	w.Annotations, _, _ = unstructured.NestedStringMap(object.Object, "spec", "template", "metadata", "annotations")
	total := number(0, "status", "replicas")
	if object.GetKind() == "DaemonSet" {
		total = number(0, "status", "currentNumberScheduled")
		w.Desired, w.Ready = number(0, "status", "desiredNumberScheduled"), number(0, "status", "numberReady")
	} else {
		w.Desired, w.Ready = number(1, "spec", "replicas"), number(0, "status", "readyReplicas")
	}
	switch {
	case object.GetDeletionTimestamp() != nil:
		w.Waits = "it is being deleted"
	case number(0, "status", "observedGeneration") != object.GetGeneration():
		w.Waits = "its controller has not acted on its latest change"
	case total != w.Desired:
		w.Waits = fmt.Sprintf("it has %d pods and is to have %d", total, w.Desired)
	case updated(object, number) != w.Desired:
		w.Waits = "it is being updated, or keeps pods of an older revision"
	case hooked(object):
		w.Waits = "it has a preDelete hook, which an eviction would not wait for: restart it (flotilla rollout restart)"
	case noneUnavailable(object):
		w.Waits = "its maxUnavailable is 0: restart it (flotilla rollout restart), or raise maxUnavailable"
	}
	return w
}

// updated returns how many pods of a workload are of its newest revision. A ReplicaSet has no revisions.
func updated(object *unstructured.Unstructured, number func(int64, ...string) int64) int64 {
	switch object.GetKind() {
	case "ReplicaSet":
		return number(1, "spec", "replicas")
	case "DaemonSet":
		return number(0, "status", "updatedNumberScheduled")
	}
	return number(0, "status", "updatedReplicas")
}

// noneUnavailable reports whether the user of a workload lets none of its pods be unavailable. A percentage that comes
// to none of few pods is not meant so.
func noneUnavailable(object *unstructured.Unstructured) bool {
	for _, path := range [][]string{
		{"spec", "strategy", "rollingUpdate", "maxUnavailable"}, {"spec", "updateStrategy", "maxUnavailable"},
		{"spec", "updateStrategy", "rollingUpdate", "maxUnavailable"},
	} {
		value, has, err := unstructured.NestedFieldNoCopy(object.Object, path...)
		if err == nil && has && (value == int64(0) || value == "0%") {
			return true
		}
	}
	return false
}

// hooked reports whether a workload does something before a pod is deleted.
func hooked(object *unstructured.Unstructured) bool {
	value, has, err := unstructured.NestedFieldNoCopy(object.Object, "spec", "lifecycle", "preDelete")
	return err == nil && has && value != nil
}

// Refuses returns why a pod of the workload must stay, "" if it may be evicted. pods are all that the workload
// controls, as the cache shows them: the numbers of a status may be older than an eviction.
func (w Workload) Refuses(pod *corev1.Pod, pods []*corev1.Pod) string {
	if w.Waits != "" {
		return w.Name + ": " + w.Waits
	}
	var there, ready int64
	for _, other := range pods {
		if !podstate.Active(other) {
			continue
		}
		there++
		if other.UID == pod.UID || podReady(other) {
			ready++
		}
	}
	reported := w.Ready
	if !podReady(pod) {
		reported++ // it serves nobody: the workload loses nothing
	}
	if there != w.Desired || ready < w.Desired || reported < w.Desired {
		return fmt.Sprintf("%s: %d of %d other pods are ready, all must be", w.Name,
			max(0, min(ready, reported)-1), max(0, w.Desired-1))
	}
	return ""
}

// Complete reports whether all pods that the workload is to have are there and ready.
func (w Workload) Complete(pods []*corev1.Pod) bool {
	var ready int64
	for _, pod := range pods {
		if podstate.Active(pod) && podReady(pod) {
			ready++
		}
	}
	return ready >= w.Desired && w.Ready >= w.Desired
}

// leavingFor is for how long after its grace period a pod that is being deleted counts as on its way out. One whose
// node is away stays for ever.
const leavingFor = 30 * time.Second

// leaving returns how many pods with the sidecars are being deleted and are to be created again, other than one of each
// workload in flight. They may have been evicted by an agent that has stopped since.
func leaving(set *Set, pods []*corev1.Pod, now time.Time) (n int) {
	if own := set.Spec.Flotilla; own == nil || own.Recreate != v1beta1.SidecarSetRecreateIfNeeded {
		return 0
	}
	counted := maps.Clone(set.InFlight)
	for _, pod := range pods {
		owner := ownerOf(pod)
		if pod.DeletionTimestamp == nil || podstate.Ended(pod) || owner == "" || !marks.Injected(pod, set.Name) ||
			now.After(pod.DeletionTimestamp.Add(leavingFor)) {
			continue
		}
		if counted[owner] {
			delete(counted, owner)
			continue
		}
		n++
	}
	return n
}

// ownerOf returns the uid of the controller that creates the pod again, "" if none does.
func ownerOf(pod *corev1.Pod) types.UID {
	if ref := Owner(pod); ref != nil {
		return ref.UID
	}
	return ""
}
