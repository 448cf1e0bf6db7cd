package spread_test

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
)

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 41)) }

func in(key string, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

func term(expressions ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: expressions}
}

func prefers(weight int32, key, value string) corev1.PreferredSchedulingTerm {
	return corev1.PreferredSchedulingTerm{Weight: weight, Preference: term(in(key, value))}
}

func patch(text string) runtime.RawExtension { return runtime.RawExtension{Raw: []byte(text)} }

// spot returns a WorkloadSpread whose first subset has everything.
func spot(kind string) *v1beta1.WorkloadSpread {
	ws := spreadOf(kind, "3", "")
	ws.Spec.Subsets[0] = v1beta1.WorkloadSpreadSubset{
		Name: "a", MaxReplicas: new(intstr.FromInt32(3)),
		RequiredNodeSelector: &corev1.NodeSelectorTerm{
			MatchExpressions: []corev1.NodeSelectorRequirement{in("pool", "spot")},
			MatchFields:      []corev1.NodeSelectorRequirement{in("metadata.name", "n1")},
		},
		PreferredNodeSelector: []corev1.PreferredSchedulingTerm{prefers(7, "zone", "z1")},
		Tolerations:           []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}},
		Patch: patch(`{"metadata":{"labels":{"subset":"a"},"annotations":{"cost":"low"}},
			"spec":{"containers":[{"name":"main","resources":{"limits":{"cpu":"500m"}}}]}}`),
	}
	return ws
}

func webPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-x", Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "side", Image: "side:1"},
			{Name: "main", Image: "app:1"}}},
	}
}

func stamp(t *testing.T, pod *corev1.Pod, ws *v1beta1.WorkloadSpread, subset string) {
	t.Helper()
	if err := spread.Stamp(pod, ws, subset, labels.SelectorFromSet(labels.Set{"app": "web"})); err != nil {
		t.Fatal(err)
	}
}

func TestStamp(t *testing.T) {
	pod := webPod()
	stamp(t, pod, spot("CloneSet"), "a")
	want := map[string]string{"cost": "low", corev1.PodDeletionCost: "200",
		v1beta1.AnnotationMatchedWorkloadSpread: `{"name":"ws","subset":"a"}`}
	if diff := cmp.Diff(want, pod.Annotations); diff != "" {
		t.Errorf("annotations: %s", diff)
	}
	if diff := cmp.Diff(map[string]string{"app": "web", "subset": "a"}, pod.Labels); diff != "" {
		t.Errorf("labels: %s", diff)
	}
	node := pod.Spec.Affinity.NodeAffinity
	if diff := cmp.Diff([]corev1.NodeSelectorTerm{*spot("CloneSet").Spec.Subsets[0].RequiredNodeSelector},
		node.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms); diff != "" {
		t.Errorf("required: %s", diff)
	}
	if diff := cmp.Diff([]corev1.PreferredSchedulingTerm{prefers(7, "zone", "z1")},
		node.PreferredDuringSchedulingIgnoredDuringExecution); diff != "" {
		t.Errorf("preferred: %s", diff)
	}
	if len(pod.Spec.Tolerations) != 1 || pod.Spec.Tolerations[0].Key != "spot" {
		t.Errorf("tolerations: %v", pod.Spec.Tolerations)
	}
	for _, c := range pod.Spec.Containers {
		if limit, ok := c.Resources.Limits[corev1.ResourceCPU]; ok != (c.Name == "main") || ok && limit.String() != "500m" {
			t.Errorf("container %s has the limits %v", c.Name, c.Resources.Limits)
		}
	}
}

func TestStampAddsToEachTermOfTheUser(t *testing.T) {
	pod := webPod()
	pod.Spec.Tolerations = []corev1.Toleration{{Key: "mine", Operator: corev1.TolerationOpExists}}
	pod.Spec.Affinity = &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				term(in("arch", "amd64")), {}, {MatchFields: []corev1.NodeSelectorRequirement{in("metadata.name", "n2")}}}},
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{prefers(1, "disk", "ssd")},
		},
		PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "kubernetes.io/hostname"}}},
	}
	stamp(t, pod, spot("CloneSet"), "a")
	want := []corev1.NodeSelectorTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{in("arch", "amd64"), in("pool", "spot")},
			MatchFields: []corev1.NodeSelectorRequirement{in("metadata.name", "n1")}},
		{}, // no node matches it, and none is to
		{MatchExpressions: []corev1.NodeSelectorRequirement{in("pool", "spot")},
			MatchFields: []corev1.NodeSelectorRequirement{in("metadata.name", "n2"), in("metadata.name", "n1")}},
	}
	node := pod.Spec.Affinity.NodeAffinity
	if diff := cmp.Diff(want, node.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms); diff != "" {
		t.Errorf("required: %s", diff)
	}
	if got := node.PreferredDuringSchedulingIgnoredDuringExecution; len(got) != 2 || got[0].Weight != 1 ||
		got[1].Weight != 7 {
		t.Errorf("preferred: %v", got)
	}
	if len(pod.Spec.Tolerations) != 2 || pod.Spec.Affinity.PodAntiAffinity == nil {
		t.Errorf("tolerations %v, affinity %v", pod.Spec.Tolerations, pod.Spec.Affinity)
	}
}

