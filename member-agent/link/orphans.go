package link

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// maxOrphans is how many objects MemberCluster.status.orphans names: enough to see what happened.
const maxOrphans = 16

// orphans are the member objects that carry the hub's label and have no order. The link's mutex guards them.
type orphans struct {
	// vanished are the objects of which this member has a copy of the Work, by the name of the Work.
	vanished map[types.NamespacedName]orphan
	// found are all that package orphans found; reported is set once it has told so.
	found    []string
	reported bool
	// changed are called when orders came or ended.
	changed []func(vanished bool)
}

// orphan is the name of an object and the id of the hub whose label it carries.
type orphan struct{ object, hubID string }

// all returns the names of all orphans, sorted, each once. An object of an earlier hub has that hub's id behind its
// name.
func (o *orphans) all(hubID string) []string {
	names := slices.Clone(o.found)
	for _, v := range o.vanished {
		if hubID != "" && v.hubID != hubID {
			v.object += " (hub " + v.hubID + ")"
		}
		names = append(names, v.object)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Orphaned tells that an object exists whose Work vanished without having been deleted, and the id of the hub that
// ordered it; an empty object that it exists no more.
func (l *Link) Orphaned(name types.NamespacedName, object, hubID string) {
	l.mu.Lock()
	if l.orphans.vanished[name].object == object {
		l.mu.Unlock()
		return
	}
	if object == "" {
		delete(l.orphans.vanished, name)
	} else {
		l.config.Log.Info("A Work vanished from the hub without having been deleted; its object stays. "+
			"Adopt or delete it, or remove the hub's label", "work", name, "object", object)
		l.orphans.vanished[name] = orphan{object, hubID}
	}
	l.mu.Unlock()
	wake(l.surveyed)
	l.ordersChanged(true)
}

// ReportOrphans takes the names of all objects that carry the hub's label and have no order, and returns whether they
// changed.
func (l *Link) ReportOrphans(names []string) bool {
	l.mu.Lock()
	changed := !slices.Equal(l.orphans.found, names)
	if !changed && l.orphans.reported {
		l.mu.Unlock()
		return false
	}
	l.orphans.found, l.orphans.reported = names, true
	l.mu.Unlock()
	wake(l.surveyed)
	return changed
}

// Orphans returns how many orphans there are.
func (l *Link) Orphans() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.orphans.all(""))
}

// orphaned writes into status how many orphans there are, and the first of them. Until this process has looked, it is
// what the member reported before.
func (l *Link) orphaned(status *topology.MemberClusterStatus, before *topology.MemberCluster) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.orphans.reported {
		status.Orphaned, status.Orphans = before.Status.Orphaned, before.Status.Orphans
		return
	}
	names := l.orphans.all(before.Annotations[topology.AnnotationHubID])
	status.Orphaned = int32(min(len(names), 1<<30)) // far above what a cluster holds
	status.Orphans = names[:min(len(names), maxOrphans)]
}

// HubID returns the id of the hub as the hub wrote it on the own MemberCluster, empty if it has not.
func (l *Link) HubID(ctx context.Context) string {
	if member := l.own(ctx); member != nil {
		return member.Annotations[topology.AnnotationHubID]
	}
	return ""
}

// Works returns the Works as seen last. They are shared: the caller must not change them.
func (l *Link) Works(ctx context.Context) ([]work.Work, error) {
	list := &work.WorkList{}
	if err := l.cache.List(ctx, list, client.InNamespace(l.Namespace()), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the Works in the cache: %w", err)
	}
	return list.Items, nil
}

// HasAllWorks asks the hub whether these are all Works that it has for this member now: after an outage the cache can
// be late.
func (l *Link) HasAllWorks(ctx context.Context, works []work.Work) (bool, error) {
	live, err := l.liveWorks(ctx)
	if err != nil {
		return false, err
	}
	have := make(map[types.UID]bool, len(works))
	for i := range works {
		have[works[i].UID] = true
	}
	return !slices.ContainsFunc(live, func(w metav1.PartialObjectMetadata) bool { return !have[w.UID] }), nil
}

// OnOrders calls changed when a Work came, and with vanished when orders may have ended without an event of their
// objects: the hub has answered a session, or a Work went without having been deleted.
func (l *Link) OnOrders(ctx context.Context, changed func(vanished bool)) error {
	informer, err := l.cache.GetInformer(ctx, &work.Work{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch Works on the hub: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed(false) },
		DeleteFunc: func(object any) {
			w, seen := object.(*work.Work)
			changed(!seen || w.DeletionTimestamp.IsZero())
		},
	})
	if err != nil {
		return fmt.Errorf("watch Works on the hub: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.orphans.changed = append(l.orphans.changed, changed)
	return nil
}

func (l *Link) ordersChanged(vanished bool) {
	l.mu.Lock()
	callbacks := slices.Clone(l.orphans.changed)
	l.mu.Unlock()
	for _, changed := range callbacks {
		changed(vanished)
	}
}
