package delivery

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/override"
	"github.com/flotilla-dev/flotilla/hub/placement"
	"github.com/flotilla-dev/flotilla/hub/policy"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// inputs reads what manifests depend on beside the user's object and the placement.
type inputs struct{ reader client.Reader }

// additions returns what goes into the manifests of a placement. It returns false where the placement was decided with
// other inputs than those of now.
func (in inputs) additions(
	ctx context.Context,
	kind kinds.Kind,
	p *topology.WorkloadPlacement,
) (additions, bool, error) {
	overrides, same, err := in.overrides(ctx, p)
	if err != nil || !same {
		return additions{}, false, err
	}
	divider, same, err := in.divider(ctx, kind, p)
	if err != nil || !same {
		return additions{}, false, err
	}
	budgets, err := in.budgets(ctx, kind, p)
	return additions{overrides: overrides, divider: divider, budgets: budgets}, err == nil, err
}

// overrides returns the entries of the placement's policy by cluster. It returns false where they are not those that
// the placement was decided with: the policy or a member changed since, and the placement that answers that comes, or
// does not (frozen).
func (in inputs) overrides(
	ctx context.Context,
	p *topology.WorkloadPlacement,
) (map[string][]override.Entry, bool, error) {
	hashes := map[string]string{}
	for i := range p.Spec.Cells {
		if c := &p.Spec.Cells[i]; c.Overrides != "" {
			hashes[c.Cluster] = c.Overrides
		}
	}
	if len(hashes) == 0 {
		return nil, true, nil
	}
	list, err := in.policyOverrides(ctx, p)
	if err != nil {
		return nil, false, err
	}
	entries := map[string][]override.Entry{}
	for cluster, hash := range hashes {
		member := &topology.MemberCluster{}
		if err := in.reader.Get(ctx, client.ObjectKey{Name: cluster}, member); apierrors.IsNotFound(err) {
			return nil, false, nil
		} else if err != nil {
			return nil, false, fmt.Errorf("get MemberCluster %s: %w", cluster, err)
		}
		entries[cluster] = override.For(list, member)
		have, err := override.Hash(entries[cluster])
		if err != nil || have != hash {
			return nil, false, err
		}
	}
	return entries, true, nil
}

func (in inputs) policyOverrides(ctx context.Context, p *topology.WorkloadPlacement) ([]topology.Override, error) {
	ref := p.Spec.Policy
	switch {
	case ref == nil:
		return nil, nil
	case ref.Kind == policy.KindPolicy:
		policy := &topology.FederationPolicy{}
		if err := in.reader.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: ref.Name},
			policy); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("get %s %s/%s: %w", ref.Kind, p.Namespace, ref.Name, err)
		}
		return policy.Spec.Overrides, nil
	}
	policy := &topology.ClusterFederationPolicy{}
	if err := in.reader.Get(ctx, client.ObjectKey{Name: ref.Name}, policy); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get %s %s: %w", ref.Kind, ref.Name, err)
	}
	return policy.Spec.Overrides, nil
}

// budgets returns the members of a placement whose agents read budgets, nil for a kind that is not sent with one.
func (in inputs) budgets(
	ctx context.Context,
	kind kinds.Kind,
	p *topology.WorkloadPlacement,
) (map[string]bool, error) {
	if !kind.Budget {
		return nil, nil
	}
	reads := map[string]bool{}
	for i := range p.Spec.Cells {
		name := p.Spec.Cells[i].Cluster
		if _, known := reads[name]; known {
			continue
		}
		member := &topology.MemberCluster{}
		if err := in.reader.Get(ctx, client.ObjectKey{Name: name}, member); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("get MemberCluster %s: %w", name, err)
		}
		reads[name] = member.Status.Reads(topology.OrderFormatBudget)
	}
	return reads, nil
}

