package simulator

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestClaimsLiveAsLongAsTheyAreUsedAndOwned holds the simulated storage to what a cluster does.
func TestClaimsLiveAsLongAsTheyAreUsedAndOwned(t *testing.T) {
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "shop", Name: name} }
	for name, tt := range map[string]struct {
		act func(w *World, pod client.Object) error
		// left tells whether the claim is there when the pod is gone; before it always is.
		left bool
	}{
		"nobody owns it": {act: func(*World, client.Object) error { return nil }, left: true},
		"it is deleted while used": {act: func(w *World,
			_ client.Object) error {
			return w.Delete("PersistentVolumeClaim", key("data"))
		}},
		"the pod owns it": {act: func(w *World, pod client.Object) error {
			return w.Change("PersistentVolumeClaim", key("data"), func(obj client.Object) {
				obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.GetName(),
					UID: pod.GetUID()}})
			})
		}},
		"another pod of that name owned it": {act: func(w *World, pod client.Object) error {
			return w.Change("PersistentVolumeClaim", key("data"), func(obj client.Object) {
				obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.GetName(),
					UID: "another"}})
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(Options{Seed: 1, Profile: Calm()})
				must := func(err error) {
					t.Helper()
					if err != nil {
						t.Fatal(err)
					}
				}
				must(w.Create(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data"}}))
				must(w.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.PodSpec{
					Containers: []corev1.Container{{Name: "main", Image: "app:1"}},
					Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
						PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}},
				}}))
				must(w.Rest(time.Minute))
				must(tt.act(w, w.Get("Pod", key("web"))))
				must(w.Rest(time.Minute))
				if w.Get("PersistentVolumeClaim", key("data")) == nil {
					t.Error("the claim is gone before the pod")
				}
				must(w.Delete("Pod", key("web")))
				must(w.Rest(time.Minute))
				if w.Get("Pod", key("web")) != nil {
					t.Error("the pod is still there")
				}
				if got := w.Get("PersistentVolumeClaim", key("data")) != nil; got != tt.left {
					t.Errorf("after the pod: there is a claim: %v", got)
				}
			})
		})
	}
}
