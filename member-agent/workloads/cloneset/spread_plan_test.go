package cloneset

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/delta"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
)

// simSpread returns a WorkloadSpread of the simulated CloneSet over subsets a, b, c and so on, with these caps: "3",
// "30%", or "" for none.
func simSpread(caps ...string) *v1beta1.WorkloadSpread {
	ws := &v1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: simKey().Namespace, Name: "ws"}}
	ws.Spec.TargetReference = &v1beta1.TargetReference{
		APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: simKey().Name}
	for i, limit := range caps {
		subset := v1beta1.WorkloadSpreadSubset{Name: string(rune('a' + i))}
		subset.Tolerations = []corev1.Toleration{{Key: "spread", Operator: corev1.TolerationOpExists}}
		if limit != "" {
			subset.MaxReplicas = new(intstr.Parse(limit))
		}
		ws.Spec.Subsets = append(ws.Spec.Subsets, subset)
	}
	return ws
}

func closeSubset(ws *v1beta1.WorkloadSpread, name string) {
	ws.Status.SubsetStatuses = []v1beta1.WorkloadSpreadSubsetStatus{{Name: name, Conditions: []metav1.Condition{
		{Type: v1beta1.WorkloadSpreadSubsetSchedulable, Status: metav1.ConditionFalse}}}}
}

// subsetOf returns the subset that a pod was given, or "".
func subsetOf(pod *corev1.Pod, ws *v1beta1.WorkloadSpread) string {
	subset, _ := spread.Assigned(pod, ws)
	return subset
}

// checkSpread holds a plan to the caps and to the order of the subsets, one creation after another. Pods above replicas
// may be above the caps as well: they have the places of pods that are deleted.
func (s *simulation) checkSpread(f Facts, plan Plan, removed map[string]bool) {
	s.t.Helper()
	if f.Spread == nil {
		return
	}
	if f.Spread.zonal() {
		s.checkZones(f, plan, removed)
		return
	}
	s.checkRemovedSubsets(f, plan, removed)
	for _, removal := range plan.Delete {
		if removal.Reason == subsetChanged && (!s.ofHub || removal.Pod.Spec.NodeName != "") {
			s.t.Fatalf("%s with the node %q goes for its subset", removal.Pod.Name, removal.Pod.Spec.NodeName)
		}
	}
	count, total := map[string]int32{}, int32(0)
	assigned := (&planner{Facts: f}).placed() // pods older than the spread count by their nodes
	for _, pod := range f.Pods.Active {
		if !removed[pod.Name] {
			count[assigned[pod]]++
			total++
		}
	}
	for _, c := range plan.Create {
		if int(c.Count) != len(c.Subsets) {
			s.t.Fatalf("%d pods are created, and %d subsets given", c.Count, len(c.Subsets))
		}
		for _, subset := range c.Subsets {
			total++
			for _, rule := range f.Spread.Rule.Subsets {
				if rule.Name == subset {
					above := max(0, total-f.Limits.Replicas)
					if count[subset]++; !rule.Open || rule.Cap != spread.Unlimited && count[subset] > rule.Cap+above {
						s.t.Fatalf("subset %s gets pod %d, with cap %d, open %v, and %d pods of %d",
							subset, count[subset], rule.Cap, rule.Open, total, f.Limits.Replicas)
					}
					break
				}
				if rule.Open && (rule.Cap == spread.Unlimited || count[rule.Name] < rule.Cap) {
					s.t.Fatalf("a pod gets subset %q, and %s has room: %v", subset, rule.Name, count)
				}
			}
		}
	}
}

// checkRemovedSubsets: a scale-in takes no pod of a subset as long as it leaves one of a removed subset that is as
// healthy.
func (s *simulation) checkRemovedSubsets(f Facts, plan Plan, removed map[string]bool) {
	s.t.Helper()
	left := map[string]bool{}
	for _, pod := range f.Pods.Active {
		if f.Spread.removedSubset(pod) && !removed[pod.Name] && podstate.Ready(pod) {
			left[pod.Labels[podset.LabelRevision]] = true
		}
	}
	for _, removal := range plan.Delete {
		pod := removal.Pod
		scaleIn := removal.Reason == delta.ScaleIn || removal.Reason == delta.Surplus
		if scaleIn && subsetOf(pod, s.ws) != "" && podstate.Ready(pod) && left[pod.Labels[podset.LabelRevision]] {
			s.t.Fatalf("%s of subset %s goes before the pods of a removed subset", pod.Name, subsetOf(pod, s.ws))
		}
	}
}

