package cloneset

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// node returns a node with its zone, nil if there is none of this name.
func (s *simulation) node(name string) *corev1.Node {
	zone, ok := s.nodes[name]
	if !ok {
		return nil
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{corev1.LabelTopologyZone: zone}}}
}

// schedule gives a pod a node, and tells whether it has one: one of the zone that its affinity asks for, where nodes
// have zones.
func (s *simulation) schedule(pod *corev1.Pod) bool {
	if pod.Spec.NodeName != "" || s.nodes == nil {
		pod.Spec.NodeName = cmp.Or(pod.Spec.NodeName, "node")
		return true
	}
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		if zone := asksFor(pod); zone == "" || zone == s.nodes[name] {
			pod.Spec.NodeName = name
			pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodScheduled
			})
			return true
		}
	}
	if podstate.Condition(pod, corev1.PodScheduled) == nil {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable})
	}
	return false
}

// asksFor returns the zone that the required node affinity of a pod names, "" for none.
func asksFor(pod *corev1.Pod) string {
	if pod.Spec.Affinity == nil {
		return ""
	}
	return pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0].Values[0]
}

// checkZones: no pod is made above the number of its zone, but those that take the places of others, and no pod with a
// node goes for a zone.
func (s *simulation) checkZones(f Facts, plan Plan, removed map[string]bool) {
	s.t.Helper()
	for _, removal := range plan.Delete {
		if removal.Reason == zoneChanged && (removal.Pod.Spec.NodeName != "" || podstate.Ready(removal.Pod)) {
			s.t.Fatalf("%s goes for its zone, and has the node %q", removal.Pod.Name, removal.Pod.Spec.NodeName)
		}
	}
	count, total := map[string]int32{}, int32(0)
	for _, pod := range f.Pods.Active {
		if !removed[pod.Name] {
			count[f.Spread.zoneOf(pod)]++
			total++
		}
	}
	for _, c := range plan.Create {
		if int(c.Count) != len(c.Subsets) {
			s.t.Fatalf("%d pods are created, and %d zones given", c.Count, len(c.Subsets))
		}
		for _, zone := range c.Subsets {
			total++
			if count[zone]++; count[zone] > s.zones[zone]+max(0, total-f.Limits.Replicas) {
				s.t.Fatalf("zone %q gets pod %d of %d, with %d pods of %d", zone, count[zone], s.zones[zone], total,
					f.Limits.Replicas)
			}
		}
	}
}

// zoned runs a CloneSet over zones a, b and c, each with one node.
func zoned(t testing.TB, text string) *simulation {
	s := newSimulation(t, 0)
	s.nodes = map[string]string{"na": "a", "nb": "b", "nc": "c"}
	s.order(text)
	return s
}

// order gives the zones their numbers, and the CloneSet their sum: "a3 b2".
func (s *simulation) order(text string) {
	s.zones = map[string]int32{}
	total := int32(0)
	for _, part := range strings.Fields(text) {
		var n int32
		_, err := fmt.Sscanf(part[1:], "%d", &n)
		s.must(err)
		s.zones[part[:1]], total = n, total+n
	}
	s.replicas(total)
}

// zoneText says how many pods run in each zone: "a3 b7 -1" has one without a node.
func (s *simulation) zoneText() string {
	count := map[string]int{}
	for _, pod := range s.pods {
		count[s.nodes[pod.Spec.NodeName]]++
	}
	var out []string
	for _, zone := range slices.Sorted(maps.Keys(count)) {
		if zone != "" {
			out = append(out, fmt.Sprintf("%s%d", zone, count[zone]))
		}
	}
	if n := count[""]; n > 0 {
		out = append(out, fmt.Sprintf("-%d", n))
	}
	return strings.Join(out, " ")
}

