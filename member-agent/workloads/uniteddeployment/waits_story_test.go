package uniteddeployment_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/uniteddeployment"
)

// laterClock is the real clock, moved on by as much as a test asks for.
type laterClock struct {
	clock.RealClock
	mu sync.Mutex
	by time.Duration
}

func (c *laterClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.RealClock.Now().Add(c.by)
}

func (c *laterClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (c *laterClock) move(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by += by
}

// waitsOfControllers are stories of children whose controllers wait for what only a person does.
func waitsOfControllers(t *testing.T, w *world) {
	t.Helper()
	w.tell(t, "a broken pod is replaced after undo and scale-out goes on", brokenThenBack, "a")
	w.tell(t, "a first template that is broken is replaced", brokenFromTheBeginning, "a")
	w.tell(t, "a pod that runs and never was ready is replaced", neverReadyThenBack, "a")
	w.tell(t, "a pod that was ready is named with its remedy", wasReadyThenBroken, "a")
	w.tell(t, "pods of on-delete are left to a person", onDeletePods, "a")
	w.tell(t, "a deployment past its deadline is stalled", deploymentPastDeadline, "a")
}

// pod returns the pod of an ordinal of the only subset.
func (w *world) pod(ordinal int) *corev1.Pod {
	w.Helper()
	for _, pod := range w.pods() {
		if strings.HasSuffix(pod.Name, fmt.Sprint("-", ordinal)) {
			return &pod
		}
	}
	return nil
}

// waitForPod waits until the pod of the ordinal is as ok says.
func (w *world) waitForPod(ordinal int, what string, ok func(*corev1.Pod) bool) *corev1.Pod {
	w.Helper()
	var pod *corev1.Pod
	w.eventually(fmt.Sprint("pod ", ordinal, " ", what), func() string {
		if pod = w.pod(ordinal); pod == nil || !ok(pod) {
			return fmt.Sprintf("%v: %s", spreadOf(w.pods()), summary(w.get()))
		}
		return ""
	})
	return pod
}

func runs(name string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool { return pod.Spec.Containers[0].Image == name && isReady(pod) }
}

func brokenThenBack(w *world) {
	w.create(w.newUD(4, "a"), statefulSets)
	w.expectPods("a=4")
	w.settle()
	w.edit(image("does-not-exist:1"))
	w.waitForPod(3, "has the broken image", func(pod *corev1.Pod) bool {
		return pod.Spec.Containers[0].Image == "does-not-exist:1" && pod.Status.StartTime != nil
	})
	w.expectPods("a=3+1")
	film := w.film()
	w.edit(image("nginx:1"))
	w.waitForPod(3, "runs the image of before", runs("nginx:1"))
	w.settle()
	w.scale(6)
	w.expectPods("a=6")
	w.settle()
	film.expect(3, 6)
	w.quiet()
	// Forward instead of back.
	w.edit(image("does-not-exist:2"))
	w.waitForPod(5, "has the broken image",
		func(pod *corev1.Pod) bool { return pod.Spec.Containers[0].Image == "does-not-exist:2" })
	w.edit(image("nginx:2"))
	w.expectImages("a:2=6")
	w.settle()
}

func brokenFromTheBeginning(w *world) {
	w.create(w.newUD(2, "a"), statefulSets, image("does-not-exist:1"))
	w.waitForPod(0, "has the broken image", func(pod *corev1.Pod) bool { return pod.Status.StartTime != nil })
	w.edit(image("nginx:1"))
	w.expectPods("a=2")
	w.settle()
}

func neverReadyThenBack(w *world) {
	label := func(value string) func(*v1beta1.UnitedDeployment) {
		return func(ud *v1beta1.UnitedDeployment) {
			ud.Spec.Template.StatefulSetTemplate.Spec.Template.Labels["sim.flotilla.dev/never-ready"] = value
		}
	}
	w.create(w.newUD(2, "a"), statefulSets)
	w.expectPods("a=2")
	w.settle()
	w.edit(label("true"))
	w.waitForPod(1, "runs", func(pod *corev1.Pod) bool { return !isReady(pod) && pod.Status.Phase == corev1.PodRunning })
	w.edit(label("false"))
	w.expectPods("a=2")
	w.settle()
}

// wasReadyThenBroken breaks a pod that serves. The agent does not delete it, and says who can.
func wasReadyThenBroken(w *world) {
	w.create(w.newUD(2, "a"), statefulSets)
	w.expectPods("a=2")
	w.settle()
	pod := w.pod(1)
	before := pod.DeepCopy()
	pod.Spec.Containers[0].Image = "does-not-exist:1"
	w.must(w.Patch(w.Context(), pod, client.MergeFrom(before)))
	w.expectPods("a=1+1")
	w.edit(image("nginx:2"))
	w.eventually("the change is seen", func() string {
		if ud := w.get(); ud.Status.ObservedGeneration != ud.Generation {
			return "not yet: " + summary(ud)
		}
		return ""
	})
	w.root.clock.move(2 * time.Minute)
	w.touch()
	w.eventually("the wait is Stalled and says what to do", func() string {
		stalled := condition(w.get(), v1beta1.ConditionStalled)
		remedy := fmt.Sprintf("kubectl delete pod %s -n %s", pod.Name, w.name)
		if stalled.Status != corev1.ConditionTrue || stalled.Reason != uniteddeployment.ReasonChildStalled ||
			!strings.Contains(stalled.Message, uniteddeployment.ReasonPodNotReplaced+": pod "+pod.Name) ||
			!strings.Contains(stalled.Message, remedy) {
			return "not yet: " + summary(w.get())
		}
		return ""
	})
	w.quiet()
	if still := w.pod(1); still == nil || still.UID != pod.UID {
		w.Fatalf("the pod was replaced")
	}
	w.must(w.Delete(w.Context(), pod))
	w.expectImages("a:2=2")
	if stalled := condition(w.settle(), v1beta1.ConditionStalled); stalled.Status != corev1.ConditionFalse {
		w.Errorf("after the remedy: %+v", stalled)
	}
}

// touch makes the controller look again.
func (w *world) touch() {
	w.Helper()
	w.edit(func(ud *v1beta1.UnitedDeployment) { ud.Annotations = map[string]string{"touched": time.Now().String()} })
}

func onDeletePods(w *world) {
	w.create(w.newUD(2, "a"), statefulSets, func(ud *v1beta1.UnitedDeployment) {
		ud.Spec.Template.StatefulSetTemplate.Spec.UpdateStrategy.Type = "OnDelete"
	})
	w.expectPods("a=2")
	w.settle()
	w.edit(image("does-not-exist:1"))
	if ud := w.settle(); !strings.Contains(condition(ud, v1beta1.ConditionReady).Message,
		"2 of 2 pods are available; 0 are updated, the others are when somebody deletes them") {
		w.Errorf("at rest: %+v", ud.Status.Conditions)
	}
	w.must(w.Delete(w.Context(), w.pod(1)))
	pod := w.waitForPod(1, "has the broken image", func(pod *corev1.Pod) bool {
		return pod.Status.StartTime != nil &&
			!isReady(pod)
	})
	w.edit(image("nginx:1"))
	w.eventually("the change is seen", func() string {
		if ud := w.get(); ud.Status.ObservedGeneration != ud.Generation {
			return "not yet: " + summary(ud)
		}
		return ""
	})
	w.root.clock.move(2 * time.Minute)
	w.touch()
	w.eventually("the pod is named", func() string {
		if c := condition(w.get(), v1beta1.ConditionStalled); c.Status != corev1.ConditionTrue ||
			!strings.Contains(c.Message, "kubectl delete pod "+pod.Name) {
			return "not yet: " + summary(w.get())
		}
		return ""
	})
	w.must(w.Delete(w.Context(), pod))
	w.expectPods("a=2")
	w.settle()
}

func deploymentPastDeadline(w *world) {
	w.create(w.newUD(1, "a"), deployments, image("does-not-exist:1"), func(ud *v1beta1.UnitedDeployment) {
		ud.Spec.Template.DeploymentTemplate.Spec.ProgressDeadlineSeconds = new(int32(2))
	})
	w.eventually("the deadline is told, with the pod", func() string {
		c := condition(w.get(), v1beta1.ConditionStalled)
		if c.Status != corev1.ConditionTrue || !strings.Contains(c.Message,
			"ProgressDeadlineExceeded: ContainerFailing: pod web-a-") {
			return "not yet: " + summary(w.get())
		}
		return ""
	})
	w.edit(image("nginx:1"))
	w.expectPods("a=1")
	w.settle()
}
