package probes

import (
	"context"
	"fmt"
	"sync"
	"time"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"
)

const (
	// listFor is how long a list of containers holds for all probes.
	listFor = time.Second
	// listTimeout bounds one list.
	listTimeout = 10 * time.Second

	labelPodUID        = "io.kubernetes.pod.uid"
	labelContainerName = "io.kubernetes.container.name"
)

// slot is a container of a pod, whichever runs.
type slot struct{ pod, container string }

// running is a container that runs.
type running struct {
	id      string
	created time.Time
}

// containers knows which containers run on the node.
type containers struct {
	runtime internalapi.RuntimeService
	clock   clock.PassiveClock

	mu     sync.Mutex
	listed time.Time
	known  map[slot]running
}

// of returns the container that runs in a slot; its ID is "" if none does. It errs if the runtime does not answer.
func (c *containers) of(ctx context.Context, at slot) (running, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if age := c.clock.Since(c.listed); c.known == nil || age >= listFor || age < 0 {
		if err := c.list(ctx); err != nil {
			return running{}, err
		}
	}
	return c.known[at], nil
}

// forget has the next question ask the runtime.
func (c *containers) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = nil
}

func (c *containers) list(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	filter := &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING}}
	all, err := c.runtime.ListContainers(ctx, filter)
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	c.known, c.listed = make(map[slot]running, len(all)), c.clock.Now()
	for _, one := range all {
		at := slot{one.Labels[labelPodUID], one.Labels[labelContainerName]}
		if created := time.Unix(0, one.CreatedAt); !created.Before(c.known[at].created) {
			c.known[at] = running{one.Id, created}
		}
	}
	return nil
}
