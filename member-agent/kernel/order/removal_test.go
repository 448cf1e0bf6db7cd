package order_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/order"
)

// The rules of removal, the most important first: what makes a pod go first by this rule, beside a pod without the
// change.
var removalRules = []struct {
	reason string
	change func(*corev1.Pod)
}{
	{"no node", on("")},
	{"pending", inPhase(corev1.PodPending)},
	{"unknown", inPhase(corev1.PodUnknown)},
	{"not ready", unready},
	{"marked unavailable", label(v1beta1.UnavailableLabelPrefix+"drain", "")},
	{"lower cost", cost("-5")},
	{"crowded", on("crowded")},
	{"ready for a shorter time", readyAfter(time.Minute)},
	{"more restarts", restarted(2)},
	{"newer", createdAfter(time.Minute)},
}

func removal(own ...*corev1.Pod) order.Removal {
	return order.Removal{Now: start.Add(time.Hour), Density: order.NewDensity(own, nil, nil)}
}

func TestRemovalRules(t *testing.T) {
	neighbour := pod("neighbour", on("crowded"))
	first := func(t *testing.T, want, other *corev1.Pod) {
		t.Helper()
		pods := []*corev1.Pod{other, want}
		removal(want, other, neighbour).Sort(pods)
		if pods[0] != want {
			t.Errorf("the other goes first")
		}
	}
	for i, rule := range removalRules {
		t.Run(rule.reason, func(t *testing.T) { first(t, pod("z", rule.change), pod("a")) })
		for _, less := range removalRules[i+1:] {
			t.Run(rule.reason+" before "+less.reason, func(t *testing.T) {
				first(t, pod("z", rule.change), pod("a", less.change))
			})
		}
	}
	t.Run("the name decides at last", func(t *testing.T) { first(t, pod("a"), pod("z")) })
	t.Run("a cost that is no number is 0", func(t *testing.T) { first(t, pod("z", cost("-1")), pod("a", cost("cheap"))) })
	t.Run("a cost beyond 32 bits is 0", func(t *testing.T) {
		first(t, pod("z", cost("-1")), pod("a", cost("-9999999999")))
	})
}

func TestWhatIsNotAvailableYetGoesFirst(t *testing.T) {
	// The young pod's cost is higher, but it is not available.
	young, old := pod("z", readyAfter(time.Minute), cost("100")), pod("a")
	for _, tt := range []struct {
		seconds int32
		want    string
	}{{0, "a z"}, {10, "a z"}, {11, "z a"}, {100, "a z"}} {
		pods := []*corev1.Pod{old, young}
		order.Removal{MinReadySeconds: tt.seconds, Now: start.Add(70 * time.Second)}.Sort(pods)
		if got := names(pods); got != tt.want {
			t.Errorf("minReadySeconds %d: %s, want %s", tt.seconds, got, tt.want)
		}
	}
}

// A place that has lost a pod is less crowded: removing many evens the places out.
func TestRemovalEvensOut(t *testing.T) {
	labels := map[string]map[string]string{
		"n1": {"zone": "z1"}, "n2": {"zone": "z1"}, "n3": {"zone": "z2"}, "n4": {"zone": "z3"}, "n5": {},
	}
	topology := func(node, key string) string {
		if key == corev1.LabelHostname {
			return node
		}
		return labels[node][key]
	}
	byZone := []corev1.TopologySpreadConstraint{{TopologyKey: "zone"}}
	byZoneAndNode := []corev1.TopologySpreadConstraint{{TopologyKey: "zone"}, {TopologyKey: corev1.LabelHostname}}
	for _, tt := range []struct {
		name        string
		constraints []corev1.TopologySpreadConstraint
		nodes       []string // of pods a, b, c …
		want        string
	}{
		{"by node", nil, []string{"n1", "n2", "n2", "n2"}, "b c a d"},
		{"by zone", byZone, []string{"n1", "n2", "n3", "n3", "n1"}, "a b c d e"},
		{"a node outside of all zones is never too full", byZone, []string{"n5", "n5", "n5", "n3"}, "d a b c"},
		{"no node of the zone counts alone", byZone, []string{"n3", "n1", "n2"}, "b a c"},
		{"zone and node", byZoneAndNode, []string{"n1", "n2", "n2", "n3", "n4"}, "b a c d e"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var pods []*corev1.Pod
			for i, node := range tt.nodes {
				pods = append(pods, pod(string(rune('a'+i)), on(node)))
			}
			slices.Reverse(pods)
			order.Removal{Now: start, Density: order.NewDensity(pods, tt.constraints, topology)}.Sort(pods)
			if got := names(pods); got != tt.want {
				t.Errorf("removed %s, want %s", got, tt.want)
			}
		})
	}
}

func TestHalfOfThePodsGoEvenly(t *testing.T) {
	var pods []*corev1.Pod
	for i := range 60 {
		pods = append(pods, pod(fmt.Sprintf("p%02d", i), on([]string{"n1", "n1", "n1", "n2", "n2", "n3"}[i%6])))
	}
	removal(pods...).Sort(pods)
	left := map[string]int{}
	for _, p := range pods[30:] {
		left[p.Spec.NodeName]++
	}
	// 30, 20 and 10 pods become 10 each.
	if left["n1"] != 10 || left["n2"] != 10 || left["n3"] != 10 {
		t.Errorf("left on the nodes: %v", left)
	}
}

func TestTopologyIsAskedOncePerNode(t *testing.T) {
	var pods []*corev1.Pod
	for i := range 100 {
		pods = append(pods, pod(fmt.Sprint("p", i), on(fmt.Sprint("n", i%5))))
	}
	asked := 0
	order.NewDensity(pods, []corev1.TopologySpreadConstraint{{TopologyKey: "zone"}},
		func(string, string) string { asked++; return "z" })
	if asked != 5 {
		t.Errorf("asked %d times for 5 nodes", asked)
	}
}

func many(n int) []*corev1.Pod {
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pods[i] = pod(fmt.Sprintf("web-%05d", i*7919%n), on(fmt.Sprint("node-", i%500)),
			readyAfter(time.Duration(i%97)*time.Second),
			label("app", []string{"a", "b", "c"}[i%3]), label("step", fmt.Sprint("s-", i%10)),
			createdAfter(time.Duration(i%89)*time.Second))
		pods[i].Status.Conditions = append([]corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
			{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}}, pods[i].Status.Conditions...)
	}
	return pods
}

func BenchmarkRemoval10000(b *testing.B) {
	pods := many(10_000)
	zone := func(node, _ string) string { return "zone-" + node[len(node)-1:] }
	for _, bench := range []struct {
		name        string
		constraints []corev1.TopologySpreadConstraint
	}{{"nodes", nil}, {"zones", []corev1.TopologySpreadConstraint{{TopologyKey: corev1.LabelHostname},
		{TopologyKey: "zone"}}}} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				list := slices.Clone(pods)
				order.Removal{MinReadySeconds: 10, Now: start.Add(time.Hour),
					Density: order.NewDensity(pods, bench.constraints, zone)}.Sort(list)
			}
		})
	}
}
