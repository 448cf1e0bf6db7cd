package pods

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
)

const (
	// betweenLists is the least time between two lists of a member, and refresh how long one is relied on: selectors may
	// be others by then.
	betweenLists, refresh = time.Second, 30 * time.Second
	// again is how long a member that did not answer is left alone.
	again = 5 * time.Second
)

// listing is how objects of a kind are listed and watched in a member.
type listing struct {
	// scope returns which of the objects are meant.
	scope func(context.Context) (scope, error)
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
	// doing is what listing is called in a sentence.
	doing string
}

// scope says which objects of a kind are meant.
type scope struct {
	// selectors are their labels; an object has those of one at most.
	selectors []string
	// keep reports which of those objects are meant, nil for all.
	keep func(runtime.Object) bool
}

func everything(context.Context) (scope, error) { return scope{selectors: []string{""}}, nil }

// podListing lists the pods of a target, nil for those of all workloads that a hub placed in the member.
func podListing(r *reached, t *target) *listing {
	l := &listing{
		scope: everything,
		list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return r.core.CoreV1().Pods(r.namespace).List(ctx, options)
		},
		watch: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return r.streams.CoreV1().Pods(r.namespace).Watch(ctx, options)
		},
		doing: "list and watch pods" + r.place(),
	}
	switch {
	case t == nil:
		l.scope = func(ctx context.Context) (scope, error) {
			selectors, err := r.federated(ctx)
			if err != nil {
				return scope{}, err
			}
			ours, err := ofFederated(selectors)
			return scope{selectors: []string{""}, keep: func(object runtime.Object) bool {
				pod, ok := object.(*corev1.Pod)
				return ok && ours(pod)
			}}, err
		}
	case t.pod != "":
		byName(l, t.pod)
	default:
		l.scope = func(ctx context.Context) (scope, error) {
			selectors, err := r.selectors(ctx, t)
			return scope{selectors: selectors}, err
		}
	}
	return l
}

// byName limits a listing to the object of a name.
func byName(l *listing, name string) {
	list, watched := l.list, l.watch
	l.list = func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		options.FieldSelector = "metadata.name=" + name
		return list(ctx, options)
	}
	l.watch = func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		options.FieldSelector = "metadata.name=" + name
		return watched(ctx, options)
	}
}

// eventListing lists all events of the namespace.
func eventListing(r *reached) *listing {
	return &listing{
		scope: everything,
		list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return r.core.CoreV1().Events(r.namespace).List(ctx, options)
		},
		watch: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return r.streams.CoreV1().Events(r.namespace).Watch(ctx, options)
		},
		doing: "list and watch events" + r.place(),
	}
}

// watcher keeps the objects of a listing in a member. It lists again when a watch ends, and when the member answers
// again.
type watcher struct {
	*listing
	member *reached
	notes  *notes
	clock  clock.Clock
	// seen and gone are called for objects that are there and that are not any more, one at a time.
	seen, gone func(runtime.Object)

	mu    sync.Mutex
	known map[types.UID]runtime.Object
	keep  func(runtime.Object) bool
	// broken: it was said that the member does not answer.
	broken bool
}

// run watches until the context ends.
func (w *watcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		pause := betweenLists
		err := w.round(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case isAbsent(err):
			w.replace(nil, nil)
			err, pause = nil, again
		case err != nil:
			pause = again
		}
		w.report(err)
		select {
		case <-ctx.Done():
		case <-w.clock.After(pause):
		}
	}
}

// report says once that the member does not answer, and once that it does again. A member that is not expected to have
// something, and has nothing, is left out.
func (w *watcher) report(err error) {
	if !w.member.expected && len(w.objects()) == 0 {
		return
	}
	switch {
	case err != nil && !w.broken:
		w.notes.say("%v; it is tried again", err)
	case err == nil && w.broken:
		w.notes.say("member %s answers again", w.member.name)
	}
	w.broken = err != nil
}

