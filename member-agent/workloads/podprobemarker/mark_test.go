package podprobemarker

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/marks"
)

func noon() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

// policy sets the label role, and the annotation cost, in a state.
func policy(state v1alpha1.ProbeState, role, cost string) v1alpha1.ProbeMarkerPolicy {
	p := v1alpha1.ProbeMarkerPolicy{State: state, Labels: map[string]string{"role": role}}
	if cost != "" {
		p.Annotations = map[string]string{"cost": cost}
	}
	return p
}

// newMarker returns a marker with one probe, leader, of container db.
func newMarker(
	name string, age int, condition string, policies ...v1alpha1.ProbeMarkerPolicy,
) *v1alpha1.PodProbeMarker {
	m := &v1alpha1.PodProbeMarker{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name,
		CreationTimestamp: metav1.NewTime(noon().Add(-time.Duration(age) * time.Hour))}}
	m.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}
	m.Spec.Probes = []v1alpha1.PodContainerProbe{{Name: "leader", ContainerName: "db", PodConditionType: condition,
		MarkerPolicy: policies}}
	m.Spec.Probes[0].Probe.TCPSocket = &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}
	return m
}

func newPod(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name),
		Labels: map[string]string{"app": "db"}}}
	pod.Spec.NodeName = "node-1"
	pod.Spec.Containers = []corev1.Container{{Name: "db",
		Ports: []corev1.ContainerPort{{Name: "sql", ContainerPort: 5432}}}}
	pod.Status.PodIP = "10.0.0.1"
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "db"}}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func result(name string, state v1alpha1.ProbeState, message string) results {
	return results{name: {Name: name, State: state, Message: message, LastProbeTime: metav1.NewTime(noon())}}
}

