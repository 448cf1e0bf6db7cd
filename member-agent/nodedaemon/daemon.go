package nodedaemon

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	internalapi "k8s.io/cri-api/pkg/apis"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/cri"
)

const (
	// Program is the name of the daemon, of its ServiceAccount and of its events.
	Program = "flotilla-node"
	// retryAfter is the wait between attempts to find the runtime, and between checks whether it answers.
	retryAfter = 10 * time.Second
)

// Env is what a part works with.
type Env struct {
	// Node is the name of the node. A part reads and writes no object of another one.
	Node string
	// Client reads from Cache and writes to the API server.
	Client client.Client
	// Cache holds what the parts say in Part.Reads.
	Cache cache.Cache
	// Live reads from the API server.
	Live client.Reader
	// Runtime and Images are the container runtime. They connect again after a restart of the runtime; until then calls
	// fail with the gRPC code Unavailable. A pull ends with its context alone; other calls have a timeout of their own.
	// They log each failed call, but for a context of cri.Quiet.
	Runtime internalapi.RuntimeService
	Images  internalapi.ImageManagerService
	// Health is what is known of the runtime.
	Health *Health
	// Clock is the time of the node. Times that were not read from objects do not notice when it is set back.
	Clock  clock.WithTicker
	Log    logr.Logger
	Events events.EventRecorder
}

// Part is one duty of the daemon.
type Part struct {
	// Name is that of its package.
	Name string
	// AddToScheme registers the types that the part works with; nil: those of core/v1 and apps.kruise.io/v1beta1 suffice.
	AddToScheme func(*runtime.Scheme) error
	// Reads returns the objects that the part reads from the cache, with selectors that match the node's objects alone;
	// nil: none.
	Reads func(node string) map[client.Object]cache.ByObject
	// Add adds the part's controllers and runnables to the manager. It is called once, when the runtime has answered for
	// the first time and the manager runs.
	Add func(mgr manager.Manager, env Env) error
}

// CacheOptions returns the manager's cache options for the parts on a node, and for its NodeImage, which the daemon
// itself reads. Of a type that several parts read, what the first of them says holds for all.
func CacheOptions(node string, parts []Part) cache.Options {
	options := cache.Options{
		ByObject:         map[client.Object]cache.ByObject{&apps.NodeImage{}: Named(node)},
		DefaultTransform: cache.TransformStripManagedFields(),
	}
	known := map[reflect.Type]bool{reflect.TypeFor[*apps.NodeImage](): true}
	for _, part := range parts {
		if part.Reads == nil {
			continue
		}
		for object, how := range part.Reads(node) {
			if t := reflect.TypeOf(object); !known[t] {
				known[t] = true
				options.ByObject[object] = how
			}
		}
	}
	return options
}

// Pods is how parts read pods: those that are bound to the node.
func Pods(node string) cache.ByObject {
	return cache.ByObject{Field: fields.OneTermEqualSelector("spec.nodeName", node)}
}

// Named is how parts read objects that have the node's name.
func Named(node string) cache.ByObject {
	return cache.ByObject{Field: fields.OneTermEqualSelector(metav1.ObjectNameField, node)}
}

// Options of the daemon.
type Options struct {
	// Node is the name of the node that the daemon runs on.
	Node string
	// CRI says where the container runtime is.
	CRI   cri.Options
	Parts []Part
	Clock clock.WithTicker
	Log   logr.Logger
	// Registry shows the daemon's own metrics.
	Registry prometheus.Registerer
}

// Daemon starts the parts once the container runtime answers.
type Daemon struct {
	options Options
	mgr     manager.Manager
	health  *Health
}

// AddToScheme registers every type that the daemon works with.
func AddToScheme(scheme *runtime.Scheme, parts []Part) error {
	add := []func(*runtime.Scheme) error{corev1.AddToScheme, apps.AddToScheme}
	for _, part := range parts {
		if part.AddToScheme != nil {
			add = append(add, part.AddToScheme)
		}
	}
	for _, f := range add {
		if err := f(scheme); err != nil {
			return fmt.Errorf("register types: %w", err)
		}
	}
	return nil
}

