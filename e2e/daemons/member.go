package daemons

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// every is the time between two looks at what the daemons have to do.
const every = 150 * time.Millisecond

// Stop is a container that a request stopped.
type Stop struct {
	Namespace, Pod string
	UID            types.UID
	Request        string
	RequestUID     types.UID
	Container      string
	// ID is the container that was stopped, Wanted the one that ran when the request was created.
	ID, Wanted string
}

// Options say how the nodes of a member behave.
type Options struct {
	// Seed makes the times that stops and pulls take, and the results of probes.
	Seed uint64
	// Stopped is called for each container that a request stops, before it stops.
	Stopped func(Stop)
	// Broken reports whether no pull succeeds on a node.
	Broken func(node string) bool
}

// Member are the daemons of all nodes of one member.
type Member struct {
	Options
	client client.Client
	reader client.Reader

	mu    sync.Mutex
	draw  *rand.Rand
	nodes map[string]*node
	// stopped are the IDs of the containers that the runtimes have stopped.
	stopped map[string]bool
	// results are what probes of containers find, by pod and probe; changing: it changes from time to time.
	results  map[probeKey]v1alpha1.ProbeState
	changing bool
}

// node is one node with its runtime and its daemon.
type node struct {
	uid types.UID
	// images are those that the runtime has, by reference.
	images map[string]string
	// down is until when the daemon does not run.
	down time.Time
	memory
}

// world is what the cache has of a member.
type world struct {
	nodes    []corev1.Node
	pods     map[types.UID]*corev1.Pod
	requests map[string]map[types.UID][]*v1beta1.ContainerRecreateRequest // by node and pod
	images   map[string]*v1beta1.NodeImage
	probes   map[string]*v1alpha1.NodePodProbe
}

// Start plays the daemons of a member until ctx ends. It errs if the member cannot be read.
func Start(ctx context.Context, config *rest.Config, o Options) (*Member, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1beta1.AddToScheme,
		v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	quiet := func(context.Context, *toolscache.Reflector, error) {} // API servers are away at times
	cached, err := cache.New(config, cache.Options{Scheme: scheme, DefaultWatchErrorHandler: quiet})
	if err != nil {
		return nil, fmt.Errorf("make a cache for node daemons: %w", err)
	}
	direct, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("make a client for node daemons: %w", err)
	}
	m := newMember(direct, cached, o)
	go func() { _ = cached.Start(ctx) }() // it ends with ctx
	if !cached.WaitForCacheSync(ctx) {
		return nil, fmt.Errorf("fill the cache of node daemons: %w", ctx.Err())
	}
	go func() {
		_ = wait.PollUntilContextCancel(ctx, every, true, func(ctx context.Context) (bool, error) {
			_ = m.Look(ctx, time.Now()) // it is tried again at the next look
			return false, nil
		})
	}()
	return m, nil
}

func newMember(c client.Client, reader client.Reader, o Options) *Member {
	return &Member{Options: o, client: c, reader: reader, draw: rand.New(rand.NewPCG(o.Seed, 0)),
		nodes: map[string]*node{}, stopped: map[string]bool{}, results: map[probeKey]v1alpha1.ProbeState{}}
}

// SetChanging says whether probes find something else from time to time.
func (m *Member) SetChanging(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changing = on
}

// Nodes returns the names of the nodes with daemons.
func (m *Member) Nodes() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.nodes))
}

// Kill kills the daemon of a node, and starts it again at a time. A stop that it has begun takes place or not.
func (m *Member) Kill(name string, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.nodes[name]
	if n == nil {
		return
	}
	for _, pod := range n.pods {
		if pod.running != nil && m.draw.IntN(2) == 0 {
			m.end(pod)
		}
	}
	n.memory, n.down = newMemory(), until
}

// Look does what the daemons, runtimes and kubelets have to do at a time. The error says what was not written; the next
// look tries again.
func (m *Member) Look(ctx context.Context, now time.Time) error {
	w, err := m.gather(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.renew(w)
	errs := m.startContainers(ctx, w, now)
	for i := range w.nodes {
		name := w.nodes[i].Name
		n := m.nodes[name]
		if now.Before(n.down) {
			continue
		}
		errs = errors.Join(errs, m.restart(ctx, n, w, w.requests[name], now), m.pull(ctx, name, n, w.images[name], now),
			m.probe(ctx, w.probes[name], now))
	}
	return errs
}

// renew forgets nodes that are gone.
func (m *Member) renew(w *world) {
	there := map[string]bool{}
	for i := range w.nodes {
		name, uid := w.nodes[i].Name, w.nodes[i].UID
		there[name] = true
		if n := m.nodes[name]; n == nil || n.uid != uid {
			m.nodes[name] = &node{uid: uid, images: map[string]string{}, memory: newMemory()}
		}
	}
	maps.DeleteFunc(m.nodes, func(name string, _ *node) bool { return !there[name] })
}

// gather reads the cache.
func (m *Member) gather(ctx context.Context) (*world, error) {
	var (
		nodes    corev1.NodeList
		pods     corev1.PodList
		requests v1beta1.ContainerRecreateRequestList
		pulls    v1beta1.NodeImageList
		probes   v1alpha1.NodePodProbeList
	)
	for _, list := range []client.ObjectList{&requests, &pods, &nodes, &pulls, &probes} {
		if err := m.reader.List(ctx, list); err != nil {
			return nil, fmt.Errorf("list %T for node daemons: %w", list, err)
		}
	}
	w := &world{nodes: nodes.Items, pods: map[types.UID]*corev1.Pod{},
		requests: map[string]map[types.UID][]*v1beta1.ContainerRecreateRequest{},
		images:   map[string]*v1beta1.NodeImage{}, probes: map[string]*v1alpha1.NodePodProbe{}}
	for i := range pods.Items {
		w.pods[pods.Items[i].UID] = &pods.Items[i]
	}
	for i := range requests.Items {
		request := &requests.Items[i]
		at, uid := request.Labels[v1beta1.LabelCRRNodeName], types.UID(request.Labels[v1beta1.LabelCRRPodUID])
		if w.requests[at] == nil {
			w.requests[at] = map[types.UID][]*v1beta1.ContainerRecreateRequest{}
		}
		w.requests[at][uid] = append(w.requests[at][uid], request)
	}
	for i := range pulls.Items {
		w.images[pulls.Items[i].Name] = &pulls.Items[i]
	}
	for i := range probes.Items {
		w.probes[probes.Items[i].Name] = &probes.Items[i]
	}
	return w, nil
}

// upTo draws a time.
func (m *Member) upTo(longest time.Duration) time.Duration {
	return time.Duration(m.draw.Int64N(int64(longest)))
}

// unless returns nil for an error that says that the object changed, or is gone.
func unless(err error, what, name string) error {
	if err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("write the status of %s %s: %w", what, name, err)
}