// applied returns the pod as the API server has it after the change.
func (c *change) applied(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	patch, err := c.patch(pod)
	if err != nil {
		t.Fatal(err)
	}
	before, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	out := &corev1.Pod{}
	if err := json.Unmarshal(after, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// seen returns the marks of a pod as text, without the record.
func seen(pod *corev1.Pod) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(pod.Labels)) {
		if key != "app" {
			out = append(out, key+"="+pod.Labels[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		if key != v1alpha1.AnnotationProbeMarks {
			out = append(out, "@"+key+"="+pod.Annotations[key])
		}
	}
	for _, c := range pod.Status.Conditions {
		out = append(out, fmt.Sprintf("%s:%s(%s)", c.Type, c.Status, c.Message))
	}
	if _, ok := pod.Annotations[v1alpha1.AnnotationProbeMarks]; ok {
		out = append(out, "recorded")
	}
	return strings.Join(out, " ")
}

// step is what the controller sees, and what the pod then has.
type step struct {
	markers []*v1alpha1.PodProbeMarker
	results results
	change  func(*corev1.Pod)
	want    string
}

// runSteps checks what the pod has after each step, and that another pass changes nothing.
func runSteps(t *testing.T, pod *corev1.Pod, steps []step) {
	t.Helper()
	for i, s := range steps {
		if s.change != nil {
			s.change(pod)
		}
		before := pod.DeepCopy()
		change, err := markOf(pod, s.markers, s.results, noon())
		if err != nil {
			t.Fatal(err)
		}
		if !equality.Semantic.DeepEqual(before, pod) {
			t.Error("the pod of the cache changed")
		}
		pod = change.applied(t, pod)
		if got := seen(pod); got != s.want {
			t.Fatalf("step %d: %s, want %s", i, got, s.want)
		}
		if again, err := markOf(pod, s.markers, s.results, noon()); err != nil || !again.empty() {
			t.Fatalf("step %d: another pass changes %+v (%v)", i, again, err)
		}
	}
}

func TestMarks(t *testing.T) {
	const leader = "roles#leader"
	const marked10, followed = "role=leader @cost=10 recorded", "role=follower recorded"
	both := []*v1alpha1.PodProbeMarker{newMarker("roles", 2, "", policy("Succeeded", "leader", "10"),
		policy("Failed", "follower", ""))}
	one := []*v1alpha1.PodProbeMarker{newMarker("roles", 2, "", policy("Succeeded", "leader", "10"))}
	cond := []*v1alpha1.PodProbeMarker{newMarker("roles", 2, "x/leader")}
	yes, no := result(leader, "Succeeded", "ok"), result(leader, "Failed", "no")
	unknown := result(leader, "Unknown", "cannot connect")
	had := func(pod *corev1.Pod) { pod.Labels["role"] = "candidate" }
	unready := newMarker("roles", 2, "", v1alpha1.ProbeMarkerPolicy{State: "Succeeded",
		Labels: map[string]string{"app": "web", "ready": "true", "role": "leader"}})
	unready.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "ready", Operator: "DoesNotExist"}}
	for name, steps := range map[string][]step{
		"nothing without a result": {{markers: both, want: ""}, {markers: cond, want: ""}},
		"marks follow the state": {{both, yes, nil, marked10}, {both, no, nil, followed},
			{both, yes, nil, marked10}},
		"a failure takes away": {{one, yes, nil, marked10}, {one, no, nil, "recorded"}},
		"the marker goes":      {{both, yes, nil, marked10}, {nil, yes, nil, ""}},
		"what was there comes back": {{both, yes, had, marked10}, {both, no, nil, followed},
			{nil, nil, nil, "role=candidate"}},
		"what others changed stays": {{one, yes, nil, marked10}, {nil, nil, had, "role=candidate"}},
		"what others removed stays away": {{one, yes, nil, marked10},
			{nil, nil, func(p *corev1.Pod) { delete(p.Labels, "role") }, ""}},
		"a mark that was changed while its state lasts": {{one, yes, nil, marked10},
			{one, yes, had, marked10}, {nil, nil, nil, ""}},
		"marks stay while nothing is known": {{both, yes, nil, marked10},
			{both, unknown, nil, marked10}, {both, nil, nil, marked10}},
		"a condition": {{cond, yes, nil, "x/leader:True(ok) recorded"}, {cond, no, nil, "x/leader:False(no) recorded"},
			{cond, unknown, nil, "x/leader:Unknown(cannot connect) recorded"},
			{cond, nil, nil, "x/leader:Unknown(cannot connect) recorded"}, {nil, nil, nil, ""}},
		"a condition of others is not touched": {{nil, nil, func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: "Ready", Status: "True"}}
		}, "Ready:True()"}, {cond, yes, nil, "x/leader:True(ok) Ready:True() recorded"}, {nil, nil, nil, "Ready:True()"}},
		"unreachable from the start": {{cond, unknown, nil, "x/leader:Unknown(cannot connect) recorded"}},
		"the pod is not selected any more": {{both, yes, nil, marked10},
			{both, yes, func(p *corev1.Pod) { p.Labels["app"] = "other" }, ""}},
		"the policy changes": {{both, yes, nil, marked10},
			{[]*v1alpha1.PodProbeMarker{newMarker("roles", 2, "", policy("Succeeded", "primary", ""))}, yes, nil,
				"role=primary recorded"}},
		"a record that cannot be read": {{both, yes, func(p *corev1.Pod) {
			p.Annotations = map[string]string{v1alpha1.AnnotationProbeMarks: "{"}
		}, marked10}},
		"a key that Kubernetes does not take": {{[]*v1alpha1.PodProbeMarker{newMarker("roles", 2, "",
			v1alpha1.ProbeMarkerPolicy{State: "Succeeded", Labels: map[string]string{"a b": "c", "role": "leader"},
				Annotations: map[string]string{v1alpha1.AnnotationProbeMarks: "x"}})}, yes, nil, "role=leader recorded"}},
		"labels of the selector stay": {{[]*v1alpha1.PodProbeMarker{unready}, yes, nil, "role=leader recorded"},
			{[]*v1alpha1.PodProbeMarker{unready}, yes, nil, "role=leader recorded"}},
	} {
		t.Run(name, func(t *testing.T) {
			runSteps(t, newPod("db-0"), steps)
		})
	}
}

