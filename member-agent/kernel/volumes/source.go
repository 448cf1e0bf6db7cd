package volumes

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/freshness"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
)

// Names of the cache's indexes: claims by the uid of their controller; claims with an instance id that pods own, by
// namespace (there are few at a time); and claims by namespace and instance id.
const (
	controllerIndex = "volumes.controller"
	podIndex        = "volumes.pod"
	instanceIndex   = "volumes.instance"
)

func indexers() toolscache.Indexers {
	return toolscache.Indexers{controllerIndex: byController, podIndex: ownedByPod, instanceIndex: byInstance}
}

// Source reads claims from a cache.
type Source struct{ indexer toolscache.Indexer }

// NewSource prepares the cache of the manager. It can be called once for each kind of workload; call it before the
// manager starts.
func NewSource(ctx context.Context, c cache.Cache) (*Source, error) {
	informer, err := c.GetInformer(ctx, &corev1.PersistentVolumeClaim{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watch claims: %w", err)
	}
	shared, ok := informer.(toolscache.SharedIndexInformer)
	if !ok {
		return nil, fmt.Errorf("watch claims: a cache of type %T has no indexes; use one cache for all namespaces", informer)
	}
	return FromIndexer(shared.GetIndexer())
}

// FromIndexer returns a source over an indexer. The indexes that are missing are added to it.
func FromIndexer(indexer toolscache.Indexer) (*Source, error) {
	missing := indexers()
	for name := range indexer.GetIndexers() {
		delete(missing, name)
	}
	if err := indexer.AddIndexers(missing); err != nil {
		return nil, fmt.Errorf("index claims by their owner: %w", err)
	}
	return &Source{indexer: indexer}, nil
}

func byController(obj any) ([]string, error) {
	if claim, ok := obj.(*corev1.PersistentVolumeClaim); ok {
		if ref := metav1.GetControllerOfNoCopy(claim); ref != nil {
			return []string{string(ref.UID)}, nil
		}
	}
	return nil, nil
}

func ownedByPod(obj any) ([]string, error) {
	claim, ok := obj.(*corev1.PersistentVolumeClaim)
	if ok && claim.Labels[v1beta1.LabelInstanceID] != "" && slices.ContainsFunc(claim.OwnerReferences, isPod) {
		return []string{claim.Namespace}, nil
	}
	return nil, nil
}

func byInstance(obj any) ([]string, error) {
	if claim, ok := obj.(*corev1.PersistentVolumeClaim); ok && claim.Labels[v1beta1.LabelInstanceID] != "" {
		return []string{instanceKey(claim.Namespace, claim.Labels[v1beta1.LabelInstanceID])}, nil
	}
	return nil, nil
}

func instanceKey(namespace, id string) string { return namespace + "/" + id }

// isPod reports whether an owner is a pod.
func isPod(ref metav1.OwnerReference) bool { return ref.Kind == "Pod" && ref.APIVersion == "v1" }

// Get returns what the cache knows of a claim.
func (s *Source) Get(key types.NamespacedName) freshness.Seen {
	claim := s.Claim(key)
	if claim == nil {
		return freshness.Seen{}
	}
	return freshness.Seen{Present: true, ResourceVersion: claim.ResourceVersion, Deleting: claim.DeletionTimestamp != nil}
}

// Claim returns the claim of that name, whoever it belongs to, or nil.
func (s *Source) Claim(key types.NamespacedName) *corev1.PersistentVolumeClaim {
	obj, ok, err := s.indexer.GetByKey(key.String())
	claim, isClaim := obj.(*corev1.PersistentVolumeClaim)
	if err != nil || !ok || !isClaim {
		return nil
	}
	return claim
}

// Named returns the lookup by name in one namespace that Facts and Provision.Missing take.
func (s *Source) Named(namespace string) func(name string) *corev1.PersistentVolumeClaim {
	return func(name string) *corev1.PersistentVolumeClaim {
		return s.Claim(types.NamespacedName{Namespace: namespace, Name: name})
	}
}

// Observe returns the claims whose controller has this uid, and those with an instance id that one of its pods owns.
func (s *Source) Observe(owner types.UID, pods podset.Set) ([]*corev1.PersistentVolumeClaim, error) {
	out, err := s.list(controllerIndex, string(owner))
	if err != nil {
		return nil, fmt.Errorf("list claims of %s: %w", owner, err)
	}
	namespace := ""
	for _, bucket := range buckets(pods) {
		if len(bucket) > 0 {
			namespace = bucket[0].Namespace
		}
	}
	theirs, err := s.list(podIndex, namespace)
	if err != nil {
		return nil, fmt.Errorf("list claims of the pods of %s: %w", owner, err)
	}
	if len(theirs) == 0 {
		return out, nil
	}
	uids := map[types.UID]bool{}
	for _, bucket := range buckets(pods) {
		for _, pod := range bucket {
			uids[pod.UID] = true
		}
	}
	for _, claim := range theirs {
		if controller := metav1.GetControllerOfNoCopy(claim); controller != nil && controller.UID == owner {
			continue // it is in the list
		}
		if slices.ContainsFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool {
			return isPod(ref) && uids[ref.UID]
		}) {
			out = append(out, claim)
		}
	}
	return out, nil
}

// Taken reports whether any claim in the namespace has this instance id: a new pod takes another.
func (s *Source) Taken(namespace, id string) bool {
	keys, err := s.indexer.IndexKeys(instanceIndex, instanceKey(namespace, id))
	return err == nil && len(keys) > 0
}

func (s *Source) list(index, key string) ([]*corev1.PersistentVolumeClaim, error) {
	objs, err := s.indexer.ByIndex(index, key)
	if err != nil || len(objs) == 0 {
		return nil, err
	}
	out := make([]*corev1.PersistentVolumeClaim, 0, len(objs))
	for _, obj := range objs {
		if claim, ok := obj.(*corev1.PersistentVolumeClaim); ok {
			out = append(out, claim)
		}
	}
	return out, nil
}

func buckets(pods podset.Set) [3][]*corev1.Pod {
	return [3][]*corev1.Pod{pods.Active, pods.Ended, pods.Terminating}
}
