package cloneset

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/simulator"
)

// simStory is a world with a beginning; go on from there.
type simStory struct {
	replicas int32
	policy   v1beta1.PodUpdatePolicyType
	tell     func(s *simulated) error
	// given is what the CloneSet has beside, unless it is nil.
	given func(cs *v1beta1.CloneSet)
}

func simStories() map[string]simStory {
	image := func(name string) func(*v1beta1.CloneSetSpec) {
		return func(spec *v1beta1.CloneSetSpec) { spec.Template.Spec.Containers[0].Image = name }
	}
	partition := func(n int32) func(*v1beta1.CloneSetSpec) {
		return func(spec *v1beta1.CloneSetSpec) {
			spec.UpdateStrategy.RollingUpdate.Partition = new(intstr.FromInt32(n))
		}
	}
	return map[string]simStory{
		"in-place-with-partition": {4, v1beta1.InPlaceIfPossiblePodUpdatePolicy, func(s *simulated) error {
			s.spec("partition 2", partition(2))
			s.spec("image app:2", image("app:2"))
			if err := s.rest(); err != nil {
				return err
			}
			s.spec("partition 0", partition(0))
			return s.rest()
		}, nil},
		"recreate-with-surge": {3, v1beta1.ReCreatePodUpdatePolicy, func(s *simulated) error {
			s.spec("maxSurge 2, maxUnavailable 0, image app:2", func(spec *v1beta1.CloneSetSpec) {
				rolling := spec.UpdateStrategy.RollingUpdate
				rolling.MaxSurge, rolling.MaxUnavailable = new(intstr.FromInt32(2)), new(intstr.FromInt32(0))
				image("app:2")(spec)
			})
			return s.rest()
		}, nil},
		"scale-in-during-a-rollout": {5, v1beta1.InPlaceIfPossiblePodUpdatePolicy, func(s *simulated) error {
			s.spec("image app:2", image("app:2"))
			if err := s.RunFor(3 * time.Second); err != nil {
				return err
			}
			s.spec("replicas 2", func(spec *v1beta1.CloneSetSpec) { spec.Replicas = new(int32(2)) })
			return s.rest()
		}, nil},
		"roll-back-by-partition": {4, v1beta1.InPlaceIfPossiblePodUpdatePolicy, func(s *simulated) error {
			s.spec("partition 1", partition(1))
			s.spec("image app:2", image("app:2"))
			if err := s.rest(); err != nil {
				return err
			}
			s.spec("partition 4", partition(4))
			return s.rest()
		}, nil},
		"a-node-is-lost": {3, v1beta1.InPlaceIfPossiblePodUpdatePolicy, func(s *simulated) error {
			node := s.pods()[0].Spec.NodeName
			s.Kubelet.Lose(node, 2*time.Second)
			if err := s.RunFor(20 * time.Second); err != nil {
				return err
			}
			s.Kubelet.Recover(node)
			return s.rest()
		}, nil},
		"a-quota-refuses": {2, v1beta1.ReCreatePodUpdatePolicy, func(s *simulated) error {
			s.Admit(func(obj client.Object) error {
				if len(s.pods()) < 3 || simulator.KindOf(obj) != "Pod" {
					return nil
				}
				return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, obj.GetName(),
					errors.New("exceeded quota: pods, limited: 3"))
			})
			s.spec("replicas 5", func(spec *v1beta1.CloneSetSpec) { spec.Replicas = new(int32(5)) })
			if err := s.RunFor(10 * time.Second); err != nil {
				return err
			}
			s.Tell("the quota is raised")
			s.Admit(nil)
			return s.rest()
		}, nil},
		"a-bad-image-and-back": {3, v1beta1.InPlaceIfPossiblePodUpdatePolicy, func(s *simulated) error {
			s.Kubelet.Bad["app:2"] = true
			s.spec("image app:2, which cannot be pulled", image("app:2"))
			if err := s.RunFor(10 * time.Second); err != nil {
				return err
			}
			s.spec("image app:1", image("app:1"))
			return s.rest()
		}, nil},
		"a-restart-in-a-batch": {4, v1beta1.ReCreatePodUpdatePolicy, func(s *simulated) error {
			s.spec("replicas 8", func(spec *v1beta1.CloneSetSpec) { spec.Replicas = new(int32(8)) })
			if err := s.RunFor(35 * time.Millisecond); err != nil {
				return err
			}
			if err := s.Restart(); err != nil {
				return err
			}
			return s.rest()
		}, nil},
	}
}

// TestSimulatedStories compares what happens in worlds where little goes wrong with what happened when a person read
// it.
func TestSimulatedStories(t *testing.T) {
	stories := simStories()
	maps.Copy(stories, featureStories())
	maps.Copy(stories, spreadStories())
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulated(simulator.Options{Seed: 1, Profile: simulator.Calm(), Story: true, Guard: true})
				cs := simCloneSet(story.replicas, story.policy)
				if story.given != nil {
					story.given(cs)
				}
				err := s.begin(cs)
				if err == nil {
					err = s.rest()
				}
				if err == nil {
					err = story.tell(s)
				}
				s.Tell("at rest")
				s.Stop()
				got := s.Story()
				if err != nil {
					t.Fatalf("%v\n%s", err, got)
				}
				file := filepath.Join("testdata", "stories", name+".txt")
				if *update {
					if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if got != string(want) {
					t.Errorf("the story is another one now (run with -update if it is better):\n%s", got)
				}
			})
		})
	}
}
