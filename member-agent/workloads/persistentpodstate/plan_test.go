package persistentpodstate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/topology/ordinals"
)

// on returns a pod, ready on the node; without a node it is unschedulable.
func on(name, node string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"ip": "1", "other": "2"}},
		Spec:   corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	if node == "" {
		pod.Status.Phase = corev1.PodPending
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Reason: corev1.PodReasonUnschedulable}}
	} else {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func notReady(pod *corev1.Pod) { pod.Status.Conditions = nil }
func injected(pod *corev1.Pod) {
	pod.Annotations[v1beta1.AnnotationInjectedPersistentPodState] = "db"
}

// got says which labels the pod got.
func got(keys string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Annotations[v1beta1.AnnotationPersistentNodeLabels] = keys }
}

func noon() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

// absent are facts by which no node has had the labels of db-0 for so long.
func absent(since time.Duration) map[string]time.Time {
	return map[string]time.Time{"db-0": noon().Add(-since)}
}

// written returns the plan as text: records as pod@node{labels}[annotations], then what is missing and released.
func written(p Plan) string {
	var out []string
	pairs := func(m map[string]string) string {
		var list []string
		for _, key := range slices.Sorted(maps.Keys(m)) {
			list = append(list, key+"="+m[key])
		}
		return strings.Join(list, ",")
	}
	for _, name := range slices.Sorted(maps.Keys(p.States)) {
		state := p.States[name]
		out = append(out, fmt.Sprintf("%s@%s{%s}[%s]", name, state.NodeName, pairs(state.NodeTopologyLabels),
			pairs(state.Annotations)))
	}
	for _, missing := range p.Missing {
		out = append(out, "missing "+missing.Pod)
	}
	for _, since := range p.Absent {
		out = append(out, fmt.Sprintf("absent %s wait %s", noon().Sub(since), p.Wait))
	}
	for _, pod := range p.Release {
		out = append(out, "release "+pod.Name)
	}
	for _, name := range p.TooLarge {
		out = append(out, "large "+name)
	}
	return strings.Join(out, " ")
}

