package meta

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/cri"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/hooks"
)

const (
	// defaultGrace is that of pods, and leastGrace what is left of it after a hook at least.
	defaultGrace, leastGrace = 30 * time.Second, 2 * time.Second
)

// run gives stops their context, and waits for them when the daemon ends.
func (r *reconciler) run(ctx context.Context) error {
	r.mu.Lock()
	r.stops = ctx
	r.mu.Unlock()
	<-ctx.Done()
	r.running.Wait()
	return nil
}

// restart stops containers one after the other, beside the passes, for a stop takes as long as the grace period. Its
// end makes the next pass, which returns what failed. The kubelet starts the next containers.
func (r *reconciler) restart(pod *corev1.Pod, names []string) error {
	key := client.ObjectKeyFromObject(pod)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.failed[key]; err != nil {
		delete(r.failed, key)
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		id, _ := runs(pod, name)
		return r.stopped[id]
	})
	if len(names) == 0 || r.stopping[key] || r.stops == nil || r.stops.Err() != nil {
		return nil
	}
	r.stopping[key] = true
	ctx := r.stops
	r.running.Go(func() {
		err := r.stopAll(ctx, pod, names)
		r.mu.Lock()
		delete(r.stopping, key)
		if err != nil {
			r.failed[key] = err
		}
		r.mu.Unlock()
		select {
		case r.ended <- event.GenericEvent{Object: &metav1.PartialObjectMetadata{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}}:
		case <-ctx.Done():
		}
	})
	return nil
}

// stopAll stops containers, until one cannot be stopped.
func (r *reconciler) stopAll(ctx context.Context, pod *corev1.Pod, names []string) error {
	for _, name := range names {
		id, _ := runs(pod, name)
		at := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == name })
		if err := r.stop(cri.Quiet(ctx), pod, &pod.Spec.Containers[at], id); err != nil {
			return fmt.Errorf("restart container %s of pod %s: %w", name, client.ObjectKeyFromObject(pod), err)
		}
		r.mu.Lock()
		r.stopped[id] = true
		r.mu.Unlock()
	}
	return nil
}

// stop stops a container: its preStop hook, then the rest of the grace period. A hook that fails does not keep it from
// being stopped, as with the kubelet, and no hook runs twice. A container that does not run is no error.
func (r *reconciler) stop(ctx context.Context, pod *corev1.Pod, container *corev1.Container, id string) error {
	answer, err := r.env.Runtime.ContainerStatus(ctx, id, false)
	if status.Code(err) == codes.NotFound ||
		err == nil && answer.GetStatus().GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return nil
	}
	if err != nil {
		return fmt.Errorf("ask whether it runs: %w", err)
	}
	grace := defaultGrace
	if seconds := pod.Spec.TerminationGracePeriodSeconds; seconds != nil {
		grace = time.Duration(*seconds) * time.Second
	}
	begun := r.env.Clock.Now()
	if r.first(id) {
		r.hook(ctx, pod, container, id, grace)
	}
	rest := max(grace-r.env.Clock.Since(begun), leastGrace)
	err = r.env.Runtime.StopContainer(ctx, id, int64((rest+time.Second-1)/time.Second))
	if err != nil && status.Code(err) != codes.NotFound {
		return fmt.Errorf("stop container %s: %w", container.Name, err)
	}
	return nil
}

// first reports whether the hook of the container has not run yet, and notes that it runs.
func (r *reconciler) first(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.hooked[id]
	r.hooked[id] = true
	return !before
}

// hook says that the container is stopped, and runs its preStop hook.
func (r *reconciler) hook(
	ctx context.Context, pod *corev1.Pod, container *corev1.Container, id string, grace time.Duration,
) {
	r.event(pod, corev1.EventTypeNormal, "Killing",
		fmt.Sprintf("Stopping container %s, which is to see changed labels or annotations", container.Name))
	runner := hooks.Runner{Runtime: r.env.Runtime, Clock: r.env.Clock}
	if err := runner.Run(ctx, hooks.Of(container, pod.Status.PodIP), id, grace); err != nil {
		r.event(pod, corev1.EventTypeWarning, "FailedPreStopHook",
			fmt.Sprintf("The preStop hook of container %s failed, and the container is stopped: %v", container.Name, err))
	}
}

// event makes an event on the pod.
func (r *reconciler) event(pod *corev1.Pod, kind, reason, text string) {
	r.env.Events.Eventf(pod, nil, kind, reason, "RestartContainer", "%s", nodedaemon.Note(text))
}
