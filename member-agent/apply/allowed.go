package apply

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	policy "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// Allowed is what an agent carries for a hub. The member's owner decides: a hub that fell into other hands can
// bring nothing else into the member. How much it may bring into a namespace, a ResourceQuota of the owner's
// says: the agent has no rights for these.
type Allowed struct {
	// Kinds that a hub may bring; nil for all there are.
	Kinds map[schema.GroupKind]bool
	// Namespaces that it may bring them into: names, or beginnings of names that end with *. None is all.
	Namespaces []string
}

// carried are the kinds that hubs send: those of the suite, what goes with them, the Jobs of checks, and Kubernetes'
// own workloads, of hubs that do not run them. The agent has rights for these alone.
func carried() []schema.GroupKind {
	kinds := []schema.GroupKind{
		{Group: "batch", Kind: "CronJob"}, {Group: "batch", Kind: "Job"},
		{Group: "multicluster.x-k8s.io", Kind: "ServiceExport"},
	}
	for _, kind := range []string{"DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"} {
		kinds = append(kinds, schema.GroupKind{Group: "apps", Kind: kind})
	}
	kinds = append(kinds, apps.AdvancedCronJobKind.GroupKind(), apps.BroadcastJobKind.GroupKind(),
		apps.CloneSetKind.GroupKind(), apps.DaemonSetKind.GroupKind(), apps.ImagePullJobKind.GroupKind(),
		appsv1alpha1.PodProbeMarkerKind.GroupKind(), policy.PodUnavailableBudgetKind.GroupKind(),
		apps.ResourceDistributionKind.GroupKind(), apps.SidecarSetKind.GroupKind(),
		apps.StatefulSetKind.GroupKind(), apps.UnitedDeploymentKind.GroupKind(), apps.WorkloadSpreadKind.GroupKind())
	for _, kind := range []string{"ConfigMap", "PersistentVolumeClaim", "Secret", "Service", "ServiceAccount"} {
		kinds = append(kinds, schema.GroupKind{Group: corev1.GroupName, Kind: kind})
	}
	return kinds
}

// GroupKinds returns the kinds that a hub may bring, sorted; those of all agents where every kind is allowed.
func (a Allowed) GroupKinds() []schema.GroupKind {
	kinds := carried()
	if a.Kinds != nil {
		kinds = slices.Collect(maps.Keys(a.Kinds))
	}
	slices.SortFunc(kinds, func(a, b schema.GroupKind) int { return strings.Compare(a.String(), b.String()) })
	return kinds
}

// Carried returns the names of all kinds that can be allowed, sorted. DaemonSet and StatefulSet mean those of both
// groups.
func Carried() []string {
	var names []string
	for _, kind := range carried() {
		names = append(names, kind.Kind)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Allow returns the list of these kinds in these namespaces. A kind is given as Kind.group, or without the group: that
// means the kind of this name in every group. The error names a kind that no agent carries, or what is no namespace.
func Allow(kinds, namespaces []string) (Allowed, error) {
	allowed := Allowed{Kinds: map[schema.GroupKind]bool{}, Namespaces: namespaces}
	for _, name := range kinds {
		known := false
		for _, kind := range carried() {
			if kind.Kind == name || kind.String() == name {
				known, allowed.Kinds[kind] = true, true
			}
		}
		if !known {
			return Allowed{}, fmt.Errorf("%q is no kind that an agent carries; "+
				"name some of %s, or with the group, such as StatefulSet.apps", name, strings.Join(Carried(), ", "))
		}
	}
	for _, name := range namespaces {
		// The beginning of a name, with something in the place of what follows, is a name.
		example := strings.TrimSuffix(name, "*") + strings.Repeat("x", strings.Count(name, "*"))
		if wrong := validation.IsDNS1123Label(example); len(wrong) > 0 {
			return Allowed{}, fmt.Errorf("%q is neither the name of a namespace nor the beginning of one that ends with *, "+
				"such as shop or team-*", name)
		}
	}
	return allowed, nil
}

// refuses returns why an order is not carried out, empty if the list admits it.
func (a Allowed) refuses(order *Order) string {
	kind := order.Ref.GroupKind()
	switch {
	case a.Kinds == nil || a.Kinds[kind]:
		switch namespace := order.Ref.Namespace; {
		case a.admits(namespace):
		case namespace == "":
			return fmt.Sprintf(
				"%s is refused by the agent: the member's owner lets hubs bring objects into %s alone, and it has "+
					"no namespace; remove --allow-namespaces of the agent, or keep the object away from this member by a policy",
				order.Ref,
				strings.Join(a.Namespaces, ", "),
			)
		default:
			return fmt.Sprintf("%s is refused by the agent: the member's owner does not let hubs bring objects into "+
				"namespace %q, but into %s alone; add it to --allow-namespaces of the agent, "+
				"or keep the object away from this member by a policy", order.Ref, namespace, strings.Join(a.Namespaces, ", "))
		}
		return ""
	case slices.Contains(carried(), kind):
		return fmt.Sprintf("%s is refused by the agent: the member's owner does not let hubs bring objects of kind %s; "+
			"add it to --allow-kinds of the agent, or keep the object away from this member by a policy", order.Ref, kind)
	default:
		return fmt.Sprintf("%s is refused by the agent: it carries no objects of kind %s; it carries %s", order.Ref, kind,
			strings.Join(Carried(), ", "))
	}
}

// admits reports whether the list has a namespace, or a prefix of it.
func (a Allowed) admits(namespace string) bool {
	return len(a.Namespaces) == 0 || slices.ContainsFunc(a.Namespaces, func(entry string) bool {
		if beginning, ok := strings.CutSuffix(entry, "*"); ok {
			return strings.HasPrefix(namespace, beginning)
		}
		return entry == namespace
	})
}

// refuse stores that an order is not allowed. The object in the member stays as it is, also after the Work is deleted:
// the hub may not delete it.
func (r *Reconciler) refuse(ctx context.Context, w *work.Work, m *memo, why string) error {
	if !w.DeletionTimestamp.IsZero() {
		return r.finish(ctx, w)
	}
	r.Generations.forget(m.order.Ref)
	outcome := Outcome{
		WorkUID: w.UID, Generation: w.Generation, HubID: m.hubID, Sequence: m.order.Sequence,
		Reason: work.ReasonNotAllowed, Message: why, At: r.Clock.Now(),
	}
	// A workload that was allowed before is still reported: its pods count for the hub's limits. A kind that is not served
	// has no objects.
	var err error
	if m.order.Ref.Group == apps.GroupVersion.Group {
		if err = r.Objects.Bind(ctx, client.ObjectKeyFromObject(w), m.order.Ref); err == nil {
			m.bound, outcome.Ref = true, m.order.Ref
		} else if meta.IsNoMatchError(err) {
			err = nil
		}
	}
	r.Outcomes.set(client.ObjectKeyFromObject(w), outcome)
	return err
}
