package apply

import (
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/ownership"
)

// Facts is all that a decision rests on.
type Facts struct {
	// Order is what the Work asks for.
	Order *Order
	// Deleting: the Work has a deletion timestamp. Preserve and Suspended are its spec.
	Deleting, Preserve, Suspended bool
	// Live is the object in the member, nil if there is none.
	Live *unstructured.Unstructured
	// Ordered reports whether an order of the Work's name was carried out in this member: this process remembers it, or
	// the member has a copy of it.
	Ordered bool
	// Memory of the last attempt of this process, the zero value if there was none.
	Memory Memory
	// Now is the time of the decision.
	Now time.Time
}

// Memory is what one process remembers of a Work between two reconciles.
type Memory struct {
	// Applied is set after the API server took the object with this Hash: UID, Generation and Version are its answer.
	Applied    bool
	Hash       uint64
	UID        types.UID
	Generation int64
	Version    string
	At         time.Time
	// Digest of the content that the API server's answer had, and Note what in it was not as ordered.
	Digest string
	Note   string
	// CorrectAt is when the next change by another writer may be corrected, for an object that is contested.
	CorrectAt time.Time
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
	// Nothing: the object is as ordered, or may not be changed.
	Nothing Action = "Nothing"
	// Wait: decide again after Decision.After.
	Wait Action = "Wait"
	// Create creates the object.
	Create Action = "Create"
	// Update makes an object with the label of this hub equal to the order.
	Update Action = "Update"
	// Keep leaves an object as it is, whoever created it.
	Keep Action = "Keep"
	// Conflict: the object has no hub's label, or that of another hub.
	Conflict Action = "Conflict"
	// Look reports the object to the hub, and changes nothing. Adopt takes over an object without the hub's label.
	Look  Action = "Look"
	Adopt Action = "Adopt"
	// Outdated: a newer order of the same hub was carried out.
	Outdated Action = "Outdated"
	// Delete deletes the member object. Release orphans it. Finish removes the finalizer from the Work.
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
	case unseen(f):
		return Decision{Wait, cacheLag - f.Now.Sub(f.Memory.At)}
	case f.Memory.Refused == f.Order.Hash && f.Now.Before(f.Memory.RetryAt):
		return Decision{Wait, f.Memory.RetryAt.Sub(f.Now)}
	}
	action := decideOrder(f, ours)
	if action == Update && written(f) && f.Now.Before(f.Memory.CorrectAt) {
		return Decision{Wait, f.Memory.CorrectAt.Sub(f.Now)}
	}
	return Decision{Action: action}
}

// decideOrder is for an order that can be carried out now.
func decideOrder(f Facts, ours bool) Action {
	switch {
	case ours && f.Order.Adopt == topology.AdoptLook:
		return Look // it was adopted in between; a question changes nothing
	case !ours && f.Order.Adopt != "" && Owner(f.Live) == "":
		return decideAdoption(f)
	case ours && orphaned(f):
		return decideAdoption(f)
	case f.Live == nil:
		return Create
	case isClaim(f.Order.Ref):
		return Keep
	case !ours:
		return Conflict
	}
	return decideOurs(f)
}

// orphaned reports whether an object with the label of this hub is adopted as one without it: it has no order yet, as
// after an earlier membership or a manual copy.
func orphaned(f Facts) bool {
	return f.Order.Adopt != "" && !f.Ordered && !isClaim(f.Order.Ref) && f.Live.GetDeletionTimestamp() == nil &&
		CarriedOut(f.Live) <= f.Order.Sequence
}

// unseen reports whether the object was written so lately that the cache may not have it yet.
func unseen(f Facts) bool {
	return f.Live == nil && f.Memory.Applied && !f.Memory.Seen && f.Now.Sub(f.Memory.At) < cacheLag
}

// written reports whether the order was written, so that a difference is a change by another writer.
func written(f Facts) bool { return f.Memory.Applied && f.Memory.Hash == f.Order.Hash }

// decideOurs is for an object with the label of this hub.
func decideOurs(f Facts) Action {
	switch {
	case CarriedOut(f.Live) > f.Order.Sequence:
		return Outdated
	case f.Live.GetDeletionTimestamp() != nil:
		// Another client deletes the object, and a finalizer holds it. The event of its end wakes the Work, and it is created
		// again.
		return Nothing
	case unchanged(f):
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

// decideAdoption is for a Work that adopts, if the object does not exist, or has no label of a hub or no order. An
// object that has a controller or is being deleted is not adopted.
func decideAdoption(f Facts) Action {
	switch {
	case f.Order.Adopt == topology.AdoptLook && (f.Live == nil || adoptable(f.Live)):
		return Look
	case f.Live == nil:
		return Create
	case !adoptable(f.Live):
		return Conflict
	case f.Order.Adopt != replicasOf(f.Live):
		return Look
	}
	return Adopt
}

func adoptable(live *unstructured.Unstructured) bool {
	return metav1.GetControllerOf(live) == nil && live.GetDeletionTimestamp() == nil
}

// replicasOf returns the replicas of an object, as the hub writes them on a Work; 0 for a kind without replicas.
func replicasOf(live *unstructured.Unstructured) string {
	replicas, _, err := unstructured.NestedInt64(live.Object, "spec", "replicas")
	if err != nil {
		return ""
	}
	return strconv.FormatInt(replicas, 10)
}

// unchanged reports whether this order was written last, and nothing of it changed since. The object is compared with
// the API server's answer, not with the order: defaults and the member's admission may have changed more. The same
// generation means the same content.
func unchanged(f Facts) bool {
	m := f.Memory
	if !written(f) || m.UID != f.Live.GetUID() {
		return false
	}
	if !notOlder(f.Live.GetResourceVersion(), m.Version) {
		return true // the cache has not seen our own write; its event comes
	}
	if !holds(f.Order.Desired.GetLabels(), f.Live.GetLabels()) ||
		!holds(f.Order.Desired.GetAnnotations(), f.Live.GetAnnotations()) {
		return false
	}
	if m.Version == f.Live.GetResourceVersion() || m.Generation != 0 && m.Generation == f.Live.GetGeneration() {
		return true
	}
	digest, err := ownership.Digest(f.Live, f.Order.Desired)
	return err == nil && digest == m.Digest
}

func holds(want, have map[string]string) bool {
	for key, value := range want {
		if got, ok := have[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// notOlder reports whether version a of an object is b or a newer one. Versions that cannot be compared count as newer.
func notOlder(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order >= 0
}
