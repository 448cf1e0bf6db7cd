package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// readyCondition is the condition of a policy.
const readyCondition = "Ready"

// Holds is the message of a policy with which nothing is wrong.
const Holds = "the policy holds for the workloads that it selects"

// countEvery is how long a changed count of a policy's workloads waits while nothing else of the status changes: it is
// for people, and a policy that holds for a namespace sees every creation in it.
const countEvery = 10 * time.Second

// servedAgain is how often it is asked whether the definition of a kind that a policy names is there now: nothing
// tells when it comes, and who installs it looks at the policy then.
const servedAgain = 10 * time.Second

// Key names a policy of either scope; Namespace is empty for those of the cluster.
type Key struct{ Kind, Namespace, Name string }

// Reconciler tells on each policy whether it holds, and for how many workloads. It alone writes policies' status.
type Reconciler struct {
	client   client.Client
	rules    kinds.Table
	clock    clock.PassiveClock
	watching *store.Watching
	// served tells whether the API server has the definition of a kind.
	served func(schema.GroupVersionKind) (bool, error)

	mu     sync.Mutex
	counts map[Key]time.Time // since when a changed count waits
}

// NewReconciler returns a reconciler that writes with c.
func NewReconciler(c client.Client, clk clock.PassiveClock, watching *store.Watching, rules kinds.Table) *Reconciler {
	served := func(kind schema.GroupVersionKind) (bool, error) {
		_, err := c.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		if meta.IsNoMatchError(err) {
			return false, nil
		}
		return err == nil, err
	}
	return &Reconciler{
		client:   c,
		rules:    rules,
		clock:    clk,
		watching: watching,
		served:   served,
		counts:   map[Key]time.Time{},
	}
}

// Reconcile gathers what a policy selects and what was placed by it, and writes its status when that changed.
func (r *Reconciler) Reconcile(ctx context.Context, key Key) (ctrl.Result, error) {
	object, policy, status := emptyPolicy(key)
	if err := r.client.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name}, object); err != nil {
		r.forget(key)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if object.GetDeletionTimestamp() != nil {
		return ctrl.Result{}, nil
	}
	missing, err := r.watchNamed(policy())
	if err != nil {
		return ctrl.Result{}, err
	}
	again := ctrl.Result{}
	if len(missing) > 0 {
		again.RequeueAfter = servedAgain
	}
	facts, err := gather(ctx, r.client, r.rules, r.watching.Watched, key, policy())
	if err != nil {
		return ctrl.Result{}, err
	}
	facts.missing = missing
	before := status().DeepCopy()
	after := facts.status(before, object.GetGeneration(), metav1.NewTime(r.clock.Now()))
	if equality.Semantic.DeepEqual(before, &after) {
		return again, nil
	}
	onlyCount := *before
	onlyCount.Workloads = after.Workloads
	if equality.Semantic.DeepEqual(&onlyCount, &after) {
		if wait := r.waitForCount(key); wait > 0 {
			return ctrl.Result{RequeueAfter: wait}, nil
		}
	}
	base := object.DeepCopyObject().(client.Object)
	*status() = after
	err = r.client.Status().Patch(ctx, object, client.MergeFrom(base), store.ManagerPolicy)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("write status of %s %s: %w", key.Kind, key.Name, err)
	}
	r.forget(key)
	return again, nil
}

// emptyPolicy returns an empty policy of the right scope, and its parts once it is read.
func emptyPolicy(key Key) (client.Object, func() Policy, func() *topology.FederationPolicyStatus) {
	ref := topology.PolicyReference{Kind: key.Kind, Name: key.Name}
	if key.Kind == KindPolicy {
		p := &topology.FederationPolicy{}
		return p, func() Policy { return Policy{ref, p.CreationTimestamp.Time, p.Spec} },
			func() *topology.FederationPolicyStatus {
				return &p.Status
			}
	}
	p := &topology.ClusterFederationPolicy{}
	return p, func() Policy { return Policy{ref, p.CreationTimestamp.Time, p.Spec} },
		func() *topology.FederationPolicyStatus {
			return &p.Status
		}
}

