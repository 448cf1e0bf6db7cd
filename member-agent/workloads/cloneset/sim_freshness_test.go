package cloneset

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/simulator"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/freshness"
)

// goesOnWithin is how long a controller may be kept by a write that its cache never shows: until the API server is
// asked, and as long as the queue waits until then, and a moment for the requests.
const goesOnWithin = freshness.RereadAfter + freshness.RetryAfter + time.Second

// TestFreshnessNeverHangs takes events away for good, and measures in the world's time how long the controller waits.
func TestFreshnessNeverHangs(t *testing.T) {
	tests := map[string]func(s *simulated) error{
		// A pod is created and deleted while the watch is broken: no event ever tells of it.
		"a new pod that nobody will ever see": func(s *simulated) error {
			s.Interrupt("Pod")
			s.spec("replicas 4", func(spec *v1beta1.CloneSetSpec) { spec.Replicas = new(int32(4)) })
			if err := s.RunFor(time.Second); err != nil {
				return err
			}
			seen := map[string]bool{}
			for _, obj := range s.Cached("Pod") {
				seen[obj.GetName()] = true
			}
			for _, pod := range s.pods() {
				if !seen[pod.Name] {
					s.Tell("somebody deletes %s", pod.Name)
					if err := s.Delete("Pod", client.ObjectKeyFromObject(pod)); err != nil {
						return err
					}
				}
			}
			if err := s.RunFor(4 * time.Second); err != nil {
				return err
			}
			s.Resume("Pod")
			return nil
		},
		// The answer to a creation is lost, and so was the request.
		"a pod that was never made": func(s *simulated) error {
			refused := 0
			s.Admit(func(client.Object) error {
				if refused++; refused == 1 {
					return errors.New("connection reset by peer")
				}
				return nil
			})
			s.spec("replicas 4", func(spec *v1beta1.CloneSetSpec) { spec.Replicas = new(int32(4)) })
			return nil
		},
	}
	for name, lose := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulated(simulator.Options{Seed: 5, Profile: simulator.Calm(), Story: true})
				err := s.begin(simCloneSet(3, v1beta1.InPlaceIfPossiblePodUpdatePolicy))
				if err == nil {
					err = s.rest()
				}
				if err == nil {
					err = lose(s)
				}
				if err == nil {
					err = s.goesOn()
				}
				s.Stop()
				if err != nil {
					t.Fatalf("%v\n%s", err, s.Story())
				}
			})
		})
	}
}

// goesOn waits until the fourth pod is there, and measures how long that takes.
func (s *simulated) goesOn() error {
	begun := s.Now()
	for len(s.pods()) < 4 {
		if err := s.RunFor(10 * time.Millisecond); err != nil {
			return err
		}
		if waited := s.Now().Sub(begun); waited > goesOnWithin {
			return fmt.Errorf("the controller waits for %s, and may for %s", waited, goesOnWithin)
		}
	}
	return s.rest()
}

// TestALateListEndsTheWait shows the other end: while a pod exists that the cache does not show, the controller waits
// as long as it takes, and goes on a moment after the cache has it.
func TestALateListEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulated(simulator.Options{Seed: 6, Profile: simulator.Calm(), Story: true})
		defer s.Stop()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%v\n%s", err, s.Story())
			}
		}
		must(s.begin(simCloneSet(3, v1beta1.InPlaceIfPossiblePodUpdatePolicy)))
		must(s.rest())
		s.Interrupt("Pod")
		s.spec("replicas 4", func(spec *v1beta1.CloneSetSpec) { spec.Replicas = new(int32(4)) })
		must(s.RunFor(5 * time.Second))
		s.spec("replicas 5", func(spec *v1beta1.CloneSetSpec) { spec.Replicas = new(int32(5)) })
		must(s.RunFor(time.Minute))
		if n := len(s.pods()); n != 4 {
			t.Fatalf("%d pods while the cache is behind, want 4\n%s", n, s.Story())
		}
		s.Resume("Pod")
		must(s.RunFor(freshness.RetryAfter + time.Second))
		if n := len(s.pods()); n != 5 {
			t.Fatalf("%d pods after the list, want 5\n%s", n, s.Story())
		}
		must(s.rest())
	})
}
