package daemons

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/images"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/restarts"
)

// longestStop is how long a container takes to stop at most.
const longestStop = time.Second

// memory is what a daemon forgets when it is killed.
type memory struct {
	pods    map[types.UID]*podMemory
	running map[images.Key]*pulling
	records map[images.Key]images.Record
}

func newMemory() memory {
	return memory{pods: map[types.UID]*podMemory{}, running: map[images.Key]*pulling{},
		records: map[images.Key]images.Record{}}
}

// podMemory is what a daemon remembers of a pod with requests.
type podMemory struct {
	running *restarts.Stop
	// until is when running ends, stop what is reported of it.
	until   time.Time
	stop    Stop
	ended   map[restarts.StopKey]restarts.Outcome
	unready map[types.UID]time.Time
}

// restart serves the requests of a node.
func (m *Member) restart(
	ctx context.Context, n *node, w *world, requests map[types.UID][]*v1beta1.ContainerRecreateRequest, now time.Time,
) error {
	var errs error
	for _, pod := range n.pods { // also those whose requests are gone meanwhile
		if pod.running != nil && !now.Before(pod.until) {
			pod.ended[pod.running.StopKey] = restarts.Outcome{}
			m.end(pod)
		}
	}
	for uid, list := range requests {
		pod := n.pods[uid]
		if pod == nil {
			pod = &podMemory{ended: map[restarts.StopKey]restarts.Outcome{}, unready: map[types.UID]time.Time{}}
			n.pods[uid] = pod
		}
		errs = errors.Join(errs, m.serve(ctx, pod, w.pods[uid], list, now))
	}
	return errs
}

// serve makes and carries out the plan for one pod.
func (m *Member) serve(
	ctx context.Context, known *podMemory, pod *corev1.Pod, requests []*v1beta1.ContainerRecreateRequest, now time.Time,
) error {
	f := restarts.Facts{Requests: requests, Containers: m.containers(pod), Ended: maps.Clone(known.ended),
		Unready: known.unready, Now: now}
	for _, request := range requests {
		if _, seen := known.unready[request.UID]; !seen && len(request.Status.Conditions) > 0 {
			known.unready[request.UID] = now
		}
	}
	if known.running != nil {
		f.Running = &known.running.StopKey
	}
	plan := restarts.Make(f)
	for _, update := range plan.Updates {
		changed := update.Request.DeepCopy()
		changed.Status = update.Status
		patch := client.MergeFromWithOptions(update.Request, client.MergeFromWithOptimisticLock{})
		if err := m.client.Status().Patch(ctx, changed, patch); err != nil {
			return unless(err, "ContainerRecreateRequest", changed.Name) // nothing else happens
		}
	}
	if plan.Stop == nil {
		return nil
	}
	known.running, known.until = plan.Stop, now.Add(m.upTo(longestStop))
	for _, request := range requests {
		if request.UID == plan.Stop.Request {
			known.stop = stopOf(request, plan.Stop)
		}
	}
	return nil
}

// stopOf returns what is reported of a stop.
func stopOf(request *v1beta1.ContainerRecreateRequest, stop *restarts.Stop) Stop {
	out := Stop{Namespace: request.Namespace, Pod: request.Spec.PodName, Request: request.Name,
		UID: types.UID(request.Labels[v1beta1.LabelCRRPodUID]), RequestUID: request.UID,
		Container: stop.Container, ID: stop.ID}
	for i := range request.Spec.Containers {
		if c := &request.Spec.Containers[i]; c.Name == stop.Container && c.StatusContext != nil {
			_, out.Wanted, _ = strings.Cut(c.StatusContext.ContainerID, "://")
		}
	}
	return out
}

// end lets the runtime stop the container of a stop that was begun. One that has stopped by itself stays as it is.
func (m *Member) end(pod *podMemory) {
	if !m.stopped[pod.running.ID] {
		m.stopped[pod.running.ID] = true
		if m.Stopped != nil {
			m.Stopped(pod.stop)
		}
	}
	pod.running = nil
}

// containers returns the containers of a pod as its runtime has them.
func (m *Member) containers(pod *corev1.Pod) map[string]restarts.Container {
	out := map[string]restarts.Container{}
	if pod == nil {
		return out
	}
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		_, id, found := strings.Cut(status.ContainerID, "://")
		if !found {
			continue
		}
		c := restarts.Container{ID: id, Restarts: status.RestartCount}
		if running := status.State.Running; running != nil && !m.stopped[id] {
			c.Running, c.StartedAt = true, running.StartedAt.Time
		}
		out[status.Name] = c
	}
	return out
}

// startContainers tells of the containers that have stopped, as kubelets do. The simulated kubelet starts them again.
func (m *Member) startContainers(ctx context.Context, w *world, now time.Time) error {
	var errs error
	for _, pod := range w.pods {
		changed := false
		for i := range pod.Status.ContainerStatuses {
			status := &pod.Status.ContainerStatuses[i]
			_, id, _ := strings.Cut(status.ContainerID, "://")
			if running := status.State.Running; running != nil && m.stopped[id] {
				status.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed",
					ContainerID: status.ContainerID, StartedAt: running.StartedAt, FinishedAt: metav1.NewTime(now)}}
				status.Ready = false
				changed = true
			}
		}
		if changed {
			errs = errors.Join(errs, unless(m.client.Status().Update(ctx, pod), "pod", pod.Name))
		}
	}
	return errs
}
