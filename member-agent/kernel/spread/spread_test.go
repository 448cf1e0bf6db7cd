package spread_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
)

var start = time.Unix(1_800_000_000, 0)

// spreadOf returns a WorkloadSpread over subsets a, b, c and so on, with these caps: "3", "30%", or "" for none.
func spreadOf(kind string, caps ...string) *v1beta1.WorkloadSpread {
	version := map[string]string{"CloneSet": "apps.kruise.io/v1beta1", "Job": "batch/v1"}[kind]
	if version == "" {
		version = "apps/v1"
	}
	ws := &v1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "ws"},
		Spec: v1beta1.WorkloadSpreadSpec{
			TargetReference: &v1beta1.TargetReference{APIVersion: version, Kind: kind, Name: "web"}}}
	for i, limit := range caps {
		s := v1beta1.WorkloadSpreadSubset{Name: string(rune('a' + i))}
		if limit != "" {
			s.MaxReplicas = new(intstr.Parse(limit))
		}
		ws.Spec.Subsets = append(ws.Spec.Subsets, s)
	}
	return ws
}

func closed(ws *v1beta1.WorkloadSpread, subset string) *v1beta1.WorkloadSpread {
	ws.Status.SubsetStatuses = append(ws.Status.SubsetStatuses,
		v1beta1.WorkloadSpreadSubsetStatus{Name: subset, Conditions: []metav1.Condition{
			{Type: v1beta1.WorkloadSpreadSubsetSchedulable, Status: metav1.ConditionFalse}}})
	return ws
}

func resolve(t *testing.T, ws *v1beta1.WorkloadSpread, replicas int32) spread.Rule {
	t.Helper()
	rule, err := spread.Resolve(ws, replicas)
	if err != nil {
		t.Fatal(err)
	}
	return rule
}

// fill creates n pods one after another and returns how many each subset gets: "a3 b3 -1" has one in none.
func fill(rule spread.Rule, n int) string {
	counts := map[string]int32{}
	for range n {
		subset, _ := rule.Pick(counts)
		counts[subset]++
	}
	return text(counts)
}

func text(counts map[string]int32) string {
	var out []string
	for _, subset := range slices.Sorted(maps.Keys(counts)) {
		name := subset
		if name == "" {
			name = "-"
		}
		if counts[subset] > 0 {
			out = append(out, fmt.Sprintf("%s%d", name, counts[subset]))
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		return strings.Compare(strings.ReplaceAll(a, "-", "~"), strings.ReplaceAll(b, "-", "~"))
	})
	return strings.Join(out, " ")
}

