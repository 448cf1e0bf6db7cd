package volumes_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
)

// ownersOf returns the owners of a claim, sorted: "set", or the uid of a pod.
func ownersOf(refs []metav1.OwnerReference) string {
	var out []string
	for _, ref := range refs {
		out = append(out, string(ref.UID))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestRetention(t *testing.T) {
	set := metav1.OwnerReference{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "web", UID: "set"}
	pod := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "web-1", UID: "pod-1"}
	earlier := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "web-1", UID: "pod-0"}
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "note", UID: "other"}
	tests := []struct {
		why         string
		retention   volumes.Retention
		have        []metav1.OwnerReference
		outOfRange  bool
		terminating bool
		want        string
	}{
		{"both retain", volumes.Retention{}, nil, false, false, ""},
		{"both retain, and both owned it", volumes.Retention{}, []metav1.OwnerReference{set, pod}, false, false, ""},
		{"owners of others stay", volumes.Retention{}, []metav1.OwnerReference{other, set}, false, false, "other"},
		{"deleted with the set", volumes.Retention{WhenDeleted: true}, nil, false, false, "set"},
		{"deleted with the set, out of range", volumes.Retention{WhenDeleted: true}, nil, true, false, "set"},
		{"deleted with the pod, in range", volumes.Retention{WhenScaled: true}, nil, false, false, ""},
		{"deleted with the pod, out of range", volumes.Retention{WhenScaled: true}, nil, true, false, "pod-1"},
		{"deleted with the pod, in range again", volumes.Retention{WhenScaled: true}, []metav1.OwnerReference{pod}, false,
			false, ""},
		{"both delete, in range", volumes.Retention{WhenDeleted: true, WhenScaled: true}, []metav1.OwnerReference{pod},
			false, false, "set"},
		{"both delete, out of range", volumes.Retention{WhenDeleted: true, WhenScaled: true}, []metav1.OwnerReference{set},
			true, false, "pod-1"},
		{"an earlier pod of the name", volumes.Retention{WhenScaled: true}, []metav1.OwnerReference{earlier}, true, false,
			"pod-1"},
		{"a user deletes the pod out of range", volumes.Retention{WhenScaled: true}, nil, true, true, "pod-1"},
		{"a pod in range that is being deleted", volumes.Retention{WhenScaled: true}, []metav1.OwnerReference{pod}, false,
			true, "pod-1"},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			s := newSet(claimTemplate("data", "1Gi"))
			s.Identity, s.Retention = volumes.ByOrdinal, tt.retention
			claim := newClaim(s, "data", "1", 0)
			claim.OwnerReferences = tt.have
			pod := newPod(s, "1")
			pods := podset.Set{Active: []*corev1.Pod{pod}}
			if tt.terminating {
				pod.DeletionTimestamp = &metav1.Time{Time: start}
				pods = podset.Set{Terminating: []*corev1.Pod{pod}}
			}
			plan := volumes.Compute(volumes.Facts{Set: s, Pods: pods, Now: start, Named: named(claim),
				InRange: func(*corev1.Pod) bool { return !tt.outOfRange }})
			got := claim.OwnerReferences
			if len(plan.Own) > 0 {
				got = plan.Own[0].Owners
				for _, ref := range got {
					if ref.Controller != nil || ref.BlockOwnerDeletion != nil {
						t.Errorf("%s is a controller, or blocks", ref.UID)
					}
				}
			}
			if ownersOf(got) != tt.want {
				t.Errorf("owned by %q, want %q", ownersOf(got), tt.want)
			}
			if len(plan.Delete) > 0 {
				t.Error("a claim is deleted")
			}
		})
	}
}

func TestOrdinalsLeaveClaimsOfControllersAlone(t *testing.T) {
	s := newSet(claimTemplate("data", "1Gi"))
	claim := newClaim(s, "data", "1", 0) // controlled, as by a set with instance ids
	s.Identity, s.Retention = volumes.ByOrdinal, volumes.Retention{WhenDeleted: true}
	plan := volumes.Compute(volumes.Facts{Set: s, Pods: podset.Set{Active: []*corev1.Pod{newPod(s, "1")}}, Now: start,
		Named: named(claim), InRange: func(*corev1.Pod) bool { return true }})
	if len(plan.Own) > 0 {
		t.Errorf("the claim gets owners %v", plan.Own[0].Owners)
	}
}

