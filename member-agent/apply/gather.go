package apply

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/copies"
	"github.com/flotilla-dev/flotilla/member-agent/ownership"
)

// memo is what is kept of a Work between two looks. Only the Work's worker uses its fields.
type memo struct {
	Memory
	uid        types.UID
	generation int64
	sequence   string
	hubID      string
	adopt      string
	order      *Order
	orderErr   error
	bound      bool
	// since is when the order of the fingerprint waits began to wait for what it needs; without is what it was carried out
	// without.
	waits   uint64
	since   time.Time
	without string
	served  bool // the order of waits was carried out, or may be
	// previous is what the orders before this one had, of which the object may have some still.
	previous ownership.Previous
	// admitted are the changes that the member's admission made in the last write of this process; nil if there was none.
	admitted []ownership.Change
	contest  contest
}

// recall returns what is kept of the Work, with its order read anew if the Work changed.
func (r *Reconciler) recall(name types.NamespacedName, w *work.Work) *memo {
	r.mu.Lock()
	m := r.works[name]
	var before *Order
	if m != nil {
		before = m.order
	}
	if m == nil || m.uid != w.UID {
		m = &memo{uid: w.UID, previous: r.orderedBefore(name)}
		r.works[name] = m
	}
	r.mu.Unlock()

	sequence, hubID, adopt := w.Annotations[topology.AnnotationSequence], w.Annotations[topology.AnnotationHubID], w.Annotations[topology.AnnotationAdopt]
	if (m.order == nil && m.orderErr == nil) || m.generation != w.Generation || m.sequence != sequence || m.hubID != hubID || m.adopt != adopt {
		last := m.order
		m.generation, m.sequence, m.hubID, m.adopt = w.Generation, sequence, hubID, adopt
		m.order, m.orderErr = ParseOrder(w)
		m.bound = m.bound && m.order != nil && last != nil && m.order.Ref == last.Ref
		if before != nil && (m.order == nil || m.order.Ref != before.Ref) {
			r.Generations.forget(before.Ref) // an unreadable order corrects nothing, and neither does one for another object
		}
		if last != nil {
			m.previous = m.previous.With(ownership.PreviousOf(last.Desired))
		}
		if m.order != nil && !m.Applied && r.Copies.Holds(w) {
			m.remember(r.Copies.Accepted(name))
		}
	}
	return m
}

// orderedBefore returns what the order had that the member's copy has.
func (r *Reconciler) orderedBefore(name types.NamespacedName) ownership.Previous {
	w := r.Copies.Work(name)
	if w == nil {
		return ownership.Previous{}
	}
	order, err := ParseOrder(w)
	if err != nil {
		return ownership.Previous{} // it was never carried out
	}
	return ownership.PreviousOf(order.Desired)
}

// remember takes over what an agent before this one wrote for the present order.
func (m *memo) remember(accepted copies.Accepted) {
	if accepted.Digest == "" {
		return
	}
	m.Memory = Memory{
		Applied: true, Seen: true, Hash: m.order.Hash,
		UID: accepted.UID, Generation: accepted.Generation, Digest: accepted.Digest, Note: accepted.Note,
	}
}

// accepted is what the member's copy is to say of the present order; the zero value where it was not written yet.
func (m *memo) accepted() copies.Accepted {
	if !m.Applied || m.Hash != m.order.Hash {
		return copies.Accepted{}
	}
	return copies.Accepted{UID: m.UID, Generation: m.Generation, Digest: m.Digest, Note: m.Note}
}

func (r *Reconciler) forget(name types.NamespacedName) {
	r.mu.Lock()
	if m := r.works[name]; m != nil && m.order != nil {
		r.Generations.forget(m.order.Ref)
	}
	r.mu.Unlock()
	r.Objects.Forget(name)
	r.Outcomes.drop(name)
	r.waiting.set(name, nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.works, name)
}

// gather reads what stands in the member. An object that is not in the cache, which shows marked objects only, is asked
// for once before anything is created or let go.
func (r *Reconciler) gather(ctx context.Context, w *work.Work, m *memo) (Facts, error) {
	facts := Facts{
		Order:     m.order,
		Deleting:  !w.DeletionTimestamp.IsZero(),
		Preserve:  w.Spec.PreserveResourcesOnDeletion != nil && *w.Spec.PreserveResourcesOnDeletion,
		Suspended: w.Spec.SuspendDispatching != nil && *w.Spec.SuspendDispatching,
		Now:       r.Clock.Now(),
	}
	name := client.ObjectKeyFromObject(w)
	facts.Ordered = m.order.Adopt == "" || m.Applied || r.Copies.Work(name) != nil // only an adoption asks for it
	if !m.bound {
		err := r.Objects.Bind(ctx, name, m.order.Ref)
		if facts.Deleting && meta.IsNoMatchError(err) {
			return facts, nil // no such kind, no such object
		}
		if err != nil {
			return facts, err
		}
		m.bound = true
	}
	var err error
	if facts.Live, err = r.Objects.Get(ctx, m.order.Ref); err != nil {
		return facts, err
	}
	if facts.Live != nil && m.Applied && notOlder(facts.Live.GetResourceVersion(), m.Version) {
		m.Seen = true
	}
	facts.Memory = m.Memory
	if facts.Live != nil || Decide(facts).Action == Wait {
		return facts, nil
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(m.order.Ref.GroupVersionKind)
	switch err := r.reader.Get(ctx, m.order.Ref.NamespacedName, live); {
	case err == nil:
		facts.Live = live
	case !apierrors.IsNotFound(err):
		return facts, fmt.Errorf("read %s: %w", m.order.Ref, err)
	}
	return facts, nil
}
