package spread

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// Object is a WorkloadSpread, for code that names no kind.
type Object = v1beta1.WorkloadSpread

// Target is a workload that a WorkloadSpread names, in its own namespace. The version of its API does not matter.
type Target struct {
	Group, Kind, Name string
}

// TargetOf returns the workload that the WorkloadSpread names; the zero Target if it names none, or if the apiVersion
// cannot be read.
func TargetOf(ws *v1beta1.WorkloadSpread) Target {
	ref := ws.Spec.TargetReference
	if ref == nil {
		return Target{}
	}
	version, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return Target{}
	}
	return Target{Group: version.Group, Kind: ref.Kind, Name: ref.Name}
}

// Named returns the target that is the object of this kind and name.
func Named(kind schema.GroupVersionKind, name string) Target {
	return Target{Group: kind.Group, Kind: kind.Kind, Name: name}
}

// Costly reports whether the workload looks at the deletion costs of its pods: kinds with interchangeable pods do, that
// replace them forever. The pods of others get none.
func (t Target) Costly() bool {
	return t.Versioned() || t.Group == v1beta1.GroupVersion.Group && !t.Ordinal()
}

// Versioned reports whether each version of the workload is placed apart, by the label pod-template-hash, so that a
// rolling update begins a spread anew: those of Deployments and ReplicaSets are. All pods of others are placed
// together.
func (t Target) Versioned() bool { return t.Kind == "Deployment" || t.Kind == "ReplicaSet" }

// Ordinal reports whether pods are placed by their ordinals (PickOrdinal): those of StatefulSets are.
func (t Target) Ordinal() bool { return t.Kind == "StatefulSet" }

// Version returns the version of a pod for this target: its pod-template-hash, or "" where all pods are placed
// together.
func (t Target) Version(pod *corev1.Pod) string {
	if !t.Versioned() {
		return ""
	}
	return pod.Labels[v1beta1.LabelPodTemplateHash]
}

// Ruling returns the one of several WorkloadSpreads of one target that holds: the oldest, and of equally old ones the
// first by name. Those that are being deleted do not count. Nil if there is none.
func Ruling(spreads []*v1beta1.WorkloadSpread) *v1beta1.WorkloadSpread {
	var rules *v1beta1.WorkloadSpread
	for _, ws := range spreads {
		if ws.DeletionTimestamp == nil && (rules == nil || older(ws, rules) < 0) {
			rules = ws
		}
	}
	return rules
}

func older(a, b *v1beta1.WorkloadSpread) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}
