package agent

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

const (
	// reportsAgain is how soon the cache is looked at again when it lacks reports; a watch lags by milliseconds.
	reportsAgain = 100 * time.Millisecond
	// reportsPatience is how long a Work that the cache does not have is waited for: it may have gone in between.
	reportsPatience = 5 * time.Second
	// deliveryPatience is how long an order is waited for that is decided and not written: it may be refused.
	deliveryPatience = 30 * time.Second
)

// asked is what the API server had of a member's Works when its session was seen first.
type asked struct {
	session  int64
	at       time.Time
	versions map[types.UID]string
}

// acknowledge answers the agent's session with one write, once the cache shows what the member reported before it wrote
// the session: then every decision rests on that. It returns when to look again, 0 if there is nothing to wait for.
func (r *Reconciler) acknowledge(ctx context.Context, member *topology.MemberCluster) (time.Duration, error) {
	if !unanswered(member) {
		r.unask(member.Name)
		return 0, nil
	}
	before, err := r.ask(ctx, member)
	if err != nil {
		return 0, err
	}
	seen, err := r.reportsSeen(ctx, wire.MemberNamespace(member.Name), before)
	if err != nil {
		return 0, err
	}
	if seen && r.clock.Since(before.at) < deliveryPatience {
		seen, err = r.ordersWritten(ctx, wire.MemberNamespace(member.Name))
		if err != nil {
			return 0, err
		}
	}
	if !seen {
		return reportsAgain, nil
	}
	base := member.DeepCopy()
	member.Spec.AcknowledgedSession = member.Status.Session
	// With the resourceVersion: the answer is for the session that was looked at.
	err = r.client.Patch(
		ctx,
		member,
		client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}),
		store.ManagerInventory,
	)
	if apierrors.IsConflict(err) {
		return reportsAgain, nil // the cache has not seen the member's last report on itself
	}
	if err != nil {
		return 0, fmt.Errorf("acknowledge session %d of MemberCluster %s: %w", base.Status.Session, member.Name, err)
	}
	return 0, nil
}

// ask returns what the API server had of a member's Works after the session was seen. It is asked once for each
// session, for metadata only.
func (r *Reconciler) ask(ctx context.Context, member *topology.MemberCluster) (asked, error) {
	r.mu.Lock()
	before, ok := r.asked[member.Name]
	r.mu.Unlock()
	if ok && before.session == member.Status.Session {
		return before, nil
	}
	live := &metav1.PartialObjectMetadataList{}
	live.SetGroupVersionKind(work.GroupVersion.WithKind("WorkList"))
	if err := r.live.List(ctx, live, client.InNamespace(wire.MemberNamespace(member.Name))); err != nil {
		return asked{}, fmt.Errorf("list Works of MemberCluster %s: %w", member.Name, err)
	}
	before = asked{
		session:  member.Status.Session,
		at:       r.clock.Now(),
		versions: make(map[types.UID]string, len(live.Items)),
	}
	for i := range live.Items {
		before.versions[live.Items[i].UID] = live.Items[i].ResourceVersion
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked[member.Name] = before
	return before, nil
}

func (r *Reconciler) unask(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.asked, name)
}

// reportsSeen tells whether the cache is at least as new as the answer was for every Work of a member.
func (r *Reconciler) reportsSeen(ctx context.Context, namespace string, before asked) (bool, error) {
	cached := &work.WorkList{}
	if err := r.client.List(ctx, cached, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list Works of %s in the cache: %w", namespace, err)
	}
	versions := make(map[types.UID]string, len(cached.Items))
	for i := range cached.Items {
		versions[cached.Items[i].UID] = cached.Items[i].ResourceVersion
	}
	for uid, version := range before.versions {
		have, ok := versions[uid]
		if !ok {
			if r.clock.Since(before.at) < reportsPatience {
				return false, nil
			}
			continue
		}
		if order, err := resourceversion.CompareResourceVersion(have, version); err == nil && order < 0 {
			return false, nil
		}
	}
	return true, nil
}

// ordersWritten reports whether the Works of a member have its ordinals as they are decided. The agent takes the orders
// that are written when its session is answered for those that hold: an older one could have ordinals that the hub has
// moved to another member meanwhile.
func (r *Reconciler) ordersWritten(ctx context.Context, namespace string) (bool, error) {
	works := &work.WorkList{}
	if err := r.client.List(ctx, works, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list Works of %s in the cache: %w", namespace, err)
	}
	for i := range works.Items {
		w := &works.Items[i]
		key, ok := wire.OwnerOf(w)
		if !ok || w.DeletionTimestamp != nil || wire.IsCheck(w) {
			continue
		}
		p := &topology.WorkloadPlacement{}
		err := r.client.Get(ctx, key.Placement(), p, client.UnsafeDisableDeepCopy)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("get the placement of %s: %w", key.Sentence(), err)
		}
		if err != nil || p.Spec.Ordinals == nil {
			continue
		}
		written, err := strconv.ParseInt(w.Annotations[topology.AnnotationSequence], 10, 64)
		behind := func(c topology.Cell) bool {
			return wire.MemberNamespace(c.Cluster) == namespace && c.Sequence > written
		}
		if err == nil && slices.ContainsFunc(p.Spec.Cells, behind) {
			return false, nil
		}
	}
	return true, nil
}
