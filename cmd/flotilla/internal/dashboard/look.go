package dashboard

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/tree"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/store"
)

// look is what is read by one set of rights.
type look struct {
	*source
	grants *grants
	hub    cache.Cache
	hubID  string
	// identity says that the identity of the hub cannot be read.
	identity []Unread
	in       input
	// approve are rights to approve, as they were asked for last.
	approve map[string]bool
	// revisions are the data of ControllerRevisions that were read; nil for one that does not exist or is refused.
	revisions map[tree.Stored][]byte
}

// loop publishes a fleet after each change, and looks at contacts in between. It returns what the user may read once
// that is something else.
func (l *look) loop(ctx context.Context, changed <-chan struct{}) (*grants, error) {
	looks, asks := time.NewTicker(l.lookEvery), time.NewTicker(l.askEvery)
	defer looks.Stop()
	defer asks.Stop()
	for stale := true; ; {
		if stale {
			began := time.Now()
			if err := l.read(ctx); err != nil {
				return nil, err
			}
			select {
			case <-ctx.Done():
				return nil, nil
			case <-time.After(max(settle, share*time.Since(began))):
			}
		}
		stale = false
		select {
		case <-ctx.Done():
			return nil, nil
		case <-changed:
			stale = true
		case <-looks.C:
			if err := l.again(ctx); err != nil {
				return nil, err
			}
		case <-asks.C:
			if l.in.failing != "" {
				continue // nothing answers
			}
			stale = true
			if g, err := l.rights(ctx); g != nil || err != nil {
				return g, err
			}
		}
	}
}

// rights looks up again what the user may do. It returns what may be read if that is something else, or nil.
func (l *look) rights(ctx context.Context) (*grants, error) {
	l.approve = map[string]bool{} // pages have the earlier answers until all are there
	if g, err := findGrants(ctx, l.may, l.kinds, &l.scope); err == nil && !g.same(l.grants) {
		return g, nil
	}
	return nil, l.identify(ctx)
}

// reads returns whether a kind is read.
func (l *look) reads(object client.Object) bool {
	for i := range l.kinds {
		if fmt.Sprintf("%T", l.kinds[i].object) == fmt.Sprintf("%T", object) {
			return len(l.grants.where[l.kinds[i].name()]) > 0
		}
	}
	return false
}

// list reads objects from the cache, nothing where the user must not read their kind. What is read without copies is
// not changed afterwards.
func (l *look) list(
	ctx context.Context, object client.Object, into client.ObjectList, o ...client.ListOption,
) error {
	if !l.reads(object) {
		return nil
	}
	if err := l.hub.List(ctx, into, o...); err != nil {
		return fmt.Errorf("read the hub: %w", err)
	}
	return nil
}

