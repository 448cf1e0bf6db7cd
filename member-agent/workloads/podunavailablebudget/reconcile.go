package podunavailablebudget

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/disruption"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/podunavailablebudget/budgets"
)

// Reconciler counts the pods of PodUnavailableBudgets.
type Reconciler struct {
	*workload.Controller[*v1beta1.PodUnavailableBudget, memory]
	keeper *budgets.Keeper
}

// memory is nothing: a pass counts anew.
type memory struct{}

type pass = workload.Pass[*v1beta1.PodUnavailableBudget, memory]

// scope is one pass over one budget.
type scope struct {
	*pass
	pub      *v1beta1.PodUnavailableBudget
	members  []*corev1.Pod
	total    budgets.Total
	observed disruption.Observed
	// asked: the API server asks about requests in the namespace; enforced: it refuses them while no agent answers.
	asked, enforced bool
}

func (r *Reconciler) phases(p *pass) []workload.Phase {
	return workload.Phases(&scope{pass: p, pub: p.Object}, r.gather, r.count, r.mark, r.enforce,
		r.report)
}

// gather finds the pods and how many there are to be. Where that is unknown, all of them must stay.
func (r *Reconciler) gather(ctx context.Context, s *scope) (bool, error) {
	if s.Leaving != nil {
		return true, nil
	}
	var err error
	if s.members, err = budgets.Members(ctx, r.Client, s.pub); err != nil {
		return false, err
	}
	var unknown *budgets.ScaleError
	s.total, err = r.keeper.Total(ctx, s.pub, s.members)
	if errors.As(err, &unknown) {
		message := unknown.Error()
		if s.Budget.Granted {
			message = unknown.OnHub()
		}
		s.Stalled = &conditions.Cause{Reason: ReasonReplicasUnknown, Message: message}
		s.Sooner(lookAgain)
		return true, nil
	}
	if err != nil {
		return false, err
	}
	s.Stalled, err = r.overlap(ctx, s)
	return true, err
}

// lookAgain is when the scale of a workload of a kind that is not watched is read again.
const lookAgain = 30 * time.Second

// overlap returns the cause that another budget protects a pod of this one, nil if none does.
func (r *Reconciler) overlap(ctx context.Context, s *scope) (*conditions.Cause, error) {
	var list v1beta1.PodUnavailableBudgetList
	if err := r.Client.List(ctx, &list, client.InNamespace(s.pub.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list PodUnavailableBudgets: %w", err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.Name == s.pub.Name || other.DeletionTimestamp != nil {
			continue
		}
		for _, pod := range s.members {
			both, err := budgets.Protects(ctx, r.Client, other, pod)
			if err != nil {
				return nil, err
			}
			if both {
				return &conditions.Cause{Reason: ReasonOverlap, Message: fmt.Sprintf("PodUnavailableBudgets %s and %s both "+
					"protect pod %s, so both must allow each operation on it: delete one of them, or change their pods",
					s.pub.Name, other.Name, pod.Name)}, nil
			}
		}
	}
	return nil, nil
}

// count makes the counters.
func (r *Reconciler) count(_ context.Context, s *scope) (bool, error) {
	if s.Leaving != nil {
		return true, nil
	}
	now := r.Clock.Now()
	if s.Stalled != nil && s.Stalled.Reason == ReasonReplicasUnknown {
		s.total.Pods = int32(len(s.members))
	}
	s.observed = disruption.Observe(s.pub, budgets.GrantOf(s.Budget, s.pub), s.members, s.total.Pods, now)
	if s.Stalled != nil && s.Stalled.Reason == ReasonReplicasUnknown {
		s.observed.Status.DesiredAvailable, s.observed.Status.UnavailableAllowed = s.total.Pods, 0
	}
	if s.Sooner(s.observed.Wake); s.total.Unwatched {
		s.Sooner(lookAgain)
	}
	return true, nil
}
