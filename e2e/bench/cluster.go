package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	policyv1beta1 "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	topologyv1alpha1 "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	workv1alpha1 "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// workers is how many requests a bare client has under way: with more, one API server on a few cores is no faster.
const workers = 16

// benchProgram is the name of the bare client in audit logs.
const benchProgram = "bench"

// connection is a client of one cluster, as fast as clients get: no limits, and protobuf for built-in kinds.
type connection struct {
	client.WithWatch
	core    *kubernetes.Clientset
	cluster *fleet.Cluster
}

func connect(c *fleet.Cluster) (*connection, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, appsv1beta1.AddToScheme, policyv1beta1.AddToScheme, topologyv1alpha1.AddToScheme,
		workv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	config := c.RESTConfig()
	config.QPS = -1
	config.UserAgent = benchProgram
	withWatch, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.Name, err)
	}
	config.ContentType = runtime.ContentTypeProtobuf
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.Name, err)
	}
	return &connection{WithWatch: withWatch, core: core, cluster: c}, nil
}

func (c *connection) createNamespace(ctx context.Context, name string, labels map[string]string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if err := c.Create(ctx, namespace); err != nil {
		return fmt.Errorf("create namespace %s in %s: %w", name, c.cluster.Name, err)
	}
	return nil
}

// parallel calls do(0) … do(n-1) with as many workers as a bare client has. The first error ends it.
func parallel(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// follow calls see for each object of a kind and for every change of one, until ctx ends or see returns true.
// A deleted object is seen with gone set. list receives the objects that are there at first.
func (c *connection) follow(
	ctx context.Context,
	list client.ObjectList,
	opts []client.ListOption,
	see func(object client.Object, gone bool) bool,
) error {
	if err := c.List(ctx, list, opts...); err != nil {
		return fmt.Errorf("list %T in %s: %w", list, c.cluster.Name, err)
	}
	// Before see gets the items, since a watch fills objects of its own.
	resourceVersion := list.GetResourceVersion()
	items, err := meta.ExtractList(list)
	if err != nil {
		return fmt.Errorf("list %T in %s: %w", list, c.cluster.Name, err)
	}
	for _, item := range items {
		if object, isObject := item.(client.Object); isObject && see(object, false) {
			return nil
		}
	}
	return c.changes(ctx, resourceVersion, func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		return c.Watch(ctx, list, append(opts, &client.ListOptions{Raw: &options})...)
	}, see)
}

// followPods calls see for every change of the workload's pods after resourceVersion, until it returns true.
func (c *connection) followPods(
	ctx context.Context,
	name, resourceVersion string,
	see func(pod *corev1.Pod, gone bool) bool,
) error {
	return c.changes(ctx, resourceVersion, func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		options.LabelSelector = labelApp + "=" + name
		return c.core.CoreV1().Pods(namespace).Watch(ctx, options)
	}, func(object client.Object, gone bool) bool {
		pod, isPod := object.(*corev1.Pod)
		return isPod && see(pod, gone)
	})
}

// watchFunc is a watch of a kind, as client-go's RetryWatcher wants it.
type watchFunc func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)

// WatchWithContext calls the function.
func (f watchFunc) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return f(ctx, options)
}

// changes calls see for every change after resourceVersion, until ctx ends or see returns true. A busy API server ends
// watches that do not keep up; they go on where they stopped.
func (c *connection) changes(
	ctx context.Context,
	resourceVersion string,
	start watchFunc,
	see func(object client.Object, gone bool) bool,
) error {
	events, err := watchtools.NewRetryWatcherWithContext(ctx, resourceVersion, start)
	if err != nil {
		return fmt.Errorf("watch %s: %w", c.cluster.Name, err)
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		if event.Type == watch.Error {
			return fmt.Errorf("watch %s: %w", c.cluster.Name, apierrors.FromObject(event.Object))
		}
		object, isObject := event.Object.(client.Object)
		if isObject && event.Type != watch.Bookmark && see(object, event.Type == watch.Deleted) {
			return nil
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return fmt.Errorf("watch %s: the server ended it", c.cluster.Name)
}

// bound bounds a phase. The returned function explains a phase that exceeded it by what describe says was seen.
func (b *bench) bound(
	ctx context.Context,
	phase string,
) (bounded context.Context, cancel func(), explain func(err error, describe func() string) error) {
	const usual = 500 // pods that the deadline is meant for
	deadline := b.deadline * time.Duration(max(b.pods, usual)) / usual
	bounded, stop := context.WithTimeout(ctx, deadline)
	return bounded, stop, func(err error, describe func() string) error {
		if err == nil {
			return nil
		}
		if ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || bounded.Err() != nil) {
			return fmt.Errorf("%s: stuck for %s; seen last: %s", phase, deadline, describe())
		}
		return fmt.Errorf("%s: %w", phase, err)
	}
}

func seconds(d time.Duration) float64 { return d.Seconds() }
