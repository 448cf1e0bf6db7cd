package imagepulljob

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// Select returns the names of the nodes that a job pulls on, sorted. nodes are the labels of all NodeImages, which are
// those of their nodes, by their names: a node without one has no daemon. pods are those of the job's namespace. It
// fails if a selector cannot be read.
func Select(spec *v1beta1.ImagePullJobSpec, nodes map[string]map[string]string, pods []*corev1.Pod) ([]string, error) {
	switch {
	case spec.PodSelector != nil:
		return nodesOfPods(spec.PodSelector, nodes, pods)
	case spec.Selector == nil:
		return slices.Sorted(maps.Keys(nodes)), nil
	}
	names := map[string]bool{}
	for _, name := range spec.Selector.Names {
		if _, exists := nodes[name]; exists {
			names[name] = true
		}
	}
	if len(spec.Selector.Names) == 0 {
		selector, err := metav1.LabelSelectorAsSelector(&spec.Selector.LabelSelector)
		if err != nil {
			return nil, fmt.Errorf("read spec.selector: %w", err)
		}
		for name, of := range nodes {
			if selector.Matches(labels.Set(of)) {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// nodesOfPods returns the nodes that run active pods of the selector.
func nodesOfPods(
	selector *metav1.LabelSelector, nodes map[string]map[string]string, pods []*corev1.Pod,
) ([]string, error) {
	matches, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, fmt.Errorf("read spec.podSelector: %w", err)
	}
	names := map[string]bool{}
	for _, pod := range pods {
		_, exists := nodes[pod.Spec.NodeName]
		if exists && podstate.Active(pod) && matches.Matches(labels.Set(pod.Labels)) {
			names[pod.Spec.NodeName] = true
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}
