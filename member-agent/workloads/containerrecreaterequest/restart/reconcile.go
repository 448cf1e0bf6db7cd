package restart

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	policy "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/restarts"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// restarter restarts the workloads of one kind.
type restarter struct {
	client      client.Client
	pods        *podset.Source
	gate        workload.Gate
	disruptions workload.Disruptions
	events      events.EventRecorder
	clock       clock.PassiveClock
	kind        kind

	refusals *restarts.Refusals

	mu sync.Mutex
	// said is the last event about a workload.
	said map[types.NamespacedName]string
}

// Reconcile makes one pass over the restart of a workload.
func (r *restarter) Reconcile(ctx context.Context, of reconcile.Request) (reconcile.Result, error) {
	object := r.kind.new()
	if err := r.client.Get(ctx, of.NamespacedName, object); err != nil {
		r.say(of.NamespacedName, nil, "", "", "")
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if object.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, nil
	}
	var asked restarts.Order // none: what an earlier restart left is removed
	if text := object.GetAnnotations()[v1beta1.AnnotationRestart]; text != "" {
		var err error
		if asked, err = restarts.Parse(text); err != nil {
			r.say(of.NamespacedName, object, corev1.EventTypeWarning, "RestartRefused", err.Error())
			asked = restarts.Order{}
		}
	}
	f, ours, err := r.gather(ctx, object, asked)
	if err != nil || !ours {
		return reconcile.Result{}, err
	}
	unasked := r.askAgain(ctx, object, &f) // it does not keep from the rest
	p := makePlan(f)
	waits, err := r.carryOut(ctx, object, f, p)
	if err = errors.Join(unasked, err); err != nil {
		r.say(of.NamespacedName, object, corev1.EventTypeWarning, "RestartFailed", workload.Note(err))
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: r.report(of.NamespacedName, object, f, p, waits)}, nil
}

// carryOut writes what the plan says. What fails does not keep it from the rest. It returns why the restart waits.
func (r *restarter) carryOut(ctx context.Context, object client.Object, f facts, p plan) (waits string, err error) {
	var errs []error
	for _, pod := range p.done {
		errs = append(errs, r.note(ctx, pod, f.order))
	}
	for _, pod := range p.unmark {
		errs = append(errs, r.mark(ctx, pod, false))
	}
	errs = append(errs, r.stop(ctx, object, f, p))
	var denied string
	created := 0
	for _, pod := range p.create {
		why, err := r.create(ctx, object, pod, f)
		if errs = append(errs, err); why == "" {
			created++
		}
		denied = cmp.Or(denied, why)
	}
	allowed, refused, err := r.allowed(ctx, object, p.mark)
	errs = append(errs, err)
	for _, pod := range allowed {
		errs = append(errs, r.mark(ctx, pod, true))
	}
	for _, request := range p.remove {
		errs = append(errs, r.remove(ctx, request))
	}
	switch {
	case len(allowed)+created+p.flights > 0:
		r.refusals.Disruptions(f.pods, false, f.now)
	case refused != "":
		errs = append(errs, r.askBudgets(ctx, object, p.waiting, f.now))
		fallthrough
	default: // a refusal holds until budgets are asked again, also while the hub grants nothing because of it
		waits = cmp.Or(p.waits, denied, refused)
	}
	return waits, errors.Join(errs...)
}

// allowed returns the pods that PodUnavailableBudgets let become unavailable, and why they refuse another one.
func (r *restarter) allowed(
	ctx context.Context, object client.Object, pods []*corev1.Pod,
) (allowed []*corev1.Pod, why string, err error) {
	if r.disruptions == nil || len(pods) == 0 {
		return pods, "", nil
	}
	refused, err := r.disruptions.Ask(ctx, object.GetNamespace(), policy.PubUpdateOperation, pods, false)
	if err != nil {
		return nil, "", fmt.Errorf("ask for the restart of pods: %w", err)
	}
	for _, pod := range pods {
		if refusal := refused[pod.Name]; refusal != nil {
			why = cmp.Or(why, refusal.Error())
		} else {
			allowed = append(allowed, pod)
		}
	}
	return allowed, why, nil
}
