package cloneset

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// available counts the pods that are.
func (s *simulation) available() int {
	n := 0
	for _, pod := range s.pods {
		if podstate.Ready(pod) {
			n++
		}
	}
	return n
}

// TestNothingIsDisruptedWithoutAllowance: in the middle of a rollout the allowance runs out. What has begun ends, what
// is missing comes back, and nothing else moves until the hub is heard again.
func TestNothingIsDisruptedWithoutAllowance(t *testing.T) {
	for _, policy := range []v1beta1.PodUpdatePolicyType{v1beta1.InPlaceIfPossiblePodUpdatePolicy,
		v1beta1.ReCreatePodUpdatePolicy} {
		t.Run(string(policy), func(t *testing.T) {
			s := newSimulation(t, 6)
			s.rolling().PodUpdatePolicy, s.rolling().MaxSurge = policy, new(intstr.FromInt32(1))
			s.run("start")
			s.lent = true
			s.image("app:2")
			s.pass()
			s.over = true
			for range 20 {
				s.pass()
				s.kubelet(func() bool { return false })
				s.now = s.now.Add(time.Second)
			}
			if got := s.available(); got != 6 || len(s.pods) != 6 {
				t.Fatalf("%d of %d pods are available, want 6 of 6", got, len(s.pods))
			}
			updated := s.updated()
			if updated == 0 || updated == 6 {
				t.Fatalf("%d pods are updated: the rollout is not in its middle", updated)
			}
			ready := conditionOf(s.cs, v1beta1.ConditionReady)
			if ready == nil || ready.Status != corev1.ConditionFalse || ready.Reason != conditions.ReasonHubSilent {
				t.Errorf("Ready is %+v, want reason %s", ready, conditions.ReasonHubSilent)
			}

			// Somebody names a pod, and another one is lost.
			named, lost := s.pods[0].Name, s.pods[len(s.pods)-1].Name
			s.cs.Spec.ScaleStrategy.PodsToDelete = []string{named}
			s.pods = s.pods[:len(s.pods)-1]
			for range 20 {
				if plan := s.pass(); len(plan.Update) > 0 || len(plan.Delete) > 0 {
					t.Fatalf("%d pods are updated and %d deleted without an allowance", len(plan.Update), len(plan.Delete))
				}
				s.kubelet(func() bool { return false })
				s.now = s.now.Add(time.Second)
			}
			if got := s.available(); got != 6 {
				t.Fatalf("%d pods are available after %s was lost, want 6", got, lost)
			}
			if s.pods[0].Name != named {
				t.Errorf("%s was deleted by its name", named)
			}

			s.over = false
			s.cs.Spec.ScaleStrategy.PodsToDelete = nil
			s.run("the hub is heard again")
			if got := s.updated(); got != 6 {
				t.Errorf("%d pods are updated in the end, want 6", got)
			}
			if ready := conditionOf(s.cs, v1beta1.ConditionReady); ready == nil || ready.Status != corev1.ConditionTrue {
				t.Errorf("Ready is %+v in the end", ready)
			}
		})
	}
}

// TestSilenceOfTheHubIsNoDeadline: while the hub is silent no pod is updated, and that time does not count for the
// deadline.
func TestSilenceOfTheHubIsNoDeadline(t *testing.T) {
	s := newSimulation(t, 6)
	s.cs.Spec.ProgressDeadlineSeconds = new(int32(600))
	s.run("start")
	s.lent = true
	s.image("app:2")
	s.pass()
	s.over = true
	for range 5 {
		s.pass()
		s.kubelet(func() bool { return false })
		s.now = s.now.Add(time.Second)
	}
	s.now = s.now.Add(15 * time.Minute)
	s.over = false
	s.pass()
	if c := conditionOf(s.cs, v1beta1.CloneSetConditionProgressing); c == nil || c.Status != corev1.ConditionTrue {
		t.Errorf("Progressing is %+v when the hub is heard again", c)
	}
	s.run("the hub is heard again")
	if got := s.updated(); got != 6 {
		t.Errorf("%d pods are updated in the end, want 6", got)
	}
}

// TestScaleInWithoutAllowance: what was scaled in goes, as far as nothing that counts goes with it.
func TestScaleInWithoutAllowance(t *testing.T) {
	s := newSimulation(t, 6)
	s.run("start")
	s.lent, s.over = true, true
	s.cs.Spec.Replicas = new(int32(4))
	for range 10 {
		s.pass()
		if s.available() < 4 {
			t.Fatalf("%d pods are available, want 4 at least", s.available())
		}
		s.kubelet(func() bool { return false })
		s.now = s.now.Add(time.Second)
	}
	if len(s.pods) != 4 {
		t.Errorf("%d pods are left, want 4", len(s.pods))
	}
}

