package pernode

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// LostAfter is how long a node is NotReady before nobody waits for it. It is what Kubernetes waits before it evicts the
// pods of such a node.
const LostAfter = 5 * time.Minute

// Lost reports whether the node has been NotReady for LostAfter. If only the passing of time is missing, wait says how
// long; otherwise it is 0. A node that never told whether it is ready is not lost.
func Lost(node *corev1.Node, now time.Time) (lost bool, wait time.Duration) {
	i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	if i < 0 || node.Status.Conditions[i].Status == corev1.ConditionTrue {
		return false, 0
	}
	wait = max(0, node.Status.Conditions[i].LastTransitionTime.Add(LostAfter).Sub(now))
	return wait == 0, wait
}

// Fitness is how well a node fits a pod template.
type Fitness int

// The fitness of a node.
const (
	// Fits: the node should run the pod.
	Fits Fitness = iota
	// Tainted: the node has a taint NoSchedule that is not tolerated: a pod that runs there may stay.
	Tainted
	// Evicting: the node has a taint NoExecute that is not tolerated.
	Evicting
	// Unmatched: nodeName, nodeSelector or the required node affinity exclude the node.
	Unmatched
	// TooSmall: the pod requests more than the node has when it is empty.
	TooSmall
)

// Fit is what a pod template asks of nodes. Which other pods run on them does not matter.
type Fit struct {
	nodeName    string
	affinity    nodeaffinity.RequiredNodeAffinity
	tolerations []corev1.Toleration
	requests    corev1.ResourceList
}

// FitOf returns the fit of a template's spec, with the tolerations of Tolerate. Whether nodes have room does not
// matter.
func FitOf(spec *corev1.PodSpec) Fit {
	tolerant := corev1.PodSpec{HostNetwork: spec.HostNetwork, Tolerations: slices.Clone(spec.Tolerations)}
	Tolerate(&tolerant)
	return Fit{nodeName: spec.NodeName, tolerations: tolerant.Tolerations,
		affinity: nodeaffinity.NewRequiredNodeAffinity(spec.NodeSelector, spec.Affinity)}
}

// FitOfJob returns the fit of a template's spec, for pods without the tolerations of Tolerate: a node that is not ready
// or cordoned does not fit. An empty node must have room for the pod.
func FitOfJob(spec *corev1.PodSpec) Fit {
	pod := &corev1.Pod{Spec: *spec.DeepCopy()}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			requests := list[i].Resources.Limits.DeepCopy() // the default of requests
			if requests == nil {
				requests = corev1.ResourceList{}
			}
			maps.Copy(requests, list[i].Resources.Requests)
			list[i].Resources.Requests = requests
		}
	}
	return Fit{nodeName: spec.NodeName, tolerations: pod.Spec.Tolerations,
		affinity: nodeaffinity.NewRequiredNodeAffinity(spec.NodeSelector, spec.Affinity),
		requests: resource.PodRequests(pod, resource.PodResourcesOptions{})}
}

// Of returns how well the node fits. The error says what is wrong with the required node affinity.
func (f Fit) Of(node *corev1.Node) (Fitness, error) {
	if f.nodeName != "" && f.nodeName != node.Name {
		return Unmatched, nil
	}
	matches, err := f.affinity.Match(node)
	switch {
	case err != nil:
		return Unmatched, fmt.Errorf("read the required node affinity: %w", err)
	case !matches:
		return Unmatched, nil
	case f.rejects(node, corev1.TaintEffectNoExecute):
		return Evicting, nil
	case f.rejects(node, corev1.TaintEffectNoSchedule):
		return Tainted, nil
	case !f.hasRoom(node):
		return TooSmall, nil
	}
	return Fits, nil
}

// hasRoom reports whether the node has what the pod requests when no other pod runs on it.
func (f Fit) hasRoom(node *corev1.Node) bool {
	for name, amount := range f.requests {
		if has := node.Status.Allocatable[name]; amount.Cmp(has) > 0 {
			return false
		}
	}
	return true
}

// rejects reports whether the node has a taint with this effect that is not tolerated.
func (f Fit) rejects(node *corev1.Node, effect corev1.TaintEffect) bool {
	var silent klog.Logger
	_, found := scheduling.FindMatchingUntoleratedTaint(silent, node.Spec.Taints, f.tolerations,
		func(taint *corev1.Taint) bool { return taint.Effect == effect }, true)
	return found
}

// Tolerate adds the tolerations that Kubernetes gives to pods by node: they neither leave a node nor avoid it because
// it is not ready, unreachable, cordoned or short of something.
func Tolerate(spec *corev1.PodSpec) {
	tolerate := func(key string, effect corev1.TaintEffect) {
		added := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
		i := slices.IndexFunc(spec.Tolerations, func(have corev1.Toleration) bool { return have.MatchToleration(&added) })
		if i < 0 {
			spec.Tolerations = append(spec.Tolerations, added)
			return
		}
		spec.Tolerations[i] = added // without tolerationSeconds
	}
	tolerate(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)
	tolerate(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)
	tolerate(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule)
	tolerate(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule)
	tolerate(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule)
	tolerate(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)
	if spec.HostNetwork {
		tolerate(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)
	}
}

// Pin makes a pod one for this node alone. Its required node affinity is replaced; the scheduler still binds it.
func Pin(spec *corev1.PodSpec, node string) {
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
			Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}
}
