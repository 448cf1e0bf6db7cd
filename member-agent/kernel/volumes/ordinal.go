package volumes

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Retention says when claims of a set ByOrdinal are deleted. The zero value keeps them for ever.
type Retention struct {
	// WhenDeleted: with the set. WhenScaled: with their pod, once its ordinal is out of range.
	WhenDeleted, WhenScaled bool
}

// retain plans the owners of the claims of existing pods, so that the garbage collector deletes them when Retention
// asks for that. A pod in range that is being deleted keeps what its claims had: it may have been out of range.
func (f Facts) retain(plan *Plan) {
	for _, bucket := range buckets(f.Pods) {
		for _, pod := range bucket {
			id := f.Set.ID(pod)
			inRange := f.InRange(pod)
			if id == "" || inRange && pod.DeletionTimestamp != nil {
				continue
			}
			for i := range f.Set.Templates {
				claim := f.named(Name(f.Set.Templates[i].Name, f.Set.Object.GetName(), id))
				if claim == nil || claim.DeletionTimestamp != nil || metav1.GetControllerOfNoCopy(claim) != nil {
					continue // one with a controller belongs to another kind of set
				}
				if owners := f.Set.owners(claim, pod, inRange); !slices.Equal(owners, claim.OwnerReferences) {
					plan.Own = append(plan.Own, Transfer{Claim: claim, Owners: owners, Why: WhyRetention})
				}
			}
		}
	}
}

// owners returns the owners that the claim of a pod is to have. Those of others stay.
func (s Set) owners(claim *corev1.PersistentVolumeClaim, pod *corev1.Pod, inRange bool) []metav1.OwnerReference {
	withPod := s.Retention.WhenScaled && !inRange
	withSet := s.Retention.WhenDeleted && !withPod
	var hasSet, hasPod bool
	owners := without(claim, func(ref metav1.OwnerReference) bool {
		switch {
		case ref.UID == s.Object.GetUID():
			hasSet = true
			return !withSet
		case isPod(ref) && ref.Name == pod.Name:
			hasPod = hasPod || ref.UID == pod.UID
			return !withPod || ref.UID != pod.UID
		}
		return false
	})
	if withSet && !hasSet {
		owners = append(owners, s.reference())
	}
	if withPod && !hasPod {
		owners = append(owners, metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID})
	}
	return owners
}

// reference makes the garbage collector delete a claim with the set. It is no controller, as published.
func (s Set) reference() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: s.Kind.GroupVersion().String(), Kind: s.Kind.Kind, Name: s.Object.GetName(),
		UID: s.Object.GetUID()}
}

// Goes returns the first claim of the id that is being deleted, or that is about to be because the pod that owns it is
// gone; nil if a pod of this name can be created. named returns the claim with a name.
func (s Set) Goes(id, pod string, named func(name string) *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	for i := range s.Templates {
		claim := named(Name(s.Templates[i].Name, s.Object.GetName(), id))
		if claim == nil {
			continue
		}
		if claim.DeletionTimestamp != nil || slices.ContainsFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool {
			return isPod(ref) && ref.Name == pod
		}) {
			return claim
		}
	}
	return nil
}

// Growth is a claim that is to ask for more storage.
type Growth struct {
	Claim   *corev1.PersistentVolumeClaim
	Storage resource.Quantity
}

// Grow returns the claims of the id that ask for less storage than their templates and are compatible otherwise. What a
// claim has besides cannot change, and no claim shrinks.
func (s Set) Grow(id string, named func(name string) *corev1.PersistentVolumeClaim) []Growth {
	var out []Growth
	for i := range s.Templates {
		template := &s.Templates[i]
		claim := named(Name(template.Name, s.Object.GetName(), id))
		if claim == nil || claim.DeletionTimestamp != nil || Compatible(template, claim) {
			continue
		}
		grown := claim.DeepCopy()
		grown.Spec.Resources = template.Spec.Resources
		if Compatible(template, grown) {
			out = append(out, Growth{Claim: claim, Storage: *template.Spec.Resources.Requests.Storage()})
		}
	}
	return out
}

// Growing reports whether a bound claim of the id waits for its storage to grow. It waits no longer when only the file
// system is left, which grows with the pod.
func (s Set) Growing(id string, named func(name string) *corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(s.Templates, func(template corev1.PersistentVolumeClaim) bool {
		claim := named(Name(template.Name, s.Object.GetName(), id))
		if claim == nil || claim.Status.Capacity.Storage().IsZero() || Provisioned(claim) {
			return false
		}
		return !slices.ContainsFunc(claim.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
			return c.Type == corev1.PersistentVolumeClaimFileSystemResizePending && c.Status == corev1.ConditionTrue
		})
	})
}

// Compatible reports whether a claim is what the template asks for: the access modes in the same order, the storage
// class where both name one, and at least as much storage.
func Compatible(template, claim *corev1.PersistentVolumeClaim) bool {
	want, have := &template.Spec, &claim.Spec
	return slices.Equal(want.AccessModes, have.AccessModes) &&
		(want.StorageClassName == nil || have.StorageClassName == nil || *want.StorageClassName == *have.StorageClassName) &&
		want.Resources.Requests.Storage().Cmp(*have.Resources.Requests.Storage()) <= 0
}

// Provisioned reports whether the volume of a claim is as large as the claim asks.
func Provisioned(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Status.Capacity.Storage().Cmp(*claim.Spec.Resources.Requests.Storage()) >= 0
}
