package mutator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/inject"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/revision"
)

// prepared is what is worked out of a SidecarSet once for each generation.
type prepared struct {
	generation int64
	// annotation has the previous revision of a hub's update, "" for none; it changes no generation.
	annotation string
	selection  inject.Selection
	hashes     revision.Hashes
	// previous is the spec with the revision that new pods get in place of the current one, nil for none.
	previous       *v1beta1.SidecarSetSpec
	previousHashes revision.Hashes
	// err says why the SidecarSet cannot be injected; the controller tells it on the object.
	err error
}

// memo keeps what was worked out, by the uids of SidecarSets.
type memo struct {
	mu   sync.Mutex
	sets map[string]*prepared
}

// of returns what is worked out of the set.
func (m *memo) of(set *v1beta1.SidecarSet) *prepared {
	m.mu.Lock()
	defer m.mu.Unlock()
	have := m.sets[string(set.UID)]
	annotation := set.Annotations[topology.AnnotationTemplateBefore]
	if have != nil && have.generation == set.Generation && have.annotation == annotation {
		return have
	}
	have = &prepared{generation: set.Generation, annotation: annotation}
	have.prepare(set)
	m.sets[string(set.UID)] = have
	return have
}

// prepare works out what new pods get: the previous revision while a hub's update does not reach all pods, whatever the
// current one is. One that cannot be injected is as none: without its sidecars a pod may not work.
func (p *prepared) prepare(set *v1beta1.SidecarSet) {
	if p.selection, p.err = inject.NewSelection(&set.Spec); p.err != nil {
		return
	}
	if content, err := revision.Previous(set); err == nil && content != nil {
		previous := content.In(&set.Spec)
		if p.previousHashes, err = hashesOf(previous); err == nil {
			p.previous = previous
		}
	}
	if p.hashes, p.err = hashesOf(&set.Spec); p.previous != nil {
		p.err = nil
	}
}

// hashesOf returns the hashes of what can be injected.
func hashesOf(spec *v1beta1.SidecarSetSpec) (revision.Hashes, error) {
	if err := inject.Check(spec); err != nil {
		return revision.Hashes{}, err
	}
	return revision.HashesOf(spec)
}

// keep forgets the sets that are not among these, if there are any.
func (m *memo) keep(sets []*v1beta1.SidecarSet) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.sets) <= len(sets) {
		return
	}
	there := make(map[string]bool, len(sets))
	for _, set := range sets {
		there[string(set.UID)] = true
	}
	maps.DeleteFunc(m.sets, func(uid string, _ *prepared) bool { return !there[uid] })
}

// all returns the SidecarSets that inject: those that can be injected, and that no hub owns. They are the cache's and
// must not be changed; the list is the caller's.
func (m *mutator) all(ctx context.Context) ([]*v1beta1.SidecarSet, error) {
	sets, err := m.list(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]*v1beta1.SidecarSet, 0, len(sets))
	for _, set := range sets {
		if set.DeletionTimestamp != nil || set.Spec.InjectionStrategy.Paused || m.memo.of(set).err != nil {
			continue
		}
		if m.federated != nil {
			if federated, err := m.federated(ctx, set); err != nil {
				return nil, fmt.Errorf("ask whether SidecarSet %s is federated: %w", set.Name, err)
			} else if federated {
				continue
			}
		}
		out = append(out, set)
	}
	m.memo.keep(sets) // on every replica: the scope is asked for on the leader alone
	return out, nil
}

// list returns the SidecarSets of the cache, without the copies that its reader makes: each new pod asks.
func (m *mutator) list(ctx context.Context) ([]*v1beta1.SidecarSet, error) {
	if m.caches != nil && m.caches.listed.Load() && m.caches.store != nil {
		objects := m.caches.store.List()
		sets := make([]*v1beta1.SidecarSet, 0, len(objects))
		for _, object := range objects {
			if set, ok := object.(*v1beta1.SidecarSet); ok {
				sets = append(sets, set)
			}
		}
		return sets, nil
	}
	var list v1beta1.SidecarSetList
	if err := m.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list SidecarSets: %w", err)
	}
	sets := make([]*v1beta1.SidecarSet, 0, len(list.Items))
	for i := range list.Items {
		sets = append(sets, &list.Items[i])
	}
	return sets, nil
}

// overwrites reports whether a SidecarSet overwrites annotations of pods.
func (m *mutator) overwrites(ctx context.Context) bool {
	if !m.caches.synced() {
		return false
	}
	sets, err := m.all(ctx)
	return err == nil && slices.ContainsFunc(sets, func(set *v1beta1.SidecarSet) bool {
		previous := m.memo.of(set).previous
		return (inject.Allowed{}).Refused(set.Labels, set.Spec.PatchPodMetadata) != "" ||
			previous != nil && (inject.Allowed{}).Refused(set.Labels, previous.PatchPodMetadata) != ""
	})
}