// read makes a fleet of everything, and publishes it.
func (l *look) read(ctx context.Context) error {
	facts := &tree.Facts{HubID: l.hubID}
	table := kinds.Workloads()
	for kind := range table {
		into := table[kind].NewList()
		if err := l.list(ctx, table[kind].New(), into); err != nil {
			return err
		}
		err := meta.EachListItem(into, func(item runtime.Object) error {
			if object, is := item.(client.Object); is {
				object.GetObjectKind().SetGroupVersionKind(table[kind].GVK)
				facts.Workloads = append(facts.Workloads, object)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("read %s of the hub: %w", kind.Kind, err)
		}
	}
	slices.SortFunc(facts.Workloads, func(a, b client.Object) int {
		text := func(o client.Object) string {
			return o.GetNamespace() + "/" + o.GetObjectKind().GroupVersionKind().Kind + "/" + o.GetName()
		}
		return strings.Compare(text(a), text(b))
	})
	works, placements := &work.WorkList{}, &topology.WorkloadPlacementList{}
	if err := l.list(ctx, &work.Work{}, works, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	if err := l.list(ctx, &topology.WorkloadPlacement{}, placements, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	if err := l.contacts(ctx); err != nil {
		return err
	}
	facts.Works, facts.Placements, facts.Members = works.Items, placements.Items, l.in.members
	l.in.tree, l.in.placements = tree.Build(facts), placements.Items
	if facts.Revisions = l.stored(ctx, l.in.tree.Revisions()); len(facts.Revisions) > 0 {
		l.in.tree = tree.Build(facts)
	}
	l.in.hub, l.in.flags = l.name, l.scope.flags
	l.in.unread = append(slices.Clone(l.grants.unread), l.identity...)
	l.in.noWorks = !l.reads(&work.Work{}) || len(l.identity) > 0
	l.in.own = nil
	if l.in.noWorks {
		l.in.own = ownOf(facts.Workloads)
	}
	if err := l.approvals(ctx); err != nil {
		return err
	}
	l.board.publish(fleetOf(&l.in))
	return nil
}

// mostRevisions is how many ControllerRevisions are read for one tree: each is a request.
const mostRevisions = 20

// stored returns the data of ControllerRevisions, and reads those that it has not read yet. What is refused is nil:
// the images of those pods are then not known.
func (l *look) stored(ctx context.Context, names []tree.Stored) map[tree.Stored][]byte {
	found, reads := map[tree.Stored][]byte{}, 0
	for _, name := range names {
		data, known := l.revisions[name]
		if !known && reads < mostRevisions {
			reads++
			asking, cancel := context.WithTimeout(ctx, answerWithin)
			data, known = name.Read(asking, l.client)
			cancel()
			if !known {
				reads = mostRevisions // the hub does not answer: what is known is enough for now
			}
		}
		if known {
			found[name] = data
		}
	}
	l.revisions = found // what is no longer asked for is forgotten
	return found
}

// identify reads the identity of the hub, and names it among what is not read where the user must not.
func (l *look) identify(ctx context.Context) error {
	if l.hubID != "" {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	id, err := store.HubID(asking, l.client)
	switch {
	case err == nil:
		l.hubID, l.identity = id, nil
	case apierrors.IsForbidden(err):
		l.identity = []Unread{{What: "namespace kube-system", Why: "You may not get it, and its uid " +
			"is the identity of the hub: numbers of pods are those of the workloads.",
			Command: "kubectl auth can-i get namespaces/kube-system" + l.scope.flags}}
	default:
		return err
	}
	return nil
}

// again looks at the hub itself and at contacts, and publishes the fleet with them.
func (l *look) again(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	l.in.failing = failingOf(l.core.Discovery().RESTClient().Get().AbsPath("/version").Do(asking).Error())
	if err := l.contacts(ctx); err != nil {
		return err
	}
	l.board.publish(fleetOf(&l.in))
	return nil
}

// failingOf says why the hub does not answer, empty if it does. A refusal is an answer.
func failingOf(err error) string {
	switch {
	case err == nil, apierrors.IsForbidden(err):
		return ""
	case apierrors.IsUnauthorized(err):
		return "The hub refuses your credentials, this is what it said last: log in, and start the page again."
	}
	return "The hub does not answer, this is what it said last: " + err.Error()
}

// contacts reads the members and their Leases.
func (l *look) contacts(ctx context.Context) error {
	members, leases := &topology.MemberClusterList{}, &coordinationv1.LeaseList{}
	if err := l.list(ctx, &topology.MemberCluster{}, members, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	if err := l.list(ctx, &coordinationv1.Lease{}, leases, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	l.in.members, l.in.leases = members.Items, leases.Items
	if l.in.failing == "" { // or else members would look late, whose Leases do not come
		l.in.now = l.now.Now()
	}
	return nil
}

// approvals asks whether the user may approve what waits for an approval.
func (l *look) approvals(ctx context.Context) error {
	for i := range l.in.tree.Workloads {
		w := &l.in.tree.Workloads[i]
		if w.Wave == nil || !asksForPerson(w.Wave) {
			continue
		}
		key := mayKey(w.Kind, w.Namespace)
		if _, asked := l.approve[key]; asked {
			continue
		}
		name := resourceOf(l.kinds, w.Kind)
		if name == nil {
			continue
		}
		may, err := l.may(ctx, right{"patch", name.group, name.resource, w.Namespace})
		if err != nil {
			return err
		}
		l.approve[key] = may
	}
	l.in.may = l.approve
	return nil
}

// resourceOf returns what is read of a kind, nil for a kind that is not known.
func resourceOf(all []readable, kind string) *readable {
	for gk, rule := range kinds.Workloads() {
		if gk.Kind != kind {
			continue
		}
		for i := range all {
			if all[i].group == gk.Group && fmt.Sprintf("%T", all[i].object) == fmt.Sprintf("%T", rule.New()) {
				return &all[i]
			}
		}
	}
	return nil
}

// ownOf returns the numbers of the workloads' own statuses, by their keys. It is pure.
func ownOf(workloads []client.Object) map[string]ownNumbers {
	out := map[string]ownNumbers{}
	for _, object := range workloads {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			continue // an object without numbers
		}
		number := func(names ...string) *int64 {
			for _, name := range names {
				if n, found, err := unstructured.NestedInt64(fields, "status", name); found && err == nil {
					return &n
				}
			}
			return nil
		}
		key := keyOf(object.GetObjectKind().GroupVersionKind().Kind, object.GetNamespace(), object.GetName())
		out[key] = ownNumbers{number("readyReplicas", "numberReady"),
			number("updatedReplicas", "updatedNumberScheduled")}
	}
	return out
}
