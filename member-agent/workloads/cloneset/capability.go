package cloneset

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// askAgain is when an API server that could not resize pods is asked again: clusters are upgraded under a running agent.
const askAgain = 10 * time.Minute

// resizes knows whether the API server has pods/resize, which it has by default since Kubernetes 1.33. It is asked once.
type resizes struct {
	discovery discovery.ServerResourcesInterface
	clock     clock.PassiveClock

	mu    sync.Mutex
	known bool
	asked time.Time
}

// missing tells whether the API server lacks pods/resize.
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
	r.known, r.asked = hasResize(list), r.clock.Now()
	return !r.known, nil
}

func hasResize(list *metav1.APIResourceList) bool {
	for i := range list.APIResources {
		if list.APIResources[i].Name == "pods/resize" {
			return true
		}
	}
	return false
}

// cannotResize tells whether pods of the CloneSet must be made anew for other resources, because the API server cannot change
// them in running pods. It is asked only where that matters.
func (r *Reconciler) cannotResize(ctx context.Context, cs *v1beta1.CloneSet) (bool, error) {
	rolling := cs.Spec.UpdateStrategy.RollingUpdate
	if r.noResize == nil || rolling == nil || rolling.PodUpdatePolicy == "" || rolling.PodUpdatePolicy == v1beta1.ReCreatePodUpdatePolicy {
		return false, nil
	}
	return r.noResize(ctx)
}
