package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// Allowed are the kinds that an agent carries for a hub. The member's owner decides: a hub that fell into other hands can bring no
// other kind into the member. Nil is all there are.
type Allowed map[schema.GroupKind]bool

// carried are the kinds that hubs send: those of the suite, what goes with them, and the Jobs of checks. The agent has rights for these
// alone.
func carried() []schema.GroupKind {
	kinds := []schema.GroupKind{{Group: "batch", Kind: "Job"}, {Group: "multicluster.x-k8s.io", Kind: "ServiceExport"}}
	for _, kind := range []string{"CloneSet", "StatefulSet", "UnitedDeployment", "WorkloadSpread"} {
		kinds = append(kinds, schema.GroupKind{Group: apps.GroupVersion.Group, Kind: kind})
	}
	for _, kind := range []string{"ConfigMap", "PersistentVolumeClaim", "Secret", "Service", "ServiceAccount"} {
		kinds = append(kinds, schema.GroupKind{Group: corev1.GroupName, Kind: kind})
	}
	return kinds
}

// Carried returns the names of all kinds that can be allowed, sorted.
func Carried() []string {
	var names []string
	for _, kind := range carried() {
		names = append(names, kind.Kind)
	}
	slices.Sort(names)
	return names
}

// Allow returns the list of these kinds. The error names one that no agent carries.
func Allow(names []string) (Allowed, error) {
	allowed := Allowed{}
	for _, name := range names {
		all := carried()
		i := slices.IndexFunc(all, func(kind schema.GroupKind) bool { return kind.Kind == name })
		if i < 0 {
			return nil, fmt.Errorf("%q is no kind that an agent carries; name some of %s", name, strings.Join(Carried(), ", "))
		}
		allowed[all[i]] = true
	}
	return allowed, nil
}

// refuses tells why an order is not carried out, empty if the list admits it.
func (a Allowed) refuses(order *Order) string {
	kind := order.Ref.GroupKind()
	switch {
	case a == nil || a[kind]:
		return ""
	case slices.Contains(carried(), kind):
		return fmt.Sprintf("%s is refused by the agent: the member's owner does not let hubs bring objects of kind %s; add it to --allow-kinds of the agent, or keep the object away from this member by a policy", order.Ref, kind.Kind)
	default:
		return fmt.Sprintf("%s is refused by the agent: it carries no objects of kind %s; it carries %s", order.Ref, kind, strings.Join(Carried(), ", "))
	}
}

// refuse tells that an order is not allowed. What stands in the member stays as it is, also when the Work goes: it is not the hub's to
// delete.
func (r *Reconciler) refuse(ctx context.Context, w *work.Work, m *memo, why string) error {
	if !w.DeletionTimestamp.IsZero() {
		return r.finish(ctx, w)
	}
	outcome := Outcome{
		WorkUID: w.UID, Generation: w.Generation, HubID: m.hubID, Sequence: m.order.Sequence,
		Reason: work.ReasonNotAllowed, Message: why, At: r.Clock.Now(),
	}
	// Pods of a workload that was allowed before are told on: they count for the hub's limits. Of a kind that is not served none stand.
	if m.order.Ref.Group == apps.GroupVersion.Group && r.Objects.Bind(ctx, client.ObjectKeyFromObject(w), m.order.Ref) == nil {
		m.bound, outcome.Ref = true, m.order.Ref
	}
	r.Outcomes.set(client.ObjectKeyFromObject(w), outcome)
	return nil
}
