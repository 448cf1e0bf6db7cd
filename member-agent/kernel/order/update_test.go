package order_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/order"
)

func weight(weight int32, key, value string) v1beta1.UpdatePriorityWeightTerm {
	return v1beta1.UpdatePriorityWeightTerm{Weight: weight,
		MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{key: value}}}
}

var (
	weights = &v1beta1.UpdatePriorityStrategy{WeightPriority: []v1beta1.UpdatePriorityWeightTerm{
		weight(50, "app", "a"), weight(30, "app", "b"), weight(30, "step", "s-1")}}
	values = &v1beta1.UpdatePriorityStrategy{OrderPriority: []v1beta1.UpdatePriorityOrderTerm{
		{OrderedKey: "step"}, {OrderedKey: "app"}}}
	scatterA = []v1beta1.UpdateScatterTerm{{Key: "app", Value: "a"}}
)

func preparing(p *corev1.Pod) {
	label(v1beta1.LabelLifecycleState, string(v1beta1.LifecyclePreparingUpdate))(p)
}

func leaving(p *corev1.Pod) {
	label(v1beta1.LabelLifecycleState, string(v1beta1.LifecyclePreparingDelete))(p)
}

func TestForUpdate(t *testing.T) {
	tests := []struct {
		name     string
		strategy order.Strategy
		pods     []*corev1.Pod
		want     string
	}{
		{"the least healthy first", order.Strategy{}, []*corev1.Pod{
			pod("newer", createdAfter(time.Minute)), pod("restarted", restarted(1)), pod("young", readyAfter(time.Minute)),
			pod("sick", unready),
			pod("unknown", inPhase(corev1.PodUnknown)), pod("pending", inPhase(corev1.PodPending)), pod("waits", on("")),
			pod("old")},
			"waits pending unknown sick young restarted newer old"},
		{"what is on its way before what is sick", order.Strategy{},
			[]*corev1.Pod{pod("waits", on("")), pod("sick", unready), pod("leaves", leaving), pod("d", preparing)},
			"d leaves waits sick"},
		{"a deletion cost does not matter", order.Strategy{}, []*corev1.Pod{pod("b", cost("-5")), pod("a")}, "a b"},
		{"weights add up", order.Strategy{Priority: weights}, []*corev1.Pod{
			pod("none"), pod("fifty", label("app", "a")), pod("thirty", label("step", "s-1")),
			pod("eighty", label("app", "a"), label("step", "s-1")),
			pod("sixty", label("app", "b"), label("step", "s-1"))},
			"eighty sixty fifty thirty none"},
		{"priority before health", order.Strategy{Priority: weights},
			[]*corev1.Pod{pod("sick", unready), pod("a", label("app", "a"))}, "a sick"},
		{"numbers count, not letters", order.Strategy{Priority: values}, []*corev1.Pod{
			pod("nine", label("step", "sts-9")), pod("ten", label("step", "x-10")), pod("bare", label("step", "100")),
			pod("zeros", label("step", "0050"))},
			"bare zeros ten nine"},
		{"without the key at last, without a number as 0", order.Strategy{Priority: values}, []*corev1.Pod{
			pod("absent", unready), pod("one", label("step", "s-1")), pod("word", label("step", "x1y")),
			pod("empty", label("step", "")), pod("zero", label("step", "s0"))},
			"one empty word zero absent"},
		{"the second key breaks ties", order.Strategy{Priority: values}, []*corev1.Pod{
			pod("a", label("step", "1"), label("app", "1")), pod("b", label("step", "1"), label("app", "2")),
			pod("c", label("step", "2"))},
			"c b a"},
		{"a number beyond 63 bits is the greatest, and still a number", order.Strategy{Priority: values}, []*corev1.Pod{
			pod("absent"), pod("huge", label("step", strings.Repeat("9", 60))),
			pod("big", label("step", "9223372036854775806"))},
			"huge big absent"},
		{"scattered", order.Strategy{Scatter: scatterA}, []*corev1.Pod{
			pod("a", label("app", "a")), pod("b", label("app", "a")), pod("c"), pod("d"), pod("e")},
			"a c d e b"},
		{"scattered after priority", order.Strategy{Priority: weights, Scatter: scatterA}, []*corev1.Pod{
			pod("a", label("app", "a")), pod("b", label("app", "a")), pod("c"), pod("d", label("app", "b"))},
			"a d c b"},
		{"what is being prepared before all", order.Strategy{Priority: weights, Scatter: scatterA}, []*corev1.Pod{
			pod("a", label("app", "a")), pod("b", label("app", "a")), pod("c"), pod("d", preparing)},
			"d a c b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			given := slices.Clone(tt.pods)
			got, err := order.ForUpdate(tt.pods, nil, tt.strategy)
			if err != nil || names(got) != tt.want {
				t.Errorf("ordered %s, want %s (%v)", names(got), tt.want, err)
			}
			if !slices.Equal(given, tt.pods) {
				t.Error("the slice that was given has changed")
			}
		})
	}
}