// TestWithdrawnSurgeTakesNothingAvailable is what chaos found with seeds 115 and 128: the surge is lent to another cell
// while its pod is starting here. The order is a pause and maxUnavailable 1, and an available pod went for the one that
// was too many, while another cell had what may be unavailable.
func TestWithdrawnSurgeTakesNothingAvailable(t *testing.T) {
	for _, policy := range []v1beta1.PodUpdatePolicyType{v1beta1.InPlaceIfPossiblePodUpdatePolicy,
		v1beta1.ReCreatePodUpdatePolicy} {
		t.Run(string(policy), func(t *testing.T) {
			s := newSimulation(t, 4)
			s.run("start")
			s.lent = true
			s.surge(1, 0)
			s.rolling().PodUpdatePolicy = policy
			s.image("app:2")
			s.pass()
			if len(s.pods) != 5 || s.available() != 4 {
				t.Fatalf("%d of %d pods are available, want a surge pod that is starting", s.available(), len(s.pods))
			}

			s.surge(0, 1)
			s.rolling().PodUpdatePolicy, s.rolling().Paused = policy, true
			for range 20 {
				if plan := s.pass(); len(plan.Delete) > 0 || len(plan.Update) > 0 || len(plan.Create) > 0 {
					t.Fatalf("%d pods are deleted, %d updated, %d created while the surge pod is starting: %v", len(plan.Delete),
						len(plan.Update), len(plan.Create), plan.Notes)
				}
				s.now = s.now.Add(time.Second)
			}

			// A person names a pod: it goes, as beside any pause, and it is the one too many.
			named := s.pods[0].Name
			s.cs.Spec.ScaleStrategy.PodsToDelete = []string{named}
			if plan := s.pass(); len(plan.Delete) != 1 || plan.Delete[0].Pod.Name != named {
				t.Fatalf("%d pods are deleted, want %s", len(plan.Delete), named)
			}
			s.cs.Spec.ScaleStrategy.PodsToDelete = nil

			// Somebody scales in meanwhile: all goes that replicas do without, and the rest once the surge pod is available.
			s.cs.Spec.Replicas = new(int32(2))
			s.pass()
			if s.available() != 2 || len(s.pods) != 3 {
				t.Fatalf("%d of %d pods are available after scaling to 2, want 2 of 3", s.available(), len(s.pods))
			}
			for range 20 {
				s.kubelet(func() bool { return false })
				s.now = s.now.Add(time.Second)
				s.pass()
				if s.available() < 2 {
					t.Fatalf("%d pods are available, want 2 at least", s.available())
				}
			}
			if len(s.pods) != 2 || s.updated() != 1 {
				t.Errorf("%d of %d pods are updated at rest, want 1 of 2", s.updated(), len(s.pods))
			}
		})
	}
}

// TestPauseWithoutAHub: where no hub lends, a pause takes the surge away within maxUnavailable, as the API says.
func TestPauseWithoutAHub(t *testing.T) {
	s := newSimulation(t, 4)
	s.run("start")
	s.surge(1, 0)
	s.image("app:2")
	s.pass()
	s.surge(0, 1)
	s.rolling().Paused = true
	s.pass()
	if s.available() != 3 || len(s.pods) != 4 {
		t.Errorf("%d of %d pods are available, want 3 of 4", s.available(), len(s.pods))
	}
}

func TestUntilAsked(t *testing.T) {
	s := newSimulation(t, 3)
	s.run("start")
	at := func(lent, over bool) time.Duration {
		s.lent, s.over = lent, over
		f := s.facts()
		plan, err := Compute(f)
		s.must(err)
		return (&scope{pass: &pass{}, cs: s.cs, facts: f, plan: plan}).untilAsked()
	}
	if a, b, c := at(false, false), at(true, false), at(true, true); a != 0 || b != 0 || c != 0 {
		t.Errorf("at rest it asks after %s, %s and %s, want never", a, b, c)
	}
	s.image("app:2")
	if a, b, c := at(false, false), at(true, false), at(true, true); a != 0 || b != workload.AskWhileGranted ||
		c != workload.AskWhileExpired {
		t.Errorf("in a rollout it asks after %s, %s and %s", a, b, c)
	}
}

func (s *simulation) updated() int {
	n := 0
	for _, pod := range s.pods {
		if pod.Spec.Containers[0].Image == s.cs.Spec.Template.Spec.Containers[0].Image {
			n++
		}
	}
	return n
}

func conditionOf(cs *v1beta1.CloneSet, condition v1beta1.CloneSetConditionType) *v1beta1.CloneSetCondition {
	for i := range cs.Status.Conditions {
		if cs.Status.Conditions[i].Type == condition {
			return &cs.Status.Conditions[i]
		}
	}
	return nil
}
