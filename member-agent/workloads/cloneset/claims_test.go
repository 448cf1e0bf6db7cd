package cloneset_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// What becomes of claims when pods go. Further stories of claims are in TestBetter.
func TestClaims(t *testing.T) {
	t.Parallel() // most of its time is waiting
	w := newWorld(t)
	for _, story := range []struct {
		name string
		run  func(*world, string)
	}{
		{"made-with-their-pods", claimsAreMade},
		{"scale-in", func(w *world, name string) { scaleInTakesClaims(w, name, false) }},
		{"reuse-scale-in", func(w *world, name string) { scaleInTakesClaims(w, name, true) }},
		{"deleted-pod", deletedPodLosesClaims},
		{"reuse-deleted-pod", deletedPodLeavesClaims},
		{"made-anew", updateMakesClaimsAnew},
		{"invalid", invalidClaims},
		{"refused-pods", refusedPodsMakeNoClaims},
	} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			one := *w
			one.TB = t
			story.run(&one, story.name)
		})
	}
}

func claimsAreMade(w *world, name string) {
	w.disks(name, 2)
	pods := w.create(newCloneSet(name, 2, disk("1Gi", false)))
	claims := w.claims(name)
	if len(claims) != 2 {
		w.Fatalf("claims %v", sorted(claims))
	}
	for _, pod := range pods {
		claim, ok := claims[pod.Labels[v1beta1.LabelInstanceID]]
		if !ok || claim.Labels[v1beta1.LabelInstanceID] != pod.Labels[v1beta1.LabelInstanceID] ||
			claim.Labels["app"] != name {
			w.Errorf("pod %s has the claim %+v", pod.Name, claim.ObjectMeta)
		}
		if ref := metav1.GetControllerOf(&claim); ref == nil || ref.Kind != "CloneSet" || ref.Name != name {
			w.Errorf("claim %s is controlled by %+v", claim.Name, ref)
		}
		if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.Name == "data" && v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name
		}) {
			w.Errorf("pod %s does not mount %s", pod.Name, claim.Name)
		}
	}
}

// expectClaims waits until exactly the pods of the CloneSet have claims.
func (w *world) expectClaims(name string, n int) {
	w.Helper()
	w.eventually("as many claims as pods", func() string {
		claims, pods := w.claims(name), w.pods(name)
		for _, pod := range pods {
			if _, ok := claims[pod.Labels[v1beta1.LabelInstanceID]]; !ok {
				return fmt.Sprintf("pod %s has no claim among %v", pod.Name, sorted(claims))
			}
		}
		if len(claims) != n || len(pods) != n {
			return fmt.Sprintf("%d pods, claims %v", len(pods), sorted(claims))
		}
		return ""
	})
}

func scaleInTakesClaims(w *world, name string, reuse bool) {
	w.disks(name, 3)
	w.create(newCloneSet(name, 3, disk("1Gi", reuse)))
	w.change(name, replicas(1))
	w.settle(name)
	w.expectClaims(name, 1)
}

func deletedPodLosesClaims(w *world, name string) {
	w.disks(name, 4)
	pods := w.create(newCloneSet(name, 2, disk("1Gi", false)))
	lost := pods[sorted(pods)[0]]
	w.must(w.Delete(w.Context(), &lost))
	w.expectReplaced(name, 2, lost.Name)
	w.expectClaims(name, 2)
	if _, ok := w.claims(name)[lost.Labels[v1beta1.LabelInstanceID]]; ok {
		w.Errorf("the claim of %s is still there", lost.Name)
	}
}

func deletedPodLeavesClaims(w *world, name string) {
	w.disks(name, 3)
	pods := w.create(newCloneSet(name, 2, disk("1Gi", true)))
	lost := pods[sorted(pods)[0]]
	id := lost.Labels[v1beta1.LabelInstanceID]
	before := w.claims(name)
	w.must(w.Delete(w.Context(), &lost))
	w.eventually("a pod with the same id", func() string {
		if pod, ok := w.pods(name)[lost.Name]; !ok || pod.UID == lost.UID {
			// While the old pod still went, another one may have been made; it makes room.
			return fmt.Sprintf("pods %v", sorted(w.pods(name)))
		}
		return ""
	})
	if after := w.claims(name); after[id].UID != before[id].UID {
		w.Errorf("the claim of %s was %s and is %s", id, before[id].UID, after[id].UID)
	}
}

