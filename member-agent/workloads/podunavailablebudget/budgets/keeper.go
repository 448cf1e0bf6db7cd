package budgets

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/disruption"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// attempts is how often a decision is written: once, and again after each of four conflicts.
const attempts = 5

// Options of a Keeper.
type Options struct {
	// Clock is the time; nil is the real one.
	Clock clock.PassiveClock
	// Federated reports whether a hub owns the workloads of a namespace: nothing is limited there. Nil: nowhere.
	Federated func(ctx context.Context, namespace string) (bool, error)
	// Gate says what a hub grants of a budget over several clusters. Nil: no budget has a hub.
	Gate workload.Gate
}

// GrantOf returns what a hub grants of a budget, given what the gate says of it. What it granted a budget that it has
// orphaned holds: the numbers of the budget are for all clusters.
func GrantOf(granted workload.Budget, pub *v1beta1.PodUnavailableBudget) disruption.Grant {
	if !granted.Granted && granted.Amounts == nil {
		return disruption.Grant{}
	}
	grant := disruption.Grant{Hub: true, Silent: granted.Expired, Sequence: workload.Sequence(pub)}
	if granted.Amounts != nil {
		grant.Unavailable = granted.Amounts.Unavailable
	}
	return grant
}

// grant returns what a hub grants of a budget, by what this replica has heard of it.
func (k *Keeper) grant(ctx context.Context, pub *v1beta1.PodUnavailableBudget) (disruption.Grant, error) {
	if k.options.Gate == nil {
		return disruption.Grant{}, nil
	}
	granted, err := k.options.Gate.Budget(ctx, pub)
	if err != nil {
		return disruption.Grant{}, err
	}
	return GrantOf(granted, pub), nil
}

// Keeper decides about operations on pods. It is safe for concurrent use.
type Keeper struct {
	client  client.Client // reads from the cache
	live    client.Reader
	known   *known
	events  events.EventRecorder
	options Options
	// scales reports whether a kind has a scale subresource.
	scales  func(schema.GroupVersionKind) (bool, error)
	refused *refusals

	mu      sync.Mutex
	budgets map[types.NamespacedName]*budget
}

// budget is one PodUnavailableBudget, about which one decision is made at a time. The holder of turn may use newest,
// what was read or written last.
type budget struct {
	turn   chan struct{}
	newest *v1beta1.PodUnavailableBudget
}

// New returns a Keeper and has the manager fill the caches that it reads, on every replica. The manager's scheme must
// know policy.kruise.io/v1beta1, apps.kruise.io/v1beta1 and Kubernetes' own types.
func New(mgr ctrl.Manager, options Options) (*Keeper, error) {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	kinds, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("make a discovery client: %w", err)
	}
	refused, err := newRefusals(metrics.Registry)
	if err != nil {
		return nil, err
	}
	k := &Keeper{
		refused: refused,
		scales:  scalesOf(kinds),
		client:  mgr.GetClient(), live: mgr.GetAPIReader(), options: options,
		events:  mgr.GetEventRecorder("flotilla-podunavailablebudget"),
		budgets: map[types.NamespacedName]*budget{},
	}
	k.known = &known{cache: mgr.GetCache(), clock: options.Clock, begun: options.Clock.Now(), gone: k.Forget}
	err = mgr.Add(k.known)
	if err == nil {
		err = mgr.AddReadyzCheck("pod-budgets", k.known.ready)
	}
	if err != nil {
		return nil, fmt.Errorf("set up PodUnavailableBudgets: %w", err)
	}
	return k, nil
}

// Ask decides about an operation on pods of one namespace, and records those that may become unavailable: in one write
// for each budget. It returns the refusals by the names of pods. Where no budget is it makes no request. A dry run
// records nothing.
func (k *Keeper) Ask(
	ctx context.Context, namespace string, operation v1beta1.PubOperation, pods []*corev1.Pod, dryRun bool,
) (map[string]*disruption.Refusal, error) {
	all, err := k.known.in(ctx, namespace)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	if k.options.Federated != nil {
		if hubs, err := k.options.Federated(ctx, namespace); err != nil || hubs {
			return nil, err
		}
	}
	refused := map[string]*disruption.Refusal{}
	rounds := []round{probe, carryOut} // a pod of several budgets needs all of them: none records what another one refuses
	switch {
	case dryRun:
		rounds = []round{rehearse}
	case len(all) == 1:
		rounds = []round{carryOut}
	}
	for _, r := range rounds {
		for i := range all {
			if err := k.ask(ctx, all[i], operation, pods, r, refused); err != nil {
				return nil, err
			}
		}
	}
	return refused, nil
}

// round is what a decision writes.
type round int

const (
	// rehearse writes nothing.
	rehearse round = iota
	// probe writes which pods wait, for the hub to lend more.
	probe
	// carryOut writes also which pods may become unavailable.
	carryOut
)

