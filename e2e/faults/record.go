package main

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/e2e/judge"
	"github.com/flotilla-dev/flotilla/e2e/kinds"
)

// recorder watches the API server itself and keeps every version of the pods and cells of one namespace.
type recorder struct {
	client client.WithWatch

	mu  sync.Mutex
	log []judge.Entry
	// versions are the last ones of each pod and cell.
	versions map[types.UID]string
	pods     int
	// byUser are the pods that the user deleted.
	byUser judge.Deletions
	err    error
}

func newRecorder(c client.WithWatch) *recorder {
	return &recorder{client: c, versions: map[types.UID]string{}, byUser: judge.Deletions{}}
}

// cluster is the name of the one cluster.
const cluster = "solo"

// deletes notes that the user is about to delete the pod.
func (r *recorder) deletes(pod string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := judge.PodKey{Cluster: cluster, Name: pod}
	r.byUser[key] = append(r.byUser[key], judge.Deletion{Asked: time.Now()})
}

// start begins to record, in a namespace that is still empty, and goes on until ctx ends.
func (r *recorder) start(ctx context.Context) error {
	watched := append([]kinds.Kind{{NewList: func() client.ObjectList { return &corev1.PodList{} }}},
		kinds.WithControllers()...)
	for _, kind := range watched {
		list := kind.NewList()
		if err := r.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("record %T: %w", list, err)
		}
		events, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), watchFunc(
			func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return r.client.Watch(ctx, list, client.InNamespace(namespace), &client.ListOptions{Raw: &options})
			}))
		if err != nil {
			return fmt.Errorf("record %T: %w", list, err)
		}
		go func() {
			for event := range events.ResultChan() {
				r.record(kind, event)
			}
		}()
	}
	return nil
}

// watchFunc is a watch of a kind, as client-go's RetryWatcher wants it.
type watchFunc func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)

// WatchWithContext calls the function.
func (f watchFunc) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return f(ctx, options)
}

func (r *recorder) record(kind kinds.Kind, event watch.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	object, ok := event.Object.(client.Object)
	if !ok {
		r.err = fmt.Errorf("the recorder's watch broke: %w", apierrors.FromObject(event.Object))
		return
	}
	gone := event.Type == watch.Deleted
	e := judge.Entry{At: time.Now(), Cluster: cluster, Version: versionOf(object)}
	_, known := r.versions[object.GetUID()]
	if pod, isPod := object.(*corev1.Pod); isPod {
		if e.Pod = judge.ReadPod(pod, gone); e.Pod.Owner == "" {
			return
		}
		if !known {
			r.pods++
		}
		if gone {
			r.pods--
		}
	} else {
		e.Cell = kind.Cell(object, gone)
		e.Cell.Of = judge.Place{} // no hub has a part in it
	}
	r.versions[object.GetUID()] = object.GetResourceVersion()
	if gone {
		delete(r.versions, object.GetUID())
	}
	r.log = append(r.log, e)
}

func versionOf(object client.Object) uint64 {
	version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		panic(fmt.Sprintf("an API server on etcd counts its versions: %v", err))
	}
	return version
}

// behind says in what the recorder's picture differs from what the API server has, or "".
func (r *recorder) behind(pods []corev1.Pod, workloads []client.Object) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err.Error()
	}
	var missing []string
	for i := range pods {
		if r.versions[pods[i].UID] != pods[i].ResourceVersion {
			missing = append(missing, "pod "+pods[i].Name)
		}
	}
	for _, w := range workloads {
		if r.versions[w.GetUID()] != w.GetResourceVersion() {
			missing = append(missing, "workload "+w.GetName())
		}
	}
	if r.pods != len(pods) {
		missing = append(missing, fmt.Sprintf("%d of %d pods", r.pods, len(pods)))
	}
	return strings.Join(missing, ", ")
}

// drain returns the log since the last time, in order, and all deletions by the user. Call it when nothing is behind.
func (r *recorder) drain() ([]judge.Entry, judge.Deletions) {
	r.mu.Lock()
	defer r.mu.Unlock()
	log := judge.Ordered(r.log)
	r.log = nil
	return log, maps.Clone(r.byUser)
}
