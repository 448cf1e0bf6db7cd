package cloneset

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/simulator"
)

// TestTheOrderOfEventsDecidesNothing lets one user do the same in worlds with other orders of events and other
// failures. Each step waits for rest, and at rest the same number of pods must have the same revision everywhere: what
// depends on how far a rollout had come when the user changed his mind may differ, and is not asked for here.
func TestTheOrderOfEventsDecidesNothing(t *testing.T) {
	const scripts, orders = 10, 6
	synctest.Test(t, func(t *testing.T) {
		for script := range uint64(scripts) {
			want := ""
			for order := range uint64(orders) {
				got, err := followScript(script, order+1)
				if err != nil {
					t.Fatalf("script %d, order %d: %v\n%s", script, order+1, err, got)
				}
				if want == "" {
					want = got
				}
				if got != want {
					t.Fatalf("script %d ends in two ways:\n%s\nand, in order %d,\n%s", script, want, order+1, got)
				}
			}
		}
	})
}

// followScript returns what was there at each rest.
func followScript(script, order uint64) (string, error) {
	r := rand.New(rand.NewPCG(script, 23))
	s := newSimulated(simulator.Options{Seed: order, Profile: profiles()[order%4]})
	defer s.Stop()
	policy := []v1beta1.PodUpdatePolicyType{v1beta1.InPlaceIfPossiblePodUpdatePolicy,
		v1beta1.ReCreatePodUpdatePolicy}[script%2]
	if err := s.begin(simCloneSet(4+r.Int32N(4), policy)); err != nil {
		return "", err
	}
	out := ""
	for step := range 6 {
		s.Profile = profiles()[order%4]
		trouble := &trouble{simulated: s, random: rand.New(rand.NewPCG(order, uint64(step)))}
		switch r.IntN(4) {
		case 0:
			n := r.Int32N(9)
			s.spec(fmt.Sprintf("replicas %d", n), func(spec *v1beta1.CloneSetSpec) { spec.Replicas = &n })
		case 1:
			image := fmt.Sprintf("app:%d", r.IntN(4))
			n := intstr.FromInt32(r.Int32N(4))
			s.spec("image "+image+" with partition "+n.String(), func(spec *v1beta1.CloneSetSpec) {
				spec.Template.Spec.Containers[0].Image = image
				spec.UpdateStrategy.RollingUpdate.Partition = &n
			})
		case 2:
			s.spec("no partition", func(spec *v1beta1.CloneSetSpec) { spec.UpdateStrategy.RollingUpdate.Partition = nil })
		case 3:
			n := intstr.FromInt32(r.Int32N(3))
			s.spec("maxSurge "+n.String(), func(spec *v1beta1.CloneSetSpec) { spec.UpdateStrategy.RollingUpdate.MaxSurge = &n })
		}
		// Only what leaves no pod of another revision behind may go wrong on the way: events, requests and crashes.
		if order%2 == 0 && len(s.pods()) > 0 {
			trouble.Kubelet.Crash(podKey(s.anyPod(trouble.random)))
		}
		if err := s.RunFor(time.Duration(trouble.random.IntN(5000)) * time.Millisecond); err != nil {
			return out, err
		}
		s.Profile = simulator.Calm()
		if err := s.rest(); err != nil {
			return out, err
		}
		t := s.check.tally(s.cloneSet())
		out += fmt.Sprintf("%d pods, %d updated\n", t.total, t.updated)
	}
	return out, nil
}
