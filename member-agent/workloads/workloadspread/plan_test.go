package workloadspread

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
)

// noon is when everything of these tests happens.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// advanced is how tests write the StatefulSet of apps.kruise.io.
const advanced = "StatefulSet.apps.kruise.io"

// aSpread returns a WorkloadSpread over subsets written "a=3", "b=30%" or "c", each in the zone of its name; "d*" is in
// any zone.
func aSpread(kind string, subsets ...string) *v1beta1.WorkloadSpread {
	ws := &v1beta1.WorkloadSpread{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "ws", Generation: 3},
		Spec: v1beta1.WorkloadSpreadSpec{TargetReference: &v1beta1.TargetReference{APIVersion: "apps/v1", Kind: kind,
			Name: "web"}},
	}
	if kind == "CloneSet" {
		ws.Spec.TargetReference.APIVersion = "apps.kruise.io/v1alpha1"
	}
	if kind == advanced {
		ws.Spec.TargetReference.APIVersion, ws.Spec.TargetReference.Kind = "apps.kruise.io/v1beta1", "StatefulSet"
	}
	if kind == "Job" {
		ws.Spec.TargetReference.APIVersion = "batch/v1"
	}
	for _, text := range subsets {
		name, limit, limited := strings.Cut(text, "=")
		name, anywhere := strings.CutSuffix(name, "*")
		s := v1beta1.WorkloadSpreadSubset{Name: name, RequiredNodeSelector: &corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{name}},
		}}}
		if anywhere {
			s.RequiredNodeSelector = nil
		}
		if limited {
			s.MaxReplicas = new(intstr.Parse(limit))
		}
		ws.Spec.Subsets = append(ws.Spec.Subsets, s)
	}
	return ws
}

// adaptive lets pods wait for 30 s.
func adaptive(ws *v1beta1.WorkloadSpread) *v1beta1.WorkloadSpread {
	ws.Spec.ScheduleStrategy = v1beta1.WorkloadSpreadScheduleStrategy{Type: v1beta1.AdaptiveWorkloadSpreadScheduleStrategyType,
		Adaptive: &v1beta1.AdaptiveWorkloadSpreadStrategy{RescheduleCriticalSeconds: new(int32(30))}}
	return ws
}

// closed writes the condition that the subset was closed this long before noon.
func closed(ws *v1beta1.WorkloadSpread, subset string, ago time.Duration) *v1beta1.WorkloadSpread {
	ws.Status.SubsetStatuses = append(ws.Status.SubsetStatuses,
		v1beta1.WorkloadSpreadSubsetStatus{Name: subset, Conditions: []metav1.Condition{{
			Type: v1beta1.WorkloadSpreadSubsetSchedulable, Status: metav1.ConditionFalse, Reason: ReasonPodsUnschedulable,
			Message:            "as it was",
			LastTransitionTime: metav1.NewTime(noon.Add(-ago)),
		}}})
	return ws
}

// aPod returns a pod of the subset ("" for none) on the node ("" for none) with the cost ("" for none).
func aPod(name, subset, node, cost string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "7",
			CreationTimestamp: metav1.NewTime(noon.Add(-10 * time.Second)), Labels: map[string]string{"app": "web"},
			Annotations: map[string]string{}},
		Spec: corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	if node == "" {
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	}
	if subset != "" {
		pod.Annotations[v1beta1.AnnotationMatchedWorkloadSpread] = fmt.Sprintf(`{"name":"web","subset":%q}`, subset)
	}
	if cost != "" {
		pod.Annotations[corev1.PodDeletionCost] = cost
	}
	return pod
}

// ofSpread lets the WorkloadSpread of this name have given the pod its subset.
func ofSpread(pod *corev1.Pod, name string) *corev1.Pod {
	const key = v1beta1.AnnotationMatchedWorkloadSpread
	pod.Annotations[key] = strings.Replace(pod.Annotations[key], `"web"`, fmt.Sprintf("%q", name), 1)
	return pod
}

