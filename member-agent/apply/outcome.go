package apply

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/objects"
)

// Outcome is how the last attempt at a Work ended.
type Outcome struct {
	// Work that was carried out, by uid and generation.
	WorkUID    types.UID
	Generation int64
	// Ref names the member object; it is empty if the manifest could not be read.
	Ref objects.Ref
	// HubID and Sequence of the order.
	HubID    string
	Sequence int64
	// RescheduleAfter and HandOver are what the order asks of the report: they come and go without a new sequence.
	RescheduleAfter, HandOver string
	// Held: the order is not carried out before the hub has answered the session. The object is that of an earlier order.
	Held bool
	// Applied, Reason and Message become the condition Applied.
	Applied bool
	Reason  string
	Message string
	// Kept: the object is left as it is, with the hub's label or without.
	Kept bool
	// Found is the object without the hub's label that the Work asks to adopt, nil if there is none. It is read-only.
	Found *unstructured.Unstructured
	// At is when this order (this generation or sequence) had its first outcome.
	At time.Time
}

// Outcomes hands outcomes from apply to report. Its methods are safe for concurrent use.
type Outcomes struct {
	mu          sync.RWMutex
	byWork      map[types.NamespacedName]Outcome
	corrections map[string]int64 // by kind
	subscribers []func(work types.NamespacedName)
}

// NewOutcomes returns an empty set.
func NewOutcomes() *Outcomes {
	return &Outcomes{byWork: map[types.NamespacedName]Outcome{}, corrections: map[string]int64{}}
}

// Get returns the outcome of a Work, and whether there is one.
func (o *Outcomes) Get(work types.NamespacedName) (Outcome, bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	outcome, ok := o.byWork[work]
	return outcome, ok
}

// Held is how an order is counted that waits until the hub has answered the session.
const Held = "Held"

// Count returns how many Works have each outcome: the reason of the condition Applied, or [Held].
func (o *Outcomes) Count() map[string]int {
	o.mu.RLock()
	defer o.mu.RUnlock()
	count := map[string]int{}
	for _, outcome := range o.byWork {
		if outcome.Held {
			count[Held]++
		} else {
			count[outcome.Reason]++
		}
	}
	return count
}

// Corrections returns how many changes that were not ordered this process has corrected, by the kind of the object.
func (o *Outcomes) Corrections() map[string]int64 {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return maps.Clone(o.corrections)
}

func (o *Outcomes) countCorrection(kind string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.corrections[kind]++
}

// Source wakes a controller for a Work when its outcome changed.
func (o *Outcomes) Source() source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.subscribers = append(o.subscribers, func(work types.NamespacedName) {
			queue.Add(reconcile.Request{NamespacedName: work})
		})
		for work := range o.byWork {
			queue.Add(reconcile.Request{NamespacedName: work})
		}
		return nil
	})
}

// set stores an outcome and wakes the subscribers if it says something new.
func (o *Outcomes) set(work types.NamespacedName, outcome Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if old, ok := o.byWork[work]; ok {
		if old.WorkUID == outcome.WorkUID && old.Generation == outcome.Generation && old.Sequence == outcome.Sequence {
			outcome.At = old.At
		}
		if old == outcome {
			return
		}
	}
	o.byWork[work] = outcome
	for _, wake := range o.subscribers {
		wake(work)
	}
}

// drop forgets a Work that is gone.
func (o *Outcomes) drop(work types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.byWork, work)
}

// applied stores that the object is as ordered, unless another writer contests it.
func (r *Reconciler) applied(w *work.Work, m *memo) {
	if m.contest.active(r.Clock.Now()) {
		r.outcome(w, m, false, work.ReasonOverwritten, m.contest.message)
		return
	}
	r.outcome(w, m, true, work.ReasonApplied, appliedMessageOf(m))
}

// outcome stores how an attempt ended.
func (r *Reconciler) outcome(w *work.Work, m *memo, applied bool, reason, message string) {
	r.Outcomes.set(client.ObjectKeyFromObject(w), Outcome{
		WorkUID: w.UID, Generation: w.Generation,
		Ref: m.order.Ref, HubID: m.order.HubID, Sequence: m.order.Sequence,
		RescheduleAfter: w.Annotations[topology.AnnotationRescheduleAfter],
		HandOver:        w.Annotations[topology.AnnotationHandOver],
		Applied:         applied, Reason: reason, Message: message, At: r.Clock.Now(),
	})
}

// heldOutcome returns the outcome of an order that was not carried out.
func heldOutcome(w *work.Work, m *memo, now time.Time) Outcome {
	outcome := Outcome{WorkUID: w.UID, Generation: w.Generation, HubID: m.hubID, Held: true, At: now}
	if m.order != nil {
		outcome.Ref, outcome.Sequence = m.order.Ref, m.order.Sequence
	}
	return outcome
}
