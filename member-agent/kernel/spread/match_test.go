package spread_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
)

func node(name string, labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func TestMatch(t *testing.T) {
	pools := func() *v1beta1.WorkloadSpread {
		ws := spreadOf("CloneSet", "1", "2", "")
		ws.Spec.Subsets[0].RequiredNodeSelector = new(term(in("pool", "reserved")))
		ws.Spec.Subsets[1].RequiredNodeSelector = new(term(in("pool", "spot", "reserved")))
		ws.Spec.Subsets[2].RequiredNodeSelector = new(term(in("pool", "spot", "other")))
		return ws
	}
	with := func(ws *v1beta1.WorkloadSpread, change func(subsets []v1beta1.WorkloadSpreadSubset)) *v1beta1.WorkloadSpread {
		change(ws.Spec.Subsets)
		return ws
	}
	for _, tt := range []struct {
		name   string
		ws     *v1beta1.WorkloadSpread
		node   *corev1.Node
		counts map[string]int32
		want   string
	}{
		{"no node", pools(), nil, nil, ""},
		{"no subset is for the node", pools(), node("n", map[string]string{"pool": "none"}), nil, ""},
		{"the first of those that match", pools(), node("n", map[string]string{"pool": "reserved"}), nil, "a"},
		{"one with room before one without", pools(), node("n", map[string]string{"pool": "reserved"}),
			map[string]int32{"a": 1}, "b"},
		{"all are full: the first", pools(), node("n", map[string]string{"pool": "reserved"}),
			map[string]int32{"a": 9, "b": 9}, "a"},
		{"preferred terms before room", with(pools(), func(s []v1beta1.WorkloadSpreadSubset) {
			s[0].PreferredNodeSelector = []corev1.PreferredSchedulingTerm{prefers(1, "zone", "z1")}
		}), node("n", map[string]string{"pool": "reserved", "zone": "z1"}), map[string]int32{"a": 9}, "a"},
		{"the greater sum of weights", with(pools(), func(s []v1beta1.WorkloadSpreadSubset) {
			s[0].PreferredNodeSelector = []corev1.PreferredSchedulingTerm{prefers(1, "zone", "z1"), prefers(9, "zone", "z2")}
			s[1].PreferredNodeSelector = []corev1.PreferredSchedulingTerm{prefers(2, "zone", "z1")}
		}), node("n", map[string]string{"pool": "reserved", "zone": "z1"}), nil, "b"},
		{"the metadata of the patch before room", with(pools(), func(s []v1beta1.WorkloadSpreadSubset) {
			s[0].Patch = patch(`{"metadata":{"labels":{"app":"web"}}}`)
			s[1].Patch = patch(`{"metadata":{"labels":{"app":"other"}}}`)
		}), node("n", map[string]string{"pool": "reserved"}), map[string]int32{"a": 9}, "a"},
		{"a field of the node", with(pools(), func(s []v1beta1.WorkloadSpreadSubset) {
			s[0].RequiredNodeSelector = &corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{in("metadata.name", "n7")}}
		}), node("n7", nil), nil, "a"},
		{"an empty term asks for nothing", with(pools(),
			func(s []v1beta1.WorkloadSpreadSubset) { s[2].RequiredNodeSelector = &corev1.NodeSelectorTerm{} }),
			node("n", nil), nil, "c"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := resolve(t, tt.ws, 10).Match(webPod(), tt.node, tt.ws, tt.counts)
			if got != tt.want || ok != (tt.want != "") {
				t.Errorf("%q, %v; want %q", got, ok, tt.want)
			}
		})
	}
}

