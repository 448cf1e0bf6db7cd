package meta

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
)

const (
	// defaultGrace is that of pods, and leastGrace what is left of it after a hook at least.
	defaultGrace, leastGrace = 30 * time.Second, 2 * time.Second
)

// stop stops a container: its preStop hook, then the rest of the grace period. A hook that fails does not keep it from
// being stopped, as with the kubelet. One that is gone is no error.
func (r *reconciler) stop(ctx context.Context, pod *corev1.Pod, container *corev1.Container, id string) error {
	grace := defaultGrace
	if seconds := pod.Spec.TerminationGracePeriodSeconds; seconds != nil {
		grace = time.Duration(*seconds) * time.Second
	}
	r.env.Events.Eventf(pod, nil, corev1.EventTypeNormal, "Killing", "RestartContainer",
		"Stopping container %s, which is to see changed labels or annotations", container.Name)
	begun := r.env.Clock.Now()
	if err := r.hook(ctx, pod, container, id, grace); err != nil {
		r.env.Events.Eventf(pod, nil, corev1.EventTypeWarning, "FailedPreStopHook", "RestartContainer",
			"The preStop hook of container %s failed, and the container is stopped: %v", container.Name, err)
	}
	rest := max(grace-r.env.Clock.Since(begun), leastGrace)
	err := r.env.Runtime.StopContainer(ctx, id, int64((rest+time.Second-1)/time.Second))
	if err != nil && status.Code(err) != codes.NotFound {
		return fmt.Errorf("stop container %s: %w", container.Name, err)
	}
	return nil
}

// hook runs the preStop hook of a container, if it has one, for at most the grace period.
func (r *reconciler) hook(
	ctx context.Context, pod *corev1.Pod, container *corev1.Container, id string, grace time.Duration,
) error {
	if grace <= 0 || container.Lifecycle == nil || container.Lifecycle.PreStop == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	switch hook := container.Lifecycle.PreStop; {
	case hook.Exec != nil:
		if _, _, err := r.env.Runtime.ExecSync(ctx, id, hook.Exec.Command, grace); err != nil {
			return fmt.Errorf("exec: %w", err)
		}
	case hook.Sleep != nil:
		timer := r.env.Clock.NewTimer(time.Duration(hook.Sleep.Seconds) * time.Second)
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-ctx.Done():
		}
	case hook.HTTPGet != nil:
		return get(ctx, pod, container, hook.HTTPGet)
	}
	return nil
}

// get sends the request of a hook to the pod. Another host is not asked: the daemon may reach what the user does not.
func get(ctx context.Context, pod *corev1.Pod, container *corev1.Container, action *corev1.HTTPGetAction) error {
	if pod.Status.PodIP == "" || action.Host != "" && action.Host != pod.Status.PodIP {
		return errors.New("httpGet: only the address of the pod is asked: leave host out")
	}
	port := action.Port.String()
	for _, p := range container.Ports {
		if p.Name == action.Port.StrVal && p.Name != "" {
			port = fmt.Sprint(p.ContainerPort)
		}
	}
	scheme := strings.ToLower(string(action.Scheme))
	if scheme == "" {
		scheme = "http"
	}
	target := scheme + "://" + net.JoinHostPort(pod.Status.PodIP, port) + "/" + strings.TrimPrefix(action.Path, "/")
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return fmt.Errorf("httpGet: %w", err)
	}
	for _, header := range action.HTTPHeaders {
		request.Header.Add(header.Name, header.Value)
	}
	once := &http.Client{Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := once.Do(request)
	if err != nil {
		return fmt.Errorf("httpGet: %w", err)
	}
	_ = answer.Body.Close() // nothing of it is read
	return nil
}
