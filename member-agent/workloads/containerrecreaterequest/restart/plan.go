// Package restart restarts the containers of all pods of a workload in place, when an annotation of the workload asks
// for it. It makes a ContainerRecreateRequest for each pod, as many at the same time as the workload's maxUnavailable,
// or what a hub grants of it, allows. There is no new revision.
//
// What is done is on the pods: an annotation names the last restart that a pod went through. So an agent that starts
// again goes on where it was, and pods that are younger than the annotation of the workload are left alone.
package restart

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/lifecycle"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// order is what the annotation of the workload asks for.
type order struct {
	v1beta1.RestartOrder
	at time.Time
}

// parse reads the annotation. It errs if that is no restart.
func parse(text string) (order, error) {
	var o order
	if err := json.Unmarshal([]byte(text), &o.RestartOrder); err != nil {
		return o, fmt.Errorf("annotation %s is no JSON object of at and containers: %w", v1beta1.AnnotationRestart, err)
	}
	at, err := time.Parse(time.RFC3339, o.At)
	if err != nil {
		return o, fmt.Errorf("annotation %s: at is no time of RFC 3339: %w", v1beta1.AnnotationRestart, err)
	}
	o.at = at
	return o, nil
}

// nameFor returns the name of the request for a pod.
func (o order) nameFor(pod string) string {
	const most = 240 // of 253 characters
	hash := fnv.New32a()
	hash.Write([]byte(o.At))
	return fmt.Sprintf("%s-%08x", pod[:min(len(pod), most)], hash.Sum32())
}

// facts are what a plan is made of.
type facts struct {
	order order
	pods  []*corev1.Pod
	// requests are those of this restart, by the names of pods.
	requests map[string]*v1beta1.ContainerRecreateRequest
	// replicas is how many pods the workload is to have, unavailable how many of them may be unavailable.
	replicas, unavailable int32
	// minReady is how long a pod must be Ready to be available, in seconds.
	minReady int32
	now      time.Time
	// held: no pod may become unavailable now.
	held bool
}

// plan is what one pass does.
type plan struct {
	// create are the pods to restart next.
	create []*corev1.Pod
	// done are the pods that have restarted, and do not say so yet.
	done []*corev1.Pod
	// left is how many pods have not restarted.
	left int
	// failed says why the restart stops; empty: it goes on.
	failed string
	// blocked: all pods that have not restarted are available, and none may become unavailable.
	blocked bool
}

// makePlan returns the plan.
func makePlan(f facts) plan {
	var p plan
	var waiting []*corev1.Pod
	healthy := int32(0)
	for _, pod := range f.pods {
		request := f.requests[pod.Name]
		available, flight := f.available(pod), false
		if !f.through(pod) {
			p.left++
			switch {
			case request == nil:
				waiting = append(waiting, pod)
			case request.Status.Phase != v1beta1.CRRCompleted:
				flight = true
			case !succeeded(request):
				p.failed = cmp.Or(p.failed, fmt.Sprintf("pod %s: %s", pod.Name, why(request)))
			case available:
				p.done, p.left = append(p.done, pod), p.left-1
			}
		}
		if available && !flight {
			healthy++
		}
	}
	if p.failed != "" || f.held {
		return p
	}
	slices.SortFunc(waiting, f.first)
	room := f.unavailable - max(f.replicas-healthy, 0)
	for _, pod := range waiting {
		switch {
		case !started(pod, f.order.Containers):
		case !f.available(pod):
			p.create = append(p.create, pod) // it is unavailable already
		case room > 0:
			room--
			p.create = append(p.create, pod)
		}
	}
	p.blocked = f.unavailable == 0 && p.left > 0 && len(waiting) == p.left && len(p.create) == 0
	return p
}

// available reports whether the pod counts as available for the controller of its workload.
func (f facts) available(pod *corev1.Pod) bool {
	available, _ := podstate.Available(pod, f.minReady, f.now)
	progress, _ := inplace.Observe(pod, f.now)
	return available && lifecycle.Available(pod) && progress == inplace.Settled
}

// through reports whether the pod needs no restart: it had one, or it is younger.
func (f facts) through(pod *corev1.Pod) bool {
	return pod.Annotations[v1beta1.AnnotationRestarted] == f.order.At || pod.CreationTimestamp.After(f.order.at)
}

// first puts pods that are not available first, then those with the higher name, as the highest ordinal.
func (f facts) first(a, b *corev1.Pod) int {
	rank := func(pod *corev1.Pod) int {
		if f.available(pod) {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(len(b.Name), len(a.Name)), cmp.Compare(b.Name, a.Name))
}

// started reports whether all containers to restart have started.
func started(pod *corev1.Pod, containers []string) bool {
	for _, name := range named(pod, containers) {
		has := slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
			return s.Name == name && s.ContainerID != ""
		})
		if !has {
			return false
		}
	}
	return true
}

// named returns the containers to restart: those that the order names, or all of the pod.
func named(pod *corev1.Pod, containers []string) []string {
	if len(containers) > 0 {
		return containers
	}
	var all []string
	for i := range pod.Spec.Containers {
		all = append(all, pod.Spec.Containers[i].Name)
	}
	return all
}

// succeeded reports whether all containers of a request that has ended have restarted.
func succeeded(request *v1beta1.ContainerRecreateRequest) bool {
	states := request.Status.ContainerRecreateStates
	failed := func(s v1beta1.ContainerRecreateState) bool { return s.Phase != v1beta1.CRRSucceeded }
	return len(states) > 0 && !slices.ContainsFunc(states, failed)
}

// why says why a request has failed.
func why(request *v1beta1.ContainerRecreateRequest) string {
	return cmp.Or(request.Status.Message, "its containers did not restart")
}
