package containerrecreaterequest

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podready"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// answerWithin is how long the daemon of the node has to begin or to queue a request.
const answerWithin = time.Minute

// goneFor is how long the daemon of the node may be gone while a request is under way.
const goneFor = 10 * time.Minute

// longest bounds fields in seconds, whose nanoseconds might not fit.
const longest = 90 * 365 * 24 * time.Hour

// The reason and the message of the condition PreRecreateGrace. Conversion writes the same.
const (
	reasonUnready  = "UnreadyAcquired"
	messageUnready = "The pod is not ready, so that its traffic ends before its containers restart."
)

// userAgent begins the entry of a request in the list of writers of KruisePodReady.
const userAgent = "ContainerRecreateRequest"

// writerOf returns the entry of the request.
func writerOf(request *v1beta1.ContainerRecreateRequest) podready.Writer {
	return podready.Writer{UserAgent: userAgent, Key: request.Namespace + "/" + request.Name}
}

// facts are what a plan is made of.
type facts struct {
	request *v1beta1.ContainerRecreateRequest
	// pod has the name that the request has; nil: there is none.
	pod *corev1.Pod
	// now is by the clock of the API server.
	now time.Time
	// goneSince is since when no daemon is ready on the node of a request that one has answered; zero: one is.
	goneSince time.Time
	// expired: the request is part of a restart, and the hub is not in contact. It must not begin.
	expired bool
}

// plan is what one pass does, in the order of its fields.
type plan struct {
	// hold adds the finalizer, before the pod is marked.
	hold bool
	// mark makes the pod not ready because of the request, or no longer; nil changes nothing.
	mark   *bool
	status v1beta1.ContainerRecreateRequestStatus
	// release removes the finalizer, and the label active of a request that has ended.
	release bool
	// remove deletes the request.
	remove bool
	// wait is how long until something is due that no event reports; 0: nothing is.
	wait time.Duration
}

// makePlan returns the plan.
func makePlan(f facts) plan {
	p := plan{status: *f.request.Status.DeepCopy()}
	pod := f.own()
	leaving := f.request.DeletionTimestamp != nil
	if !leaving && p.status.Phase != v1beta1.CRRCompleted {
		f.end(pod, &p)
	}
	if leaving || p.status.Phase == v1beta1.CRRCompleted {
		f.clear(pod, &p)
		return p
	}
	if p.status.Phase == v1beta1.CRRRecreating {
		if f.expired {
			p.sooner(workload.AskWhileExpired)
			return p
		}
		f.drain(pod, &p)
		p.status.ContainerStatusSnapshot = f.snapshot(pod)
	}
	return p
}

// own returns the pod of the request; nil if it is gone.
func (f facts) own() *corev1.Pod {
	if f.pod == nil || f.pod.UID != types.UID(f.request.Labels[v1beta1.LabelCRRPodUID]) {
		return nil
	}
	return f.pod
}

// end ends the request if nothing more can come of it.
func (f facts) end(pod *corev1.Pod, p *plan) {
	labels := f.request.Labels
	age := f.now.Sub(f.request.CreationTimestamp.Time)
	deadline, limited := f.deadline()
	switch {
	case labels[v1beta1.LabelCRRPodUID] == "" || labels[v1beta1.LabelCRRNodeName] == "":
		p.complete(f.now, "it was not filled in, because the agent's webhook was not asked when it was created: "+
			"create it again")
	case pod == nil, pod.DeletionTimestamp != nil:
		p.complete(f.now, "pod has gone")
	case podstate.Ended(pod) && !f.runs(pod):
		p.complete(f.now, "pod has ended")
	case p.status.Phase == "" && age >= answerWithin:
		p.complete(f.now, fmt.Sprintf("daemon has not responded for a long time: flotilla-node of node %s did not answer "+
			"for %s; check that it runs there, or delete the pod instead", labels[v1beta1.LabelCRRNodeName], answerWithin))
	case f.gone() >= goneFor:
		p.fail(fmt.Sprintf("not restarted when flotilla-node of node %s was gone", labels[v1beta1.LabelCRRNodeName]))
		p.complete(f.now, fmt.Sprintf("flotilla-node of node %s is gone: no pod of it was ready there for %s; check that "+
			"it runs there, and create the request again", labels[v1beta1.LabelCRRNodeName], goneFor))
	case limited && age >= deadline:
		p.fail(fmt.Sprintf("not restarted within activeDeadlineSeconds, which is %d",
			*f.request.Spec.ActiveDeadlineSeconds))
		p.complete(f.now, "recreating has exceeded the activeDeadlineSeconds")
	default:
		if p.status.Phase == "" {
			p.sooner(answerWithin - age)
		}
		if limited {
			p.sooner(deadline - age)
		}
		if !f.goneSince.IsZero() {
			p.sooner(goneFor - f.gone())
		}
	}
}

// gone returns for how long the daemon of the node is gone.
func (f facts) gone() time.Duration {
	if f.goneSince.IsZero() {
		return 0
	}
	return f.now.Sub(f.goneSince)
}