// Setup adds the daemon to the manager. It asks nothing of the runtime.
func Setup(mgr manager.Manager, options Options) (*Daemon, error) {
	d := &Daemon{options: options, mgr: mgr, health: NewHealth()}
	if err := options.Registry.Register(d.health.Metric()); err != nil {
		return nil, fmt.Errorf("show the metric of the container runtime: %w", err)
	}
	if err := mgr.Add(d); err != nil {
		return nil, fmt.Errorf("add the connection to the container runtime: %w", err)
	}
	if err := mgr.Add(&reporter{
		node: options.Node, client: mgr.GetClient(), cache: mgr.GetCache(), health: d.health, clock: options.Clock,
		log: options.Log.WithName("runtime"),
	}); err != nil {
		return nil, fmt.Errorf("add the report of the container runtime: %w", err)
	}
	return d, nil
}

// Health returns what is known of the runtime.
func (d *Daemon) Health() *Health { return d.health }

// Start connects to the runtime, starts the parts, and then watches whether the runtime answers, until the context
// ends. It fails when a part cannot be added, and when another runtime takes the place of the one that it has connected
// to: then the program ends, and connects to that one when it is started again.
func (d *Daemon) Start(ctx context.Context) error {
	ticker := d.options.Clock.NewTicker(retryAfter)
	defer ticker.Stop()
	connection, err := d.connect(ctx, ticker)
	if err != nil || connection == nil {
		return err
	}
	defer func() { _ = connection.Close(context.WithoutCancel(ctx)) }() // the program ends
	if err := d.add(connection); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			if err := d.check(ctx, connection); err != nil {
				return err
			}
		}
	}
}

// connect returns a connection once there is a runtime, nil when the context ends before.
func (d *Daemon) connect(ctx context.Context, ticker clock.Ticker) (*cri.Connection, error) {
	for {
		connection, err := cri.Connect(ctx, d.options.CRI)
		switch {
		case err == nil:
			d.connected(connection)
			return connection, nil
		case ctx.Err() != nil:
			return nil, nil
		}
		d.failed(err)
		select {
		case <-ctx.Done():
			return nil, nil
		case <-ticker.C():
		}
	}
}

// connected records a runtime that answers.
func (d *Daemon) connected(c *cri.Connection) {
	state := State{Ready: true, Reason: ReasonConnected, Runtime: c.Runtime,
		Message: fmt.Sprintf("%s %s answers at %s", c.Runtime.Name, c.Runtime.Version, c.Endpoint)}
	if d.health.set(state) {
		d.options.Log.Info("connected to the container runtime", "runtime", c.Runtime.Name, "version", c.Runtime.Version,
			"endpoint", c.Endpoint)
	}
}

// failed records why there is no runtime.
func (d *Daemon) failed(err error) {
	state := State{Reason: ReasonNotAnswering, Message: err.Error(), Runtime: d.health.State().Runtime}
	var found *cri.DiscoveryError
	if errors.As(err, &found) {
		state.Reason = found.Reason
	}
	if d.health.set(state) {
		d.options.Log.Info("no connection to the container runtime", "reason", state.Reason, "message", state.Message)
	}
}

// add starts the parts.
func (d *Daemon) add(c *cri.Connection) error {
	for _, part := range d.options.Parts {
		err := part.Add(d.mgr, Env{
			Node: d.options.Node, Client: d.mgr.GetClient(), Cache: d.mgr.GetCache(), Live: d.mgr.GetAPIReader(),
			Runtime: c.RuntimeService, Images: c.ImageService, Health: d.health, Clock: d.options.Clock,
			Log: d.options.Log.WithName(part.Name), Events: d.mgr.GetEventRecorder(Program),
		})
		if err != nil {
			return fmt.Errorf("start the part %s: %w", part.Name, err)
		}
	}
	return nil
}

// check asks the runtime for its version. It errs when another runtime has taken its place.
func (d *Daemon) check(ctx context.Context, c *cri.Connection) error {
	err := c.Check(ctx)
	switch {
	case ctx.Err() != nil:
		return nil
	case err == nil:
		d.connected(c)
		return nil
	}
	d.failed(err)
	if other, err := cri.Find(ctx, d.options.CRI); err == nil && other != c.Endpoint {
		return fmt.Errorf("the container runtime at %s is gone, and another answers at %s: "+
			"flotilla-node ends, to connect to that one when it is started again", c.Endpoint, other)
	}
	return nil
}
