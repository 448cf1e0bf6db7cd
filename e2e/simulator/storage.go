package simulator

import (
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// protection is the finalizer that keeps a claim as long as a pod with a node uses it, as published.
const protection = "kubernetes.io/pvc-protection"

// storage looks after claims: they are bound at once, those that pods use stay until the pods are gone, and the garbage
// collector deletes those whose owners are all gone.
type storage struct {
	world  *World
	random *rand.Rand
}

// admitClaim is what the API server and a provisioner of volumes make of a new claim.
func admitClaim(claim *corev1.PersistentVolumeClaim) {
	claim.Finalizers = append(claim.Finalizers, protection)
	claim.Status.Phase = corev1.ClaimBound
}

// changed is told of every change of the truth.
func (s *storage) changed(kind Kind, key types.NamespacedName, before, after client.Object) {
	switch kind {
	case "PersistentVolumeClaim":
		if after != nil {
			s.later(key)
		}
		if before == nil || after == nil {
			s.wakePods(key)
		}
	case "Pod":
		pod, ok := before.(*corev1.Pod)
		if !ok || after != nil {
			return
		}
		for _, obj := range s.world.server.list("PersistentVolumeClaim") {
			owned := slices.ContainsFunc(obj.GetOwnerReferences(),
				func(ref metav1.OwnerReference) bool { return ref.UID == pod.UID })
			if owned || obj.GetNamespace() == key.Namespace && Mounts(pod, obj.GetName()) {
				s.later(client.ObjectKeyFromObject(obj))
			}
		}
	}
}

// Mounts tells whether the pod has a volume of the claim.
func Mounts(pod *corev1.Pod, claim string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
	})
}

func (s *storage) later(key types.NamespacedName) {
	s.world.After(upTo(s.random, s.world.Profile.Kubelet), func() {
		if claim, ok := s.world.server.get("PersistentVolumeClaim", key).(*corev1.PersistentVolumeClaim); ok {
			s.world.Kubelet.must(s.look(key, claim))
		}
	})
}

// look does what is to be done with a claim now.
func (s *storage) look(key types.NamespacedName, claim *corev1.PersistentVolumeClaim) error {
	if claim.DeletionTimestamp != nil {
		if !slices.Contains(claim.Finalizers, protection) || s.used(claim) {
			return nil
		}
		s.world.Tell("claim %s is gone", key.Name)
		return s.world.Change("PersistentVolumeClaim", key, func(obj client.Object) {
			obj.SetFinalizers(slices.DeleteFunc(obj.GetFinalizers(), func(f string) bool { return f == protection }))
		})
	}
	left := slices.DeleteFunc(slices.Clone(claim.OwnerReferences), func(ref metav1.OwnerReference) bool {
		owner := s.world.server.get(Kind(ref.Kind), types.NamespacedName{Namespace: claim.Namespace, Name: ref.Name})
		return owner == nil || owner.GetUID() != ref.UID
	})
	switch {
	case len(left) == len(claim.OwnerReferences):
		return nil
	case len(left) == 0:
		s.world.Tell("the garbage collector deletes claim %s", key.Name)
		return s.world.Delete("PersistentVolumeClaim", key)
	}
	return s.world.Change("PersistentVolumeClaim", key, func(obj client.Object) { obj.SetOwnerReferences(left) })
}

// used tells whether a pod with a node has the claim.
func (s *storage) used(claim *corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(s.world.server.list("Pod"), func(obj client.Object) bool {
		pod, ok := obj.(*corev1.Pod)
		return ok && pod.Namespace == claim.Namespace && pod.Spec.NodeName != "" && Mounts(pod, claim.Name)
	})
}

// ready tells whether all claims of a pod are there to be used: else it gets no node.
func (s *storage) ready(pod *corev1.Pod) bool {
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i].PersistentVolumeClaim
		if source == nil {
			continue
		}
		claim := s.world.server.get("PersistentVolumeClaim",
			types.NamespacedName{Namespace: pod.Namespace, Name: source.ClaimName})
		if claim == nil || claim.GetDeletionTimestamp() != nil {
			return false
		}
	}
	return true
}

// wakePods looks again at pods that waited for a claim.
func (s *storage) wakePods(key types.NamespacedName) {
	for _, obj := range s.world.server.list("Pod") {
		pod, ok := obj.(*corev1.Pod)
		if ok && pod.Namespace == key.Namespace && pod.Spec.NodeName == "" && Mounts(pod, key.Name) {
			s.world.Kubelet.sync(client.ObjectKeyFromObject(pod), pod.UID, upTo(s.random, s.world.Profile.Kubelet))
		}
	}
}

// claimDifference says what a write changed in a claim.
func claimDifference(was, now *corev1.PersistentVolumeClaim) []string {
	var parts []string
	if was != nil && was.DeletionTimestamp == nil && now.DeletionTimestamp != nil {
		parts = append(parts, "terminating")
	}
	if was == nil || !slices.EqualFunc(was.OwnerReferences, now.OwnerReferences,
		func(a, b metav1.OwnerReference) bool { return a.UID == b.UID }) {
		for _, ref := range now.OwnerReferences {
			parts = append(parts, fmt.Sprintf("of %s %s", ref.Kind, ref.Name))
		}
	}
	return parts
}
