package cloneset

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/simulator"
)

// refusing refuses patches of pods, as a webhook does that is broken.
type refusing struct {
	client.Client
	patches *bool
}

func (r refusing) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if _, ok := obj.(*corev1.Pod); ok && *r.patches {
		return errors.New("the webhook failed")
	}
	return r.Client.Patch(ctx, obj, patch, opts...)
}

// TestAPodThatCannotBeToldToLeaveIsNotReplaced: with excludePreparingDelete a pod that leaves counts no more, but only
// once that is written on it.
func TestAPodThatCannotBeToldToLeaveIsNotReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		patches := false
		s := newSimulated(simulator.Options{Seed: 7, Profile: simulator.Calm(), Story: true}, func(s *simulated) {
			s.wrap = func(c client.Client) client.Client { return refusing{c, &patches} }
		})
		defer s.Stop()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%v\n%s", err, s.Story())
			}
		}
		cs := simCloneSet(3, v1beta1.ReCreatePodUpdatePolicy)
		cs.Spec.Template.Labels["drain"] = "wanted"
		cs.Spec.ScaleStrategy.ExcludePreparingDelete = true
		cs.Spec.Lifecycle = &v1beta1.Lifecycle{PreDelete: &v1beta1.LifecycleHook{LabelsHandler: map[string]string{"drain": "wanted"}}}
		must(s.begin(cs))
		must(s.rest())

		patches = true
		s.spec("image app:2", func(spec *v1beta1.CloneSetSpec) { spec.Template.Spec.Containers[0].Image = "app:2" })
		must(s.RunFor(5 * time.Second))
		if n := len(s.pods()); n != 3 {
			t.Fatalf("%d pods while none can be told to leave, want 3\n%s", n, s.Story())
		}
		patches = false
		must(s.RunFor(time.Minute))
		if n := len(s.pods()); n != 6 {
			t.Fatalf("%d pods when all of the old revision leave, want 6\n%s", n, s.Story())
		}
	})
}

// TestAHookThatComesInTheMiddleOfAnUpdateIsWaitedFor: who takes hold of a pod in its grace period is asked before its
// containers change.
func TestAHookThatComesInTheMiddleOfAnUpdateIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulated(simulator.Options{Seed: 8, Profile: simulator.Calm(), Story: true})
		defer s.Stop()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%v\n%s", err, s.Story())
			}
		}
		expect := func(image string, state v1beta1.LifecycleState) {
			t.Helper()
			pod := s.pods()[0]
			if pod.Spec.Containers[0].Image != image || pod.Labels[v1beta1.LabelLifecycleState] != string(state) {
				t.Fatalf("image %s in state %s, want %s in %s\n%s", pod.Spec.Containers[0].Image,
					pod.Labels[v1beta1.LabelLifecycleState], image, state, s.Story())
			}
		}
		hold := func(on bool) {
			must(s.Change("Pod", client.ObjectKeyFromObject(s.pods()[0]), func(obj client.Object) {
				if delete(obj.GetLabels(), "serve"); on {
					obj.GetLabels()["serve"] = "yes"
				}
			}))
		}
		must(s.begin(simCloneSet(1, v1beta1.InPlaceIfPossiblePodUpdatePolicy)))
		must(s.rest())
		s.spec("image app:2 after 5 s", func(spec *v1beta1.CloneSetSpec) {
			spec.Template.Spec.Containers[0].Image = "app:2"
			spec.UpdateStrategy.RollingUpdate.InPlaceUpdateStrategy = &v1beta1.InPlaceUpdateStrategy{GracePeriodSeconds: 5}
		})
		must(s.RunFor(2 * time.Second))
		s.spec("a hook", func(spec *v1beta1.CloneSetSpec) {
			spec.Lifecycle = &v1beta1.Lifecycle{InPlaceUpdate: &v1beta1.LifecycleHook{LabelsHandler: map[string]string{"serve": "yes"}}}
		})
		hold(true)
		must(s.RunFor(time.Minute))
		expect("app:1", v1beta1.LifecyclePreparingUpdate)
		hold(false)
		must(s.RunFor(time.Minute))
		expect("app:2", v1beta1.LifecycleUpdated)
		hold(true)
		must(s.rest())
		expect("app:2", v1beta1.LifecycleNormal)
	})
}
