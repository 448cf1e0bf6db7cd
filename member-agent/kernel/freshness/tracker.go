package freshness

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Tracker holds the writes of one controller to objects of several kinds: to the owners themselves, and to what they
// own.
type Tracker struct {
	// Self takes the writes to owners.
	Self *Store

	clock clock.PassiveClock
	live  client.Reader
	empty func() client.Object
	kinds []tracked
}

// tracked is one kind of objects that owners own.
type tracked struct {
	store *Store
	empty func() client.Object
	cache func(context.Context) Cache
}

// NewTracker returns a tracker that asks the API server by live. empty returns an owner to read into.
func NewTracker(c clock.PassiveClock, live client.Reader, empty func() client.Object) *Tracker {
	return &Tracker{Self: NewStore(c), clock: c, live: live, empty: empty}
}

// Track returns the store for writes to one more kind of objects, which the cache shows. It is for setting up.
func (t *Tracker) Track(empty func() client.Object, cache Cache) *Store {
	return t.track(empty, func(context.Context) Cache { return cache })
}

// TrackIn is Track for a kind that is read by a reader of the cache.
func (t *Tracker) TrackIn(empty func() client.Object, reader client.Reader) *Store {
	return t.track(empty, func(ctx context.Context) Cache {
		return func(key types.NamespacedName) Seen {
			object := empty()
			if reader.Get(ctx, key, object, client.UnsafeDisableDeepCopy) != nil {
				return Seen{}
			}
			return seenAs(object)
		}
	})
}

func (t *Tracker) track(empty func() client.Object, cache func(context.Context) Cache) *Store {
	store := NewStore(t.clock)
	t.kinds = append(t.kinds, tracked{store, empty, cache})
	return store
}

// Fresh reports whether the caches show every write of the owner, which is given as the cache has it.
func (t *Tracker) Fresh(ctx context.Context, owner client.Object) (bool, error) {
	self := func(context.Context) Cache { return func(types.NamespacedName) Seen { return seenAs(owner) } }
	all := true
	for _, kind := range append([]tracked{{t.Self, t.empty, self}}, t.kinds...) {
		fresh, overdue := kind.store.Fresh(owner.GetUID(), kind.cache(ctx))
		if err := kind.store.Reread(ctx, t.live, owner.GetUID(), overdue, kind.empty); err != nil {
			return false, err
		}
		all = all && fresh
	}
	return all, nil
}

// Unseen reports whether the cache has never shown an object that was created for the owner. If that is gone before the
// watch shows it, no event comes.
func (t *Tracker) Unseen(owner types.UID) bool {
	return slices.ContainsFunc(t.kinds, func(k tracked) bool { return k.store.unseen(owner) })
}

// Forget drops all writes of an owner that is gone.
func (t *Tracker) Forget(owner types.UID) {
	t.Self.Forget(owner)
	for _, kind := range t.kinds {
		kind.store.Forget(owner)
	}
}

func seenAs(object client.Object) Seen {
	return Seen{Present: true, ResourceVersion: object.GetResourceVersion(),
		Deleting: object.GetDeletionTimestamp() != nil}
}
