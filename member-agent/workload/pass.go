package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/namespaces"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// Pass is what the phases of one pass over an object share.
type Pass[T client.Object, M any] struct {
	Key    types.NamespacedName
	Object T
	// Memory is what the kind remembers of the object. Passes over one object never run in parallel.
	Memory *M
	Budget Budget
	// Leaving says that the object or its namespace is being deleted: the pass only reports.
	Leaving *conditions.Cause
	// Stalled says why only a person can go on; nil otherwise. An error of the pass is not retried then.
	Stalled *conditions.Cause
	// Halted says that an error keeps this pass from a plan.
	Halted bool
	// Wake is when to look again though nothing happens; 0 is never.
	Wake time.Duration

	failed map[string]error
	// waits are what conditions show beside errors: refusals of budgets.
	waits      map[string]error
	rate       *statusRate
	relabelled *relabelled
}

// Phase is a step of a pass. It returns next=false when the pass ends here, without the phases behind it.
type Phase func(context.Context) (next bool, err error)

// Phases returns the phases of a pass whose state is the kind's own.
func Phases[S any](state S, run ...func(context.Context, S) (bool, error)) []Phase {
	out := make([]Phase, len(run))
	for i := range run {
		out[i] = func(ctx context.Context) (bool, error) { return run[i](ctx, state) }
	}
	return out
}

// Sooner makes the object be looked at again after wait at the latest; 0 changes nothing.
func (p *Pass[T, M]) Sooner(wait time.Duration) { p.Wake = podstate.Sooner(p.Wake, wait) }

// Fail keeps an error under the condition that shows it. The pass goes on and is retried. A nil error changes nothing.
func (p *Pass[T, M]) Fail(condition string, err error) {
	if err = errors.Join(p.failed[condition], err); err == nil {
		return
	}
	if p.failed == nil {
		p.failed = map[string]error{}
	}
	p.failed[condition] = err
}

// wait keeps under a condition what the pass waits for. It is no failure: the pass is not retried sooner.
func (p *Pass[T, M]) wait(condition string, err error) {
	if p.waits == nil {
		p.waits = map[string]error{}
	}
	p.waits[condition] = errors.Join(p.waits[condition], err)
}

// Halt makes this a pass that only reports an error.
func (p *Pass[T, M]) Halt(condition string, err error) {
	p.Halted = true
	p.Fail(condition, err)
}

// Failed returns the errors of the pass by condition.
func (p *Pass[T, M]) Failed() map[string]error { return p.failed }

// Failures returns these conditions: True with the error that Fail kept under it, or to be removed. cause is the last
// error.
func (p *Pass[T, M]) Failures(types ...string) (list []conditions.Condition, cause *conditions.Cause) {
	for _, t := range types {
		err := errors.Join(p.failed[t], p.waits[t])
		if err == nil {
			list = append(list, conditions.Remove(t))
			continue
		}
		cause = &conditions.Cause{Reason: t, Message: Text(err)}
		list = append(list, conditions.Condition{
			Type: t, Status: corev1.ConditionTrue, Reason: conditions.ReasonRetrying, Message: cause.Message})
	}
	return list, cause
}

func (p *Pass[T, M]) failure() error {
	errs := make([]error, 0, len(p.failed))
	for _, condition := range slices.Sorted(maps.Keys(p.failed)) {
		errs = append(errs, p.failed[condition])
	}
	return errors.Join(errs...)
}

// Left returns the cause of Leaving, with the pods that the object still has.
func (p *Pass[T, M]) Left(pods int32) conditions.Cause {
	return conditions.Cause{Reason: p.Leaving.Reason, Message: fmt.Sprintf("%s; it has %d pods", p.Leaving.Message, pods)}
}

// leave makes this a pass that only reports. What becomes of the object's own objects is the garbage collector's and
// the namespace controller's to decide.
func (p *Pass[T, M]) leave(cause *conditions.Cause) {
	p.Leaving, p.Stalled, p.Halted = cause, nil, false
	clear(p.failed)
	clear(p.waits)
	if cause.Reason == conditions.ReasonNamespaceTerminating {
		p.Sooner(namespaces.LookAgain)
	}
}

// TurnAway makes this a pass that only reports if err, or an error that Fail kept, is the refusal of a create because
// the namespace is being deleted. It reports whether it is.
func (c *Controller[T, M]) TurnAway(p *Pass[T, M], err error) bool {
	cause := c.namespaces.Refused(p.Key.Namespace, p.Object.GetUID(), errors.Join(err, p.failure()))
	if cause != nil {
		p.leave(cause)
	}
	return cause != nil
}

// Refused reports whether an error is a decision, as of a quota, a webhook or RBAC: a condition shows it, since it may
// last. Other errors pass.
func Refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}
