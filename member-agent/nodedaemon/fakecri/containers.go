package fakecri

import (
	"context"
	"fmt"
	"maps"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The labels that kubelets give to sandboxes and containers.
const (
	labelPodName       = "io.kubernetes.pod.name"
	labelPodNamespace  = "io.kubernetes.pod.namespace"
	labelPodUID        = "io.kubernetes.pod.uid"
	labelContainerName = "io.kubernetes.container.name"
)

// Container is a container to add.
type Container struct {
	// Namespace, Pod and UID are those of the pod, Name that of the container.
	Namespace, Pod, UID, Name string
	// Attempt is the number of containers of this name before it in the sandbox.
	Attempt     uint32
	Image       string
	Annotations map[string]string
	// Info is the verbose part of the status.
	Info map[string]string
	// StartedAt is when it started; zero: now.
	StartedAt time.Time
}

type container struct {
	Container
	status *runtimeapi.ContainerStatus
	pod    string // the ID of its sandbox
}

// ExecResult is what a command in a container ends with. A Code other than OK refuses the call.
type ExecResult struct {
	Stdout, Stderr string
	ExitCode       int32
	Code           codes.Code
	Message        string
}

// ExecFunc runs a command in a container.
type ExecFunc func(ctx context.Context, containerID string, command []string) ExecResult

// OnExec has commands answered by f. Without it they end with 0 and no output.
func (s *Server) OnExec(f ExecFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exec = f
}

// OnStop has f called after each container that a client stopped, for example to play the kubelet that starts the next
// one.
func (s *Server) OnStop(f func(id string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onStop = f
}

// AddContainer adds a running container, and the sandbox of its pod if there is none. It returns the container's ID.
func (s *Server) AddContainer(c Container) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addContainer(c)
}

func (s *Server) addContainer(c Container) string {
	started := c.StartedAt
	if started.IsZero() {
		started = time.Now()
	}
	pod := s.sandboxOf(c, started)
	s.nextID++
	id := fmt.Sprintf("container-%d", s.nextID)
	labels := map[string]string{labelPodName: c.Pod, labelPodNamespace: c.Namespace, labelPodUID: c.UID,
		labelContainerName: c.Name}
	s.containers[id] = &container{Container: c, pod: pod, status: &runtimeapi.ContainerStatus{
		Id: id, Metadata: &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: c.Attempt},
		State: runtimeapi.ContainerState_CONTAINER_RUNNING, CreatedAt: started.UnixNano(), StartedAt: started.UnixNano(),
		Image: &runtimeapi.ImageSpec{Image: c.Image}, ImageRef: c.Image, Labels: labels, Annotations: c.Annotations,
	}}
	s.order = append(s.order, id)
	return id
}

// sandboxOf returns the ID of the pod's sandbox.
func (s *Server) sandboxOf(c Container, at time.Time) string {
	for id, sandbox := range s.sandboxes {
		if sandbox.Metadata.Uid == c.UID && sandbox.State == runtimeapi.PodSandboxState_SANDBOX_READY {
			return id
		}
	}
	s.nextID++
	id := fmt.Sprintf("sandbox-%d", s.nextID)
	s.sandboxes[id] = &runtimeapi.PodSandbox{
		Id: id, Metadata: &runtimeapi.PodSandboxMetadata{Name: c.Pod, Namespace: c.Namespace, Uid: c.UID},
		State: runtimeapi.PodSandboxState_SANDBOX_READY, CreatedAt: at.UnixNano(),
		Labels: map[string]string{labelPodName: c.Pod, labelPodNamespace: c.Namespace, labelPodUID: c.UID},
	}
	return id
}

// Exit ends a container by itself.
func (s *Server) Exit(id string, exitCode int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exit(id, exitCode)
}

func (s *Server) exit(id string, exitCode int32) {
	if c := s.containers[id]; c != nil && c.status.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
		c.status.State = runtimeapi.ContainerState_CONTAINER_EXITED
		c.status.FinishedAt, c.status.ExitCode = time.Now().UnixNano(), exitCode
	}
}

// Replace ends a container and starts the next one of its name, as a kubelet does. It returns the new ID.
func (s *Server) Replace(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exit(id, 137)
	next := s.containers[id].Container
	next.Attempt, next.StartedAt = next.Attempt+1, time.Time{}
	return s.addContainer(next)
}

// SetInfo changes the verbose part of a container's status.
func (s *Server) SetInfo(id string, info map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.containers[id].Info = maps.Clone(info)
}

// Running reports whether a container runs.
func (s *Server) Running(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.containers[id]
	return c != nil && c.status.State == runtimeapi.ContainerState_CONTAINER_RUNNING
}

// ListPodSandbox lists the sandboxes that the filter matches.
func (s *Server) ListPodSandbox(
	_ context.Context, r *runtimeapi.ListPodSandboxRequest,
) (*runtimeapi.ListPodSandboxResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	response := &runtimeapi.ListPodSandboxResponse{}
	for id, sandbox := range s.sandboxes {
		f := r.GetFilter()
		if f.GetId() != "" && f.GetId() != id || f.GetState() != nil && f.GetState().State != sandbox.State ||
			!matches(f.GetLabelSelector(), sandbox.Labels) {
			continue
		}
		response.Items = append(response.Items, sandbox)
	}
	return response, nil
}

