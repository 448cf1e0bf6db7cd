package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/namespaces"
)

// FieldManager owns, in the member, the fields that Works carry.
const FieldManager = "flotilla-agent"

const (
	// conflictAgain is how often an object that is not ours is looked at again. It costs one read, and nothing tells
	// when an object without our mark goes.
	conflictAgain = 30 * time.Second
	// deleteAgain is how long the end of a deleted object is waited for. After an outage of the member its watches come
	// back up to a minute late, and then a second attempt tells that the object is gone.
	deleteAgain = 5 * time.Second
	// retryFirst doubles with each failure up to retryMost: a refusal lasts until a person changes something.
	retryFirst = time.Second
	retryMost  = time.Minute
	// retryMostUnreachable bounds the pause for errors that end by themselves.
	retryMostUnreachable = 5 * time.Second
	// failuresTolerated is how many failures in a row, of those that end by themselves, keep workload controllers from
	// acting on content that was not ordered: about a minute. Pods that fail are replaced from then on, as a webhook that
	// is down may fail every write for days.
	failuresTolerated = 15
)

// appliedMessage is the message of the condition Applied=True. It names no figures, so that it never changes by itself.
const appliedMessage = "The member's API server has taken the object."

// keptMessage is the message of the condition Applied=True of a claim that stands.
const keptMessage = "The claim stands in the member; it is used as it is, and never changed or deleted."

// carryOut does what was decided.
func (r *Reconciler) carryOut(ctx context.Context, w *work.Work, m *memo, facts Facts) (ctrl.Result, error) {
	decision := Decide(facts)
	if leaves(decision.Action, facts) {
		r.Generations.forget(m.order.Ref)
	}
	switch decision.Action {
	case Wait:
		return ctrl.Result{RequeueAfter: decision.After}, nil
	case Look:
		return r.look(w, m, facts.Live), nil
	case Create, Update, Adopt:
		if decision.Action == Create && r.terminating(ctx, m.order.Ref.Namespace) {
			return r.awaitNamespace(w, m), nil
		}
		if wait, err := r.awaitNeeds(ctx, w, m); err != nil || wait > 0 {
			return ctrl.Result{RequeueAfter: wait}, err
		}
		return r.write(ctx, w, m, facts, decision.Action)
	case Conflict:
		r.outcome(w, m, false, work.ReasonConflict, conflictMessage(facts))
		return ctrl.Result{RequeueAfter: conflictAgain}, nil
	case Outdated:
		r.outcome(w, m, false, work.ReasonApplyFailed, fmt.Sprintf("order %d is older than order %d, which this member has carried out; it is ignored until the hub gives a newer one", m.order.Sequence, CarriedOut(facts.Live)))
	case Delete:
		return r.carryOutDeletion(ctx, w, m, facts.Live)
	case Release:
		if err := r.release(ctx, w, m, facts.Live); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, r.finish(ctx, w)
	case Finish:
		return ctrl.Result{}, r.finish(ctx, w)
	case Keep:
		r.Outcomes.set(client.ObjectKeyFromObject(w), Outcome{
			WorkUID: w.UID, Generation: w.Generation, Ref: m.order.Ref, HubID: m.order.HubID, Sequence: m.order.Sequence,
			RescheduleAfter: w.Annotations[topology.AnnotationRescheduleAfter],
			Applied:         true, Kept: true, Reason: work.ReasonApplied, Message: keptMessage, At: r.Clock.Now(),
		})
		return ctrl.Result{}, r.Copies.Keep(ctx, w)
	case Nothing:
		if lingers(facts) {
			r.outcome(w, m, false, work.ReasonDeleting, deletingMessage(facts))
			return ctrl.Result{}, r.Copies.Keep(ctx, w)
		}
		return r.stillThere(w, m, facts), r.Copies.KeepAccepted(ctx, w, m.accepted())
	}
	return ctrl.Result{}, nil
}

// leaves reports whether the object is not made equal to the order. The workload controllers then act on what stands,
// whoever wrote it, or failed pods would not be replaced.
func leaves(action Action, facts Facts) bool {
	switch action {
	case Conflict, Outdated, Look:
		return true
	default:
		return facts.Deleting || facts.Suspended || lingers(facts)
	}
}

// carryOutDeletion deletes the object that was seen. It lets the Work go where that is gone already; else its end wakes the
// Work again.
func (r *Reconciler) carryOutDeletion(ctx context.Context, w *work.Work, m *memo, live *unstructured.Unstructured) (ctrl.Result, error) {
	// First, so that the object is not made again by an agent that is restarted before the Work is gone.
	if err := r.Copies.Keep(ctx, w); err != nil {
		return ctrl.Result{}, err
	}
	gone, err := r.delete(ctx, w, m, live)
	if err != nil {
		return ctrl.Result{}, err
	}
	if gone {
		return ctrl.Result{}, r.finish(ctx, w)
	}
	return ctrl.Result{RequeueAfter: deleteAgain}, nil
}