func TestPick(t *testing.T) {
	for _, tt := range []struct {
		name     string
		ws       *v1beta1.WorkloadSpread
		replicas int
		want     string
	}{
		{"6 over caps 3 and 3", spreadOf("CloneSet", "3", "3"), 6, "a3 b3"},
		{"elastic: 5 over cap 2 and none", spreadOf("CloneSet", "2", ""), 5, "a2 b3"},
		{"3 over 30% and 70%: 0.9 and 2.1 round up", spreadOf("CloneSet", "30%", "70%"), 3, "a1 b2"},
		{"5 over 30% and 70%", spreadOf("CloneSet", "30%", "70%"), 5, "a2 b3"},
		{"10 over 30% and 70%", spreadOf("CloneSet", "30%", "70%"), 10, "a3 b7"},
		{"what is above the caps is in no subset", spreadOf("CloneSet", "2", "1"), 5, "a2 b1 -2"},
		{"a cap of 0", spreadOf("CloneSet", "0", "0", ""), 2, "c2"},
		{"one subset without a cap", spreadOf("CloneSet", ""), 4, "a4"},
		{"a closed subset is left out", closed(spreadOf("Deployment", "2", "2", ""), "a"), 5, "b2 c3"},
		{"all closed", closed(spreadOf("Deployment", "2"), "a"), 2, "-2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := fill(resolve(t, tt.ws, int32(tt.replicas)), tt.replicas); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// TestPickKeepsTheRules holds random rules and counts to: no subset above its cap, none passed over that is open and
// has room.
func TestPickKeepsTheRules(t *testing.T) {
	for seed := range uint64(500) {
		r := random(seed)
		ws := randomSpread(r)
		replicas := r.Int32N(30)
		rule := resolve(t, ws, replicas)
		counts := map[string]int32{}
		for range 60 {
			if names := slices.Sorted(maps.Keys(counts)); r.IntN(3) == 0 && len(names) > 0 {
				if name := names[r.IntN(len(names))]; counts[name] > 0 {
					counts[name]-- // a pod goes
				}
				continue
			}
			subset, ok := rule.Pick(counts)
			for _, s := range rule.Subsets {
				if s.Name == subset {
					break
				}
				if s.Open && (s.Cap == spread.Unlimited || counts[s.Name] < s.Cap) {
					t.Fatalf("seed %d: %q was picked though %s has room: %v of %v", seed, subset, s.Name, counts, rule.Subsets)
				}
			}
			if !ok {
				continue
			}
			counts[subset]++
			if s := rule.Subsets[rule.Index(subset)]; !s.Open || s.Cap != spread.Unlimited && counts[subset] > s.Cap {
				t.Fatalf("seed %d: %s has %d pods, open %v, cap %d", seed, subset, counts[subset], s.Open, s.Cap)
			}
		}
	}
}

func TestPickOrdinal(t *testing.T) {
	for _, tt := range []struct {
		ws   *v1beta1.WorkloadSpread
		want string
	}{
		{spreadOf("StatefulSet", "5", "5", ""), "aaaaabbbbbcc"},
		{closed(spreadOf("StatefulSet", "5", "5", ""), "a"), "bbbbbccccccc"},
		{spreadOf("StatefulSet", "2", "3"), "aabbb-------"},
		{spreadOf("StatefulSet", "0", "2", ""), "bbcccccccccc"},
		{spreadOf("StatefulSet", "2147483647", "2147483647"), "aaaaaaaaaaaa"},
	} {
		rule, got := resolve(t, tt.ws, 12), ""
		for ordinal := range int32(12) {
			subset, ok := rule.PickOrdinal(ordinal)
			if !ok {
				subset = "-"
			}
			got += subset
		}
		if got != tt.want {
			t.Errorf("ordinals 0 to 11 are in %s, want %s", got, tt.want)
		}
	}
}

func TestAssigned(t *testing.T) {
	ws := spreadOf("CloneSet", "1", "")
	type assignment struct {
		subset string
		ok     bool
	}
	for text, want := range map[string]assignment{
		`{"name":"ws","subset":"b"}`:                   {"b", true},
		`{"name":"ws","subset":"b","uid":"generated"}`: {"b", true}, // OpenKruise's admission wrote a uid of its own
		`{"name":"ws","subset":"removed"}`:             {"", true},
		`{"name":"ws","subset":"A"}`:                   {"", true}, // renamed: names are compared as they are
		`{"name":"other","subset":"b"}`:                {},
		`{"name":"other","subset":"removed"}`:          {},
		`{"name":"ws"}`:                                {},
		`{"name":"ws","subset":""}`:                    {},
		`no JSON`:                                      {},
		``:                                             {},
		spread.Annotation(ws, "a"):                     {"a", true},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1beta1.AnnotationMatchedWorkloadSpread: text}}}
		if subset, ok := spread.Assigned(pod, ws); subset != want.subset || ok != want.ok {
			t.Errorf("%s means %q, %v; want %+v", text, subset, ok, want)
		}
	}
	if got, ok := spread.Assigned(&corev1.Pod{}, ws); got != "" || ok {
		t.Errorf("a pod without annotations is in %q, %v", got, ok)
	}
	if got := spread.Annotation(ws, "a"); got != `{"name":"ws","subset":"a"}` {
		t.Errorf("the annotation is %s", got)
	}
}

