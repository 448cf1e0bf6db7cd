package apply

import (
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// Facts is all that a decision rests on.
type Facts struct {
	// Order is what the Work asks for.
	Order *Order
	// Deleting: the Work has a deletion timestamp. Preserve and Suspended are its spec.
	Deleting, Preserve, Suspended bool
	// Live is the object in the member, nil if there is none.
	Live *unstructured.Unstructured
	// Memory is what the last attempt of this process left, the zero value if there was none.
	Memory Memory
	// Now is the time of the decision.
	Now time.Time
}

// Memory is what one process remembers of a Work between two looks.
type Memory struct {
	// Applied is set after the API server took the object with this Hash: UID, Generation and Version are its answer.
	Applied    bool
	Hash       uint64
	UID        types.UID
	Generation int64
	Version    string
	At         time.Time
	// Seen: the cache has shown the answer, or something newer.
	Seen bool
	// Refused is the hash that was refused last; Failures in a row; RetryAt is when to try again.
	Refused  uint64
	Failures int
	RetryAt  time.Time
}

// Action is what to do about a Work.
type Action string

// The actions.
const (
	// Nothing: what stands is what the order says, or nothing may be done.
	Nothing Action = "Nothing"
	// Wait: look again after Decision.After.
	Wait Action = "Wait"
	// Create applies without force: nothing of that name stands.
	Create Action = "Create"
	// Update applies with force: the object carries the mark of this hub.
	Update Action = "Update"
	// Keep: the object stands, whoever made it, and is left as it is.
	Keep Action = "Keep"
	// Conflict: an object of that name carries no mark, or another hub's.
	Conflict Action = "Conflict"
	// Look: tell the hub what stands, and change nothing. Adopt: take over an object without a mark, as it stands.
	Look  Action = "Look"
	Adopt Action = "Adopt"
	// Outdated: a newer order of the same hub stands.
	Outdated Action = "Outdated"
	// Delete deletes the member object; Release takes off the mark and lets it stand; Finish lets the Work go.
	Delete  Action = "Delete"
	Release Action = "Release"
	Finish  Action = "Finish"
)

// Decision is an action and, for Wait, a time.
type Decision struct {
	Action Action
	After  time.Duration
}

// cacheLag is how long an object that was written and is not seen in the cache counts as not seen yet, rather than as
// deleted in between. The watch of a healthy API server lags by milliseconds.
const cacheLag = 2 * time.Second

// Decide says what to do about a Work. It is pure.
func Decide(f Facts) Decision {
	ours := f.Live != nil && Owner(f.Live) == f.Order.HubID
	switch {
	case f.Deleting:
		return Decision{Action: decideDeletion(f, ours)}
	case f.Suspended:
		return Decision{Action: Nothing}
	case f.Live == nil && f.Memory.Applied && !f.Memory.Seen && f.Now.Sub(f.Memory.At) < cacheLag:
		return Decision{Wait, cacheLag - f.Now.Sub(f.Memory.At)}
	case f.Memory.Refused == f.Order.Hash && f.Now.Before(f.Memory.RetryAt):
		return Decision{Wait, f.Memory.RetryAt.Sub(f.Now)}
	case ours && f.Order.Adopt == topology.AdoptLook:
		return Decision{Action: Look} // it was adopted in between; a question changes nothing
	case !ours && f.Order.Adopt != "" && Owner(f.Live) == "":
		return Decision{Action: decideAdoption(f)}
	case f.Live == nil:
		return Decision{Action: Create}
	case isClaim(f.Order.Ref):
		return Decision{Action: Keep}
	case !ours:
		return Decision{Action: Conflict}
	}
	return Decision{Action: decideOurs(f)}
}

// decideOurs is for an object that carries the mark of this hub.
func decideOurs(f Facts) Action {
	switch {
	case CarriedOut(f.Live) > f.Order.Sequence:
		return Outdated
	case f.Live.GetDeletionTimestamp() != nil:
		// Someone deletes our object and a finalizer holds it. It is made anew once it is gone, which its event tells.
		return Nothing
	case stands(f):
		return Nothing
	default:
		return Update
	}
}

func decideDeletion(f Facts, ours bool) Action {
	switch {
	case !ours:
		return Finish // gone, or not ours to delete
	case f.Preserve, isClaim(f.Order.Ref):
		return Release
	case f.Live.GetDeletionTimestamp() != nil:
		return Nothing // its end wakes us
	default:
		return Delete
	}
}

// decideAdoption is for a Work that adopts, where nothing stands or something without a mark. What another controller owns,
// or what is being deleted, is not there to be taken.
func decideAdoption(f Facts) Action {
	switch {
	case f.Order.Adopt == topology.AdoptLook && (f.Live == nil || adoptable(f.Live)):
		return Look
	case f.Live == nil:
		return Create
	case !adoptable(f.Live), !sameContent(f.Live, f.Order.Desired):
		return Conflict
	case f.Order.Adopt != standing(f.Live):
		return Look
	}
	return Adopt
}

func adoptable(live *unstructured.Unstructured) bool {
	return metav1.GetControllerOf(live) == nil && live.GetDeletionTimestamp() == nil
}

// standing is how many replicas an object asks for, as the hub writes it on a Work; 0 for a kind without replicas.
func standing(live *unstructured.Unstructured) string {
	replicas, _, err := unstructured.NestedInt64(live.Object, "spec", "replicas")
	if err != nil {
		return ""
	}
	return strconv.FormatInt(replicas, 10)
}

// stands tells whether what this process applied last is this order, and nothing of it was changed since. It compares
// generations instead of fields: an API server changes the generation with each change of the spec, and fills in
// defaults that a comparison of fields would have to know.
func stands(f Facts) bool {
	m := f.Memory
	if !m.Applied || m.Hash != f.Order.Hash || m.UID != f.Live.GetUID() {
		return false
	}
	if !notOlder(f.Live.GetResourceVersion(), m.Version) {
		return true // the cache has not seen our own write; its event comes
	}
	if m.Generation != f.Live.GetGeneration() {
		return false
	}
	if m.Generation == 0 && m.Version != f.Live.GetResourceVersion() {
		return false // a kind without generations (ConfigMap, Secret): any change may be one of content
	}
	return holds(f.Order.Desired.GetLabels(), f.Live.GetLabels()) && holds(f.Order.Desired.GetAnnotations(), f.Live.GetAnnotations())
}

func holds(want, have map[string]string) bool {
	for key, value := range want {
		if got, ok := have[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// notOlder tells whether version a of an object is b or a newer one. Versions that cannot be compared count as newer.
func notOlder(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order >= 0
}
