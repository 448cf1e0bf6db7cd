// Package restart restarts the containers of all pods of a workload in place, when an annotation of the workload asks
// for it. It makes a ContainerRecreateRequest for each pod, as many at the same time as the workload's maxUnavailable,
// or what a hub grants of it, allows. There is no new revision.
//
// What is done is on the pods: an annotation names the last restart that a pod went through. So an agent that starts
// again goes on where it was, and pods that are younger than the annotation of the workload are left alone.
package restart

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/lifecycle"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/restarts"
)

// nameFor returns the name of the request for a pod.
func nameFor(o restarts.Order, pod string) string {
	const most = 240 // of 253 characters
	hash := fnv.New32a()
	hash.Write([]byte(o.At))
	return fmt.Sprintf("%s-%08x", pod[:min(len(pod), most)], hash.Sum32())
}

// kept is how long requests are kept after their end, so that users see what has restarted.
const kept = 24 * time.Hour

// soonAvailable is how long a pod that has restarted may take to become available, beyond minReady, before the restart
// says that it waits.
const soonAvailable = time.Minute

// facts are what a plan is made of.
type facts struct {
	// order is the zero value if no restart is asked for: what an earlier one left is removed then.
	order restarts.Order
	pods  []*corev1.Pod
	// requests are those of this restart, by the names of pods.
	requests map[string]*v1beta1.ContainerRecreateRequest
	// busy names, by the names of pods, a request of this or another restart or of a user that has not ended.
	busy map[string]string
	// ended are requests of this and earlier restarts that have ended.
	ended []*v1beta1.ContainerRecreateRequest
	// replicas is how many pods the workload is to have, unavailable how many of them may be unavailable.
	replicas, unavailable int32
	// granted: unavailable is what a hub grants.
	granted bool
	// minReady is how long a pod must be Ready to be available, in seconds.
	minReady int32
	// grace is the termination grace period in the template, in seconds.
	grace int64
	now   time.Time
	// held says why no pod may become unavailable now; empty: they may.
	held string
	// revoked: the hub permits nothing any more. Requests that have not begun are withdrawn.
	revoked bool
	// refused says, by the names of pods, why their requests were refused a short while ago.
	refused map[string]string
	// disrupted are the names of pods of which budgets have said that they may not become unavailable.
	disrupted map[string]bool
	// stopped: the restart has failed.
	stopped bool
}

// plan is what one pass does.
type plan struct {
	// done are the pods that have restarted, and do not say so yet.
	done []*corev1.Pod
	// unmark are the pods that lose LabelRestarting.
	unmark []*corev1.Pod
	// mark are the pods to restart next: they get LabelRestarting.
	mark []*corev1.Pod
	// create are the marked pods that get a request.
	create []*corev1.Pod
	// remove are the requests to delete.
	remove []*v1beta1.ContainerRecreateRequest
	// left is how many pods have not restarted.
	left int
	// failed says why the restart stops; empty: it goes on, unless it has stopped before.
	failed string
	// waits says why no pod restarts now; empty: some do.
	waits string
	// wake is when to look again because time has passed; 0: there is no such time.
	wake time.Duration

	waiting []*corev1.Pod
	// idle are the requests that have not begun.
	idle []*v1beta1.ContainerRecreateRequest
	// costly are those of idle whose pods are available apart from the mark: without them, one more pod is available.
	costly  []*v1beta1.ContainerRecreateRequest
	healthy int32
	flights int
}

// makePlan returns the plan. A pod restarts in two passes. The first one marks it, so that the controller of its
// workload counts it as unavailable. The second one sees the mark in the cache that the controller reads as well, and
// that no update has begun meanwhile.
func makePlan(f facts) plan {
	var p plan
	for _, pod := range f.pods {
		f.look(pod, &p)
	}
	f.tidy(&p)
	if p.failed != "" || f.stopped || f.held != "" {
		for _, pod := range p.waiting {
			f.release(pod, &p)
		}
		if f.revoked {
			p.remove, p.flights = append(p.remove, p.idle...), p.flights-len(p.idle)
		}
		if len(p.waiting)+len(p.idle) > 0 {
			p.waits = f.held
		}
		return p
	}
	f.choose(&p)
	return p
}

// look finds how far the restart of a pod is.
func (f facts) look(pod *corev1.Pod, p *plan) {
	available, wait := f.available(pod)
	request, busy := f.requests[pod.Name], f.busy[pod.Name] != ""
	claimed := busy || marked(pod)
	if f.order.Through(pod) {
		f.release(pod, p)
		claimed = busy
	} else {
		p.left++
		p.wake = podstate.Sooner(p.wake, wait)
		switch {
		case request == nil:
			p.waiting = append(p.waiting, pod)
		case request.Status.Phase != v1beta1.CRRCompleted:
			p.flights++
			if !begun(request) {
				p.idle = append(p.idle, request)
				if available {
					p.costly = append(p.costly, request)
				}
			}
		case !succeeded(request):
			p.failed = cmp.Or(p.failed, fmt.Sprintf("pod %s: %s", pod.Name, why(request)))
			f.release(pod, p)
		case available:
			p.done, p.left = append(p.done, pod), p.left-1
			claimed = false
		default:
			claimed = true
			f.recover(pod, request, p)
		}
	}
	if available && !claimed {
		p.healthy++
	}
}

// recover waits for a pod that has restarted to become available.
func (f facts) recover(pod *corev1.Pod, request *v1beta1.ContainerRecreateRequest, p *plan) {
	if rest := soonAvailable + time.Duration(f.minReady)*time.Second - f.age(request); rest > 0 {
		p.flights++
		p.wake = podstate.Sooner(p.wake, rest)
		return
	}
	p.waits = fmt.Sprintf("pod %s has restarted, and is not available yet", pod.Name)
}

