package report

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/restarts"
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
			r := &Reconciler{Options: Options{Pods: pods, Kinds: kinds(),
				MemberClock: clocktesting.NewFakePassiveClock(time.Time{})}}
			live := &unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{"namespace": "shop", "name": "web", "uid": "web"},
				"spec":     map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}}}}}
			live.SetGroupVersionKind(apps.CloneSetKind)
			live.SetAnnotations(tt.annotations)
			if tt.kind != nil {
				tt.kind(live)
			}
			next := &work.Report{InUse: []work.SubsetUse{{}}}
			again, err := r.toRestart(t.Context(), live, next)
			if err != nil || next.InUse[0].ToRestart != tt.want || again != (tt.want > 0) {
				t.Errorf("%d, again %t, %v; want %d", next.InUse[0].ToRestart, again, err, tt.want)
			}
		})
	}
}

// TestRefusedRestartsAreNotCounted: pods that may not restart now ask the hub for no grant, and are counted again.
func TestRefusedRestartsAreNotCounted(t *testing.T) {
	now := time.Date(2026, 3, 4, 6, 0, 0, 0, time.UTC)
	clock := clocktesting.NewFakePassiveClock(now)
	var all []client.Object
	var list []*corev1.Pod
	for _, name := range []string{"web-0", "web-1", "web-2"} {
		pod := restartPod(t, name, "web", "")
		pod.UID = types.UID(name)
		all, list = append(all, pod), append(list, pod)
	}
	r := &Reconciler{Options: Options{Pods: fake.NewClientBuilder().WithObjects(all...).Build(), Kinds: kinds(),
		MemberClock: clock, Refusals: &restarts.Refusals{}}}
	live := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": "shop", "name": "web", "uid": "web"},
		"spec":     map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}}}}}
	live.SetGroupVersionKind(apps.CloneSetKind)
	live.SetAnnotations(map[string]string{apps.AnnotationRestart: fmt.Sprintf(`{"at":%q}`, restartAt)})
	count := func(want int32) {
		t.Helper()
		next := &work.Report{InUse: []work.SubsetUse{{}}}
		again, err := r.toRestart(t.Context(), live, next)
		if err != nil || !again || next.InUse[0].ToRestart != want {
			t.Errorf("%d, again %t, %v; want %d", next.InUse[0].ToRestart, again, err, want)
		}
	}
	r.Refusals.Request("web-0", "quota", now)
	count(2)
	r.Refusals.Disruptions(list, true, now.Add(time.Second))
	count(0)
	clock.SetTime(now.Add(restarts.AskedAgain))
	count(0)
	clock.SetTime(now.Add(2 * restarts.AskedAgain)) // nothing has changed
	count(0)
	r.Refusals.Disruptions(list, false, clock.Now())
	count(2)
	r.Refusals.Allow("web-0")
	count(3)
}
