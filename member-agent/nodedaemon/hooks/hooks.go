// Package hooks runs the preStop hooks of containers as the kubelet does, but for the host of httpGet: only the pod
// itself is asked, since the daemon may reach what the user does not.
package hooks

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

	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	internalapi "k8s.io/cri-api/pkg/apis"
	"k8s.io/utils/clock"
	utilexec "k8s.io/utils/exec"
)

// mostOutput bounds what is shown of a command's output, in bytes.
const mostOutput = 256

// Hook is the preStop hook of a container; one without an action does nothing.
type Hook struct {
	Exec    *corev1.ExecAction
	HTTPGet *corev1.HTTPGetAction
	Sleep   *corev1.SleepAction
	// Ports are those of the container: httpGet may name one.
	Ports []corev1.ContainerPort
	// Address returns the address of the pod. It is asked for httpGet alone.
	Address func(context.Context) (string, error)
}

// Of returns the preStop hook of a container whose pod has this address, "" for none yet.
func Of(container *corev1.Container, address string) Hook {
	hook := Hook{Ports: container.Ports, Address: func(context.Context) (string, error) {
		if address == "" {
			return "", errors.New("the pod has no address")
		}
		return address, nil
	}}
	if container.Lifecycle != nil && container.Lifecycle.PreStop != nil {
		action := container.Lifecycle.PreStop
		hook.Exec, hook.HTTPGet, hook.Sleep = action.Exec, action.HTTPGet, action.Sleep
	}
	return hook
}

// Runner runs hooks.
type Runner struct {
	Runtime internalapi.RuntimeService
	Clock   clock.WithTicker
}

// Run runs the hook of the container with this ID, for at most the grace period. It errs if the hook failed, in a text
// that may be shown.
func (r Runner) Run(ctx context.Context, hook Hook, id string, grace time.Duration) error {
	if grace <= 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	switch {
	case hook.Exec != nil:
		return r.exec(ctx, hook.Exec.Command, id, grace)
	case hook.HTTPGet != nil:
		if err := hook.get(ctx); err != nil {
			return fmt.Errorf("httpGet: %w", err)
		}
	case hook.Sleep != nil:
		r.sleep(ctx, time.Duration(hook.Sleep.Seconds)*time.Second)
	}
	return nil
}

// exec runs a command in the container.
func (r Runner) exec(ctx context.Context, command []string, id string, grace time.Duration) error {
	_, stderr, err := r.Runtime.ExecSync(ctx, id, command, grace)
	if err == nil {
		return nil
	}
	text := status.Convert(err).Message()
	if exit := utilexec.ExitError(nil); errors.As(err, &exit) {
		text = fmt.Sprintf("exit code %d", exit.ExitStatus())
	}
	if output := short(stderr); output != "" {
		text += ": " + output
	}
	return fmt.Errorf("exec: %s", text)
}

func short(output []byte) string {
	return strings.TrimSpace(strings.ToValidUTF8(string(output[:min(len(output), mostOutput)]), ""))
}

// sleep waits, until the context ends at the latest.
func (r Runner) sleep(ctx context.Context, wait time.Duration) {
	timer := r.Clock.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
}

// get sends the request of a hook to the pod.
func (h Hook) get(ctx context.Context) error {
	address, err := h.Address(ctx)
	if err != nil {
		return err
	}
	action := h.HTTPGet
	if action.Host != "" && action.Host != address {
		return fmt.Errorf("host %s is not the address of the pod: leave host out", action.Host)
	}
	port, err := h.port(action.Port)
	if err != nil {
		return err
	}
	scheme := "http"
	if action.Scheme == corev1.URISchemeHTTPS {
		scheme = "https"
	}
	url := scheme + "://" + net.JoinHostPort(address, strconv.Itoa(port)) + "/" + strings.TrimPrefix(action.Path, "/")
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
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
		return err
	}
	_ = response.Body.Close() // nothing of it is read
	return nil
}

// port returns the number of a port, which may be given by its name.
func (h Hook) port(port intstr.IntOrString) (int, error) {
	if port.Type == intstr.Int {
		return port.IntValue(), nil
	}
	for _, p := range h.Ports {
		if p.Name == port.StrVal {
			return int(p.ContainerPort), nil
		}
	}
	if number, err := strconv.Atoi(port.StrVal); err == nil {
		return number, nil
	}
	return 0, fmt.Errorf("the container has no port %s", port.StrVal)
}
