package probes

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	internalapi "k8s.io/cri-api/pkg/apis"
	utilexec "k8s.io/utils/exec"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
)

// graceOfExec is how long after its timeout the runtime may take to end a command.
const graceOfExec = 2 * time.Second

// mostBody is how much of an answer is read, so that the connection can end well.
const mostBody = 10 << 10

// checker runs probes.
type checker struct {
	runtime internalapi.RuntimeService
	client  *http.Client
	// dial opens a connection.
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// newChecker returns a checker. Its connections are used once: pods come and go, and a probe is to see that one can
// connect.
func newChecker(runtime internalapi.RuntimeService) *checker {
	c := &checker{runtime: runtime, dial: (&net.Dialer{}).DialContext}
	transport := &http.Transport{
		DisableKeepAlives: true, Proxy: nil,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return c.dial(ctx, network, address)
		},
		// As the kubelet: a probe asks whether the pod answers, not whose certificate it has.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
	}
	c.client = &http.Client{Transport: transport, CheckRedirect: stayOnHost}
	return c
}

// errElsewhere is a redirect to another host. As the kubelet does, it is taken for success, and not followed.
var errElsewhere = errors.New("a redirect to another host")

func stayOnHost(request *http.Request, via []*http.Request) error {
	if request.URL.Hostname() != via[0].URL.Hostname() {
		return errElsewhere
	}
	if len(via) >= 10 {
		return errors.New("more than 10 redirects")
	}
	return nil
}

// run runs a probe once.
func (c *checker) run(
	ctx context.Context, spec *v1alpha1.ContainerProbeSpec, limits timing, container, address string,
) outcome {
	switch {
	case spec.Exec != nil:
		return c.exec(ctx, container, spec.Exec.Command, limits.timeout)
	case address == "":
		return outcome{unreachable, "the pod has no address yet"}
	}
	ctx, cancel := context.WithTimeout(ctx, limits.timeout)
	defer cancel()
	switch {
	case spec.HTTPGet != nil:
		return c.get(ctx, spec.HTTPGet, address)
	case spec.TCPSocket != nil:
		return c.connect(ctx, net.JoinHostPort(address, spec.TCPSocket.Port.String()))
	case spec.GRPC != nil:
		return c.ask(ctx, net.JoinHostPort(address, strconv.Itoa(int(spec.GRPC.Port))), spec.GRPC)
	}
	return outcome{unreachable, "the probe has none of exec, httpGet, tcpSocket and grpc"}
}

// exec runs a command in a container.
func (c *checker) exec(ctx context.Context, container string, command []string, timeout time.Duration) outcome {
	ctx, cancel := context.WithTimeout(ctx, timeout+graceOfExec)
	defer cancel()
	stdout, stderr, err := c.runtime.ExecSync(ctx, container, command, timeout)
	var exit utilexec.ExitError
	switch {
	case err == nil:
		return outcome{succeeds, string(stdout)}
	case errors.As(err, &exit):
		text := cmp.Or(strings.TrimSpace(string(stderr)), strings.TrimSpace(string(stdout)))
		return outcome{fails, cmp.Or(text, fmt.Sprintf("the command ended with exit code %d", exit.ExitStatus()))}
	case errors.Is(err, context.DeadlineExceeded), status.Code(err) == codes.DeadlineExceeded,
		strings.Contains(err.Error(), "timed out"):
		return outcome{fails, fmt.Sprintf("the command did not end within %s", timeout)}
	case status.Code(err) == codes.NotFound:
		return outcome{nothing, ""}
	case status.Code(err) == codes.Unavailable:
		return outcome{unreachable, "the container runtime does not answer"}
	}
	return outcome{unreachable, "the command cannot be run: " + stable(err.Error())}
}

// stable returns what a runtime says without the IDs in it, which are others for each attempt: a message that changes
// with every probe is written with every probe.
func stable(text string) string {
	const hexadecimal, uuid = `[0-9a-fA-F]{32,}`, `[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`
	return regexp.MustCompile(hexadecimal+"|"+uuid).ReplaceAllString(text, "…")
}

