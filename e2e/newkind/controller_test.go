package newkind

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// controller runs objects of both kinds in a member. Their pods are numbers in the status: what it is about is how
// orders and reports go between hub and members.
type controller[T client.Object] struct {
	*workload.Controller[T, struct{}]
	parts   func(T) (*Spec, *Status)
	desired func(context.Context, T) (int32, error)
}

func (c *controller[T]) kind(
	gvk schema.GroupVersionKind, empty func() T, list func() client.ObjectList,
) workload.Kind[T, struct{}] {
	return workload.Kind[T, struct{}]{
		GVK: gvk, New: empty, NewList: list, Workers: 1,
		Phases: func(p *workload.Pass[T, struct{}]) []workload.Phase {
			return []workload.Phase{func(ctx context.Context) (bool, error) { return true, c.reconcile(ctx, p) }}
		},
	}
}

func (c *controller[T]) reconcile(ctx context.Context, p *workload.Pass[T, struct{}]) error {
	desired, err := c.desired(ctx, p.Object)
	if err != nil || p.Leaving != nil {
		return err
	}
	spec, have := c.parts(p.Object)
	want := spec.next(have, desired, !p.Budget.Expired)
	want.ObservedGeneration = p.Object.GetGeneration()
	p.Sooner(p.Budget.AskAgain())
	return c.Report(ctx, p, workload.Status{Have: have, Want: &want})
}

// next returns the status after a pass: missing pods are created with the newest revision, others are updated as far as
// the limits permit.
func (s *Spec) next(have *Status, desired int32, mayDisrupt bool) Status {
	out := have.copied()
	if have.Revision != s.Revision {
		out.Updated = 0
	}
	out.Updated = min(out.Updated+max(desired-have.Replicas, 0), desired)
	unavailable, err := budget.Scaled(ptr.Deref(s.MaxUnavailable, intstr.FromInt32(1)), desired, budget.Up)
	if err == nil && unavailable > 0 && mayDisrupt && !s.Paused {
		out.Updated = max(out.Updated, desired-s.Partition)
	}
	out.Revision, out.Desired, out.Replicas, out.Available = s.Revision, desired, desired, desired
	return out
}

// reporting is what a report asks about a kind.
func reporting[T client.Object](empty T, parts func(T) (*Spec, *Status)) workload.Reporting {
	return workload.Reporting{
		Use: func(live *unstructured.Unstructured) ([]work.SubsetUse, error) {
			object, err := workload.Decode(live, empty.DeepCopyObject().(T))
			if err != nil {
				return nil, err
			}
			_, status := parts(object)
			return []work.SubsetUse{status.use()}, nil
		},
		Observed: workload.Observed,
	}
}
