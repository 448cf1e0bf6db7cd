package placement

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

// readStatefulSetLimits returns the limits of StatefulSets of apps/v1 for n replicas, without Update. They have no surge; where no
// maxUnavailable is given, or so small a percentage that it would be none, they take one pod at a time.
func readStatefulSetLimits(key wire.Key, strategy *appsv1.StatefulSetUpdateStrategy) (func(int32) lending.Amounts, *Refusal) {
	unavailable := new(intstr.FromInt32(1))
	if rolling := strategy.RollingUpdate; rolling != nil && rolling.MaxUnavailable != nil {
		unavailable = rolling.MaxUnavailable
	}
	if _, err := budget.Scaled(*unavailable, 1, budget.Down); err != nil {
		return nil, &Refusal{InvalidAmount, fmt.Sprintf("spec.template.statefulSetTemplate.spec.updateStrategy.rollingUpdate of %s: maxUnavailable %v", key.Sentence(), err)}
	}
	return func(n int32) lending.Amounts {
		// The error was refused above; it does not depend on n.
		down, _ := budget.Scaled(*unavailable, n, budget.Down)
		return lending.Amounts{Break: max(down, 1)}
	}, nil
}
