package cri

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	criclient "k8s.io/cri-client/pkg"
	"k8s.io/klog/v2"
)

const (
	// answerTimeout is how long a runtime may take to say who it is.
	answerTimeout = 5 * time.Second
	// callTimeout bounds every call but pulls, stops of containers (which have their grace period on top) and exec.
	callTimeout = 2 * time.Minute
)

// Options say where the runtime is.
type Options struct {
	// Endpoint is that of the runtime, unix:///run/containerd/containerd.sock or the path alone; empty: it is found.
	Endpoint string
	// Directory is where to look for sockets; empty: DefaultDirectory.
	Directory string
}

func (o Options) directory() string {
	if o.Directory == "" {
		return DefaultDirectory
	}
	return o.Directory
}

// Runtime is what a runtime says of itself.
type Runtime struct {
	// Name such as containerd, Version such as v2.1.0.
	Name, Version string
}

// Connection is a connection to a runtime. It is made again when the runtime restarts.
type Connection struct {
	Endpoint       string
	Runtime        Runtime
	RuntimeService internalapi.RuntimeService
	ImageService   internalapi.ImageManagerService
}

// Connect finds the runtime and connects to it. It errs with a DiscoveryError if none can be chosen, and otherwise with
// what the runtime answers.
func Connect(ctx context.Context, o Options) (*Connection, error) {
	at, err := Find(ctx, o)
	if err != nil {
		return nil, err
	}
	who, err := version(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("connect to the container runtime at %s: %w", at, err)
	}
	bounded, cancel := context.WithTimeout(Quiet(ctx), answerTimeout)
	defer cancel()
	// Without a tracer provider the clients install no handler for traces.
	runtimes, err := criclient.NewRemoteRuntimeServiceBuilder().WithEndpoint(at).WithConnectionTimeout(callTimeout).
		WithTracerProvider(nil).Build(bounded)
	if err != nil {
		return nil, fmt.Errorf("connect to the container runtime at %s: %w", at, err)
	}
	images, err := criclient.NewRemoteImageServiceBuilder().WithEndpoint(at).WithConnectionTimeout(callTimeout).
		WithTracerProvider(nil).Build(bounded)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect to the images of the container runtime at %s: %w", at, err),
			runtimes.Close(bounded))
	}
	return &Connection{Endpoint: at, Runtime: who, RuntimeService: runtimes, ImageService: images}, nil
}

// Check asks the runtime for its version, which may be another one after an upgrade.
func (c *Connection) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(Quiet(ctx), answerTimeout)
	defer cancel()
	answer, err := c.RuntimeService.Version(ctx, "")
	if err != nil {
		return fmt.Errorf("the container runtime at %s does not answer: %w", c.Endpoint, plain(err))
	}
	c.Runtime = Runtime{Name: answer.RuntimeName, Version: answer.RuntimeVersion}
	return nil
}

// Quiet returns a context for calls whose failures the caller reports: the client of the runtime logs each failed call
// to the logger in its context.
func Quiet(ctx context.Context) context.Context { return klog.NewContext(ctx, logr.Discard()) }

// Close ends the connection.
func (c *Connection) Close(ctx context.Context) error {
	if err := errors.Join(c.RuntimeService.Close(ctx), c.ImageService.Close(ctx)); err != nil {
		return fmt.Errorf("close the connection to %s: %w", c.Endpoint, err)
	}
	return nil
}

// version asks who serves CRI v1 at an endpoint, by a connection of its own.
func version(ctx context.Context, at string) (Runtime, error) {
	path, isUnix := strings.CutPrefix(at, "unix://")
	if !isUnix {
		return Runtime{}, fmt.Errorf("%s %s is no Unix socket: give unix:///path/of/the.sock", Flag, at)
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return Runtime{}, fmt.Errorf("there is no socket %s: check %s, that the runtime runs, and that the folder of its "+
			"socket is mounted", path, Flag)
	}
	conn, err := grpc.NewClient("passthrough:///"+path, grpc.WithAuthority("localhost"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}))
	if err != nil {
		return Runtime{}, fmt.Errorf("dial %s: %w", path, err)
	}
	defer func() { _ = conn.Close() }() // nothing was written
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	answer, err := runtimeapi.NewRuntimeServiceClient(conn).Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		return Runtime{}, plain(err)
	}
	return Runtime{Name: answer.RuntimeName, Version: answer.RuntimeVersion}, nil
}

// plain returns what a runtime answered as a sentence of its own.
func plain(err error) error {
	switch status.Code(err) {
	case codes.Unimplemented:
		return errors.New("it does not serve CRI v1")
	case codes.DeadlineExceeded:
		return fmt.Errorf("no answer within %s", answerTimeout)
	default:
		message := status.Convert(err).Message()
		if _, cause, ok := strings.Cut(message, "Error while dialing: "); ok {
			message = strings.TrimSuffix(cause, `"`)
		}
		return errors.New(message)
	}
}
