package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	policy "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
	"github.com/flotilla-dev/flotilla/e2e/kinds"
)

// recorder keeps every version of what [judge] needs, of one namespace of all clusters, by one watch per cluster and
// kind.
type recorder struct {
	mu        sync.Mutex
	namespace string
	log       []judge.Entry
	// known are the objects that there are, to notice those that went while a watch was broken: by watch, then uid.
	known map[string]map[types.UID]client.Object
}

// source is one watch. kind is its entry, empty for pods, placements and members.
type source struct {
	name, cluster string
	client        client.WithWatch
	list          func() client.ObjectList
	kind          kinds.Kind
}

// sources returns all watches: those of a member have its pods, budgets and cells, those of the hub the users' objects,
// placements and members.
func sources(h *harness.Harness, scheme *runtime.Scheme) (all []source, err error) {
	add := func(c *harness.Cluster, of source) {
		watching, problem := client.NewWithWatch(c.RESTConfig(), client.Options{Scheme: scheme})
		if problem != nil {
			err = errors.Join(err, fmt.Errorf("connect to %s: %w", c.Name, problem))
		}
		of.name, of.cluster, of.client = c.Name+"/"+of.name, c.Name, watching
		all = append(all, of)
	}
	for _, name := range h.MemberNames() {
		add(h.Members[name], source{name: "pods", list: func() client.ObjectList { return &corev1.PodList{} }})
		add(h.Members[name], source{name: "budgets", list: func() client.ObjectList {
			return &policy.PodUnavailableBudgetList{}
		}})
		for _, kind := range kinds.All() {
			if kind.Cell != nil {
				add(h.Members[name], source{name: kind.Kind, list: kind.NewList, kind: kind})
			}
		}
	}
	for _, kind := range kinds.All() {
		add(h.Hub, source{name: kind.Kind, list: kind.NewList, kind: kind})
	}
	add(h.Hub, source{name: "sidecars", list: func() client.ObjectList { return &apps.SidecarSetList{} }})
	add(h.Hub, source{name: "placements", list: func() client.ObjectList { return &topology.WorkloadPlacementList{} }})
	add(h.Hub, source{name: "members", list: func() client.ObjectList { return &topology.MemberClusterList{} }})
	return all, err
}

// start begins to record everything, until life ends.
func (r *recorder) start(life context.Context, h *harness.Harness, scheme *runtime.Scheme) error {
	watches, err := sources(h, scheme)
	if err != nil {
		return err
	}
	r.known = map[string]map[types.UID]client.Object{}
	for _, s := range watches {
		r.known[s.name] = map[types.UID]client.Object{}
	}
	all, err := heartbeats(h)
	if err != nil {
		return err
	}
	for _, s := range watches {
		go r.follow(life, s)
	}
	for _, p := range all {
		go r.ask(life, p)
	}
	go r.measureStalls(life)
	return nil
}

// follow watches until ctx ends. While the API server is away it tries again, from where it was.
func (r *recorder) follow(ctx context.Context, s source) {
	const pause = 100 * time.Millisecond // an API server that starts is seen soon enough
	version, told := "", time.Time{}     // until when what happened was told
	_ = wait.PollUntilContextCancel(ctx, pause, true, func(ctx context.Context) (bool, error) {
		if version == "" {
			list, asked := s.list(), time.Now()
			if err := s.client.List(ctx, list); err != nil {
				return false, nil // it is away
			}
			r.relist(s, list, told)
			version, told = list.GetResourceVersion(), asked
		}
		var last time.Time
		if version, last = r.watch(ctx, s, version); last.After(told) {
			told = last
		}
		return false, nil
	})
}

// watch records what comes until the watch ends, and returns the version to go on from, "" to list anew, and when the
// last of it came, zero if nothing did: an API server that is killed has not told what it wrote just before, or a while
// before on a busy machine.
func (r *recorder) watch(ctx context.Context, s source, version string) (next string, last time.Time) {
	options := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true}}
	stream, err := s.client.Watch(ctx, s.list(), options)
	if err != nil {
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			return "", last
		}
		return version, last
	}
	defer stream.Stop()
	for event := range stream.ResultChan() {
		object, ok := event.Object.(client.Object)
		if !ok || event.Type == watch.Error {
			return "", last // too old, mostly
		}
		version, last = object.GetResourceVersion(), time.Now()
		if event.Type != watch.Bookmark {
			r.record(s, object, event.Type == watch.Deleted)
		}
	}
	return version, last
}

