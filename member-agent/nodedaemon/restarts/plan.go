// Package restarts serves the ContainerRecreateRequests of one node: it stops containers through the container
// runtime, and the kubelet starts them again.
//
//	plan.go    pure: the requests of one pod, its containers and the stops so far → statuses, and the next stop
//	stop.go    one stop: the hook of the container, then the container
//	serve.go   watches the requests of the node, and carries out plans
//
// # Rules
//
// A pod has one request at a time, and one stop at a time. The status says which container is stopped before the
// runtime is asked to: so a daemon that starts again in the middle of a stop knows which container that was. A
// container is named by its ID, and a request stops at most one ID of each name. Stopping an ID twice is harmless,
// because the runtime stops it once.
package restarts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// leastGrace is how long a container has to stop after its hook, at least.
const leastGrace = 2 * time.Second

// longest bounds fields in seconds, whose nanoseconds might not fit.
const longest = 90 * 365 * 24 * time.Hour

// stopping begins the message of a container that is being stopped; its ID follows.
const stopping = "stopping "

// Container is the newest container of a name in the pod, as the runtime lists it.
type Container struct {
	// ID is the runtime's, without the name of the runtime.
	ID       string
	Running  bool
	Restarts int32
	// StartedAt is by the clock of the node, zero if the container never ran.
	StartedAt time.Time
	// Seen is when the daemon first saw the container running.
	Seen time.Time
}

// StopKey names a stop: a request stops a container of each name at most once.
type StopKey struct {
	Request   types.UID
	Container string
}

// Outcome is how a stop ended.
type Outcome struct {
	// Failure says why the container could not be stopped; empty: it stopped.
	Failure string
}

// Facts are what a plan is made of.
type Facts struct {
	// Requests are all ContainerRecreateRequests of the pod.
	Requests []*v1beta1.ContainerRecreateRequest
	// Containers are the newest ones of each name, listed after the last stop ended.
	Containers map[string]Container
	// Running is the stop that has not ended; nil: there is none. It may belong to a request that is gone.
	Running *StopKey
	// Ended are the stops that have ended since the daemon started.
	Ended map[StopKey]Outcome
	// Unready is when the daemon first saw that the pod is not ready because of a request.
	Unready map[types.UID]time.Time
	Now     time.Time
}

// Stop is a container to stop.
type Stop struct {
	StopKey
	ID      string
	Grace   time.Duration
	PreStop *v1beta1.ContainerRecreateRequestContainer
}

// Update is a status to write.
type Update struct {
	Request *v1beta1.ContainerRecreateRequest
	Status  v1beta1.ContainerRecreateRequestStatus
}

// Plan is what one pass does. The updates are written first, under the resource versions of their requests; after an
// error nothing else happens.
type Plan struct {
	Updates []Update
	// Stop is the next container to stop; nil: none.
	Stop *Stop
	// Wait is how long until something is due that no event reports; 0: nothing is.
	Wait time.Duration
}

// Make returns the plan.
func Make(f Facts) Plan {
	plan := Plan{}
	requests := slices.Clone(f.Requests)
	slices.SortFunc(requests, order)
	var served *v1beta1.ContainerRecreateRequest
	for _, request := range requests {
		status := request.Status.DeepCopy()
		switch {
		case status.Phase == v1beta1.CRRCompleted:
			f.late(request, status)
		case request.DeletionTimestamp != nil:
		case f.Running != nil && f.Running.Request != request.UID:
			// Another request stops a container of the pod, although it may have ended meanwhile.
			if served == nil {
				f.wait(status, "")
				served = request
			} else {
				f.wait(status, served.Name)
			}
		case served == nil:
			served = request
			f.serve(request, status, &plan)
		default:
			f.wait(status, served.Name)
		}
		if !same(&request.Status, status) {
			plan.Updates = append(plan.Updates, Update{Request: request, Status: *status})
		}
	}
	return plan
}

// order puts the request to serve first: one that is being served, then the oldest.
func order(a, b *v1beta1.ContainerRecreateRequest) int {
	rank := func(r *v1beta1.ContainerRecreateRequest) int {
		if r.Status.Phase == v1beta1.CRRRecreating {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Name, b.Name))
}

// wait makes a request wait for another one.
func (f Facts) wait(status *v1beta1.ContainerRecreateRequestStatus, other string) {
	if status.Phase == v1beta1.CRRRecreating {
		return // it has begun, and goes on
	}
	status.Phase = v1beta1.CRRPending
	status.Message = "another request still stops a container of this pod"
	if other != "" {
		status.Message = fmt.Sprintf("request %s of this pod comes first", other)
	}
}

// late reports the end of a stop that began before its request ended, for example because of its deadline.
func (f Facts) late(request *v1beta1.ContainerRecreateRequest, status *v1beta1.ContainerRecreateRequestStatus) {
	for i := range status.ContainerRecreateStates {
		state := &status.ContainerRecreateStates[i]
		outcome, ended := f.Ended[StopKey{request.UID, state.Name}]
		if ended && outcome.Failure == "" {
			state.IsKilled = true
		}
	}
}

