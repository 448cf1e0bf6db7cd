package workloadspread

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
)

// place is a target in its namespace.
type place struct {
	namespace string
	target    spread.Target
}

// entry is what is known of one WorkloadSpread.
type entry struct {
	place place
	uid   types.UID
}

// registry knows which WorkloadSpreads are for which workload, so that an event of a pod costs two look-ups where
// nothing is spread. The events of WorkloadSpreads fill it before they are worked on. A cache index would do too, but
// it cannot be registered before the CustomResourceDefinition is there.
type registry struct {
	mu         sync.Mutex
	spreads    map[types.NamespacedName]entry
	targets    map[place]map[string]bool // names of WorkloadSpreads
	namespaces map[string]int            // WorkloadSpreads in each
}

func newRegistry() *registry {
	return &registry{spreads: map[types.NamespacedName]entry{}, targets: map[place]map[string]bool{},
		namespaces: map[string]int{}}
}

// put records a WorkloadSpread.
func (r *registry) put(key types.NamespacedName, uid types.UID, target spread.Target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(key)
	at := place{key.Namespace, target}
	r.spreads[key] = entry{at, uid}
	r.namespaces[key.Namespace]++
	if r.targets[at] == nil {
		r.targets[at] = map[string]bool{}
	}
	r.targets[at][key.Name] = true
}

// drop forgets a WorkloadSpread that is gone, unless another of its name has come meanwhile.
func (r *registry) drop(key types.NamespacedName, uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.spreads[key].uid == uid {
		r.remove(key)
	}
}

func (r *registry) remove(key types.NamespacedName) {
	old, ok := r.spreads[key]
	if !ok {
		return
	}
	delete(r.spreads, key)
	if r.namespaces[key.Namespace]--; r.namespaces[key.Namespace] == 0 {
		delete(r.namespaces, key.Namespace)
	}
	delete(r.targets[old.place], key.Name)
	if len(r.targets[old.place]) == 0 {
		delete(r.targets, old.place)
	}
}

// of returns the WorkloadSpreads of a workload, by name.
func (r *registry) of(namespace string, target spread.Target) []types.NamespacedName {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := slices.Sorted(maps.Keys(r.targets[place{namespace, target}]))
	keys := make([]types.NamespacedName, 0, len(names))
	for _, name := range names {
		keys = append(keys, types.NamespacedName{Namespace: namespace, Name: name})
	}
	return keys
}

// empty reports whether a namespace has no WorkloadSpreads.
func (r *registry) empty(namespace string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.namespaces[namespace] == 0
}
