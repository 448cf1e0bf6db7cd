package uniteddeployment

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// indexField is the cache index of children by the uid of the UnitedDeployment that controls them.
const indexField = "uniteddeployment.controller"

func indexChildren(ctx context.Context, indexer client.FieldIndexer) error {
	for _, k := range []kind{cloneSetKind, deploymentKind, statefulSetKind} {
		err := indexer.IndexField(ctx, emptyOf(k), indexField, func(object client.Object) []string {
			if ref := metav1.GetControllerOf(object); ref != nil && ref.Kind == kruise.UnitedDeploymentKind.Kind {
				return []string{string(ref.UID)}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("index %ss by their UnitedDeployment: %w", k, err)
		}
	}
	return nil
}

// gatherChildren returns all children. They come from the cache and must not be changed; children that we made and that
// the cache does not know yet are read from the API server.
func (r *reconciler) gatherChildren(ctx context.Context, ud *kruise.UnitedDeployment) ([]child, error) {
	options := []client.ListOption{
		client.InNamespace(ud.Namespace), client.MatchingFields{indexField: string(ud.UID)}, client.UnsafeDisableDeepCopy,
	}
	var sets kruise.CloneSetList
	if err := r.client.List(ctx, &sets, options...); err != nil {
		return nil, fmt.Errorf("list CloneSets of UnitedDeployment %s: %w", client.ObjectKeyFromObject(ud), err)
	}
	var deployments appsv1.DeploymentList
	if err := r.client.List(ctx, &deployments, options...); err != nil {
		return nil, fmt.Errorf("list Deployments of UnitedDeployment %s: %w", client.ObjectKeyFromObject(ud), err)
	}
	var statefulSets appsv1.StatefulSetList
	if err := r.client.List(ctx, &statefulSets, options...); err != nil {
		return nil, fmt.Errorf("list StatefulSets of UnitedDeployment %s: %w", client.ObjectKeyFromObject(ud), err)
	}
	children := make([]child, 0, len(sets.Items)+len(deployments.Items)+len(statefulSets.Items))
	for i := range sets.Items {
		children = append(children, fromCloneSet(&sets.Items[i]))
	}
	for i := range deployments.Items {
		children = append(children, fromDeployment(&deployments.Items[i]))
	}
	for i := range statefulSets.Items {
		children = append(children, fromStatefulSet(&statefulSets.Items[i]))
	}
	owner := client.ObjectKeyFromObject(ud)
	for _, made := range r.ledger.unseen(owner, children) {
		c, err := r.readMade(ctx, ud, made)
		if err != nil {
			return nil, err
		}
		if c == nil {
			r.ledger.lost(owner, made.uid)
			continue
		}
		children = append(children, *c)
	}
	r.ledger.keep(owner, children)
	r.ledger.correct(owner, children)
	return children, nil
}

// readMade reads a child that we made from the API server; nil if it is gone.
func (r *reconciler) readMade(ctx context.Context, ud *kruise.UnitedDeployment, made created) (*child, error) {
	object := emptyOf(made.kind)
	key := client.ObjectKey{Namespace: ud.Namespace, Name: made.name}
	if err := r.live.Get(ctx, key, object); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("read %s %s: %w", made.kind, key, err)
	}
	if object.GetUID() != made.uid || !metav1.IsControlledBy(object, ud) {
		return nil, nil
	}
	c := childOf(object)
	return &c, nil
}

// gather reads what the plan needs; nil if there is nothing to do.
func (r *reconciler) gather(ctx context.Context, request reconcile.Request) (*observed, error) {
	ud := &kruise.UnitedDeployment{}
	if err := r.client.Get(ctx, request.NamespacedName, ud); err != nil {
		if apierrors.IsNotFound(err) {
			r.namespaces.Forget(r.ledger.close(request.NamespacedName))
			return nil, nil
		}
		return nil, fmt.Errorf("read UnitedDeployment %s: %w", request.NamespacedName, err)
	}
	if r.federated != nil {
		federated, err := r.federated(ctx, request.Namespace)
		if err != nil {
			return nil, fmt.Errorf("ask whether namespace %s is federated: %w", request.Namespace, err)
		}
		if federated {
			return nil, nil // the hub owns it
		}
	}
	if ud.DeletionTimestamp == nil && r.foreign != nil && r.foreign(ud) {
		return nil, nil
	}
	if r.ledger.behind(request.NamespacedName, ud.UID, ud.ResourceVersion, r.clock.Now()) {
		return &observed{behind: true}, nil
	}
	children, err := r.gatherChildren(ctx, ud)
	if err != nil {
		return nil, err
	}
	pods, err := r.gatherPods(ctx, ud, children)
	if err != nil {
		return nil, err
	}
	waiting, err := r.gatherWaits(ctx, children)
	if err != nil {
		return nil, err
	}
	revisions, err := r.revisions.List(ctx, historyOwner(ud))
	if err != nil {
		return nil, err
	}
	leaving, err := r.leaving(ctx, ud)
	if err != nil {
		return nil, err
	}
	known, marked := r.ledger.known(request.NamespacedName)
	return &observed{
		leaving: leaving, ud: ud, allowance: r.allowed(ctx, ud), cluster: r.cluster, now: r.clock.Now(),
		children: children, revisions: revisions, pods: pods, known: known, marked: marked, waiting: waiting,
	}, nil
}