// serve goes on with the request.
func (f Facts) serve(
	request *v1beta1.ContainerRecreateRequest, status *v1beta1.ContainerRecreateRequestStatus, plan *Plan,
) {
	if status.Phase != v1beta1.CRRRecreating {
		status.Phase, status.Message = v1beta1.CRRRecreating, ""
		status.ContainerRecreateStates = fresh(request)
	}
	held := f.held(request, plan)
	s := pass{Facts: f, request: request, plan: plan, held: held, strategy: strategyOf(request)}
	for i := range request.Spec.Containers {
		container := &request.Spec.Containers[i]
		state := stateOf(status, container.Name)
		s.decide(container, state)
		if state.Phase == v1beta1.CRRFailed && s.strategy.FailurePolicy != v1beta1.CRRIgnore {
			s.abandon(status, state)
			return
		}
		if s.strategy.OrderedRecreate && !final(state) {
			break
		}
	}
	complete(status, f.Now)
}

// abandon ends the request, because a container could not be stopped.
func (p *pass) abandon(status *v1beta1.ContainerRecreateRequestStatus, state *v1beta1.ContainerRecreateState) {
	p.plan.Stop = nil
	end(status, p.Now, fmt.Sprintf("container %s failed and failurePolicy is Fail: %s", state.Name, state.Message))
}

// complete ends the request if all containers are through.
func complete(status *v1beta1.ContainerRecreateRequestStatus, now time.Time) {
	failed := 0
	for i := range status.ContainerRecreateStates {
		state := &status.ContainerRecreateStates[i]
		if !final(state) {
			return
		}
		if state.Phase == v1beta1.CRRFailed {
			failed++
		}
	}
	message := ""
	if failed > 0 {
		message = fmt.Sprintf("%d of %d containers failed", failed, len(status.ContainerRecreateStates))
	}
	end(status, now, message)
}

func end(status *v1beta1.ContainerRecreateRequestStatus, now time.Time, message string) {
	status.Phase, status.Message = v1beta1.CRRCompleted, message
	status.CompletionTime = new(metav1.NewTime(now.Truncate(time.Second)))
}

// fresh returns the states of a request that begins.
func fresh(request *v1beta1.ContainerRecreateRequest) []v1beta1.ContainerRecreateState {
	states := make([]v1beta1.ContainerRecreateState, len(request.Spec.Containers))
	for i := range states {
		states[i] = v1beta1.ContainerRecreateState{
			Name: request.Spec.Containers[i].Name, Phase: v1beta1.CRRPending,
		}
	}
	return states
}

// stateOf returns the state of a container. It adds one that is missing.
func stateOf(status *v1beta1.ContainerRecreateRequestStatus, name string) *v1beta1.ContainerRecreateState {
	named := func(state v1beta1.ContainerRecreateState) bool { return state.Name == name }
	i := slices.IndexFunc(status.ContainerRecreateStates, named)
	if i < 0 {
		i = len(status.ContainerRecreateStates)
		status.ContainerRecreateStates = append(status.ContainerRecreateStates,
			v1beta1.ContainerRecreateState{Name: name, Phase: v1beta1.CRRPending})
	}
	return &status.ContainerRecreateStates[i]
}

func strategyOf(request *v1beta1.ContainerRecreateRequest) v1beta1.ContainerRecreateRequestStrategy {
	if request.Spec.Strategy == nil {
		return v1beta1.ContainerRecreateRequestStrategy{}
	}
	return *request.Spec.Strategy
}

// held reports whether the request may stop no container yet: the pod is to be not ready for a while first.
func (f Facts) held(request *v1beta1.ContainerRecreateRequest, plan *Plan) bool {
	grace := strategyOf(request).UnreadyGracePeriodSeconds
	if grace == nil {
		return false
	}
	i := slices.IndexFunc(request.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == v1beta1.ConditionPreRecreateGrace && c.Status == metav1.ConditionTrue
	})
	if i < 0 {
		return true
	}
	rest := remaining(f.Now, duration(*grace), request.Status.Conditions[i].LastTransitionTime.Time,
		f.Unready[request.UID])
	plan.sooner(rest)
	return rest > 0
}

// remaining returns how much of the time is left that began at start. Clocks may have been set back, and that of the
// agent may be another one: so the time ends at the latest when it has passed since the daemon saw it begin.
func remaining(now time.Time, needed time.Duration, start, seen time.Time) time.Duration {
	rest := needed - now.Sub(start)
	if !seen.IsZero() {
		rest = min(rest, needed-now.Sub(seen))
	}
	return max(0, min(rest, needed))
}

// duration returns a number of seconds.
func duration(seconds int64) time.Duration {
	return time.Duration(min(seconds, int64(longest/time.Second))) * time.Second
}

// sooner makes the plan be made again after wait at the latest; 0 changes nothing.
func (p *Plan) sooner(wait time.Duration) {
	if wait > 0 && (p.Wait == 0 || wait < p.Wait) {
		p.Wait = wait
	}
}

