package newkind

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	memberagent "github.com/flotilla-dev/flotilla/member-agent"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

// rackKind is the entry of the hub's table.
func rackKind() kinds.Kind {
	return kinds.Kind{
		GVK: rackGVK, Mode: kinds.Divide,
		New:     func() kinds.Object { return &Rack{} },
		NewList: func() kinds.ObjectList { return &RackList{} },
		Read: func(o kinds.Object) (kinds.Workload, *kinds.Rejection) {
			spec := &o.(*Rack).Spec
			w := kinds.NewWorkload(o, rackGVK, spec.Replicas)
			w.Revision, w.Open, w.Paused = spec.Revision, true, spec.Paused
			w.Subsets = []kinds.Subset{{Amounts: spec.amounts}}
			return w, nil
		},
		Render: func(o kinds.Object, order *kinds.Order) (kinds.Manifest, error) {
			spec, replicas := o.(*Rack).Spec.granted(order.Cells)
			spec.Replicas = &replicas
			return kinds.Manifest{Spec: spec}, nil
		},
		Observe: func(o kinds.Object) kinds.Observed {
			rack := o.(*Rack)
			return rack.Status.observed(ptr.Deref(rack.Spec.Replicas, 1))
		},
		Status:   func(o kinds.Object, s *kinds.Sum, now time.Time) bool { return o.(*Rack).Status.sum(s, now) },
		StatusOf: func(o kinds.Object) any { return &o.(*Rack).Status },
	}
}

// amounts are the limits over all members while there are n pods.
func (s *Spec) amounts(n int32) lending.Amounts {
	unavailable, _ := budget.Scaled(ptr.Deref(s.MaxUnavailable, intstr.FromInt32(1)), n, budget.Up)
	return lending.Amounts{Updated: n - s.Partition, Unavailable: unavailable}
}

// granted returns the spec with the limits of one member, and how many pods its cells have.
func (s Spec) granted(cells []topology.Cell) (Spec, int32) {
	replicas, granted, waiting := kinds.Total(cells)
	s = s.copied()
	s.Partition, s.MaxUnavailable = max(replicas-granted.Updated, 0), new(intstr.FromInt32(granted.Unavailable))
	s.Paused = s.Paused || waiting
	return s, replicas
}

func (s *Status) observed(desired int32) kinds.Observed {
	return kinds.Observed{Generation: s.ObservedGeneration, UpdateRevision: s.Revision, Desired: desired}
}

// sum writes what members report together, and reports whether that changed something.
func (s *Status) sum(sum *kinds.Sum, now time.Time) bool {
	out := s.copied()
	whole := &sum.Whole
	out.ObservedGeneration, out.Revision, out.Desired = sum.ObservedGeneration, sum.UpdateRevision, whole.Desired
	out.Replicas, out.Available, out.Updated = whole.Replicas, whole.Available, whole.Updated
	out.Conditions = conditions.Merge(out.Conditions, now, sum.Conditions...)
	changed := !equality.Semantic.DeepEqual(s, &out)
	*s = out
	return changed
}

// rackMember is the agent's entry of the kind.
func rackMember() memberagent.Kind {
	return memberagent.Kind{
		GVK: rackGVK,
		Add: func(_ context.Context, env *workload.Env) error {
			r := &controller[*Rack]{parts: rackParts, desired: func(_ context.Context, rack *Rack) (int32, error) {
				return ptr.Deref(rack.Spec.Replicas, 1), nil
			}}
			b := workload.For(env, r.kind(rackGVK, func() *Rack { return &Rack{} },
				func() client.ObjectList { return &RackList{} }))
			r.Controller = b.Controller
			return b.Complete()
		},
		Reporting: func() workload.Reporting { return reporting(&Rack{}, rackParts) },
	}
}

func rackParts(r *Rack) (*Spec, *Status) { return &r.Spec, &r.Status }
