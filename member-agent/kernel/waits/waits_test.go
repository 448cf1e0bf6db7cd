package waits_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/waits"
)

var (
	began = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	later = began.Add(time.Hour)
)

func condition(name corev1.PodConditionType, status corev1.ConditionStatus, since time.Time) corev1.PodCondition {
	return corev1.PodCondition{Type: name, Status: status, LastTransitionTime: metav1.NewTime(since)}
}

// pod runs on a node and has not been Ready since it began.
func pod(changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-1", CreationTimestamp: metav1.NewTime(began)},
		Spec:       corev1.PodSpec{NodeName: "n1"},
		Status: corev1.PodStatus{
			Phase: corev1.PodPending, StartTime: &metav1.Time{Time: began},
			Conditions: []corev1.PodCondition{condition(corev1.PodReady, corev1.ConditionFalse, began)},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "main",
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
		},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

func waitingFor(reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
	}
}

func unscheduled(message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status.ContainerStatuses, p.Status.StartTime = "", nil, nil
		p.Spec.Volumes = make([]corev1.Volume, 1)
		p.Spec.Volumes[0].PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-db-1"}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Reason:  corev1.PodReasonUnschedulable,
			Message: message, LastTransitionTime: metav1.NewTime(began)}}
	}
}

func gate(name corev1.PodConditionType, ready corev1.ConditionStatus) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodRunning
		p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: name}}
		p.Status.Conditions = append(p.Status.Conditions, condition(corev1.ContainersReady, ready, began))
	}
}

func TestCase4TableOfWaits(t *testing.T) {
	deleted := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: began} }
	for _, tt := range []struct {
		name     string
		pod      *corev1.Pod
		reason   string // "" for none
		patience time.Duration
		says     []string
	}{
		{"starts", pod(), "", 0, nil},
		{"has an image that cannot be pulled", pod(waitingFor("ErrImagePull")), waits.ReasonContainerFailing, waits.Long,
			[]string{"db-1", "container main", "ImagePullBackOff", "kubectl describe pod db-1 -n shop"}},
		{"has an image that cannot be pulled, and waits", pod(waitingFor("ImagePullBackOff")), waits.ReasonContainerFailing,
			waits.Long, []string{"ImagePullBackOff"}},
		{"has no ConfigMap", pod(waitingFor("CreateContainerConfigError")), waits.ReasonContainerFailing, waits.Long,
			[]string{"CreateContainerConfigError"}},
		{"is being set up", pod(waitingFor("ContainerCreating")), "", 0, nil},
		{"crashes again and again, and runs just now",
			pod(func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount = 3 }),
			waits.ReasonContainerFailing, waits.Long, []string{"CrashLoopBackOff"}},
		{"was restarted once", pod(func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount = 1 }), "", 0, nil},
		{"has an init container that fails", pod(waitingFor("PodInitializing"), func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "once", State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}
		}), waits.ReasonContainerFailing, waits.Long, []string{"container once", "CrashLoopBackOff"}},
		{"is Ready, and a container was restarted often", pod(func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Conditions[0].Status = corev1.PodRunning, corev1.ConditionTrue
			p.Status.ContainerStatuses[0].RestartCount = 9
		}), "", 0, nil},
		{"has ended", pod(waitingFor("CrashLoopBackOff"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), "", 0,
			nil},
		{"has a claim that is not bound",
			pod(unscheduled("0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.")),
			waits.ReasonClaimNotBound, waits.Soon, []string{"db-1", "kubectl describe pvc data-db-1 -n shop"}},
		{"has a claim that does not exist",
			pod(unscheduled(`0/3 nodes are available: persistentvolumeclaim "data-db-1" not found.`)),
			waits.ReasonClaimNotBound, waits.Soon, []string{"kubectl describe pvc"}},
		{"finds no volume",
			pod(unscheduled("0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind.")),
			waits.ReasonClaimNotBound, waits.Soon, []string{"kubectl describe pvc"}},
		{"finds no cpu", pod(unscheduled("0/3 nodes are available: 3 Insufficient cpu.")), "", 0, nil},
		{"waits for a gate of somebody", pod(gate("example.com/lb", corev1.ConditionTrue)), waits.ReasonReadinessGateNotSet,
			waits.Long, []string{"example.com/lb"}},
		{"waits for a gate, and its containers are not ready", pod(gate("example.com/lb", corev1.ConditionFalse)), "", 0,
			nil},
		{"waits for a gate of ours", pod(gate(v1beta1.InPlaceUpdateReady, corev1.ConditionTrue)), "", 0, nil},
		{"is being deleted on a node that is silent", pod(deleted), waits.ReasonPodTerminating, waits.Soon,
			[]string{"node n1", "kubectl taint node n1 node.kubernetes.io/out-of-service"}},
		{"is being deleted and kept", pod(deleted, func(p *corev1.Pod) { p.Finalizers = []string{"example.com/keep"} }),
			waits.ReasonPodTerminating, waits.Soon,
			[]string{"example.com/keep", "kubectl patch pod db-1 -n shop"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := waits.Of(tt.pod)
			if tt.reason == "" {
				if w != nil {
					t.Errorf("a wait is found: %+v", *w)
				}
				return
			}
			if w == nil || w.Reason != tt.reason || w.Patience != tt.patience || !w.Since.Equal(began) {
				t.Fatalf("wait is %+v", w)
			}
			for _, want := range tt.says {
				if !strings.Contains(w.Message, want) {
					t.Errorf("message %q lacks %q", w.Message, want)
				}
			}
		})
	}
}

func TestAWaitCountsAfterItsPatience(t *testing.T) {
	w := waits.Wait{Since: began, Patience: time.Minute}
	for _, tt := range []struct{ floor, now, want time.Duration }{
		{0, 0, time.Minute}, {0, 40 * time.Second, 20 * time.Second}, {0, time.Hour, 0},
		{time.Hour, time.Hour, time.Minute}, // what happened since the floor counts
	} {
		if got := w.Left(began.Add(tt.floor), began.Add(tt.now)); got != tt.want {
			t.Errorf("from %s, at %s: %s, want %s", tt.floor, tt.now, got, tt.want)
		}
	}
}

func TestNeverReadyIsCertain(t *testing.T) {
	for _, tt := range []struct {
		name string
		pod  *corev1.Pod
		want bool
	}{
		{"not Ready since it started", pod(), true},
		{"no node", pod(unscheduled("no room")), true},
		{"Ready", pod(func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionTrue }), false},
		{"not Ready since a time after it started",
			pod(func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(later) }), false},
		{"its spec was changed", pod(func(p *corev1.Pod) { p.Generation = 2 }), false},
		{"its spec is that of its creation", pod(func(p *corev1.Pod) { p.Generation = 1 }), true},
		{"the node is silent", pod(func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionUnknown }), false},
		{"the start is not known", pod(func(p *corev1.Pod) { p.Status.StartTime = nil }), false},
		{"the time of the condition is not known",
			pod(func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.Time{} }), false},
		{"it runs, and the condition is not known", pod(func(p *corev1.Pod) {
			p.Status.Phase,
				p.Status.Conditions = corev1.PodRunning, nil
		}), false},
	} {
		if got := waits.NeverReady(tt.pod); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
