package cloneset

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// featureStories are those with hooks, claims and grace periods.
func featureStories() map[string]simStory {
	return map[string]simStory{
		"a-held-scale-in-is-pulled-back": {3, v1beta1.InPlaceIfPossiblePodUpdatePolicy, pullBack, func(cs *v1beta1.CloneSet) {
			cs.Spec.Template.Labels["drain"] = "wanted"
			cs.Spec.Lifecycle = &v1beta1.Lifecycle{PreDelete: &v1beta1.LifecycleHook{
				LabelsHandler: map[string]string{"drain": "wanted"}, MarkPodNotReady: true}}
		}},
		"a-claim-waits-for-a-pod-that-hangs": {2, v1beta1.ReCreatePodUpdatePolicy, reuse, func(cs *v1beta1.CloneSet) {
			cs.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{simClaim("data")}
			cs.Spec.ScaleStrategy.EnablePVCReuse = true
		}},
		"grace-and-batches": {2, v1beta1.InPlaceIfPossiblePodUpdatePolicy, graceAndBatches, func(cs *v1beta1.CloneSet) {
			twoBatches(cs, 0)
		}},
	}
}

func scale(n int32) func(*v1beta1.CloneSetSpec) {
	return func(spec *v1beta1.CloneSetSpec) { spec.Replicas = &n }
}

// pullBack scales in while a hook holds the pod, changes its mind, and scales in again.
func pullBack(s *simulated) error {
	s.spec("replicas 2", scale(2))
	if err := s.RunFor(5 * time.Second); err != nil {
		return err
	}
	s.spec("replicas 3", scale(3))
	if err := s.rest(); err != nil {
		return err
	}
	s.spec("replicas 2", scale(2))
	if err := s.RunFor(5 * time.Second); err != nil {
		return err
	}
	for _, pod := range s.pods() {
		if pod.Labels[v1beta1.LabelLifecycleState] == string(v1beta1.LifecyclePreparingDelete) {
			s.Tell("party: %s is drained", pod.Name)
			s.must(s.Change("Pod", client.ObjectKeyFromObject(pod), func(obj client.Object) {
				delete(obj.GetLabels(), "drain")
			}))
		}
	}
	return s.rest()
}

// reuse deletes a pod whose volume hangs, and later another one: its successor takes over what the first one left.
func reuse(s *simulated) error {
	pods := s.pods()
	s.Tell("somebody deletes %s, whose volume hangs", pods[0].Name)
	letGo := s.Kubelet.Hold(client.ObjectKeyFromObject(pods[0]))
	s.must(s.Delete("Pod", client.ObjectKeyFromObject(pods[0])))
	if err := s.RunFor(time.Minute); err != nil {
		return err
	}
	s.Tell("the volume is free")
	letGo()
	if err := s.rest(); err != nil {
		return err
	}
	s.Tell("somebody deletes %s", pods[1].Name)
	s.must(s.Delete("Pod", client.ObjectKeyFromObject(pods[1])))
	if err := s.rest(); err != nil {
		return err
	}
	if s.Get("Pod", client.ObjectKeyFromObject(pods[0])) == nil {
		return fmt.Errorf("nobody took over the claim of %s", pods[0].Name)
	}
	return nil
}

// graceAndBatches changes both containers of each pod, with a grace period, and then their cpu, without one.
func graceAndBatches(s *simulated) error {
	s.spec("images app:2 and side:2, gracePeriodSeconds 3", func(spec *v1beta1.CloneSetSpec) {
		spec.Template.Spec.Containers[0].Image, spec.Template.Spec.Containers[1].Image = "app:2", "side:2"
		spec.UpdateStrategy.RollingUpdate.InPlaceUpdateStrategy.GracePeriodSeconds = 3
	})
	if err := s.rest(); err != nil {
		return err
	}
	s.spec("cpu 2 of main", func(spec *v1beta1.CloneSetSpec) { setCPU(&spec.Template.Spec.Containers[0], 2) })
	return s.rest()
}
