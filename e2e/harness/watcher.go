package harness

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

// Watcher records every event of every pod of the members, in the order in which they arrive.
type Watcher struct {
	clients map[string]kubernetes.Interface

	mu     sync.Mutex
	zones  map[string]string // node → zone; names of nodes begin with their cluster's
	pods   map[types.UID]judge.PodView
	events []judge.PodEvent
	// stills are times in which this process stood still, and as long again, in which it reads what came meanwhile. Each
	// member has a watch of its own: what two of them delivered in that time may arrive in the wrong order.
	stills []judge.Stall
}

func newWatcher(ctx, life context.Context, members []*fleet.Cluster) (*Watcher, error) {
	w := &Watcher{clients: map[string]kubernetes.Interface{}, zones: map[string]string{},
		pods: map[types.UID]judge.PodView{}}
	for _, m := range members {
		c, err := kubernetes.NewForConfig(m.RESTConfig())
		if err != nil {
			return nil, fmt.Errorf("watch pods of %s: %w", m.Name, err)
		}
		nodes, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list nodes of %s: %w", m.Name, err)
		}
		for i := range nodes.Items {
			w.zones[nodes.Items[i].Name] = nodes.Items[i].Labels[corev1.LabelTopologyZone]
		}
		w.clients[m.Name] = c
	}
	for name := range w.clients {
		go w.follow(life, name)
	}
	go w.keepTime(life)
	return w, nil
}

// keepTime notes when this process stood still, until ctx ends.
func (w *Watcher) keepTime(ctx context.Context) {
	const (
		every = 10 * time.Millisecond
		// most is less than a pod of one member needs to let go a pod of another one: over two agents and the hub.
		most = 50 * time.Millisecond
	)
	tick := time.NewTicker(every)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		if gap := now.Sub(last); gap > most {
			w.mu.Lock()
			w.stills = append(w.stills, judge.Stall{From: last, To: now.Add(gap)})
			w.mu.Unlock()
		}
		last = now
	}
}

// follow watches one member until ctx ends. While the member is stopped it tries again, from where it was: nothing that
// happened in between is missed.
func (w *Watcher) follow(ctx context.Context, cluster string) {
	const pause = 200 * time.Millisecond // a member that starts is seen soon enough
	version := ""
	_ = wait.PollUntilContextCancel(ctx, pause, true, func(ctx context.Context) (bool, error) {
		if version == "" {
			list, err := w.clients[cluster].CoreV1().Pods("").List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, nil
			}
			w.relist(cluster, list.Items)
			version = list.ResourceVersion
		}
		version = w.watch(ctx, cluster, version)
		return false, nil
	})
}

// watch records what comes until the watch ends, and returns the version to go on from, "" to list anew.
func (w *Watcher) watch(ctx context.Context, cluster, version string) string {
	stream, err := w.clients[cluster].CoreV1().Pods("").Watch(ctx,
		metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true})
	if err != nil {
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			return ""
		}
		return version
	}
	defer stream.Stop()
	for event := range stream.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			return "" // an error of the watch: too old, mostly
		}
		version = pod.ResourceVersion
		switch event.Type {
		case watch.Added, watch.Modified:
			w.record(cluster, pod, false)
		case watch.Deleted:
			w.record(cluster, pod, true)
		}
	}
	return version
}

func (w *Watcher) relist(cluster string, pods []corev1.Pod) {
	there := map[types.UID]bool{}
	for i := range pods {
		there[pods[i].UID] = true
		w.record(cluster, &pods[i], false)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, pod := range w.pods {
		if pod.Cluster == cluster && !there[uid] {
			w.events = append(w.events, judge.PodEvent{At: time.Now(), Before: &pod})
			delete(w.pods, uid)
		}
	}
}

func (w *Watcher) record(cluster string, pod *corev1.Pod, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	event := judge.PodEvent{At: time.Now()}
	if before, ok := w.pods[pod.UID]; ok {
		event.Before = &before
	}
	if gone {
		if event.Before == nil {
			return
		}
		delete(w.pods, pod.UID)
	} else {
		after := podOf(cluster, w.zones[pod.Spec.NodeName], pod)
		event.After = &after
		w.pods[pod.UID] = after
	}
	w.events = append(w.events, event)
}

func podOf(cluster, zone string, pod *corev1.Pod) judge.PodView {
	p := judge.PodView{
		Cluster: cluster, Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Version: pod.ResourceVersion,
		Node: pod.Spec.NodeName, Zone: zone, Subset: pod.Labels[apps.LabelSubset],
		Image: pod.Spec.Containers[0].Image, Deleting: pod.DeletionTimestamp != nil,
	}
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i]
		p.Restarts += s.RestartCount
		if s.Name == pod.Spec.Containers[0].Name {
			p.Running = s.Image
		}
	}
	updating := false
	for _, c := range pod.Status.Conditions {
		switch c.Type {
		case corev1.PodReady:
			p.Ready = c.Status == corev1.ConditionTrue
		case apps.InPlaceUpdateReady:
			updating = c.Status != corev1.ConditionTrue
		}
	}
	p.Ready = p.Ready && !updating
	return p
}

// Pods returns the pods of a namespace of all members that are there and not being deleted, by cluster and name.
func (w *Watcher) Pods(namespace string) []judge.PodView {
	w.mu.Lock()
	defer w.mu.Unlock()
	var pods []judge.PodView
	for _, pod := range w.pods {
		if pod.Namespace == namespace && !pod.Deleting {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b judge.PodView) int {
		return strings.Compare(a.Cluster+"/"+a.Name, b.Cluster+"/"+
			b.Name)
	})
	return pods
}

// Left returns the number of pods of a namespace that are there, also those that are being deleted.
func (w *Watcher) Left(namespace string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	count := 0
	for _, pod := range w.pods {
		if pod.Namespace == namespace {
			count++
		}
	}
	return count
}

// Any returns some pod of any namespace, also one that is being deleted; nil where there is none.
func (w *Watcher) Any() *judge.PodView {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, pod := range w.pods {
		return &pod
	}
	return nil
}

// CatchUp returns when the watcher has seen all that the serving members have now of a namespace.
func (w *Watcher) CatchUp(ctx context.Context, namespace string) error {
	behind := ""
	err := wait.PollUntilContextTimeout(ctx, polling, Patience, true, func(ctx context.Context) (bool, error) {
		for _, name := range slices.Sorted(maps.Keys(w.clients)) {
			list, err := w.clients[name].CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				behind = err.Error()
				return false, nil
			}
			if behind = w.behind(name, namespace, list.Items); behind != "" {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("the watcher does not catch up: %s: %w", behind, err)
	}
	return nil
}

// behind says in what the watcher's picture of a namespace differs from the list.
func (w *Watcher) behind(cluster, namespace string, list []corev1.Pod) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	there := map[types.UID]string{}
	for i := range list {
		there[list[i].UID] = list[i].ResourceVersion
	}
	known := 0
	for uid, pod := range w.pods {
		if pod.Cluster != cluster || pod.Namespace != namespace {
			continue
		}
		if there[uid] != pod.Version {
			return "an older " + pod.String()
		}
		known++
	}
	if known != len(there) {
		return fmt.Sprintf("%d of %d pods of %s in %s", known, len(there), namespace, cluster)
	}
	return ""
}