// stillThere refreshes the outcome where nothing had to be sent, for instance for a Work whose metadata alone changed. Where
// nothing is to be done and no outcome is known, as after a start, the report tells what stands.
func (r *Reconciler) stillThere(w *work.Work, m *memo, facts Facts) ctrl.Result {
	if !facts.Deleting && !facts.Suspended && m.Applied && m.Hash == m.order.Hash {
		if facts.Live != nil && facts.Live.GetDeletionTimestamp() == nil && notOlder(facts.Live.GetResourceVersion(), m.Version) {
			r.Generations.accept(m.order.Ref, facts.Live.GetUID(), facts.Live.GetGeneration())
		}
		m.Failures = 0
		r.applied(w, m)
		if now := r.Clock.Now(); m.contest.active(now) {
			return ctrl.Result{RequeueAfter: m.contest.until.Sub(now)}
		}
		return ctrl.Result{}
	}
	if known, ok := r.Outcomes.Get(client.ObjectKeyFromObject(w)); !ok || known.WorkUID != w.UID {
		r.Outcomes.set(client.ObjectKeyFromObject(w), heldOutcome(w, m, r.Clock.Now()))
	}
	return ctrl.Result{}
}

func namespaceMissing(err error, namespace string) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || namespace == "" || !apierrors.IsNotFound(err) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Kind == "namespaces" && details.Name == namespace
}

// delete removes exactly the object that was seen, and tells whether it was gone already. Otherwise its end wakes the
// Work again.
func (r *Reconciler) delete(ctx context.Context, w *work.Work, m *memo, live *unstructured.Unstructured) (gone bool, err error) {
	err = r.member.Delete(ctx, shell(live), client.Preconditions{UID: new(live.GetUID())}, propagationOf(w))
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("delete %s: %w", m.order.Ref, err)
	}
	logger(ctx, m).Info("Deleted, as the hub ordered")
	return false, nil
}

// release removes the hub's label from an object and leaves it running. The limits that the hub granted stay, in the
// spec or in AnnotationBudget, so that nothing is updated by this; the user's limits are noted beside them.
func (r *Reconciler) release(ctx context.Context, w *work.Work, m *memo, live *unstructured.Unstructured) error {
	note, err := letGoNote(w, live)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":    live.GetUID(), // the one that was seen, no other
		"labels": map[string]any{topology.LabelHub: nil},
		"annotations": map[string]any{
			topology.AnnotationSequence: nil, topology.AnnotationSubsetLimits: nil, topology.AnnotationZones: nil, topology.AnnotationSpread: nil,
			topology.AnnotationTemplateBefore: nil, topology.AnnotationLetGo: note,
		},
	}})
	if err != nil {
		return err
	}
	err = r.member.Patch(ctx, shell(live), client.RawPatch(types.MergePatchType, patch), client.FieldOwner(FieldManager))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("take the mark off %s: %w", m.order.Ref, err)
	}
	logger(ctx, m).Info("Let go, as the hub ordered; the object stays")
	return nil
}

// finish lets the Work go, and the copy of it.
func (r *Reconciler) finish(ctx context.Context, w *work.Work) error {
	if err := r.letGo(ctx, w); err != nil {
		return err
	}
	return r.Copies.Drop(ctx, client.ObjectKeyFromObject(w))
}

// letGo takes the finalizer off the Work; it may be gone.
func (r *Reconciler) letGo(ctx context.Context, w *work.Work) error {
	at := slices.Index(w.Finalizers, work.ExecutionFinalizer)
	if at < 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             w.UID,             // not a later Work of that name
		"resourceVersion": w.ResourceVersion, // the list is written whole
		"finalizers":      slices.Delete(slices.Clone(w.Finalizers), at, at+1),
	}})
	if err != nil {
		return err
	}
	err = r.Hub.Client().Patch(ctx, w, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(FieldManager))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("take the finalizer off Work %s: %w", client.ObjectKeyFromObject(w), err)
	}
	return nil
}

// shell returns an object that names live and nothing else.
func shell(live *unstructured.Unstructured) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(live.GroupVersionKind())
	object.SetNamespace(live.GetNamespace())
	object.SetName(live.GetName())
	return object
}