func (s *simulation) expectZones(what, want string) {
	s.t.Helper()
	s.run(what)
	if got := s.zoneText(); got != want {
		s.t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// names returns the names of the pods, sorted.
func (s *simulation) names() []string {
	var out []string
	for _, pod := range s.pods {
		out = append(out, pod.Name)
	}
	slices.Sort(out)
	return out
}

// untouched runs to rest, and no pod comes, goes or changes.
func (s *simulation) untouched(what string) {
	s.t.Helper()
	before := s.names()
	if plan := s.pass(); !empty(plan) {
		s.t.Errorf("%s: the plan is %s", what, describe(plan))
	}
	s.run(what)
	if after := s.names(); !slices.Equal(before, after) {
		s.t.Errorf("%s: %v, were %v", what, after, before)
	}
}

func TestPlansOfZones(t *testing.T) {
	for name, tell := range map[string]func(s *simulation){
		"out and in": func(s *simulation) {
			s.order("a3 b2 c2")
			s.expectZones("7 pods", "a3 b2 c2")
			s.order("a4 b4 c1")
			s.expectZones("9 pods", "a4 b3 c2") // the second one of c runs: it is not moved
			s.order("a3 b3 c1")
			s.expectZones("7 pods", "a3 b3 c1")
			s.order("a1 b0 c1")
			s.expectZones("2 pods", "a1 c1")
		},
		"zones take turns while pods come": func(s *simulation) {
			s.order("a4 b2")
			f := s.facts()
			plan, err := Compute(f)
			s.must(err)
			if got := strings.Join(plan.Create[0].Subsets, ""); got != "aaabab" && got != "aaabba" {
				s.t.Errorf("the zones of new pods are %s", got)
			}
		},
		"rollouts keep the numbers": func(s *simulation) {
			s.order("a3 b2 c1")
			s.run("6 pods")
			s.surge(0, 2)
			s.image("app:2")
			s.expectZones("made anew", "a3 b2 c1")
			s.surge(3, 0)
			s.image("app:3")
			s.expectZones("with surge", "a3 b2 c1")
			s.surge(6, 0)
			s.image("app:4")
			s.rolling().Partition = new(intstr.FromInt32(2))
			s.expectZones("behind a partition", "a3 b2 c1")
			s.rolling().PodUpdatePolicy, s.rolling().Partition = v1beta1.InPlaceIfPossiblePodUpdatePolicy, nil
			s.image("app:5")
			s.expectZones("in place", "a3 b2 c1")
		},
		"pods that end, and pods that are named, are replaced where they were": func(s *simulation) {
			s.order("a2 b2 c2")
			s.run("6 pods")
			for _, pod := range s.pods {
				switch pod.Spec.NodeName {
				case "nb":
					pod.Status.Phase = corev1.PodFailed
				case "nc":
					pod.Labels[v1beta1.LabelSpecifiedDelete] = "true"
				}
			}
			s.expectZones("other ones", "a2 b2 c2")
		},
		"a zone that is renamed": func(s *simulation) {
			s.order("a3 b2")
			s.run("5 pods")
			s.nodes["na"] = "x"
			s.untouched("the nodes have the new name")
			s.order("b2 x3")
			s.untouched("the hub knows it")
			s.order("b2 x2")
			s.expectZones("scaled in", "b2 x2")
			s.order("b3 x3")
			s.expectZones("scaled out", "b3 x3")
		},
		"the hub knows the new name first": func(s *simulation) {
			s.order("a3 b2")
			s.run("5 pods")
			s.order("b2 x3")
			s.untouched("the hub knows it")
			s.nodes["na"] = "x"
			s.untouched("the nodes have it")
		},
		"zones that come and go touch no pod": func(s *simulation) {
			s.order("a3 b2")
			s.run("5 pods")
			for _, order := range []string{"a1 b4", "a0 b0 c5", "x5"} {
				s.order(order)
				s.untouched(order)
			}
			s.zones = nil
			s.untouched("no zones")
			s.zones = map[string]int32{"a": 3, "b": 2}
			s.untouched("zones again")
		},
		"they come to pods that run": func(s *simulation) {
			s.replicas(4)
			s.zones = nil
			s.run("4 pods")
			s.order("a1 b3")
			s.untouched("zones")
			s.order("a1 b5")
			s.expectZones("two more", "a4 b2") // those of a run
			s.order("a2 b2")
			s.expectZones("two less", "a2 b2")
		},
		"pods that wait in a zone that is gone are made anew": func(s *simulation) {
			s.order("a1 z3")
			s.run("3 wait")
			if got := s.zoneText(); got != "a1 -3" {
				s.t.Errorf("%s, want a1 -3", got)
			}
			s.order("a2 b2")
			s.expectZones("other zones", "a2 b2")
		},
		"pods that wait where there are too many are made anew": func(s *simulation) {
			delete(s.nodes, "nc")
			s.order("a1 c3")
			s.run("3 wait")
			s.order("a2 b1 c1")
			s.expectZones("less of them", "a2 b1 -1")
			s.untouched("the one that is left waits")
			s.nodes["nc"] = "c"
			s.expectZones("the zone is back", "a2 b1 c1")
		},
		"pods that wait in a full zone wait": func(s *simulation) {
			delete(s.nodes, "nc")
			s.order("a2 c2")
			s.run("2 wait")
			s.untouched("they wait")
		},
		"pods that wait go when they are paused too": func(s *simulation) {
			s.order("a1 z1")
			s.run("1 waits")
			s.rolling().Paused = true
			s.order("a1 b1")
			s.expectZones("paused", "a1 b1")
		},
		"the own costs of pods hold within a zone": func(s *simulation) {
			s.order("a3 b1")
			s.run("4 pods")
			kept := ""
			for _, pod := range s.pods {
				if pod.Spec.NodeName == "na" && kept == "" {
					kept = pod.Name
					pod.Annotations[corev1.PodDeletionCost] = "2147483647"
				}
				if pod.Spec.NodeName == "nb" {
					pod.Annotations[corev1.PodDeletionCost] = "-2147483647"
				}
			}
			s.order("a1 b1")
			s.expectZones("scaled in", "a1 b1")
			if !slices.Contains(s.names(), kept) {
				s.t.Errorf("%v are left, and not %s", s.names(), kept)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { tell(zoned(t, "")) })
	}
}

// TestZonesAreStamped: a pod is bound to its zone beside what the template asks for, and its revision knows nothing of
// it.
func TestZonesAreStamped(t *testing.T) {
	s := zoned(t, "a2 b1")
	required := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "arch", Operator: corev1.NodeSelectorOpIn,
			Values: []string{"arm64"}}}},
		{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "arch", Operator: corev1.NodeSelectorOpIn,
			Values: []string{"amd64"}}}},
	}}
	s.cs.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
	f := s.facts()
	plan, err := Compute(f)
	s.must(err)
	got := map[string]int{}
	for _, revision := range toCreate(plan.Create, f.Spread) {
		if revision.Hash != f.Update.Hash {
			t.Errorf("the revision is %s, want %s", revision.Hash, f.Update.Hash)
		}
		zone := revision.Template.Annotations[topology.AnnotationZone]
		for _, term := range revision.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			if n := len(term.MatchExpressions); n != 2 || term.MatchExpressions[0].Key != "arch" ||
				term.MatchExpressions[1].Key != corev1.LabelTopologyZone ||
				!slices.Equal(term.MatchExpressions[1].Values, []string{zone}) {
				t.Errorf("a pod of zone %s has the term %v", zone, term)
			}
		}
		if cost, ok := revision.Template.Annotations[corev1.PodDeletionCost]; ok {
			t.Errorf("a pod has the deletion cost %s", cost)
		}
		got[zone]++
	}
	if want := map[string]int{"a": 2, "b": 1}; !maps.Equal(got, want) {
		t.Errorf("zones %v, want %v", got, want)
	}
	if len(required.NodeSelectorTerms[0].MatchExpressions) != 1 || s.cs.Spec.Template.Annotations != nil {
		t.Error("the template of the CloneSet was changed")
	}
}