func TestStampOfAnEmptySubset(t *testing.T) {
	ws := spreadOf("CloneSet", "1", "")
	ws.Spec.Subsets[0].RequiredNodeSelector = &corev1.NodeSelectorTerm{} // no node matches an empty term
	pod, want := webPod(), webPod()
	stamp(t, pod, ws, "a")
	want.Annotations = map[string]string{corev1.PodDeletionCost: "200",
		v1beta1.AnnotationMatchedWorkloadSpread: `{"name":"ws","subset":"a"}`}
	if diff := cmp.Diff(want, pod); diff != "" {
		t.Error(diff)
	}
}

func TestStampOfNoSubset(t *testing.T) {
	for kind, want := range map[string]map[string]string{"CloneSet": {corev1.PodDeletionCost: "-300"}, "StatefulSet": nil,
		"Job": nil} {
		pod := webPod()
		stamp(t, pod, spot(kind), "")
		if !maps.Equal(pod.Annotations, want) || pod.Spec.Affinity != nil || pod.Spec.Tolerations != nil {
			t.Errorf("%s: annotations %v", kind, pod.Annotations)
		}
	}
	copied := webPod() // from a pod of the subset, together with its annotations
	copied.Annotations = map[string]string{
		v1beta1.AnnotationMatchedWorkloadSpread: spread.Annotation(spot("Job"), "a"), "mine": "kept"}
	stamp(t, copied, spot("Job"), "")
	if !maps.Equal(copied.Annotations, map[string]string{"mine": "kept"}) {
		t.Errorf("annotations %v", copied.Annotations)
	}
	pod := webPod()
	stamp(t, pod, spot("Job"), "a")
	if cost, ok := pod.Annotations[corev1.PodDeletionCost]; ok {
		t.Errorf("the pod of a Job has the cost %s", cost)
	}
}

func TestStampKeepsWhoThePodIs(t *testing.T) {
	ws := spreadOf("CloneSet", "")
	ws.Spec.Subsets[0].Patch = patch(`{"metadata":{"name":"other","namespace":"kube-system","ownerReferences":[{"name":"x","uid":"y"}]},"status":{"phase":"Running"}}`)
	pod := webPod()
	stamp(t, pod, ws, "a")
	if pod.Name != "web-x" || pod.Namespace != "shop" || pod.OwnerReferences != nil || pod.Status.Phase != "" {
		t.Errorf("the pod is %s/%s of %v, %s", pod.Namespace, pod.Name, pod.OwnerReferences, pod.Status.Phase)
	}
}

func TestStampRefuses(t *testing.T) {
	selector := labels.SelectorFromSet(labels.Set{"app": "web"})
	for _, tt := range []struct {
		name, patch, subset string
		selector            labels.Selector
		want                string
	}{
		{"a label of the selector", `{"metadata":{"labels":{"app":"other"}}}`, "a", selector, "take them out of the patch"},
		{"a label of the selector that is removed", `{"metadata":{"labels":{"app":null}}}`, "a", selector,
			"take them out of the patch"},
		{"any label, where no selector is known", `{"metadata":{"labels":{"app":"other"}}}`, "a", nil,
			"label app of the pod"},
		{"a patch that is no pod", `{"spec":{"containers":"none"}}`, "a", selector, "merge the patch of subset a"},
		{"a subset that is not there", `{}`, "z", selector, `no subset "z"`},
	} {
		ws := spreadOf("CloneSet", "1", "")
		ws.Spec.Subsets[0].Patch = patch(tt.patch)
		pod := webPod()
		if err := spread.Stamp(pod, ws, tt.subset, tt.selector); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if !reflect.DeepEqual(pod, webPod()) {
			t.Errorf("%s: the pod was changed", tt.name)
		}
	}
}

