package report

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

const restartAt = "2026-03-04T05:06:07Z"

// restartPod returns a pod of the owner that is older than the restart.
func restartPod(t *testing.T, name, owner, restarted string) *corev1.Pod {
	t.Helper()
	at, err := time.Parse(time.RFC3339, restartAt)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name,
		Labels: map[string]string{"app": "web"}, CreationTimestamp: metav1.NewTime(at.Add(-time.Hour)),
		Annotations: map[string]string{apps.AnnotationRestarted: restarted},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: owner,
			UID: types.UID(owner), Controller: new(true)}}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}}
}

func TestReportsPodsToRestart(t *testing.T) {
	for _, tt := range []struct {
		name        string
		annotations map[string]string
		kind        func(*unstructured.Unstructured)
		want        int32
	}{
		{"no restart", nil, nil, 0},
		{"some have restarted", map[string]string{apps.AnnotationRestart: `{"at":"` + restartAt + `"}`}, nil, 2},
		{"no pod has the container", map[string]string{
			apps.AnnotationRestart: `{"at":"` + restartAt + `","containers":["proxy"]}`}, nil, 0},
		{"it has stopped", map[string]string{apps.AnnotationRestart: `{"at":"` + restartAt + `"}`,
			apps.AnnotationRestartFailed: restartAt}, nil, 0},
		{"an earlier one has stopped", map[string]string{apps.AnnotationRestart: `{"at":"` + restartAt + `"}`,
			apps.AnnotationRestartFailed: "2025-01-01T00:00:00Z"}, nil, 2},
		{"it cannot be read", map[string]string{apps.AnnotationRestart: "now"}, nil, 0},
		{"another kind", map[string]string{apps.AnnotationRestart: `{"at":"` + restartAt + `"}`},
			func(u *unstructured.Unstructured) { u.SetGroupVersionKind(apps.UnitedDeploymentKind) }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ended := restartPod(t, "web-4", "web", "")
			ended.Status.Phase = corev1.PodFailed
			pods := fake.NewClientBuilder().WithObjects(restartPod(t, "web-0", "web", ""),
				restartPod(t, "web-1", "web", restartAt), restartPod(t, "web-2", "web", "2025-01-01T00:00:00Z"),
				restartPod(t, "web-3", "other", ""), ended).Build()
			r := &Reconciler{Options: Options{Pods: pods, Kinds: kinds()}}
			live := &unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{"namespace": "shop", "name": "web", "uid": "web"},
				"spec":     map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}}}}}
			live.SetGroupVersionKind(apps.CloneSetKind)
			live.SetAnnotations(tt.annotations)
			if tt.kind != nil {
				tt.kind(live)
			}
			next := &work.Report{InUse: []work.SubsetUse{{}}}
			again, err := r.toRestart(t.Context(), &memo{}, live, next)
			if err != nil || next.InUse[0].ToRestart != tt.want || again != (tt.want > 0) {
				t.Errorf("%d, again %t, %v; want %d", next.InUse[0].ToRestart, again, err, tt.want)
			}
		})
	}
}

// TestEndedRestartIsNotCounted: once all pods have restarted, they are not listed again for this restart.
func TestEndedRestartIsNotCounted(t *testing.T) {
	pods := fake.NewClientBuilder().WithObjects(restartPod(t, "web-0", "web", restartAt)).Build()
	r := &Reconciler{Options: Options{Pods: pods, Kinds: kinds()}}
	live := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": "shop", "name": "web", "uid": "web"},
		"spec":     map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}}}}}
	live.SetGroupVersionKind(apps.CloneSetKind)
	m := &memo{}
	count := func(at string) string {
		live.SetAnnotations(map[string]string{apps.AnnotationRestart: fmt.Sprintf(`{"at":%q}`, at)})
		next := &work.Report{InUse: []work.SubsetUse{{}}}
		left, err := r.toRestart(t.Context(), m, live, next)
		return fmt.Sprint(left, err)
	}
	if got := count(restartAt); got != "false <nil>" {
		t.Fatal(got)
	}
	if err := pods.Delete(t.Context(), restartPod(t, "web-0", "web", "")); err != nil {
		t.Fatal(err)
	}
	var old client.Object = restartPod(t, "web-0", "web", "")
	if err := pods.Create(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if got := count(restartAt); got != "false <nil>" {
		t.Errorf("the same restart: %s", got)
	}
	if got := count("2026-03-04T05:06:08Z"); got != "true <nil>" {
		t.Errorf("another restart: %s", got)
	}
}
