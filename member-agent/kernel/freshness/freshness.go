package freshness

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RereadAfter is how long a write may stay unseen before the API server is asked. Watch events come within
// milliseconds; five seconds is longer than a watch that breaks and begins again.
const RereadAfter = 5 * time.Second

// RetryAfter is when a stale owner is looked at again if no event comes first.
const RetryAfter = time.Second

// Seen is what the cache knows of an object.
type Seen struct {
	// Present is false if the cache does not have the object.
	Present bool
	// ResourceVersion is the version that the cache has.
	ResourceVersion string
	// Deleting says that the object has a deletion timestamp.
	Deleting bool
}

// Cache tells what the cache knows of an object of this owner.
type Cache func(key types.NamespacedName) Seen

// write is one recorded write.
type write struct {
	kind    kind
	version string
	at      time.Time
	// unsure says that the answer was lost: the write may not have been carried out. version is then what the object had
	// before, and a newer one shows the write.
	unsure bool
	// sure is the version of an earlier write that was answered and that the cache had not shown; "" for none.
	sure string
}

type kind int

const (
	created kind = iota
	changed
	deleted
)

// Store holds the writes that caches have not shown yet, by owner. The zero value is not usable.
type Store struct {
	clock  clock.PassiveClock
	mu     sync.Mutex
	owners map[types.UID]map[types.NamespacedName]write
}

// NewStore returns an empty store.
func NewStore(c clock.PassiveClock) *Store {
	return &Store{clock: c, owners: map[types.UID]map[types.NamespacedName]write{}}
}

func (s *Store) record(owner types.UID, key types.NamespacedName, w write) {
	w.at = s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	writes := s.owners[owner]
	if writes == nil {
		writes = map[types.NamespacedName]write{}
		s.owners[owner] = writes
	}
	if before, ok := writes[key]; ok && w.kind == changed {
		if w.unsure && before.kind == changed && before.known() != "" && atLeast(before.known(), w.version) {
			// Our own earlier write is newer than what the caller saw.
			w.version, w.sure = before.known(), before.known()
		}
		// An object that was created and then changed must still be waited for as a new one.
		if before.kind == created {
			w.kind = created
		}
	}
	writes[key] = w
}

// known is the version that an answered write gave the object, or "".
func (w write) known() string {
	if w.unsure {
		return w.sure
	}
	return w.version
}

// MaybeCreated records that an object may have been created: the answer was lost.
func (s *Store) MaybeCreated(owner types.UID, key types.NamespacedName) {
	s.record(owner, key, write{kind: created, unsure: true})
}

// MaybeChanged records that an object may have been changed, which had this version before.
func (s *Store) MaybeChanged(owner types.UID, key types.NamespacedName, before string) {
	s.record(owner, key, write{kind: changed, version: before, unsure: true})
}

// MaybeDeleted records that the deletion of an object may have been asked for.
func (s *Store) MaybeDeleted(owner types.UID, key types.NamespacedName) {
	s.record(owner, key, write{kind: deleted, unsure: true})
}

// Created records that an object was created.
func (s *Store) Created(owner types.UID, key types.NamespacedName, version string) {
	s.record(owner, key, write{kind: created, version: version})
}

// Changed records that an object now has this version.
func (s *Store) Changed(owner types.UID, key types.NamespacedName, version string) {
	s.record(owner, key, write{kind: changed, version: version})
}

// Deleted records that the deletion of an object was asked for.
func (s *Store) Deleted(owner types.UID, key types.NamespacedName) {
	s.record(owner, key, write{kind: deleted})
}

// Forget drops all records of an owner that is gone.
func (s *Store) Forget(owner types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.owners, owner)
}

func (s *Store) unseen(owner types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.owners[owner] {
		if w.kind == created {
			return true
		}
	}
	return false
}

// Fresh reports whether the cache shows every write of the owner; those that it shows are forgotten. overdue are the
// objects whose writes have been unseen for too long: ask the API server, see Reread.
func (s *Store) Fresh(owner types.UID, cache Cache) (fresh bool, overdue []types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	writes := s.owners[owner]
	now := s.clock.Now()
	for key, w := range writes {
		if w.seen(cache(key)) {
			delete(writes, key)
		} else if age := now.Sub(w.at); age >= RereadAfter || w.unsure && age >= RetryAfter {
			overdue = append(overdue, key)
		}
	}
	if len(writes) == 0 {
		delete(s.owners, owner)
	}
	return len(writes) == 0, overdue
}

func (w write) seen(have Seen) bool {
	switch {
	case w.kind == deleted:
		return !have.Present || have.Deleting
	case !have.Present:
		// The cache had an object before we changed it. If it has not any more, the object is gone.
		return w.kind == changed
	}
	if w.unsure && w.kind == changed {
		return newer(have.ResourceVersion, w.version)
	}
	return atLeast(have.ResourceVersion, w.version)
}

// newer reports whether version have is newer than want. Versions that cannot be compared count as newer if they
// differ.
func newer(have, want string) bool {
	if have == want {
		return false
	}
	c, err := resourceversion.CompareResourceVersion(have, want)
	return err != nil || c > 0
}

// atLeast reports whether version have is want or newer. Versions that cannot be compared count as seen: waiting for
// them would never end.
func atLeast(have, want string) bool {
	if want == "" || have == want {
		return true
	}
	c, err := resourceversion.CompareResourceVersion(have, want)
	return err != nil || c >= 0
}

// Reread asks the API server about overdue objects and drops the records that it refutes. newObject returns an empty
// object to read into.
func (s *Store) Reread(
	ctx context.Context,
	live client.Reader,
	owner types.UID,
	overdue []types.NamespacedName,
	newObject func() client.Object,
) error {
	for _, key := range overdue {
		obj := newObject()
		err := live.Get(ctx, key, obj)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("read %s, which the cache does not show as written: %w", key, err)
		}
		s.judge(owner, key, err == nil, obj)
	}
	return nil
}

// judge keeps a record if the API server confirms it, and waits for it as long again.
func (s *Store) judge(owner types.UID, key types.NamespacedName, exists bool, obj client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.owners[owner][key]
	if !ok {
		return
	}
	have := Seen{Present: exists, ResourceVersion: obj.GetResourceVersion(), Deleting: obj.GetDeletionTimestamp() != nil}
	confirmed := w.seen(have) && (w.kind == deleted || exists)
	switch {
	case !exists && w.kind == changed:
		// It is gone, and the cache still shows it as it was before our write.
		s.owners[owner][key] = write{kind: deleted, at: s.clock.Now()}
		return
	case !confirmed && w.unsure && w.sure != "" && exists:
		// The unanswered write was not carried out; the one before it was, and is still waited for.
		s.owners[owner][key] = write{kind: w.kind, version: w.sure, at: s.clock.Now()}
		return
	case !confirmed:
		delete(s.owners[owner], key)
		return
	}
	w.at = s.clock.Now()
	if w.unsure {
		// Now it is known what the write made, or that somebody has written since.
		w.unsure, w.version = false, have.ResourceVersion
	}
	s.owners[owner][key] = w
}