// failed stores the outcome of an attempt that failed, and says when to try again. What stands in the member stays.
func (r *Reconciler) failed(w *work.Work, m *memo, err error) ctrl.Result {
	if namespaces.Is(err) {
		return r.awaitNamespace(w, m)
	}
	pause := r.retry(m, err)
	known, _ := r.Outcomes.Get(client.ObjectKeyFromObject(w))
	overwritten := known.WorkUID == w.UID && known.Generation == w.Generation && known.Reason == work.ReasonOverwritten
	switch {
	case !w.DeletionTimestamp.IsZero():
	case overwritten && passing(err):
		// The object may have pods of content that was not ordered: they do not count as updated before it is corrected.
	case apierrors.IsConflict(err):
		r.outcome(w, m, false, work.ReasonConflict, failureMessage(m.order, err)) // someone made an object of that name in between
	default:
		r.outcome(w, m, false, work.ReasonApplyFailed, failureMessage(m.order, err))
	}
	if !retriesSoon(m.Failures, err) {
		r.Generations.forget(m.order.Ref) // what stands goes on, whoever wrote it
	}
	return ctrl.Result{RequeueAfter: pause}
}

// failedCorrection is failed for an object that another writer changed. The workload controllers wait while the
// correction can succeed soon. Else they go on with what stands, after the outcome says that its pods do not count as
// updated.
func (r *Reconciler) failedCorrection(
	ctx context.Context, w *work.Work, m *memo, c *correction, live *unstructured.Unstructured, err error,
) ctrl.Result {
	if namespaces.Is(err) || retriesSoon(m.Failures+1, err) {
		return r.failed(w, m, err)
	}
	pause := r.retry(m, err)
	r.lookUp(ctx, m, c, live)
	why := "the member's API server could not be reached or did not answer in time"
	if answered(err) {
		why = cut(withoutObject(err.Error()))
	}
	r.outcome(w, m, false, work.ReasonOverwritten, fmt.Sprintf("%s: %s", c.refused(m.order.Ref), why))
	r.Generations.forget(m.order.Ref)
	return ctrl.Result{RequeueAfter: pause}
}

// retry notes a failure, and returns the pause before the next attempt.
func (r *Reconciler) retry(m *memo, err error) time.Duration {
	most := retryMost
	if passing(err) {
		most = retryMostUnreachable
	}
	m.Failures++
	pause := min(most, retryFirst<<min(m.Failures-1, 10)) // 2^10 s is far above retryMost
	m.Refused, m.RetryAt = m.order.Hash, r.Clock.Now().Add(pause)
	return pause
}

// retriesSoon reports whether a failure, the n-th in a row, can be over with the next attempt.
func retriesSoon(n int, err error) bool { return passing(err) && n < failuresTolerated }

// answered tells whether an error is an API server's answer, rather than the lack of one.
func answered(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// passing tells whether an error ends without anyone changing an object.
func passing(err error) bool {
	if meta.IsNoMatchError(err) {
		return false
	}
	return !answered(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) || apierrors.IsConflict(err)
}

// failureMessage is the message of the condition Applied=False. It holds nothing that changes from one attempt to the
// next, or each attempt would be a write on the hub.
func failureMessage(order *Order, err error) string {
	switch {
	case meta.IsNoMatchError(err):
		return fmt.Sprintf("the member does not serve %s %s; install its CustomResourceDefinition there (apis/crds has those of apps.kruise.io)", order.Desired.GetAPIVersion(), order.Ref.Kind)
	case !answered(err):
		return fmt.Sprintf("%s could not be applied: the member's API server could not be reached or did not answer in time; the agent tries again", order.Ref)
	default:
		return fmt.Sprintf("%s was refused by the member's API server: %s", order.Ref, cut(withoutObject(err.Error())))
	}
}

// withoutObject takes the object out of what an API server says of a patch: it repeats the whole of it before it says what
// is wrong, and a Secret is not for messages.
func withoutObject(message string) string {
	const repeats = `patch: Invalid value: "`
	before, rest, found := strings.Cut(message, repeats)
	if !found {
		return message
	}
	for i := 0; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case '"':
			return strings.TrimSuffix(before, ` "" is invalid: `) + strings.TrimPrefix(rest[i+1:], ": ")
		}
	}
	return before + "the patch is invalid"
}

// cut bounds a message: a condition takes 32 768 bytes, and people read the first lines.
func cut(message string) string {
	const most = 2000
	if len(message) <= most {
		return message
	}
	return strings.ToValidUTF8(message[:most], "") + " …"
}

func conflictMessage(facts Facts) string {
	if controller := metav1.GetControllerOf(facts.Live); controller != nil && Owner(facts.Live) == facts.Order.HubID {
		return fmt.Sprintf("%s exists in the member and belongs to %s %s there, so it is not adopted; delete it there, or remove its owner",
			facts.Order.Ref, controller.Kind, controller.Name)
	}
	if owner := Owner(facts.Live); owner != "" {
		return fmt.Sprintf("%s stands in the member and belongs to another hub (label %s=%s); delete it there, withdraw it from that hub, or hand it over with the label %s=%s", facts.Order.Ref, topology.LabelHub, owner, topology.LabelHub, facts.Order.HubID)
	}
	return fmt.Sprintf("%s stands in the member and was not made by this hub; delete it there, or give it the label %s=%s to hand it over", facts.Order.Ref, topology.LabelHub, facts.Order.HubID)
}