// waiting lets the pod be one that no node takes, made this long before noon.
func waiting(pod *corev1.Pod, ago time.Duration) *corev1.Pod {
	pod.Spec.NodeName = ""
	pod.CreationTimestamp = metav1.NewTime(noon.Add(-ago))
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			Message: "0/4 nodes are available"},
	}}
	return pod
}

func version(pod *corev1.Pod, hash string) *corev1.Pod {
	pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	return pod
}

// seen is what gather would have seen: nodes are named "<zone>-<n>".
func seen(t *testing.T, ws *v1beta1.WorkloadSpread, replicas int32, newest string, pods ...*corev1.Pod) *observed {
	t.Helper()
	rule, err := spread.Resolve(ws, replicas)
	if err != nil {
		t.Fatal(err)
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	o := &observed{ws: ws, target: spread.TargetOf(ws), now: noon, rule: rule, replicas: replicas, newest: newest,
		pods: pods,
		node: func(name string) *corev1.Node {
			zone, _, known := strings.Cut(name, "-")
			if !known {
				return nil
			}
			return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
				Labels: map[string]string{corev1.LabelTopologyZone: zone}}}
		}}
	switch o.target.Kind {
	case "CloneSet":
		o.object = &v1beta1.CloneSet{Spec: v1beta1.CloneSetSpec{Selector: selector}}
	case "Deployment":
		o.object = &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Selector: selector}}
	default:
		o.object = &metav1.PartialObjectMetadata{}
		if gvk, _ := kindOf(o.target); gvk == v1beta1.StatefulSetKind {
			o.object = &v1beta1.StatefulSet{Spec: v1beta1.StatefulSetSpec{Selector: selector}}
		}
	}
	return o
}

// changes tells the changes of a plan: "pod: subset cost".
func changes(p *plan) map[string]string {
	out := map[string]string{}
	for _, c := range p.change {
		var parts []string
		if text, ok := c.annotations[v1beta1.AnnotationMatchedWorkloadSpread]; ok {
			_, rest, _ := strings.Cut(text, `"subset":"`)
			subset, _, _ := strings.Cut(rest, `"`)
			parts = append(parts, subset)
		}
		if cost, ok := c.annotations[corev1.PodDeletionCost]; ok {
			parts = append(parts, cost)
		}
		for key, value := range c.labels {
			parts = append(parts, key+"="+value)
		}
		out[c.pod.Name] = strings.Join(parts, " ")
	}
	return out
}

// rows tells rows of a status: "a 3/0" is a subset with three pods that takes none more.
func rows(list []v1beta1.WorkloadSpreadSubsetStatus) string {
	var parts []string
	for _, row := range list {
		parts = append(parts, fmt.Sprintf("%s %d/%d", row.Name, row.Replicas, row.MissingReplicas))
	}
	return strings.Join(parts, ", ")
}