// editSubsets removes, renames, adds or reorders subsets at random.
func (s *simulation) editSubsets() {
	s.ws = s.ws.DeepCopy()
	subsets, at := &s.ws.Spec.Subsets, s.random.IntN(len(s.ws.Spec.Subsets))
	name := fmt.Sprintf("s%d", s.random.IntN(1000))
	switch s.random.IntN(4) {
	case 0:
		if len(*subsets) > 1 {
			*subsets = slices.Delete(*subsets, at, at+1)
		}
	case 1:
		(*subsets)[at].Name = name
	case 2:
		added := *(*subsets)[at].DeepCopy()
		added.Name = name
		*subsets = slices.Insert(*subsets, at, added)
	case 3:
		slices.Reverse(*subsets)
	}
}

// spreadText says how many pods each subset has: "a3 b7 -1" has one in none.
func (s *simulation) spreadText() string {
	count := map[string]int{}
	for _, pod := range s.pods {
		count[subsetOf(pod, s.ws)]++
	}
	var out []string
	for _, subset := range slices.Sorted(maps.Keys(count)) {
		if subset != "" {
			out = append(out, fmt.Sprintf("%s%d", subset, count[subset]))
		}
	}
	if n := count[""]; n > 0 {
		out = append(out, fmt.Sprintf("-%d", n))
	}
	return strings.Join(out, " ")
}

// expect runs to rest and compares the spread.
func (s *simulation) expect(what, want string) {
	s.t.Helper()
	s.run(what)
	if got := s.spreadText(); got != want {
		s.t.Errorf("%s: %s, want %s", what, got, want)
	}
}

func (s *simulation) replicas(n int32) { s.cs.Spec.Replicas = &n }

// surge makes pods anew, with this surge and this many unavailable.
func (s *simulation) surge(surge, unavailable int32) {
	s.rolling().PodUpdatePolicy = v1beta1.ReCreatePodUpdatePolicy
	s.rolling().MaxSurge, s.rolling().MaxUnavailable = new(intstr.FromInt32(surge)), new(intstr.FromInt32(unavailable))
}

