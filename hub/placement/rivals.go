package placement

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/hub/wire/karmada"
)

// rivals is where the policies of Karmada are read, nil where there is no Karmada. They are not of our scheme: the manager's client would
// ask the API server for them each time, its cache does not.
func rivals(mgr ctrl.Manager, withKarmada bool) client.Reader {
	if !withKarmada {
		return nil
	}
	return mgr.GetCache()
}

// watchRivals looks at all workloads that a policy of Karmada can select when one comes, changes or goes.
func (w *watches) watchRivals(controllers *builder.TypedBuilder[wire.Key]) *builder.TypedBuilder[wire.Key] {
	for _, kind := range karmada.PolicyKinds() {
		controllers = controllers.Watches(karmada.Object(kind), handler.TypedEnqueueRequestsFromMapFunc(w.rivalled),
			builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, deletionBegan())))
	}
	return controllers
}

// rivalled returns the workloads beside a policy of a namespace, and all for one of the whole control plane.
func (w *watches) rivalled(ctx context.Context, o client.Object) []wire.Key {
	if o.GetNamespace() == "" {
		return w.everyWorkload(ctx, o)
	}
	return w.workloadsBeside(ctx, o)
}
