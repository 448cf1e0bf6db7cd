package simulator

import (
	"context"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Process is one life of the controller: its queue, its passes and its requests.
type Process struct {
	world      *World
	ctx        context.Context // the life of the process
	cancel     context.CancelFunc
	reconciler reconcile.Reconciler
	items      map[types.NamespacedName]*item
	open       []*call
	finished   []result // guarded by the engine's lock
	dead       bool
}

// item is a workload in the queue.
type item struct {
	// passes takes a word for each pass that is to be made.
	passes chan struct{}
	// due is when it is looked at next; zero where that is not planned.
	due     time.Time
	running bool
	// dirty says that it is to be looked at again.
	dirty    bool
	failures int
}

// The queue waits between failed passes, from the first to the last, twice as long each time.
const (
	firstBackoff = 50 * time.Millisecond
	lastBackoff  = 30 * time.Second
)

// enqueue looks at a workload after d, or earlier if that is planned already: as in a real queue one plan is kept.
func (p *Process) enqueue(key types.NamespacedName, d time.Duration) {
	it := p.items[key]
	if it == nil {
		it = &item{passes: make(chan struct{})}
		p.items[key] = it
		go p.work(key, it.passes)
	}
	at := p.world.Now().Add(d)
	if !it.due.IsZero() && !it.due.After(at) {
		return
	}
	it.due = at
	p.world.After(d, func() {
		if p.dead || !it.due.Equal(at) {
			return
		}
		it.due = time.Time{}
		if it.running {
			it.dirty = true
			return
		}
		p.begin(key, it)
	})
}

// podChanged looks at the workload of a pod; a pod without one may be anybody's in the namespace.
func (p *Process) podChanged(obj client.Object) {
	gather := p.world.controller.Gather
	if ref := metav1.GetControllerOfNoCopy(obj); ref != nil {
		if Kind(ref.Kind) == p.world.controller.Kind {
			p.enqueue(types.NamespacedName{Namespace: obj.GetNamespace(), Name: ref.Name}, gather)
		}
		return
	}
	for _, workload := range sorted(p.world.informers.objects[p.world.controller.Kind]) {
		if workload.GetNamespace() == obj.GetNamespace() {
			p.enqueue(client.ObjectKeyFromObject(workload), gather)
		}
	}
}

func (p *Process) begin(key types.NamespacedName, it *item) {
	it.running, it.dirty = true, false
	p.world.Passes++
	if p.world.Pass != nil {
		p.world.Pass(key)
	}
	it.passes <- struct{}{}
}

// work makes the passes over one workload. One goroutine makes them all: a new one would grow its stack each time.
func (p *Process) work(key types.NamespacedName, passes <-chan struct{}) {
	for range passes {
		out, err := p.reconciler.Reconcile(p.ctx, ctrl.Request{NamespacedName: key})
		p.world.mu.Lock()
		p.finished = append(p.finished, result{key: key, result: out, err: err})
		p.world.mu.Unlock()
	}
}

// collect takes the passes that ended. It returns true if there were any.
func (p *Process) collect() bool {
	p.world.mu.Lock()
	finished := p.finished
	p.finished = nil
	p.world.mu.Unlock()
	for _, f := range finished {
		if !p.dead {
			p.end(f)
		}
	}
	return len(finished) > 0
}

func (p *Process) end(f result) {
	if p.world.Options.Guard {
		p.world.Fail(p.world.informers.guard())
	}
	it := p.items[f.key]
	it.running = false
	switch {
	case f.err != nil:
		p.world.Tell("the pass failed: %v", f.err)
		p.enqueue(f.key, min(lastBackoff, firstBackoff<<min(it.failures, 20)))
		it.failures++
	default:
		it.failures = 0
		if f.result.RequeueAfter > 0 {
			p.enqueue(f.key, f.result.RequeueAfter)
		}
	}
	if it.dirty {
		p.begin(f.key, it)
	}
}

// kill ends the process. Of the requests under way some are carried out.
func (p *Process) kill() {
	p.dead = true
	p.cancel()
	r := rand.New(rand.NewPCG(p.world.seed, uint64(p.world.server.version)))
	for _, c := range p.open {
		if c.done = true; r.IntN(2) == 0 {
			_ = c.do(fault{}) // nobody is there to hear the answer
		}
		c.answer <- context.Canceled
	}
	p.open = nil
	for _, it := range p.items {
		close(it.passes)
	}
}

// recorder drops events: nothing that the controllers do depends on them.
type recorder struct{}

// Eventf drops an event.
func (recorder) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}