// ask decides about those of the pods that the budget protects and that nothing refused yet.
func (k *Keeper) ask(
	ctx context.Context, pub *v1beta1.PodUnavailableBudget, operation v1beta1.PubOperation, pods []*corev1.Pod,
	r round, refused map[string]*disruption.Refusal,
) error {
	if pub.DeletionTimestamp != nil {
		return nil
	}
	var own []*corev1.Pod
	for _, pod := range pods {
		selected, err := Protects(ctx, k.client, pub, pod)
		if err != nil {
			return err
		}
		if selected && refused[pod.Name] == nil {
			own = append(own, pod)
		}
	}
	if len(own) == 0 {
		return nil
	}
	refusals, err := k.decide(ctx, pub, operation, own, r)
	for name, refusal := range refusals {
		refused[name] = refusal
	}
	return err
}

// decide decides and records. What cannot be recorded is refused.
func (k *Keeper) decide(
	ctx context.Context, cached *v1beta1.PodUnavailableBudget, operation v1beta1.PubOperation, pods []*corev1.Pod,
	r round,
) (map[string]*disruption.Refusal, error) {
	b := k.budget(client.ObjectKeyFromObject(cached))
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return k.refuse(cached, operation, pods, disruption.WhyConflict), nil
	}
	pub := newer(cached, b.newest)
	for range attempts {
		members, err := Members(ctx, k.client, pub)
		if err != nil {
			return nil, err
		}
		grant, err := k.grant(ctx, pub)
		if err != nil {
			return nil, err
		}
		status, refusals := disruption.Decide(pub, grant, members, pods, operation, k.options.Clock.Now())
		if r == probe {
			status = disruption.Waiting(pub, refusals, k.options.Clock.Now())
		}
		if status == nil || r == rehearse {
			return refusals, nil
		}
		changed := pub.DeepCopy()
		changed.Status = *status
		err = k.client.Status().Update(ctx, changed)
		switch {
		case err == nil:
			b.newest = changed
			return refusals, nil
		case apierrors.IsNotFound(err):
			return nil, nil
		case !apierrors.IsConflict(err):
			ctrl.LoggerFrom(ctx).Error(err, "record pods in a PodUnavailableBudget", "budget", cached.Name)
			return k.refuse(cached, operation, pods, disruption.WhyNotRecorded), nil
		}
		pub = &v1beta1.PodUnavailableBudget{}
		if err := k.live.Get(ctx, client.ObjectKeyFromObject(cached), pub); apierrors.IsNotFound(err) {
			return nil, nil
		} else if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "read a PodUnavailableBudget that changed", "budget", cached.Name)
			return k.refuse(cached, operation, pods, disruption.WhyNotRecorded), nil
		}
	}
	return k.refuse(cached, operation, pods, disruption.WhyConflict), nil
}

// refuse refuses the pods that need a record.
func (k *Keeper) refuse(
	pub *v1beta1.PodUnavailableBudget, operation v1beta1.PubOperation, pods []*corev1.Pod, why disruption.Why,
) map[string]*disruption.Refusal {
	out := map[string]*disruption.Refusal{}
	for _, pod := range pods {
		if !disruption.Limited(pub, pod, operation, k.options.Clock.Now()) {
			continue
		}
		out[pod.Name] = &disruption.Refusal{Budget: pub.Name, Pod: pod.Name, Operation: operation,
			Why: why, Counters: pub.Status}
	}
	return out
}

// ErrStale says that a budget has changed since it was read.
var ErrStale = errors.New("the PodUnavailableBudget has changed")

// Write writes the status of a budget as it was read. The error is ErrStale if it has changed since.
func (k *Keeper) Write(ctx context.Context, pub *v1beta1.PodUnavailableBudget) error {
	b := k.budget(client.ObjectKeyFromObject(pub))
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if newer(pub, b.newest) != pub {
		return ErrStale
	}
	err := k.client.Status().Update(ctx, pub)
	switch {
	case err == nil:
		b.newest = pub
	case apierrors.IsConflict(err):
		return ErrStale
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("write its status: %w", err)
	}
	return nil
}

// Forget drops what is kept of a budget that is gone.
func (k *Keeper) Forget(key types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.budgets, key)
}

func (k *Keeper) budget(key types.NamespacedName) *budget {
	k.mu.Lock()
	defer k.mu.Unlock()
	b := k.budgets[key]
	if b == nil {
		b = &budget{turn: make(chan struct{}, 1)}
		k.budgets[key] = b
	}
	return b
}

// newer returns the newer one of two states of a budget. Another object of the same name has no earlier state.
func newer(cached, newest *v1beta1.PodUnavailableBudget) *v1beta1.PodUnavailableBudget {
	if newest == nil || newest.UID != cached.UID {
		return cached
	}
	a, errA := strconv.ParseUint(cached.ResourceVersion, 10, 64)
	b, errB := strconv.ParseUint(newest.ResourceVersion, 10, 64)
	if errA == nil && errB == nil && b > a {
		return newest
	}
	return cached
}
