package podset

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/freshness"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// Names of the cache's indexes: pods by the uid of their controller, pods without one by namespace, and pods by the node
// that they are bound to.
const (
	controllerIndex = "podset.controller"
	orphanIndex     = "podset.orphan"
	nodeIndex       = "podset.node"
)

// Source reads pods from a cache.
type Source struct{ indexer toolscache.Indexer }

// NewSource prepares the cache of the manager. It can be called once for each kind of workload; call it before the
// manager starts.
func NewSource(ctx context.Context, c cache.Cache) (*Source, error) {
	informer, err := c.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	shared, ok := informer.(toolscache.SharedIndexInformer)
	if !ok {
		return nil, fmt.Errorf("watch pods: a cache of type %T has no indexes; use one cache for all namespaces", informer)
	}
	return FromIndexer(shared.GetIndexer())
}

// FromIndexer returns a source over an indexer. The indexes that are missing are added to it.
func FromIndexer(indexer toolscache.Indexer) (*Source, error) {
	missing := toolscache.Indexers{controllerIndex: byController, orphanIndex: orphans, nodeIndex: byNode}
	for name := range indexer.GetIndexers() {
		delete(missing, name)
	}
	if err := indexer.AddIndexers(missing); err != nil {
		return nil, fmt.Errorf("index pods: %w", err)
	}
	return &Source{indexer: indexer}, nil
}

func byController(obj any) ([]string, error) {
	if pod, ok := obj.(*corev1.Pod); ok {
		if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
			return []string{string(ref.UID)}, nil
		}
	}
	return nil, nil
}

func orphans(obj any) ([]string, error) {
	if pod, ok := obj.(*corev1.Pod); ok && metav1.GetControllerOfNoCopy(pod) == nil && pod.DeletionTimestamp == nil {
		return []string{pod.Namespace}, nil
	}
	return nil, nil
}

func byNode(obj any) ([]string, error) {
	if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
		return []string{pod.Spec.NodeName}, nil
	}
	return nil, nil
}

// OnNode returns the pods that are bound to the node.
func (s *Source) OnNode(node string) ([]*corev1.Pod, error) {
	objs, err := s.indexer.ByIndex(nodeIndex, node)
	if err != nil {
		return nil, fmt.Errorf("list pods on node %s: %w", node, err)
	}
	out := make([]*corev1.Pod, 0, len(objs))
	for _, obj := range objs {
		if pod, ok := obj.(*corev1.Pod); ok {
			out = append(out, pod)
		}
	}
	return out, nil
}

// Daemon reports whether a pod of flotilla-node is ready on the node.
func (s *Source) Daemon(node string) bool {
	const label, program = "app.kubernetes.io/name", "flotilla-node"
	pods, err := s.OnNode(node)
	return err == nil && slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		return pod.Labels[label] == program && pod.DeletionTimestamp == nil && podstate.Ready(pod)
	})
}

// Get returns what the cache knows of a pod.
func (s *Source) Get(key types.NamespacedName) freshness.Seen {
	obj, ok, err := s.indexer.GetByKey(key.String())
	pod, isPod := obj.(*corev1.Pod)
	if err != nil || !ok || !isPod {
		return freshness.Seen{}
	}
	return freshness.Seen{Present: true, ResourceVersion: pod.ResourceVersion, Deleting: pod.DeletionTimestamp != nil}
}

// Observe returns the pods whose controller has this uid, in buckets. Without a selector (nil) no pod is a stranger.
func (s *Source) Observe(owner types.UID, selector labels.Selector) (Set, error) {
	objs, err := s.indexer.ByIndex(controllerIndex, string(owner))
	if err != nil {
		return Set{}, fmt.Errorf("list pods of %s: %w", owner, err)
	}
	return newSet(objs, selector), nil
}

// Orphans returns the pods in the namespace that match the selector, have no controller, and have not ended: one that
// has serves nobody, and adopting it would delete it. An empty selector matches none.
func (s *Source) Orphans(namespace string, selector labels.Selector) ([]*corev1.Pod, error) {
	if selector.Empty() {
		return nil, nil
	}
	objs, err := s.indexer.ByIndex(orphanIndex, namespace)
	if err != nil {
		return nil, fmt.Errorf("list pods without a controller in %s: %w", namespace, err)
	}
	var out []*corev1.Pod
	for _, obj := range objs {
		if pod, ok := obj.(*corev1.Pod); ok && !podstate.Ended(pod) && selector.Matches(labels.Set(pod.Labels)) {
			out = append(out, pod)
		}
	}
	return out, nil
}
