package spread_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/order"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
)

// Every worked example of part 2.7 of the specification of the workloads: 2.1 to 2.6 are in topology/division.

// specTime is when the examples begin.
var specTime = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// specSpread has subsets a, b and so on with these caps; "" is none.
func specSpread(kind string, caps ...string) *v1beta1.WorkloadSpread {
	ws := &v1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Name: "ws", Namespace: "default"}}
	ws.Spec.TargetReference = &v1beta1.TargetReference{APIVersion: "apps.kruise.io/v1beta1", Kind: kind, Name: "web"}
	if kind != "CloneSet" {
		ws.Spec.TargetReference.APIVersion = "apps/v1"
	}
	for i, c := range caps {
		s := v1beta1.WorkloadSpreadSubset{Name: string(rune('a' + i))}
		if c != "" {
			s.MaxReplicas = new(intstr.Parse(c))
		}
		ws.Spec.Subsets = append(ws.Spec.Subsets, s)
	}
	return ws
}

// specClose sets or ends the condition Schedulable=False of a subset.
func specClose(ws *v1beta1.WorkloadSpread, subset string, closed bool) {
	ws.Status.SubsetStatuses = nil
	if closed {
		ws.Status.SubsetStatuses = []v1beta1.WorkloadSpreadSubsetStatus{{Name: subset, Conditions: []metav1.Condition{
			{Type: v1beta1.WorkloadSpreadSubsetSchedulable, Status: metav1.ConditionFalse}}}}
	}
}

// specWorkload creates pods by Pick and Stamp, and removes them by their costs.
type specWorkload struct {
	t        *testing.T
	ws       *v1beta1.WorkloadSpread
	replicas int32
	pods     []*corev1.Pod
	made     int
}

func (w *specWorkload) rule() spread.Rule {
	w.t.Helper()
	rule, err := spread.Resolve(w.ws, w.replicas)
	if err != nil {
		w.t.Fatal(err)
	}
	return rule
}

// counts are the pods by subset, "" for none.
func (w *specWorkload) counts() map[string]int32 {
	counts := map[string]int32{}
	for _, pod := range w.pods {
		subset, _ := spread.Assigned(pod, w.ws)
		counts[subset]++
	}
	return counts
}

// create makes a ready pod where the rule wants it.
func (w *specWorkload) create() *corev1.Pod {
	w.t.Helper()
	w.made++
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprint("web-", w.made), UID: types.UID(fmt.Sprint(w.made)), Labels: map[string]string{"app": "web"},
			CreationTimestamp: metav1.NewTime(specTime.Add(time.Duration(w.made) * time.Second)),
		},
		Spec: corev1.PodSpec{NodeName: "node"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(specTime)}}},
	}
	subset, _ := w.rule().Pick(w.counts())
	if err := spread.Stamp(pod, w.ws, subset, labels.SelectorFromSet(pod.Labels)); err != nil {
		w.t.Fatal(err)
	}
	w.pods = append(w.pods, pod)
	return pod
}

// scale changes the replicas, as a CloneSet does, with costs that are right.
func (w *specWorkload) scale(replicas int32) {
	w.t.Helper()
	w.replicas = replicas
	for len(w.pods) < int(replicas) {
		w.create()
	}
	for _, pod := range w.pods {
		pod.Annotations[corev1.PodDeletionCost] = strconv.Itoa(int(w.costs()[pod.UID]))
	}
	order.Removal{}.Sort(w.pods)
	w.pods = w.pods[len(w.pods)-int(replicas):]
}

func (w *specWorkload) book() map[string][]*corev1.Pod {
	book := map[string][]*corev1.Pod{}
	for _, pod := range w.pods {
		subset, _ := spread.Assigned(pod, w.ws)
		book[subset] = append(book[subset], pod)
	}
	return book
}

func (w *specWorkload) costs() map[types.UID]int32 {
	return w.rule().Costs(spread.Placements{Pods: w.book()})
}

// subsetCosts counts the pods of each cost, as "subset cost".
func (w *specWorkload) subsetCosts(old bool) map[string]int {
	costs, found := w.rule().Costs(spread.Placements{Pods: w.book(), Old: old}), map[string]int{}
	for subset, pods := range w.book() {
		for _, pod := range pods {
			found[fmt.Sprint(subset, " ", costs[pod.UID])]++
		}
	}
	return found
}

