package restarts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	internalapi "k8s.io/cri-api/pkg/apis"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/cri"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/hooks"
)

// podOf names the pod of a request.
type podOf struct {
	types.NamespacedName
	UID types.UID
}

// reference is the pod as events name it.
func (p podOf) reference() *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}

// stopper stops containers.
type stopper struct {
	runtime internalapi.RuntimeService
	live    client.Reader
	events  events.EventRecorder
	clock   clock.WithTicker
}

// stop runs the hook of the container and stops it. It takes as long as the grace period, and the runtime, need. A
// hook that fails does not keep the container running, as with the kubelet. It reports false if the connection to the
// runtime broke: the container may have stopped or not, and the next pass finds out.
func (s *stopper) stop(ctx context.Context, pod podOf, request string, stop Stop) (outcome Outcome, ended bool) {
	s.event(pod, corev1.EventTypeNormal, "Killing",
		fmt.Sprintf("Stopping container %s for ContainerRecreateRequest %s", stop.Container, request))
	ctx = cri.Quiet(ctx) // failures are reported
	begun := s.clock.Now()
	runner := hooks.Runner{Runtime: s.runtime, Clock: s.clock}
	if err := runner.Run(ctx, s.hookOf(pod, stop), stop.ID, stop.Grace); err != nil {
		s.event(pod, corev1.EventTypeWarning, "FailedPreStopHook",
			fmt.Sprintf("The preStop hook of container %s failed, and the container is stopped: %v", stop.Container, err))
	}
	rest := max(stop.Grace-s.clock.Since(begun), leastGrace)
	err := s.runtime.StopContainer(ctx, stop.ID, int64((rest+time.Second-1)/time.Second))
	switch status.Code(err) {
	case codes.OK, codes.NotFound:
		return Outcome{}, true
	case codes.Unavailable, codes.Canceled:
		return Outcome{}, false
	}
	return Outcome{Failure: status.Convert(err).Message()}, true
}

// event makes an event on the pod.
func (s *stopper) event(pod podOf, kind, reason, text string) {
	s.events.Eventf(pod.reference(), nil, kind, reason, "RestartContainer", "%s", nodedaemon.Note(text))
}

// hookOf returns the preStop hook of the container.
func (s *stopper) hookOf(pod podOf, stop Stop) hooks.Hook {
	hook := hooks.Hook{Address: func(ctx context.Context) (string, error) { return s.address(ctx, pod) }}
	if stop.PreStop != nil && stop.PreStop.PreStop != nil { // tcpSocket does nothing in a hook
		action := stop.PreStop.PreStop
		hook.Exec, hook.HTTPGet, hook.Sleep, hook.Ports = action.Exec, action.HTTPGet, action.Sleep, stop.PreStop.Ports
	}
	return hook
}

// address returns the address of the pod.
func (s *stopper) address(ctx context.Context, of podOf) (string, error) {
	pod := &corev1.Pod{}
	if err := s.live.Get(ctx, of.NamespacedName, pod); err != nil {
		return "", fmt.Errorf("read the address of the pod: %w", err)
	}
	if pod.UID != of.UID || pod.Status.PodIP == "" {
		return "", errors.New("the pod has no address")
	}
	return pod.Status.PodIP, nil
}
