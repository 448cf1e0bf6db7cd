package expiry

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
)

// TestDeletesJobsAfterTheirTime counts from the end that the status has, so that a restart of the hub changes nothing.
func TestDeletesJobsAfterTheirTime(t *testing.T) {
	ended := time.Unix(1_000_000, 0)
	for name, tt := range map[string]struct {
		change func(*apps.BroadcastJob)
		after  time.Duration
		gone   bool
		again  time.Duration
	}{
		"too early":      {func(*apps.BroadcastJob) {}, 20 * time.Second, false, 40 * time.Second},
		"the time comes": {func(*apps.BroadcastJob) {}, time.Minute, true, 0},
		"it has not ended": {func(job *apps.BroadcastJob) { job.Status.CompletionTime = nil }, time.Hour, false,
			0},
		"it is kept": {func(job *apps.BroadcastJob) { job.Spec.CompletionPolicy.TTLSecondsAfterFinished = nil }, time.Hour,
			false, 0},
		"a job that is not the hub's": {func(job *apps.BroadcastJob) { job.Status.Conditions = nil }, time.Hour, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			job := &apps.BroadcastJob{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "repair", UID: "one"}}
			job.Spec.CompletionPolicy.TTLSecondsAfterFinished = new(int32(60))
			job.Status.CompletionTime = &metav1.Time{Time: ended}
			job.Status.Conditions = []apps.JobCondition{{Type: apps.ConditionFederated, Status: corev1.ConditionTrue}}
			tt.change(job)
			scheme := runtime.NewScheme()
			if err := apps.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(job).Build()
			r := &reconciler{kind: kinds.Workloads()[apps.BroadcastJobKind.GroupKind()], client: c,
				clock: clocktesting.NewFakePassiveClock(ended.Add(tt.after))}
			got, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(job)})
			if err != nil || got.RequeueAfter != tt.again {
				t.Errorf("%+v, %v", got, err)
			}
			err = c.Get(t.Context(), client.ObjectKeyFromObject(job), job)
			if apierrors.IsNotFound(err) != tt.gone {
				t.Errorf("%v", err)
			}
			again, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(job)})
			if err != nil || again != got {
				t.Errorf("the second pass: %+v, %v", again, err)
			}
		})
	}
}