func TestPlanOfPods(t *testing.T) {
	for _, tt := range []struct {
		name     string
		ws       *v1beta1.WorkloadSpread
		replicas int32
		newest   string
		pods     []*corev1.Pod
		rows     string
		changes  map[string]string
		outside  int
	}{
		{
			name: "pods as they were stamped cost no write",
			ws:   aSpread("CloneSet", "a=2", "b"), replicas: 3,
			pods: []*corev1.Pod{aPod("p1", "a", "a-0", "200"), aPod("p2", "a", "a-0", "200"), aPod("p3", "b", "b-0", "100")},
			rows: "a 2/0, b 1/-1", changes: map[string]string{},
		},
		{
			name: "pods without a subset get that of their node, one write each",
			ws:   aSpread("Deployment", "a=2", "b"), replicas: 3, newest: "n",
			pods: []*corev1.Pod{version(aPod("p1", "", "b-0", ""), "n"), version(aPod("p2", "", "a-0", ""), "n"),
				version(aPod("p3", "", "c-0", ""), "n")},
			rows: "a 1/1, b 1/-1", changes: map[string]string{"p1": "b 100", "p2": "a 200", "p3": "-300"}, outside: 1,
		},
		{
			name: "a pod that waits for its node, in no subset, is not written to",
			ws:   aSpread("Deployment", "a=2", "b"), replicas: 1, newest: "n",
			pods: []*corev1.Pod{version(aPod("p1", "", "", ""), "n")},
			rows: "a 0/2, b 0/-1", changes: map[string]string{}, outside: 1,
		},
		{
			name: "above the cap the least healthy goes first",
			ws:   aSpread("CloneSet", "a=1", "b"), replicas: 3,
			pods: []*corev1.Pod{aPod("p1", "a", "a-0", "200"), waiting(aPod("p2", "a", "", "200"), time.Second),
				aPod("p3", "b", "b-0", "100")},
			rows: "a 2/0, b 1/-1", changes: map[string]string{"p2": "-100"}, outside: 1,
		},
		{
			name: "the pods of a surge keep the cost of their subset",
			ws:   aSpread("CloneSet", "a=1", "b"), replicas: 1,
			pods: []*corev1.Pod{aPod("p1", "a", "a-0", "200"), aPod("p2", "a", "a-0", "200")},
			rows: "a 2/0, b 0/-1", changes: map[string]string{},
		},
		{
			name: "percentages round up",
			ws:   aSpread("CloneSet", "a=30%", "b=70%"), replicas: 3,
			pods: []*corev1.Pod{aPod("p1", "a", "a-0", "200"), aPod("p2", "b", "b-0", "100"), aPod("p3", "b", "b-0", "100")},
			rows: "a 1/0, b 2/1", changes: map[string]string{},
		},
		{
			name: "versions of a Deployment have books of their own, and old ones are emptied from the front",
			ws:   aSpread("Deployment", "a=2", "b"), replicas: 4, newest: "n",
			pods: []*corev1.Pod{version(aPod("p1", "a", "a-0", "200"), "o"), version(aPod("p2", "b", "b-0", "100"), "o"),
				version(aPod("p3", "a", "a-0", "200"), "n"), version(aPod("p4", "a", "a-0", "200"), "n")},
			rows: "a 2/0, b 0/-1", changes: map[string]string{"p1": "100", "p2": "200"},
		},
		{
			name: "pods of a StatefulSet get subsets and no costs",
			ws:   aSpread("StatefulSet", "a=1", "b"), replicas: 2,
			pods: []*corev1.Pod{aPod("web-0", "", "b-0", ""), aPod("web-1", "", "a-0", "")},
			rows: "a 1/0, b 1/-1", changes: map[string]string{"web-0": "b", "web-1": "a"},
		},
		{
			name: "pods of an advanced StatefulSet get subsets and no costs",
			ws:   aSpread(advanced, "a=1", "b"), replicas: 2,
			pods: []*corev1.Pod{aPod("web-0", "", "b-0", ""), aPod("web-1", "b", "a-0", "")},
			rows: "a 0/1, b 2/-1", changes: map[string]string{"web-0": "b"},
		},
		{
			name: "Case13: a pod of a removed subset is in no subset, though its node matches one, and goes first",
			ws:   aSpread("CloneSet", "a=2", "b"), replicas: 3,
			pods: []*corev1.Pod{aPod("p1", "old", "b-0", "100"),
				aPod("p2", "a", "a-0", "200"), aPod("p3", "b", "b-0", "100")},
			rows: "a 1/1, b 1/-1", changes: map[string]string{"p1": "-300"}, outside: 1,
		},
		{
			name: "Case13: also while it waits for its node",
			ws:   aSpread("CloneSet", "a=2", "b"), replicas: 1,
			pods: []*corev1.Pod{aPod("p1", "old", "", "100")},
			rows: "a 0/2, b 0/-1", changes: map[string]string{"p1": "-300"}, outside: 1,
		},
		{
			name: "Case13: a Deployment's old and new versions alike",
			ws:   aSpread("Deployment", "a=2", "b"), replicas: 2, newest: "n",
			pods: []*corev1.Pod{version(aPod("p1", "old", "b-0", "300"), "o"),
				version(aPod("p2", "old", "a-0", "300"), "n")},
			rows: "a 0/2, b 0/-1", changes: map[string]string{"p1": "-300", "p2": "-300"}, outside: 2,
		},
		{
			name: "Case13: pods of StatefulSets and Jobs are in no subset, without a write",
			ws:   aSpread("StatefulSet", "a=1", "b"), replicas: 2,
			pods: []*corev1.Pod{aPod("web-0", "old", "b-0", ""), aPod("web-1", "b", "b-0", "")},
			rows: "a 0/1, b 1/-1", changes: map[string]string{}, outside: 1,
		},
		{
			name: "Case13: a pod of another spread's subset gets that of its node, whatever names are alike",
			ws:   aSpread("CloneSet", "a=2", "b"), replicas: 2,
			pods: []*corev1.Pod{ofSpread(aPod("p1", "a", "b-0", "200"), "other"),
				ofSpread(aPod("p2", "old", "a-0", "200"), "other")},
			rows: "a 1/1, b 1/-1", changes: map[string]string{"p1": "b 100", "p2": "a"},
		},
		{
			name: "Case13: subsets in another order have other costs, and keep their pods",
			ws:   aSpread("CloneSet", "b", "a=2"), replicas: 2,
			pods: []*corev1.Pod{aPod("p1", "a", "a-0", "200"), aPod("p2", "b", "b-0", "100")},
			rows: "b 1/-1, a 1/1", changes: map[string]string{"p1": "100", "p2": "200"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := makePlan(seen(t, tt.ws, tt.replicas, tt.newest, tt.pods...))
			if got := rows(p.subsets); got != tt.rows {
				t.Errorf("subsets %q, want %q", got, tt.rows)
			}
			if diff := cmp.Diff(tt.changes, changes(p)); diff != "" {
				t.Errorf("changes: %s", diff)
			}
			if p.outside != tt.outside || p.total != len(tt.pods) || len(p.remove) != 0 || p.wake != 0 {
				t.Errorf("%d of %d pods outside (want %d), %d removed, wake %s", p.outside, p.total, tt.outside, len(p.remove),
					p.wake)
			}
		})
	}
}

