package persistentpodstate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/topology/ordinals"
)

// ReleaseAfter is for how long no node has had the labels that a pod needs when the pod is released from them. A node
// that is replaced is back sooner. It is as long as Kubernetes waits before it evicts the pods of an unreachable node.
const ReleaseAfter = 5 * time.Minute

// mostAnnotations bounds the annotations of all records together, in bytes: an object has at most 1.5 MB.
const mostAnnotations = 512 << 10

// Facts are what the plan is made from. Nothing in them is changed.
type Facts struct {
	State *v1beta1.PersistentPodState
	// Gone: there is no such workload, or it is being deleted.
	Gone bool
	// Ordinals are those that the workload has.
	Ordinals ordinals.Set
	// Pods are the active pods of the workload.
	Pods []*corev1.Pod
	// Nodes are the labels of all nodes, by name.
	Nodes map[string]map[string]string
	Now   time.Time
	// Absent is since when no node has had the labels that a pod needs, by the name of the pod.
	Absent map[string]time.Time
}

// Missing is a pod that needs labels which no node has.
type Missing struct {
	Pod, Node string
	Labels    map[string]string
}

// Plan is what is recorded, and what is done with pods.
type Plan struct {
	States map[string]v1beta1.PodState
	// Missing are the pods that wait for a node, by name.
	Missing []Missing
	// Absent are the Facts.Absent of the next plan, and Wait is how long it is until a pod is released; 0 for none.
	Absent map[string]time.Time
	Wait   time.Duration
	// Release are pods without a node whose labels were released before. They may have been created with them.
	Release []*corev1.Pod
	// TooLarge are the names of pods whose annotations are not recorded, because there are too many.
	TooLarge []string
}

