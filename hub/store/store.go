package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// Field managers of the hub's writes, one for each stage.
const (
	ManagerInventory = client.FieldOwner("flotilla-inventory")
	ManagerPlacement = client.FieldOwner("flotilla-placement")
	ManagerPolicy    = client.FieldOwner("flotilla-policy")
	ManagerDelivery  = client.FieldOwner("flotilla-delivery")
	ManagerAggregate = client.FieldOwner("flotilla-aggregate")
)

// Indexes of the hub's cache.
const (
	// IndexWorkPlacement finds the Works of a WorkloadPlacement by its uid.
	IndexWorkPlacement = "flotilla.placement"
	// IndexWorkWorkload finds the Works of a workload by the text of its [wire.Key], of whatever placement they are.
	IndexWorkWorkload = "flotilla.workload"
	// IndexWorkDependsOn finds the Works that name another one as their dependency, by that one's "<namespace>/<name>".
	IndexWorkDependsOn = "flotilla.dependsOn"
	// IndexPlacementDependency finds the placements that name an object as their dependency, by the text of its
	// [wire.Key].
	IndexPlacementDependency = "flotilla.dependency"
	// IndexMemberClusterID finds MemberClusters by what [wire.ClusterID] returns.
	IndexMemberClusterID = "flotilla.clusterID"
)

// FindPlacement returns the WorkloadPlacement of a workload, nil if it has none, and the name that it has or is to
// have.
func FindPlacement(
	ctx context.Context,
	reader client.Reader,
	k wire.Key,
) (*topology.WorkloadPlacement, types.NamespacedName, error) {
	var free types.NamespacedName
	for _, name := range k.Placements() {
		p := &topology.WorkloadPlacement{}
		switch err := reader.Get(ctx, name, p); {
		case apierrors.IsNotFound(err):
			if free.Name == "" {
				free = name
			}
		case err != nil:
			return nil, name, fmt.Errorf("get placement of %s: %w", k.Sentence(), err)
		case wire.KeyOfPlacement(p).GroupKind() == k.GroupKind() || wire.Foreign(p):
			return p, name, nil // one that somebody edited is restored by its name
		}
	}
	return nil, free, nil
}

// HubID returns the identity of the hub: the uid of its namespace kube-system.
func HubID(ctx context.Context, reader client.Reader) (string, error) {
	namespace := &corev1.Namespace{}
	if err := reader.Get(ctx, client.ObjectKey{Name: "kube-system"}, namespace); err != nil {
		return "", fmt.Errorf("read the hub's id from namespace kube-system: %w", err)
	}
	return string(namespace.UID), nil
}

// Index adds the indexes that the stages read by.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	byPlacement := func(o client.Object) []string {
		if uid := o.GetLabels()[topology.LabelPlacement]; uid != "" {
			return []string{uid}
		}
		return nil
	}
	byWorkload := func(o client.Object) []string {
		if key, ok := wire.OwnerOf(o); ok {
			return []string{key.String()}
		}
		return nil
	}
	byDependsOn := func(o client.Object) []string {
		var names []string
		for _, name := range wire.DependsOn(o) {
			names = append(names, o.GetNamespace()+"/"+name)
		}
		return names
	}
	byDependency := func(o client.Object) []string {
		var keys []string
		for _, key := range wire.DependenciesOf(o.(*topology.WorkloadPlacement)) {
			keys = append(keys, key.String())
		}
		return keys
	}
	byClusterID := func(o client.Object) []string {
		if id := wire.ClusterID(o.(*topology.MemberCluster)); id != "" {
			return []string{id}
		}
		return nil
	}
	if err := indexer.IndexField(ctx, &topology.MemberCluster{}, IndexMemberClusterID, byClusterID); err != nil {
		return fmt.Errorf("index MemberClusters by the ids of their clusters: %w", err)
	}
	if err := indexer.IndexField(ctx, &work.Work{}, IndexWorkDependsOn, byDependsOn); err != nil {
		return fmt.Errorf("index Works by their dependencies: %w", err)
	}
	if err := indexer.IndexField(ctx, &topology.WorkloadPlacement{}, IndexPlacementDependency, byDependency); err != nil {
		return fmt.Errorf("index placements by their dependencies: %w", err)
	}
	if err := indexer.IndexField(ctx, &work.Work{}, IndexWorkPlacement, byPlacement); err != nil {
		return fmt.Errorf("index Works by placement: %w", err)
	}
	if err := indexer.IndexField(ctx, &work.Work{}, IndexWorkWorkload, byWorkload); err != nil {
		return fmt.Errorf("index Works by workload: %w", err)
	}
	return nil
}

// ListMembers returns all members, sorted by name.
func ListMembers(ctx context.Context, reader client.Reader) ([]topology.MemberCluster, error) {
	list := &topology.MemberClusterList{}
	if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list MemberClusters: %w", err)
	}
	members := slices.Clone(list.Items)
	slices.SortFunc(members, func(a, b topology.MemberCluster) int { return strings.Compare(a.Name, b.Name) })
	return members, nil
}
