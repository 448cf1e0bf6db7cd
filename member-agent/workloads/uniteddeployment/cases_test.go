package uniteddeployment_test

import (
	"fmt"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// updateKeepsStandIns: a and b have no nodes; their mins wait, and c runs all pods while the image changes.
func updateKeepsStandIns(w *world) {
	w.create(w.newUD(2, "a[1,]", "b[1,]", "c"), adaptive(2*time.Second, time.Second), reserving)
	w.expectPods("a=0+1 b=0+1 c=2")
	w.scale(4)
	w.expectPods("a=0+1 b=0+1 c=4")
	w.settle()

	film := w.film()
	w.edit(image("nginx:2"))
	w.expectImages("a:2=1 b:2=1 c:2=4")
	w.expectPods("a=0+1 b=0+1 c=4")
	w.settle()
	film.expect(3, 6) // the default maxUnavailable of 20% is one of four pods

	w.edit(func(ud *v1beta1.UnitedDeployment) {
		ud.Spec.Template.CloneSetTemplate.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateCloneSetStrategy{
			MaxUnavailable: new(intstr.FromInt32(0)), MaxSurge: new(intstr.FromInt32(1)),
		}
	})
	w.settle()
	film = w.film()
	w.edit(image("nginx:3"))
	w.expectImages("a:3=1 b:3=1 c:3=4")
	w.expectPods("a=0+1 b=0+1 c=4")
	w.settle()
	film.expect(4, 9)
	w.quiet()
}

// closedSubsetKeepsMin: a has no nodes, and is scaled while its min waits there.
func closedSubsetKeepsMin(w *world) {
	const closed = 2 * time.Second
	w.create(w.newUD(4, "a[1,2]", "b"), adaptive(time.Second, closed))
	w.expectPods("a=0+1 b=3")
	film := w.film()
	w.scale(3)
	w.expectPods("a=0+1 b=2")
	w.pause(2 * closed) // long enough for two tries
	film.catchUp()
	film.mu.Lock()
	made := film.onPod["a"]
	film.mu.Unlock()
	if made > 0 {
		w.Errorf("%d pods of the closed subset were made after it had its min", made)
	}
	if got := spreadOf(w.pods()); got != "a=0+1 b=2" {
		w.Errorf("pods are %s; %s", got, summary(w.get()))
	}
	w.quiet()
}

// replicasWithoutReserved: what OpenKruise publishes counts reserved pods in reservedPods and in the rows of the
// subsets only.
func replicasWithoutReserved(w *world) {
	w.create(w.newUD(4, "a", "b"), adaptive(time.Second, time.Second), reserving)
	w.expectPods("a=0+4 b=4")
	w.eventually("the status counts them", func() string {
		s := w.get().Status
		if len(s.SubsetStatuses) != 2 {
			return "no rows"
		}
		a, b := s.SubsetStatuses[0], s.SubsetStatuses[1]
		want := "replicas 4 ready 4 updated 8 updatedReady 4 reserved 4; a 4 ready 0 reserved 4; b 4 ready 4 reserved 0"
		got := fmt.Sprintf("replicas %d ready %d updated %d updatedReady %d reserved %d; a %d ready %d reserved %d; b %d "+
			"ready %d reserved %d",
			s.Replicas, s.ReadyReplicas, s.UpdatedReplicas, s.UpdatedReadyReplicas, s.ReservedPods,
			a.Replicas, a.ReadyReplicas, a.ReservedPods, b.Replicas, b.ReadyReplicas, b.ReservedPods)
		if got != want {
			return got + ", want " + want
		}
		return ""
	})
	ud := w.settle()
	if got := condition(ud, v1beta1.ConditionReady).Status; got != corev1.ConditionTrue ||
		ud.Status.CurrentRevision != ud.Status.UpdatedRevision {
		w.Errorf("Ready is %s, revisions %s and %s", got, ud.Status.CurrentRevision, ud.Status.UpdatedRevision)
	}
	scale := &autoscalingv1.Scale{}
	w.must(w.SubResource("scale").Get(w.Context(), ud, scale))
	if scale.Status.Replicas != 4 {
		w.Errorf("an autoscaler reads %d replicas, want 4", scale.Status.Replicas)
	}
}
