package registration

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// CacheOptions are those of the approver's manager: of rights and ServiceAccounts it sees what has the label of a
// member, of ServiceAccounts only those for joining.
func CacheOptions() (cache.Options, error) {
	members, err := labels.NewRequirement(topology.LabelMember, selection.Exists, nil)
	if err != nil {
		return cache.Options{}, fmt.Errorf("select objects of members: %w", err)
	}
	ours := cache.ByObject{Label: labels.NewSelector().Add(*members)}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&rbacv1.ClusterRole{}: ours, &rbacv1.ClusterRoleBinding{}: ours, &rbacv1.Role{}: ours, &rbacv1.RoleBinding{}: ours,
			&corev1.ServiceAccount{}: {
				Label:      ours.Label,
				Namespaces: map[string]cache.Config{topology.SystemNamespace: {}, topology.MembersNamespace: {}},
			},
		},
	}, nil
}

// Setup adds the approver to a manager whose cache has CacheOptions and whose scheme is Scheme.
func Setup(mgr ctrl.Manager, clk clock.PassiveClock) error {
	r := &Reconciler{client: mgr.GetClient(), live: mgr.GetAPIReader(), clock: clk}
	labelled := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []ctrl.Request {
		return requestFor(o.GetLabels()[topology.LabelMember])
	})
	err := ctrl.NewControllerManagedBy(mgr).Named("registration").
		For(&topology.MemberCluster{}, builder.WithPredicates(matters())).
		Watches(&certificatesv1.CertificateSigningRequest{},
			handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []ctrl.Request {
				member, _, _ := topology.MemberOfRequest(o.GetName())
				return requestFor(member)
			})).
		Watches(&corev1.ServiceAccount{}, labelled).
		Watches(&rbacv1.ClusterRole{}, labelled).Watches(&rbacv1.ClusterRoleBinding{}, labelled).
		Watches(&rbacv1.Role{}, labelled).Watches(&rbacv1.RoleBinding{}, labelled).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller registration: %w", err)
	}
	return nil
}

// matters lets through what rights and approvals depend on; what agents report is not.
func matters() predicate.Predicate {
	ready := func(o client.Object) bool {
		return meta.IsStatusConditionTrue(o.(*topology.MemberCluster).Status.Conditions, topology.MemberReady)
	}
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return ready(e.ObjectOld) != ready(e.ObjectNew) || e.ObjectOld.GetUID() != e.ObjectNew.GetUID()
		},
	})
}

func requestFor(member string) []ctrl.Request {
	if member == "" {
		return nil
	}
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Name: member}}}
}

// rightsOf returns the roles and bindings with the label of a member, bindings first.
func (r *Reconciler) rightsOf(ctx context.Context, member string) ([]client.Object, error) {
	var all []client.Object
	for _, list := range kindsOfRights() {
		if err := r.client.List(ctx, list, client.MatchingLabels{topology.LabelMember: member}); err != nil {
			return nil, fmt.Errorf("list %T of member %s: %w", list, member, err)
		}
		objects, err := meta.ExtractList(list)
		if err != nil {
			return nil, fmt.Errorf("read %T of member %s: %w", list, member, err)
		}
		for _, o := range objects {
			all = append(all, o.(client.Object))
		}
	}
	return all, nil
}
