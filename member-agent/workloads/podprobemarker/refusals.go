package podprobemarker

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// refusals are the writes that the API server refused last, to NodePodProbes and to pods. The controller of nodes
// notes them, and markers report them.
type refusals struct {
	mu    sync.Mutex
	nodes map[string]string
	pods  map[types.UID]string
	queue workload.Queue // of markers; nil before their controller starts
}

func newRefusals() *refusals {
	return &refusals{nodes: map[string]string{}, pods: map[types.UID]string{}}
}

// node notes how the last write of a node's NodePodProbe ended, and reports whether that changed something.
func (r *refusals) node(name string, err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return note(r.nodes, name, err)
}

// pod notes how the last write of a pod's marks ended, and reports whether that changed something.
func (r *refusals) pod(uid types.UID, err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return note(r.pods, uid, err)
}

// note keeps what was refused until a write succeeds. Errors that pass, as of a connection, say nothing.
func note[K comparable](all map[K]string, key K, err error) bool {
	before := all[key]
	switch {
	case err == nil:
		delete(all, key)
	case workload.Refused(err) || apierrors.IsRequestEntityTooLargeError(err):
		all[key] = workload.Note(err)
	}
	return all[key] != before
}

// of returns why a pod is not probed or marked, "" if nothing was refused.
func (r *refusals) of(pod *corev1.Pod) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if text := r.nodes[pod.Spec.NodeName]; text != "" {
		return text
	}
	return r.pods[pod.UID]
}

// start lets wake add markers to a queue. It never errs.
func (r *refusals) start(queue workload.Queue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = queue
}

// wake makes markers report, a little later: the first pass of each after a start needs no call.
func (r *refusals) wake(markers ...types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queue == nil {
		return
	}
	for _, key := range markers {
		r.queue.AddAfter(reconcile.Request{NamespacedName: key}, gatherEvents)
	}
}