func TestSelects(t *testing.T) {
	ws := spreadOf("CloneSet", "")
	if !resolve(t, ws, 1).Selects(webPod()) {
		t.Error("without a filter the pod is not selected")
	}
	ws.Spec.TargetFilter = &v1beta1.TargetFilter{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": "worker"}}}
	pod := webPod()
	if resolve(t, ws, 1).Selects(pod) {
		t.Error("a pod without the label is selected")
	}
	pod.Labels["role"] = "worker"
	if !resolve(t, ws, 1).Selects(pod) {
		t.Error("a pod with the label is not selected")
	}
}

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		name   string
		kind   string
		change func(*v1beta1.WorkloadSpread)
		want   string
	}{
		{"all is well", "CloneSet", func(*v1beta1.WorkloadSpread) {}, ""},
		{"no target", "CloneSet", func(ws *v1beta1.WorkloadSpread) { ws.Spec.TargetReference = nil },
			"targetRef names no workload"},
		{"an apiVersion that is none", "CloneSet", func(ws *v1beta1.WorkloadSpread) { ws.Spec.TargetReference.APIVersion = "a/b/c" }, "targetRef names no workload"},
		{"no subset", "CloneSet", func(ws *v1beta1.WorkloadSpread) { ws.Spec.Subsets = nil }, "subsets is empty"},
		{"one name twice", "CloneSet", func(ws *v1beta1.WorkloadSpread) { ws.Spec.Subsets[1].Name = "a" },
			`subsets[1].name is "a"`},
		{"numbers and percentages", "CloneSet", func(ws *v1beta1.WorkloadSpread) { ws.Spec.Subsets[1].MaxReplicas = new(intstr.FromString("5%")) },
			"an integer for a and a percentage for b"},
		{"percentages of a StatefulSet", "StatefulSet", func(ws *v1beta1.WorkloadSpread) { ws.Spec.Subsets[0].MaxReplicas = new(intstr.FromString("5%")) }, "give integers"},
		{"a cap that is none", "CloneSet", func(ws *v1beta1.WorkloadSpread) { ws.Spec.Subsets[0].MaxReplicas = new(intstr.FromString("many")) }, `maxReplicas: "many"`},
		{"a negative cap", "CloneSet", func(ws *v1beta1.WorkloadSpread) { ws.Spec.Subsets[0].MaxReplicas = new(intstr.FromInt32(-1)) }, "-1 is negative"},
		{"a selector of pods", "CloneSet", func(ws *v1beta1.WorkloadSpread) {
			ws.Spec.TargetFilter = &v1beta1.TargetFilter{Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Like"}}}}
		}, "targetFilter.selector cannot be used"},
		{"a selector of nodes", "CloneSet", func(ws *v1beta1.WorkloadSpread) {
			ws.Spec.Subsets[0].RequiredNodeSelector = new(term(corev1.NodeSelectorRequirement{Key: "k", Operator: "Like"}))
		}, "subset a: requiredNodeSelector cannot be used"},
		{"a preferred term", "CloneSet", func(ws *v1beta1.WorkloadSpread) {
			ws.Spec.Subsets[0].PreferredNodeSelector = []corev1.PreferredSchedulingTerm{prefers(1, "not a label!", "v")}
		}, "preferredNodeSelector cannot be used"},
		{"a weight", "CloneSet", func(ws *v1beta1.WorkloadSpread) {
			ws.Spec.Subsets[0].PreferredNodeSelector = []corev1.PreferredSchedulingTerm{prefers(101, "k", "v")}
		}, "preferredNodeSelector[0].weight is 101"},
		{"a toleration without a key", "CloneSet", tolerates(corev1.Toleration{Value: "v"}), "has no key"},
		{"a toleration of Exists with a value", "CloneSet",
			tolerates(corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists, Value: "v"}), "allows no value"},
		{"seconds of NoSchedule", "CloneSet", tolerates(corev1.Toleration{Key: "k", Effect: corev1.TaintEffectNoSchedule,
			TolerationSeconds: new(int64(1))}), "for the effect NoExecute alone"},
		{"an effect that is none", "CloneSet", tolerates(corev1.Toleration{Key: "k", Effect: "Never"}), `.effect is "Never"`},
		{"a key that is none", "CloneSet", tolerates(corev1.Toleration{Key: "no key"}), `tolerations[0].key is "no key"`},
		{"everything is tolerated", "CloneSet", tolerates(corev1.Toleration{Operator: corev1.TolerationOpExists}), ""},
		{"a patch that is no object", "CloneSet", patches(`[]`), "patch is no object"},
		{"a patch that is no pod", "CloneSet", patches(`{"spec":{"containers":{"name":"main"}}}`),
			"patch is no part of a pod"},
		{"a field of another type", "CloneSet", patches(`{"spec":{"hostNetwork":"yes"}}`), "patch is no part of a pod"},
		{"a patch that deletes pods", "CloneSet", patches(`{"metadata":{"labels":{"apps.kruise.io/specified-delete":"true"}}}`), "remove it"},
		{"a patch that removes a container", "CloneSet",
			patches(`{"spec":{"containers":[{"name":"side","$patch":"delete"}]}}`), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ws := spreadOf(tt.kind, "1", "")
			tt.change(ws)
			err := spread.Validate(ws)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if _, resolveErr := spread.Resolve(ws, 3); (resolveErr == nil) != (err == nil) {
				t.Errorf("Validate says %v, and Resolve %v", err, resolveErr)
			}
		})
	}
}

func tolerates(toleration corev1.Toleration) func(*v1beta1.WorkloadSpread) {
	return func(ws *v1beta1.WorkloadSpread) { ws.Spec.Subsets[0].Tolerations = []corev1.Toleration{toleration} }
}

func patches(text string) func(*v1beta1.WorkloadSpread) {
	return func(ws *v1beta1.WorkloadSpread) { ws.Spec.Subsets[0].Patch = patch(text) }
}