// watchNamed starts the watches of the copied kinds that the policy names, and returns those that the API server does
// not serve: a watch of such a one would ask for it for ever.
func (r *Reconciler) watchNamed(policy Policy) (missing []string, err error) {
	for i := range policy.Spec.Workloads {
		s := &policy.Spec.Workloads[i]
		rule, ok := r.rules[kindOf(s)]
		if !ok || rule.Mode != kinds.Copy || !kinds.LetsGo(&policy.Spec, s.Kind) {
			continue
		}
		served, err := r.served(rule.GVK)
		if err != nil {
			return nil, fmt.Errorf("ask the API server for %s: %w", rule.GVK.Kind, err)
		}
		if !served {
			missing = append(missing, rule.GVK.Kind+" of "+rule.GVK.GroupVersion().String())
			continue
		}
		if err := r.watching.Start(rule); err != nil {
			return nil, err
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(missing))), nil
}

func (r *Reconciler) waitForCount(key Key) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	since, ok := r.counts[key]
	if !ok {
		since = r.clock.Now()
		r.counts[key] = since
	}
	return countEvery - r.clock.Since(since)
}

func (r *Reconciler) forget(key Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.counts, key)
}

// facts is what a policy's status depends on.
type facts struct {
	key       Key
	federated bool
	unknown   []string
	// never are the kinds that no hub places, with the way to do it in a member.
	never        []string
	missing      []string // kinds that are copied, and not defined on the hub
	onHub        []string
	instead      string // what to do with those
	run          string // the first workload that it placed and the hub's own cluster runs all the same, and what to do
	secrets      bool   // it selects Secrets and does not let them go
	kinds        string
	wrong        string   // the first selector that cannot be read, and why
	unknownNames string   // which members, zones and regions it names that there are not
	checks       []string // the checks of its rollout that can never hold, and why
	workloads    int32
	// conflict is the first workload (by name) that the policy selects and another policy of its scope holds, and which.
	conflict, winner string
}

// Condition returns the condition Ready that a hub with this table of kinds gives a policy, as things stand in what
// from reads.
func Condition(ctx context.Context, from client.Reader, rules kinds.Table, key Key) (metav1.Condition, error) {
	object, policy, status := emptyPolicy(key)
	if err := from.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name}, object); err != nil {
		return metav1.Condition{}, fmt.Errorf("get %s %s: %w", key.Kind, key.Name, err)
	}
	facts, err := gather(ctx, from, rules, func(kinds.Kind) bool { return true }, key, policy())
	if err != nil {
		return metav1.Condition{}, err
	}
	after := facts.status(status(), object.GetGeneration(), metav1.Time{})
	return *meta.FindStatusCondition(after.Conditions, readyCondition), nil
}