// PodSandboxStatus finds a sandbox by its ID.
func (s *Server) PodSandboxStatus(
	_ context.Context, r *runtimeapi.PodSandboxStatusRequest,
) (*runtimeapi.PodSandboxStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sandbox := s.sandboxes[r.PodSandboxId]
	if sandbox == nil {
		return nil, status.Errorf(codes.NotFound, "sandbox %s: not found", r.PodSandboxId)
	}
	return &runtimeapi.PodSandboxStatusResponse{Status: &runtimeapi.PodSandboxStatus{
		Id: sandbox.Id, Metadata: sandbox.Metadata, State: sandbox.State, CreatedAt: sandbox.CreatedAt,
		Labels: sandbox.Labels, Annotations: sandbox.Annotations,
	}}, nil
}

// ListContainers lists the containers that the filter matches, the oldest first.
func (s *Server) ListContainers(
	_ context.Context, r *runtimeapi.ListContainersRequest,
) (*runtimeapi.ListContainersResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	response := &runtimeapi.ListContainersResponse{}
	for _, id := range s.order {
		c, f := s.containers[id], r.GetFilter()
		if c == nil || f.GetId() != "" && f.GetId() != id || f.GetPodSandboxId() != "" && f.GetPodSandboxId() != c.pod ||
			f.GetState() != nil && f.GetState().State != c.status.State || !matches(f.GetLabelSelector(), c.status.Labels) {
			continue
		}
		response.Containers = append(response.Containers, &runtimeapi.Container{
			Id: id, PodSandboxId: c.pod, Metadata: c.status.Metadata, Image: c.status.Image, ImageRef: c.status.ImageRef,
			State: c.status.State, CreatedAt: c.status.CreatedAt, Labels: c.status.Labels, Annotations: c.status.Annotations,
		})
	}
	return response, nil
}

func matches(selector, labels map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return true
}

// ContainerStatus finds a container by its ID.
func (s *Server) ContainerStatus(
	_ context.Context, r *runtimeapi.ContainerStatusRequest,
) (*runtimeapi.ContainerStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.containers[r.ContainerId]
	if c == nil {
		return nil, status.Errorf(codes.NotFound, "container %s: not found", r.ContainerId)
	}
	copied := &runtimeapi.ContainerStatus{
		Id: c.status.Id, Metadata: c.status.Metadata, State: c.status.State, CreatedAt: c.status.CreatedAt,
		StartedAt: c.status.StartedAt, FinishedAt: c.status.FinishedAt, ExitCode: c.status.ExitCode,
		Image: c.status.Image, ImageRef: c.status.ImageRef, Labels: c.status.Labels, Annotations: c.status.Annotations,
	}
	response := &runtimeapi.ContainerStatusResponse{Status: copied}
	if r.Verbose {
		response.Info = maps.Clone(c.Info)
	}
	return response, nil
}

// StopContainer ends a container at once, with 137 for a timeout of 0 and else 0. An ended or unknown one stays as it
// is.
func (s *Server) StopContainer(
	_ context.Context, r *runtimeapi.StopContainerRequest,
) (*runtimeapi.StopContainerResponse, error) {
	s.mu.Lock()
	code := int32(0)
	if r.Timeout == 0 {
		code = 137
	}
	s.exit(r.ContainerId, code)
	onStop := s.onStop
	s.mu.Unlock()
	if onStop != nil {
		onStop(r.ContainerId)
	}
	return &runtimeapi.StopContainerResponse{}, nil
}

// RemoveContainer removes a container.
func (s *Server) RemoveContainer(
	_ context.Context, r *runtimeapi.RemoveContainerRequest,
) (*runtimeapi.RemoveContainerResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.containers, r.ContainerId)
	return &runtimeapi.RemoveContainerResponse{}, nil
}

// ExecSync runs a command in a running container, as OnExec says. It ends with DeadlineExceeded after the timeout of
// the request.
func (s *Server) ExecSync(
	ctx context.Context, r *runtimeapi.ExecSyncRequest,
) (*runtimeapi.ExecSyncResponse, error) {
	s.mu.Lock()
	run, c := s.exec, s.containers[r.ContainerId]
	runs := c != nil && c.status.State == runtimeapi.ContainerState_CONTAINER_RUNNING
	s.mu.Unlock()
	if !runs {
		return nil, status.Errorf(codes.NotFound, "container %s: not found", r.ContainerId)
	}
	if run == nil {
		return &runtimeapi.ExecSyncResponse{}, nil
	}
	if r.Timeout > 0 {
		bounded, cancel := context.WithTimeout(ctx, time.Duration(r.Timeout)*time.Second)
		defer cancel()
		ctx = bounded
	}
	ended := make(chan ExecResult, 1)
	go func() { ended <- run(ctx, r.ContainerId, r.Cmd) }()
	select {
	case <-ctx.Done():
		return nil, status.Error(codes.DeadlineExceeded, "command timed out")
	case result := <-ended:
		if result.Code != codes.OK {
			return nil, status.Error(result.Code, result.Message)
		}
		return &runtimeapi.ExecSyncResponse{Stdout: []byte(result.Stdout), Stderr: []byte(result.Stderr),
			ExitCode: result.ExitCode}, nil
	}
}
