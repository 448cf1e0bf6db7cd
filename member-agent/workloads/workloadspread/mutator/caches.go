package mutator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// caches are what this replica knows of the cluster: the watches that the mutator reads from, and the placements of
// pods.
type caches struct {
	cache      cache.Cache
	placements *placements
	waits      []toolscache.InformerSynced
	// spreads is set when WorkloadSpreads have been listed, unknown while the cluster has no such kind.
	spreads, unknown atomic.Bool
	clock            clock.PassiveClock
	begun            time.Time
}

// startTime is how long a new replica may keep itself out of the Service. One that may not list everything serves all
// else.
const startTime = 30 * time.Second

var _ manager.LeaderElectionRunnable = &caches{}

// newCaches adds the watches to the manager's cache.
func newCaches(ctx context.Context, c cache.Cache, namespaces bool, clk clock.PassiveClock) (*caches, error) {
	s := &caches{cache: c, placements: newPlacements(), clock: clk, begun: clk.Now()}
	objects := []client.Object{&appsv1.Deployment{}, &appsv1.ReplicaSet{}, &appsv1.StatefulSet{}, &batchv1.Job{}}
	if namespaces {
		objects = append(objects, namespaceMetadata())
	}
	for _, object := range objects {
		informer, err := c.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watch %T: %w", object, err)
		}
		s.waits = append(s.waits, informer.HasSynced)
	}
	pods, err := c.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	counted, err := pods.AddEventHandler(s.placements)
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	s.waits = append(s.waits, counted.HasSynced)
	return s, nil
}

// NeedLeaderElection is false: every replica serves.
func (c *caches) NeedLeaderElection() bool { return false }

// Start watches WorkloadSpreads, once their CustomResourceDefinition is there, which may come later than the agent.
func (c *caches) Start(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		_, err := c.cache.GetInformer(ctx, &v1beta1.WorkloadSpread{}) // waits for the first list
		c.unknown.Store(meta.IsNoMatchError(err))
		return err == nil, nil
	})
	if err == nil {
		c.spreads.Store(true)
	}
	return nil
}

// namespaceMetadata is the object by which namespaces are watched.
func namespaceMetadata() *metav1.PartialObjectMetadata {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return namespace
}

// synced reports whether everything has been listed. It does not wait.
func (c *caches) synced() bool {
	if !c.spreads.Load() {
		return false
	}
	for _, ready := range c.waits {
		if !ready() {
			return false
		}
	}
	return true
}

// ready is nil when this replica may get its share of the requests. Until then another replica answers better: a pod
// that a replica with empty caches admits starts unspread.
func (c *caches) ready(*http.Request) error {
	if c.synced() || c.unknown.Load() || c.clock.Since(c.begun) > startTime {
		return nil
	}
	return errors.New("the caches for the admission of pods are not filled yet")
}

// Slim is the cache's transform of ReplicaSets and Jobs, whose pod templates nobody here reads. Of the status of a Job
// it keeps when it began and how it ended. It changes the object that it is given; such objects must never be sent to
// the API server as a whole. It is for memberagent.CacheOptions.
func Slim(obj any) (any, error) {
	switch w := obj.(type) {
	case *appsv1.ReplicaSet:
		w.Spec.Template, w.Status = corev1.PodTemplateSpec{}, appsv1.ReplicaSetStatus{}
	case *batchv1.Job:
		w.Spec.Template = corev1.PodTemplateSpec{}
		w.Status = batchv1.JobStatus{StartTime: w.Status.StartTime, Conditions: w.Status.Conditions}
	}
	return cache.TransformStripManagedFields()(obj)
}