// TestMarksOfOpenKruiseAreTakenOver: a pod without a record, of a marker with OpenKruise's finalizer, has what its
// probes set: that is taken back like any other mark.
func TestMarksOfOpenKruiseAreTakenOver(t *testing.T) {
	const leader = "roles#leader"
	marker := func(policies ...v1alpha1.ProbeMarkerPolicy) []*v1alpha1.PodProbeMarker {
		m := newMarker("roles", 2, "x/leader", policies...)
		m.Finalizers = []string{v1alpha1.FinalizerNodePodProbe}
		return []*v1alpha1.PodProbeMarker{m}
	}
	one := marker(policy("Succeeded", "leader", "10"))
	both := marker(policy("Failed", "follower", "-1"), policy("Succeeded", "leader", "10"))
	alike := marker(policy("Failed", "member", "-1"), policy("Succeeded", "member", "10"))
	own := []*v1alpha1.PodProbeMarker{newMarker("roles", 2, "x/leader", policy("Succeeded", "leader", "10"))}
	yes, no := result(leader, "Succeeded", ""), result(leader, "Failed", "")
	const before, led = "role=leader @cost=10 x/leader:True()", "role=leader @cost=10 x/leader:True() recorded"
	for name, steps := range map[string][]step{
		"a failure takes the mark away":      {{one, no, nil, "x/leader:False() recorded"}},
		"a failure after a success":          {{one, yes, nil, led}, {one, no, nil, "x/leader:False() recorded"}},
		"marks stay until there is a result": {{both, nil, nil, led}, {both, yes, nil, led}},
		"the other state":                    {{both, no, nil, "role=follower @cost=-1 x/leader:False() recorded"}},
		"the marker goes":                    {{both, nil, nil, led}, {nil, nil, nil, ""}},
		"the state is that of the most values": {{alike, nil, func(p *corev1.Pod) { p.Labels["role"] = "member" },
			"role=member @cost=10 x/leader:True() recorded"}},
		"what differs is not of OpenKruise": {{one, no, func(p *corev1.Pod) { p.Labels["role"] = "mine" },
			"role=mine x/leader:False() recorded"}},
		"a marker that OpenKruise never carried out": {{own, no, nil, "role=leader @cost=10 x/leader:False() recorded"}},
		"the pod is not selected":                    {{one, no, func(p *corev1.Pod) { p.Labels["app"] = "other" }, before}},
	} {
		t.Run(name, func(t *testing.T) {
			runSteps(t, newPod("db-0", func(p *corev1.Pod) {
				p.Labels["role"], p.Annotations = "leader", map[string]string{"cost": "10"}
				p.Status.Conditions = []corev1.PodCondition{{Type: "x/leader", Status: "True"}}
			}), steps)
		})
	}
}

// TestTheOlderMarkerHolds: where two markers want the same of a pod, the older one has its way, and the other one when
// that goes.
func TestTheOlderMarkerHolds(t *testing.T) {
	older := newMarker("z", 9, "x/leader", policy("Succeeded", "old", ""))
	younger := newMarker("a", 1, "x/leader", policy("Succeeded", "young", "1"))
	all := []*v1alpha1.PodProbeMarker{younger, older}
	sortByAge(all)
	found := result("a#leader", "Succeeded", "young")
	maps.Copy(found, result("z#leader", "Failed", "old"))
	pod := newPod("db-0", func(p *corev1.Pod) { p.Labels["role"] = "mine" })
	for _, s := range []step{
		{all, found, nil, "role=young @cost=1 x/leader:False(old) recorded"}, // the older one sets no label after a failure
		{all, result("z#leader", "Succeeded", "old"), nil, "role=old @cost=1 x/leader:True(old) recorded"},
		{[]*v1alpha1.PodProbeMarker{younger}, found, nil, "role=young @cost=1 x/leader:True(young) recorded"},
		{nil, nil, nil, "role=mine"},
	} {
		change, err := markOf(pod, s.markers, s.results, noon())
		if err != nil {
			t.Fatal(err)
		}
		if pod = change.applied(t, pod); seen(pod) != s.want {
			t.Fatalf("%s, want %s", seen(pod), s.want)
		}
	}
}

// TestStatesOfAPod: states are those of the containers that run now, and of labels that probes set.
func TestStatesOfAPod(t *testing.T) {
	const leader, both = "roles#leader", "role=leader x/leader=True"
	marker := []*v1alpha1.PodProbeMarker{newMarker("roles", 2, "x/leader", policy("Succeeded", "leader", ""))}
	other := func(pod *corev1.Pod) { pod.Labels["role"] = "other" }
	pod := newPod("db-0")
	for i, s := range []step{
		{nil, result(leader, "Unknown", ""), nil, ""},
		{nil, result(leader, "Succeeded", ""), nil, both},
		{nil, result(leader, "Unknown", ""), nil, ""}, // the container was started again
		{nil, nil, nil, ""},
		{nil, result(leader, "Unknown", "refused"), nil, "x/leader=Unknown"},
		{nil, result(leader, "Succeeded", ""), nil, both},
		{nil, result(leader, "Unknown", "refused"), nil, "role=leader x/leader=Unknown"},
		{nil, nil, nil, "role=leader x/leader=Unknown"},
		{nil, result(leader, "Unknown", ""), nil, "x/leader=Unknown"},
		{nil, result(leader, "Failed", ""), nil, "x/leader=False"},
		{nil, result(leader, "Succeeded", ""), nil, both},
		{nil, nil, other, "x/leader=True"}, // seen before the next pass
	} {
		if s.change == nil {
			change, err := markOf(pod, marker, s.results, noon())
			if err != nil {
				t.Fatal(err)
			}
			pod = change.applied(t, pod)
			if again, err := markOf(pod, marker, s.results, noon()); err != nil || !again.empty() {
				t.Fatalf("step %d: another pass changes %+v (%v)", i, again, err)
			}
		} else {
			s.change(pod)
		}
		got := marks.States(pod)
		slices.Sort(got)
		if text := strings.Join(got, " "); text != s.want {
			t.Fatalf("step %d: %q, want %q", i, text, s.want)
		}
	}
}

