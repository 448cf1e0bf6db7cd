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
	"github.com/flotilla-dev/flotilla/member-agent/objects"
	"github.com/flotilla-dev/flotilla/member-agent/ownership"
)

// memo is what is kept of a Work between two reconciles. Only the Work's worker uses its fields.
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
	// waitingSince is when the order with the fingerprint waitingHash began to wait for its dependencies, and mayProceed
	// whether it may be carried out, or was. missingNeeds are the dependencies without which it was carried out.
	waitingHash  uint64
	waitingSince time.Time
	missingNeeds string
	mayProceed   bool
	// previous are the fields of previous orders, which the object may still have.
	previous ownership.Previous
	// admitted are the changes that the member's admission made in the last write of this process; nil if there was none.
	admitted []ownership.Change
	contest  contest
}

// recall returns what is kept of the Work. It reads the order again if the Work changed.
func (r *Reconciler) recall(name types.NamespacedName, w *work.Work) *memo {
	m, before := r.memoOf(name, w)
	if m.upToDate(w) {
		return m
	}
	m.readOrder(w)
	if before != nil && (m.order == nil || m.order.Ref != before.Ref) {
		r.Generations.forget(before.Ref) // this order does not correct that object
	}
	if m.order != nil && !m.Applied && r.Copies.Holds(w) {
		m.remember(r.Copies.Accepted(name))
	}
	return m
}

// memoOf returns what is kept of the Work, and the last order of its name, which an earlier Work may have had.
func (r *Reconciler) memoOf(name types.NamespacedName, w *work.Work) (m *memo, last *Order) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m = r.works[name]
	if m != nil {
		last = m.order
	}
	if m == nil || m.uid != w.UID {
		m = &memo{uid: w.UID, previous: r.orderedBefore(name)}
		r.works[name] = m
	}
	return m, last
}

// upToDate reports whether the order was read from this version of the Work.
func (m *memo) upToDate(w *work.Work) bool {
	return (m.order != nil || m.orderErr != nil) && m.generation == w.Generation &&
		m.sequence == w.Annotations[topology.AnnotationSequence] && m.hubID == w.Annotations[topology.AnnotationHubID] &&
		m.adopt == w.Annotations[topology.AnnotationAdopt]
}

// readOrder replaces the order by that of the Work.
func (m *memo) readOrder(w *work.Work) {
	last := m.order
	m.generation, m.sequence = w.Generation, w.Annotations[topology.AnnotationSequence]
	m.hubID, m.adopt = w.Annotations[topology.AnnotationHubID], w.Annotations[topology.AnnotationAdopt]
	m.order, m.orderErr = ParseOrder(w)
	m.bound = m.bound && m.order != nil && last != nil && m.order.Ref == last.Ref
	if last != nil {
		m.previous = m.previous.With(ownership.PreviousOf(last.Desired))
	}
}

// orderedBefore returns the fields of the order in the member's copy of the Work.
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

// remember takes over what an earlier process of the agent wrote for the current order.
func (m *memo) remember(accepted copies.Accepted) {
	if accepted.Digest == "" {
		return
	}
	m.Memory = Memory{
		Applied: true, Seen: true, Hash: m.order.Hash,
		UID: accepted.UID, Generation: accepted.Generation, Digest: accepted.Digest, Note: accepted.Note,
	}
}

// accepted returns what the member's copy records of the current order, the zero value if it was not written yet.
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

// gather reads the object in the member. The cache has only objects with the hub's label: any other one is read
// from the API server before the decision.
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
	if facts.Live == nil && Decide(facts).Action != Wait {
		facts.Live, err = r.read(ctx, m.order.Ref)
	}
	return facts, err
}

// read returns an object from the API server, past the cache; nil if there is none.
func (r *Reconciler) read(ctx context.Context, ref objects.Ref) (*unstructured.Unstructured, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(ref.GroupVersionKind)
	err := r.reader.Get(ctx, ref.NamespacedName, live)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", ref, err)
	}
	return live, nil
}
