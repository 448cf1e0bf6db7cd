package kinds

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

// readTemplate returns the pod template and the limits of the children, without Update.
func readTemplate(
	key wire.Key,
	t *apps.SubsetTemplate,
) (*corev1.PodTemplateSpec, func(int32) lending.Amounts, *Rejection) {
	switch {
	case t.CloneSetTemplate != nil:
		spec := &t.CloneSetTemplate.Spec
		limits, rejection := readLimits(
			key,
			"spec.template.cloneSetTemplate.spec.updateStrategy.rollingUpdate",
			spec.UpdateStrategy.RollingUpdate,
		)
		return &spec.Template.PodTemplateSpec, limits, rejection
	case t.DeploymentTemplate != nil:
		spec := &t.DeploymentTemplate.Spec
		limits, rejection := readDeploymentLimits(key, &spec.Strategy)
		return &spec.Template, limits, rejection
	case t.StatefulSetTemplate != nil:
		spec := &t.StatefulSetTemplate.Spec
		limits, rejection := readStatefulSetLimits(key, &spec.UpdateStrategy)
		return &spec.Template, limits, rejection
	case t.AdvancedStatefulSetTemplate != nil:
		spec := &t.AdvancedStatefulSetTemplate.Spec
		limits, rejection := statefulSetLimits(key, "spec.template.advancedStatefulSetTemplate.spec.", spec)
		return &spec.Template.PodTemplateSpec, limits, rejection
	}
	return nil, nil, &Rejection{
		UnsupportedTemplate,
		key.Sentence() + " has no template; give cloneSetTemplate, deploymentTemplate, advancedStatefulSetTemplate or " +
			"statefulSetTemplate",
	}
}

func readDeploymentLimits(key wire.Key, strategy *appsv1.DeploymentStrategy) (func(int32) lending.Amounts, *Rejection) {
	if strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return func(n int32) lending.Amounts { return lending.Amounts{Unavailable: n} }, nil
	}
	quarter := new(intstr.FromString("25%")) // the Deployment's own default of both
	unavailable, surge := quarter, quarter
	if rolling := strategy.RollingUpdate; rolling != nil {
		if rolling.MaxUnavailable != nil {
			unavailable = rolling.MaxUnavailable
		}
		if rolling.MaxSurge != nil {
			surge = rolling.MaxSurge
		}
	}
	resolve := func(n int32) (lending.Amounts, error) {
		down, err := budget.Scaled(*unavailable, n, budget.Down)
		if err != nil {
			return lending.Amounts{}, fmt.Errorf("maxUnavailable %w", err)
		}
		up, err := budget.Scaled(*surge, n, budget.Up)
		if err != nil {
			return lending.Amounts{}, fmt.Errorf("maxSurge %w", err)
		}
		if down == 0 && up == 0 {
			down = 1 // with neither, no pod could ever be replaced
		}
		return lending.Amounts{Unavailable: down, Surge: up}, nil
	}
	if _, err := resolve(1); err != nil {
		return nil, &Rejection{
			InvalidAmount,
			fmt.Sprintf("spec.template.deploymentTemplate.spec.strategy.rollingUpdate of %s: %v", key.Sentence(), err),
		}
	}
	return func(n int32) lending.Amounts {
		// The error was refused above; it does not depend on n.
		amounts, _ := resolve(n)
		return amounts
	}, nil
}

// readStatefulSetLimits returns the limits of StatefulSets of apps/v1 for n replicas, without Update. They have no
// surge; where no maxUnavailable is given, or so small a percentage that it would be none, they take one pod at a
// time.
func readStatefulSetLimits(
	key wire.Key,
	strategy *appsv1.StatefulSetUpdateStrategy,
) (func(int32) lending.Amounts, *Rejection) {
	unavailable := new(intstr.FromInt32(1))
	if rolling := strategy.RollingUpdate; rolling != nil && rolling.MaxUnavailable != nil {
		unavailable = rolling.MaxUnavailable
	}
	if _, err := budget.Scaled(*unavailable, 1, budget.Down); err != nil {
		return nil, &Rejection{
			InvalidAmount,
			fmt.Sprintf(
				"spec.template.statefulSetTemplate.spec.updateStrategy.rollingUpdate of %s: maxUnavailable %v",
				key.Sentence(),
				err,
			),
		}
	}
	return func(n int32) lending.Amounts {
		// The error was refused above; it does not depend on n.
		down, _ := budget.Scaled(*unavailable, n, budget.Down)
		return lending.Amounts{Unavailable: max(down, 1)}
	}, nil
}
