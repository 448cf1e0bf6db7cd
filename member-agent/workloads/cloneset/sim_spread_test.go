package cloneset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/simulator"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
)

// simCaps are the caps of simulated spreads.
func simCaps() [][]string {
	return [][]string{{"3", ""}, {"30%", "70%"}, {"2", "2"}, {"1", "2", ""}, {"20%", "30%", ""}, {"0", "4", ""}}
}

func spreadKey() types.NamespacedName {
	return types.NamespacedName{Namespace: simKey().Namespace, Name: "ws"}
}

// firstSpread is the one that a world begins with.
func (s *simulated) firstSpread() *v1beta1.WorkloadSpread {
	all := simCaps()
	return simSpread(all[s.Random("spread").IntN(len(all))]...)
}

// rulingIn finds WorkloadSpreads as the real source does, in the cache of the simulated world, and tells the checker.
func (s *simulated) rulingIn(c client.Client) func(context.Context, types.NamespacedName) *v1beta1.WorkloadSpread {
	return func(ctx context.Context, key types.NamespacedName) *v1beta1.WorkloadSpread {
		var list v1beta1.WorkloadSpreadList
		if err := c.List(ctx, &list, client.InNamespace(key.Namespace)); err != nil {
			s.Fail(err)
		}
		var of []*v1beta1.WorkloadSpread
		for i := range list.Items {
			if spread.TargetOf(&list.Items[i]) == spread.Named(v1beta1.CloneSetKind, key.Name) {
				of = append(of, &list.Items[i])
			}
		}
		rules := spread.Ruling(of)
		s.check.ws = rules
		if rules != nil && s.lieSpread != nil {
			rules = rules.DeepCopy()
			s.lieSpread(&rules.Spec)
		}
		return rules
	}
}

// spread: a pod gets an open subset that is not full, also if the cache lags and answers are lost, and keeps it. Pods
// above replicas have the places of pods that are about to go.
func (c *checker) spread(_ simulator.Write, before, after *corev1.Pod) error {
	const key = v1beta1.AnnotationMatchedWorkloadSpread
	switch {
	case after == nil:
		return nil
	case before != nil && before.Annotations[key] != after.Annotations[key]:
		return fmt.Errorf("%s had the subset %q, and has %q", c.world.Name(after.Name), before.Annotations[key],
			after.Annotations[key])
	case before != nil || c.ws == nil:
		return nil
	}
	rule, err := spread.Resolve(c.ws, c.limits.Replicas)
	if err != nil {
		return err
	}
	subset := subsetOf(after, c.ws)
	if subset == "" {
		return nil
	}
	count, total := int32(0), int32(0)
	for _, obj := range c.world.List("Pod") {
		pod, isPod := obj.(*corev1.Pod)
		if !isPod || !podstate.Active(pod) || c.leaves(pod) {
			continue
		}
		total++
		if of, _ := spread.Assigned(pod, c.ws); of == subset {
			count++
		}
	}
	have := rule.Subsets[rule.Index(subset)]
	if most := have.Cap + max(0, c.limits.MaxSurge, total-c.limits.Replicas); have.Cap != spread.Unlimited &&
		count > most {
		return fmt.Errorf("%s is one too many in subset %s: %d, with cap %d and maxSurge %d", c.world.Name(after.Name),
			subset, count, have.Cap, c.limits.MaxSurge)
	}
	if !have.Open {
		return fmt.Errorf("%s was given the subset %s, which is closed", c.world.Name(after.Name), subset)
	}
	return nil
}

// caps lets the user change the spread, or make it again.
func (u *user) caps() {
	all := simCaps()
	ws := simSpread(all[u.random.IntN(len(all))]...)
	switch subsets := ws.Spec.Subsets; u.random.IntN(4) {
	case 0: // the pods of a are in no subset
		subsets[0].Name = "renamed"
	case 1:
		slices.Reverse(subsets)
	}
	u.Tell("user: a spread with the caps %v, first %s", capsOf(ws), ws.Spec.Subsets[0].Name)
	if u.Get("WorkloadSpread", spreadKey()) == nil {
		u.must(u.Create(ws))
		return
	}
	u.must(u.Change("WorkloadSpread", spreadKey(), func(obj client.Object) {
		if have, ok := obj.(*v1beta1.WorkloadSpread); ok {
			have.Spec.Subsets = ws.Spec.Subsets
		}
	}))
}

func capsOf(ws *v1beta1.WorkloadSpread) []string {
	out := make([]string, len(ws.Spec.Subsets))
	for i := range out {
		out[i] = "none"
		if limit := ws.Spec.Subsets[i].MaxReplicas; limit != nil {
			out[i] = limit.String()
		}
	}
	return out
}

func (u *user) closeOrOpen() {
	closed := u.random.IntN(2) == 0
	u.Tell("the first subset is closed: %v", closed)
	u.must(u.ChangeStatus("WorkloadSpread", spreadKey(), func(obj client.Object) {
		if ws, ok := obj.(*v1beta1.WorkloadSpread); ok {
			ws.Status = v1beta1.WorkloadSpreadStatus{}
			if closed {
				closeSubset(ws, "a")
			}
		}
	}))
}

func (u *user) removeSpread() {
	if u.Get("WorkloadSpread", spreadKey()) == nil {
		return
	}
	u.Tell("user: no spread")
	u.must(u.Delete("WorkloadSpread", spreadKey()))
}

// spreadStories are rollouts of spread pods.
func spreadStories() map[string]simStory {
	// expect compares how many pods each of the first two subsets has.
	expect := func(s *simulated, a, b int) error {
		if err := s.rest(); err != nil {
			return err
		}
		have := map[string]int{}
		ws, ok := s.Get("WorkloadSpread", spreadKey()).(*v1beta1.WorkloadSpread)
		if !ok {
			return errors.New("there is no spread")
		}
		for _, pod := range s.pods() {
			have[subsetOf(pod, ws)]++
		}
		s.Tell("%d in a, %d in b, %d in none", have["a"], have["b"], have[""])
		if have["a"] != a || have["b"] != b || have[""] != 0 {
			return fmt.Errorf("pods by subset: %v, want %d in a and %d in b", have, a, b)
		}
		return nil
	}
	return map[string]simStory{
		"a-spread-comes-and-goes": {2, v1beta1.ReCreatePodUpdatePolicy, func(s *simulated) error {
			s.Tell("user: a spread with caps 2 and none")
			s.must(s.Create(simSpread("2", "")))
			// the controller sees it before the change, whichever watch is faster
			if err := s.RunFor(100 * time.Millisecond); err != nil {
				return err
			}
			s.spec("maxSurge 1, maxUnavailable 0, image app:2", func(spec *v1beta1.CloneSetSpec) {
				rolling := spec.UpdateStrategy.RollingUpdate
				rolling.MaxSurge, rolling.MaxUnavailable = new(intstr.FromInt32(1)), new(intstr.FromInt32(0))
				spec.Template.Spec.Containers[0].Image = "app:2"
			})
			if err := expect(s, 2, 0); err != nil {
				return err
			}
			s.spec("replicas 4", scale(4))
			if err := expect(s, 2, 2); err != nil {
				return err
			}
			s.spec("image app:3", func(spec *v1beta1.CloneSetSpec) { spec.Template.Spec.Containers[0].Image = "app:3" })
			if err := expect(s, 2, 2); err != nil {
				return err
			}
			s.spec("replicas 3", scale(3))
			return expect(s, 2, 1)
		}, nil},
	}
}
