package podprobemarker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

// The reasons of conditions.
const (
	reasonProbed          = "Probed"
	reasonNoPod           = "NoPod"
	reasonAwaitingResults = "AwaitingResults"
	reasonUnreachable     = "ProbeUnreachable"
	reasonPortNotFound    = "PortNotFound"
	reasonMarksRefused    = "MarksRefused"
	reasonTooManyProbes   = "TooManyProbes"
	reasonInvalidMarks    = "InvalidMarks"
	reasonInvalidSelector = "InvalidSelector"
)

// mostInText is how many names a message has.
const mostInText = 3

// findings are what is found out about the pods of a marker.
type findings struct {
	// pods are probed, and answered of them have all results.
	pods, answered int
	// silent are the nodes from which results are missing.
	silent map[string]bool
	// portless are the names of ports that a container does not have.
	portless map[string]bool
	// hint is why a probe could not reach a pod: of the first pod by name, unreachable.
	hint, unreachable string
	// refusal is why a write was refused, and refused the first pod by name that it concerns.
	refusal, refused string
	// full is the first pod by name that has no room for a probe.
	full string
	// invalid are sentences about marks that no pod gets.
	invalid []string
	// states are how many pods are in which state, by the name of the probe in NodePodProbes.
	states map[string]*v1alpha1.ProbeCounts
}

// add adds one pod, given the NodePodProbe of its node, and why its marks were refused, "" if they were not.
func (f *findings) add(
	marker *v1alpha1.PodProbeMarker, pod *corev1.Pod, node *v1alpha1.NodePodProbe, refusal string,
) {
	probes, portless := probesOf(marker, pod)
	for _, name := range portless {
		if f.portless == nil {
			f.portless = map[string]bool{}
		}
		f.portless[name] = true
	}
	if len(probes) == 0 {
		return
	}
	f.pods++
	if refusal != "" && earlier(pod, f.refused) {
		f.refused, f.refusal = pod.Name, refusal
	}
	if leftOut(probes, node, pod) && earlier(pod, f.full) {
		f.full = pod.Name
	}
	f.count(probes, statesOf(node, pod))
	if f.answers(probes, statesOf(node, pod), pod) {
		f.answered++
		return
	}
	if f.silent == nil {
		f.silent = map[string]bool{}
	}
	f.silent[pod.Spec.NodeName] = true
}

// earlier reports whether a pod comes before another one by name, "" for none.
func earlier(pod *corev1.Pod, other string) bool { return other == "" || pod.Name < other }

// answers reports whether a pod has a result of each of its probes.
func (f *findings) answers(
	probes []v1alpha1.ContainerProbe, states []v1alpha1.ContainerProbeState, pod *corev1.Pod,
) bool {
	missing := false
	for i := range probes {
		at := slices.IndexFunc(states, func(s v1alpha1.ContainerProbeState) bool { return s.Name == probes[i].Name })
		switch {
		case at < 0, states[at].State == v1alpha1.ProbeUnknown && states[at].Message == "":
			missing = true
		case states[at].State == v1alpha1.ProbeUnknown && earlier(pod, f.unreachable):
			f.unreachable, f.hint = pod.Name, states[at].Message
		}
	}
	return !missing
}

// count counts the states of a pod. A probe without a result is Unknown.
func (f *findings) count(probes []v1alpha1.ContainerProbe, states []v1alpha1.ContainerProbeState) {
	if f.states == nil {
		f.states = map[string]*v1alpha1.ProbeCounts{}
	}
	found := map[string]v1alpha1.ProbeState{}
	for i := range states {
		found[states[i].Name] = states[i].State
	}
	for i := range probes {
		name := probes[i].Name
		if f.states[name] == nil {
			f.states[name] = &v1alpha1.ProbeCounts{}
		}
		switch counts := f.states[name]; found[name] {
		case v1alpha1.ProbeSucceeded:
			counts.Succeeded++
		case v1alpha1.ProbeFailed:
			counts.Failed++
		default:
			counts.Unknown++
		}
	}
}