func TestCompute(t *testing.T) {
	nodes := map[string]map[string]string{"n1": {"zone": "a", "host": "n1", "x": "y"}, "n2": {"zone": "b", "host": "n2"}}
	known := func(names ...string) map[string]v1beta1.PodState {
		out := map[string]v1beta1.PodState{}
		for _, name := range names {
			out[name] = v1beta1.PodState{NodeName: "n1", NodeTopologyLabels: map[string]string{"zone": "a", "host": "n1"},
				Annotations: map[string]string{"ip": "1"}}
		}
		return out
	}
	lost := map[string]v1beta1.PodState{"db-0": {NodeName: "n9",
		NodeTopologyLabels: map[string]string{"zone": "z", "host": "n9"},
		Annotations:        map[string]string{"ip": "1"}}}
	const r0 = "db-0@n1{host=n1,zone=a}[ip=1]"
	for name, test := range map[string]struct {
		change func(*v1beta1.PersistentPodState)
		states map[string]v1beta1.PodState
		facts  Facts
		want   string
	}{
		"ready pods are recorded": {facts: Facts{Pods: []*corev1.Pod{on("db-0", "n1"), on("db-1", "n2", notReady)}},
			want: r0},
		"a pod without its node": {facts: Facts{Pods: []*corev1.Pod{on("db-0", "n7")}}},
		"a record stays":         {states: known("db-0"), want: r0},
		"also of a pending pod":  {states: known("db-0"), facts: Facts{Pods: []*corev1.Pod{on("db-0", "")}}, want: r0},
		"a pod moved": {states: known("db-0"), facts: Facts{Pods: []*corev1.Pod{on("db-0", "n2")}},
			want: "db-0@n2{host=n2,zone=b}[ip=1]"},
		"scaled in": {states: known("db-0", "db-3"), want: r0},
		"scaled in, pod still there": {states: known("db-3"), facts: Facts{Pods: []*corev1.Pod{on("db-3", "n1", notReady)}},
			want: strings.Replace(r0, "db-0", "db-3", 1)},
		"kept until deleted": {states: known("db-3"), want: strings.Replace(r0, "db-0", "db-3", 1),
			change: func(s *v1beta1.PersistentPodState) {
				s.Spec.PersistentPodStateRetentionPolicy = v1beta1.PersistentPodStateWhenDeleted
			}},
		"the workload is gone": {states: known("db-0"), facts: Facts{Gone: true}},
		"no such node: waits": {states: lost, facts: Facts{Pods: []*corev1.Pod{on("db-0", "")}},
			want: "db-0@n9{host=n9,zone=z}[ip=1] missing db-0"},
		"no such node: released, but not at once": {states: lost, change: release,
			facts: Facts{Pods: []*corev1.Pod{on("db-0", "", injected)}},
			want:  "db-0@n9{host=n9,zone=z}[ip=1] missing db-0 absent 0s wait 5m0s"},
		"no such node: not yet": {states: lost, change: release, facts: Facts{Absent: absent(4 * time.Minute)},
			want: "db-0@n9{host=n9,zone=z}[ip=1] missing db-0 absent 4m0s wait 1m0s"},
		"the node is back": {states: known("db-0"), change: release, facts: Facts{Absent: absent(4 * time.Minute)}, want: r0},
		"no such node: released": {states: lost, change: release,
			facts: Facts{Pods: []*corev1.Pod{on("db-0", "", injected)}, Absent: absent(ReleaseAfter)},
			want:  "db-0@n9{host=n9}[ip=1]"},
		"released before, the pod got the label": {states: map[string]v1beta1.PodState{"db-0": {NodeName: "n9"}},
			facts:  Facts{Pods: []*corev1.Pod{on("db-0", "", injected, got("absent,zone"))}},
			change: release, want: "db-0@n9{}[] release db-0"},
		"the label is of the template": {states: map[string]v1beta1.PodState{"db-0": {NodeName: "n9"}},
			facts: Facts{Pods: []*corev1.Pod{on("db-0", "", injected, got(""))}}, change: release, want: "db-0@n9{}[]"},
		"released before, the pod may have the labels": {states: map[string]v1beta1.PodState{"db-0": {NodeName: "n9"}},
			facts: Facts{Pods: []*corev1.Pod{on("db-0", "", injected)}}, change: release, want: "db-0@n9{}[] release db-0"},
		"released before, another pod": {states: map[string]v1beta1.PodState{"db-0": {NodeName: "n9"}},
			facts: Facts{Pods: []*corev1.Pod{on("db-0", "")}}, change: release, want: "db-0@n9{}[]"},
		"still running on a node that is gone": {states: lost, facts: Facts{Pods: []*corev1.Pod{on("db-0", "n9")}},
			change: release,
			want:   "db-0@n9{host=n9,zone=z}[ip=1]"},
		"too large": {facts: Facts{Pods: []*corev1.Pod{on("db-0", "n1"), on("db-1", "n2", func(pod *corev1.Pod) {
			pod.Annotations["ip"] = strings.Repeat("x", mostAnnotations)
		})}}, want: r0 + " db-1@n2{host=n2,zone=b}[] large db-1"},
	} {
		t.Run(name, func(t *testing.T) {
			state := &v1beta1.PersistentPodState{ObjectMeta: metav1.ObjectMeta{Name: "db"}}
			state.Spec.RequiredPersistentTopology = &v1beta1.NodeTopologyTerm{Keys: []v1beta1.TopologyKey{"zone", "absent"}}
			state.Spec.PreferredPersistentTopology = []v1beta1.PreferredTopologyTerm{
				{Weight: 1, Preference: v1beta1.NodeTopologyTerm{Keys: []v1beta1.TopologyKey{"host"}}}}
			state.Spec.PersistentPodAnnotations = []v1beta1.PersistentPodAnnotation{{Key: "ip"}, {Key: "none"}}
			state.Status.PodStates = test.states
			if test.change != nil {
				test.change(state)
			}
			before := state.DeepCopy()
			f := test.facts
			f.State, f.Nodes, f.Now = state, nodes, noon()
			f.Ordinals, _ = ordinals.NewSet(0, 2, nil)
			if got := written(Compute(f)); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
			if !equality.Semantic.DeepEqual(before, state) {
				t.Error("the plan changed what it was made from")
			}
		})
	}
}

func release(s *v1beta1.PersistentPodState) {
	s.Spec.Flotilla = &v1beta1.PersistentPodStateFlotilla{MissingNodes: v1beta1.MissingNodesRelease}
}

// TestOrdinals: the first ordinal and reserved ones count.
func TestOrdinals(t *testing.T) {
	set, err := ordinals.NewSet(5, 2, []intstr.IntOrString{intstr.FromInt32(6)})
	if err != nil {
		t.Fatal(err)
	}
	f := Facts{State: &v1beta1.PersistentPodState{}, Ordinals: set}
	for name, want := range map[string]bool{"db-0": false, "db-5": true, "db-6": false, "db-7": true, "db-8": false,
		"db-x": true} {
		if f.keeps(name, nil) != want {
			t.Errorf("%s: %t, want %t", name, !want, want)
		}
	}
}

func TestGenerated(t *testing.T) {
	kind := appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "u"}}
	if Generated(set, kind) != nil {
		t.Error("without annotations")
	}
	set.Annotations = map[string]string{v1beta1.AnnotationAutoPersistentPodState: "true"}
	if Generated(set, kind) != nil {
		t.Error("without keys")
	}
	set.Annotations[v1beta1.AnnotationPersistentAnnotations] = "a, b,"
	set.Annotations[v1beta1.AnnotationPreferredTopology] = "host,zone"
	got := Generated(set, kind)
	if got == nil || got.Name != "db" || !metav1.IsControlledBy(got, set) || got.Spec.RequiredPersistentTopology != nil ||
		fmt.Sprint(got.Spec.PersistentPodAnnotations) != "[{a} {b}]" ||
		fmt.Sprint(got.Spec.PreferredPersistentTopology) != "[{100 {[host zone]}}]" {
		t.Errorf("%+v", got)
	}
}
