package uniteddeployment

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
func (r *reconciler) gatherChildren(ctx context.Context, s *scope) ([]child, error) {
	ud := s.ud
	options := []client.ListOption{
		client.InNamespace(ud.Namespace), client.MatchingFields{indexField: string(ud.UID)}, client.UnsafeDisableDeepCopy,
	}
	var sets kruise.CloneSetList
	if err := r.Client.List(ctx, &sets, options...); err != nil {
		return nil, fmt.Errorf("list its CloneSets: %w", err)
	}
	var deployments appsv1.DeploymentList
	if err := r.Client.List(ctx, &deployments, options...); err != nil {
		return nil, fmt.Errorf("list its Deployments: %w", err)
	}
	var statefulSets appsv1.StatefulSetList
	if err := r.Client.List(ctx, &statefulSets, options...); err != nil {
		return nil, fmt.Errorf("list its StatefulSets: %w", err)
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
	for _, made := range s.Memory.unseen(children) {
		c, err := r.readMade(ctx, ud, made)
		if err != nil {
			return nil, err
		}
		if c == nil {
			s.Memory.lost(made.uid)
			continue
		}
		children = append(children, *c)
	}
	s.Memory.keep(children)
	s.Memory.correct(children)
	return children, nil
}

// readMade reads a child that we made from the API server; nil if it is gone.
func (r *reconciler) readMade(ctx context.Context, ud *kruise.UnitedDeployment, made created) (*child, error) {
	object := emptyOf(made.kind)
	key := client.ObjectKey{Namespace: ud.Namespace, Name: made.name}
	if err := r.Live.Get(ctx, key, object); err != nil {
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

// gather reads what the plan needs.
func (r *reconciler) gather(ctx context.Context, s *scope) (bool, error) {
	children, err := r.gatherChildren(ctx, s)
	if err != nil {
		return false, err
	}
	pods, err := r.gatherPods(ctx, s, children)
	if err != nil {
		return false, err
	}
	waiting, err := r.gatherWaits(ctx, children)
	if err != nil {
		return false, err
	}
	revisions, err := r.History.List(ctx, historyOwner(s.ud))
	if err != nil {
		return false, err
	}
	known, marked := s.Memory.own()
	s.seen = &observed{
		ud: s.ud, budget: s.Budget, cluster: r.cluster, now: r.Clock.Now(),
		children: children, revisions: revisions, pods: pods, known: known, marked: marked, waiting: waiting,
	}
	return true, nil
}
