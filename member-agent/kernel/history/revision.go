package history

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// LabelHash is on the revisions of most kinds: their hash.
const LabelHash = "controller.kubernetes.io/hash"

// Owner is the workload whose history is kept. Labels and Annotations go on new revisions (not the hash label).
type Owner struct {
	Object      metav1.Object
	Kind        schema.GroupVersionKind
	Labels      map[string]string
	Annotations map[string]string
	// HashLabel is the label with the hash of new revisions; "" is LabelHash.
	HashLabel string
}

// New returns a revision, not yet written, with this data and number.
func (o Owner) New(data []byte, number int64, collisionCount *int32) *appsv1.ControllerRevision {
	hash := Hash(data, collisionCount)
	labels := maps.Clone(o.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[cmp.Or(o.HashLabel, LabelHash)] = hash
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name:            Name(o.Object.GetName(), hash),
			Namespace:       o.Object.GetNamespace(),
			Labels:          labels,
			Annotations:     o.annotations(),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(o.Object, o.Kind)},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: number,
	}
}

// annotations are those of a new revision: with kubectl's change cause of the owner, if it has one.
func (o Owner) annotations() map[string]string {
	cause := o.Object.GetAnnotations()[topology.AnnotationChangeCause]
	if cause == "" {
		return maps.Clone(o.Annotations)
	}
	all := map[string]string{topology.AnnotationChangeCause: cause}
	maps.Copy(all, o.Annotations)
	return all
}

// ShortHash returns the hash of a revision: its label, or else what its name says behind the owner's.
func ShortHash(revision *appsv1.ControllerRevision) string {
	if hash := revision.Labels[LabelHash]; hash != "" {
		return hash
	}
	return ShortName(revision.Name)
}

// ShortName returns the hash that a revision's name ends with. A name that is a hash alone comes back as it is.
func ShortName(name string) string {
	return name[strings.LastIndex(name, "-")+1:]
}

// Sort orders revisions by number, then creation, then name: the newest is last.
func Sort(revisions []*appsv1.ControllerRevision) {
	slices.SortFunc(revisions, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(
			cmp.Compare(a.Revision, b.Revision),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name),
		)
	})
}

// Find returns the newest of the revisions (sorted by Sort) whose template means the same as template, or nil.
func Find[T any](revisions []*appsv1.ControllerRevision, template T) (*appsv1.ControllerRevision, error) {
	want, err := Canonical(template)
	if err != nil {
		return nil, err
	}
	for _, revision := range slices.Backward(revisions) {
		have, err := CanonicalData[T](revision.Data.Raw)
		if err != nil {
			return nil, fmt.Errorf("read ControllerRevision %s/%s: %w", revision.Namespace, revision.Name, err)
		}
		if bytes.Equal(have, want) {
			return revision, nil
		}
	}
	return nil, nil
}

// Named returns the revision with that name or that hash, or nil. Pods carry either, by the labels of their time.
func Named(revisions []*appsv1.ControllerRevision, name string) *appsv1.ControllerRevision {
	if name == "" {
		return nil
	}
	i := slices.IndexFunc(
		revisions,
		func(r *appsv1.ControllerRevision) bool { return r.Name == name || ShortHash(r) == name },
	)
	if i < 0 {
		return nil
	}
	return revisions[i]
}

// Excess returns the revisions to delete, oldest first: those not in use, as far as more than limit of them exist.
// revisions must be sorted by Sort. A negative limit counts as 0.
func Excess(
	revisions []*appsv1.ControllerRevision,
	inUse func(*appsv1.ControllerRevision) bool,
	limit int,
) []*appsv1.ControllerRevision {
	var unused []*appsv1.ControllerRevision
	for _, revision := range revisions {
		if !inUse(revision) {
			unused = append(unused, revision)
		}
	}
	return unused[:max(0, len(unused)-max(0, limit))]
}