func TestPlansOfSpreads(t *testing.T) {
	for name, story := range map[string]struct {
		caps     []string
		replicas int32
		tell     func(s *simulation)
	}{
		"percentages out and in": {[]string{"30%", "70%"}, 3, func(s *simulation) {
			s.expect("3 pods", "a1 b2")
			s.replicas(5)
			s.expect("5 pods", "a2 b3")
			s.replicas(10)
			s.expect("10 pods", "a3 b7")
			s.replicas(5)
			s.expect("5 pods again", "a2 b3")
			s.replicas(3)
			s.expect("3 pods again", "a1 b2")
		}},
		"numbers, the last one open": {[]string{"2", "3", ""}, 4, func(s *simulation) {
			s.expect("4 pods", "a2 b2")
			s.replicas(9)
			s.expect("9 pods", "a2 b3 c4")
			s.replicas(6)
			s.expect("6 pods", "a2 b3 c1")
			s.replicas(3)
			s.expect("3 pods", "a2 b1")
			s.replicas(1)
			s.expect("1 pod", "a1")
		}},
		"above the caps": {[]string{"2", "1"}, 5, func(s *simulation) {
			s.expect("5 pods", "a2 b1 -2")
			for _, pod := range s.pods {
				cost := pod.Annotations[corev1.PodDeletionCost]
				if subsetOf(pod, s.ws) == "" && (cost != "-300" || len(pod.Spec.Tolerations) > 0) {
					s.t.Errorf("%s is in no subset, and has the cost %s and tolerations %v", pod.Name, cost, pod.Spec.Tolerations)
				}
			}
			s.replicas(3)
			s.expect("3 pods", "a2 b1")
		}},
		"caps fall together with replicas": {[]string{"3", "3"}, 6, func(s *simulation) {
			s.expect("6 pods", "a3 b3")
			s.ws = simSpread("2", "2")
			s.replicas(4)
			s.expect("4 pods", "a2 b2")
		}},
		"a rollout that makes pods anew": {[]string{"30%", "70%"}, 10, func(s *simulation) {
			s.surge(0, 3)
			s.expect("10 pods", "a3 b7")
			s.image("app:2")
			s.expect("app:2", "a3 b7")
		}},
		"a rollout with surge": {[]string{"3", "5", ""}, 10, func(s *simulation) {
			s.surge(4, 0)
			s.expect("10 pods", "a3 b5 c2")
			s.image("app:2")
			s.expect("app:2", "a3 b5 c2")
		}},
		"a surge as great as the CloneSet": {[]string{"30%", "70%"}, 10, func(s *simulation) {
			s.surge(10, 0)
			s.expect("10 pods", "a3 b7")
			s.image("app:2")
			s.expect("app:2", "a3 b7")
		}},
		"surge behind a partition, in both directions": {[]string{"3", "5", ""}, 10, func(s *simulation) {
			s.surge(2, 1)
			s.expect("10 pods", "a3 b5 c2")
			s.image("app:2")
			s.rolling().Partition = new(intstr.FromInt32(6))
			s.expect("4 of app:2", "a3 b5 c2")
			s.rolling().Partition = new(intstr.FromInt32(9))
			s.expect("1 of app:2", "a3 b5 c2")
			s.rolling().Partition = nil
			s.expect("all of app:2", "a3 b5 c2")
		}},
		"surge and a scale-out at once": {[]string{"3", "5", ""}, 6, func(s *simulation) {
			s.surge(3, 0)
			s.expect("6 pods", "a3 b3")
			s.image("app:2")
			s.replicas(11)
			s.expect("11 of app:2", "a3 b5 c3")
		}},
		"surge in the order of the user": {[]string{"2", "2", ""}, 6, func(s *simulation) {
			s.surge(2, 0)
			s.expect("6 pods", "a2 b2 c2")
			s.rolling().PriorityStrategy = &v1beta1.UpdatePriorityStrategy{
				OrderPriority: []v1beta1.UpdatePriorityOrderTerm{{OrderedKey: "first"}}}
			for i, pod := range s.pods {
				pod.Labels["first"] = fmt.Sprint(i * 7 % 6)
			}
			s.image("app:2")
			s.expect("app:2", "a2 b2 c2")
		}},
		"updates in place keep the subset": {[]string{"30%", ""}, 10, func(s *simulation) {
			s.expect("10 pods", "a3 b7")
			before := s.bySubset()
			s.image("app:2")
			s.expect("app:2", "a3 b7")
			if after := s.bySubset(); !maps.Equal(before, after) {
				s.t.Errorf("%v before, %v after", before, after)
			}
		}},
		"updates in place with surge": {[]string{"3", ""}, 6, func(s *simulation) {
			s.rolling().MaxUnavailable, s.rolling().MaxSurge = new(intstr.FromInt32(0)), new(intstr.FromInt32(2))
			s.expect("6 pods", "a3 b3")
			s.image("app:2")
			s.expect("app:2", "a3 b3")
		}},
		"pods that are named and replaced": {[]string{"2", ""}, 4, func(s *simulation) {
			s.surge(2, 0)
			s.expect("4 pods", "a2 b2")
			for _, pod := range s.pods {
				if subsetOf(pod, s.ws) == "a" {
					pod.Labels[v1beta1.LabelSpecifiedDelete] = "true"
				}
			}
			s.expect("other ones", "a2 b2")
		}},
		"pods that end are replaced where they were": {[]string{"2", "2", ""}, 6, func(s *simulation) {
			s.expect("6 pods", "a2 b2 c2")
			for _, pod := range s.pods {
				if subsetOf(pod, s.ws) == "b" {
					pod.Status.Phase = corev1.PodFailed
				}
			}
			s.expect("other ones", "a2 b2 c2")
		}},
		"a closed subset": {[]string{"3", "1", ""}, 2, func(s *simulation) {
			s.expect("2 pods", "a2")
			closeSubset(s.ws, "a")
			s.replicas(5)
			s.expect("5 pods", "a2 b1 c2")
			s.ws.Status = v1beta1.WorkloadSpreadStatus{}
			s.replicas(6)
			s.expect("6 pods", "a3 b1 c2")
		}},
		"a spread that changes touches no pod": {[]string{"3", ""}, 6, func(s *simulation) {
			s.expect("6 pods", "a3 b3")
			for _, caps := range [][]string{{"1", "5"}, {"6", ""}, {"0", "0"}, {""}} {
				s.ws = simSpread(caps...)
				if plan := s.pass(); !empty(plan) {
					s.t.Errorf("the plan is %s", describe(plan))
				}
			}
		}},
		"the spread comes after the pods, and goes": {[]string{"2", ""}, 3, func(s *simulation) {
			ws := s.ws
			s.ws = nil
			s.run("3 pods")
			s.ws = ws
			s.expect("a spread comes", "-3")
			s.replicas(7)
			s.expect("7 pods", "a2 b2 -3")
			s.replicas(4)
			s.expect("those in no subset go first", "a2 b2")
			s.ws = nil
			s.replicas(5)
			s.run("no spread")
			s.ws = ws
			s.expect("the spread is back", "a2 b2 -1")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSimulation(t, story.replicas)
			s.ws = simSpread(story.caps...)
			story.tell(s)
			for _, pod := range s.pods {
				subset := subsetOf(pod, s.ws)
				if subset != "" && (len(pod.Spec.Tolerations) != 1 || pod.Spec.Tolerations[0].Key != "spread") {
					t.Errorf("%s of subset %s has the tolerations %v", pod.Name, subset, pod.Spec.Tolerations)
				}
			}
		})
	}
}

