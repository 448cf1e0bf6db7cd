package inject

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/expr"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/marks"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/revision"
)

// resources returns the resources that the policy computes from those of the targets. It errs if there are no targets,
// or an expression cannot be computed.
func resources(policy *v1beta1.ResourcesPolicy, pod *corev1.Pod, sidecars map[string]bool) (
	corev1.ResourceRequirements, error,
) {
	var out corev1.ResourceRequirements
	targets, err := targetsOf(policy, pod, sidecars)
	if err != nil {
		return out, err
	}
	if err := bounded(targets); err != nil {
		return out, err
	}
	most := policy.TargetContainersMode == v1beta1.TargetContainersModeMax
	for _, e := range expr.Of(policy) {
		list, amounts := &out.Limits, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Limits }
		if !e.Limit {
			list, amounts = &out.Requests, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests }
		}
		total, complete := aggregate(targets, e.Resource, most, amounts)
		if e.Limit && !complete {
			continue
		}
		expression, err := expr.Parse(e.Text, string(e.Resource))
		if err != nil {
			return out, err
		}
		value, err := expression.Value(total)
		if err != nil {
			return out, err
		}
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[e.Resource] = value
	}
	return out, nil
}

// bounded errs if a container has an amount that cannot be computed with. The API server validates it later than this.
func bounded(containers []*corev1.Container) error {
	for _, c := range containers {
		for _, list := range []corev1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
			for name, amount := range list {
				if !expr.Bounded(amount) {
					return fmt.Errorf("the %s of container %s is too large or too small to compute with", name, c.Name)
				}
			}
		}
	}
	return nil
}

// targetsOf returns the containers of the pod that the policy selects.
func targetsOf(
	policy *v1beta1.ResourcesPolicy, pod *corev1.Pod, sidecars map[string]bool,
) ([]*corev1.Container, error) {
	names, err := expr.Names(policy)
	if err != nil {
		return nil, err
	}
	var out []*corev1.Container
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; isNative(c) && !sidecars[c.Name] && names.MatchString(c.Name) {
			out = append(out, c)
		}
	}
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; !sidecars[c.Name] && names.MatchString(c.Name) {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no containers match the regex pattern %q of targetContainersNameRegex", names)
	}
	return out, nil
}

func isNative(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// aggregate returns the sum, or the greatest, of what the containers have; complete if each of them has it.
func aggregate(
	containers []*corev1.Container, name corev1.ResourceName, most bool,
	amounts func(*corev1.Container) corev1.ResourceList,
) (total resource.Quantity, complete bool) {
	complete = true
	if name == corev1.ResourceMemory {
		defer func() { total.Format = resource.BinarySI }()
	}
	for i, c := range containers {
		amount, has := amounts(c)[name]
		complete = complete && has
		switch {
		case i == 0:
			total = amount.DeepCopy()
		case !most:
			total.Add(amount)
		case amount.Cmp(total) > 0:
			total = amount.DeepCopy()
		}
	}
	return total, complete
}

// Check reports what in the containers of a SidecarSet cannot be injected into any pod: values of wrong types, and
// expressions that cannot be computed, each with its field.
func Check(spec *v1beta1.SidecarSetSpec) error {
	if err := revision.Err(spec); err != nil {
		return err
	}
	if err := checkPairs(spec.Containers); err != nil {
		return err
	}
	return expr.Check(spec)
}

// checkPairs errs if the names of the two containers of a hot sidecar would be too long.
func checkPairs(list []v1beta1.SidecarContainer) error {
	for i := range list {
		pair := marks.Pair(list[i].Name)
		if marks.Hot(&list[i]) && len(validation.IsDNS1123Label(pair[0])) > 0 {
			return fmt.Errorf("%s: pods have two containers for a sidecar with upgradeType HotUpgrade, and %s cannot be the "+
				"name of one: give a shorter name of lower case letters, digits and -",
				field.NewPath("spec", "containers").Index(i).Child("name"), pair[0])
		}
	}
	return nil
}