// age returns how long ago the request has ended.
func (f facts) age(request *v1beta1.ContainerRecreateRequest) time.Duration {
	end := request.CreationTimestamp
	if request.Status.CompletionTime != nil {
		end = *request.Status.CompletionTime
	}
	return f.now.Sub(end.Time)
}

// tidy removes requests that are no longer needed.
func (f facts) tidy(p *plan) {
	needed := map[string]bool{}
	for _, pod := range f.pods {
		if request := f.requests[pod.Name]; request != nil && !f.order.Through(pod) {
			needed[request.Name] = true
		}
	}
	for _, request := range f.ended {
		if needed[request.Name] {
			continue
		}
		if rest := kept - f.age(request); rest > 0 {
			p.wake = podstate.Sooner(p.wake, min(rest, kept))
		} else {
			p.remove = append(p.remove, request)
		}
	}
}

// choose decides which of the waiting pods restart.
func (f facts) choose(p *plan) {
	slices.SortFunc(p.waiting, f.first)
	room := f.withdraw(p, f.unavailable-max(f.replicas-p.healthy, 0))
	var waits string
	for _, pod := range p.waiting {
		available, _ := f.available(pod)
		switch {
		case f.busy[pod.Name] != "":
			waits = cmp.Or(waits, fmt.Sprintf("ContainerRecreateRequest %s of pod %s has not ended", f.busy[pod.Name],
				pod.Name))
		case f.refused[pod.Name] != "":
			waits = cmp.Or(waits, refusal(pod.Name, f.refused[pod.Name]))
			f.release(pod, p)
		case !started(pod, f.order):
			waits = cmp.Or(waits, fmt.Sprintf("not all containers of pod %s have started", pod.Name))
			f.release(pod, p)
		case marked(pod) && available && room < 0:
			room++
			waits = cmp.Or(waits, f.full())
			f.release(pod, p)
		case marked(pod):
			p.create = append(p.create, pod)
		case !available:
			p.mark = append(p.mark, pod) // it is unavailable already
		case room > 0:
			room--
			p.mark = append(p.mark, pod)
		default:
			waits = cmp.Or(waits, f.full())
		}
	}
	if len(p.create)+len(p.mark)+p.flights == 0 {
		p.waits = cmp.Or(p.waits, waits)
	} else {
		p.waits = ""
	}
}

// withdraw removes requests that have not begun while more pods are unavailable than the hub grants. Those of pods that
// are unavailable anyway stay. It returns how many more pods may become unavailable.
func (f facts) withdraw(p *plan, room int32) int32 {
	for ; room < 0 && f.granted && len(p.costly) > 0; room++ {
		p.remove = append(p.remove, p.costly[0])
		p.costly, p.flights = p.costly[1:], p.flights-1
	}
	return room
}

// full says why no available pod may become unavailable.
func (f facts) full() string {
	switch {
	case f.unavailable > 0:
		return "as many pods are unavailable as maxUnavailable allows"
	case f.granted:
		return "the hub grants nothing of maxUnavailable to this cluster now; the restart goes on when other clusters have " +
			"restarted"
	}
	return "maxUnavailable is 0: no available pod may restart; raise it to 1 or more, or use flotilla rollout restart"
}

// begun reports whether the pod of the request was made not ready for it, after which its containers may be stopped.
func begun(request *v1beta1.ContainerRecreateRequest) bool {
	return meta.IsStatusConditionTrue(request.Status.Conditions, v1beta1.ConditionPreRecreateGrace)
}

// refusal says that the request for a pod was refused.
func refusal(pod, why string) string {
	return fmt.Sprintf("the API server refused the ContainerRecreateRequest of pod %s: %s", pod, why)
}

// marked reports whether the pod has LabelRestarting.
func marked(pod *corev1.Pod) bool {
	_, has := pod.Labels[v1beta1.LabelRestarting]
	return has
}

// release takes the mark from the pod, if it has it and no request is under way.
func (f facts) release(pod *corev1.Pod, p *plan) {
	if marked(pod) && f.busy[pod.Name] == "" {
		p.unmark = append(p.unmark, pod)
	}
}

// available reports whether the pod counts as available for the controller of its workload, apart from our own mark.
// If only time has to pass, it returns how long.
func (f facts) available(pod *corev1.Pod) (bool, time.Duration) {
	plain := pod
	if marked(pod) {
		plain = new(*pod)
		plain.Labels = maps.Clone(pod.Labels)
		delete(plain.Labels, v1beta1.LabelRestarting)
	}
	available, wait := podstate.Available(plain, f.minReady, f.now)
	progress, settles := inplace.Observe(plain, f.now)
	return available && lifecycle.Available(plain) && progress == inplace.Settled, podstate.Sooner(wait, settles)
}

// first puts pods that are marked first, then those that are not available, and those last that budgets have refused;
// then those with the higher name, as the highest ordinal.
func (f facts) first(a, b *corev1.Pod) int {
	rank := func(pod *corev1.Pod) int {
		available, _ := f.available(pod)
		switch {
		case marked(pod):
			return 0
		case !available:
			return 1
		case f.disrupted[pod.Name]:
			return 3
		}
		return 2
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(len(b.Name), len(a.Name)), cmp.Compare(b.Name, a.Name))
}

// started reports whether all containers to restart have started.
func started(pod *corev1.Pod, asked restarts.Order) bool {
	for _, name := range asked.Named(pod) {
		has := slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
			return s.Name == name && s.ContainerID != ""
		})
		if !has {
			return false
		}
	}
	return true
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
