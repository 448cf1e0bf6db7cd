package fakecri

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Answer is what one call gets instead of its normal answer. The zero value is the normal answer.
type Answer struct {
	// Wait delays the answer until the channel is closed: a slow runtime.
	Wait <-chan struct{}
	// Stuck never answers: the call ends when its client gives up or the server stops.
	Stuck bool
	// Code other than OK refuses the call with Message.
	Code    codes.Code
	Message string
	// After has Wait, Stuck and Code come when the call has done its work: its answer is lost.
	After bool
}

// Call is a call that a client made.
type Call struct {
	// Method such as PullImage.
	Method  string
	Request any
	At      time.Time
}

// Server is the runtime.
type Server struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer

	socket string
	mu     sync.Mutex
	// Guarded by mu.
	server  *grpc.Server
	name    string
	version string
	scripts map[string][]Answer
	always  map[string]Answer
	calls   []Call
	changed chan struct{}

	registry map[string]RegistryImage
	images   map[string]string // IDs by reference

	sandboxes  map[string]*runtimeapi.PodSandbox
	containers map[string]*container
	order      []string // IDs of containers in the order of their creation
	nextID     int
	exec       ExecFunc
	onStop     func(id string)
}

// New returns a runtime that listens at the socket once it is started. Its name is containerd.
func New(socket string) *Server {
	return &Server{
		socket: socket, name: "containerd", version: "v2.1.0",
		scripts: map[string][]Answer{}, always: map[string]Answer{}, changed: make(chan struct{}),
		registry: map[string]RegistryImage{}, images: map[string]string{},
		sandboxes: map[string]*runtimeapi.PodSandbox{}, containers: map[string]*container{},
	}
}

// Socket returns the path of the socket.
func (s *Server) Socket() string { return s.socket }

// SetVersion changes what the runtime says of itself.
func (s *Server) SetVersion(name, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.name, s.version = name, version
}

// Start serves at the socket. After Stop it may be called again: images and containers are kept.
func (s *Server) Start() error {
	if err := os.MkdirAll(filepath.Dir(s.socket), 0o755); err != nil {
		return fmt.Errorf("make the folder of the socket: %w", err)
	}
	if err := os.Remove(s.socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the previous socket: %w", err)
	}
	listener, err := net.Listen("unix", s.socket)
	if err != nil {
		return fmt.Errorf("listen at %s: %w", s.socket, err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(s.intercept))
	runtimeapi.RegisterRuntimeServiceServer(server, s)
	runtimeapi.RegisterImageServiceServer(server, s)
	s.mu.Lock()
	s.server = server
	s.mu.Unlock()
	go func() { _ = server.Serve(listener) }() // it ends with Stop, by an error that says so
	return nil
}

// Stop ends the server and all calls at once, as the end of the runtime's process does, and removes the socket.
func (s *Server) Stop() {
	s.mu.Lock()
	server := s.server
	if server != nil {
		s.server = nil
	}
	s.mu.Unlock()
	if server != nil {
		server.Stop()
	}
}

// Script has the next calls of a method answered so, one after the other. Later ones get the normal answer, or that of
// Always.
func (s *Server) Script(method string, answers ...Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts[method] = append(s.scripts[method], answers...)
}

// Always has all calls of a method answered so that have no script. The zero value ends that.
func (s *Server) Always(method string, answer Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.always[method] = answer
}

// Calls returns the calls of a method so far, in their order; of all methods for "".
func (s *Server) Calls(method string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.calls), func(c Call) bool { return method != "" && c.Method != method })
}

// WaitForCalls returns the calls of a method once there are at least n. It errs with the context.
func (s *Server) WaitForCalls(ctx context.Context, method string, n int) ([]Call, error) {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if calls := s.Calls(method); len(calls) >= n {
			return calls, nil
		}
		select {
		case <-ctx.Done():
			return s.Calls(method), fmt.Errorf("wait for %d calls of %s: %w", n, method, ctx.Err())
		case <-changed:
		}
	}
}

// begin records a call and returns its script. Stop closes one connection after the other: a call that comes between
// gets no answer, as from a process that has ended.
func (s *Server) begin(method string, request any) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		return Answer{Stuck: true}
	}
	s.calls = append(s.calls, Call{Method: method, Request: request, At: time.Now()})
	close(s.changed)
	s.changed = make(chan struct{})
	if answers := s.scripts[method]; len(answers) > 0 {
		s.scripts[method] = answers[1:]
		return answers[0]
	}
	return s.always[method]
}

func (s *Server) intercept(
	ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (any, error) {
	answer := s.begin(path.Base(info.FullMethod), request)
	if !answer.After {
		if err := answer.give(ctx); err != nil {
			return nil, err
		}
		return handle(ctx, request)
	}
	response, err := handle(ctx, request)
	if err != nil {
		return nil, err
	}
	if err := answer.give(ctx); err != nil {
		return nil, err
	}
	return response, nil
}

// give carries the answer out. It errs with what the client gets. Stop ends ctx after it has closed the connection, so
// that a call that waits gets no answer then.
func (a Answer) give(ctx context.Context) error {
	wait := a.Wait
	if a.Stuck {
		wait = make(chan struct{})
	}
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
	if a.Code != codes.OK {
		return status.Error(a.Code, a.Message)
	}
	return nil
}

// Version says who the runtime is.
func (s *Server) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: s.name, RuntimeVersion: s.version,
		RuntimeApiVersion: "v1"}, nil
}

// Status says that the runtime and its network are ready.
func (s *Server) Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true}, {Type: runtimeapi.NetworkReady, Status: true},
	}}}, nil
}