func TestTheOldestRules(t *testing.T) {
	at := func(name string, age time.Duration, gone bool) *v1beta1.WorkloadSpread {
		ws := spreadOf("CloneSet", "")
		ws.Name, ws.CreationTimestamp = name, metav1.NewTime(start.Add(-age))
		if gone {
			ws.DeletionTimestamp = new(metav1.NewTime(start))
		}
		return ws
	}
	for _, tt := range []struct {
		of   []*v1beta1.WorkloadSpread
		want string
	}{
		{nil, ""},
		{[]*v1beta1.WorkloadSpread{at("young", 1, false), at("old", time.Hour, false), at("a", time.Minute, false)}, "old"},
		{[]*v1beta1.WorkloadSpread{at("b", time.Hour, false), at("a", time.Hour, false)}, "a"},
		{[]*v1beta1.WorkloadSpread{at("going", time.Hour, true), at("young", time.Minute, false)}, "young"},
		{[]*v1beta1.WorkloadSpread{at("going", time.Hour, true)}, ""},
	} {
		got := ""
		if ws := spread.Ruling(tt.of); ws != nil {
			got = ws.Name
		}
		if got != tt.want {
			t.Errorf("%q rules, want %q", got, tt.want)
		}
	}
}

func TestTargets(t *testing.T) {
	type facts struct{ costly, versioned, ordinal bool }
	for kind, want := range map[string]facts{
		"CloneSet": {costly: true}, "Deployment": {costly: true, versioned: true},
		"ReplicaSet":  {costly: true, versioned: true},
		"StatefulSet": {ordinal: true}, "Job": {},
	} {
		target := spread.TargetOf(spreadOf(kind, ""))
		if got := (facts{target.Costly(), target.Versioned(), target.Ordinal()}); got != want {
			t.Errorf("%s: %+v, want %+v", kind, got, want)
		}
	}
	clone := spreadOf("CloneSet", "")
	clone.Spec.TargetReference.APIVersion = "apps.kruise.io/v1alpha1" // the version does not matter
	if got := spread.TargetOf(clone); got != spread.Named(v1beta1.CloneSetKind, "web") {
		t.Errorf("the target is %+v", got)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"pod-template-hash": "h1"}}}
	for kind, want := range map[string]string{"CloneSet": "", "ReplicaSet": "h1"} {
		if got := spread.TargetOf(spreadOf(kind, "")).Version(pod); got != want {
			t.Errorf("a pod of a %s is in book %q, want %q", kind, got, want)
		}
	}
}

// crowd returns n ready pods; the last ones became ready last, and are the least healthy. names are "<prefix><number>".
func crowd(prefix string, n int) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range n {
		name := fmt.Sprintf("%s%02d", prefix, i)
		out = append(out, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
			Spec:       corev1.PodSpec{NodeName: "node"},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionTrue,
					LastTransitionTime: metav1.NewTime(start.Add(time.Duration(i) * time.Second))}}},
		})
	}
	return out
}

// costsText returns how many pods of each subset have which cost.
func costsText(book spread.Placements, costs map[types.UID]int32) string {
	var out []string
	for _, subset := range slices.Sorted(maps.Keys(book.Pods)) {
		n := map[int32]int{}
		for _, pod := range book.Pods[subset] {
			n[costs[pod.UID]]++
		}
		for _, cost := range slices.Backward(slices.Sorted(maps.Keys(n))) {
			out = append(out, fmt.Sprintf("%s:%dx%d", subset, n[cost], cost))
		}
	}
	return strings.Join(out, " ")
}