func (w *specWorkload) want(what string, want map[string]int32) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.counts()); diff != "" {
		w.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// into puts n ready pods into a subset, whatever the rule says.
func (w *specWorkload) into(subset string, n int) {
	w.t.Helper()
	for range n {
		pod := w.create()
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		delete(pod.Annotations, v1beta1.AnnotationMatchedWorkloadSpread)
		if err := spread.Stamp(pod, w.ws, subset, labels.SelectorFromSet(pod.Labels)); err != nil {
			w.t.Fatal(err)
		}
	}
}

func TestSpecSpreadCaps(t *testing.T) {
	tests := []struct {
		reason   string
		caps     []string
		replicas int32
		caps32   []int32
		want     map[string]int32
	}{
		{"two caps", []string{"3", "3"}, 6, []int32{3, 3}, map[string]int32{"a": 3, "b": 3}},
		{"elastic", []string{"2", ""}, 5, []int32{2, -1}, map[string]int32{"a": 2, "b": 3}},
		{"30 % of 3 is 1, 70 % is 3", []string{"30%", "70%"}, 3, []int32{1, 3}, map[string]int32{"a": 1, "b": 2}},
		{"30 % of 5 is 2, 70 % is 4", []string{"30%", "70%"}, 5, []int32{2, 4}, map[string]int32{"a": 2, "b": 3}},
		{"30 % of 10 is 3, 70 % is 7", []string{"30%", "70%"}, 10, []int32{3, 7}, map[string]int32{"a": 3, "b": 7}},
		{"none fits: the pod starts in no subset", []string{"1", "1"}, 3, []int32{1, 1},
			map[string]int32{"a": 1, "b": 1, "": 1}},
	}
	for _, tc := range tests {
		t.Run("2.7/"+tc.reason, func(t *testing.T) {
			w := &specWorkload{t: t, ws: specSpread("CloneSet", tc.caps...), replicas: tc.replicas}
			var caps []int32
			for _, s := range w.rule().Subsets {
				caps = append(caps, s.Cap)
			}
			if diff := cmp.Diff(tc.caps32, caps); diff != "" {
				t.Errorf("caps (-want +got):\n%s", diff)
			}
			w.scale(tc.replicas)
			w.want("spread", tc.want)
		})
	}
}

func TestSpecSpreadOrdinals(t *testing.T) {
	ws := specSpread("StatefulSet", "5", "5", "")
	tests := []struct {
		ordinal      int32
		open, closed string // closed: while a cannot schedule pods
	}{{0, "a", "b"}, {4, "a", "b"}, {5, "b", "c"}, {9, "b", "c"}, {10, "c", "c"}, {100, "c", "c"}}
	for _, tc := range tests {
		for _, closed := range []bool{false, true} {
			specClose(ws, "a", closed)
			rule, err := spread.Resolve(ws, 12)
			if err != nil {
				t.Fatal(err)
			}
			want := tc.open
			if closed {
				want = tc.closed
			}
			if got, ok := rule.PickOrdinal(tc.ordinal); !ok || got != want {
				t.Errorf("2.7: ordinal %d, a closed %v: got %q, want %q", tc.ordinal, closed, got, want)
			}
		}
	}
}

func TestSpecSpreadCosts(t *testing.T) {
	tests := []struct {
		reason string
		each   int
		old    bool
		want   map[string]int
	}{
		{"caps 10, 10, none, 10 pods each", 10, false, map[string]int{"a 300": 10, "b 200": 10, "c 100": 10}},
		{"20 pods each", 20, false, map[string]int{"a 300": 10, "a -100": 10, "b 200": 10, "b -200": 10, "c 100": 20}},
		{"an old version is emptied from the other end", 10, true, map[string]int{"a 100": 10, "b 200": 10, "c 300": 10}},
		{"so are its extras", 20, true, map[string]int{"a 100": 10, "a -300": 10, "b 200": 10, "b -200": 10, "c 300": 20}},
	}
	for _, tc := range tests {
		t.Run("2.7/"+tc.reason, func(t *testing.T) {
			w := &specWorkload{t: t, ws: specSpread("CloneSet", "10", "10", "")}
			for _, subset := range []string{"a", "b", "c"} {
				w.into(subset, tc.each)
			}
			if diff := cmp.Diff(tc.want, w.subsetCosts(tc.old)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}

	t.Run("2.7/removed are b's extras, a's extras, c, b, a", func(t *testing.T) {
		w := &specWorkload{t: t, ws: specSpread("CloneSet", "10", "10", "")}
		for _, subset := range []string{"a", "b", "c"} {
			w.into(subset, 20)
		}
		for _, step := range []struct {
			replicas int32
			want     map[string]int32
		}{
			{50, map[string]int32{"a": 20, "b": 10, "c": 20}},
			{40, map[string]int32{"a": 10, "b": 10, "c": 20}},
			{20, map[string]int32{"a": 10, "b": 10}},
			{10, map[string]int32{"a": 10}},
			{3, map[string]int32{"a": 3}},
		} {
			w.scale(step.replicas)
			w.want(fmt.Sprint("scale to ", step.replicas), step.want)
		}
	})

	t.Run("2.7/pods in no subset cost least", func(t *testing.T) {
		w := &specWorkload{t: t, ws: specSpread("CloneSet", "1", "1", "1")}
		w.scale(4)
		if diff := cmp.Diff(map[string]int{"a 300": 1, "b 200": 1, "c 100": 1, " -400": 1},
			w.subsetCosts(false)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})

	t.Run("2.7/above the cap are the least healthy", func(t *testing.T) {
		w := &specWorkload{t: t, ws: specSpread("CloneSet", "2", "")}
		w.into("a", 3)
		w.pods[1].Status.Conditions[0].Status = corev1.ConditionFalse
		if got := w.costs()[w.pods[1].UID]; got != -100 {
			t.Errorf("the pod that is not ready costs %d, want -100", got)
		}
	})
}

func TestSpecSpreadScales(t *testing.T) {
	t.Run("2.7/caps 3 and 3 are lowered to 2 and 2", func(t *testing.T) {
		w := &specWorkload{t: t, ws: specSpread("CloneSet", "3", "3")}
		w.scale(6)
		if diff := cmp.Diff(map[string]int{"a 200": 3, "b 100": 3}, w.subsetCosts(false)); diff != "" {
			t.Errorf("at first (-want +got):\n%s", diff)
		}
		lowered := specSpread("CloneSet", "2", "2")
		w.ws.Spec = lowered.Spec
		if diff := cmp.Diff(map[string]int{"a 200": 2, "a -100": 1, "b 100": 2, "b -200": 1},
			w.subsetCosts(false)); diff != "" {
			t.Errorf("lowered (-want +got):\n%s", diff)
		}
		w.scale(4)
		w.want("scale to 4", map[string]int32{"a": 2, "b": 2})
	})

	t.Run("2.7/elastic: b goes first", func(t *testing.T) {
		w := &specWorkload{t: t, ws: specSpread("CloneSet", "2", "")}
		w.scale(5)
		w.want("5", map[string]int32{"a": 2, "b": 3})
		w.scale(3)
		w.want("3", map[string]int32{"a": 2, "b": 1})
	})
}

func TestSpecSpreadAdaptive(t *testing.T) {
	critical := 30 * time.Second
	w := &specWorkload{t: t, ws: specSpread("CloneSet", "2", "")}
	w.scale(4)
	for _, pod := range w.pods {
		if subset, _ := spread.Assigned(pod, w.ws); subset == "a" {
			pod.CreationTimestamp, pod.Spec.NodeName = metav1.NewTime(specTime), ""
			pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}}
		}
	}
	stuck := func(at time.Duration) (pods []*corev1.Pod) {
		for _, pod := range w.pods {
			if is, _ := spread.Stuck(pod, critical, specTime.Add(at)); is {
				pods = append(pods, pod)
			}
		}
		return pods
	}
	w.want("2.7: t0", map[string]int32{"a": 2, "b": 2})
	if n := len(stuck(29 * time.Second)); n != 0 {
		t.Errorf("2.7: %d pods are stuck after 29 s", n)
	}
	gone := stuck(31 * time.Second)
	if len(gone) != 2 {
		t.Fatalf("2.7: %d pods are stuck after 31 s, want the 2 of a", len(gone))
	}
	specClose(w.ws, "a", true)
	kept := w.pods[:0:0]
	for _, pod := range w.pods {
		if is, _ := spread.Stuck(pod, critical, specTime.Add(31*time.Second)); !is {
			kept = append(kept, pod)
		}
	}
	w.pods = kept
	w.scale(4)
	w.want("2.7: t30, the pods of a are made again", map[string]int32{"b": 4})
	if spread.ReopenAfter != 300*time.Second {
		t.Errorf("2.7: a opens after %s, want 300 s", spread.ReopenAfter)
	}
	specClose(w.ws, "a", false)
	w.scale(4)
	w.want("2.7: t330, what exists stays", map[string]int32{"b": 4})
	w.scale(5)
	w.want("2.7: only new pods try a", map[string]int32{"a": 1, "b": 4})
}

// Pods that are older than the spread get the subset of their node with the highest score.
func TestSpecSpreadScores(t *testing.T) {
	zone := func(z string) *corev1.NodeSelectorTerm {
		return &corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone",
			Operator: corev1.NodeSelectorOpIn, Values: []string{z}}}}
	}
	ws := specSpread("CloneSet", "1", "1", "")
	ws.Spec.Subsets[0].RequiredNodeSelector = zone("x")
	ws.Spec.Subsets[1].Patch.Raw = []byte(`{"metadata":{"labels":{"tier":"gold"}}}`)
	ws.Spec.Subsets[2].PreferredNodeSelector = []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: *zone("z")}}
	rule, err := spread.Resolve(ws, 3)
	if err != nil {
		t.Fatal(err)
	}
	full := map[string]int32{"a": 1, "b": 1}
	tests := []struct {
		reason, zone, tier string
		counts             map[string]int32
		want               string
	}{
		{"all have room: the first that matches", "x", "", nil, "a"},
		{"a does not match", "y", "", nil, "b"},
		{"room is worth 1", "x", "", full, "c"},
		{"metadata of the patch is worth 10", "x", "gold", full, "b"},
		{"a preferred weight of 1 is worth 100", "z", "gold", nil, "c"},
	}
	for _, tc := range tests {
		t.Run("2.7/"+tc.reason, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
			if tc.tier != "" {
				pod.Labels["tier"] = tc.tier
			}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{"zone": tc.zone}}}
			if got, ok := rule.Match(pod, node, ws, tc.counts); !ok || got != tc.want {
				t.Errorf("got %q, %v, want %q", got, ok, tc.want)
			}
		})
	}
}