func (s *simulation) bySubset() map[string]string {
	out := map[string]string{}
	for _, pod := range s.pods {
		out[pod.Name] = subsetOf(pod, s.ws)
	}
	return out
}

// TestSpreadsWithinTheirCaps holds the plans of random workloads under random spreads to checkSpread.
func TestSpreadsWithinTheirCaps(t *testing.T) {
	for seed := range uint64(400) {
		s := newSimulation(t, int32(seed%12))
		s.random = rand.New(rand.NewPCG(seed, 5))
		if seed%2 == 0 { // nodes that are not known match no subset, others match all
			s.nodes = map[string]string{"node": ""}
		}
		spreads := [][]string{{"3", ""}, {"30%", "70%"}, {"2", "2", "2"}, {"1", "4", ""}, {"20%", "30%", ""}}
		s.ws = simSpread(spreads[s.random.IntN(len(spreads))]...)
		for range 60 {
			switch s.random.IntN(12) {
			case 0, 1, 2:
				s.disturb()
			case 3:
				s.ws = simSpread(spreads[s.random.IntN(len(spreads))]...)
			case 4:
				s.editSubsets()
			case 5:
				closeSubset(s.ws, s.ws.Spec.Subsets[s.random.IntN(len(s.ws.Spec.Subsets))].Name)
			}
			s.pass()
			s.kubelet(func() bool { return s.random.IntN(2) == 0 })
			s.now = s.now.Add(time.Second)
		}
	}
}

// TestPodsOlderThanTheSpread: pods without an annotation hold the places of their nodes.
func TestPodsOlderThanTheSpread(t *testing.T) {
	s := newSimulation(t, 4)
	s.run("4 pods")
	s.ws = simSpread("3", "3", "")
	for i, pool := range []string{"x", "y"} {
		in := corev1.NodeSelectorRequirement{Key: "pool", Operator: corev1.NodeSelectorOpIn, Values: []string{pool}}
		s.ws.Spec.Subsets[i].RequiredNodeSelector = &corev1.NodeSelectorTerm{
			MatchExpressions: []corev1.NodeSelectorRequirement{in}}
	}
	for i, pod := range s.pods {
		pod.Spec.NodeName = []string{"x", "x", "y", "z"}[i]
	}
	s.replicas(9)
	f := s.facts()
	f.Spread.Node = func(name string) *corev1.Node {
		if name == "z" {
			return nil
		}
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": name}}}
	}
	plan, err := Compute(f)
	s.must(err)
	if len(plan.Create) != 1 || !slices.Equal(plan.Create[0].Subsets, []string{"a", "b", "b", "c", "c"}) {
		t.Errorf("%+v, want a, b, b, c, c", plan.Create)
	}
}

// withoutSubset returns the WorkloadSpread without its first subset.
func withoutSubset(ws *v1beta1.WorkloadSpread) *v1beta1.WorkloadSpread {
	ws = ws.DeepCopy()
	ws.Spec.Subsets = ws.Spec.Subsets[1:]
	return ws
}

