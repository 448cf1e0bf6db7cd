package store

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
)

// writtenExpires is how long a write holds a reader up at most: a watch delivers within milliseconds, many seconds on
// a server that is overloaded, and an object that somebody deleted at once never comes.
const writtenExpires = 30 * time.Second

// Written remembers the resourceVersion of the last write of each object until the cache has seen it. A reader asks
// [Written.Seen] before it trusts the cache, so that a stale cache costs neither a second write nor a conflict.
// It is safe for concurrent use.
type Written[K comparable] struct {
	clock    clock.PassiveClock
	mu       sync.Mutex
	versions map[K]written
}

type written struct {
	version string
	at      time.Time
}

// NewWritten returns an empty memory.
func NewWritten[K comparable](clk clock.PassiveClock) *Written[K] {
	return &Written[K]{clock: clk, versions: map[K]written{}}
}

// Wrote records that this process wrote the object and got this resourceVersion.
func (w *Written[K]) Wrote(key K, version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.versions[key] = written{version: version, at: w.clock.Now()}
}

// Is tells whether this is the last version that this process wrote.
func (w *Written[K]) Is(key K, version string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.versions[key].version == version
}

// Seen tells whether an object of the cache, with this resourceVersion ("" where the cache has none), is at least as
// new as the last recorded write.
func (w *Written[K]) Seen(key K, version string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.versions[key]
	if !ok {
		return true
	}
	if w.clock.Since(last.at) < writtenExpires {
		if version == "" {
			return false
		}
		// Versions that cannot be compared (not of this API server's making) hold nothing up.
		if order, err := resourceversion.CompareResourceVersion(version, last.version); err == nil && order < 0 {
			return false
		}
	}
	delete(w.versions, key)
	return true
}
