package link

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// maxOrphans is how many objects MemberCluster.status.orphans names: enough to see what happened.
const maxOrphans = 16

// Orphaned tells that an object stands whose Work vanished without having been deleted; an empty object that it does no more.
func (l *Link) Orphaned(name types.NamespacedName, object string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.orphans[name] == object {
		return
	}
	if object == "" {
		delete(l.orphans, name)
	} else {
		l.config.Log.Info("A Work vanished from the hub without having been deleted; its object stays. Delete it, or take the hub's label off it", "work", name, "object", object)
		l.orphans[name] = object
	}
	wake(l.surveyed)
}

// Orphans returns how many such objects stand.
func (l *Link) Orphans() int {
	count, _ := l.orphaned()
	return int(count)
}

// orphaned returns how many such objects stand, and the first of them.
func (l *Link) orphaned() (int32, []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	objects := slices.Sorted(maps.Values(l.orphans))
	return int32(min(len(objects), 1<<30)), objects[:min(len(objects), maxOrphans)] // far above what a cluster holds
}
