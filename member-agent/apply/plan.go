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
	// Digest of the content that the API server's answer had, and Note what in it was not as ordered.
	Digest string
	Note   string
	// CorrectAt is when a change that was not ordered may be corrected, where somebody makes it again and again.
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
	// Nothing: what stands is what the order says, or nothing may be done.
	Nothing Action = "Nothing"
	// Wait: look again after Decision.After.
	Wait Action = "Wait"
	// Create makes the object: nothing of that name stands.
	Create Action = "Create"
	// Update makes the object equal to the order: it carries the mark of this hub.
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
	case unseen(f):
		return Decision{Wait, cacheLag - f.Now.Sub(f.Memory.At)}
	case f.Memory.Refused == f.Order.Hash && f.Now.Before(f.Memory.RetryAt):
		return Decision{Wait, f.Memory.RetryAt.Sub(f.Now)}
	case ours && f.Order.Adopt == topology.AdoptLook:
		return Decision{Action: Look} // it was adopted in between; a question changes nothing
	case !ours && f.Order.Adopt != "" && Owner(f.Live) == "":
		return Decision{Action: decideAdoption(f)}
	case ours && orphaned(f):
		return Decision{Action: decideAdoption(f)}
	case f.Live == nil:
		return Decision{Action: Create}
	case isClaim(f.Order.Ref):
		return Decision{Action: Keep}
	case !ours:
		return Decision{Action: Conflict}
	}
	action := decideOurs(f)
	if action == Update && written(f) && f.Now.Before(f.Memory.CorrectAt) {
		return Decision{Wait, f.Memory.CorrectAt.Sub(f.Now)}
	}
	return Decision{Action: action}
}

// orphaned reports whether an object with the mark of this hub is taken over as one without a mark is: it has no order
// yet, as after an earlier membership or a copy by hand.
func orphaned(f Facts) bool {
	return f.Order.Adopt != "" && !f.Ordered && !isClaim(f.Order.Ref) && f.Live.GetDeletionTimestamp() == nil &&
		CarriedOut(f.Live) <= f.Order.Sequence
}

// unseen reports whether the object was written so lately that the cache may not have it yet.
func unseen(f Facts) bool {
	return f.Live == nil && f.Memory.Applied && !f.Memory.Seen && f.Now.Sub(f.Memory.At) < cacheLag
}

// written reports whether the order was written, so that a difference is a change by somebody else.
func written(f Facts) bool { return f.Memory.Applied && f.Memory.Hash == f.Order.Hash }

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

// decideAdoption is for a Work that adopts, where no object exists, or one without a mark or without an order. What
// another controller owns, or what is being deleted, is not there to be taken.
func decideAdoption(f Facts) Action {
	switch {
	case f.Order.Adopt == topology.AdoptLook && (f.Live == nil || adoptable(f.Live)):
		return Look
	case f.Live == nil:
		return Create
	case !adoptable(f.Live):
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

// stands tells whether what was written last is this order, and nothing of it was changed since. What an API server answered
// is compared, not what was ordered: it fills in defaults, and the member's admission may change more. The generation spares
// the comparison: an API server raises it with each change of content.
func stands(f Facts) bool {
	m := f.Memory
	if !written(f) || m.UID != f.Live.GetUID() {
		return false
	}
	if !notOlder(f.Live.GetResourceVersion(), m.Version) {
		return true // the cache has not seen our own write; its event comes
	}
	if !holds(f.Order.Desired.GetLabels(), f.Live.GetLabels()) || !holds(f.Order.Desired.GetAnnotations(), f.Live.GetAnnotations()) {
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

// notOlder tells whether version a of an object is b or a newer one. Versions that cannot be compared count as newer.
func notOlder(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order >= 0
}