func TestASelectorThatCannotBeUsed(t *testing.T) {
	selector := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}}
	bad := &v1beta1.UpdatePriorityStrategy{WeightPriority: []v1beta1.UpdatePriorityWeightTerm{weight(1, "app", "a"),
		{Weight: 2, MatchSelector: selector}}}
	_, err := order.ForUpdate(nil, nil, order.Strategy{Priority: bad})
	if err == nil || !strings.Contains(err.Error(), "priorityStrategy.weightPriority[1].matchSelector") {
		t.Errorf("the error does not name the field: %v", err)
	}
}

// numbered returns pods p001, p002 …; those in match have the label app=a.
func numbered(n int, match ...int) []*corev1.Pod {
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pods[i] = pod(fmt.Sprintf("p%03d", i+1))
		if slices.Contains(match, i+1) {
			label("app", "a")(pods[i])
		}
	}
	return pods
}

// places returns where the matching pods are, counted from 1.
func places(pods []*corev1.Pod) []int {
	out := []int{}
	for i, p := range pods {
		if p.Labels["app"] == "a" {
			out = append(out, i+1)
		}
	}
	return out
}

func TestScatter(t *testing.T) {
	for _, tt := range []struct {
		n     int
		match []int
		want  []int
	}{
		{10, []int{1, 2, 3}, []int{1, 6, 10}}, // the published example
		{10, []int{8, 9, 10}, []int{1, 6, 10}},
		{10, []int{4, 7}, []int{1, 10}},
		{10, []int{4}, []int{4}},
		{10, nil, []int{}},
		{3, []int{1, 2}, []int{1, 3}},
		{3, []int{1, 2, 3}, []int{1, 2, 3}},
		{7, []int{1, 2, 3, 4, 5}, []int{1, 3, 4, 6, 7}},
		{100, []int{1, 2, 3, 4, 5}, []int{1, 26, 51, 75, 100}},
		{0, nil, []int{}},
	} {
		pods := numbered(tt.n, tt.match...)
		got := order.Scatter(pods, nil, scatterA)
		if !slices.Equal(places(got), tt.want) {
			t.Errorf("%d pods with %v matching: places %v, want %v", tt.n, tt.match, places(got), tt.want)
		}
		for _, match := range []bool{true, false} {
			var kept []string
			for _, p := range got {
				if (p.Labels["app"] == "a") == match {
					kept = append(kept, p.Name)
				}
			}
			if !slices.IsSorted(kept) {
				t.Errorf("pods that match %v changed their order among themselves: %v", match, kept)
			}
		}
		sorted := slices.Clone(got)
		order.Sort(sorted)
		if !slices.Equal(sorted, pods) {
			t.Errorf("other pods came back than went in: %s", names(got))
		}
	}
}

func TestTermsAreAppliedOneAfterAnother(t *testing.T) {
	pods := numbered(6, 1, 2)
	label("color", "red")(pods[2])
	label("color", "red")(pods[3])
	got := order.Scatter(pods, nil, []v1beta1.UpdateScatterTerm{{Key: "app", Value: "a"}, {Key: "color", Value: "red"}})
	// First p001 and p002 are at the ends, then the red ones are.
	if want := "p003 p001 p005 p006 p002 p004"; names(got) != want {
		t.Errorf("ordered %s, want %s", names(got), want)
	}
}

// An update in several passes takes the pods in the order that one pass would have.
func TestTheOrderGoesOnInTheNextPass(t *testing.T) {
	for n := 1; n <= 30; n++ {
		for matching := 0; matching <= n; matching++ {
			var match []int
			for i := range matching {
				match = append(match, n-i)
			}
			pods := numbered(n, match...)
			whole, err := order.ForUpdate(pods, nil, order.Strategy{Scatter: scatterA})
			if err != nil {
				t.Fatal(err)
			}
			for _, step := range []int{1, 2, 5} {
				left, done := slices.Clone(pods), []*corev1.Pod(nil)
				for len(left) > 0 {
					next, err := order.ForUpdate(left, done, order.Strategy{Scatter: scatterA})
					if err != nil {
						t.Fatal(err)
					}
					k := min(step, len(next))
					done, left = append(done, next[:k]...), next[k:]
				}
				if !slices.Equal(done, whole) {
					t.Fatalf("%d of %d match, %d in each pass: %s, at once %s", matching, n, step, names(done), names(whole))
				}
			}
		}
	}
}

func TestScatterCatchesUp(t *testing.T) {
	// Five of ten are done and none of them matches, because the term is new: the first two are overdue.
	pods := numbered(10, 8, 9, 10)
	got := order.Scatter(pods[5:], pods[:5], scatterA)
	if want := []int{1, 2, 5}; !slices.Equal(places(got), want) {
		t.Errorf("places %v, want %v", places(got), want)
	}
}

func BenchmarkForUpdate10000(b *testing.B) {
	pods := many(10_000)
	for _, bench := range []struct {
		name     string
		strategy order.Strategy
	}{
		{"plain", order.Strategy{}},
		{"weight and scatter", order.Strategy{Priority: weights, Scatter: scatterA}},
		{"value and scatter", order.Strategy{Priority: values, Scatter: scatterA}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := order.ForUpdate(pods[2000:], pods[:2000], bench.strategy); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
