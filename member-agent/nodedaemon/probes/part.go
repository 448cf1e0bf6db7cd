package probes

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon"
)

// Part returns the part of the daemon that runs probes.
func Part() nodedaemon.Part {
	return nodedaemon.Part{
		Name: "probes", AddToScheme: v1alpha1.AddToScheme,
		Reads: func(node string) map[client.Object]cache.ByObject {
			return map[client.Object]cache.ByObject{&v1alpha1.NodePodProbe{}: nodedaemon.Named(node)}
		},
		Add: add,
	}
}

// reconciler has the probes of the node's NodePodProbe run.
type reconciler struct {
	reporter *reporter
	// begun is closed when the reporter runs; ctx is its context from then on.
	begun chan struct{}
	ctx   context.Context //nolint:containedctx // probes run for as long as the reporter, not as one pass
}

func newReconciler(env nodedaemon.Env) *reconciler {
	return &reconciler{reporter: &reporter{prober: newProber(env)}, begun: make(chan struct{})}
}

func add(mgr manager.Manager, env nodedaemon.Env) error {
	r := newReconciler(env)
	if err := mgr.Add(manager.RunnableFunc(r.run)); err != nil {
		return fmt.Errorf("add the probes: %w", err)
	}
	err := ctrl.NewControllerManagedBy(mgr).Named("probes").
		Watches(&v1alpha1.NodePodProbe{}, &handler.EnqueueRequestForObject{}).Complete(r)
	if err != nil {
		return fmt.Errorf("set up the probes: %w", err)
	}
	return nil
}

// run reports, and lets probes run, until ctx ends.
func (r *reconciler) run(ctx context.Context) error {
	r.ctx = ctx
	close(r.begun)
	return r.reporter.run(ctx)
}

// Reconcile brings the probes to the NodePodProbe. Without one none runs.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if request.Name != r.reporter.env.Node {
		return ctrl.Result{}, nil
	}
	select {
	case <-ctx.Done():
		return ctrl.Result{}, nil
	case <-r.begun:
	}
	object := &v1alpha1.NodePodProbe{}
	err := r.reporter.env.Client.Get(ctx, types.NamespacedName{Name: request.Name}, object)
	switch {
	case apierrors.IsNotFound(err):
		r.reporter.update(r.ctx, &v1alpha1.NodePodProbe{})
		r.reporter.forget()
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("read NodePodProbe %s: %w", request.Name, err)
	default:
		r.reporter.read(object)
		r.reporter.update(r.ctx, object)
	}
	return ctrl.Result{}, nil
}
