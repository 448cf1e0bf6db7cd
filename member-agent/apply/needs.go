package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/objects"
)

const (
	// needsPatience is how long an order waits for what it needs. Then it is carried out all the same: pods can wait for a
	// ConfigMap, and an order that lowers a share must not wait for ever.
	needsPatience = 30 * time.Second
	// needsQuiet is how long it waits before it says so: what comes with the same order takes less.
	needsQuiet = 2 * time.Second
)

// isClaim reports whether an object holds data of users: it is created, and never changed or deleted.
func isClaim(ref objects.Ref) bool {
	return ref.Group == corev1.GroupName && ref.Kind == "PersistentVolumeClaim"
}

// needsOf returns the Works whose objects must exist before this one's.
func needsOf(w *work.Work) []types.NamespacedName {
	text := w.Annotations[topology.AnnotationDependsOn]
	if text == "" {
		return nil
	}
	var needs []types.NamespacedName
	for name := range strings.SplitSeq(text, ",") {
		needs = append(needs, types.NamespacedName{Namespace: w.Namespace, Name: name})
	}
	return needs
}

// missing returns the needs that do not exist yet and still may. An object in conflict or not allowed never will, which
// its own Work reports. An object that another writer changes exists.
func (r *Reconciler) missing(ctx context.Context, needs []types.NamespacedName) ([]string, error) {
	var missing []string
	for _, need := range needs {
		w, err := r.Hub.Work(ctx, need)
		if err != nil {
			return nil, err
		}
		outcome, ok := r.Outcomes.Get(need)
		settled := w != nil && ok && outcome.WorkUID == w.UID && outcome.Generation >= w.Generation &&
			(outcome.Applied || slices.Contains(
				[]string{work.ReasonConflict, work.ReasonNotAllowed, work.ReasonOverwritten}, outcome.Reason))
		if !settled {
			missing = append(missing, need.Name)
		}
	}
	return missing, nil
}

// awaitNeeds returns how long an order waits for its needs, 0 if it does not wait. The order is woken earlier when they
// exist.
func (r *Reconciler) awaitNeeds(ctx context.Context, w *work.Work, m *memo) (time.Duration, error) {
	needs := needsOf(w)
	if len(needs) == 0 {
		return 0, nil
	}
	name := client.ObjectKeyFromObject(w)
	// First, so that an object that is created in between wakes the order.
	r.waiting.set(name, needs)
	missing, err := r.missing(ctx, needs)
	if err != nil {
		return 0, err
	}
	now := r.Clock.Now()
	// An order that replaces a waiting one does not wait longer.
	if m.waitingSince.IsZero() || m.mayProceed && m.waitingHash != m.order.Hash {
		m.waitingSince, m.mayProceed = now, false
	}
	m.waitingHash = m.order.Hash
	m.missingNeeds = ""
	waited := now.Sub(m.waitingSince)
	switch {
	case len(missing) == 0:
		m.mayProceed = true
		r.waiting.set(name, nil)
		return 0, nil
	case waited >= needsPatience:
		m.mayProceed = true
		r.waiting.set(name, nil)
		m.missingNeeds = strings.Join(missing, ", ")
		logger(ctx, m).Info("Carried out without what it needs", "missing", m.missingNeeds)
		return 0, nil
	case waited >= needsQuiet:
		r.outcome(w, m, false, work.ReasonWaitingForDependencies, fmt.Sprintf(
			"%s waits for the objects of the Works %s, at most %s; look at these Works", m.order.Ref,
			strings.Join(missing, ", "), needsPatience))
		return needsPatience - waited, nil
	}
	return needsQuiet - waited, nil
}

// appliedMessageOf names what the order was carried out without.
func appliedMessageOf(m *memo) string {
	message := appliedMessage
	if m.Note != "" {
		message = "Applied. " + m.Note
	}
	if m.missingNeeds == "" {
		return message
	}
	return fmt.Sprintf("%s It was applied without the objects of the Works %s, which did not stand within %s.", message,
		m.missingNeeds, needsPatience)
}

// waiting remembers which Works wait for which others. It is safe for concurrent use.
type waiting struct {
	mu    sync.Mutex
	needs map[types.NamespacedName][]types.NamespacedName
}

func newWaiting() *waiting {
	return &waiting{needs: map[types.NamespacedName][]types.NamespacedName{}}
}

// set stores what a Work waits for, nil if it no longer waits.
func (w *waiting) set(name types.NamespacedName, needs []types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(needs) == 0 {
		delete(w.needs, name)
		return
	}
	w.needs[name] = needs
}

// of returns the Works that wait for this one.
func (w *waiting) of(need types.NamespacedName) []types.NamespacedName {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []types.NamespacedName
	for name, needs := range w.needs {
		if slices.Contains(needs, need) {
			names = append(names, name)
		}
	}
	return names
}

// source wakes the Works that wait for another one when the outcome of that one changes.
func (w *waiting) source(outcomes *Outcomes) source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		outcomes.mu.Lock()
		defer outcomes.mu.Unlock()
		outcomes.subscribers = append(outcomes.subscribers, func(need types.NamespacedName) {
			for _, name := range w.of(need) {
				queue.Add(ctrl.Request{NamespacedName: name})
			}
		})
		return nil
	})
}