// pass is one pass over the containers of the request that is served.
type pass struct {
	Facts
	request  *v1beta1.ContainerRecreateRequest
	strategy v1beta1.ContainerRecreateRequestStrategy
	plan     *Plan
	// held: no stop begins.
	held bool
}

// decide brings the state of one container up to date, and plans its stop.
func (p *pass) decide(wanted *v1beta1.ContainerRecreateRequestContainer, state *v1beta1.ContainerRecreateState) {
	if final(state) {
		return
	}
	key := StopKey{p.request.UID, wanted.Name}
	if p.Running != nil && *p.Running == key {
		return // its message says what is being stopped
	}
	if wanted.StatusContext == nil {
		state.Phase, state.Message = v1beta1.CRRFailed,
			"statusContext is missing: the request was not filled in when it was created; create another one"
		return
	}
	target := targetOf(state)
	if outcome, ended := p.Ended[key]; ended {
		if outcome.Failure != "" {
			state.Phase, state.Message = v1beta1.CRRFailed, "kill container error: "+outcome.Failure
			return
		}
		state.IsKilled, state.Message = true, ""
	}
	current, found := p.Containers[wanted.Name]
	if !found {
		p.missing(target, state)
		return
	}
	p.proceed(key, target, wanted, current, state)
}

// proceed brings the state of a container that the runtime lists up to date, and plans its stop.
// target is the ID of the one that was being stopped.
func (p *pass) proceed(key StopKey, target string, wanted *v1beta1.ContainerRecreateRequestContainer, current Container,
	state *v1beta1.ContainerRecreateState) {
	if target != "" && !state.IsKilled && (current.ID != target || !current.Running) {
		// The stop ended while no daemon ran.
		state.IsKilled, state.Message = true, ""
	}
	state.Phase = v1beta1.CRRRecreating
	switch restarted := restarted(wanted, current); {
	case state.IsKilled, restarted && !p.strategy.ForceRecreate:
		state.Message = ""
		if restarted {
			p.judge(current, state)
		}
	case current.Running:
		p.stop(key, wanted, current, state)
	}
}

// targetOf returns the ID of the container that is being stopped, "" if none is.
func targetOf(state *v1beta1.ContainerRecreateState) string {
	if id, found := strings.CutPrefix(state.Message, stopping); found {
		return id
	}
	return ""
}

// missing is the state of a container that the runtime does not list. One whose stop had begun has stopped.
func (p *pass) missing(target string, state *v1beta1.ContainerRecreateState) {
	switch {
	case target != "":
		state.IsKilled = true
	case !state.IsKilled:
		state.Phase = v1beta1.CRRPending
	}
	state.Message = "not found container on Node"
}

// restarted reports whether the container is another one than when the request was created.
func restarted(wanted *v1beta1.ContainerRecreateRequestContainer, current Container) bool {
	context := wanted.StatusContext
	return bare(context.ContainerID) != current.ID || current.Restarts > context.RestartCount
}

// bare returns a container's ID without the name of the runtime.
func bare(id string) string {
	if _, after, found := strings.Cut(id, "://"); found {
		return after
	}
	return id
}

// stop plans to stop the container, unless another stop comes first.
func (p *pass) stop(
	key StopKey, wanted *v1beta1.ContainerRecreateRequestContainer, current Container,
	state *v1beta1.ContainerRecreateState,
) {
	if p.held || p.Running != nil || p.plan.Stop != nil {
		if !strings.HasPrefix(state.Message, stopping) {
			state.Phase, state.Message = v1beta1.CRRPending, ""
		}
		return
	}
	state.Message = stopping + current.ID
	grace := time.Duration(0)
	if seconds := p.strategy.TerminationGracePeriodSeconds; seconds != nil {
		grace = duration(*seconds)
	}
	p.plan.Stop = &Stop{StopKey: key, ID: current.ID, Grace: grace, PreStop: wanted}
}

// judge reports whether the new container counts as restarted: the agent saw it ready, and it has run long enough.
func (p *pass) judge(current Container, state *v1beta1.ContainerRecreateState) {
	ready := slices.ContainsFunc(p.request.Status.ContainerStatusSnapshot, func(s v1beta1.ContainerStatusSnapshot) bool {
		return s.Name == state.Name && s.Ready && bare(s.ContainerID) == current.ID
	})
	if !ready || !current.Running {
		return
	}
	needed := duration(int64(p.strategy.MinStartedSeconds))
	if rest := remaining(p.Now, needed, current.StartedAt, current.Seen); rest > 0 {
		p.plan.sooner(rest)
		return
	}
	state.Phase = v1beta1.CRRSucceeded
}

// final reports whether the request is through with a container.
func final(state *v1beta1.ContainerRecreateState) bool {
	return state.Phase == v1beta1.CRRSucceeded || state.Phase == v1beta1.CRRFailed
}

// same reports whether two statuses have the same of what the daemon writes.
func same(a, b *v1beta1.ContainerRecreateRequestStatus) bool {
	return a.Phase == b.Phase && a.Message == b.Message && a.CompletionTime.Equal(b.CompletionTime) &&
		slices.Equal(a.ContainerRecreateStates, b.ContainerRecreateStates)
}
