package simulator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Options of a world.
type Options struct {
	// Seed decides everything that happens by chance.
	Seed uint64
	// Profile says how slow and unreliable the world is.
	Profile Profile
	// Scheme is what the controller's client answers for its scheme.
	Scheme *runtime.Scheme
	// Story makes the world tell what happens.
	Story bool
	// Guard checks after every pass that the controller changed nothing of the cache. It costs a copy of every pod.
	Guard bool
}

// World is a cluster in memory with one controller.
type World struct {
	*engine
	Options Options
	Profile Profile
	Kubelet *Kubelet
	// Check is asked after every write of the controller; an error ends the run.
	Check func(Write) error
	// Pass is told that a pass over a workload begins.
	Pass func(key types.NamespacedName)
	// Outside is told of every change of the truth, as somebody is who watches without a delay. After is nil where the
	// object is gone.
	Outside func(kind Kind, before, after client.Object)
	// LiveDown is the answer to all live reads; nil lets them through.
	LiveDown error
	// Writes counts the writes of the controller that reached the server, Passes its passes.
	Writes, Passes int

	server     *server
	informers  *informers
	storage    *storage
	controller Controller
	process    *Process
	asked      map[string]int
	names      map[string]string
	err        error
}

// Env is what a controller is built with.
type Env struct {
	Client client.Client
	// Live reads what the server holds, at once.
	Live   client.Reader
	Clock  clock.PassiveClock
	Pods   toolscache.Indexer
	Claims toolscache.Indexer
	Fields client.FieldIndexer
	Events events.EventRecorder
}

// Controller is how a controller is started.
type Controller struct {
	// Kind is the kind of workload; it is looked at when it or a pod that it controls changes.
	Kind  Kind
	Build func(Env) (reconcile.Reconciler, error)
	// Also returns the workloads to look at when an object of another kind changes; nil for none.
	Also func(kind Kind, before, after client.Object) []types.NamespacedName
	// Gather is how long events of pods are gathered before their workload is looked at.
	Gather time.Duration
}

// New returns a world without anything in it. It seeds the random names of package apimachinery.
func New(o Options) *World {
	utilrand.Seed(int64(o.Seed))
	w := &World{
		engine:  &engine{seed: o.Seed, now: epoch, telling: o.Story},
		Options: o, Profile: o.Profile,
		asked: map[string]int{}, names: map[string]string{},
	}
	w.server = &server{now: w.Now, objects: map[Kind]map[types.NamespacedName]client.Object{}, changed: w.changed}
	w.informers = newInformers(w)
	w.storage = &storage{world: w, random: w.Random("storage")}
	w.Kubelet = newKubelet(w)
	return w
}

// Start builds the controller and fills its cache.
func (w *World) Start(c Controller) error {
	w.controller = c
	return w.start()
}

func (w *World) start() error {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // the root of a program in the simulation
	p := &Process{world: w, ctx: ctx, cancel: cancel, items: map[types.NamespacedName]*item{}}
	reconciler, err := w.controller.Build(Env{
		Client: &cachedClient{process: p}, Live: &liveReader{world: w}, Clock: Clock{w.engine},
		Pods: shuffled{Indexer: w.informers.pods, seed: w.seed}, Claims: shuffled{Indexer: w.informers.claims, seed: w.seed},
		Fields: w.informers, Events: recorder{},
	})
	if err != nil {
		cancel()
		return fmt.Errorf("build the controller: %w", err)
	}
	p.reconciler = reconciler
	w.informers.fill()
	w.process = p
	for _, obj := range sorted(w.informers.objects[w.controller.Kind]) {
		p.enqueue(client.ObjectKeyFromObject(obj), 0)
	}
	return nil
}

// Restart ends the controller in the middle of whatever it does, and starts a new one without its memory. Of its
// requests that are under way some are carried out and some not.
func (w *World) Restart() error {
	w.Tell("the controller restarts")
	w.Stop()
	return w.start()
}

// Stop ends the controller.
func (w *World) Stop() {
	if w.process == nil {
		return
	}
	w.process.kill()
	w.serve()
}

// Fail ends the run with an error; the first one counts.
func (w *World) Fail(err error) {
	if w.err == nil && err != nil {
		w.err = err
		w.Tell("VIOLATION: %v", err)
	}
}

// RunFor lets d pass. It returns the error that ended the run, if any.
func (w *World) RunFor(d time.Duration) error {
	end := w.Now().Add(d)
	reached := false
	w.After(d, func() { reached = true })
	for !reached && w.err == nil && !w.Now().After(end) && w.next() {
		w.serve()
	}
	return w.err
}

// Rest lets time pass until nothing is left that could happen by itself. If that takes longer than limit it is an
// error.
func (w *World) Rest(limit time.Duration) error {
	end := w.Now().Add(limit)
	for w.err == nil && w.next() {
		w.serve()
		if w.Now().After(end) {
			w.Fail(fmt.Errorf("the world is not at rest after %s", limit))
		}
	}
	return w.err
}