func TestCosts(t *testing.T) {
	book := func(a, b, c, none int) spread.Placements {
		return spread.Placements{Pods: map[string][]*corev1.Pod{"a": crowd("a", a), "b": crowd("b", b), "c": crowd("c", c),
			"": crowd("none", none)}}
	}
	with := func(b spread.Placements, change func(*spread.Placements)) spread.Placements { change(&b); return b }
	for _, tt := range []struct {
		name string
		ws   *v1beta1.WorkloadSpread
		book spread.Placements
		want string
	}{
		{"within the caps", spreadOf("CloneSet", "10", "10", ""), book(10, 10, 10, 0), "a:10x300 b:10x200 c:10x100"},
		{"above the caps", spreadOf("CloneSet", "10", "10", ""), book(20, 20, 20, 0),
			"a:10x300 a:10x-100 b:10x200 b:10x-200 c:20x100"},
		{"in no subset", spreadOf("CloneSet", "1", "1", "1"), book(1, 1, 1, 2), ":2x-400 a:1x300 b:1x200 c:1x100"},
		{"in a subset that is gone", spreadOf("CloneSet", "", ""), book(1, 1, 2, 0), "a:1x200 b:1x100 c:2x-300"},
		{"an old version", spreadOf("Deployment", "1", "1", ""),
			with(book(2, 2, 2, 1), func(b *spread.Placements) { b.Old = true }),
			":1x-400 a:1x100 a:1x-300 b:1x200 b:1x-200 c:2x300"},
		{"surge pods keep the cost of their subset", spreadOf("CloneSet", "2", "2", ""),
			with(book(3, 4, 0, 0), func(b *spread.Placements) { b.Spare = 2 }),
			"a:3x300 b:3x200 b:1x-200"},
		{"places that others hold", spreadOf("CloneSet", "3", "3", ""),
			with(book(2, 3, 1, 0), func(b *spread.Placements) { b.Others = map[string]int32{"a": 2, "b": 7} }),
			"a:1x300 a:1x-100 b:3x-200 c:1x100"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := costsText(tt.book, resolve(t, tt.ws, 100).Costs(tt.book)); got != tt.want {
				t.Errorf("costs %s\nwant  %s", got, tt.want)
			}
		})
	}
}

func TestTheLeastHealthyAreAboveTheCap(t *testing.T) {
	pods := crowd("a", 4) // a03 was ready last
	pods[1].Status.Conditions[0].Status = corev1.ConditionFalse
	costs := resolve(t, spreadOf("CloneSet", "2", ""),
		4).Costs(spread.Placements{Pods: map[string][]*corev1.Pod{"a": pods}})
	want := map[types.UID]int32{"a00": 200, "a01": -100, "a02": 200, "a03": -100}
	if !maps.Equal(costs, want) {
		t.Errorf("costs %v, want %v", costs, want)
	}
}

// scaleIn removes pods by their costs until n are left, and returns what is left of each subset. Costs are those of the
// moment, as the controllers have them.
func scaleIn(rule spread.Rule, book spread.Placements, n int) string {
	type place struct {
		cost   int32
		subset string
		pod    *corev1.Pod
	}
	var all []place
	costs := rule.Costs(book)
	for subset, pods := range book.Pods {
		for _, pod := range pods {
			all = append(all, place{costs[pod.UID], subset, pod})
		}
	}
	slices.SortFunc(all, func(a, b place) int {
		return int(a.cost-b.cost)*1000 + strings.Compare(a.pod.Name, b.pod.Name)
	})
	left := map[string]int32{}
	for _, p := range all[len(all)-n:] {
		left[p.subset]++
	}
	return text(left)
}

