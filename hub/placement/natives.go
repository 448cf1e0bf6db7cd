package placement

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// Natives says who runs the workloads of Kubernetes' own kinds, of apps/v1 and batch/v1, that stand on the hub.
type Natives bool

const (
	// HubRunsNatives says that controllers of the hub's own cluster do, so that nothing of them goes to members. Every cluster has these, unless
	// somebody left them out.
	HubRunsNatives Natives = false
	// MembersRunNatives says that the hub is an API server without such controllers, and members get copies.
	MembersRunNatives Natives = true
)

// natives are the kinds of workloads that every cluster with Kubernetes' own controllers runs by itself.
func natives() []schema.GroupVersionKind {
	apps, batch := appsv1.SchemeGroupVersion, batchv1.SchemeGroupVersion
	return []schema.GroupVersionKind{
		apps.WithKind("DaemonSet"), apps.WithKind("Deployment"), apps.WithKind("ReplicaSet"), apps.WithKind("StatefulSet"),
		batch.WithKind("CronJob"), batch.WithKind("Job"),
	}
}

// IsNative tells whether a kind is one of Kubernetes' own workloads; any version of it is.
func IsNative(kind schema.GroupKind) bool {
	return slices.ContainsFunc(natives(), func(native schema.GroupVersionKind) bool { return native.GroupKind() == kind })
}

// isNative tells whether an entry of a policy names such a kind.
func isNative(s *topology.WorkloadSelector) bool {
	return IsNative(kindOf(s))
}

// runsOnHub tells whether an entry names a kind that every cluster runs by itself, so that its pods would run on the hub: the table of
// what is placed leaves such kinds out.
func runsOnHub(s *topology.WorkloadSelector, rules Table) bool {
	_, placed := rules[kindOf(s)]
	return isNative(s) && !placed
}

// OfNative tells whether an object is a part of one of Kubernetes' own workloads, as the ReplicaSet of a Deployment is: the members make
// their own.
func OfNative(object client.Object) bool {
	owner := metav1.GetControllerOfNoCopy(object)
	return owner != nil && IsNative(schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind())
}

// nativeNames returns those kinds with their apiVersion, for messages.
func nativeNames() []string {
	var names []string
	for _, kind := range natives() {
		names = append(names, fmt.Sprintf("%s (%s)", kind.Kind, kind.GroupVersion()))
	}
	return names
}
