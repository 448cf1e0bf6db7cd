package restart

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	policy "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

const (
	// lookAgain is how often the pods of a workload are looked at during a restart.
	lookAgain = time.Second
	// kept is how long requests are kept after their end, in seconds: long enough for an agent that was down to note on
	// the pod that it has restarted.
	kept = 24 * 60 * 60
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
	text := object.GetAnnotations()[v1beta1.AnnotationRestart]
	if text == "" || object.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, nil
	}
	asked, err := parse(text)
	if err != nil {
		r.say(of.NamespacedName, object, corev1.EventTypeWarning, "RestartRefused", err.Error())
		return reconcile.Result{}, nil
	}
	f, ours, err := r.gather(ctx, object, asked)
	if err != nil || !ours {
		return reconcile.Result{}, err
	}
	p := makePlan(f)
	if err := r.carryOut(ctx, object, asked, p); err != nil {
		r.say(of.NamespacedName, object, corev1.EventTypeWarning, "RestartFailed", workload.Note(err))
		return reconcile.Result{}, err
	}
	switch {
	case p.failed != "":
		r.say(of.NamespacedName, object, corev1.EventTypeWarning, "RestartFailed", "The restart stops: "+p.failed+
			"; correct that and restart again, or use flotilla rollout restart")
		return reconcile.Result{}, nil
	case p.left == 0:
		return reconcile.Result{}, nil
	}
	if p.blocked {
		r.say(of.NamespacedName, object, corev1.EventTypeWarning, "RestartWaits", "maxUnavailable is 0: no available "+
			"pod may restart; raise it to 1 or more, or use flotilla rollout restart")
		return reconcile.Result{}, nil
	}
	r.say(of.NamespacedName, object, corev1.EventTypeNormal, "Restarting",
		"Restarting containers as of "+asked.At+", within maxUnavailable")
	return reconcile.Result{RequeueAfter: lookAgain}, nil
}

// carryOut writes what the plan says.
func (r *restarter) carryOut(ctx context.Context, object client.Object, asked order, p plan) error {
	for _, pod := range p.done {
		if err := r.note(ctx, pod, asked); err != nil {
			return err
		}
	}
	allowed, err := r.allowed(ctx, object, p.create)
	if err != nil {
		return err
	}
	for _, pod := range allowed {
		if err := r.create(ctx, object, pod, asked); err != nil {
			return err
		}
	}
	return nil
}

// allowed returns the pods that PodUnavailableBudgets let become unavailable.
func (r *restarter) allowed(ctx context.Context, object client.Object, pods []*corev1.Pod) ([]*corev1.Pod, error) {
	if r.disruptions == nil || len(pods) == 0 {
		return pods, nil
	}
	refused, err := r.disruptions.Ask(ctx, object.GetNamespace(), policy.PubUpdateOperation, pods, false)
	if err != nil {
		return nil, fmt.Errorf("ask for the restart of pods: %w", err)
	}
	var allowed []*corev1.Pod
	for _, pod := range pods {
		if refused[pod.Name] == nil {
			allowed = append(allowed, pod)
		}
	}
	return allowed, nil
}
