package orphans

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/objects"
)

// key names an object in whichever version it is read.
type key struct {
	schema.GroupKind
	types.NamespacedName
}

func keyOf(ref objects.Ref) key { return key{ref.GroupKind(), ref.NamespacedName} }

// needsOrder reports whether an object is there by an order of the hub alone: an object of another controller goes with
// its owner, and one that is being deleted needs nothing more.
func needsOrder(object metav1.Object, hubID string) bool {
	return hubID != "" && object.GetLabels()[topology.LabelHub] == hubID &&
		object.GetDeletionTimestamp() == nil && metav1.GetControllerOfNoCopy(object) == nil
}

// orders are the objects that Works name.
type orders struct {
	named map[key]bool
	// unreadable are the names of Works whose manifests name no object.
	unreadable []string
}

// ordersOf reads Works. copied returns the member's own copy of a Work, nil if there is none: it names the object of a
// Work that cannot be read any more.
func ordersOf(works []work.Work, copied func(types.NamespacedName) *work.Work) orders {
	o := orders{named: map[key]bool{}}
	for i := range works {
		w := &works[i]
		if o.add(w) {
			continue
		}
		if before := copied(types.NamespacedName{Namespace: w.Namespace, Name: w.Name}); before == nil || !o.add(before) {
			o.unreadable = append(o.unreadable, w.Name)
		}
	}
	return o
}

// add reports whether the Work names an object.
func (o *orders) add(w *work.Work) bool {
	readable := false
	for _, manifest := range w.Spec.Workload.Manifests {
		object := &metav1.PartialObjectMetadata{}
		if err := json.Unmarshal(manifest.Raw, object); err != nil || object.Kind == "" || object.Name == "" {
			continue
		}
		readable = true
		name := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
		o.named[key{object.GroupVersionKind().GroupKind(), name}] = true
	}
	return readable
}

// has reports whether a Work names the object, or may: the names of Works begin with the namespace and name of the
// object.
func (o *orders) has(k key) bool {
	start := k.Name + "."
	if k.Namespace != "" {
		start = k.Namespace + "." + start
	}
	mayName := func(work string) bool { return strings.HasPrefix(work+".", start) }
	return o.named[k] || slices.ContainsFunc(o.unreadable, mayName)
}

// settle returns the orphans that were without an order for the whole of the pause, sorted, and when to look again, 0
// if there is nothing to wait for. since is when each was seen first without an order; settle keeps it up to date.
func settle(
	found []objects.Ref, since map[key]time.Time, now time.Time, pause time.Duration,
) (settled []objects.Ref, again time.Duration) {
	present := make(map[key]bool, len(found))
	for _, ref := range found {
		k := keyOf(ref)
		present[k] = true
		first, known := since[k]
		if !known {
			first, since[k] = now, now
		}
		if left := first.Add(pause).Sub(now); left > 0 {
			again = max(again, left)
		} else {
			settled = append(settled, ref)
		}
	}
	for k := range since {
		if !present[k] {
			delete(since, k)
		}
	}
	slices.SortFunc(settled, func(a, b objects.Ref) int { return strings.Compare(a.Qualified(), b.Qualified()) })
	return settled, again
}
