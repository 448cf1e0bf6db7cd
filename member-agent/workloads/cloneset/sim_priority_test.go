package cloneset

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/simulator"
)

// The labels by which users order pods here: two numbers, and a group.
const (
	labelRank  = "rank"
	labelShard = "shard"
	labelGroup = "group"
)

// wish is what a user says about the order of an update.
type wish struct {
	priority *v1beta1.UpdatePriorityStrategy
	scatter  []v1beta1.UpdateScatterTerm
}

func randomWish(r *rand.Rand) wish {
	var out wish
	switch r.IntN(4) {
	case 0:
		out.priority = &v1beta1.UpdatePriorityStrategy{OrderPriority: []v1beta1.UpdatePriorityOrderTerm{{OrderedKey: labelRank}, {OrderedKey: labelShard}}}
	case 1:
		out.priority = &v1beta1.UpdatePriorityStrategy{WeightPriority: []v1beta1.UpdatePriorityWeightTerm{
			{Weight: 10 * r.Int32N(5), MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{labelGroup: "a"}}},
			{Weight: 15, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{labelRank: "2"}}},
		}}
	}
	if out.priority == nil || r.IntN(2) == 0 {
		out.scatter = []v1beta1.UpdateScatterTerm{{Key: labelGroup, Value: "a"}}
	}
	return out
}

func (w wish) write(s *v1beta1.CloneSetSpec) {
	s.UpdateStrategy.RollingUpdate.PriorityStrategy, s.UpdateStrategy.RollingUpdate.ScatterStrategy = w.priority, w.scatter
}

func (w wish) text() string {
	out := fmt.Sprintf("scatter %v", w.scatter)
	if w.priority != nil {
		out = fmt.Sprintf("order %v, weights %v, %s", w.priority.OrderPriority, w.priority.WeightPriority, out)
	}
	return out
}

// rank returns numbers by which pods are compared, one after another: the greater comes first.
func (w wish) rank(pod *corev1.Pod) []int {
	if w.priority == nil {
		return nil
	}
	if len(w.priority.WeightPriority) > 0 {
		sum := 0
		for _, term := range w.priority.WeightPriority {
			fits := true
			for key, value := range term.MatchSelector.MatchLabels {
				fits = fits && pod.Labels[key] == value
			}
			if fits {
				sum += int(term.Weight)
			}
		}
		return []int{sum}
	}
	var out []int
	for _, term := range w.priority.OrderPriority {
		n, err := strconv.Atoi(pod.Labels[term.OrderedKey])
		if err != nil {
			n = -1
		}
		out = append(out, n)
	}
	return out
}

// holds tells whether exactly these pods may have been updated, and no others, under the wish.
func (w wish) holds(updated, others []*corev1.Pod) error {
	scattered := func(pod *corev1.Pod) bool {
		return len(w.scatter) > 0 && pod.Labels[w.scatter[0].Key] == w.scatter[0].Value
	}
	for _, u := range updated {
		for _, o := range others {
			if scattered(u) == scattered(o) && slices.Compare(w.rank(u), w.rank(o)) < 0 {
				return fmt.Errorf("%s is updated, and %s is not, which comes first", u.Name, o.Name)
			}
		}
	}
	number := func(pods []*corev1.Pod) int {
		return len(slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return !scattered(pod) }))
	}
	had, all := number(updated), number(updated)+number(others)
	if len(w.scatter) == 0 || all < 2 {
		return nil
	}
	want := 0
	for i := range all {
		// The places of those that match are spread from the first to the last.
		place := (float64(i) * float64(len(updated)+len(others)-1)) / float64(all-1)
		if int(place+0.5) < len(updated) {
			want++
		}
	}
	if had != want {
		return fmt.Errorf("of %d pods %d are updated, and %d of the %d that are scattered: want %d", len(updated)+len(others),
			len(updated), had, all, want)
	}
	return nil
}

// labelPod gives a pod labels to be ordered by.
func (s *simulated) labelPod(name string, r *rand.Rand) {
	values := map[string]string{labelRank: fmt.Sprint(r.IntN(3)), labelShard: fmt.Sprint(r.IntN(12)),
		labelGroup: []string{"a", "b"}[r.IntN(2)]}
	s.Tell("user: label %s %v", name, values)
	s.must(s.Change("Pod", podKey(name), func(obj client.Object) {
		for _, key := range []string{labelRank, labelShard, labelGroup} {
			if r.IntN(6) > 0 {
				obj.GetLabels()[key] = values[key]
			}
		}
	}))
}

// TestSimulatedOrder lowers a partition step by step. At each rest the updated pods must be the first in the order that
// the user asked for, whatever crashed on the way.
func TestSimulatedOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, runs := uint64(1), max(1, *simSeeds/20)
		if *simSeed != 0 {
			first, runs = *simSeed, 1
		}
		for seed := first; seed < first+runs; seed++ {
			if story, err := runOrdered(seed, *simSeed != 0); err != nil {
				t.Errorf("seed %d: %v\n%s", seed, err, story)
			}
		}
	})
}

func runOrdered(seed uint64, story bool) (string, error) {
	r := rand.New(rand.NewPCG(seed, 37))
	s := newSimulated(simulator.Options{Seed: seed, Profile: simulator.Calm(), Story: story})
	defer s.Stop()
	n := 3 + r.Int32N(6)
	if err := s.begin(simCloneSet(n, v1beta1.InPlaceIfPossiblePodUpdatePolicy)); err != nil {
		return s.Story(), err
	}
	if err := s.rest(); err != nil {
		return s.Story(), err
	}
	for _, pod := range s.pods() {
		s.labelPod(pod.Name, r)
	}
	if err := s.rest(); err != nil {
		return s.Story(), err
	}
	w := randomWish(r)
	s.spec("image app:2, partition 100%, "+w.text(), func(spec *v1beta1.CloneSetSpec) {
		w.write(spec)
		spec.Template.Spec.Containers[0].Image = "app:2"
		rolling := spec.UpdateStrategy.RollingUpdate
		rolling.Partition, rolling.MaxUnavailable = new(intstr.FromString("100%")), new(intstr.FromInt32(1+r.Int32N(3)))
	})
	for left := n; left > 0; {
		left = max(0, left-1-r.Int32N(3))
		s.Profile = profiles()[r.IntN(4)]
		s.spec(fmt.Sprintf("partition %d", left), func(spec *v1beta1.CloneSetSpec) {
			spec.UpdateStrategy.RollingUpdate.Partition = new(intstr.FromInt32(left))
		})
		for range r.IntN(4) {
			if err := s.RunFor(time.Duration(r.IntN(2000)) * time.Millisecond); err != nil {
				return s.Story(), err
			}
			s.Kubelet.Crash(podKey(s.anyPod(r)))
		}
		s.Profile = simulator.Calm()
		if err := s.rest(); err != nil {
			return s.Story(), err
		}
		var updated, others []*corev1.Pod
		for _, pod := range s.pods() {
			if pod.Spec.Containers[0].Image == "app:2" {
				updated = append(updated, pod)
			} else {
				others = append(others, pod)
			}
		}
		if err := w.holds(updated, others); err != nil {
			return s.Story(), fmt.Errorf("partition %d: %w", left, err)
		}
	}
	return s.Story(), nil
}