// TestKindsAreToldByGroup: a StatefulSet exists in two groups.
func TestKindsAreToldByGroup(t *testing.T) {
	for _, tt := range []struct {
		kind string
		want client.Object
	}{
		{"CloneSet", &v1beta1.CloneSet{}}, {"Deployment", &appsv1.Deployment{}}, {"StatefulSet", &appsv1.StatefulSet{}},
		{advanced, &v1beta1.StatefulSet{}},
	} {
		gvk, ok := kindOf(spread.TargetOf(aSpread(tt.kind, "a")))
		if got := emptyTarget(gvk); !ok || reflect.TypeOf(got) != reflect.TypeOf(tt.want) {
			t.Errorf("%s: %T, want %T", tt.kind, got, tt.want)
		}
	}
	for _, target := range []spread.Target{{Group: "apps.kruise.io", Kind: "Deployment"},
		{Group: "apps", Kind: "CloneSet"},
		{Group: "apps.kruise.io", Kind: "DaemonSet"}} {
		if _, ok := kindOf(target); ok {
			t.Errorf("pods of a %s of %s are spread", target.Kind, target.Group)
		}
	}
}

func TestPlanOfVersions(t *testing.T) {
	p := makePlan(seen(t, aSpread("Deployment", "a=2", "b"), 3, "n",
		version(aPod("p1", "a", "a-0", "100"), "o"), version(aPod("p2", "a", "a-0", "200"), "n"),
		version(aPod("p3", "b", "b-0", "100"), "n")))
	got := map[string]string{}
	for version, list := range p.versions {
		got[version] = rows(list)
	}
	if diff := cmp.Diff(map[string]string{"o": "a 1/1, b 0/-1", "n": "a 1/1, b 1/-1"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestPlanOfPatches(t *testing.T) {
	patch := func(text string) *v1beta1.WorkloadSpread {
		ws := aSpread("CloneSet", "a=2", "b")
		ws.Spec.Subsets[0].Patch = runtime.RawExtension{Raw: []byte(text)}
		return ws
	}
	good := patch(`{"metadata":{"labels":{"tier":"fixed"}},"spec":{"priorityClassName":"high"}}`)
	p := makePlan(seen(t, good, 1, "", aPod("p1", "", "a-0", "")))
	if diff := cmp.Diff(map[string]string{"p1": "a 200 tier=fixed"}, changes(p)); diff != "" || p.refused != nil {
		t.Errorf("refused %v: %s", p.refused, diff)
	}
	good.Annotations = map[string]string{v1beta1.AnnotationIgnorePatchExistingPods: "true"}
	if diff := cmp.Diff(map[string]string{"p1": "a 200"},
		changes(makePlan(seen(t, good, 1, "", aPod("p1", "", "a-0", ""))))); diff != "" {
		t.Error(diff)
	}
	p = makePlan(seen(t, patch(`{"metadata":{"labels":{"app":"other"}}}`), 1, "", aPod("p1", "", "a-0", "")))
	if diff := cmp.Diff(map[string]string{"p1": "a 200"}, changes(p)); diff != "" || p.refused == nil ||
		p.refused.Reason != ReasonInvalidPatch {
		t.Errorf("refused %v: %s", p.refused, diff)
	}
}

func TestPlanOfSubsetsThatFill(t *testing.T) {
	for _, tt := range []struct {
		name   string
		ws     *v1beta1.WorkloadSpread
		pods   []*corev1.Pod
		states string // of the subsets but the last
		remove string
		wake   time.Duration
	}{
		{"a Fixed spread lets pods wait", aSpread("CloneSet", "a=2", "b"),
			[]*corev1.Pod{waiting(aPod("p1", "a", "", "200"), time.Hour)}, "", "", 0},
		{"a pod waits for less than the critical time", adaptive(aSpread("CloneSet", "a=2", "b")),
			[]*corev1.Pod{waiting(aPod("p1", "a", "", "200"), 20*time.Second)}, "True 0s", "", 10 * time.Second},
		{"a pod waits for longer: the subset is closed first", adaptive(aSpread("CloneSet", "a=2", "b")),
			[]*corev1.Pod{waiting(aPod("p1", "a", "", "200"), 30*time.Second)}, "False 0s", "", 300 * time.Second},
		{"its pods go once the cache shows that it is closed",
			closed(adaptive(aSpread("CloneSet", "a=2", "b")), "a", 2*time.Second),
			[]*corev1.Pod{waiting(aPod("p1", "a", "", "200"), 31*time.Second),
				waiting(aPod("p2", "a", "", "200"), 40*time.Second),
				waiting(aPod("p3", "a", "", "200"), 10*time.Second), aPod("p4", "a", "a-0", "200"),
				waiting(aPod("p5", "b", "", "100"), time.Hour)},
			"False 2s", "p2 p1", 20 * time.Second},
		{"the last subset never closes", adaptive(aSpread("CloneSet", "a=2", "b")),
			[]*corev1.Pod{waiting(aPod("p1", "b", "", "100"), time.Hour)}, "True 0s", "", 0},
		{"a closed subset stays closed without pods", closed(adaptive(aSpread("CloneSet", "a=2", "b")), "a", 299*time.Second),
			nil, "False 4m59s", "", time.Second},
		{"after 300 s it is open", closed(adaptive(aSpread("CloneSet", "a=2", "b")), "a", 300*time.Second), nil, "True 0s",
			"", 0},
		{"unless pods wait there again", closed(adaptive(aSpread("CloneSet", "a=2", "b")), "a", 300*time.Second),
			[]*corev1.Pod{waiting(aPod("p1", "a", "", "200"), time.Minute)}, "False 0s", "p1", 300 * time.Second},
		{"each but the last can close", adaptive(aSpread("CloneSet", "a=2", "b=2", "c")),
			[]*corev1.Pod{waiting(aPod("p1", "a", "", "300"), time.Minute), waiting(aPod("p2", "b", "", "200"), time.Minute)},
			"False 0s, False 0s", "", 300 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := makePlan(seen(t, tt.ws, 4, "", tt.pods...))
			var states, remove []string
			for _, c := range p.schedulable {
				if c != nil {
					states = append(states, fmt.Sprintf("%s %s", c.Status, noon.Sub(c.LastTransitionTime.Time)))
				}
			}
			for _, pod := range p.remove {
				remove = append(remove, pod.Name)
			}
			if got := strings.Join(states, ", "); got != tt.states {
				t.Errorf("subsets are %q, want %q", got, tt.states)
			}
			if got := strings.Join(remove, " "); got != tt.remove || p.wake != tt.wake {
				t.Errorf("removes %q, wake %s; want %q, %s", got, p.wake, tt.remove, tt.wake)
			}
		})
	}
}

func TestAt(t *testing.T) {
	content := map[string]any{"spec": map[string]any{"replicas": int64(3), "name": "x",
		"roles": []any{map[string]any{"replicas": int64(2)}}}}
	for path, want := range map[string]string{
		"spec.replicas": "3", "spec.roles.0.replicas": "2", "spec.roles.1.replicas": "no place",
		"spec.none.replicas": "there is nothing", "spec.name": "no number",
	} {
		n, err := at(content, path)
		if got := fmt.Sprint(n, err); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if n, err := sum(content, []string{"spec.replicas", "spec.roles.0.replicas"}); n != 5 || err != nil {
		t.Errorf("sum %d, %v", n, err)
	}
}

func TestPace(t *testing.T) {
	p, now := &deletions{}, noon
	for _, step := range []struct {
		after     time.Duration
		ask, want int
	}{{0, 60, 60}, {0, 60, 40}, {0, 1, 0}, {500 * time.Millisecond, 80, 50}, {time.Hour, 500, 100}} {
		now = now.Add(step.after)
		if got := p.take(step.ask, now); got != step.want {
			t.Errorf("after %s %d of %d, want %d", step.after, got, step.ask, step.want)
		}
	}
}

func TestRegistry(t *testing.T) {
	r := newRegistry()
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "shop", Name: name} }
	web := spread.Named(v1beta1.CloneSetKind, "web")
	r.put(key("two"), "2", web)
	r.put(key("one"), "1", web)
	if got := r.of("shop", web); len(got) != 2 || got[0].Name != "one" || r.empty("shop") || !r.empty("elsewhere") {
		t.Errorf("of the CloneSet: %v", got)
	}
	r.put(key("one"), "3", spread.Named(v1beta1.CloneSetKind, "api"))
	r.drop(key("one"), "1") // the one that went, not the one that came under its name
	if len(r.of("shop", web)) != 1 || len(r.of("shop", spread.Named(v1beta1.CloneSetKind, "api"))) != 1 ||
		r.spreads[key("one")].uid != "3" {
		t.Errorf("after another came: %v", r.spreads)
	}
	r.drop(key("one"), "3")
	r.drop(key("two"), "2")
	if len(r.spreads) != 0 || !r.empty("shop") || len(r.targets) != 0 {
		t.Errorf("after all went: %v", r.spreads)
	}
}
