package rollout

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
)

// TestBroadcastJobs pauses, resumes and promotes a job in a cluster without a hub.
func TestBroadcastJobs(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := apps.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	at := metav1.NewTime(time.Unix(1000, 0))
	job := &apps.BroadcastJob{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "repair"},
		Status: apps.BroadcastJobStatus{Desired: 9, Succeeded: 5, Failed: 1, ObservedGeneration: 1,
			Flotilla: &apps.BroadcastJobProgress{Batch: 2,
				Halted: &apps.BroadcastJobHalt{Time: at, Reason: "CheckFailed", Message: "check web"}},
			Conditions: []apps.JobCondition{{Type: apps.ConditionStalled, Status: corev1.ConditionTrue, Reason: "CheckFailed",
				Message: "check web"}}}}
	key, err := console.Workload("bcj/repair", "ops")
	if err != nil || !isJob(key) {
		t.Fatalf("%+v, %v", key, err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(job).WithObjects(job).Build()
	run := func(change func(client.Object) error) *apps.BroadcastJob {
		t.Helper()
		var out strings.Builder
		if err := apply(t.Context(), c, &out, key, "changed", change); err != nil {
			t.Fatal(err)
		}
		object, err := get(t.Context(), c, key)
		if err != nil {
			t.Fatal(err)
		}
		return object.(*apps.BroadcastJob)
	}
	if got := run(func(o client.Object) error { return pause(o, true) }); !got.Spec.Paused || len(got.Annotations) > 0 {
		t.Errorf("paused: %+v", got)
	}
	if got := run(func(o client.Object) error { return pause(o, false) }); got.Spec.Paused ||
		got.Annotations[apps.AnnotationResume] != "1970-01-01T00:16:40Z" {
		t.Errorf("resumed: %+v", got)
	}
	if got := run(promote); got.Annotations[apps.AnnotationPromote] != "2" {
		t.Errorf("promoted: %+v", got)
	}
	status := StatusOf(job)
	const want = "BroadcastJob ops/repair: Failed; on 6 of 9 nodes the pod has ended, on 5 it succeeded " +
		"(CheckFailed: check web)\n"
	if text := status.text(); text != want {
		t.Errorf("%q, want %q", text, want)
	}
	job.Status.CompletionTime = &at
	if err := pause(job, true); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("a job that has ended: %v", err)
	}
	if err := noVerb("undo"); !strings.Contains(err.Error(), "has no rollout undo: use status, pause") {
		t.Error(err)
	}
	key.Name = "other"
	if _, err := get(t.Context(), c, key); err == nil || !strings.Contains(err.Error(), "there is no BroadcastJob") {
		t.Errorf("%v", err)
	}
}
