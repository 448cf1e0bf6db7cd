package cloneset

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/waits"
)

// waitPastDeadline returns what a CloneSet past its deadline waits for that neither its controller nor Kubernetes ends:
// a request that is refused, a hook that nobody serves, or the first pod that waits, by its name. Nil if there is no
// such wait: pods that only start slowly may still get ready.
func waitPastDeadline(facts conditions.Facts, pods []*corev1.Pod) *conditions.Cause {
	if !facts.DeadlineExceeded {
		return nil
	}
	cause := &conditions.Cause{Reason: conditions.NamesOf("").DeadlineExceeded}
	switch {
	case facts.Failed != nil:
		cause.Message = facts.Failed.Reason + ": " + facts.Failed.Message
		return cause
	case facts.Waiting != "":
		cause.Message = conditions.ReasonWaitingForHook + ": " + facts.Waiting +
			"; look at the controller that serves the hook, or remove the hook from spec.lifecycle"
		return cause
	}
	var first *corev1.Pod
	for _, pod := range pods {
		if waits.Of(pod) != nil && (first == nil || cmp.Less(pod.Name, first.Name)) {
			first = pod
		}
	}
	if first == nil {
		return nil
	}
	wait := waits.Of(first)
	cause.Message = wait.Reason + ": " + wait.Message
	return cause
}
