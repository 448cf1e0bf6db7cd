package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	topologyv1alpha1 "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	workv1alpha1 "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/member-agent/copies"
	"github.com/flotilla-dev/flotilla/member-agent/link"
	"github.com/flotilla-dev/flotilla/member-agent/link/credential"
	"github.com/flotilla-dev/flotilla/member-agent/link/dial"
)

// agent is an agent in this process: its credential and its link to the hub are the real ones, over connections of its
// own. Its member is pretended, and orders are answered as if their pods were available at once.
type agent struct {
	name   string
	member *pretended
	// reply reports on an order as carried out.
	reply func(ctx context.Context, hub client.Client, w *workv1alpha1.Work) error
	tries *atomic.Int64
	link  atomic.Pointer[link.Link]

	came, joined time.Time
}

// run is the agent's life, from the Secret of its join on.
func (a *agent) run(ctx context.Context) error {
	join, err := credential.ReadJoin(ctx, a.member.client, topologyv1alpha1.SystemNamespace, topologyv1alpha1.JoinSecret)
	if err != nil {
		return err
	}
	manager := credential.New(credential.Config{
		Member: a.member.client, Namespace: topologyv1alpha1.SystemNamespace, JoinSecret: topologyv1alpha1.JoinSecret,
		ClusterID: a.member.id(),
		UserAgent: fleet.AgentProgram, Clock: clock.RealClock{}, Log: logr.Discard(),
	})
	config := manager.RESTConfig(join)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &counted{next, a.tries} })
	hub := dial.Watchful(config)
	made, err := link.New(link.Config{
		Hub: hub, ClusterName: a.name, AgentVersion: "bench", Clock: clock.RealClock{}, Log: logr.Discard(),
		Copies: copies.New(copies.Options{
			Writer: a.member.client, Reader: a.member.client, Namespace: topologyv1alpha1.SystemNamespace, ClusterName: a.name,
			Log: logr.Discard(),
		}),
	}, a.member)
	if err != nil {
		return err
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	if err := made.Source().Start(ctx, queue); err != nil {
		return err
	}
	a.link.Store(made)
	ended := make(chan error, 2) // the two below
	go func() { ended <- manager.Start(ctx) }()
	go func() { ended <- made.Start(ctx) }()
	go a.work(ctx, queue)
	<-ctx.Done()
	queue.ShutDown()
	for range cap(ended) {
		if err := <-ended; err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// work answers orders until the queue ends.
func (a *agent) work(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	for {
		request, down := queue.Get()
		if down {
			return
		}
		if err := a.answer(ctx, request.NamespacedName); err != nil {
			queue.AddRateLimited(request)
		} else {
			queue.Forget(request)
		}
		queue.Done(request)
	}
}

// answer reports on an order that is new, once the session is open.
func (a *agent) answer(ctx context.Context, name types.NamespacedName) error {
	hub := a.link.Load()
	w, err := hub.Work(ctx, name)
	if err != nil {
		return err
	}
	known := w == nil ||
		w.Status.Report != nil && w.Annotations[topologyv1alpha1.AnnotationSequence] == fmt.Sprint(w.Status.Report.Sequence)
	if known || !hub.MayExecuteNew(ctx) {
		hub.Reported(name) // what stands is what the hub knows
		return nil
	}
	return a.reply(ctx, hub.Client(), w)
}

// open tells whether the hub takes the agent for one that may carry out orders.
func (a *agent) open(ctx context.Context) bool {
	hub := a.link.Load()
	return hub != nil && hub.MayExecuteNew(ctx)
}

// counted counts requests that are sent, also those that nobody answers.
type counted struct {
	next http.RoundTripper
	sent *atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (c *counted) RoundTrip(request *http.Request) (*http.Response, error) {
	c.sent.Add(1)
	return c.next.RoundTrip(request)
}

// pretended is a member cluster of one node in this process, as far as a link asks for one.
type pretended struct {
	cluster.Cluster
	name   string
	client client.Client
}

func newPretended(name string) *pretended {
	p := &pretended{name: name}
	p.client = fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: types.UID(p.id())}},
		&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{corev1.LabelTopologyZone: "a"}},
			Status: corev1.NodeStatus{
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			},
		},
	).Build()
	return p
}

func (p *pretended) id() string { return "id-of-" + p.name }

// equip writes what flotilla join writes.
func (p *pretended) equip(ctx context.Context, join *credential.Join) error {
	if _, err := credential.Equip(ctx, p.client, join); err != nil {
		return err
	}
	// An API server moves the texts of a Secret to its data; the client of pretended members does not.
	secret := &corev1.Secret{}
	if err := p.client.Get(ctx, types.NamespacedName{Namespace: topologyv1alpha1.SystemNamespace,
		Name: topologyv1alpha1.JoinSecret}, secret); err != nil {
		return err
	}
	secret.Data = map[string][]byte{}
	for key, value := range secret.StringData {
		secret.Data[key] = []byte(value)
	}
	secret.StringData = nil
	return p.client.Update(ctx, secret)
}

// GetAPIReader implements cluster.Cluster.
func (p *pretended) GetAPIReader() client.Reader { return p.client }

// GetCache implements cluster.Cluster.
func (p *pretended) GetCache() cache.Cache { return pretendedCache{client: p.client} }

// GetConfig implements cluster.Cluster.
func (p *pretended) GetConfig() *rest.Config { return &rest.Config{Host: "https://" + p.name} }

// GetHTTPClient implements cluster.Cluster. All that is asked for by it is the version.
func (p *pretended) GetHTTPClient() *http.Client { return &http.Client{Transport: versionAnswer{}} }

type versionAnswer struct{}

// RoundTrip implements http.RoundTripper.
func (versionAnswer) RoundTrip(request *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: request,
		Body: io.NopCloser(strings.NewReader(`{"gitVersion":"v1.36.3"}`)),
	}, nil
}

// pretendedCache reads from the client. Nothing in a pretended member changes, so its informers tell nothing.
type pretendedCache struct {
	cache.Cache
	client client.Client
}

// List implements client.Reader.
func (c pretendedCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.client.List(ctx, list, opts...)
}

// GetInformer implements cache.Informers.
func (c pretendedCache) GetInformer(
	context.Context,
	client.Object,
	...cache.InformerGetOption,
) (cache.Informer, error) {
	return toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, &corev1.Node{}, 0, toolscache.Indexers{}), nil
}
