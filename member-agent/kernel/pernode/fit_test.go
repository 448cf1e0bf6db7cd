package pernode_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/pernode"
)

func TestFit(t *testing.T) {
	required := func(operator corev1.NodeSelectorOperator) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: operator, Values: []string{"a"}}}}}}}}
	}
	taints := func(all ...corev1.Taint) []corev1.Taint { return all }
	for name, tt := range map[string]struct {
		spec   corev1.PodSpec
		taints []corev1.Taint
		want   pernode.Fitness
		wrong  bool
	}{
		"any node":     {want: pernode.Fits},
		"its name":     {spec: corev1.PodSpec{NodeName: "n"}, want: pernode.Fits},
		"another name": {spec: corev1.PodSpec{NodeName: "m"}, want: pernode.Unmatched},
		"its labels":   {spec: corev1.PodSpec{NodeSelector: map[string]string{"zone": "a"}}, want: pernode.Fits},
		"other labels": {spec: corev1.PodSpec{NodeSelector: map[string]string{"zone": "b"}},
			want: pernode.Unmatched},
		"affinity":               {spec: corev1.PodSpec{Affinity: required("In")}, want: pernode.Fits},
		"affinity for others":    {spec: corev1.PodSpec{Affinity: required("NotIn")}, want: pernode.Unmatched},
		"affinity of no meaning": {spec: corev1.PodSpec{Affinity: required("Like")}, want: pernode.Unmatched, wrong: true},
		"a taint NoSchedule":     {taints: taints(corev1.Taint{Key: "t", Effect: "NoSchedule"}), want: pernode.Tainted},
		"a taint NoExecute":      {taints: taints(corev1.Taint{Key: "t", Effect: "NoExecute"}), want: pernode.Evicting},
		"a taint that is only a wish": {taints: taints(corev1.Taint{Key: "t", Effect: "PreferNoSchedule"}),
			want: pernode.Fits},
		"a taint that is tolerated": {spec: corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "t", Operator: "Exists"}}},
			taints: taints(corev1.Taint{Key: "t", Effect: "NoExecute"}), want: pernode.Fits},
		"not ready, cordoned": {taints: taints(corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: "NoExecute"},
			corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: "NoSchedule"}), want: pernode.Fits},
		"no network": {taints: taints(corev1.Taint{Key: corev1.TaintNodeNetworkUnavailable, Effect: "NoSchedule"}),
			want: pernode.Tainted},
		"no network, and none needed": {spec: corev1.PodSpec{HostNetwork: true},
			taints: taints(corev1.Taint{Key: corev1.TaintNodeNetworkUnavailable, Effect: "NoSchedule"}), want: pernode.Fits},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"zone": "a"}},
				Spec: corev1.NodeSpec{Taints: tt.taints}}
			got, err := pernode.FitOf(&tt.spec).Of(node)
			if got != tt.want || (err != nil) != tt.wrong {
				t.Errorf("%d (%v), want %d", got, err, tt.want)
			}
		})
	}
}

func TestFitOfJob(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}}
	cpu := func(requests, limits string) corev1.PodSpec {
		list := func(text string) corev1.ResourceList {
			if text == "" {
				return nil
			}
			return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(text)}
		}
		return corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: list(requests), Limits: list(limits)}}}}
	}
	gpu := corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}}}}}
	tolerant := corev1.PodSpec{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}
	cordoned := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	for name, tt := range map[string]struct {
		spec   corev1.PodSpec
		taints []corev1.Taint
		want   pernode.Fitness
	}{
		"no requests":              {spec: corev1.PodSpec{}, want: pernode.Fits},
		"all of the node":          {spec: cpu("2", ""), want: pernode.Fits},
		"more than all":            {spec: cpu("2100m", ""), want: pernode.TooSmall},
		"limits are requests":      {spec: cpu("", "3"), want: pernode.TooSmall},
		"limits above requests":    {spec: cpu("1", "3"), want: pernode.Fits},
		"what the node has not":    {spec: gpu, want: pernode.TooSmall},
		"cordoned":                 {taints: []corev1.Taint{cordoned}, want: pernode.Tainted},
		"cordoned, and tolerated":  {spec: tolerant, taints: []corev1.Taint{cordoned}, want: pernode.Fits},
		"too small, and of others": {spec: cpu("3", ""), taints: []corev1.Taint{cordoned}, want: pernode.Tainted},
	} {
		node.Spec.Taints = tt.taints
		if got, err := pernode.FitOfJob(&tt.spec).Of(node); got != tt.want || err != nil {
			t.Errorf("%s: %d (%v), want %d", name, got, err, tt.want)
		}
	}
}

func TestLost(t *testing.T) {
	now := time.Unix(10_000, 0)
	for name, tt := range map[string]struct {
		conditions []corev1.NodeCondition
		lost       bool
		wait       time.Duration
	}{
		"ready":      {[]corev1.NodeCondition{{Type: corev1.NodeReady, Status: "True"}}, false, 0},
		"never told": {nil, false, 0},
		"for 1 min": {[]corev1.NodeCondition{{Type: corev1.NodeReady, Status: "Unknown",
			LastTransitionTime: metav1.NewTime(now.Add(-time.Minute))}}, false, 4 * time.Minute},
		"for long": {[]corev1.NodeCondition{{Type: corev1.NodeReady, Status: "False",
			LastTransitionTime: metav1.NewTime(now.Add(-pernode.LostAfter))}}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{Status: corev1.NodeStatus{Conditions: tt.conditions}}
			if lost, wait := pernode.Lost(node, now); lost != tt.lost || wait != tt.wait {
				t.Errorf("%v, %s; want %v, %s", lost, wait, tt.lost, tt.wait)
			}
		})
	}
}