// TestCostsGiveTheOrderOfRemoval: the examples as they are published.
func TestCostsGiveTheOrderOfRemoval(t *testing.T) {
	book := func(a, b, c int) spread.Placements {
		return spread.Placements{Pods: map[string][]*corev1.Pod{"a": crowd("a", a), "b": crowd("b", b), "c": crowd("c", c)}}
	}
	for _, tt := range []struct {
		name     string
		ws       *v1beta1.WorkloadSpread
		replicas int32
		book     spread.Placements
		steps    string
	}{
		{"10 each, caps 10, 10: c, then b, then a", spreadOf("CloneSet", "10", "10", ""), 30, book(10, 10, 10),
			"a10 b10 c5;a10 b10;a10 b5;a10;a5"},
		{"20 each: b's extras, a's extras, c, b, a", spreadOf("CloneSet", "10", "10", ""), 60, book(20, 20, 20),
			"a20 b15 c20;a20 b10 c20;a15 b10 c20;a10 b10 c20;a10 b10 c15;a10 b10 c10;a10 b10 c5;a10 b10;a10 b5;a10;a5"},
		{"caps 3 to 2 and replicas 6 to 4", spreadOf("CloneSet", "2", "2"), 4, book(3, 3, 0), "a2 b2"},
		{"elastic, 5 to 3", spreadOf("CloneSet", "2", ""), 3, book(2, 3, 0), "a2 b1"},
		{"percentages, 10 to 5: caps 2 and 4", spreadOf("CloneSet", "30%", "70%"), 5, book(3, 7, 0), "a2 b3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, want := range strings.Split(tt.steps, ";") {
				n := 0
				for _, part := range strings.Fields(want) {
					k, err := strconv.Atoi(part[1:])
					if err != nil {
						t.Fatal(err)
					}
					n += k
				}
				if got := scaleIn(resolve(t, tt.ws, tt.replicas), tt.book, n); got != want {
					t.Errorf("of %d are left %s, want %s", n, got, want)
				}
			}
		})
	}
}

func TestStuck(t *testing.T) {
	pod := func(change ...func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(start)},
			Status: corev1.PodStatus{Phase: corev1.PodPending,
				Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
					Reason: corev1.PodReasonUnschedulable}}}}
		for _, f := range change {
			f(p)
		}
		return p
	}
	for _, tt := range []struct {
		name  string
		pod   *corev1.Pod
		age   time.Duration
		stuck bool
		after time.Duration
	}{
		{"too short", pod(), 10 * time.Second, false, 20 * time.Second},
		{"long enough", pod(), 30 * time.Second, true, 0},
		{"it has a node", pod(func(p *corev1.Pod) { p.Spec.NodeName = "n" }), time.Hour, false, 0},
		{"it is being deleted", pod(func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(start)) }), time.Hour,
			false, 0},
		{"nobody has looked at it yet", pod(func(p *corev1.Pod) { p.Status.Conditions = nil }), time.Hour, false, 0},
		{"it is held back by a gate", pod(func(p *corev1.Pod) { p.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated }), time.Hour, false, 0},
		{"it has failed", pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), time.Hour, false, 0},
	} {
		stuck, after := spread.Stuck(tt.pod, 30*time.Second, start.Add(tt.age))
		if stuck != tt.stuck || after != tt.after {
			t.Errorf("%s: %v, %s; want %v, %s", tt.name, stuck, after, tt.stuck, tt.after)
		}
	}
}

func TestCritical(t *testing.T) {
	ws := spreadOf("CloneSet", "1", "")
	ws.Spec.ScheduleStrategy = v1beta1.WorkloadSpreadScheduleStrategy{Type: v1beta1.AdaptiveWorkloadSpreadScheduleStrategyType,
		Adaptive: &v1beta1.AdaptiveWorkloadSpreadStrategy{RescheduleCriticalSeconds: new(int32(30))}}
	if got, ok := spread.Critical(ws); !ok || got != 30*time.Second {
		t.Errorf("%s, %v; want 30s", got, ok)
	}
	ws.Spec.ScheduleStrategy.Adaptive.RescheduleCriticalSeconds = new(int32(0))
	if _, ok := spread.Critical(ws); ok {
		t.Error("0 seconds replace pods")
	}
	ws.Spec.ScheduleStrategy = v1beta1.WorkloadSpreadScheduleStrategy{}
	if _, ok := spread.Critical(ws); ok {
		t.Error("strategy Fixed replaces pods")
	}
}