// round lists the objects, and watches them until one of the watches ends or the list is old.
func (w *watcher) round(ctx context.Context) error {
	asked, cancel := context.WithTimeout(ctx, w.member.patience)
	scope, err := w.scope(asked)
	cancel()
	if err != nil {
		return err
	}
	var all []runtime.Object
	versions := make([]string, len(scope.selectors))
	for i, selector := range scope.selectors {
		list, err := w.list(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return w.member.failed(w.doing, err)
		}
		if versions[i], err = meta.NewAccessor().ResourceVersion(list); err != nil {
			return fmt.Errorf("read a list of member %s: %w", w.member.name, err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return fmt.Errorf("read a list of member %s: %w", w.member.name, err)
		}
		all = append(all, items...)
	}
	w.replace(all, scope.keep)
	ctx, cancel = context.WithCancel(ctx)
	failures := make(chan error, len(scope.selectors))
	var running sync.WaitGroup
	defer running.Wait() // a change of an old watch must not follow the next list
	defer cancel()       // before the wait
	var open atomic.Int64
	opened := func() {
		if int(open.Add(1)) == len(scope.selectors) {
			w.report(nil)
		}
	}
	for i, selector := range scope.selectors {
		running.Go(func() { failures <- w.follow(ctx, selector, versions[i], opened) })
	}
	select {
	case err := <-failures:
		return err
	case <-w.clock.After(refresh):
	case <-ctx.Done():
	}
	return nil
}

// follow watches from a version until the watch ends. It calls opened once the watch is open.
func (w *watcher) follow(ctx context.Context, selector, version string, opened func()) error {
	changes, err := w.watch(ctx, metav1.ListOptions{LabelSelector: selector, ResourceVersion: version,
		AllowWatchBookmarks: true})
	if err != nil {
		return w.member.failed(w.doing, err)
	}
	defer changes.Stop()
	opened()
	for {
		select {
		case <-ctx.Done():
			return nil
		case change, open := <-changes.ResultChan():
			switch {
			case !open:
				return nil
			case change.Type == watch.Error:
				err := apierrors.FromObject(change.Object)
				if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
					return nil
				}
				return w.member.failed(w.doing, err)
			case ctx.Err() == nil:
				w.change(change)
			}
		}
	}
}

// change takes one change.
func (w *watcher) change(change watch.Event) {
	object, err := meta.Accessor(change.Object)
	if err != nil || change.Type == watch.Bookmark {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known == nil {
		w.known = map[types.UID]runtime.Object{}
	}
	if w.keep != nil && !w.keep(change.Object) {
		return
	}
	object.SetManagedFields(nil)
	switch change.Type {
	case watch.Added, watch.Modified:
		w.known[object.GetUID()] = change.Object
		w.seen(change.Object)
	case watch.Deleted:
		delete(w.known, object.GetUID())
		w.gone(change.Object)
	}
}

// replace takes a whole list, of which keep says which objects are meant, nil for all.
func (w *watcher) replace(all []runtime.Object, keep func(runtime.Object) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.known
	w.keep = keep
	w.known = map[types.UID]runtime.Object{}
	for _, item := range all {
		object, err := meta.Accessor(item)
		if err != nil || keep != nil && !keep(item) {
			continue
		}
		object.SetManagedFields(nil)
		w.known[object.GetUID()] = item
		delete(before, object.GetUID())
		w.seen(item)
	}
	for _, item := range before {
		w.gone(item)
	}
}

// objects returns what a watcher knows.
func (w *watcher) objects() []runtime.Object {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.known))
}

// pods returns the pods that a watcher knows.
func (w *watcher) pods() []corev1.Pod {
	var all []corev1.Pod
	for _, item := range w.objects() {
		if pod, ok := item.(*corev1.Pod); ok {
			all = append(all, *pod)
		}
	}
	return sortedPods(all)
}

// events returns the events that a watcher knows.
func (w *watcher) events() []corev1.Event {
	var all []corev1.Event
	for _, item := range w.objects() {
		if event, ok := item.(*corev1.Event); ok {
			all = append(all, *event)
		}
	}
	return all
}