func updateMakesClaimsAnew(w *world, name string) {
	w.disks(name, 6)
	before := w.create(newCloneSet(name, 2, disk("1Gi", true), policy(v1beta1.ReCreatePodUpdatePolicy)))
	old := w.claims(name)
	w.change(name, image("nginx:2"))
	w.expectUpdated(name, 2)
	w.settle(name)
	w.expectClaims(name, 2)
	for id := range w.claims(name) {
		if _, ok := old[id]; ok {
			w.Errorf("claim %s of pods %v is still there", id, sorted(before))
		}
	}
}

// A pod that the API server refuses is tried again and again; its claims are made once.
func refusedPodsMakeNoClaims(w *world, name string) {
	w.disks(name, 2)
	cs := newCloneSet(name, 2, disk("1Gi", false))
	cs.Spec.Template.Spec.Containers[0].VolumeMounts[0].Name = "nope"
	w.must(w.Client.Create(w.Context(), cs))
	refusals := func() int {
		var list corev1.EventList
		w.must(w.List(w.Context(), &list, client.InNamespace("default")))
		n := 0
		for _, event := range list.Items {
			if event.InvolvedObject.Name == name && event.Reason == "FailedScale" {
				n += max(1, int(event.Count))
			}
		}
		return n
	}
	w.expectSoon(name, "it is refused", func(cs *v1beta1.CloneSet) string {
		if c := conditionOf(cs, v1beta1.ConditionStalled); c.Reason != "InvalidTemplate" || refusals() == 0 {
			return fmt.Sprintf("%+v", c)
		}
		return ""
	})
	// Each change of the spec makes it try again.
	for n := range int32(5) {
		w.change(name, func(cs *v1beta1.CloneSet) { cs.Spec.MinReadySeconds = n })
		w.expectSoon(name, "it looks again", func(cs *v1beta1.CloneSet) string {
			if cs.Status.ObservedGeneration != cs.Generation {
				return "not yet"
			}
			return ""
		})
	}
	if claims := w.claims(name); len(claims) > 2 {
		w.Errorf("claims %v for 2 pods", sorted(claims))
	}
	w.change(name, func(cs *v1beta1.CloneSet) { cs.Spec.Template.Spec.Containers[0].VolumeMounts[0].Name = "data" })
	w.settle(name)
	w.expectClaims(name, 2)
}

func invalidClaims(w *world, name string) {
	cs := newCloneSet(name, 1, disk("1Gi", false))
	cs.Spec.VolumeClaimTemplates[0].Spec.AccessModes = nil
	w.must(w.Client.Create(w.Context(), cs))
	w.expectSoon(name, "the condition says what is wrong", func(cs *v1beta1.CloneSet) string {
		c := conditionOf(cs, v1beta1.ConditionStalled)
		if c.Status != corev1.ConditionTrue || c.Reason != "InvalidVolumeClaimTemplates" ||
			!strings.Contains(c.Message, "has no access mode: set spec.accessModes") {
			return fmt.Sprintf("%+v", c)
		}
		return ""
	})
	w.change(name, disk("1Gi", false))
	w.disks(name, 1)
	w.settle(name)
}

// disks makes volumes that claims of the storage class are bound to.
func (w *world) disks(class string, n int) {
	w.Helper()
	for i := range n {
		w.must(w.Create(w.Context(), &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", class, i)},
			Spec: corev1.PersistentVolumeSpec{
				StorageClassName: class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")},
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
			},
		}))
	}
}

// disk is a claim template of that size in the storage class of the CloneSet's name.
func disk(size string, reuse bool) func(*v1beta1.CloneSet) {
	return func(cs *v1beta1.CloneSet) {
		cs.Spec.ScaleStrategy.EnablePVCReuse = reuse
		cs.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
		cs.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: new(cs.Name), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
			},
		}}
	}
}

// claims returns the claims of the CloneSet by instance id.
func (w *world) claims(name string) map[string]corev1.PersistentVolumeClaim {
	w.Helper()
	var list corev1.PersistentVolumeClaimList
	w.must(w.List(w.Context(), &list, client.InNamespace("default")))
	out := map[string]corev1.PersistentVolumeClaim{}
	for _, claim := range list.Items {
		if id, ok := strings.CutPrefix(claim.Name, "data-"+name+"-"); ok && claim.DeletionTimestamp == nil {
			out[id] = claim
		}
	}
	return out
}