func TestSpecOfANode(t *testing.T) {
	named := newMarker("roles", 2, "x")
	named.Spec.Probes[0].Probe.TCPSocket.Port = intstr.FromString("sql")
	unknown := newMarker("ports", 2, "x")
	unknown.Spec.Probes[0].Probe.TCPSocket.Port = intstr.FromString("nowhere")
	elsewhere := newMarker("other", 2, "x")
	elsewhere.Spec.Probes[0].ContainerName = "none"
	similar := newMarker("roles-2", 2, "x")
	gone := newMarker("gone", 2, "x")
	gone.DeletionTimestamp = new(metav1.NewTime(noon()))
	all := []*v1alpha1.PodProbeMarker{named, unknown, elsewhere, similar, gone}
	pods := []*corev1.Pod{newPod("b"), newPod("a"),
		newPod("starting", func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }),
		newPod("initialising", func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: "PodInitializing"}
		}),
		newPod("ended", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		newPod("going", func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(noon())) }),
		newPod("unselected", func(p *corev1.Pod) { p.Labels = nil }),
		newPod("c", func(p *corev1.Pod) { p.Namespace = "bank" }),
		newPod("sidecar", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "none", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}}
		})}
	var got []string
	entries, cut := specOf(pods, map[string][]*v1alpha1.PodProbeMarker{"shop": all})
	if len(cut) > 0 {
		t.Errorf("left out: %v", cut)
	}
	for _, entry := range entries {
		text := fmt.Sprintf("%s/%s@%s", entry.Namespace, entry.Name, entry.IP)
		for _, p := range entry.Probes {
			text += fmt.Sprintf(" %s(%s:%s)", p.Name, p.ContainerName, p.Probe.TCPSocket.Port.String())
		}
		got = append(got, text)
	}
	const probes = " roles#leader(db:5432) roles-2#leader(db:80)"
	want := "shop/a@10.0.0.1" + probes + "; shop/b@10.0.0.1" + probes +
		"; shop/sidecar@10.0.0.1 other#leader(none:80)" + probes
	if text := strings.Join(got, "; "); text != want {
		t.Errorf("%s\nwant %s", text, want)
	}
	if named.Spec.Probes[0].Probe.TCPSocket.Port.StrVal != "sql" {
		t.Error("the marker changed")
	}
}

// TestTheYoungestProbesAreLeftOut: the API server would refuse the whole node for a pod with too many probes.
func TestTheYoungestProbesAreLeftOut(t *testing.T) {
	var all []*v1alpha1.PodProbeMarker
	for age := 9; age > 0; age-- {
		m := newMarker(fmt.Sprintf("m%d", age), age, "x")
		for i := range 31 {
			m.Spec.Probes = append(m.Spec.Probes, *m.Spec.Probes[0].DeepCopy())
			m.Spec.Probes[i+1].Name = fmt.Sprintf("p%d", i)
		}
		all = append(all, m)
	}
	entries, cut := specOf([]*corev1.Pod{newPod("a")}, map[string][]*v1alpha1.PodProbeMarker{"shop": all})
	if len(entries) != 1 || len(entries[0].Probes) != mostProbes || fmt.Sprint(cut) != "[shop/m1]" {
		t.Fatalf("%d pods, left out: %v", len(entries), cut)
	}
	if slices.ContainsFunc(entries[0].Probes, func(p v1alpha1.ContainerProbe) bool { return markerOf(p.Name) == "m1" }) {
		t.Error("a younger marker took the place of an older one")
	}
}

