package link

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// requestQueue is the queue of a controller of Works.
type requestQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// standing is what the hub's MemberCluster says of this cluster.
type standing int

const (
	// unknown: the hub was not heard yet, or has no MemberCluster of that name.
	unknown standing = iota
	// waiting: the hub has not accepted and pinned this cluster yet.
	waiting
	// pinned: the hub means this cluster. Only now its Works are executed.
	pinned
	// refused: the name belongs to another cluster.
	refused
)

// standingOf compares the MemberCluster on the hub (nil if there is none) with the member's own identity. Before the
// hub has pinned an id, the cluster that came first has the name.
func standingOf(member *topology.MemberCluster, clusterID string) standing {
	switch {
	case member == nil || clusterID == "":
		return unknown
	case member.Spec.ClusterID == clusterID:
		return pinned
	case member.Spec.ClusterID != "":
		return refused
	case member.Status.ClusterID != "" && member.Status.ClusterID != clusterID:
		return refused
	default:
		return waiting
	}
}

// own returns this member's MemberCluster as it was seen last, nil if there is none or the hub was not heard yet.
func (l *Link) own(ctx context.Context) *topology.MemberCluster {
	if !l.heard(ctx) {
		return nil // Get would wait for the hub
	}
	member := &topology.MemberCluster{}
	if err := l.cache.Get(ctx, types.NamespacedName{Name: l.config.ClusterName}, member); err != nil {
		return nil
	}
	return member
}

// heard tells whether the hub has answered what MemberCluster of our name there is.
func (l *Link) heard(ctx context.Context) bool {
	informer, err := l.cache.GetInformer(ctx, &topology.MemberCluster{}, cache.BlockUntilSynced(false))
	return err == nil && informer.HasSynced()
}

func (l *Link) standing(ctx context.Context) (standing, *topology.MemberCluster) {
	id := l.clusterID.Load()
	if id == nil {
		return unknown, nil
	}
	member := l.own(ctx)
	return standingOf(member, *id), member
}

// MayExecute tells whether the hub means this cluster: its MemberCluster pins our id. While this process has not heard
// the hub, what the hub said last counts, as the member has recorded it.
func (l *Link) MayExecute(ctx context.Context) bool {
	if l.heard(ctx) {
		s, _ := l.standing(ctx)
		return s == pinned
	}
	id, recorded := l.clusterID.Load(), l.config.Copies.Standing()
	return id != nil && recorded.Pinned && recorded.ClusterID == *id
}

// judge acts on a change of the MemberCluster, or of what we know of ourselves: it wakes the Lease, the session and the
// inventory, and the Works where they may be executed from now on.
func (l *Link) judge(ctx context.Context) {
	wake(l.surveyed)
	wake(l.sessions.changed)
	if !l.MayExecute(ctx) {
		return
	}
	wake(l.pinned)
	l.wakeAll(ctx)
}

// wakeAll puts every Work into every queue.
func (l *Link) wakeAll(ctx context.Context) {
	l.mu.Lock()
	queues := slices.Clone(l.queues)
	l.mu.Unlock()
	for _, queue := range queues {
		l.addAll(ctx, queue)
	}
}

// addAll puts every Work that was seen, and every one that the member has a copy of, into the queue; those that are
// seen later come by their own event.
func (l *Link) addAll(ctx context.Context, queue requestQueue) {
	for _, name := range l.config.Copies.Names() {
		enqueue(queue, name)
	}
	informer, err := l.cache.GetInformer(ctx, &work.Work{}, cache.BlockUntilSynced(false))
	if err != nil || !informer.HasSynced() {
		return // List would wait for the hub
	}
	works := &work.WorkList{}
	if err := l.cache.List(ctx, works, client.InNamespace(l.Namespace()), client.UnsafeDisableDeepCopy); err != nil {
		l.config.Log.Error(err, "Cannot list the Works in the cache")
		return
	}
	for i := range works.Items {
		enqueue(queue, client.ObjectKeyFromObject(&works.Items[i]))
	}
}

// wake sends without waiting: one pending signal is enough.
func wake(signal chan<- struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// refuse tells the hub once that a cluster with another id came under the name.
func (l *Link) refuse(ctx context.Context, member *topology.MemberCluster, clusterID string) error {
	if member.Status.RefusedClusterID == clusterID {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"refusedClusterID": clusterID}})
	if err != nil {
		return err
	}
	err = l.client.Status().
		Patch(ctx, member, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldManager))
	if err != nil {
		return fmt.Errorf("write refusedClusterID to MemberCluster %s: %w", l.config.ClusterName, err)
	}
	return nil
}

// Source wakes a controller for a Work when what the agent has to do about it may have changed: the Work came, its
// spec, annotations or deletion changed, it went, or the hub accepted this cluster (then for all Works). It never
// waits for the hub.
func (l *Link) Source() source.Source {
	return source.Func(func(ctx context.Context, queue requestQueue) error {
		if err := l.watchWorks(ctx, queue); err != nil {
			return fmt.Errorf("watch Works on the hub: %w", err)
		}
		l.mu.Lock()
		l.queues = append(l.queues, queue)
		l.mu.Unlock()
		l.addAll(ctx, queue)
		return nil
	})
}

func (l *Link) watchWorks(ctx context.Context, queue requestQueue) error {
	informer, err := l.cache.GetInformer(ctx, &work.Work{}, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	came := func(object any) {
		if w, ok := object.(*work.Work); ok {
			enqueue(queue, client.ObjectKeyFromObject(w))
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: came,
		UpdateFunc: func(before, after any) {
			a, aOK := before.(*work.Work)
			b, bOK := after.(*work.Work)
			if aOK && bOK && sameOrder(a, b) {
				return // only the status that we wrote
			}
			came(after)
		},
		DeleteFunc: func(object any) {
			if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = gone.Obj
			}
			came(object)
		},
	})
	return err
}

// sameOrder tells that nothing changed between two versions of a Work that the agent acts on.
func sameOrder(a, b *work.Work) bool {
	return a.UID == b.UID && a.Generation == b.Generation &&
		a.DeletionTimestamp.IsZero() == b.DeletionTimestamp.IsZero() &&
		a.Annotations[topology.AnnotationHubID] == b.Annotations[topology.AnnotationHubID] &&
		a.Annotations[topology.AnnotationSequence] == b.Annotations[topology.AnnotationSequence] &&
		a.Annotations[topology.AnnotationRescheduleAfter] == b.Annotations[topology.AnnotationRescheduleAfter] &&
		a.Annotations[topology.AnnotationHandOver] == b.Annotations[topology.AnnotationHandOver]
}

// watchOwn follows the own MemberCluster: what the hub says there decides whether anything is executed.
func (l *Link) watchOwn(ctx context.Context) error {
	informer, err := l.cache.GetInformer(ctx, &topology.MemberCluster{}, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { l.judge(ctx) },
		UpdateFunc: func(before, after any) {
			a, aOK := before.(*topology.MemberCluster)
			b, bOK := after.(*topology.MemberCluster)
			if aOK && bOK && a.Annotations[topology.AnnotationHubID] != b.Annotations[topology.AnnotationHubID] {
				l.ordersChanged(true)
			}
			if aOK && bOK && a.UID == b.UID && a.Spec.ClusterID == b.Spec.ClusterID && a.Status.ClusterID == b.Status.ClusterID {
				if a.Status.Session != b.Status.Session || a.Spec.AcknowledgedSession != b.Spec.AcknowledgedSession {
					wake(l.sessions.changed)
				}
				return
			}
			l.judge(ctx)
		},
		DeleteFunc: func(any) { l.judge(ctx) },
	})
	return err
}