func TestNewClaimsByOrdinal(t *testing.T) {
	template := claimTemplate("data", "1Gi")
	s := newSet(template)
	s.Identity = volumes.ByOrdinal
	if claim := s.New(&template, "7"); claim.Name != "data-web-7" || len(claim.OwnerReferences) > 0 {
		t.Errorf("%s is owned by %v", claim.Name, claim.OwnerReferences)
	}
	s.Retention.WhenDeleted = true
	if claim := s.New(&template, "7"); ownersOf(claim.OwnerReferences) != "set" || metav1.GetControllerOf(claim) != nil {
		t.Errorf("owned by %v, want the set, which is no controller", claim.OwnerReferences)
	}
}

func TestGoes(t *testing.T) {
	s := newSet(claimTemplate("data", "1Gi"), claimTemplate("log", "1Gi"))
	s.Identity = volumes.ByOrdinal
	data, log := newClaim(s, "data", "1", 0), newClaim(s, "log", "1", 0)
	if claim := s.Goes("1", "web-1", named(data)); claim != nil {
		t.Errorf("waits for %s, and another one is to be created", claim.Name)
	}
	log.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web-1", UID: "earlier"}}
	if claim := s.Goes("1", "web-1", named(data, log)); claim != log {
		t.Error("does not wait for the claim that is deleted with an earlier pod")
	}
	if claim := s.Goes("1", "web-1", named(going(data), log)); claim != data {
		t.Error("does not wait for the claim that is being deleted")
	}
}

func TestCompatible(t *testing.T) {
	tests := []struct {
		why    string
		change func(template, claim *corev1.PersistentVolumeClaim)
		want   bool
	}{
		{"the same", func(_, _ *corev1.PersistentVolumeClaim) {}, true},
		{"a larger claim", func(_, claim *corev1.PersistentVolumeClaim) { resize(claim, "2Gi") }, true},
		{"a smaller claim", func(template, _ *corev1.PersistentVolumeClaim) { resize(template, "2Gi") }, false},
		{"another class", func(template, _ *corev1.PersistentVolumeClaim) { template.Spec.StorageClassName = new("fast") },
			false},
		{"the same class", func(template, _ *corev1.PersistentVolumeClaim) { template.Spec.StorageClassName = new("std") },
			true},
		{"other modes", func(template, _ *corev1.PersistentVolumeClaim) {
			template.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		}, false},
	}
	for _, tt := range tests {
		template := claimTemplate("data", "1Gi")
		claim := newClaim(newSet(template), "data", "1", 0)
		tt.change(&template, claim)
		if got := volumes.Compatible(&template, claim); got != tt.want {
			t.Errorf("%s: %t", tt.why, got)
		}
	}
}

func resize(claim *corev1.PersistentVolumeClaim, size string) {
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

func TestProvisioned(t *testing.T) {
	claim := newClaim(newSet(), "data", "1", 0)
	if claim.UID = types.UID("claim"); volumes.Provisioned(claim) {
		t.Error("a claim without a volume is provisioned")
	}
	claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	if !volumes.Provisioned(claim) {
		t.Error("a claim with its volume is not provisioned")
	}
	if resize(claim, "2Gi"); volumes.Provisioned(claim) {
		t.Error("a claim that still grows is provisioned")
	}
}

func TestGrow(t *testing.T) {
	data, log := claimTemplate("data", "2Gi"), claimTemplate("log", "1Gi")
	log.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	s := newSet(data, log, claimTemplate("same", "1Gi"), claimTemplate("none", "1Gi"))
	s.Identity = volumes.ByOrdinal
	claims := []*corev1.PersistentVolumeClaim{newClaim(s, "data", "1", 0), newClaim(s, "log", "1", 0),
		newClaim(s, "same", "1", 0)}
	got := s.Grow("1", named(claims...))
	if len(got) != 1 || got[0].Claim != claims[0] || got[0].Storage.String() != "2Gi" {
		t.Errorf("%v, want the claim data with 2Gi", got)
	}
	if s.Grow("1", named(going(claims[0]))) != nil {
		t.Error("a claim that is being deleted grows")
	}
}

func TestGrowing(t *testing.T) {
	s := newSet(claimTemplate("data", "2Gi"))
	s.Identity = volumes.ByOrdinal
	claim := newClaim(s, "data", "1", 0)
	resize(claim, "2Gi")
	if s.Growing("1", named(claim)) {
		t.Error("a claim without a volume grows")
	}
	claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	if !s.Growing("1", named(claim)) {
		t.Error("the claim does not grow")
	}
	claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{
		{Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue}}
	if s.Growing("1", named(claim)) {
		t.Error("a claim whose file system is left still grows")
	}
}