// TestCase13PodsOfARemovedSubsetGoFirst: they are in no subset, though their nodes match one, and take no room in it.
func TestCase13PodsOfARemovedSubsetGoFirst(t *testing.T) {
	s := newSimulation(t, 5)
	s.nodes = map[string]string{"node": ""}
	s.ws = simSpread("2", "4")
	s.expect("5 pods", "a2 b3")
	first := s.ws
	s.ws = withoutSubset(first)
	if plan := s.pass(); !empty(plan) {
		t.Errorf("a removed subset makes the plan %s", describe(plan))
	}
	s.expect("a is removed", "b3 -2")
	s.replicas(6)
	s.expect("b has room for one", "b4 -2")
	s.replicas(7)
	s.expect("no subset has room", "b4 -3")
	s.ws = first
	s.expect("a comes back", "a2 b4 -1")
	s.ws = withoutSubset(first)
	s.replicas(5)
	s.expect("scaled in to 5", "b4 -1")
	s.replicas(4)
	s.expect("scaled in to 4", "b4")
}

// TestCase13ARolloutLeavesNoPodOfARemovedSubset: new pods start in the subsets of the spec, which have room as if the
// pods of the removed one did not exist.
func TestCase13ARolloutLeavesNoPodOfARemovedSubset(t *testing.T) {
	for _, surge := range []int32{0, 2} {
		s := newSimulation(t, 5)
		s.nodes = map[string]string{"node": ""}
		s.surge(surge, 1)
		s.ws = simSpread("2", "4", "")
		s.expect("5 pods", "a2 b3")
		s.ws = withoutSubset(s.ws)
		s.image("app:2")
		s.rolling().Partition = new(intstr.FromInt32(5))
		s.replicas(7)
		s.expect("two pods of app:2", "b4 c1 -2")
		s.rolling().Partition = new(intstr.FromInt32(0))
		s.expect("app:2", "b4 c3")
	}
}

// TestCase13PodsThatWaitInARemovedSubset: those of a hub's WorkloadSpread are made anew where it wants more pods,
// those of a member's own wait until scale-in.
func TestCase13PodsThatWaitInARemovedSubset(t *testing.T) {
	for ofHub, want := range map[bool]string{true: "b3", false: "b1 -2"} {
		s := newSimulation(t, 3)
		s.ofHub, s.nodes = ofHub, map[string]string{"nb": "b"}
		s.ws = simSpread("2", "1")
		for i, zone := range []string{"a", "b"} {
			in := corev1.NodeSelectorRequirement{
				Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}
			s.ws.Spec.Subsets[i].RequiredNodeSelector = &corev1.NodeSelectorTerm{
				MatchExpressions: []corev1.NodeSelectorRequirement{in}}
		}
		s.expect("two wait", "a2 b1")
		s.ws = withoutSubset(s.ws)
		s.expect("no number is left for them", "b1 -2")
		s.ws.Spec.Subsets[0].MaxReplicas = new(intstr.FromInt32(3))
		s.expect(fmt.Sprintf("of a hub: %t", ofHub), want)
		s.replicas(1)
		s.expect("scaled in", "b1")
	}
}

