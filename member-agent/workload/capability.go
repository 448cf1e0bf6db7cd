package workload

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
)

// askAgain is when an API server that could not resize pods is asked again: clusters are upgraded under a running
// agent.
const askAgain = 10 * time.Minute

// resizes knows whether the API server has pods/resize, which it has by default since Kubernetes 1.33. It asks once.
type resizes struct {
	discovery discovery.ServerResourcesInterface
	clock     clock.PassiveClock

	mu    sync.Mutex
	known bool
	asked time.Time
}

// NoResize returns a function that reports whether the API server cannot resize running pods.
func NoResize(env *Env) (func(context.Context) (bool, error), error) {
	asks, err := discovery.NewDiscoveryClientForConfigAndClient(env.Manager.GetConfig(), env.Manager.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("set up discovery: %w", err)
	}
	return (&resizes{discovery: asks, clock: env.Clock}).missing, nil
}

func (r *resizes) missing(context.Context) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known {
		return false, nil
	}
	if !r.asked.IsZero() && r.clock.Since(r.asked) < askAgain {
		return true, nil
	}
	list, err := r.discovery.ServerResourcesForGroupVersion("v1")
	if err != nil {
		return false, fmt.Errorf("ask whether pods can be resized: %w", err)
	}
	r.known = slices.ContainsFunc(list.APIResources, func(a metav1.APIResource) bool { return a.Name == "pods/resize" })
	r.asked = r.clock.Now()
	return !r.known, nil
}
