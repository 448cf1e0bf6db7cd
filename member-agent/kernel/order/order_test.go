package order_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/order"
)

var start = time.Unix(1000, 0)

// pod is running, ready since start, and alone on its node.
func pod(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(start)},
		Spec:       corev1.PodSpec{NodeName: "node-" + name},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(start)}}},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

func cost(value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: value} }
}

func label(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { metav1.SetMetaDataLabel(&p.ObjectMeta, key, value) }
}

func on(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

func inPhase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func unready(p *corev1.Pod) { p.Status.Conditions = nil }

func readyAfter(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(start.Add(d)) }
}

func restarted(times int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: times}} }
}

func createdAfter(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(start.Add(d)) }
}

func names(pods []*corev1.Pod) string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return strings.Join(out, " ")
}

// anyPod has a random value for each thing that a rule looks at, of few, so that ties are frequent.
func anyPod(random *rand.Rand, name string) *corev1.Pod {
	changes := []func(*corev1.Pod){
		on([]string{"", "n1", "n2", "n3"}[random.IntN(4)]),
		inPhase([]corev1.PodPhase{corev1.PodPending, corev1.PodUnknown, corev1.PodRunning,
			corev1.PodRunning}[random.IntN(4)]),
		readyAfter(time.Duration(random.IntN(3)) * time.Minute),
		createdAfter(time.Duration(random.IntN(3)) * time.Minute),
		restarted(int32(random.IntN(3))),
		cost([]string{"", "x", "-1", "2"}[random.IntN(4)]),
	}
	if random.IntN(2) == 0 {
		changes = append(changes, label("step", []string{"", "s-1", "s-20", "none"}[random.IntN(4)]))
	}
	if random.IntN(2) == 0 {
		changes = append(changes, label("app", []string{"a", "b"}[random.IntN(2)]))
	}
	if random.IntN(5) == 0 {
		changes = append(changes, label(v1beta1.LabelLifecycleState, string(v1beta1.LifecyclePreparingUpdate)))
	}
	if random.IntN(5) == 0 {
		changes = append(changes, unready)
	}
	return pod(name, changes...)
}

// orders are the ways to order pods that must not depend on the order of the input.
func orders(t testing.TB) map[string]func([]*corev1.Pod) []*corev1.Pod {
	zone := func(node, _ string) string { return map[string]string{"n1": "z1", "n2": "z1", "n3": "z2"}[node] }
	constraints := []corev1.TopologySpreadConstraint{{TopologyKey: "zone"}, {TopologyKey: "rack"}}
	removal := func(constraints []corev1.TopologySpreadConstraint) func([]*corev1.Pod) []*corev1.Pod {
		return func(pods []*corev1.Pod) []*corev1.Pod {
			out := slices.Clone(pods)
			order.Removal{MinReadySeconds: 60, Now: start.Add(2 * time.Minute),
				Density: order.NewDensity(pods, constraints, zone)}.Sort(out)
			return out
		}
	}
	update := func(s order.Strategy) func([]*corev1.Pod) []*corev1.Pod {
		return func(pods []*corev1.Pod) []*corev1.Pod {
			out, err := order.ForUpdate(pods, nil, s)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
	}
	return map[string]func([]*corev1.Pod) []*corev1.Pod{
		"removal by node":  removal(nil),
		"removal by zone":  removal(constraints),
		"update":           update(order.Strategy{}),
		"update by weight": update(order.Strategy{Priority: weights, Scatter: scatterA}),
		"update by value":  update(order.Strategy{Priority: values, Scatter: scatterA}),
	}
}

func TestTheOrderOfTheInputDoesNotMatter(t *testing.T) {
	for name, sorted := range orders(t) {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			for range 100 {
				var pods []*corev1.Pod
				for i := range 1 + random.IntN(30) {
					pods = append(pods, anyPod(random, fmt.Sprint("p", i)))
				}
				want := names(sorted(pods))
				random.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
				if got := names(sorted(pods)); got != want {
					t.Fatalf("another input order gave another order:\n%s\n%s", got, want)
				}
			}
		})
	}
}

// Without crowds and scattering the order of two pods does not depend on the others: whether a comes before b is the
// same in every set, and from a before b and b before c follows a before c.
func TestTheOrderIsTotal(t *testing.T) {
	before := map[string]func(a, b *corev1.Pod) bool{
		"removal": func(a, b *corev1.Pod) bool {
			pods := []*corev1.Pod{a, b}
			order.Removal{MinReadySeconds: 60, Now: start.Add(2 * time.Minute)}.Sort(pods)
			return pods[0] == a
		},
	}
	for name, s := range map[string]order.Strategy{"update": {}, "by weight": {Priority: weights},
		"by value": {Priority: values}} {
		before[name] = func(a, b *corev1.Pod) bool {
			pods, err := order.ForUpdate([]*corev1.Pod{a, b}, nil, s)
			if err != nil {
				t.Fatal(err)
			}
			return pods[0] == a
		}
	}
	random := rand.New(rand.NewPCG(3, 4))
	for name, before := range before {
		t.Run(name, func(t *testing.T) {
			for range 2000 {
				a, b, c := anyPod(random, "a"), anyPod(random, "b"), anyPod(random, "c")
				if before(a, b) == before(b, a) {
					t.Fatalf("a and b have no order: %+v %+v", a, b)
				}
				if before(a, b) && before(b, c) && !before(a, c) {
					t.Fatalf("not transitive: %+v %+v %+v", a, b, c)
				}
			}
		})
	}
}

// Ranks of any size are compared one after another, however they are packed.
func TestSortComparesRuleByRule(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	value := []func() int64{
		func() int64 { return int64(random.IntN(2)) },
		func() int64 { return 7 },
		func() int64 { return []int64{math.MinInt64, -1, 0, 1, math.MaxInt64}[random.IntN(5)] },
		func() int64 { return -int64(random.IntN(1 << 20)) },
		func() int64 { return int64(random.Uint64()) },
		func() int64 { return []int64{math.MaxInt64, math.MaxInt64 - 1}[random.IntN(2)] },
	}
	for range 300 {
		pods, ranks := make([]*corev1.Pod, random.IntN(40)), map[*corev1.Pod][]int64{}
		kinds := make([]int, random.IntN(9))
		for i := range kinds {
			kinds[i] = random.IntN(len(value))
		}
		for i := range pods {
			pods[i] = pod(fmt.Sprint("p", i))
			for _, kind := range kinds {
				ranks[pods[i]] = append(ranks[pods[i]], value[kind]())
			}
		}
		var rules []order.Rule
		for i := range kinds {
			rules = append(rules, func(p *corev1.Pod) int64 { return ranks[p][i] })
		}
		want := slices.Clone(pods)
		slices.SortFunc(want, func(a, b *corev1.Pod) int {
			return cmp.Or(slices.Compare(ranks[a], ranks[b]), strings.Compare(a.Name, b.Name))
		})
		order.Sort(pods, rules...)
		if !slices.Equal(pods, want) {
			t.Fatalf("ranks %v: sorted %s, want %s", kinds, names(pods), names(want))
		}
	}
}