// TestATargetFilterLeavesPodsAlone: a CloneSet whose pods the filter does not select is not spread.
func TestATargetFilterLeavesPodsAlone(t *testing.T) {
	s := newSimulation(t, 3)
	s.ws = simSpread("1", "")
	s.ws.Spec.TargetFilter = &v1beta1.TargetFilter{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": "worker"}}}
	plan, err := Compute(s.facts())
	s.must(err)
	if len(plan.Create) != 1 || plan.Create[0].Count != 3 || plan.Create[0].Subsets != nil {
		t.Errorf("%+v, want 3 pods without subsets", plan.Create)
	}
}

// TestAPatchThatTakesPodsAway: such pods would be made without end. They start as without the spread.
func TestAPatchThatTakesPodsAway(t *testing.T) {
	s := newSimulation(t, 2)
	s.ws = simSpread("")
	s.ws.Spec.Subsets[0].Patch = runtime.RawExtension{Raw: []byte(`{"metadata":{"labels":{"app":"other"}}}`)}
	f := s.facts()
	var err error
	f.Spread.Selector, err = metav1.LabelSelectorAsSelector(s.cs.Spec.Selector)
	s.must(err)
	plan, err := Compute(f)
	s.must(err)
	for _, revision := range toCreate(plan.Create, f.Spread) {
		if revision.Template.Labels["app"] != "web" || revision.Template.Spec.Tolerations != nil {
			t.Errorf("a pod has labels %v and tolerations %v", revision.Template.Labels, revision.Template.Spec.Tolerations)
		}
	}
}

// TestStampedLabelsOfTheController: what a patch says of them does not count.
func TestStampedLabelsOfTheController(t *testing.T) {
	s := newSimulation(t, 1)
	s.ws = simSpread("")
	s.ws.Spec.Subsets[0].Patch = runtime.RawExtension{Raw: []byte(`{
		"metadata":{"labels":{"controller-revision-hash":"x","pod-template-hash":"x",
			"apps.kruise.io/cloneset-instance-id":"x","lifecycle.apps.kruise.io/state":"x","mine":"y"}},
		"spec":{"readinessGates":[{"conditionType":"mine"}]}}`)}
	s.run("1 pod")
	pod, hash := s.pods[0], s.facts().Update.Hash
	if !podset.HasRevision(pod, hash) || pod.Labels[v1beta1.LabelPodTemplateHash] != hash ||
		len(pod.Labels[v1beta1.LabelInstanceID]) != 5 ||
		pod.Labels[v1beta1.LabelLifecycleState] != string(v1beta1.LifecycleNormal) || pod.Labels["mine"] != "y" {
		t.Errorf("labels %v", pod.Labels)
	}
	if len(pod.Spec.ReadinessGates) != 3 {
		t.Errorf("gates %v", pod.Spec.ReadinessGates)
	}
}

// TestPodsThatWaitInASubsetOfAHub: pods without a node are replaced in the subset that lacks pods. Those of a member's
// own WorkloadSpread are left to its controller.
func TestPodsThatWaitInASubsetOfAHub(t *testing.T) {
	for ofHub, want := range map[bool]string{true: "a1 b3", false: "a3 b1"} {
		s := newSimulation(t, 4)
		s.ofHub, s.nodes = ofHub, map[string]string{"nb": "b"}
		order := func(caps ...string) {
			s.ws = simSpread(caps...)
			for i := range s.ws.Spec.Subsets {
				in := corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone,
					Operator: corev1.NodeSelectorOpIn, Values: []string{s.ws.Spec.Subsets[i].Name}}
				s.ws.Spec.Subsets[i].RequiredNodeSelector = &corev1.NodeSelectorTerm{
					MatchExpressions: []corev1.NodeSelectorRequirement{in}}
			}
		}
		runs := func() (names []string) {
			for _, pod := range s.pods {
				if pod.Spec.NodeName != "" {
					names = append(names, pod.Name)
				}
			}
			return names
		}
		order("3", "1")
		s.expect("three wait", "a3 b1")
		before := runs()
		order("1", "3")
		s.expect(fmt.Sprintf("of a hub: %t", ofHub), want)
		if !slices.Contains(runs(), before[0]) {
			t.Errorf("%v run, and not %s", runs(), before[0])
		}
		order("3", "1") // nothing that runs goes back
		s.expect(fmt.Sprintf("of a hub, and back: %t", ofHub), want)
	}
}

// BenchmarkCompute measures a plan over 5000 pods of which a tenth is to be made, without a spread and with one.
func BenchmarkCompute(b *testing.B) {
	for name, ws := range map[string]*v1beta1.WorkloadSpread{"without": nil, "with": simSpread("30%", "30%", "")} {
		b.Run(name, func(b *testing.B) {
			f := benchFacts(b, 5000, ws)
			b.ReportAllocs()
			for b.Loop() {
				if plan, err := Compute(f); err != nil || len(plan.Create) != 1 || plan.Create[0].Count != 500 {
					b.Fatalf("%+v, %v", plan.Create, err)
				}
			}
		})
	}
}

// benchFacts returns a CloneSet that a tenth of its replicas is missing of.
func benchFacts(b *testing.B, replicas int32, ws *v1beta1.WorkloadSpread) Facts {
	b.Helper()
	s := newSimulation(b, replicas)
	f := s.facts()
	for i := range replicas - replicas/10 {
		name := fmt.Sprintf("web-%05d", i)
		f.Pods.Active = append(f.Pods.Active, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name),
				Labels: map[string]string{podset.LabelRevision: f.Update.Name},
				Annotations: map[string]string{
					v1beta1.AnnotationMatchedWorkloadSpread: spread.Annotation(simSpread(), string('a'+i%3))}},
			Spec: corev1.PodSpec{NodeName: "node"},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionTrue},
				{Type: v1beta1.InPlaceUpdateReady, Status: corev1.ConditionTrue}}},
		})
	}
	if ws != nil {
		rule, err := spread.Resolve(ws, replicas)
		if err != nil {
			b.Fatal(err)
		}
		f.Spread = &Spread{Object: ws, Rule: rule, Node: func(string) *corev1.Node { return nil }}
	}
	return f
}