// serve answers the controller until it waits again.
func (w *World) serve() {
	for again := true; again; {
		again = false
		for _, c := range w.settle() {
			again = w.accept(c) || again
		}
		if w.process != nil {
			again = w.process.collect() || again
		}
	}
}

// accept takes a request. It returns true if it answered at once.
func (w *World) accept(c *call) bool {
	if c.process.dead {
		c.done = true
		c.answer <- context.Canceled
		return true
	}
	c.process.open = append(c.process.open, c)
	f := w.fault(c.label)
	w.After(f.latency, func() { w.carryOut(c, f) })
	return false
}

func (w *World) carryOut(c *call, f fault) {
	if c.done {
		return
	}
	c.done = true
	c.process.open = slices.DeleteFunc(c.process.open, func(o *call) bool { return o == c })
	c.answer <- c.do(f)
}

// changed is told of every change of the truth.
func (w *World) changed(kind Kind, key types.NamespacedName, before, after client.Object) {
	w.informers.changed(kind, key, after)
	if kind == "Pod" {
		if _, named := w.names[key.Name]; !named {
			w.names[key.Name] = fmt.Sprintf("pod-%d", len(w.names)+1)
		}
		w.Kubelet.changed(key, after)
	}
	w.storage.changed(kind, key, before, after)
	if w.Outside != nil {
		w.Outside(kind, before, after)
	}
}

// arrived is told of every event that reaches the cache.
func (w *World) arrived(kind Kind, before, after client.Object) {
	if w.process == nil || w.process.dead {
		return
	}
	for _, obj := range []client.Object{before, after} {
		if obj == nil {
			continue
		}
		switch kind {
		case w.controller.Kind:
			w.process.enqueue(client.ObjectKeyFromObject(obj), 0)
		case "Pod":
			w.process.podChanged(obj)
		}
	}
	if w.controller.Also != nil {
		for _, key := range w.controller.Also(kind, before, after) {
			w.process.enqueue(key, w.controller.Gather)
		}
	}
}

// name is how the story calls a pod.
func (w *World) name(name string) string {
	if alias, ok := w.names[name]; ok {
		return alias
	}
	return name
}

// Name is how the story calls an object of this name.
func (w *World) Name(name string) string { return w.name(name) }

// Story returns what happened, if it was told. Random names of pods are replaced by numbers.
func (w *World) Story() string {
	out := w.story.String()
	pairs := make([]string, 0, 2*len(w.names))
	for name, alias := range w.names {
		pairs = append(pairs, name, alias)
	}
	return strings.NewReplacer(pairs...).Replace(out)
}

// Get returns an object as the server holds it, or nil. It must not be changed.
func (w *World) Get(kind Kind, key types.NamespacedName) client.Object {
	return w.server.get(kind, key)
}

// List returns the objects of a kind as the server holds them, by name. They must not be changed.
func (w *World) List(kind Kind) []client.Object { return w.server.list(kind) }

// Cached returns the objects of a kind as the controller sees them now. They must not be changed.
func (w *World) Cached(kind Kind) []client.Object { return sorted(w.informers.objects[kind]) }

// Create makes an object, as a user does.
func (w *World) Create(obj client.Object) error {
	_, err := w.server.create(obj)
	return err
}

// Change changes all of an object but its status, as a user does. An object that is gone is no error.
func (w *World) Change(kind Kind, key types.NamespacedName, edit func(client.Object)) error {
	return w.edit(kind, key, "", edit)
}

// ChangeStatus changes the status of an object. An object that is gone is no error.
func (w *World) ChangeStatus(kind Kind, key types.NamespacedName, edit func(client.Object)) error {
	return w.edit(kind, key, "status", edit)
}

func (w *World) edit(kind Kind, key types.NamespacedName, sub string, edit func(client.Object)) error {
	_, err := w.server.change(kind, key, sub, func(obj client.Object) (client.Object, error) {
		edit(obj)
		return obj, nil
	})
	return client.IgnoreNotFound(err)
}

// Delete deletes an object, as a user does. An object that is gone is no error.
func (w *World) Delete(kind Kind, key types.NamespacedName) error {
	return client.IgnoreNotFound(w.server.delete(kind, key, client.DeleteOptions{}))
}

// Admit sets what refuses new objects, as a quota does; nil refuses none.
func (w *World) Admit(admit func(client.Object) error) { w.server.admit = admit }

// Interrupt breaks the watch of a kind: no event comes until Resume, which lists anew.
func (w *World) Interrupt(kind Kind) {
	w.Tell("the watch of %ss breaks", kind)
	w.informers.interrupt(kind)
}

// Resume lists a kind anew.
func (w *World) Resume(kind Kind) {
	w.Tell("%ss are listed anew", kind)
	w.informers.resume(kind)
}

// Look makes the controller look at a workload though nothing happened.
func (w *World) Look(key types.NamespacedName) { w.process.enqueue(key, 0) }

// result of a pass.
type result struct {
	key    types.NamespacedName
	result ctrl.Result
	err    error
}
