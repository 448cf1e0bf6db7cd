package dashboard

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgo "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/servertime"
)

const (
	// settle is how long a change of the hub waits for others.
	settle = 200 * time.Millisecond
	// share is how many times longer than a tree takes to make no other one is begun.
	share = 4
	// answerWithin is how long the hub has to answer.
	answerWithin = 4 * time.Second
)

// source reads the hub with the rights of the user and publishes a fleet after each change.
type source struct {
	cfg    *rest.Config
	scheme *runtime.Scheme
	core   clientgo.Interface
	client client.Client
	kinds  []readable
	scope  scope
	board  *board
	// name is how the user names the hub.
	name string
	// now is the clock of the hub.
	now clock.PassiveClock
	// lookEvery is how often contacts and the hub itself are looked at, askEvery how often rights are.
	lookEvery, askEvery time.Duration
	// syncWithin is how long the hub has to send all objects of a kind.
	syncWithin time.Duration
}

// newSource returns a source for a hub. It errs if the cluster lacks Flotilla's definitions.
func newSource(cfg *rest.Config, scheme *runtime.Scheme, b *board, name string, s scope) (*source, error) {
	now := servertime.New(clock.RealClock{}, logr.Discard()) // the clock of the user's machine may be minutes off
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(now.Wrap)
	core, err := clientgo.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to the hub: %w", err)
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the hub: %w", err)
	}
	read, err := readables(c.RESTMapper())
	if err != nil {
		return nil, console.NotAHub(err)
	}
	out := &source{cfg: cfg, scheme: scheme, core: core, client: c, kinds: read, scope: s, board: b, name: name, now: now,
		lookEvery: 5 * time.Second, askEvery: time.Minute, syncWithin: time.Minute}
	out.scope.federated = out.federated
	return out, nil
}

// readables returns the kinds that pages are made from. Kinds of workloads that an older hub does not serve are left
// out.
func readables(mapper meta.RESTMapper) ([]readable, error) {
	all := []struct {
		gvk schema.GroupVersionKind
		readable
	}{
		{topology.GroupVersion.WithKind("MemberCluster"), readable{object: &topology.MemberCluster{},
			without: "members and their regions are not shown"}},
		{topology.GroupVersion.WithKind("WorkloadPlacement"), readable{object: &topology.WorkloadPlacement{},
			divided: true, placements: true}},
		{work.GroupVersion.WithKind("Work"), readable{object: &work.Work{},
			without: "numbers of pods are those of the workloads, and none by cluster"}},
		{coordinationv1.SchemeGroupVersion.WithKind("Lease"), readable{object: &coordinationv1.Lease{},
			without: "last contacts of members are not shown"}},
	}
	table := kinds.Workloads()
	for _, kind := range slices.SortedFunc(maps.Keys(table), func(a, b schema.GroupKind) int {
		return strings.Compare(a.String(), b.String())
	}) {
		r := readable{object: table[kind].New(), divided: !table[kind].ClusterScoped, unscoped: table[kind].ClusterScoped,
			without: "they are not shown"}
		all = append(all, struct {
			gvk schema.GroupVersionKind
			readable
		}{table[kind].GVK, r})
	}
	var out []readable
	for _, k := range all {
		mapping, err := mapper.RESTMapping(k.gvk.GroupKind(), k.gvk.Version)
		if _, workload := table[k.gvk.GroupKind()]; workload && meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look for %s on the hub: %w", k.gvk.Kind, err)
		}
		k.group, k.resource = mapping.Resource.Group, mapping.Resource.Resource
		out = append(out, k.readable)
	}
	return out, nil
}

// federated lists the namespaces whose workloads the hub places.
func (s *source) federated(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	list, err := s.core.CoreV1().Namespaces().List(ctx,
		metav1.ListOptions{LabelSelector: topology.LabelFederated + "=true"})
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller wraps it
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, nil
}

// may asks the API server whether the user has a right.
func (s *source) may(ctx context.Context, r right) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	review, err := s.core.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
		&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: r.verb, Group: r.group, Resource: r.resource, Namespace: r.namespace,
			},
		}}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("ask what you may do: %w", err)
	}
	return review.Status.Allowed, nil
}

// run publishes fleets until the context ends. What cannot be read is on the page; it returns no error.
func (s *source) run(ctx context.Context) {
	var g, shown *grants
	for ctx.Err() == nil {
		var err error
		if g == nil {
			g, err = findGrants(ctx, s.may, s.kinds, &s.scope)
		}
		if err == nil {
			if shown != nil && !g.covers(shown) { // what was taken away goes at once
				s.board.publish(&Fleet{Hub: s.name, Loading: true, Unread: g.unread})
			}
			shown = g
			g, err = s.follow(ctx, g)
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		last, _ := s.board.newest()
		failing := *last
		failing.Failing = err.Error()
		s.board.publish(&failing)
		g = nil
		select {
		case <-ctx.Done():
		case <-time.After(s.lookEvery):
		}
	}
}

// follow publishes what may be read until the user may read something else, and returns what that is.
func (s *source) follow(ctx context.Context, g *grants) (*grants, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	hub, err := cache.New(s.cfg, s.cacheOf(g))
	if err != nil {
		return nil, fmt.Errorf("connect to the hub: %w", err)
	}
	go func() { _ = hub.Start(ctx) }() // it ends with the context alone
	l := &look{source: s, grants: g, hub: hub, approve: map[string]bool{}}
	if err := l.identify(ctx); err != nil {
		return nil, err
	}
	changed := make(chan struct{}, 1)
	for i := range s.kinds {
		if len(g.where[s.kinds[i].name()]) == 0 {
			continue
		}
		if err := s.watch(ctx, hub, &s.kinds[i], changed); err != nil {
			return nil, err
		}
	}
	return l.loop(ctx, changed)
}

// watch waits until all objects of a kind are here, and sends to changed when one of them changed, except for Leases:
// those change all the time.
func (s *source) watch(ctx context.Context, hub cache.Cache, kind *readable, changed chan<- struct{}) error {
	syncing, cancel := context.WithTimeout(ctx, s.syncWithin)
	defer cancel()
	var err error
	if _, lease := kind.object.(*coordinationv1.Lease); lease {
		_, err = hub.GetInformer(syncing, kind.object)
	} else {
		err = console.Notify(syncing, hub, []client.Object{kind.object}, changed)
	}
	synced := err == nil && hub.WaitForCacheSync(syncing) // the cache may not have begun before
	switch {
	case synced:
		return nil
	case syncing.Err() != nil && ctx.Err() == nil:
		return fmt.Errorf("the hub has not sent all %s within %s", kind.name(), s.syncWithin)
	case err == nil:
		err = ctx.Err()
	}
	return fmt.Errorf("watch %s on the hub: %w", kind.name(), err)
}

// cacheOf returns the options of a cache of what may be read.
func (s *source) cacheOf(g *grants) cache.Options {
	options := cache.Options{Scheme: s.scheme, Mapper: s.client.RESTMapper(),
		DefaultTransform: cache.TransformStripManagedFields(), ByObject: map[client.Object]cache.ByObject{}}
	for i := range s.kinds {
		by := cache.ByObject{}
		if where := g.where[s.kinds[i].name()]; s.kinds[i].divided && len(where) > 0 && where[0] != "" {
			by.Namespaces = map[string]cache.Config{}
			for _, namespace := range where {
				by.Namespaces[namespace] = cache.Config{}
			}
		}
		if _, is := s.kinds[i].object.(*work.Work); is {
			by.Transform = console.StripManifests
		}
		options.ByObject[s.kinds[i].object] = by
	}
	return options
}