// gather reads what the status of a policy depends on; workloads of the kinds that are watched alone.
func gather(
	ctx context.Context,
	from client.Reader,
	rules kinds.Table,
	watched func(kinds.Kind) bool,
	key Key,
	policy Policy,
) (facts, error) {
	f := facts{
		key:       key,
		federated: true,
		onHub:     kindsOfHub(&policy.Spec, rules),
		instead:   insteadOf(&policy.Spec, rules),
		unknown:   unknownKinds(&policy.Spec, rules),
		never:     neverPlaced(&policy.Spec, key.Namespace, rules),
		kinds:     kinds.Names(rules),
		secrets:   selectsHeldSecrets(&policy.Spec),
		wrong:     unreadableAny(&policy.Spec),
		checks:    invalidChecks(&policy.Spec),
	}
	if key.Namespace != "" {
		namespace := &corev1.Namespace{}
		if err := from.Get(ctx, client.ObjectKey{Name: key.Namespace}, namespace); client.IgnoreNotFound(err) != nil {
			return f, fmt.Errorf("get namespace %s: %w", key.Namespace, err)
		}
		f.federated = wire.Federated(namespace)
	}
	members := &topology.MemberClusterList{}
	if err := from.List(ctx, members, client.UnsafeDisableDeepCopy); err != nil {
		return f, fmt.Errorf("list MemberClusters: %w", err)
	}
	placements := &topology.WorkloadPlacementList{}
	if err := from.List(ctx, placements, client.InNamespace(key.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return f, fmt.Errorf("list placements: %w", err)
	}
	others := map[wire.Key]string{}
	var subsets map[string]bool
	for i := range placements.Items {
		p := &placements.Items[i]
		switch ref := p.Spec.Policy; {
		case ref == nil || p.DeletionTimestamp != nil || ref.Kind != key.Kind:
		case ref.Name == key.Name:
			f.workloads++
			if said := ranOnHub(p); said != "" && (f.run == "" || said < f.run) {
				f.run = said
			}
			subsets = withSubsets(subsets, p)
		default:
			others[wire.KeyOfPlacement(p)] = ref.Name
		}
	}
	f.unknownNames = unknownNames(&policy.Spec, members.Items, subsets)
	if len(others) == 0 {
		return f, nil
	}
	conflicts, err := conflictsOf(ctx, from, rules, watched, key.Namespace, &policy, others)
	if err != nil || len(conflicts) == 0 {
		return f, err
	}
	first := slices.MinFunc(conflicts, func(a, b wire.Key) int { return strings.Compare(a.String(), b.String()) })
	f.conflict, f.winner = first.Sentence(), others[first]
	return f, nil
}

// withSubsets adds the subsets of a placement to those that are known.
func withSubsets(known map[string]bool, p *topology.WorkloadPlacement) map[string]bool {
	if known == nil {
		known = map[string]bool{}
	}
	for i := range p.Spec.Limits {
		known[p.Spec.Limits[i].Subset] = true
	}
	return known
}

// conflictsOf returns which of the workloads that other policies hold this policy selects too.
func conflictsOf(
	ctx context.Context,
	from client.Reader,
	rules kinds.Table,
	watched func(kinds.Kind) bool,
	namespace string,
	policy *Policy,
	others map[wire.Key]string,
) ([]wire.Key, error) {
	var conflicts []wire.Key
	for kind, rule := range rules {
		if !watched(rule) ||
			!slices.ContainsFunc(policy.Spec.Workloads, func(s topology.WorkloadSelector) bool { return kindOf(&s) == kind }) {
			continue
		}
		list := rule.NewList()
		if err := from.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list %s: %w", kind, err)
		}
		err := meta.EachListItem(list, func(o runtime.Object) error {
			object := o.(client.Object)
			w := kinds.NewWorkload(object, rule.GVK, nil)
			if _, held := others[w.Key]; held && policy.Selects(&w) > NotSelected {
				conflicts = append(conflicts, w.Key)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read the list of %s: %w", kind, err)
		}
	}
	return conflicts, nil
}

// status is the plan: the status that says these facts.
func (f *facts) status(
	before *topology.FederationPolicyStatus,
	generation int64,
	now metav1.Time,
) topology.FederationPolicyStatus {
	condition := metav1.Condition{
		Type:               readyCondition,
		ObservedGeneration: generation,
		LastTransitionTime: now,
	}
	condition.Status, condition.Reason, condition.Message = f.ready()
	after := *before.DeepCopy()
	after.ObservedGeneration = generation
	after.Workloads = f.workloads
	meta.SetStatusCondition(&after.Conditions, condition)
	return after
}

// ranOnHub is what a placement says of a workload that the hub's own cluster runs though it is told not to, "" where
// that is not so.
func ranOnHub(p *topology.WorkloadPlacement) string {
	if c := meta.FindStatusCondition(p.Status.Conditions, apps.ConditionStalled); c != nil &&
		c.Status == metav1.ConditionTrue &&
		c.Reason == topology.PolicyRunsOnHub {
		return c.Message
	}
	return ""
}