// relist records what a list says, what it no longer has, and what was not seen since the watch told something last.
func (r *recorder) relist(s source, list client.ObjectList, told time.Time) {
	there := map[types.UID]bool{}
	_ = meta.EachListItem(list, func(o runtime.Object) error {
		object := o.(client.Object)
		there[object.GetUID()] = true
		r.lose(s, object, told)
		r.record(s, object, false)
		return nil
	})
	r.mu.Lock()
	var gone []client.Object
	for uid, object := range r.known[s.name] {
		if !there[uid] {
			last := object.DeepCopyObject().(client.Object)
			last.SetResourceVersion(list.GetResourceVersion())
			gone = append(gone, last)
		}
	}
	r.mu.Unlock()
	for _, object := range gone {
		r.record(s, object, true)
	}
}

// lose records that versions of an object may not have been seen, before its present one is recorded.
func (r *recorder) lose(s source, object client.Object, told time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	generation := int64(0)
	if before, ok := r.known[s.name][object.GetUID()]; ok {
		generation = s.generation(before)
	}
	e := judge.Entry{At: time.Now(), Cluster: s.cluster}
	if told.IsZero() || object.GetNamespace() != r.namespace || s.generation(object) == generation ||
		!s.read(&e, object, false) {
		return
	}
	lost := &judge.Gap{From: told}
	switch {
	case e.Cell != nil:
		lost.Cell = e.Cell.UID
	case e.Desired != nil:
		lost.Workload = e.Desired.Workload
	case e.Placement != nil:
		lost.Workload = e.Placement.Workload
	default:
		return
	}
	r.log = append(r.log, judge.Entry{At: e.At, Cluster: s.cluster, Gap: lost, Note: "versions of " + object.GetName() +
		" were not seen"})
}

func (r *recorder) record(s source, object client.Object, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.known[s.name]
	before, ok := known[object.GetUID()]
	if ok && !gone && before.GetResourceVersion() == object.GetResourceVersion() {
		return // a list tells what a watch told before
	}
	if gone {
		delete(known, object.GetUID())
	} else {
		known[object.GetUID()] = object
	}
	if ns := object.GetNamespace(); ns != "" && ns != r.namespace {
		return
	}
	if _, ok := object.(*apps.SidecarSet); ok && object.GetName() != r.namespace {
		return // that of another run
	}
	e := judge.Entry{At: time.Now(), Cluster: s.cluster, Version: versionOf(object)}
	if !s.read(&e, object, gone) {
		return
	}
	r.log = append(r.log, e)
	if late, ok := lateness(before, object, e.At); ok && !gone {
		r.log = append(r.log, judge.Entry{At: e.At, Cluster: s.cluster, Stall: &late, Note: "what happened to " +
			object.GetName() +
			" was told late"})
	}
}

// note adds a fault to the log.
func (r *recorder) note(e judge.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.At = time.Now()
	r.log = append(r.log, e)
}

// begin forgets the log, and records the namespace from now on. Members' standing is told anew.
func (r *recorder) begin(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.namespace, r.log = namespace, nil
	for name, objects := range r.known {
		if name != hubMembers {
			continue
		}
		for _, object := range objects {
			e := judge.Entry{At: time.Now(), Cluster: object.GetName(), Member: judge.ReadMember(object)}
			r.log = append(r.log, e)
		}
	}
}

// hubMembers is the name of the watch of MemberClusters.
const hubMembers = "hub/members"

// behind says which pod of the lists, by member, the recorder has in another version, "" for none.
func (r *recorder) behind(lists map[string]*corev1.PodList) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for cluster, list := range lists {
		known, count := r.known[cluster+"/pods"], 0
		for _, object := range known {
			if object.GetNamespace() == r.namespace {
				count++
			}
		}
		for i := range list.Items {
			have := known[list.Items[i].UID]
			if have == nil || have.GetResourceVersion() != list.Items[i].ResourceVersion {
				return "pod " + list.Items[i].Name + " of " + cluster
			}
		}
		if count != len(list.Items) {
			return fmt.Sprintf("%d of %d pods of %s", count, len(list.Items), cluster)
		}
	}
	return ""
}

// stood returns how much of a time the machine stood still, and how much of it any program did.
func (r *recorder) stood(from, to time.Time) (machine, any time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	whole := slices.DeleteFunc(slices.Clone(r.log), func(e judge.Entry) bool { return e.Stall == nil || !e.Stall.Machine })
	return judge.StallsOf(whole).Within(from, to), judge.StallsOf(r.log).Within(from, to)
}

// taken returns the log until now, in order.
func (r *recorder) taken() []judge.Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return judge.Ordered(r.log)
}

func versionOf(object client.Object) uint64 {
	version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0 // no API server on etcd answers so
	}
	return version
}
