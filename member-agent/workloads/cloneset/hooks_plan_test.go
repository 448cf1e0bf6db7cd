package cloneset

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// held returns a simulation at rest whose pods all have the labels of the hooks preDelete and inPlaceUpdate.
func held(t *testing.T, replicas int32) *simulation {
	s := newSimulation(t, replicas)
	s.cs.Spec.Template.Labels["drain"], s.cs.Spec.Template.Labels["serve"] = "yes", "yes"
	s.cs.Spec.Lifecycle = &v1beta1.Lifecycle{
		PreDelete:     &v1beta1.LifecycleHook{LabelsHandler: map[string]string{"drain": "yes"}},
		InPlaceUpdate: &v1beta1.LifecycleHook{LabelsHandler: map[string]string{"serve": "yes"}},
	}
	s.run("created")
	return s
}

func in(pod *corev1.Pod, state v1beta1.LifecycleState) *corev1.Pod {
	pod.Labels[v1beta1.LabelLifecycleState] = string(state)
	return pod
}

func sick(pod *corev1.Pod) {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodReady {
			pod.Status.Conditions[i].Status = corev1.ConditionFalse
		}
	}
}

func (s *simulation) plan() Plan {
	s.t.Helper()
	plan, err := Compute(s.facts())
	s.must(err)
	return plan
}

// prepared returns the states that the plan writes, by the names of the pods.
func prepared(plan Plan) map[string]v1beta1.LifecycleState {
	out := map[string]v1beta1.LifecycleState{}
	for _, p := range plan.Prepare {
		if p.Step.State != "" {
			out[p.Pod.Name] = p.Step.State
		}
	}
	return out
}

// Another pod that becomes unhealthy takes nobody's turn: what has begun is gone on with.
func TestWhatIsPreparedKeepsItsTurn(t *testing.T) {
	for _, policy := range []v1beta1.PodUpdatePolicyType{v1beta1.ReCreatePodUpdatePolicy,
		v1beta1.InPlaceIfPossiblePodUpdatePolicy} {
		s := held(t, 3)
		s.rolling().PodUpdatePolicy, s.rolling().MaxUnavailable = policy, new(intstr.FromInt32(1))
		s.image("app:2")
		state := v1beta1.LifecyclePreparingUpdate
		if policy == v1beta1.ReCreatePodUpdatePolicy {
			state = v1beta1.LifecyclePreparingDelete
		}
		in(s.pods[1], state)
		sick(s.pods[0])
		if plan := s.plan(); !empty(plan) {
			t.Errorf("%s: the plan writes %v, deletes %d", policy, prepared(plan), len(plan.Delete))
		}
	}
}

// What a pod waits for by itself is no hook's business.
func TestOnlyHooksAreWaitedForOutside(t *testing.T) {
	s := held(t, 2)
	delete(s.pods[0].Labels, "serve")
	s.badImage = "app:2"
	s.image("app:2")
	plan := s.plan()
	if got := plan.Waiting.Message(); got != "pod web-002 waits: lifecycle.inPlaceUpdate: label serve=yes is still on "+
		"the pod" {
		t.Errorf("the message is %q", got)
	}
	delete(s.pods[1].Labels, "serve")
	s.pass()
	in(s.pods[0], v1beta1.LifecycleUpdating)
	in(s.pods[1], v1beta1.LifecycleUpdating)
	s.kubelet(func() bool { return false })
	plan = s.plan()
	if got := plan.Waiting.Message(); got != "" {
		t.Errorf("while an image is pulled the message is %q", got)
	}
}

// With excludePreparingDelete a pod on its way out comes back instead of a new one, if nobody has let go of it.
func TestLeavingPodsComeBack(t *testing.T) {
	for _, tt := range []struct {
		reason  string
		change  func(*simulation, *corev1.Pod)
		state   v1beta1.LifecycleState
		created int32
		deleted int
	}{
		{"it is surplus", func(s *simulation, _ *corev1.Pod) { s.cs.Spec.Replicas = new(int32(2)) }, "", 0, 0},
		{"it is wanted again", func(*simulation, *corev1.Pod) {}, v1beta1.LifecycleNormal, 0, 0},
		{"its hook has let go", func(_ *simulation, pod *corev1.Pod) { delete(pod.Labels, "drain") }, "", 1, 1},
		{"somebody named it", func(_ *simulation, pod *corev1.Pod) { pod.Labels[v1beta1.LabelSpecifiedDelete] = "" }, "", 1,
			0},
		{"it is in podsToDelete", func(s *simulation, pod *corev1.Pod) { s.cs.Spec.ScaleStrategy.PodsToDelete = []string{pod.Name} }, "", 1, 0},
		{"another revision is wanted", func(s *simulation, _ *corev1.Pod) {
			s.image("app:2")
			s.rolling().Paused = true
		}, "", 1, 0},
	} {
		s := held(t, 3)
		s.cs.Spec.ScaleStrategy.ExcludePreparingDelete = true
		pod := in(s.pods[1], v1beta1.LifecyclePreparingDelete)
		tt.change(s, pod)
		plan := s.plan()
		created := int32(0)
		for _, c := range plan.Create {
			created += c.Count
		}
		if prepared(plan)[pod.Name] != tt.state || created != tt.created || len(plan.Delete) != tt.deleted {
			t.Errorf("%s: states %v, %d created, %d deleted", tt.reason, prepared(plan), created, len(plan.Delete))
		}
	}
}
