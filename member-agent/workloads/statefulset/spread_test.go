package statefulset

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// spreadOver returns a WorkloadSpread of the StatefulSet over subsets written "a=3", or "b" without a limit. An "!"
// closes the subset.
func spreadOver(subsets string) *v1beta1.WorkloadSpread {
	ws := &v1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"},
		Spec: v1beta1.WorkloadSpreadSpec{TargetReference: &v1beta1.TargetReference{
			APIVersion: v1beta1.GroupVersion.String(), Kind: "StatefulSet", Name: "db"}}}
	for text := range strings.FieldsSeq(subsets) {
		text, closed := strings.CutSuffix(text, "!")
		name, limit, limited := strings.Cut(text, "=")
		subset := v1beta1.WorkloadSpreadSubset{Name: name,
			Tolerations: []corev1.Toleration{{Key: "pool", Operator: corev1.TolerationOpEqual, Value: name}}}
		if limited {
			subset.MaxReplicas = new(intstr.Parse(limit))
		}
		ws.Spec.Subsets = append(ws.Spec.Subsets, subset)
		if closed {
			ws.Status.SubsetStatuses = append(ws.Status.SubsetStatuses, v1beta1.WorkloadSpreadSubsetStatus{Name: name,
				Conditions: []metav1.Condition{{Type: v1beta1.WorkloadSpreadSubsetSchedulable, Status: metav1.ConditionFalse}}})
		}
	}
	return ws
}

// subsetsOf returns the ordinals that a plan creates with their subsets: "0:a 1:-".
func subsetsOf(t *testing.T, plan Plan) string {
	t.Helper()
	var out []string
	for _, c := range plan.Create {
		matched := v1beta1.MatchedWorkloadSpread{Subset: "-"}
		template := c.Revision.Template
		if text, ok := template.Annotations[v1beta1.AnnotationMatchedWorkloadSpread]; ok {
			if err := json.Unmarshal([]byte(text), &matched); err != nil {
				t.Fatal(err)
			}
			if len(template.Spec.Tolerations) != 1 || template.Spec.Tolerations[0].Value != matched.Subset {
				t.Errorf("pod %d of subset %s tolerates %v", c.Ordinal, matched.Subset, template.Spec.Tolerations)
			}
		}
		if cost, ok := template.Annotations[corev1.PodDeletionCost]; ok {
			t.Errorf("pod %d has the deletion cost %s", c.Ordinal, cost)
		}
		out = append(out, fmt.Sprintf("%d:%s", c.Ordinal, matched.Subset))
	}
	return strings.Join(out, " ")
}

// TestNewPodsGetSubsetsByTheirPosition: the positions count the ordinals of the StatefulSet, not the pods.
func TestNewPodsGetSubsetsByTheirPosition(t *testing.T) {
	for _, tt := range []struct {
		why      string
		spread   string
		replicas int32
		changes  []change
		have     string
		want     string
	}{
		{"no WorkloadSpread", "", 2, nil, "--", "0:- 1:-"},
		{"in the order of the subsets", "a=2 b=1 c", 5, nil, "-----", "0:a 1:a 2:b 3:c 4:c"},
		{"above the sum of the limits", "a=1 b=1", 4, nil, "----", "0:a 1:b 2:- 3:-"},
		{"whatever pods there are", "a=2 b", 4, nil, "-u-u", "0:a 2:b"},
		{"from start", "a=2 b", 4, []change{start(5)}, "", "5:a 6:a 7:b 8:b"},
		{"without reserved ordinals", "a=2 b", 4,
			[]change{reserve(intstr.FromInt32(1), intstr.FromString("3-5"))}, "", "0:a 2:a 6:b 7:b"},
		{"a closed subset is left out", "a=2! b=2 c", 4, nil, "----", "0:b 1:b 2:c 3:c"},
		{"all revisions alike", "a=2 b", 4, []change{partition(1)}, "----", "0:a 1:a 2:b 3:b"},
		{"a limit of 0", "a=0 b", 1, nil, "-", "0:b"},
	} {
		t.Run(tt.why, func(t *testing.T) {
			w := newWorld(t, tt.replicas, append(tt.changes, parallel)...).have(tt.have)
			if tt.spread != "" {
				w.spread = spreadOver(tt.spread)
			}
			if got := subsetsOf(t, w.plan()); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func TestPodsThatTheFilterLeavesOutGetNoSubset(t *testing.T) {
	w := newWorld(t, 1).have("-")
	w.spread = spreadOver("a")
	w.spread.Spec.TargetFilter = &v1beta1.TargetFilter{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}}}
	if got := subsetsOf(t, w.plan()); got != "0:-" {
		t.Error(got)
	}
}

// TestAPatchThatLosesThePodIsLeftOut: the StatefulSet would create pods without end.
func TestAPatchThatLosesThePodIsLeftOut(t *testing.T) {
	w := newWorld(t, 1).have("-")
	w.spread = spreadOver("a")
	w.spread.Spec.Subsets[0].Patch = runtime.RawExtension{Raw: []byte(`{"metadata":{"labels":{"app":"other"}}}`)}
	plan := w.plan()
	if got := subsetsOf(t, plan); got != "0:-" || plan.Create[0].Revision.Template.Labels["app"] != "db" {
		t.Errorf("%s, labels %v", got, plan.Create[0].Revision.Template.Labels)
	}
}

// TestSpreadsChangeNoRevision: what a subset adds is on the pods, and neither in revisions nor in the template.
func TestSpreadsChangeNoRevision(t *testing.T) {
	w := newWorld(t, 4, parallel).have("oo--")
	template, revisions := w.set.Spec.Template.DeepCopy(), len(w.revisions)
	w.spread = spreadOver("a=3 b")
	w.settle(nil)
	if diff := cmp.Diff(template, &w.set.Spec.Template); diff != "" || len(w.revisions) != revisions {
		t.Errorf("%d revisions, want %d: %s", len(w.revisions), revisions, diff)
	}
	var got []string
	for i := range 4 {
		got = append(got, w.pod(i).Spec.Tolerations[0].Value)
	}
	if text := strings.Join(got, " "); text != "a a a b" {
		t.Errorf("%s after the update", text)
	}
}
