package restarts

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	internalapi "k8s.io/cri-api/pkg/apis"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/cri"
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
	s.events.Eventf(pod.reference(), nil, corev1.EventTypeNormal, "Killing", "RestartContainer",
		"Stopping container %s for ContainerRecreateRequest %s", stop.Container, request)
	ctx = cri.Quiet(ctx) // failures are reported
	begun := s.clock.Now()
	if stop.Grace > 0 {
		if err := s.hook(ctx, pod, stop); err != nil {
			s.events.Eventf(pod.reference(), nil, corev1.EventTypeWarning, "FailedPreStopHook", "RestartContainer",
				"The preStop hook of container %s failed, and the container is stopped: %v", stop.Container, err)
		}
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

// hook runs the preStop hook, if there is one, for at most the grace period.
func (s *stopper) hook(ctx context.Context, pod podOf, stop Stop) error {
	if stop.PreStop == nil || stop.PreStop.PreStop == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stop.Grace)
	defer cancel()
	switch hook := stop.PreStop.PreStop; {
	case hook.Exec != nil:
		_, stderr, err := s.runtime.ExecSync(ctx, stop.ID, hook.Exec.Command, stop.Grace)
		if err != nil {
			return fmt.Errorf("exec: %s %s", status.Convert(err).Message(), short(stderr))
		}
	case hook.HTTPGet != nil:
		return s.get(ctx, pod, hook.HTTPGet, stop.PreStop.Ports)
	case hook.Sleep != nil:
		s.sleep(ctx, time.Duration(hook.Sleep.Seconds)*time.Second)
	}
	return nil // tcpSocket does nothing in a hook
}

// sleep waits, until the context ends at the latest.
func (s *stopper) sleep(ctx context.Context, wait time.Duration) {
	timer := s.clock.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
}

// mostOutput bounds what an event shows of a command's output, in bytes.
const mostOutput = 256

func short(output []byte) string {
	return strings.ToValidUTF8(string(output[:min(len(output), mostOutput)]), "")
}

// get sends the request of a hook to the pod. Another host is not asked: the daemon may reach what the user does not.
func (s *stopper) get(
	ctx context.Context, of podOf, action *corev1.HTTPGetAction, ports []corev1.ContainerPort,
) error {
	pod := &corev1.Pod{}
	if err := s.live.Get(ctx, of.NamespacedName, pod); err != nil {
		return fmt.Errorf("httpGet: read the address of the pod: %w", err)
	}
	address := pod.Status.PodIP
	switch {
	case pod.UID != of.UID || address == "":
		return errors.New("httpGet: the pod has no address")
	case action.Host != "" && action.Host != address:
		return fmt.Errorf("httpGet: host %s is not the address of the pod: leave host out", action.Host)
	}
	port, err := portOf(action.Port, ports)
	if err != nil {
		return fmt.Errorf("httpGet: %w", err)
	}
	scheme := "http"
	if action.Scheme == corev1.URISchemeHTTPS {
		scheme = "https"
	}
	url := scheme + "://" + net.JoinHostPort(address, strconv.Itoa(port)) + "/" + strings.TrimPrefix(action.Path, "/")
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("httpGet: %w", err)
	}
	for _, header := range action.HTTPHeaders {
		request.Header.Add(header.Name, header.Value)
		if http.CanonicalHeaderKey(header.Name) == "Host" {
			request.Host = header.Value
		}
	}
	return send(request)
}

// send sends the request of a hook. As with the kubelet, certificates of pods are not verified, and any answer is one.
func send(request *http.Request) error {
	transport := &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}, //nolint:gosec // see above
	}
	sender := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // a pod does not say what else is asked
	}}
	response, err := sender.Do(request)
	if err != nil {
		return fmt.Errorf("httpGet: %w", err)
	}
	_ = response.Body.Close() // nothing of it is read
	return nil
}

// portOf returns the number of a port, which may be given by its name.
func portOf(port intstr.IntOrString, ports []corev1.ContainerPort) (int, error) {
	if port.Type == intstr.Int {
		return port.IntValue(), nil
	}
	for _, p := range ports {
		if p.Name == port.StrVal {
			return int(p.ContainerPort), nil
		}
	}
	if number, err := strconv.Atoi(port.StrVal); err == nil {
		return number, nil
	}
	return 0, fmt.Errorf("the container has no port %s", port.StrVal)
}