// runs reports whether a container of the request still runs, as in a pod whose sidecars are stopped.
func (f facts) runs(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		named := func(c v1beta1.ContainerRecreateRequestContainer) bool { return c.Name == s.Name }
		return s.State.Running != nil && slices.ContainsFunc(f.request.Spec.Containers, named)
	})
}

// deadline returns how old the request may become.
func (f facts) deadline() (time.Duration, bool) {
	seconds := f.request.Spec.ActiveDeadlineSeconds
	if seconds == nil {
		return 0, false
	}
	return duration(*seconds), true
}

func duration(seconds int64) time.Duration {
	return time.Duration(min(seconds, int64(longest/time.Second))) * time.Second
}

// fail fails the containers that have not restarted.
func (p *plan) fail(message string) {
	for i := range p.status.ContainerRecreateStates {
		state := &p.status.ContainerRecreateStates[i]
		if state.Phase != v1beta1.CRRSucceeded && state.Phase != v1beta1.CRRFailed {
			state.Phase, state.Message = v1beta1.CRRFailed, message
		}
	}
}

func (p *plan) complete(now time.Time, message string) {
	p.status.Phase, p.status.Message = v1beta1.CRRCompleted, message
	p.status.CompletionTime = new(metav1.NewTime(now.Truncate(time.Second)))
}

// sooner makes the plan be made again after wait at the latest; 0 changes nothing.
func (p *plan) sooner(wait time.Duration) { p.wait = podstate.Sooner(p.wait, max(wait, 0)) }

// clear takes back what the request did to the pod, and deletes the request when its time has passed.
func (f facts) clear(pod *corev1.Pod, p *plan) {
	if pod != nil && marked(pod, f.request) {
		p.mark = new(false)
	}
	_, active := f.request.Labels[v1beta1.LabelCRRActive]
	ended := p.status.Phase == v1beta1.CRRCompleted
	p.release = slices.Contains(f.request.Finalizers, v1beta1.FinalizerCRRUnready) || ended && active
	ttl := f.request.Spec.TTLSecondsAfterFinished
	if f.request.DeletionTimestamp != nil || ttl == nil || p.status.CompletionTime == nil {
		return
	}
	kept := duration(int64(*ttl))
	// The daemon writes the completion by the clock of its node.
	if rest := min(kept, kept-f.now.Sub(p.status.CompletionTime.Time)); rest > 0 {
		p.sooner(rest)
	} else {
		p.remove = true
	}
}

// drain makes the pod not ready before its containers stop. The daemon waits for the condition.
func (f facts) drain(pod *corev1.Pod, p *plan) {
	strategy := f.request.Spec.Strategy
	if strategy == nil || strategy.UnreadyGracePeriodSeconds == nil {
		return
	}
	p.hold = !slices.Contains(f.request.Finalizers, v1beta1.FinalizerCRRUnready)
	if podready.HasGate(&pod.Spec) && !marked(pod, f.request) {
		p.mark = new(true)
	}
	if !slices.ContainsFunc(p.status.Conditions, isGrace) {
		p.status.Conditions = append(p.status.Conditions, metav1.Condition{
			Type: v1beta1.ConditionPreRecreateGrace, Status: metav1.ConditionTrue, Reason: reasonUnready,
			Message: messageUnready, LastTransitionTime: metav1.NewTime(f.now.Truncate(time.Second)),
		})
	}
}

func isGrace(c metav1.Condition) bool { return c.Type == v1beta1.ConditionPreRecreateGrace }

// marked reports whether the pod is not ready because of the request. An unreadable list is left alone.
func marked(pod *corev1.Pod, request *v1beta1.ContainerRecreateRequest) bool {
	own := func(w podready.Writer) bool { return w == writerOf(request) }
	ours, _, err := podready.Split(podstate.Condition(pod, podready.Condition), own)
	return err == nil && len(ours) > 0
}

// snapshot returns the containers of the request that have restarted since it was created. They are known by their
// IDs, because the clock of the node may be another one. It is never emptied again.
func (f facts) snapshot(pod *corev1.Pod) []v1beta1.ContainerStatusSnapshot {
	var list []v1beta1.ContainerStatusSnapshot
	for i := range f.request.Spec.Containers {
		wanted := &f.request.Spec.Containers[i]
		for j := range pod.Status.ContainerStatuses {
			status := &pod.Status.ContainerStatuses[j]
			before := wanted.StatusContext
			if status.Name != wanted.Name || status.State.Running == nil || before == nil ||
				status.ContainerID == before.ContainerID && status.RestartCount <= before.RestartCount {
				continue
			}
			list = append(list, v1beta1.ContainerStatusSnapshot{Name: status.Name, Ready: status.Ready,
				RestartCount: status.RestartCount, ContainerID: status.ContainerID})
		}
	}
	if len(list) == 0 {
		return f.request.Status.ContainerStatusSnapshot
	}
	return list
}
