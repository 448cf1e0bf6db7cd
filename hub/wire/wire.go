package wire

import (
	"cmp"
	"encoding/hex"
	"hash/fnv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// MaxName is the largest length of an object name: that of a DNS subdomain.
const MaxName = 253

// policyGroup is the group of the policies of the suite.
const policyGroup = "policy.kruise.io"

// Key names a user's object on the hub. The Namespace of a cluster-scoped object is empty.
type Key struct {
	Group, Kind, Namespace, Name string
}

// KeyFor returns the key of an object of this kind.
func KeyFor(kind schema.GroupKind, object metav1.Object) Key {
	return Key{Group: kind.Group, Kind: kind.Kind, Namespace: object.GetNamespace(), Name: object.GetName()}
}

// GroupKind returns the kind of the object.
func (k Key) GroupKind() schema.GroupKind { return schema.GroupKind{Group: k.Group, Kind: k.Kind} }

// String returns the value of the annotation topology.AnnotationWorkload.
func (k Key) String() string { return topology.WorkloadKey(k.GroupKind(), k.Namespace, k.Name) }

// Sentence returns "<Kind> <namespace>/<name>", as messages to people name a workload.
func (k Key) Sentence() string {
	if k.ClusterScoped() {
		return k.Kind + " " + k.Name
	}
	return k.Kind + " " + k.Workload().String()
}

// ClusterScoped reports whether the object has no namespace.
func (k Key) ClusterScoped() bool { return k.Namespace == "" }

// PlacementNamespace returns the namespace of the workload's WorkloadPlacement: its own, and the hub's for a
// cluster-scoped object.
func (k Key) PlacementNamespace() string { return cmp.Or(k.Namespace, topology.SystemNamespace) }

// Workload returns the name of the user's object.
func (k Key) Workload() types.NamespacedName {
	return types.NamespacedName{Namespace: k.Namespace, Name: k.Name}
}

// Placement returns the name of the workload's WorkloadPlacement if no other one has it, see store.FindPlacement.
func (k Key) Placement() types.NamespacedName { return k.Placements()[0] }

// Placements returns the names that the WorkloadPlacement can have: "<kind>-<name>" for kinds of the suite and of
// the core, "<kind>.<group>-<name>" for all others. The other form comes second: earlier hubs left out every group,
// so that a placement of a kind that exists in two groups may have the name of the other one.
func (k Key) Placements() []types.NamespacedName {
	var names []types.NamespacedName
	for _, kind := range k.kindNames() {
		names = append(names, types.NamespacedName{Namespace: k.PlacementNamespace(), Name: cut(kind + "-" + k.Name)})
	}
	return names
}

// kindNames returns how names of objects spell the kind, the usual form first.
func (k Key) kindNames() []string {
	short := strings.ToLower(k.Kind)
	switch k.Group {
	case corev1.GroupName:
		return []string{short}
	case apps.GroupVersion.Group, policyGroup:
		return []string{short, short + "." + k.Group}
	}
	return []string{short + "." + k.Group, short}
}

// Work returns the name of the workload's Work in the namespace of a member: "<namespace>.<name>.<kind>[.<group>]",
// without a namespace for a cluster-scoped object; where that is too long, its head and a hash of the whole. A Work
// that exists already keeps the name that it has, see store.SetNames.
func (k Key) Work(cluster string) types.NamespacedName {
	return types.NamespacedName{Namespace: MemberNamespace(cluster), Name: k.WorkNames()[0]}
}

// WorkNames returns the names that a Work of the workload can have: with the kind as [Key.Placements] spells it.
func (k Key) WorkNames() []string {
	name := k.Name
	if k.Namespace != "" {
		name = k.Namespace + "." + k.Name
	}
	var names []string
	for _, kind := range k.kindNames() {
		names = append(names, cut(name+"."+kind))
	}
	return names
}

// cut returns a name, or where it is too long for an object its head and a hash of the whole.
func cut(name string) string {
	if len(name) <= MaxName {
		return name
	}
	sum := fnv.New64a()
	// Write of a hash never fails.
	_, _ = sum.Write([]byte(name))
	tail := "-" + hex.EncodeToString(sum.Sum(nil))
	return strings.TrimRight(name[:MaxName-len(tail)], ".-") + tail
}

// ParseKey reads what [Key.String] returned; false for anything else.
func ParseKey(text string) (Key, bool) {
	kind, namespace, name, ok := topology.ParseWorkloadKey(text)
	return Key{Group: kind.Group, Kind: kind.Kind, Namespace: namespace, Name: name}, ok
}

// KeyOf returns the workload that a Work carries; false where the Work is not this system's, or carries the Job of a
// check.
func KeyOf(w metav1.Object) (Key, bool) {
	if IsCheck(w) {
		return Key{}, false
	}
	return OwnerOf(w)
}

// OwnerOf returns the workload that a Work is of: the one that it carries, or whose wave's check the Job is of that it
// carries.
func OwnerOf(w metav1.Object) (Key, bool) {
	return ParseKey(w.GetAnnotations()[topology.AnnotationWorkload])
}

// Withdrawn tells whether the user withdrew a workload, as removed or as let go.
func Withdrawn(w metav1.Object) bool {
	value := w.GetAnnotations()[topology.AnnotationWithdraw]
	return value == topology.WithdrawRemove || value == topology.WithdrawOrphan
}

// IsCheck tells whether a Work carries the Job of a wave's check, and not the workload.
func IsCheck(w metav1.Object) bool { return w.GetAnnotations()[topology.AnnotationCheck] != "" }

// SequenceOf returns the sequence of the order that a Work carries, 0 for none.
func SequenceOf(w metav1.Object) int64 {
	sequence, _ := topology.SequenceOf(w)
	return sequence
}

// KeyOfPlacement returns the workload that a placement decides for.
func KeyOfPlacement(p *topology.WorkloadPlacement) Key {
	kind := schema.FromAPIVersionAndKind(p.Spec.Workload.APIVersion, p.Spec.Workload.Kind)
	key := Key{Group: kind.Group, Kind: kind.Kind, Namespace: p.Namespace, Name: p.Spec.Workload.Name}
	if p.Spec.Workload.ClusterScoped {
		key.Namespace = ""
	}
	return key
}

// DependenciesOf returns the objects that go with a placement, whether they exist or not. All are of the core group.
func DependenciesOf(p *topology.WorkloadPlacement) []Key {
	keys := make([]Key, len(p.Spec.Dependencies))
	for i, d := range p.Spec.Dependencies {
		keys[i] = Key{Kind: d.Kind, Namespace: p.Namespace, Name: d.Name}
	}
	return keys
}

// DependsOn returns the names of the Works, in the same namespace, whose objects are to stand before that of this Work.
func DependsOn(w metav1.Object) []string {
	text := w.GetAnnotations()[topology.AnnotationDependsOn]
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// MemberNamespace returns the namespace on the hub that holds a member's Works and Lease.
func MemberNamespace(cluster string) string { return work.NamespacePrefix + cluster }

// MemberOf returns the member that a namespace of the hub belongs to, false where it belongs to none.
func MemberOf(namespace string) (string, bool) {
	return strings.CutPrefix(namespace, work.NamespacePrefix)
}

// ClusterID returns the id of a member's cluster: the pinned one, or before that what the agent told, empty before
// that.
func ClusterID(m *topology.MemberCluster) string {
	if m.Spec.ClusterID != "" {
		return m.Spec.ClusterID
	}
	return m.Status.ClusterID
}

// Federated reports whether the workloads of a namespace, or a cluster-scoped object, are the hub's.
func Federated(object metav1.Object) bool {
	return object.GetLabels()[topology.LabelFederated] == "true"
}