// counts returns how many pods are in which state of each probe of the marker.
func (f *findings) counts(marker *v1alpha1.PodProbeMarker) *v1alpha1.PodProbeMarkerCounts {
	out := &v1alpha1.PodProbeMarkerCounts{}
	for i := range marker.Spec.Probes {
		counts := v1alpha1.ProbeCounts{}
		if found := f.states[nameOf(marker.Name, marker.Spec.Probes[i].Name)]; found != nil {
			counts = *found
		}
		counts.Name = marker.Spec.Probes[i].Name
		out.Probes = append(out.Probes, counts)
	}
	return out
}

// leftOut reports whether the NodePodProbe has as many probes of a pod as it takes, and not all of these.
func leftOut(probes []v1alpha1.ContainerProbe, node *v1alpha1.NodePodProbe, pod *corev1.Pod) bool {
	at := slices.IndexFunc(node.Spec.PodProbes, func(p v1alpha1.PodProbe) bool { return p.UID == pod.UID })
	if at < 0 || len(node.Spec.PodProbes[at].Probes) < mostProbes {
		return false
	}
	known := map[string]bool{}
	for i := range node.Spec.PodProbes[at].Probes {
		known[node.Spec.PodProbes[at].Probes[i].Name] = true
	}
	return slices.ContainsFunc(probes, func(p v1alpha1.ContainerProbe) bool { return !known[p.Name] })
}

// statesOf returns the results of a pod.
func statesOf(node *v1alpha1.NodePodProbe, pod *corev1.Pod) []v1alpha1.ContainerProbeState {
	for i := range node.Status.PodProbeStatuses {
		if node.Status.PodProbeStatuses[i].UID == pod.UID {
			return node.Status.PodProbeStatuses[i].ProbeStates
		}
	}
	return nil
}

func (f *findings) ports() []string { return slices.Sorted(maps.Keys(f.portless)) }

// stalled says what keeps probes away until a person changes an object, nil for nothing.
func (f *findings) stalled() *conditions.Cause {
	switch {
	case f.refused != "":
		return nil // that comes first
	case len(f.invalid) > 0:
		return &conditions.Cause{Reason: reasonInvalidMarks, Message: strings.Join(f.invalid, "; ")}
	case f.full != "":
		return &conditions.Cause{Reason: reasonTooManyProbes, Message: fmt.Sprintf(
			"pod %s has more than %d probes, so some of this PodProbeMarker are left out: "+
				"remove probes, or older PodProbeMarkers", f.full, mostProbes)}
	case f.portless != nil:
		return &conditions.Cause{Reason: reasonPortNotFound, Message: fmt.Sprintf(
			"no container has a port named %s, so those probes are left out: name a port of the container, or give its number",
			listed(f.ports()))}
	}
	return nil
}

// cause says how far the probes are, and whether something is waited for.
func (f *findings) cause() (cause conditions.Cause, waits bool) {
	switch {
	case f.pods == 0:
		return conditions.Cause{Reason: reasonNoPod,
			Message: "selector selects no running pod with a container of the probes"}, false
	case f.refused != "":
		return conditions.Cause{Reason: reasonMarksRefused, Message: strings.Join(append([]string{fmt.Sprintf(
			"a write for pod %s is refused, and tried again: %s", f.refused, f.refusal)}, f.invalid...), "; ")}, true
	case f.unreachable != "":
		return conditions.Cause{Reason: reasonUnreachable, Message: fmt.Sprintf(
			"probes do not reach pod %s, so it keeps its marks: %s", f.unreachable, f.hint)}, true
	case f.answered < f.pods:
		return conditions.Cause{Reason: reasonAwaitingResults, Message: fmt.Sprintf(
			"%d of %d pods have results; results of %s are missing: if that lasts, look whether flotilla-node runs there",
			f.answered, f.pods, nodesIn(slices.Sorted(maps.Keys(f.silent))))}, true
	}
	return conditions.Cause{Reason: reasonProbed, Message: fmt.Sprintf("pods that are probed: %d", f.pods)}, false
}

func nodesIn(names []string) string {
	if len(names) == 1 {
		return "node " + names[0]
	}
	return "nodes " + listed(names)
}

// listed returns the first of some names.
func listed(names []string) string {
	text := strings.Join(names[:min(len(names), mostInText)], ", ")
	if more := len(names) - mostInText; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return cmp.Or(text, "none")
}