// Compute returns the plan.
func Compute(f Facts) Plan {
	plan := Plan{States: map[string]v1beta1.PodState{}, Absent: map[string]time.Time{}}
	if f.Gone {
		return plan
	}
	pods := map[string]*corev1.Pod{}
	for _, pod := range f.Pods {
		pods[pod.Name] = pod
	}
	for name, state := range f.State.Status.PodStates {
		if f.keeps(name, pods[name]) {
			plan.States[name] = *state.DeepCopy()
		}
	}
	for name, pod := range pods {
		if labels, ok := f.Nodes[pod.Spec.NodeName]; ok && podstate.Ready(pod) {
			plan.States[name] = f.record(pod, labels)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(plan.States)) {
		if pod := pods[name]; pod == nil || pod.Spec.NodeName == "" {
			f.look(&plan, name, pod)
		}
	}
	plan.bound()
	return plan
}

// keeps reports whether the record of a pod is kept.
func (f *Facts) keeps(name string, pod *corev1.Pod) bool {
	if pod != nil || f.State.Spec.PersistentPodStateRetentionPolicy == v1beta1.PersistentPodStateWhenDeleted {
		return true
	}
	return f.has(name)
}

// has reports whether the workload is to have a pod of this name. It has one whose name has no ordinal.
func (f *Facts) has(name string) bool {
	ordinal, err := strconv.ParseInt(name[strings.LastIndex(name, "-")+1:], 10, 32)
	return err != nil || f.Ordinals.Has(int32(ordinal))
}

// record returns what is recorded of a pod that is ready on a node with these labels.
func (f *Facts) record(pod *corev1.Pod, labels map[string]string) v1beta1.PodState {
	state := v1beta1.PodState{NodeName: pod.Spec.NodeName}
	for _, key := range keysOf(&f.State.Spec) {
		if value, ok := labels[key]; ok {
			if state.NodeTopologyLabels == nil {
				state.NodeTopologyLabels = map[string]string{}
			}
			state.NodeTopologyLabels[key] = value
		}
	}
	for _, annotation := range f.State.Spec.PersistentPodAnnotations {
		if value, ok := pod.Annotations[annotation.Key]; ok {
			if state.Annotations == nil {
				state.Annotations = map[string]string{}
			}
			state.Annotations[annotation.Key] = value
		}
	}
	return state
}

// keysOf returns the keys of the node labels that are recorded.
func keysOf(spec *v1beta1.PersistentPodStateSpec) []string {
	keys := requiredOf(spec)
	for _, term := range spec.PreferredPersistentTopology {
		for _, key := range term.Preference.Keys {
			keys = append(keys, string(key))
		}
	}
	return keys
}

// requiredOf returns the keys of the node labels that a pod needs again.
func requiredOf(spec *v1beta1.PersistentPodStateSpec) []string {
	if spec.RequiredPersistentTopology == nil {
		return nil
	}
	var keys []string
	for _, key := range spec.RequiredPersistentTopology.Keys {
		keys = append(keys, string(key))
	}
	return keys
}

// Needs returns the recorded labels that a new pod needs.
func Needs(spec *v1beta1.PersistentPodStateSpec, state v1beta1.PodState) map[string]string {
	needs := map[string]string{}
	for _, key := range requiredOf(spec) {
		if value, ok := state.NodeTopologyLabels[key]; ok {
			needs[key] = value
		}
	}
	return needs
}

// look decides about a pod that has no node: it waits for one with the recorded labels, or is released from them. pod
// is nil if there is none at the moment.
func (f *Facts) look(plan *Plan, name string, pod *corev1.Pod) {
	spec, state := &f.State.Spec, plan.States[name]
	release := spec.Flotilla != nil && spec.Flotilla.MissingNodes == v1beta1.MissingNodesRelease
	needs := Needs(spec, state)
	switch {
	case !f.has(name):
	case len(needs) > 0 && f.anyNode(needs):
	case len(needs) > 0 && (!release || f.early(plan, name)):
		plan.Missing = append(plan.Missing, Missing{Pod: name, Node: state.NodeName, Labels: needs})
	case len(needs) > 0:
		for key := range needs {
			delete(state.NodeTopologyLabels, key)
		}
		plan.States[name] = state
	case release && pod != nil && podstate.Unschedulable(pod) && len(given(pod, requiredOf(spec))) > 0 &&
		pod.Annotations[v1beta1.AnnotationInjectedPersistentPodState] == f.State.Name:
		plan.Release = append(plan.Release, pod)
	}
}

// early reports whether a pod whose labels no node has is not released from them yet, and keeps since when that is so.
func (f *Facts) early(plan *Plan, name string) bool {
	since, known := f.Absent[name]
	if !known {
		since = f.Now
	}
	wait := ReleaseAfter - f.Now.Sub(since)
	if wait <= 0 {
		return false
	}
	plan.Absent[name], plan.Wait = since, podstate.Sooner(plan.Wait, wait)
	return true
}

// given returns which of these labels the pod may have got as a node selector from its PersistentPodState: all of them
// if it does not say which.
func given(pod *corev1.Pod, keys []string) []string {
	text, says := pod.Annotations[v1beta1.AnnotationPersistentNodeLabels]
	if !says {
		return keys
	}
	got := strings.Split(text, ",")
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return !slices.Contains(got, key) })
}

// anyNode reports whether a node has all these labels.
func (f *Facts) anyNode(needs map[string]string) bool {
	selector := labels.SelectorFromSet(needs)
	for _, have := range f.Nodes {
		if selector.Matches(labels.Set(have)) {
			return true
		}
	}
	return false
}

// bound drops the annotations of records, the last names first, until the others fit.
func (p *Plan) bound() {
	size := 0
	for _, name := range slices.Sorted(maps.Keys(p.States)) {
		state := p.States[name]
		own := 0
		for key, value := range state.Annotations {
			own += len(key) + len(value)
		}
		if size+own > mostAnnotations {
			state.Annotations = nil
			p.States[name] = state
			p.TooLarge = append(p.TooLarge, name)
			continue
		}
		size += own
	}
}

// String returns what the pod waits for.
func (m Missing) String() string {
	return fmt.Sprintf("pod %s waits for node %s: no node has the labels %s", m.Pod, m.Node, labels.Set(m.Labels))
}
