package podready_test

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/podready"
)

func TestPatch(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	earlier := metav1.NewTime(now.Add(-time.Hour))
	const other, ours = `{ "key":"preparingDelete","userAgent":"Lifecycle","n":1.50 }`, `{"userAgent":"A","key":"k"}`
	for _, tt := range []struct {
		name                  string
		before, after         string // messages
		beforeStatus, status  corev1.ConditionStatus
		noGate, mark, touched bool
		since                 metav1.Time
	}{
		{name: "marked", mark: true, beforeStatus: "True", after: "[" + ours + "]", status: "False",
			since: metav1.NewTime(now)},
		{name: "marked, beside another writer", mark: true, before: "[" + other + "]", beforeStatus: "False",
			after: "[" + other + "," + ours + "]", status: "False", since: earlier},
		{name: "marked already", mark: true, before: "[" + ours + "]", beforeStatus: "False"},
		{name: "without the gate", mark: true, noGate: true},
		{name: "freed", before: "[" + ours + "]", beforeStatus: "False", status: "True", since: metav1.NewTime(now)},
		{name: "freed, and another writer stays", before: "[" + ours + "," + other + "]", beforeStatus: "False",
			after: "[" + other + "]", status: "False", since: earlier},
		{name: "free already", before: "[" + other + "]", beforeStatus: "False"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", ResourceVersion: "7"}}
			if !tt.noGate {
				podready.InjectGate(&pod.Spec)
			}
			if tt.beforeStatus != "" {
				pod.Status.Conditions = []corev1.PodCondition{{Type: podready.Condition, Status: tt.beforeStatus,
					Message: tt.before, LastTransitionTime: earlier}}
			}
			patch, err := podready.Patch(pod, podready.Writer{UserAgent: "A", Key: "k"}, tt.mark, now)
			if err != nil {
				t.Fatal(err)
			}
			if tt.status == "" {
				if patch != nil {
					t.Errorf("it writes %s", patch)
				}
				return
			}
			raw, err := json.Marshal(pod)
			if err != nil {
				t.Fatal(err)
			}
			patched, err := strategicpatch.StrategicMergePatch(raw, patch, &corev1.Pod{})
			if err != nil {
				t.Fatal(err)
			}
			got := corev1.Pod{}
			if err := json.Unmarshal(patched, &got); err != nil {
				t.Fatal(err)
			}
			c := got.Status.Conditions[0]
			if c.Status != tt.status || c.Message != tt.after || !c.LastTransitionTime.Time.Equal(tt.since.Time) {
				t.Errorf("got %s %s since %s", c.Status, c.Message, c.LastTransitionTime)
			}
		})
	}
}

func TestPatchOfUnreadableList(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: podready.Condition, Status: "False", Message: "kept out of traffic by hand"}}
	podready.InjectGate(&pod.Spec)
	if patch, err := podready.Patch(pod, podready.Writer{UserAgent: "A", Key: "k"}, true, time.Time{}); err == nil {
		t.Errorf("it writes %s", patch)
	}
}
