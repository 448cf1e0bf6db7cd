package uniteddeployment

import (
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// written is a content that the API server took for a child, the generation that the child had with it, and the replicas.
type written struct {
	content    meaning
	generation int64
	replicas   int32
}

// created is a child that we made and that the cache may not know yet.
type created struct {
	kind kind
	name string
	uid  types.UID
}

// memory is our own writes for one UnitedDeployment, so that
//   - while the cache lags, a child is neither made nor written a second time,
//   - a content that the API server stores in another way (a default or a webhook that we do not know) is written once,
//     not on every pass,
//   - a mark on a pod that the cache does not show yet is not taken for a missing one.
//
// It is lost with the process. Then a child of the second sort is written once more, which changes nothing, and a child
// that the cache does not know is met again by its name. Children are written in parallel.
type memory struct {
	mu      sync.Mutex
	written map[types.UID]written // by the uid of a child
	created map[types.UID]created
	marked  map[types.UID]string // by the uid of a pod, the value of LabelReservedPod
}

// put sets a key of a map that may be nil.
func put[V any](m *map[types.UID]V, key types.UID, value V) {
	if *m == nil {
		*m = map[types.UID]V{}
	}
	(*m)[key] = value
}

// own returns the writes of children, and the marks on their pods.
func (m *memory) own() (map[types.UID]written, map[types.UID]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.written), maps.Clone(m.marked)
}

// mark records a mark on a pod.
func (m *memory) mark(pod types.UID, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	put(&m.marked, pod, value)
}

// keepMarks drops the marks that the cache shows, and those of pods that are gone.
func (m *memory) keepMarks(pods map[types.UID][]*corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	unseen := map[types.UID]bool{}
	for _, list := range pods {
		for _, pod := range list {
			if value, ok := m.marked[pod.UID]; ok && pod.Labels[LabelReservedPod] != value {
				unseen[pod.UID] = true
			}
		}
	}
	maps.DeleteFunc(m.marked, func(uid types.UID, _ string) bool { return !unseen[uid] })
}

// correct gives children that the cache shows as they were before our last write the replicas that we wrote.
func (m *memory) correct(children []child) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range children {
		c := &children[i]
		if last, ok := m.written[c.object.GetUID()]; ok && c.object.GetGeneration() < last.generation {
			c.replicas = last.replicas
		}
	}
}

// unseen returns the children that we made and that are not among those of the cache.
func (m *memory) unseen(cached []child) []created {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range cached {
		delete(m.created, cached[i].object.GetUID())
	}
	return slices.Collect(maps.Values(m.created))
}

// wrote records a write of a child.
func (m *memory) wrote(child types.UID, w written) {
	m.mu.Lock()
	defer m.mu.Unlock()
	put(&m.written, child, w)
}

// made records a new child.
func (m *memory) made(c created) {
	m.mu.Lock()
	defer m.mu.Unlock()
	put(&m.created, c.uid, c)
}

// lost drops a child that is gone.
func (m *memory) lost(child types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.written, child)
	delete(m.created, child)
}

// keep drops the writes of children that are not among these.
func (m *memory) keep(children []child) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.written, func(uid types.UID, _ written) bool {
		return !slices.ContainsFunc(children, func(c child) bool { return c.object.GetUID() == uid })
	})
}
