package admission

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

// sight is what this replica sees of the cluster: the watches that the handler reads from, and the book that follows the pods.
type sight struct {
	cache cache.Cache
	book  *book
	waits []toolscache.InformerSynced
	// spreads is set when WorkloadSpreads have been listed, unknown while the cluster has no such kind.
	spreads, unknown atomic.Bool
	clock            clock.PassiveClock
	begun            time.Time
}

// startTime is how long a new replica may keep itself out of the Service. One that cannot list everything, because it is not
// allowed to, is to serve all else.
const startTime = 30 * time.Second

var _ manager.LeaderElectionRunnable = &sight{}

// look starts the watches with the manager's cache.
func look(ctx context.Context, c cache.Cache, namespaces bool, clk clock.PassiveClock) (*sight, error) {
	s := &sight{cache: c, book: newBook(), clock: clk, begun: clk.Now()}
	objects := []client.Object{&appsv1.Deployment{}, &appsv1.ReplicaSet{}, &appsv1.StatefulSet{}, &batchv1.Job{}}
	if namespaces {
		namespace := &metav1.PartialObjectMetadata{}
		namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		objects = append(objects, namespace)
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
	counted, err := pods.AddEventHandler(s.book)
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	s.waits = append(s.waits, counted.HasSynced)
	return s, nil
}

// NeedLeaderElection is false: every replica serves.
func (s *sight) NeedLeaderElection() bool { return false }

// Start watches WorkloadSpreads, once their CustomResourceDefinition is there, which may come later than the agent.
func (s *sight) Start(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		_, err := s.cache.GetInformer(ctx, &v1beta1.WorkloadSpread{}) // waits for the first list
		s.unknown.Store(meta.IsNoMatchError(err))
		return err == nil, nil
	})
	if err == nil {
		s.spreads.Store(true)
	}
	return nil
}

// synced tells whether everything has been listed. It does not wait.
func (s *sight) synced() bool {
	if !s.spreads.Load() {
		return false
	}
	for _, ready := range s.waits {
		if !ready() {
			return false
		}
	}
	return true
}

// ready is nil when this replica may have its share of the questions. Until then another replica answers better: a pod that is
// admitted by one that knows nothing starts unspread.
func (s *sight) ready(*http.Request) error {
	if s.synced() || s.unknown.Load() || s.clock.Since(s.begun) > startTime {
		return nil
	}
	return errors.New("the admission of pods does not know the cluster yet")
}

// Slim is the cache's transform of ReplicaSets and Jobs, whose pod templates nobody here reads. It changes the object that it is
// given; such objects must never be sent to the API server as a whole. It is for memberagent.CacheOptions.
func Slim(obj any) (any, error) {
	switch w := obj.(type) {
	case *appsv1.ReplicaSet:
		w.Spec.Template, w.Status = corev1.PodTemplateSpec{}, appsv1.ReplicaSetStatus{}
	case *batchv1.Job:
		w.Spec.Template, w.Status = corev1.PodTemplateSpec{}, batchv1.JobStatus{}
	}
	return cache.TransformStripManagedFields()(obj)
}
