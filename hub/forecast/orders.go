package forecast

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/delivery"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

// Delivered returns what members have of a workload by its present placement, by the member's name. The reader has the
// state before any change. A template that the hub has not placed yet is not in it. The result is nil if the policy or
// a member changed since the placement was decided.
func Delivered(
	ctx context.Context,
	reader client.Reader,
	kind kinds.Kind,
	object client.Object,
	present *topology.WorkloadPlacement,
) (map[string][]byte, error) {
	spec := &present.Spec
	if t := kind.Template; t != nil && spec.Template != nil && !decision.RolledBack(spec) &&
		t.Revision(object) != spec.Revision {
		placed, err := t.Set(object, spec.Template.Raw)
		if err != nil {
			return nil, err
		}
		object = placed
	}
	manifests, _, err := delivery.Manifests(ctx, reader, kind, object, present, nil)
	return manifests, err
}

// Orders returns what members get by the decision of a forecast, by the member's name; nil where no decision is made,
// so that members keep what they have. previous is what they have now. The Rejection says why nothing is delivered.
func (f *Forecaster) Orders(
	ctx context.Context,
	key wire.Key,
	o *Forecast,
	previous map[string][]byte,
) (map[string][]byte, *kinds.Rejection, error) {
	switch {
	case o.Remove:
		return map[string][]byte{}, nil, nil
	case o.Next == nil || o.Object == nil:
		return nil, nil, nil
	}
	next := &topology.WorkloadPlacement{Spec: *o.Next}
	next.Namespace, next.Name = key.Placement().Namespace, key.Placement().Name
	if o.Present != nil {
		next.UID = o.Present.UID
	}
	return delivery.Manifests(ctx, f.reader, f.table[key.GroupKind()], o.Object, next, previous)
}

// Stages returns the waves or steps in which the update of a forecast goes, nil where it goes in none.
func (o *Forecast) Stages() []waves.Stage {
	if o.Next == nil || o.Policy == nil || o.Workload.NoWaves != "" {
		return nil
	}
	members := decision.MembersFor(o.members, &o.Policy.Spec.Clusters)
	return decision.Stages(&o.Policy.Spec.Rollout, o.Next, members)
}