func TestFindings(t *testing.T) {
	const leader = "roles#leader"
	node := func(pod string, found results) *v1alpha1.NodePodProbe {
		out := &v1alpha1.NodePodProbe{}
		status := v1alpha1.PodProbeStatus{UID: types.UID(pod)}
		for _, state := range found {
			status.ProbeStates = append(status.ProbeStates, state)
		}
		out.Status.PodProbeStatuses = []v1alpha1.PodProbeStatus{status}
		return out
	}
	full := node("a", nil)
	full.Spec.PodProbes = []v1alpha1.PodProbe{{UID: "a", Probes: make([]v1alpha1.ContainerProbe, mostProbes)}}
	fits := full.DeepCopy()
	fits.Spec.PodProbes[0].Probes[mostProbes-1].Name = leader
	for name, test := range map[string]struct {
		pods    map[string]*v1alpha1.NodePodProbe
		want    string
		refusal string
	}{
		"none": {nil, "NoPod: selector selects no running pod with a container of the probes", ""},
		"all": {map[string]*v1alpha1.NodePodProbe{"a": node("a", result(leader, "Failed", ""))},
			"Probed: pods that are probed: 1", ""},
		"no result": {map[string]*v1alpha1.NodePodProbe{"a": node("b", nil),
			"b": node("b", result(leader, "Succeeded", ""))},
			"AwaitingResults: 1 of 2 pods have results; results of node node-1 are missing: if that lasts, look whether " +
				"flotilla-node runs there", ""},
		"unreachable": {map[string]*v1alpha1.NodePodProbe{"b": node("b", result(leader, "Unknown", "a NetworkPolicy")),
			"a": node("a", result(leader, "Unknown", "refused"))},
			"ProbeUnreachable: probes do not reach pod a, so it keeps its marks: refused", ""},
		"refused": {map[string]*v1alpha1.NodePodProbe{"b": full, "a": full},
			"MarksRefused: a write for pod a is refused, and tried again: not allowed", "not allowed"},
		"too many": {map[string]*v1alpha1.NodePodProbe{"a": full}, "TooManyProbes: pod a has more than 256 probes, so " +
			"some of this PodProbeMarker are left out: remove probes, or older PodProbeMarkers", ""},
		"as many as there may be": {map[string]*v1alpha1.NodePodProbe{"a": fits},
			"AwaitingResults: 0 of 1 pods have results; results of node node-1 are missing: if that lasts, look whether " +
				"flotilla-node runs there", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var f findings
			for pod, object := range test.pods {
				f.add(newMarker("roles", 2, "x"), newPod(pod), object, test.refusal)
			}
			cause, waits := f.cause()
			wants := cause.Reason != reasonNoPod && cause.Reason != reasonProbed
			if stalled := f.stalled(); stalled != nil {
				cause = *stalled
			}
			if got := cause.Reason + ": " + cause.Message; got != test.want || waits != wants {
				t.Errorf("%s, %t; want %s", got, waits, test.want)
			}
		})
	}
}

// TestStatesAreCounted: by probe, in the order of the spec. A probe without a result is Unknown.
func TestStatesAreCounted(t *testing.T) {
	marker := newMarker("roles", 2, "x")
	marker.Spec.Probes = append(marker.Spec.Probes, v1alpha1.PodContainerProbe{Name: "away", ContainerName: "none"})
	var f findings
	for pod, state := range map[string]v1alpha1.ProbeState{"a": "Succeeded", "b": "Failed", "c": "Failed", "d": "Unknown",
		"e": ""} {
		node := &v1alpha1.NodePodProbe{}
		status := v1alpha1.PodProbeStatus{UID: types.UID(pod)}
		if state != "" {
			status.ProbeStates = []v1alpha1.ContainerProbeState{{Name: "roles#leader", State: state, Message: "x"}}
		}
		node.Status.PodProbeStatuses = []v1alpha1.PodProbeStatus{status}
		f.add(marker, newPod(pod), node, "")
	}
	want := []v1alpha1.ProbeCounts{{Name: "leader", Succeeded: 1, Failed: 2, Unknown: 2}, {Name: "away"}}
	if got := f.counts(marker).Probes; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := (&findings{}).counts(marker).Probes; !slices.Equal(got, []v1alpha1.ProbeCounts{{Name: "leader"},
		{Name: "away"}}) {
		t.Errorf("without pods: %+v", got)
	}
}

func TestInvalidKeys(t *testing.T) {
	m := newMarker("roles", 2, "", v1alpha1.ProbeMarkerPolicy{State: "Failed",
		Labels:      map[string]string{"a b": "c", "app": "web", "d": "e", "tier": "x"},
		Annotations: map[string]string{"/": "x", v1alpha1.AnnotationProbeMarks: "y", "Fine/Key": "z"}})
	m.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "DoesNotExist"}}
	if got := strings.Join(invalidKeys(&m.Spec), " "); got != "/ a b app "+v1alpha1.AnnotationProbeMarks+" tier" {
		t.Errorf("%s", got)
	}
}