// TestRandomZones holds plans to checkZones while zones get other numbers and names; at last all pods run, however many
// in which zone.
func TestRandomZones(t *testing.T) {
	for seed := range uint64(400) {
		s := zoned(t, "a2 b2")
		s.random = rand.New(rand.NewPCG(seed, 7))
		some := []string{"a", "b", "c", "x", "y"}
		for range 60 {
			switch s.random.IntN(10) {
			case 0, 1:
				s.disturb()
				s.replicas(s.total()) // that is the hub's
			case 2, 3:
				s.zones = map[string]int32{}
				for range 1 + s.random.IntN(3) {
					s.zones[some[s.random.IntN(len(some))]] = s.random.Int32N(5)
				}
				s.replicas(s.total())
			case 4:
				s.nodes[[]string{"na", "nb", "nc"}[s.random.IntN(3)]] = some[s.random.IntN(len(some))]
			}
			s.pass()
			s.kubelet(func() bool { return s.random.IntN(2) == 0 })
			s.now = s.now.Add(time.Second)
		}
		for i, zone := range some {
			s.nodes[fmt.Sprintf("last-%d", i)] = zone
		}
		s.rolling().Paused = false
		s.now = s.now.Add(podstate.LivesAtLeast) // pods that have just failed wait for that
		s.run("rest")
		ready := int32(0)
		for _, pod := range s.pods {
			if podstate.Ready(pod) {
				ready++
			}
		}
		if n := s.total(); int32(len(s.pods)) != n || ready != n {
			t.Fatalf("seed %d: %d pods, %d ready, of %d", seed, len(s.pods), ready, n)
		}
	}
}