// get sends a GET request.
func (c *checker) get(ctx context.Context, action *corev1.HTTPGetAction, address string) outcome {
	scheme := strings.ToLower(cmp.Or(string(action.Scheme), string(corev1.URISchemeHTTP)))
	target, err := url.Parse(action.Path)
	if err != nil {
		target = &url.URL{Path: action.Path}
	}
	target.Scheme, target.Host = scheme, net.JoinHostPort(address, action.Port.String())
	var opened atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		ConnectDone: func(_, _ string, err error) { opened.Store(opened.Load() || err == nil) },
	})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return outcome{unreachable, fmt.Sprintf("the request cannot be made: %v", err)}
	}
	request.Header.Set("User-Agent", "flotilla-node")
	request.Header.Set("Accept", "*/*")
	for _, header := range action.HTTPHeaders {
		request.Header.Add(header.Name, header.Value)
		if strings.EqualFold(header.Name, "Host") {
			request.Host = header.Value
		}
	}
	answer, err := c.client.Do(request)
	switch {
	case errors.Is(err, errElsewhere):
		return outcome{succeeds, "redirected to another host"}
	case err != nil:
		return failed(err, target.Host, opened.Load())
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, mostBody) // what the body says does not count
	if answer.StatusCode >= http.StatusOK && answer.StatusCode < http.StatusBadRequest {
		return outcome{succeeds, fmt.Sprintf("HTTP %d", answer.StatusCode)}
	}
	return outcome{fails, fmt.Sprintf("HTTP %d", answer.StatusCode)}
}

// connect opens a connection.
func (c *checker) connect(ctx context.Context, address string) outcome {
	connection, err := c.dial(ctx, "tcp", address)
	if err != nil {
		return failed(err, address, false)
	}
	_ = connection.Close() // it has been opened: that is all
	return outcome{succeeds, "connected"}
}

// ask asks a gRPC health service.
func (c *checker) ask(ctx context.Context, address string, action *corev1.GRPCAction) outcome {
	service, security := "", insecure.NewCredentials()
	if action.Service != nil {
		service = *action.Service
	}
	if action.Mode != nil && *action.Mode == corev1.GRPCProbeModeTLS {
		security = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}) //nolint:gosec // as for HTTPS
	}
	var opened, refused atomic.Bool
	connection, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(security), grpc.WithUserAgent("flotilla-node"),
		grpc.WithContextDialer(func(_ context.Context, at string) (net.Conn, error) {
			to, err := c.dial(ctx, "tcp", at)
			opened.Store(err == nil)
			refused.Store(errors.Is(err, syscall.ECONNREFUSED))
			return to, err
		}))
	if err != nil {
		return outcome{unreachable, fmt.Sprintf("the request cannot be made: %v", err)}
	}
	answer, err := health.NewHealthClient(connection).Check(ctx, &health.HealthCheckRequest{Service: service})
	_ = connection.Close() // the answer is there, or none comes
	switch {
	case err == nil && answer.Status == health.HealthCheckResponse_SERVING:
		return outcome{succeeds, answer.Status.String()}
	case err == nil:
		return outcome{fails, answer.Status.String()}
	case status.Code(err) == codes.Unimplemented:
		return outcome{fails, "the pod does not implement the gRPC health protocol"}
	case status.Code(err) == codes.NotFound:
		return outcome{fails, fmt.Sprintf("the health service does not know service %q", service)}
	case refused.Load():
		err = syscall.ECONNREFUSED
	}
	return failed(err, address, opened.Load())
}

// failed tells a pod that refuses a connection, or answers too late on one that was opened, from one that cannot be
// reached.
func failed(err error, address string, opened bool) outcome {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return outcome{fails, fmt.Sprintf("%s refuses connections", address)}
	case !opened:
		return outcome{unreachable, fmt.Sprintf("%s does not answer: a NetworkPolicy may keep flotilla-node out; allow it, "+
			"or set hostNetwork of its chart", address)}
	case errors.Is(err, context.DeadlineExceeded), status.Code(err) == codes.DeadlineExceeded:
		return outcome{fails, fmt.Sprintf("%s did not answer in time", address)}
	}
	// Texts that are others for each attempt do not count: that of gRPC has the port of this side, and what is malformed
	// may be anything.
	if answer, ok := status.FromError(err); ok {
		return outcome{fails, fmt.Sprintf("%s does not answer as a gRPC health service: %s", address, answer.Code())}
	}
	if strings.Contains(err.Error(), "malformed") {
		return outcome{fails, fmt.Sprintf("%s does not answer with HTTP", address)}
	}
	return outcome{fails, fmt.Sprintf("%s: %v", address, cause(err))}
}

// cause returns the error without the request in its text, which has the port of this side.
func cause(err error) error {
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err
	}
	var operation *net.OpError
	if errors.As(err, &operation) {
		err = operation.Err
	}
	return err
}
