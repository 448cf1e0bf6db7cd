package containerrecreaterequest

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// isDaemon reports whether the pod is one of flotilla-node. Its chart fixes this label.
func isDaemon(pod *corev1.Pod) bool { return pod.Labels["app.kubernetes.io/name"] == "flotilla-node" }

// daemons know which requests that a daemon has answered are without one. It is safe for concurrent use.
type daemons struct {
	pods *podset.Source

	mu sync.Mutex
	// gone is since when a request is without a daemon, as far as this agent has seen.
	gone map[types.NamespacedName]time.Time
}

// goneSince returns since when no daemon is ready on the node of the request; zero: one is, or none is needed.
func (d *daemons) goneSince(
	key types.NamespacedName, request *v1beta1.ContainerRecreateRequest, now time.Time,
) (time.Time, error) {
	node, phase := request.Labels[v1beta1.LabelCRRNodeName], request.Status.Phase
	if node == "" || phase == "" || phase == v1beta1.CRRCompleted {
		d.forget(key)
		return time.Time{}, nil
	}
	pods, err := d.pods.OnNode(node)
	if err != nil {
		return time.Time{}, err
	}
	if slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return isDaemon(pod) && podstate.Ready(pod) }) {
		d.forget(key)
		return time.Time{}, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.gone[key]; !known {
		d.gone[key] = now
	}
	return d.gone[key], nil
}

// forget forgets a request that has ended, or has a daemon.
func (d *daemons) forget(key types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.gone, key)
}