func (s *simulation) total() (n int32) {
	for _, zone := range s.zones {
		n += zone
	}
	return n
}

func TestReadZones(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":3,"b":0}`:                    "",
		`{}`:                               "",
		``:                                 "unexpected end of JSON input",
		`null`:                             "it names no zone",
		`[1]`:                              "cannot unmarshal array",
		`{"a":-1}`:                         "zone a has -1 pods, which is less than 0",
		`{"a":1.5}`:                        "cannot unmarshal number 1.5",
		`{"a":"3"}`:                        "cannot unmarshal string",
		`{"":3}`:                           `zone "" is no value of a node label`,
		`{"a b":3}`:                        `zone "a b" is no value of a node label: `,
		`{"a":3000000000}`:                 "cannot unmarshal number 3000000000",
		`{"a":` + strings.Repeat("3", 200): "…: unexpected end of JSON input",
	} {
		s := newSimulation(t, 1)
		s.cs.Annotations = map[string]string{topology.AnnotationZones: text}
		_, cause := validate(s.cs)
		switch {
		case want == "" && cause != nil:
			t.Errorf("%s: %+v", text, cause)
		case want != "" && (cause == nil || cause.Reason != ReasonInvalidZones || !strings.Contains(cause.Message, want) ||
			!strings.Contains(cause.Message, topology.AnnotationZones) ||
			!strings.HasSuffix(cause.Message, "remove it if no hub owns this object")):
			t.Errorf("%s: %+v, want %q", text, cause, want)
		}
	}
}

func TestReadHubSpread(t *testing.T) {
	for text, want := range map[string]string{
		`{"name":"ws","subsets":[{"name":"a","maxReplicas":3}]}`: "",
		`{"name":"ws","subsets":[]}`:                             "subsets is empty",
		`{"name":"ws"}`:                                          "unexpected end of JSON input",
		`no`:                                                     "invalid character",
		`{"name":"ws","subsets":[{"name":"a","requiredNodeSelector":{"matchExpressions":[{"key":"x","operator":"Near"}]}}]}`: "subset a: requiredNodeSelector cannot be used",
	} {
		s := newSimulation(t, 1)
		s.cs.Annotations = map[string]string{topology.AnnotationSpread: text}
		_, cause := validate(s.cs)
		if want == "" && cause != nil || want != "" && (cause == nil || cause.Reason != reasonInvalidSpread ||
			!strings.Contains(cause.Message, want)) {
			t.Errorf("%s: %+v, want %q", text, cause, want)
		}
	}
}
