package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/namespaces"
)

// FieldManager owns, in the member, the fields that Works carry.
const FieldManager = "flotilla-agent"

const (
	// conflictAgain is how often an object without the hub's label is read again: it sends no events. It costs one read.
	conflictAgain = 30 * time.Second
	// deleteAgain is the time between two attempts to delete an object. After an outage of the member its watches return
	// up to a minute late, and then the second attempt finds that the object is gone.
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
const appliedMessage = "Applied."

// keptMessage is the message of the condition Applied=True of a claim that exists.
const keptMessage = "The claim exists in the member; Flotilla does not change or delete it."

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
		return r.writeWhenReady(ctx, w, m, facts, decision.Action)
	case Conflict:
		r.outcome(w, m, false, work.ReasonConflict, conflictMessage(facts))
		return ctrl.Result{RequeueAfter: conflictAgain}, nil
	case Outdated:
		r.outcome(w, m, false, work.ReasonApplyFailed, fmt.Sprintf("order %d is older than order %d, which this member has "+
			"carried out; it is ignored until the hub gives a newer one", m.order.Sequence, CarriedOut(facts.Live)))
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
			HandOver:        w.Annotations[topology.AnnotationHandOver],
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

// leaves reports whether an action leaves the object different from the order. The workload controllers then act on it,
// whoever wrote it: otherwise they would not replace failed pods.
func leaves(action Action, facts Facts) bool {
	switch action {
	case Conflict, Outdated, Look:
		return true
	default:
		return facts.Deleting || facts.Suspended || lingers(facts)
	}
}

// stillThere refreshes the outcome if nothing had to be sent, for instance after a change of the Work's metadata alone.
// If no outcome is known, as after a start, the object is reported as it is.
func (r *Reconciler) stillThere(w *work.Work, m *memo, facts Facts) ctrl.Result {
	if !facts.Deleting && !facts.Suspended && m.Applied && m.Hash == m.order.Hash {
		if facts.Live != nil && facts.Live.GetDeletionTimestamp() == nil &&
			notOlder(facts.Live.GetResourceVersion(), m.Version) {
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

// shell returns an object that names live and nothing else.
func shell(live *unstructured.Unstructured) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(live.GroupVersionKind())
	object.SetNamespace(live.GetNamespace())
	object.SetName(live.GetName())
	return object
}

// failed stores the outcome of an attempt that failed, and returns when to try again.
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
		// An object of that name was created in between.
		r.outcome(w, m, false, work.ReasonConflict, failureMessage(m.order, err))
	default:
		r.outcome(w, m, false, work.ReasonApplyFailed, failureMessage(m.order, err))
	}
	if !retriesSoon(m.Failures, err) {
		r.Generations.forget(m.order.Ref) // the workload controllers go on with the object, whoever wrote it
	}
	return ctrl.Result{RequeueAfter: pause}
}

// failedCorrection is failed for an object that another writer changed. The workload controllers wait while the
// correction can succeed soon. Otherwise they go on with the object, after the outcome says that its pods do not count
// as updated.
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

// answered reports whether an error is an API server's answer, rather than the lack of one.
func answered(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// passing reports whether an error can end without a change of an object.
func passing(err error) bool {
	if meta.IsNoMatchError(err) {
		return false
	}
	return !answered(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) ||
		apierrors.IsConflict(err)
}

// failureMessage is the message of the condition Applied=False. It holds nothing that changes from one attempt to the
// next, or each attempt would be a write on the hub.
func failureMessage(order *Order, err error) string {
	switch {
	case meta.IsNoMatchError(err):
		return fmt.Sprintf("the member does not serve %s %s; install its CustomResourceDefinition there (apis/crds has "+
			"those of apps.kruise.io)", order.Desired.GetAPIVersion(), order.Ref.Kind)
	case !answered(err):
		return fmt.Sprintf("%s could not be applied: the member's API server could not be reached or did not answer in "+
			"time; the agent tries again", order.Ref)
	default:
		return fmt.Sprintf("%s was refused by the member's API server: %s", order.Ref, cut(withoutObject(err.Error())))
	}
}

// withoutObject takes the object out of what an API server says of a patch: it repeats the whole of it before it says
// what is wrong, and a Secret is not for messages.
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
		return fmt.Sprintf("%s exists in the member and belongs to %s %s there, so it is not adopted; "+
			"delete it there, or remove its owner",
			facts.Order.Ref, controller.Kind, controller.Name)
	}
	if owner := Owner(facts.Live); owner != "" {
		return fmt.Sprintf("%s stands in the member and belongs to another hub (label %s=%s); "+
			"delete it there, withdraw it from that hub, or hand it over with the label %s=%s", facts.Order.Ref,
			topology.LabelHub, owner, topology.LabelHub, facts.Order.HubID)
	}
	return fmt.Sprintf("%s stands in the member and was not made by this hub; "+
		"delete it there, or give it the label %s=%s to hand it over", facts.Order.Ref, topology.LabelHub, facts.Order.HubID)
}