// randomSpread returns a valid WorkloadSpread.
func randomSpread(r *rand.Rand) *v1beta1.WorkloadSpread {
	kinds := []string{"CloneSet", "Deployment", "Job"}
	percent, n := r.IntN(2) == 0, 1+r.IntN(4)
	caps := make([]string, n)
	for i := range caps {
		switch {
		case r.IntN(4) == 0:
		case percent:
			caps[i] = []string{"0%", "10%", "33%", "50%", "100%"}[r.IntN(5)]
		default:
			caps[i] = []string{"0", "1", "2", "5", "9"}[r.IntN(5)]
		}
	}
	ws := spreadOf(kinds[r.IntN(3)], caps...)
	for i := range ws.Spec.Subsets {
		s := &ws.Spec.Subsets[i]
		if r.IntN(2) == 0 {
			s.RequiredNodeSelector = &corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{in("pool",
				s.Name), in("arch", "amd64")}[:1+r.IntN(2)]}
		}
		if r.IntN(2) == 0 {
			s.PreferredNodeSelector = []corev1.PreferredSchedulingTerm{prefers(1+r.Int32N(100), "zone", "z1"),
				prefers(5, "disk", "ssd")}[:1+r.IntN(2)]
		}
		if r.IntN(2) == 0 {
			s.Tolerations = []corev1.Toleration{{Key: s.Name, Operator: corev1.TolerationOpExists},
				{Key: "x", Value: "y", Effect: corev1.TaintEffectNoSchedule}}
		}
		if r.IntN(2) == 0 {
			s.Patch = patch([]string{
				`{"metadata":{"labels":{"subset":"` + s.Name + `"}}}`,
				`{"metadata":{"annotations":{"a":"b"},"finalizers":["x.io/f"]}}`,
				`{"spec":{"containers":[{"name":"main","env":[{"name":"WHERE","value":"there"}]}]}}`,
				`{"spec":{"tolerations":[{"key":"patched","operator":"Exists"}],"priorityClassName":"low"}}`,
				`{"spec":{"containers":[{"name":"side","$patch":"delete"}]}}`,
				`{"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"k","operator":"Exists"}]}]}}}}}`,
			}[r.IntN(6)])
		}
		if r.IntN(5) == 0 {
			closed(ws, s.Name)
		}
	}
	return ws
}

// TestStampTwiceIsStampOnce, and no term of the user's is lost or widened, whatever the pod and the subset.
func TestStampTwiceIsStampOnce(t *testing.T) {
	for seed := range uint64(400) {
		r := random(seed)
		ws := randomSpread(r)
		pod := webPod()
		if r.IntN(2) == 0 {
			pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{term(in("arch", "amd64")), term(in("own", "x"))}}}}
			pod.Spec.Tolerations = []corev1.Toleration{{Key: "x", Value: "y", Effect: corev1.TaintEffectNoSchedule}}
		}
		subset := ws.Spec.Subsets[r.IntN(len(ws.Spec.Subsets))].Name
		before := ws.DeepCopy()
		once := pod.DeepCopy()
		stamp(t, once, ws, subset)
		twice := once.DeepCopy()
		stamp(t, twice, ws, subset)
		if diff := cmp.Diff(once, twice); diff != "" {
			t.Fatalf("seed %d: the second time changes something: %s", seed, diff)
		}
		if !reflect.DeepEqual(ws, before) {
			t.Fatalf("seed %d: the WorkloadSpread was changed", seed)
		}
		i := slices.IndexFunc(ws.Spec.Subsets, func(s v1beta1.WorkloadSpreadSubset) bool { return s.Name == subset })
		if pod.Spec.Affinity == nil || strings.Contains(string(ws.Spec.Subsets[i].Patch.Raw), "affinity") {
			continue
		}
		had := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		have := once.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		if len(have) != len(had) {
			t.Fatalf("seed %d: %d terms, had %d", seed, len(have), len(had))
		}
		for i := range had {
			for _, requirement := range had[i].MatchExpressions {
				if !slices.ContainsFunc(have[i].MatchExpressions,
					func(q corev1.NodeSelectorRequirement) bool { return reflect.DeepEqual(q, requirement) }) {
					t.Fatalf("seed %d: term %d lost %v", seed, i, requirement)
				}
			}
		}
	}
}

func TestMetadataOfOlderPods(t *testing.T) {
	ws, selector := spot("CloneSet"), labels.SelectorFromSet(labels.Set{"app": "web"})
	pod := webPod()
	pod.Annotations = map[string]string{"mine": "1"}
	lacks, annotations, err := spread.Metadata(pod, ws, "a", selector)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"subset": "a"}, lacks); diff != "" {
		t.Errorf("labels: %s", diff)
	}
	if diff := cmp.Diff(map[string]string{"cost": "low",
		v1beta1.AnnotationMatchedWorkloadSpread: spread.Annotation(ws, "a")}, annotations); diff != "" {
		t.Errorf("annotations: %s", diff)
	}
	maps.Copy(pod.Labels, lacks)
	maps.Copy(pod.Annotations, annotations)
	if lacks, annotations, err = spread.Metadata(pod, ws, "a", selector); err != nil || len(lacks)+len(annotations) > 0 {
		t.Errorf("a pod that has all lacks %v and %v: %v", lacks, annotations, err)
	}
	ws.Annotations = map[string]string{v1beta1.AnnotationIgnorePatchExistingPods: "true"}
	if lacks, annotations, err = spread.Metadata(webPod(), ws, "a", selector); err != nil || len(lacks) > 0 ||
		len(annotations) != 1 {
		t.Errorf("patches are not wanted, but it lacks %v and %v: %v", lacks, annotations, err)
	}
	ws.Annotations, ws.Spec.Subsets[0].Patch = nil, patch(`{"metadata":{"labels":{"app":"other"}}}`)
	if _, _, err := spread.Metadata(webPod(), ws, "a", selector); err == nil {
		t.Error("a patch that takes the pod from its workload is no error")
	}
}