// budgeted returns the workloads with cells in a member that get a budget there once the agent reads it.
func (r *Reconciler) budgeted(ctx context.Context, member client.Object) []wire.Key {
	placements := &topology.WorkloadPlacementList{}
	if err := r.client.List(ctx, placements, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache is stopping
	}
	var keys []wire.Key
	for i := range placements.Items {
		p := &placements.Items[i]
		key := wire.KeyOfPlacement(p)
		here := func(c topology.Cell) bool { return c.Cluster == member.GetName() }
		if r.rules[key.GroupKind()].Budget && slices.ContainsFunc(p.Spec.Cells, here) {
			keys = append(keys, key)
		}
	}
	return keys
}

// formatsChanged passes a member whose agent starts or ends to read budgets.
func formatsChanged() predicate.Predicate {
	reads := func(o client.Object) bool {
		return o.(*topology.MemberCluster).Status.Reads(topology.OrderFormatBudget)
	}
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc:  func(e event.UpdateEvent) bool { return reads(e.ObjectOld) != reads(e.ObjectNew) },
	}
}

// divider returns the object by which the replicas of a placement were divided, nil for none. It returns false where
// that object has changed: a placement that answers the change follows.
func (in inputs) divider(
	ctx context.Context,
	kind kinds.Kind,
	p *topology.WorkloadPlacement,
) (client.Object, bool, error) {
	ref := p.Spec.Spread
	if ref == nil || kind.Divider == nil {
		return nil, true, nil
	}
	object := kind.Divider.New()
	if err := in.reader.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: ref.Name}, object); apierrors.IsNotFound(
		err,
	) {
		return nil, false, nil
	} else if err != nil {
		return nil, false, fmt.Errorf("get %s %s/%s: %w", kind.Divider.GVK.Kind, p.Namespace, ref.Name, err)
	}
	hash, err := kind.Divider.Hash(object)
	return object, err == nil && hash == ref.Hash, err
}

// subsetsOf returns the subsets in the manifests that members have, by member and name. A removed subset is evacuated
// step by step, so its definition is needed while the user's object no longer has it. Where no Work has it, the
// member's own controller sees that it was removed.
func subsetsOf(kind kinds.Kind, works []work.Work) (map[string]map[string]map[string]any, error) {
	out := map[string]map[string]map[string]any{}
	for i := range works {
		w := &works[i]
		if len(w.Spec.Workload.Manifests) != 1 || wire.IsCheck(w) {
			continue
		}
		subsets, err := kind.Former.Read(w.Spec.Workload.Manifests[0].Raw)
		if err != nil {
			return nil, fmt.Errorf("read the manifest of Work %s/%s: %w", w.Namespace, w.Name, err)
		}
		out[w.Namespace] = subsets
	}
	return out, nil
}

// Manifests returns what each member gets of a workload by a placement, by the member's name, and writes nothing.
// previous are the manifests that members have now: subsets that the workload no longer has are read from them. The
// result is nil if the placement was decided with another policy, member or divider than the reader has; the
// Rejection says why nothing can be delivered.
func Manifests(
	ctx context.Context,
	reader client.Reader,
	kind kinds.Kind,
	object client.Object,
	p *topology.WorkloadPlacement,
	previous map[string][]byte,
) (map[string][]byte, *kinds.Rejection, error) {
	add, same, err := inputs{reader}.additions(ctx, kind, p)
	if err != nil || !same {
		return nil, nil, err
	}
	if kind.Former != nil && kind.Former.In(object, p.Spec.Cells) {
		add.subsets = map[string]map[string]map[string]any{}
		for member, manifest := range previous {
			subsets, err := kind.Former.Read(manifest)
			if err != nil {
				return nil, nil, fmt.Errorf("read the manifest of member %s: %w", member, err)
			}
			add.subsets[wire.MemberNamespace(member)] = subsets
		}
	}
	key := wire.KeyFor(kind.GVK.GroupKind(), object)
	works, rejection, err := plan(kind, key, "", placement.InForce(kind, object, p), p, add)
	if rejection != nil || err != nil {
		return nil, rejection, err
	}
	manifests := map[string][]byte{}
	for _, w := range works {
		member, _ := wire.MemberOf(w.Namespace) // key.Work made it
		manifests[member] = w.Spec.Workload.Manifests[0].Raw
	}
	return manifests, nil, nil
}
