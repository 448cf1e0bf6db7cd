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
}

// add adds one pod, given the NodePodProbe of its node.
func (f *findings) add(marker *v1alpha1.PodProbeMarker, pod *corev1.Pod, node *v1alpha1.NodePodProbe) {
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
	states := statesOf(node, pod)
	missing := false
	for i := range probes {
		at := slices.IndexFunc(states, func(s v1alpha1.ContainerProbeState) bool { return s.Name == probes[i].Name })
		switch {
		case at < 0, states[at].State == v1alpha1.ProbeUnknown && states[at].Message == "":
			missing = true
		case states[at].State == v1alpha1.ProbeUnknown && (f.unreachable == "" || pod.Name < f.unreachable):
			f.unreachable, f.hint = pod.Name, states[at].Message
		}
	}
	if !missing {
		f.answered++
		return
	}
	if f.silent == nil {
		f.silent = map[string]bool{}
	}
	f.silent[pod.Spec.NodeName] = true
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

// cause says how far the probes are, and whether something is waited for.
func (f *findings) cause() (cause conditions.Cause, waits bool) {
	switch {
	case f.pods == 0:
		return conditions.Cause{Reason: reasonNoPod,
			Message: "selector selects no running pod with a container of the probes"}, false
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
